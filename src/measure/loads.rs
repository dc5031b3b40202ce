//! Routes per channel: all of them, or those inside jobs.

use rayon::prelude::*;
use schemars::JsonSchema;

use super::hops::{Hops, TOGETHER};
use crate::model::{DestId, Fabric, Group, SwitchId, Tables, TerminalId};
use crate::verify::trees::{LOST, Tree, Trees};

/// What one job gets from the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, serde::Serialize, serde::Deserialize)]
pub struct JobFigures {
    /// Its routes on the channel that carries most of them.
    pub max: u64,
    /// Channels that carry at least one of its routes.
    pub links: u64,
}

/// Hosts attached to each switch: `result[switch]`.
pub(super) fn hosts_per_switch(fabric: &Fabric) -> Vec<u64> {
    let mut hosts = vec![0; fabric.switches().len()];
    fabric.host_ids().for_each(|t| hosts[fabric.terminal(t).switch.index()] += 1);
    hosts
}

/// Adds `weight[s]` routes from each switch `s` along the tree to its channels: one sweep from the
/// farthest switches to home. `weight` becomes the subtree sums.
pub(super) fn add_tree(trees: &Trees<'_>, tree: &Tree, weight: &mut [u64], loads: &mut [u64]) {
    for s in tree.order[1..].iter().rev().map(|s| *s as usize) {
        let w = weight[s];
        loads[tree.next[s] as usize] += w;
        weight[tree.parent(trees, s)] += w;
    }
}

/// Routes between the terminals of one group, added to `loads`, by channel, where there are none yet. The channels
/// that carry some are left in `room`.
fn add_group(trees: &Trees<'_>, group: &Group, room: &mut Room, loads: &mut [u64]) {
    room.touched.clear();
    let home = |t: &TerminalId| trees.fabric.terminal(*t).switch.index();
    let mut members: Vec<usize> = group.terminals.iter().map(home).collect();
    members.sort_unstable();
    let sources: Vec<(usize, u64)> =
        members.chunk_by(|a, b| a == b).map(|c| (c[0], c.len() as u64)).collect();
    // Walking a few paths is cheaper than tracing the whole tree.
    let sparse = sources.len() * 16 < trees.fabric.switches().len();
    for d in group.terminals.iter().map(|t| trees.fabric.dest_of_terminal(*t)) {
        if sparse {
            sources.iter().for_each(|(s, w)| room.add_path(trees, d, *s, *w, loads));
            continue;
        }
        trees.trace(d, &mut room.tree);
        room.weight.fill(0);
        sources.iter().for_each(|(s, w)| room.weight[*s] = *w);
        add_tree(trees, &room.tree, &mut room.weight, loads);
    }
    if !sparse {
        let loaded = (0..).zip(loads).filter(|(_, load)| **load > 0);
        room.touched.extend(loaded.map(|(c, _)| c));
    }
}

/// Scratch of one thread.
struct Room {
    tree: Tree,
    weight: Vec<u64>,
    path: Vec<u32>,
    /// Channels that carry routes of the group at hand.
    touched: Vec<u32>,
}

impl Room {
    fn new(trees: &Trees<'_>) -> Self {
        let weight = vec![0; trees.fabric.switches().len()];
        Self { tree: trees.room(), weight, path: Vec::new(), touched: Vec::new() }
    }

    /// Adds `w` routes from `s` to `d`; nothing if the route does not arrive.
    fn add_path(&mut self, trees: &Trees<'_>, d: DestId, s: usize, w: u64, loads: &mut [u64]) {
        let (home, ports) = (trees.fabric.home(d).index(), trees.tables.ports_to(d));
        self.path.clear();
        let mut at = s;
        while at != home {
            let c = trees.wiring.channel(at, ports[at]);
            if c as usize >= loads.len() || self.path.len() >= ports.len() {
                return;
            }
            self.path.push(c);
            at = trees.wiring.to[c as usize] as usize;
        }
        for c in &self.path {
            let load = &mut loads[*c as usize];
            if *load == 0 {
                self.touched.push(*c);
            }
            *load += w;
        }
    }
}

/// Sums of all parts, entry by entry.
pub(super) fn sum(mut a: Vec<u64>, b: Vec<u64>) -> Vec<u64> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

/// Host-to-host routes per channel, and path lengths.
#[derive(Debug, Clone, Default)]
pub(super) struct AllPairs {
    /// Routes per channel.
    pub(super) loads: Vec<u64>,
    /// Ordered pairs of hosts on different switches whose route arrives, by its channels.
    pub(super) by_hops: Vec<u64>,
    /// Those of them that are as short as the fabric allows.
    pub(super) minimal: u64,
}

impl AllPairs {
    fn and(mut self, other: Self) -> Self {
        merge(&mut self.loads, &other.loads, |a, b| a + b);
        merge(&mut self.by_hops, &other.by_hops, |a, b| a + b);
        self.minimal += other.minimal;
        self
    }

    /// Without a part of it.
    fn without(mut self, part: &Self) -> Self {
        merge(&mut self.loads, &part.loads, |a, b| a - b);
        merge(&mut self.by_hops, &part.by_hops, |a, b| a - b);
        self.minimal -= part.minimal;
        self
    }

    /// Number of routes.
    pub(super) fn pairs(&self) -> u64 {
        self.by_hops.iter().sum()
    }

    /// Sum of their lengths.
    pub(super) fn hops(&self) -> u64 {
        self.by_hops.iter().zip(0..).map(|(n, hops)| n * hops).sum()
    }

    /// Length of the longest.
    pub(super) fn longest(&self) -> u32 {
        self.by_hops.iter().rposition(|n| *n > 0).unwrap_or(0) as u32
    }
}

/// Puts `b` into `a`, entry by entry.
fn merge(a: &mut Vec<u64>, b: &[u64], put: impl Fn(u64, u64) -> u64) {
    a.resize(a.len().max(b.len()), 0);
    a.iter_mut().zip(b).for_each(|(a, b)| *a = put(*a, *b));
}

/// The same of other tables on the fabric: only trees that differ are looked at, unless most do. As
/// [`all_pairs`] for these.
pub(super) fn all_pairs_since(before: &Trees<'_>, known: &AllPairs, after: &Trees<'_>) -> AllPairs {
    let differs = |d: DestId| before.tables.ports_to(d) != after.tables.ports_to(d);
    let dests = || after.fabric.host_ids().map(|t| after.fabric.dest_of_terminal(t));
    if 2 * dests().filter(|d| differs(*d)).count() > dests().count() {
        return all_pairs(after, |_| true);
    }
    known.clone().without(&all_pairs(before, differs)).and(all_pairs(after, differs))
}

/// Of the routes to destinations that count: one sweep for each, and the hops between their switches.
/// O(hosts × switches), and as [`Hops::to`].
pub(super) fn all_pairs(trees: &Trees<'_>, counts: impl Fn(DestId) -> bool + Sync) -> AllPairs {
    let fabric = trees.fabric;
    let hosts = hosts_per_switch(fabric);
    let homes: Vec<_> = fabric.switch_ids().filter(|s| hosts[s.index()] > 0).collect();
    let dests = |home: SwitchId| {
        let is_host = |t: &&TerminalId| fabric.terminal(**t).role == crate::model::Role::Host;
        let dests = fabric.attached(home).iter().filter(is_host).map(|t| fabric.dest_of_terminal(*t));
        dests.filter(|d| counts(*d))
    };
    let some = homes.into_iter().filter(|home| dests(*home).next().is_some());
    let homes: Vec<usize> = some.map(SwitchId::index).collect();
    let each = homes.len().div_ceil(4 * rayon::current_num_threads()).clamp(1, TOGETHER);
    let partial = homes.par_chunks(each).map(|homes| {
        let mut part = AllPairs { loads: vec![0; fabric.channels().len()], ..AllPairs::default() };
        let (mut room, hops) = (Room::new(trees), Hops::to(fabric, homes));
        for (i, home) in homes.iter().enumerate() {
            for d in dests(SwitchId::at(*home)) {
                trees.trace(d, &mut room.tree);
                room.weight.copy_from_slice(&hosts);
                add_tree(trees, &room.tree, &mut room.weight, &mut part.loads);
                count_paths(&room.tree, &hosts, hops.of(i), &mut part);
            }
        }
        part
    });
    partial.reduce(AllPairs::default, AllPairs::and)
}

fn count_paths(tree: &Tree, hosts: &[u64], distance: &[u32], part: &mut AllPairs) {
    for (s, n) in hosts.iter().enumerate().filter(|(s, n)| **n > 0 && *s != tree.home) {
        let depth = tree.depth[s];
        if depth != LOST {
            let hops = depth as usize;
            if part.by_hops.len() <= hops {
                part.by_hops.resize(hops + 1, 0);
            }
            part.by_hops[hops] += n;
            part.minimal += n * u64::from(depth == distance[s]);
        }
    }
}

/// Routes inside jobs per channel, all jobs together, and what each job gets.
pub(super) fn jobs(trees: &Trees<'_>, groups: &[Group]) -> (Vec<u64>, Vec<JobFigures>) {
    let channels = trees.fabric.channels().len();
    let tasks = groups.par_chunks(groups.len().div_ceil(8 * rayon::current_num_threads()).max(1));
    let partial = tasks.map(|groups| {
        let (mut room, mut all, mut own) = (Room::new(trees), vec![0; channels], vec![0u64; channels]);
        let mut figures = Vec::with_capacity(groups.len());
        for group in groups {
            add_group(trees, group, &mut room, &mut own);
            let max = room.touched.iter().map(|c| own[*c as usize]).max().unwrap_or(0);
            figures.push(JobFigures { max, links: room.touched.len() as u64 });
            for c in room.touched.iter().map(|c| *c as usize) {
                all[c] += std::mem::take(&mut own[c]);
            }
        }
        (all, figures)
    });
    let nothing = || (vec![0; channels], Vec::new());
    partial.reduce(nothing, |(a, mut f), (b, g)| {
        f.extend(g);
        (sum(a, b), f)
    })
}

/// Host-to-host routes over each channel (Definition 3.12, edge forwarding index), indexed by
/// channel. Routes that do not arrive are not counted. O(hosts × switches).
pub fn channel_loads(fabric: &Fabric, tables: &Tables) -> Vec<u64> {
    of_all(fabric, all_pairs(&Trees::new(fabric, tables), |_| true).loads)
}

/// Loads of all channels: nothing was counted where there are no hosts.
fn of_all(fabric: &Fabric, mut loads: Vec<u64>) -> Vec<u64> {
    loads.resize(fabric.channels().len(), 0);
    loads
}

/// Routes inside the groups over each channel (Definition 5.1), indexed by channel: a route
/// between two terminals counts once per group that holds both.
/// O(sum over groups of terminals × min(switches, switches of the group × hops)).
pub fn effective_loads(fabric: &Fabric, tables: &Tables, groups: &[Group]) -> Vec<u64> {
    of_all(fabric, jobs(&Trees::new(fabric, tables), groups).0)
}

/// Figures of each group by itself, in the order of `groups`. Cost as [`effective_loads`].
pub fn per_job(fabric: &Fabric, tables: &Tables, groups: &[Group]) -> Vec<JobFigures> {
    jobs(&Trees::new(fabric, tables), groups).1
}
