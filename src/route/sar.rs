//! `sar`: scheduling-aware routing (thesis Algorithm 5.1): the trees of `dfsssp`, where channel
//! weights count only routes inside jobs.
//!
//! Two things that the algorithm leaves open are decided so that jobs on few switches spread well. Among jobs of one
//! size, destinations are taken job by job and in turn over the job's switches. A route weighs as soon as it is
//! chosen. `sar-literal` reads the algorithm's lines 7 to 10 to the letter instead: routes weigh when all those to
//! their destination are chosen.

use std::cmp::Reverse;

use super::cdg::Dependencies;
use super::forest::{Forest, complete_switches};
use super::graph::{Graph, hosts_per_switch};
use super::trees::{Join, Levels, Load, TreeBuilder};
use super::{Engine, RouteError, dfsssp, job_layers};
use crate::model::{Demand, Fabric, LayerBudget, Role, Storage, StorageFlows, Tables, TerminalId};

/// Algorithm 5.1. With an oblivious demand it is `dfsssp`.
#[derive(Debug, Clone, Copy)]
pub struct Sar {
    /// All routes inside one job on one layer (see [`job_layers`]).
    pub layer_per_job: bool,
    /// When a route weighs: at once, or when all to its destination are chosen.
    pub join: Join,
}

impl Engine for Sar {
    fn name(&self) -> &'static str {
        match self.join {
            Join::Sparingly => "sar",
            Join::Freely => "sar-literal",
        }
    }

    fn route(&self, fabric: &Fabric, demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let forest = job_aware_forest(fabric, &graph, demand, self.join);
        if !self.layer_per_job || demand.is_oblivious() {
            return dfsssp::layered(fabric, &graph, forest, self.name(), budget);
        }
        let deps = Dependencies::new(&graph);
        job_layers::assign((fabric, &graph), &deps, demand, forest, self.name(), budget)
    }
}

/// The trees of Algorithm 5.1, lines 5–16. First terminals of jobs, largest job first, over weights that count routes
/// inside jobs and what they read from storage, at once or tree by tree (`join`). Then storage over what storage
/// loads so far, then all others over weights of their own. O(terminals × (switches + channels)).
fn job_aware_forest(fabric: &Fabric, graph: &Graph, demand: &Demand, join: Join) -> Forest {
    let mut forest = Forest::new(fabric);
    let mut levels = Levels::new(graph);
    let mut builder = TreeBuilder::new(graph);
    let mut weights = vec![0; graph.channels()];
    let mut sharing = Sharing::new(fabric, demand);
    let mut stored = Stored::new(fabric, graph, demand);
    let mut done = vec![false; fabric.terminals().len()];
    for t in largest_job_first(fabric, demand, &sharing.groups) {
        levels.search(graph, fabric.terminal(t).switch.index());
        let sources = sharing.sources(fabric, demand, t);
        let load = Load { sources: stored.with(t, sources), times: 1 };
        builder.grow(join, &levels, load, &mut weights, forest.tree_mut(t.index()));
        stored.add(&mut builder, t);
        done[t.index()] = true;
    }
    let hosts = hosts_per_switch(fabric);
    let others = fabric.switch_ids().flat_map(|s| fabric.attached(s)).copied();
    for (phase, start) in [(demand.storage.servers.clone(), Some(&stored)), (others.collect(), None)] {
        match start {
            Some(stored) => weights.copy_from_slice(&stored.loads),
            None => weights.fill(0),
        }
        for t in phase {
            if std::mem::replace(&mut done[t.index()], true) {
                continue;
            }
            let tree = forest.tree_mut(t.index());
            levels.search(graph, fabric.terminal(t).switch.index());
            if let Some(load) = start.and_then(|stored| stored.load(t)) {
                builder.grow(join, &levels, load, &mut weights, tree);
                continue;
            }
            builder.cheapest(&levels, &weights, tree);
            if fabric.terminal(t).role == Role::Host {
                builder.add_load(Load { sources: &hosts, times: 1 }, &mut weights);
            }
        }
    }
    complete_switches(fabric, &mut forest, |s, tree| {
        levels.search(graph, s);
        builder.cheapest(&levels, &weights, tree);
    });
    forest
}

/// What storage adds to the routes inside jobs.
struct Stored<'a> {
    storage: &'a Storage,
    flows: StorageFlows,
    /// Routes per source switch to the terminal at hand, and of a job too.
    sources: Vec<u32>,
    both: Vec<u32>,
    /// Writes to a server per source switch.
    writes: Vec<u32>,
    /// What storage puts on each channel so far.
    loads: Vec<u64>,
}

impl<'a> Stored<'a> {
    fn new(fabric: &Fabric, graph: &Graph, demand: &'a Demand) -> Self {
        let flows = StorageFlows::of(fabric, demand);
        let mut writes = vec![0; fabric.switches().len()];
        flows.writes.iter().for_each(|(s, n)| writes[s.index()] = *n);
        let none = vec![0; fabric.switches().len()];
        let loads = vec![0; graph.channels()];
        Self { storage: &demand.storage, flows, sources: none.clone(), both: none, writes, loads }
    }

    /// Routes per source switch to a terminal in a job, with those of storage.
    fn with<'b>(&'b mut self, t: TerminalId, of_jobs: &'b [u32]) -> &'b [u32] {
        if self.storage.is_empty() {
            return of_jobs;
        }
        self.sources.fill(0);
        self.flows.to(self.storage, t).iter().for_each(|(s, n)| self.sources[s.index()] = *n);
        self.both.iter_mut().zip(of_jobs).zip(&self.sources).for_each(|((both, a), b)| *both = a + b);
        &self.both
    }

    /// Notes the load of the last tree, which was that of [`Stored::with`].
    fn add(&mut self, builder: &mut TreeBuilder, t: TerminalId) {
        if !self.flows.to(self.storage, t).is_empty() {
            builder.add_load(Load { sources: &self.sources, times: 1 }, &mut self.loads);
        }
    }

    /// The writes to a server; `None` if nobody is known to write.
    fn load(&self, server: TerminalId) -> Option<Load<'_>> {
        let is_written = !self.flows.to(self.storage, server).is_empty();
        is_written.then_some(Load { sources: &self.writes, times: 1 })
    }
}

/// How many terminals of each switch share a job with one destination.
struct Sharing {
    /// Groups of each terminal.
    groups: Vec<Vec<u32>>,
    /// The groups that `sources` is for.
    current: Vec<u32>,
    /// Routes per source switch.
    sources: Vec<u32>,
    /// Largest weight of a shared group, per terminal.
    weight: Vec<u32>,
}

impl Sharing {
    fn new(fabric: &Fabric, demand: &Demand) -> Self {
        Self {
            groups: demand.groups_of(fabric),
            current: Vec::new(),
            sources: vec![0; fabric.switches().len()],
            weight: vec![0; fabric.terminals().len()],
        }
    }

    /// Routes to `dest` per source switch: one for each terminal that shares a group with it,
    /// times the group's weight (the largest, if they share several). O(sizes of its groups),
    /// nothing if the last destination was in the same groups.
    fn sources(&mut self, fabric: &Fabric, demand: &Demand, dest: TerminalId) -> &[u32] {
        let groups = &self.groups[dest.index()];
        if self.current != *groups {
            self.current.clone_from(groups);
            self.sources.fill(0);
            let shared = || groups.iter().map(|g| &demand.groups[*g as usize]);
            for group in shared() {
                for t in &group.terminals {
                    let weight = &mut self.weight[t.index()];
                    *weight = group.weight.max(*weight);
                }
            }
            for t in shared().flat_map(|g| &g.terminals) {
                let weight = std::mem::take(&mut self.weight[t.index()]);
                self.sources[fabric.terminal(*t).switch.index()] += weight;
            }
        }
        &self.sources
    }
}

/// Terminals of jobs: largest job first (line 5); among equals job by job, and of each job one
/// terminal per switch in turn.
fn largest_job_first(fabric: &Fabric, demand: &Demand, groups: &[Vec<u32>]) -> Vec<TerminalId> {
    let size = |t: TerminalId| {
        groups[t.index()].iter().map(|g| demand.groups[*g as usize].terminals.len()).max().unwrap_or(0)
    };
    // Of each switch, how many terminals of the same groups came before.
    let mut before = std::collections::BTreeMap::new();
    let mut keyed = Vec::new();
    for t in fabric.switch_ids().flat_map(|s| fabric.attached(s)).copied().filter(|t| size(*t) > 0) {
        let of = &groups[t.index()];
        let turn = before.entry((fabric.terminal(t).switch, of)).or_insert(0u32);
        keyed.push((Reverse(size(t)), of, *turn, t));
        *turn += 1;
    }
    // Stable: equal turns stay in the order of switches.
    keyed.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
    keyed.into_iter().map(|(.., t)| t).collect()
}
