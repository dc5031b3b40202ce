//! Nue (thesis chapter 6): routes inside the complete channel dependency graph, so that any
//! connected fabric is routed within any number of layers, one included.
//!
//! `nue` is oblivious; `sar-nue` orders destinations and counts weights like Algorithm 5.1, which
//! the thesis leaves as future work (6.4). Chosen here where the thesis leaves freedom: terminals
//! of one switch share a part of the partition; channel weights are common to all layers; every
//! switch's management port takes the routes of one of its terminals, or is a destination of its
//! own where there is none.

mod complete_cdg;
mod partition;
mod root;
mod search;

use self::complete_cdg::CompleteCdg;
use self::search::{EscapeForest, Search};
use super::{Engine, RouteError};
use crate::model::{Demand, DestId, Fabric, LayerBudget, SwitchId, Tables, TablesError, TerminalId};

/// The engines `nue` and `sar-nue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nue {
    /// Balance routes inside jobs rather than all routes.
    pub job_aware: bool,
}

/// Layers beyond eight gain nothing that the thesis measured, and hardware rarely has them.
const MOST_LAYERS: usize = 8;

impl Engine for Nue {
    fn name(&self) -> &'static str {
        if self.job_aware { "sar-nue" } else { "nue" }
    }

    fn route(&self, fabric: &Fabric, demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let switches = fabric.switches().len();
        let layers = usize::from(budget.get()).min(MOST_LAYERS).min(switches);
        let part = parts(fabric, layers);
        let mut state: Vec<(CompleteCdg<'_>, EscapeForest)> =
            (0..layers).map(|layer| open_layer(fabric, &part, layer)).collect();
        let connected = connected(fabric);
        let oblivious = Demand::oblivious();
        let demand = if self.job_aware { demand } else { &oblivious };
        let counts = Counts::new(fabric, demand);
        let mut filler = Filler::new(fabric);
        for phase in phases(fabric, demand, &counts, &part) {
            filler.weight.fill(0);
            for destination in phase {
                let home = fabric.home(destination.id);
                let layer = part[home.index()];
                let (cdg, escape) = &mut state[layer];
                filler.search.run(cdg, escape, home, connected[home.index()], &filler.weight);
                filler.store(destination.id, layer as u8);
                filler.add_load(&destination.sources);
            }
        }
        Ok(filler.finish(self.name())?)
    }
}

/// The layer of each switch's destinations.
fn parts(fabric: &Fabric, layers: usize) -> Vec<usize> {
    let weight: Vec<u64> = fabric.switch_ids().map(|s| fabric.attached(s).len().max(1) as u64).collect();
    partition::partition(fabric, &weight, layers)
}

fn open_layer<'a>(fabric: &'a Fabric, part: &[usize], layer: usize) -> (CompleteCdg<'a>, EscapeForest) {
    let targets: Vec<bool> = part.iter().map(|p| *p == layer).collect();
    let list: Vec<SwitchId> = fabric.switch_ids().filter(|s| targets[s.index()]).collect();
    let inside = root::convex_subgraph(fabric, &list);
    let root = root::most_central(fabric, &inside, &list).unwrap_or(SwitchId(0));
    let escape = EscapeForest::new(fabric, root);
    let mut cdg = CompleteCdg::new(fabric, &escape.order);
    escape.mark(fabric, &mut cdg, &targets);
    (cdg, escape)
}

/// `result[switch]`: size of its part of the fabric. O(channels).
fn connected(fabric: &Fabric) -> Vec<usize> {
    let forest = EscapeForest::new(fabric, SwitchId(0));
    let mut root: Vec<SwitchId> = fabric.switch_ids().collect();
    let mut size = vec![0; root.len()];
    for s in &forest.order {
        if let Some(c) = forest.parent[s.index()] {
            root[s.index()] = root[fabric.channel(c).from.index()];
        }
        size[root[s.index()].index()] += 1;
    }
    root.iter().map(|r| size[r.index()]).collect()
}

/// A destination, and whose routes to it count as load.
struct Destination<'a> {
    id: DestId,
    /// Counted sources as (switch, routes) lists.
    sources: Vec<&'a [(SwitchId, u64)]>,
}

/// Sources per switch: of everybody, and of each group.
struct Counts {
    hosts: Vec<(SwitchId, u64)>,
    groups: Vec<Vec<(SwitchId, u64)>>,
}

impl Counts {
    fn new(fabric: &Fabric, demand: &Demand) -> Self {
        let count = |terminals: &mut dyn Iterator<Item = TerminalId>| {
            let mut at: Vec<SwitchId> = terminals.map(|t| fabric.terminal(t).switch).collect();
            at.sort_unstable();
            at.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect()
        };
        Self {
            hosts: count(&mut fabric.host_ids()),
            groups: demand.groups.iter().map(|g| count(&mut g.terminals.iter().copied())).collect(),
        }
    }
}

/// Destinations in the order of routing; each inner list starts with zero weights (Algorithm 5.1:
/// jobs by descending size, then storage, then all others).
fn phases<'a>(
    fabric: &Fabric,
    demand: &Demand,
    counts: &'a Counts,
    part: &[usize],
) -> Vec<Vec<Destination<'a>>> {
    let groups_of = demand.groups_of(fabric);
    let mut in_jobs: Vec<TerminalId> =
        fabric.terminal_ids().filter(|t| !groups_of[t.index()].is_empty()).collect();
    // Groups come largest first, so the first group of a terminal is its largest.
    in_jobs.sort_by_key(|t| (groups_of[t.index()][0], *t));
    let jobs = in_jobs.iter().map(|t| Destination {
        id: fabric.dest_of_terminal(*t),
        sources: groups_of[t.index()].iter().map(|g| counts.groups[*g as usize].as_slice()).collect(),
    });
    let jobs = jobs.collect();
    let everybody = |d: DestId| Destination {
        id: d,
        sources: fabric.dest_terminal(d).map(|_| counts.hosts.as_slice()).into_iter().collect(),
    };
    let left = |t: &TerminalId| groups_of[t.index()].is_empty();
    let storage = demand.storage.iter().copied().filter(left).map(|t| everybody(fabric.dest_of_terminal(t)));
    let storage = storage.collect();
    let rest = fabric.terminal_ids().filter(|t| left(t) && demand.storage.binary_search(t).is_err());
    let bare = fabric.switch_ids().filter(|s| fabric.attached(*s).is_empty());
    let mut others: Vec<DestId> = rest.map(|t| fabric.dest_of_terminal(t)).collect();
    others.extend(bare.map(|s| fabric.dest_of_switch(s)));
    others.sort_by_key(|d| (part[fabric.home(*d).index()], fabric.home(*d), *d));
    vec![jobs, storage, others.into_iter().map(everybody).collect()]
}

/// Tables under construction.
struct Filler<'a> {
    fabric: &'a Fabric,
    search: Search<'a>,
    /// `weight[channel]`: load so far, in the direction of the search.
    weight: Vec<u64>,
    /// Scratch: routes from a switch and what lies behind it.
    below: Vec<u64>,
    ports: Vec<u8>,
    layers: Vec<u8>,
}

impl<'a> Filler<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let entries = fabric.switches().len() * fabric.dest_count();
        Self {
            fabric,
            search: Search::new(fabric),
            weight: vec![0; fabric.channels().len()],
            below: vec![0; fabric.switches().len()],
            ports: vec![Tables::UNREACHABLE; entries],
            layers: vec![Tables::NO_LAYER; entries],
        }
    }

    /// Writes the tree of the last search.
    fn store(&mut self, d: DestId, layer: u8) {
        let first = d.index() * self.fabric.switches().len();
        for s in &self.search.order {
            let port = match self.search.used[s.index()] {
                Some(c) => self.fabric.channel(c).to_port,
                None => self.fabric.last_port(d),
            };
            self.ports[first + s.index()] = port.get();
            if !self.fabric.attached(*s).is_empty() {
                self.layers[first + s.index()] = if *s == self.fabric.home(d) { 0 } else { layer };
            }
        }
    }

    /// Adds the routes of the last search to the weights. O(switches).
    fn add_load(&mut self, sources: &[&[(SwitchId, u64)]]) {
        self.below.fill(0);
        for (s, routes) in sources.iter().copied().flatten() {
            self.below[s.index()] += routes;
        }
        for s in self.search.order.iter().rev() {
            if let Some(c) = self.search.used[s.index()] {
                self.weight[c.index()] += self.below[s.index()];
                self.below[self.fabric.channel(c).from.index()] += self.below[s.index()];
            }
        }
    }

    /// Management ports of switches with terminals take the routes of their first terminal.
    fn finish(mut self, engine: &str) -> Result<Tables, TablesError> {
        let switches = self.fabric.switches().len();
        for s in self.fabric.switch_ids() {
            let Some(t) = self.fabric.attached(s).first() else { continue };
            let from = self.fabric.dest_of_terminal(*t).index() * switches;
            let to = self.fabric.dest_of_switch(s).index() * switches;
            self.ports.copy_within(from..from + switches, to);
            self.layers.copy_within(from..from + switches, to);
            self.ports[to + s.index()] = 0;
        }
        Tables::new(self.fabric, engine, self.ports, self.layers)
    }
}
