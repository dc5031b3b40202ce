//! `minhop`: shortest paths, balanced switch by switch (thesis section 3.3.1). May deadlock.

use super::forest::{Forest, complete_switches, terminals_by_switch};
use super::graph::Graph;
use super::trees::Levels;
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, Tables};

/// Each switch forwards through its least used channel among those on a shortest path. Ignores
/// demand and budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct MinHop;

impl Engine for MinHop {
    fn name(&self) -> &'static str {
        "minhop"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, _budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        locally_balanced(fabric, &graph, |_, _| true).into_flat_tables(fabric, &graph, self.name())
    }
}

/// Shortest-path trees in which each switch takes the least used of its eligible channels, the
/// first of several. `eligible(first, other)` tells whether channel `other` may be taken although
/// `first`, the one with the lowest port, is on a shortest path too.
/// O(terminals × (switches + channels)).
pub fn locally_balanced(fabric: &Fabric, graph: &Graph, eligible: impl Fn(usize, usize) -> bool) -> Forest {
    let mut forest = Forest::new(fabric);
    let mut levels = Levels::new(graph);
    let mut used = vec![0u32; graph.channels()];
    let mut grow = |levels: &Levels, tree: &mut [u8], count: u32| {
        tree[levels.order()[0] as usize] = Forest::HOME;
        for (i, &s) in levels.order().iter().enumerate().skip(1) {
            let mut channels = levels.descents(i).iter().map(|d| d.channel as usize);
            let Some(first) = channels.next() else { continue };
            let others = channels.filter(|c| eligible(first, *c));
            let chosen = others.fold(first, |best, c| if used[c] < used[best] { c } else { best });
            used[chosen] += count;
            tree[s as usize] = graph.slot(chosen);
        }
    };
    for (home, terminals) in terminals_by_switch(fabric) {
        levels.search(graph, home.index());
        terminals.iter().for_each(|t| grow(&levels, forest.tree_mut(t.index()), 1));
    }
    complete_switches(fabric, &mut forest, |s, tree| {
        levels.search(graph, s);
        grow(&levels, tree, 0);
    });
    forest
}
