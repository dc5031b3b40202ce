//! Routes of storage per channel, beside what no tables can be below.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bound::packing;
use super::hops::Hops;
use super::loads::add_tree;
use crate::model::{Demand, Fabric, StorageFlows, SwitchId, TerminalId};
use crate::verify::trees::Trees;

/// Routes between storage servers and the hosts of jobs on the fullest channel between switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct StorageLoad {
    /// Servers, and hosts of jobs that are none.
    pub servers: u64,
    /// See there.
    pub clients: u64,
    /// Routes from servers to hosts.
    pub reads: Fullest,
    /// Routes from hosts to servers.
    pub writes: Fullest,
    /// Both, each counted as often as its weight says.
    pub both: Fullest,
    /// The same on the fullest cable of a server, in the fuller direction: what tables cannot change. Channels
    /// with fewer delay nobody where all read and write at once.
    pub cables: u64,
}

/// The fullest channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Fullest {
    /// Its routes.
    pub max: u64,
    /// No tables can have a smaller `max`.
    pub lower_bound: u64,
}

/// Terminals, and the routes to each of them by the switch where they start.
type Side<'a> = (&'a [TerminalId], &'a [(SwitchId, u32)]);

/// `None` without servers or without jobs. O((servers + hosts of jobs) × switches).
pub(super) fn of(trees: &Trees<'_>, parts: &[u32], demand: &Demand) -> Option<StorageLoad> {
    let storage = &demand.storage;
    let even = storage.clone().weighing(1, 1);
    let plain = StorageFlows::between(trees.fabric, &demand.groups, &even);
    let weighed = StorageFlows::of(trees.fabric, demand);
    if plain.clients.is_empty() {
        return None;
    }
    let (servers, clients) = (storage.servers.as_slice(), plain.clients.as_slice());
    let fullest = |sides: &[Side<'_>]| Fullest {
        max: most(trees, sides),
        lower_bound: bound(trees.fabric, parts, sides),
    };
    Some(StorageLoad {
        servers: servers.len() as u64,
        clients: clients.len() as u64,
        reads: fullest(&[(clients, &plain.reads)]),
        writes: fullest(&[(servers, &plain.writes)]),
        both: fullest(&[(clients, &weighed.reads), (servers, &weighed.writes)]),
        cables: clients.len() as u64 * u64::from(storage.reads.max(storage.writes)),
    })
}

/// Each terminal of all sides with what comes to it.
fn each<'a>(sides: &[Side<'a>]) -> impl Iterator<Item = (TerminalId, &'a [(SwitchId, u32)])> {
    sides.iter().flat_map(|(to, from)| to.iter().map(move |t| (*t, *from)))
}

/// Routes on the fullest channel.
fn most(trees: &Trees<'_>, sides: &[Side<'_>]) -> u64 {
    let mut loads = vec![0; trees.fabric.channels().len()];
    let (mut tree, mut weight) = (trees.room(), vec![0; trees.fabric.switches().len()]);
    for (t, from) in each(sides) {
        weight.fill(0);
        from.iter().for_each(|(s, n)| weight[s.index()] = u64::from(*n));
        trees.trace(trees.fabric.dest_of_terminal(t), &mut tree);
        add_tree(trees, &tree, &mut weight, &mut loads);
    }
    loads.into_iter().max().unwrap_or(0)
}

/// What the channels of one switch must carry, out of it or into it (see [`super::bound`]), and what all channels
/// carry together with shortest routes.
fn bound(fabric: &Fabric, parts: &[u32], sides: &[Side<'_>]) -> u64 {
    let switches = fabric.switches().len();
    let (mut leaving, mut coming) = (vec![Vec::new(); switches], vec![Vec::new(); switches]);
    let mut hops = 0;
    let mut towards: Vec<_> = each(sides).collect();
    let home = |t: TerminalId| fabric.terminal(t).switch.index();
    towards.sort_by_key(|(t, _)| home(*t));
    for same in towards.chunk_by(|(a, _), (b, _)| home(*a) == home(*b)) {
        let home = home(same[0].0);
        let to_home = Hops::to(fabric, &[home]);
        let from = same.iter().flat_map(|(_, from)| from.iter());
        for (s, n) in from.filter(|(s, _)| s.index() != home && parts[s.index()] == parts[home]) {
            leaving[s.index()].push(u64::from(*n));
            coming[home].push(u64::from(*n));
            hops += u64::from(*n) * u64::from(to_home.of(0)[s.index()]);
        }
    }
    let by_switch = |items: Vec<Vec<u64>>| -> u64 {
        let packed = items.into_iter().enumerate().map(|(s, items)| {
            let channels = fabric.out(SwitchId::at(s)).len() as u64;
            if channels == 0 { 0 } else { packing(items, channels) }
        });
        packed.max().unwrap_or(0)
    };
    let channels = (fabric.channels().len() as u64).max(1);
    by_switch(leaving).max(by_switch(coming)).max(hops.div_ceil(channels))
}
