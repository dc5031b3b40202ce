//! `sssp`: globally balanced shortest paths (after thesis Algorithm 3.1, Hoefler et al. 2009). Not
//! deadlock-free on most fabrics with cycles.

use super::forest::{Shared, terminals_by_switch};
use super::graph::{Graph, hosts_per_switch, is_indirect};
use super::tree_levels::TreeLevels;
use super::trees::{Join, Levels, Load, Rows, TreeBuilder};
use super::ways::Ways;
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, Role, Tables, TerminalId};

/// Algorithm 3.1. Ignores the demand and the layer budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sssp;

impl Engine for Sssp {
    fn name(&self) -> &'static str {
        "sssp"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, _budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        balanced_forest(fabric, &graph).into_flat_tables(fabric, &graph, self.name())
    }
}

/// The trees of Algorithm 3.1 over all shortest paths. Where switches form the levels of a tree, as published, or with
/// [`Share::Late`] if that loads the fullest channel less by a sixth: for less, jobs' exchanges take longer. Elsewhere
/// with [`Share::Pairs`].
pub fn balanced_forest(fabric: &Fabric, graph: &Graph) -> Shared {
    let of = |share| grown(fabric, graph, share, Join::Freely, Ways::new(graph));
    if TreeLevels::from_leaves(graph).is_ok_and(|levels| levels.top() > 0) {
        let (published, late) = rayon::join(|| of(Share::Nothing), || of(Share::Late));
        return if 6 * late.1 <= 5 * published.1 { late.0 } else { published.0 };
    }
    of(Share::Pairs.or_nothing(graph)).0
}

/// Pairs of switches for each channel from which on terminals share trees: routes that a shared tree keeps
/// together are then a small part of what a channel carries. Measured: fabrics with 1 to 2.5 get up
/// to three times as full channels by sharing, those with 6 and more hardly any fuller ones.
const PAIRS_PER_CHANNEL: usize = 4;

/// Which terminals of one switch share a tree, and in which order trees are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Each has its own; switch by switch.
    Nothing,
    /// Two or three share one; switch by switch, but three eighths of the terminals of each (at
    /// least one) only when all others are done: these trees know the load of the whole fabric and
    /// even it out. The share is what levels best on random graphs and dragonflies; with
    /// four terminals per switch one is best.
    Pairs,
    /// Each has its own; as many as with `Pairs` last, with weights that change with each route.
    Late,
    /// All; switch by switch.
    BySwitch,
}

impl Share {
    /// This one on fabrics where it costs hardly any balance: all switches have terminals, as in trees
    /// they have not, and there are many of them for their channels.
    pub fn or_nothing(self, graph: &Graph) -> Self {
        let pairs = graph.switches().pow(2);
        match is_indirect(graph.terminals()) || pairs < PAIRS_PER_CHANNEL * graph.channels() {
            true => Self::Nothing,
            false => self,
        }
    }

    /// The terminals of one switch that are routed in each of two rounds.
    fn split(self, terminals: &[TerminalId]) -> [&[TerminalId]; 2] {
        let last =
            if matches!(self, Self::Pairs | Self::Late) { (terminals.len() * 3 / 8).max(1) } else { 0 };
        terminals.split_at(terminals.len() - last).into()
    }

    /// Number of trees for so many terminals.
    fn trees(self, terminals: usize) -> usize {
        match self {
            Self::Nothing | Self::Late => terminals,
            Self::Pairs => (terminals / 2).max(1).min(terminals),
            Self::BySwitch => terminals.min(1),
        }
    }
}

/// The trees of Algorithm 3.1 over these ways: terminals in turn, each tree over channel weights
/// that count the host-to-host routes so far. Aggregation nodes get routes and add no weight.
/// O(trees × (switches + ways)).
pub fn balanced_over(fabric: &Fabric, graph: &Graph, share: Share, join: Join, ways: Ways<'_>) -> Shared {
    grown(fabric, graph, share, join, ways).0
}

/// [`balanced_over`], and the routes on the channel that has most.
fn grown(fabric: &Fabric, graph: &Graph, share: Share, join: Join, mut ways: Ways<'_>) -> (Shared, u64) {
    let mut levels = Levels::new(graph);
    let hosts = hosts_per_switch(fabric);
    let mut grower = Grower {
        fabric,
        join,
        hosts: &hosts,
        builder: TreeBuilder::new(graph),
        weights: vec![0; graph.channels()],
        made: Shared::new(fabric),
    };
    for round in 0..2 {
        if share == Share::Late && round == 1 {
            grower.join = Join::Sparingly;
        }
        for (home, terminals) in terminals_by_switch(fabric) {
            let terminals = share.split(terminals)[round];
            let trees = share.trees(terminals.len());
            if trees == 0 {
                continue;
            }
            let to = ways.to(home.index());
            // To copy the ways costs as much as a tree.
            if trees > 2 {
                levels.take(&to);
                grower.grow(&levels, terminals, trees);
            } else {
                grower.grow(&to, terminals, trees);
            }
        }
    }
    for s in fabric.switch_ids() {
        match fabric.attached(s).first() {
            Some(t) => grower.made.copy(fabric.dest_of_terminal(*t), fabric.dest_of_switch(s)),
            None => {
                let tree = grower.made.add([fabric.dest_of_switch(s)]);
                grower.builder.cheapest(&ways.to(s.index()), &grower.weights, tree);
            }
        }
    }
    let fullest = grower.weights.iter().copied().max().unwrap_or(0);
    (grower.made, fullest)
}

/// Trees that grow one after the other.
struct Grower<'a> {
    fabric: &'a Fabric,
    join: Join,
    /// Hosts per switch.
    hosts: &'a [u32],
    builder: TreeBuilder,
    /// Routes so far, per channel.
    weights: Vec<u64>,
    made: Shared,
}

impl Grower<'_> {
    /// So many trees, shared evenly by these terminals of one switch.
    fn grow(&mut self, to: &impl Rows, terminals: &[TerminalId], trees: usize) {
        let start = |tree: usize| tree * terminals.len() / trees;
        for terminals in (0..trees).map(|tree| &terminals[start(tree)..start(tree + 1)]) {
            let times =
                terminals.iter().filter(|t| self.fabric.terminal(**t).role == Role::Host).count() as u64;
            let load = Load { sources: self.hosts, times };
            let tree = self.made.add(terminals.iter().map(|t| self.fabric.dest_of_terminal(*t)));
            self.builder.grow(self.join, to, load, &mut self.weights, tree);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_that_the_published_weights_level_stay_as_published() {
        for (spec, is_published) in
            [("fattree:18x18,18", true), ("fattree:10x18,5", true), ("kary:10,3,hosts=11", false)]
        {
            let fabric = crate::lab::generate::generate(spec).unwrap();
            let graph = Graph::new(&fabric);
            let published = balanced_over(&fabric, &graph, Share::Nothing, Join::Freely, Ways::new(&graph));
            let [found, published] = [balanced_forest(&fabric, &graph), published]
                .map(|made| made.into_flat_tables(&fabric, &graph, "sssp").unwrap());
            assert_eq!(found == published, is_published, "{spec}");
        }
    }

    #[test]
    fn pairs_and_triples_share_and_three_eighths_come_last() {
        let terminals: Vec<TerminalId> = (0..8).map(TerminalId).collect();
        let sizes =
            |share: Share, n: usize| share.split(&terminals[..n]).map(|t| (t.len(), share.trees(t.len())));
        assert_eq!(
            [1, 2, 4, 6, 8].map(|n| sizes(Share::Pairs, n)),
            [[(0, 0), (1, 1)], [(1, 1), (1, 1)], [(3, 1), (1, 1)], [(4, 2), (2, 1)], [(5, 2), (3, 1)],]
        );
        assert_eq!(sizes(Share::Late, 8), [(5, 5), (3, 3)]);
        assert_eq!(sizes(Share::Nothing, 8), [(8, 8), (0, 0)]);
        assert_eq!(sizes(Share::BySwitch, 8), [(8, 1), (0, 0)]);
    }
}
