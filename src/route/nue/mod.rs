//! Nue (thesis chapter 6): routes inside the complete channel dependency graph, so that any
//! connected fabric is routed within any number of layers, one included.
//!
//! `nue` is oblivious; `sar-nue` orders destinations and counts weights like Algorithm 5.1, which the thesis leaves
//! as future work (6.4). Chosen here where the thesis leaves freedom: terminals of one switch share a part of the
//! partition, and channel weights are common to all layers. Every switch's management port takes the routes of one of
//! its terminals, or is a destination of its own where there is none.

mod complete_cdg;
mod escape;
mod partition;
mod root;
mod search;

use rayon::prelude::*;

use self::complete_cdg::CompleteCdg;
use self::escape::EscapeForest;
use self::search::{EscapeSearch, NONE};
use super::graph::Graph;
use super::tree_levels::TreeLevels;
use super::{Engine, RouteError};
use crate::model::rng::Rng;
use crate::model::{
    Demand, DestId, Fabric, LayerBudget, Shape, StorageFlows, SwitchId, Tables, TablesError, TerminalId,
};

/// The engines `nue` and `sar-nue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nue {
    /// Balance routes inside jobs rather than all routes.
    pub job_aware: bool,
    /// Which order of destinations. 0: that of the fabric. Others begin at another corner or go along another dimension of
    /// a grid, and shuffle the switches of other fabrics: other tables, some of which suit given jobs better.
    pub seed: u64,
}

/// Layers beyond eight gain nothing that the thesis measured, and hardware rarely has them.
const MOST_LAYERS: usize = 8;

/// Impasses after which a layer is full: destinations of other layers are not tried in it any more.
const PATIENCE: u32 = 2;

impl Engine for Nue {
    fn name(&self) -> &'static str {
        if self.job_aware { "sar-nue" } else { "nue" }
    }

    fn route(&self, fabric: &Fabric, demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let layers = usize::from(budget.get()).min(MOST_LAYERS).min(graph.switches());
        let oblivious = Demand::oblivious();
        let demand = if self.job_aware { demand } else { &oblivious };
        let counts = Counts::new(fabric, demand);
        let part = parts(fabric, layers);
        let ranks = self.ranks(fabric);
        let fill = |is_tree: &bool| {
            let is_tree = *is_tree;
            let open = |l| open_layer(fabric, &graph, is_tree, &part, l);
            let plan = Plan {
                graph: &graph,
                is_tree,
                connected: connected(&graph),
                layers: (0..layers).into_par_iter().map(open).collect(),
                phases: phases(fabric, demand, &counts, !is_tree, ranks.as_deref()),
                part: &part,
            };
            // Only where a destination is left to the escape paths the layers must be filled with care.
            let filled = plan.run(fabric, false).or_else(|| plan.run(fabric, true));
            filled.unwrap_or_else(|| unreachable!("a careful run ends with all routes"))
        };
        let filled = ways(&graph).iter().map(fill).min_by(|a, b| a.largest.cmp(&b.largest));
        let filled = filled.unwrap_or_else(|| unreachable!("there is a way"));
        Ok(filled.finish(self.name())?)
    }
}

impl Nue {
    /// `result[switch]`: its place in the order of destinations, if that is shuffled.
    fn ranks(&self, fabric: &Fabric) -> Option<Vec<u32>> {
        if self.seed == 0 {
            return None;
        }
        let seed = self.seed as usize;
        let mut order: Vec<u32> = (0..fabric.switches().len() as u32).collect();
        match fabric.shape() {
            Shape::Grid { sizes, coords, .. } => {
                let n = sizes.len();
                // The lowest bits say which dimensions run down, the others with which one the order begins.
                let key = |s: &u32| -> Vec<u16> {
                    let at = |d: usize| coords[*s as usize * n + d];
                    let turned = |d: usize| if seed >> d & 1 == 1 { sizes[d] - at(d) } else { at(d) };
                    (0..n).map(|i| turned((i + (seed >> n)) % n)).collect()
                };
                order.sort_by_cached_key(key);
            }
            _ => Rng::new(self.seed).shuffle(&mut order),
        }
        let mut ranks = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(s, rank)| ranks[*s as usize] = rank);
        Some(ranks)
    }
}

/// All that is known before the first route.
struct Plan<'a> {
    graph: &'a Graph,
    /// See [`ways`].
    is_tree: bool,
    /// See [`connected`].
    connected: Vec<usize>,
    layers: Vec<(CompleteCdg, EscapeForest)>,
    phases: Vec<Vec<Destination<'a>>>,
    /// Layer of each switch's destinations.
    part: &'a [usize],
}

impl<'a> Plan<'a> {
    /// Routes everything. A careful run leaves what has no way to the escape paths; one that is not
    /// gives up there.
    fn run(&self, fabric: &'a Fabric, is_careful: bool) -> Option<Filler<'a>> {
        let mut cdgs: Vec<CompleteCdg> = self.layers.iter().map(|(cdg, _)| cdg.clone()).collect();
        let mut impasses = vec![0; cdgs.len()];
        let mut filler = Filler::new(fabric, self.graph, self.is_tree, is_careful);
        for phase in &self.phases {
            filler.weight.fill(0);
            for destination in phase {
                let home = fabric.home(destination.id).index();
                filler.count(&destination.sources);
                // Where its own layer has no way, another may have.
                let own = self.part[home];
                let open = (0..cdgs.len()).filter(|l| *l != own && impasses[*l] < PATIENCE);
                let found = std::iter::once(own).chain(open.collect::<Vec<_>>()).find(|l| {
                    let size = self.connected[home];
                    let found = filler.search.run(&mut cdgs[*l], home, size, &filler.weight, &filler.routes);
                    impasses[*l] += u32::from(!found);
                    found
                });
                if found.is_none() {
                    if self.graph.terminals()[home] == 0 {
                        filler.search.ignore_layers(home);
                        filler.store(destination.id, Tables::NO_LAYER);
                        continue;
                    }
                    if !is_careful {
                        return None;
                    }
                    filler.search.fall_back(&self.layers[own].1, home);
                }
                filler.store(destination.id, found.unwrap_or(own) as u8);
                filler.add_load();
            }
            filler.largest.push(filler.weight.iter().copied().max().unwrap_or(0));
        }
        Some(filler)
    }
}

/// The layer of each switch's destinations.
fn parts(fabric: &Fabric, layers: usize) -> Vec<usize> {
    let weight: Vec<u64> = fabric.switch_ids().map(|s| fabric.attached(s).len().max(1) as u64).collect();
    partition::partition(fabric, &weight, layers)
}

/// Whether to fill the layers as those of a tree; where that is not clear, both, and the better one is taken.
///
/// In a tree of levels there is room for all shortest ways in one layer, and there are many of them between most
/// ends. What has so many switches without terminals may be one with a few cables more. A switch of a torus
/// that has lost its terminals makes no tree.
fn ways(graph: &Graph) -> &'static [bool] {
    let bare = graph.terminals().iter().filter(|n| **n == 0).count();
    match bare > 0 && TreeLevels::from_leaves(graph).is_ok() {
        true => &[true],
        false if bare > 0 && 4 * bare >= graph.switches() => &[true, false],
        false => &[false],
    }
}

fn open_layer(
    fabric: &Fabric,
    graph: &Graph,
    is_tree: bool,
    part: &[usize],
    layer: usize,
) -> (CompleteCdg, EscapeForest) {
    let targets: Vec<bool> =
        part.iter().zip(graph.terminals()).map(|(p, terminals)| *p == layer && *terminals > 0).collect();
    let list: Vec<SwitchId> = fabric.switch_ids().filter(|s| targets[s.index()]).collect();
    let inside = root::convex_subgraph(graph, &list);
    let root = root::most_central(graph, &inside, &list).unwrap_or(SwitchId(0));
    let escape = EscapeForest::new(graph, root.index());
    // In a tree what goes up and then down does so too as seen from any leaf, but from a top only in its
    // own plane.
    let mut cdg = match list.first() {
        Some(leaf) if is_tree => CompleteCdg::new(graph, &EscapeForest::new(graph, leaf.index()).order),
        _ => CompleteCdg::new(graph, &escape.order),
    };
    escape.mark(graph, &mut cdg, &targets);
    (cdg, escape)
}

/// `result[switch]`: switches with terminals in its part of the fabric. O(channels).
fn connected(graph: &Graph) -> Vec<usize> {
    let part = graph.components();
    let mut size = vec![0; part.len()];
    part.iter().zip(graph.terminals()).for_each(|(p, n)| size[*p as usize] += usize::from(*n > 0));
    part.iter().map(|p| size[*p as usize]).collect()
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
    /// Reads to a client and writes to a server.
    reads: Vec<(SwitchId, u64)>,
    writes: Vec<(SwitchId, u64)>,
}

impl Counts {
    fn new(fabric: &Fabric, demand: &Demand) -> Self {
        let count = |terminals: &mut dyn Iterator<Item = TerminalId>| {
            let mut at: Vec<SwitchId> = terminals.map(|t| fabric.terminal(t).switch).collect();
            at.sort_unstable();
            at.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect()
        };
        let stored = StorageFlows::of(fabric, demand);
        let wide = |flows: &[(SwitchId, u32)]| flows.iter().map(|(s, n)| (*s, u64::from(*n))).collect();
        Self {
            hosts: count(&mut fabric.host_ids()),
            groups: demand.groups.iter().map(|g| count(&mut g.terminals.iter().copied())).collect(),
            reads: wide(&stored.reads),
            writes: wide(&stored.writes),
        }
    }
}

/// Destinations in the order of routing; each inner list starts with zero weights (Algorithm 5.1:
/// jobs by descending size, then storage, then all others), switches by their `ranks` if there are some.
fn phases<'a>(
    fabric: &Fabric,
    demand: &Demand,
    counts: &'a Counts,
    in_turn: bool,
    ranks: Option<&[u32]>,
) -> Vec<Vec<Destination<'a>>> {
    let groups_of = demand.groups_of(fabric);
    let mut in_jobs: Vec<TerminalId> =
        fabric.terminal_ids().filter(|t| !groups_of[t.index()].is_empty()).collect();
    // Groups come largest first, so the first group of a terminal is its largest.
    let rank = |s: SwitchId| ranks.map(|ranks| ranks[s.index()]);
    in_jobs.sort_by_key(|t| (groups_of[t.index()][0], rank(fabric.terminal(*t).switch), *t));
    let stored = |t: TerminalId| if demand.storage.has(t) { &counts.writes } else { &counts.reads };
    let jobs = in_jobs.iter().map(|t| {
        let groups = groups_of[t.index()].iter().map(|g| counts.groups[*g as usize].as_slice());
        let stored = Some(stored(*t).as_slice()).filter(|s| !s.is_empty());
        Destination { id: fabric.dest_of_terminal(*t), sources: groups.chain(stored).collect() }
    });
    let jobs = jobs.collect();
    let everybody = |d: DestId| Destination {
        id: d,
        sources: fabric.dest_terminal(d).map(|_| counts.hosts.as_slice()).into_iter().collect(),
    };
    let left = |t: &TerminalId| groups_of[t.index()].is_empty();
    let storage = demand.storage.servers.iter().copied().filter(left);
    let storage = storage.map(|t| match counts.writes.as_slice() {
        [] => everybody(fabric.dest_of_terminal(t)),
        writes => Destination { id: fabric.dest_of_terminal(t), sources: vec![writes] },
    });
    let storage = storage.collect();
    let rest = fabric.terminal_ids().filter(|t| left(t) && !demand.storage.has(*t));
    let bare = fabric.switch_ids().filter(|s| fabric.attached(*s).is_empty());
    let mut others: Vec<DestId> = rest.map(|t| fabric.dest_of_terminal(t)).collect();
    others.extend(bare.map(|s| fabric.dest_of_switch(s)));
    // One terminal of each switch in turn: the last trees, which know the load of all others, then
    // even it out everywhere. In trees switch by switch: those of one share its channels out before others
    // join them. Switches without terminals come last.
    let turn = |d: DestId| match fabric.dest_terminal(d) {
        Some(t) if in_turn => fabric.attached(fabric.home(d)).iter().position(|other| *other == t),
        Some(_) => Some(0),
        None => Some(usize::MAX),
    };
    others.sort_by_cached_key(|d| (turn(*d), rank(fabric.home(*d)), fabric.home(*d), *d));
    vec![jobs, storage, others.into_iter().map(everybody).collect()]
}

/// Tables under construction.
struct Filler<'a> {
    fabric: &'a Fabric,
    graph: &'a Graph,
    search: EscapeSearch<'a>,
    /// `weight[channel]`: load so far, in the direction of the search.
    weight: Vec<u64>,
    /// Largest weight at the end of each phase.
    largest: Vec<u64>,
    /// Counted routes of one destination that start at each switch.
    routes: Vec<u64>,
    /// Scratch: routes from a switch and what lies behind it.
    below: Vec<u64>,
    ports: Vec<u8>,
    layers: Vec<u8>,
}

impl<'a> Filler<'a> {
    fn new(fabric: &'a Fabric, graph: &'a Graph, is_tree: bool, is_careful: bool) -> Self {
        let entries = graph.switches() * fabric.dest_count();
        Self {
            fabric,
            graph,
            search: EscapeSearch::new(graph, is_tree, is_careful),
            weight: vec![0; graph.channels()],
            largest: Vec::new(),
            routes: vec![0; graph.switches()],
            below: vec![0; graph.switches()],
            ports: vec![Tables::UNREACHABLE; entries],
            layers: vec![Tables::NO_LAYER; entries],
        }
    }

    /// Writes the tree of the last search.
    fn store(&mut self, d: DestId, layer: u8) {
        let (graph, first) = (self.graph, d.index() * self.graph.switches());
        let home = self.fabric.home(d).index();
        for s in self.search.order.iter().map(|s| *s as usize) {
            self.ports[first + s] = match self.search.used[s] {
                NONE => self.fabric.last_port(d).get(),
                c => graph.port(graph.reverse(c as usize)),
            };
            if graph.terminals()[s] > 0 {
                self.layers[first + s] = if s == home { 0 } else { layer };
            }
        }
    }

    /// Counts the routes to a destination.
    fn count(&mut self, sources: &[&[(SwitchId, u64)]]) {
        self.routes.fill(0);
        for (s, routes) in sources.iter().copied().flatten() {
            self.routes[s.index()] += routes;
        }
    }

    /// Adds the routes of the last search to the weights. O(switches).
    fn add_load(&mut self) {
        self.below.copy_from_slice(&self.routes);
        for s in self.search.order[1..].iter().rev().map(|s| *s as usize) {
            let c = self.search.used[s] as usize;
            self.weight[c] += self.below[s];
            self.below[self.graph.from(c)] += self.below[s];
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::verify;

    #[test]
    fn other_orders_make_other_tables_that_are_accepted() {
        let one = LayerBudget::new(1).unwrap();
        for spec in ["mesh:6x6,hosts=4", "random:12,24,24,seed=3"] {
            let fabric = generate(spec).unwrap();
            let made = |seed| {
                let nue = Nue { job_aware: false, seed };
                nue.route(&fabric, &Demand::oblivious(), one).unwrap()
            };
            let all: Vec<Tables> = (0..8).map(made).collect();
            assert!(all.iter().all(|tables| verify::judge(&fabric, tables, one).accepted), "{spec}");
            // Some corners of a mesh lead to the same.
            let other = (0..8).filter(|i| (0..*i).all(|j| all[*i] != all[j])).count();
            assert!(other >= 3, "{spec}: {other}");
        }
    }

    /// On a grid every order is that of its rows or columns, from one of the corners.
    #[test]
    fn orders_of_a_grid_begin_at_its_corners() {
        let fabric = generate("mesh:3x2,hosts=1").unwrap();
        let Shape::Grid { coords, .. } = fabric.shape() else { panic!("a grid") };
        let order = |seed| {
            let ranks = Nue { job_aware: false, seed }.ranks(&fabric).unwrap();
            let mut order: Vec<usize> = (0..6).collect();
            order.sort_by_key(|s| ranks[*s]);
            order.iter().map(|s| [coords[2 * s], coords[2 * s + 1]]).collect::<Vec<_>>()
        };
        assert_eq!(order(1), [[2, 0], [2, 1], [1, 0], [1, 1], [0, 0], [0, 1]]);
        assert_eq!(order(2), [[0, 1], [0, 0], [1, 1], [1, 0], [2, 1], [2, 0]]);
        assert_eq!(order(4), [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]);
        assert!(Nue { job_aware: false, seed: 0 }.ranks(&fabric).is_none());
    }
}
