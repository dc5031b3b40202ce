//! Destinations that are switches without terminals (spines): their routes carry only management
//! traffic, so they take what room the layers have and never cost a layer of their own.

use super::cdg::Dependencies;
use super::forest::Forest;
use super::graph::Graph;
use super::layer_stack::LayerStack;
use crate::model::{Fabric, Tables};

/// Completes `layers` (of the terminals' trees) for the trees to switches: switches with terminals
/// share the layers of their first terminal, others get for each source the first layer where the
/// route closes no cycle, or [`Tables::NO_LAYER`].
///
/// `layers` must be acyclic with the terminals' trees and have `used` layers. O(trees × switches)
/// where there are such switches, plus what [`LayerStack`] costs.
pub fn fit(
    fabric: &Fabric,
    graph: &Graph,
    deps: &Dependencies,
    forest: &Forest,
    layers: &mut Vec<u8>,
    used: usize,
) {
    let n = graph.switches();
    let mut stack = None;
    for s in fabric.switch_ids() {
        if let Some(t) = fabric.attached(s).first() {
            layers.extend_from_within(t.index() * n..(t.index() + 1) * n);
            continue;
        }
        let stack = stack.get_or_insert_with(|| LayerStack::of_routes(graph, deps, forest, layers, used));
        let tree = forest.tree(fabric.dest_of_switch(s).index());
        for source in 0..n {
            let has_terminals = graph.terminals()[source] > 0;
            let layer = has_terminals.then(|| stack.place_within(tree, source, used));
            layers.push(layer.unwrap_or(Tables::NO_LAYER));
        }
    }
}
