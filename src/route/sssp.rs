//! `sssp`: globally balanced shortest paths (after thesis Algorithm 3.1, Hoefler et al. 2009). Not
//! deadlock-free on most fabrics with cycles.

use super::forest::{Forest, complete_switches, terminals_by_switch};
use super::graph::{Graph, hosts_per_switch};
use super::trees::{Levels, TreeBuilder};
use super::ways::Ways;
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, Role, Tables};

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

/// The trees of Algorithm 3.1 over all shortest paths: as published where some switches have no
/// terminals, as in trees, which the thesis compares with; in [`Rounds::Two`] on all other fabrics.
pub fn balanced_forest(fabric: &Fabric, graph: &Graph) -> Forest {
    let rounds = if graph.terminals().contains(&0) { Rounds::One } else { Rounds::Two };
    balanced_over(fabric, graph, rounds, Join::Freely, Ways::new(graph))
}

/// Whether the routes of one tree see each other while it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// Algorithm 3.1: weights change between trees only; all may join on one light channel.
    Freely,
    /// Weights change with each route (see [`TreeBuilder::spread`]).
    Sparingly,
}

/// In which order terminals get their trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// Switch by switch: the routes to all terminals of a switch are searched once.
    One,
    /// Switch by switch, but the last terminal of each only when all others are done: these trees
    /// know the load of the whole fabric and even it out. Takes a second search per switch.
    Two,
}

impl Rounds {
    /// The terminals of one switch that are routed in each round.
    fn split<T>(self, terminals: &[T]) -> [&[T]; 2] {
        let first = match self {
            Self::One => terminals.len(),
            Self::Two => terminals.len().saturating_sub(1),
        };
        [&terminals[..first], &terminals[first..]]
    }
}

/// The trees of Algorithm 3.1 over these ways: terminals in turn, each tree over channel weights
/// that count the host-to-host routes so far. Aggregation nodes get routes and add no weight.
/// O(terminals × (switches + channels)).
pub fn balanced_over(
    fabric: &Fabric,
    graph: &Graph,
    rounds: Rounds,
    join: Join,
    mut ways: Ways<'_>,
) -> Forest {
    let mut forest = Forest::new(fabric);
    let mut levels = Levels::new(graph);
    let mut builder = TreeBuilder::new(graph);
    let hosts = hosts_per_switch(fabric);
    let mut weights = vec![0; graph.channels()];
    for round in 0..2 {
        for (home, terminals) in terminals_by_switch(fabric) {
            let terminals = rounds.split(terminals)[round];
            if terminals.is_empty() {
                continue;
            }
            levels.take(graph, &mut ways, home.index());
            for &t in terminals {
                let tree = forest.tree_mut(t.index());
                let is_host = fabric.terminal(t).role == Role::Host;
                if is_host && join == Join::Sparingly {
                    builder.spread(&levels, &hosts, &mut weights, tree);
                    continue;
                }
                builder.cheapest(&levels, &weights, tree);
                if is_host {
                    builder.add_load(&levels, &hosts, &mut weights);
                }
            }
        }
    }
    complete_switches(fabric, &mut forest, |s, tree| {
        levels.take(graph, &mut ways, s);
        builder.cheapest(&levels, &weights, tree);
    });
    forest
}
