//! Destinations that are switches without terminals (spines): their routes carry only management
//! traffic, so they take what room the layers have and never cost a layer of their own.

use super::cdg::{AcyclicLayer, Dependencies};
use super::forest::Forest;
use super::graph::Graph;
use crate::model::{Fabric, Tables};

/// Completes `layers` (of the terminals' trees) for the trees to switches: switches with terminals
/// share the layers of their first terminal, others get for each source the first layer where the
/// route closes no cycle, or [`Tables::NO_LAYER`].
///
/// `layers` must be acyclic with the terminals' trees and have `used` layers. O(trees × switches)
/// where there are such switches, plus what [`AcyclicLayer`] costs.
pub fn fit(
    fabric: &Fabric,
    graph: &Graph,
    deps: &Dependencies,
    forest: &Forest,
    layers: &mut Vec<u8>,
    used: usize,
) {
    let n = graph.switches();
    let mut fitted: Option<Vec<AcyclicLayer>> = None;
    let terminals = fabric.terminals().len();
    for s in fabric.switch_ids() {
        if let Some(t) = fabric.attached(s).first() {
            layers.extend_from_within(t.index() * n..(t.index() + 1) * n);
            continue;
        }
        let used_layers = fitted.get_or_insert_with(|| rebuild(graph, deps, forest, layers, terminals, used));
        let tree = forest.tree(fabric.dest_of_switch(s).index());
        for source in 0..n {
            let fits = |layer: &mut AcyclicLayer| layer.add_route(graph, deps, tree, source);
            let found = (graph.terminals()[source] > 0).then(|| used_layers.iter_mut().position(fits));
            layers.push(found.flatten().map_or(Tables::NO_LAYER, |l| l as u8));
        }
    }
}

/// The layers as the terminals' routes use them. A walk ends where an earlier one of the same tree
/// and layer went on: O(trees × switches × layers) at worst.
fn rebuild(
    graph: &Graph,
    deps: &Dependencies,
    forest: &Forest,
    layers: &[u8],
    trees: usize,
    used: usize,
) -> Vec<AcyclicLayer> {
    let n = graph.switches();
    // Bit l: in layer l.
    let mut present = vec![0u32; deps.len()];
    let mut walked = vec![0u32; n];
    for t in 0..trees {
        let (tree, layers) = (forest.tree(t), &layers[t * n..(t + 1) * n]);
        walked.fill(0);
        for source in (0..n).filter(|s| graph.terminals()[*s] > 0 && tree[*s] < Forest::HOME) {
            let bit = 1u32 << layers[source];
            let mut at = source;
            while walked[at] & bit == 0 {
                walked[at] |= bit;
                let channel = graph.channel(at, tree[at]);
                at = graph.to(channel);
                if tree[at] >= Forest::HOME {
                    break;
                }
                present[deps.id(channel, tree[at])] |= bit;
            }
        }
    }
    (0..used).map(|l| AcyclicLayer::of(graph, deps, |d| present[d] >> l & 1 == 1)).collect()
}
