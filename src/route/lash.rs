//! `lash`: layered shortest paths (thesis Algorithm 3.5, Skeie et al. 2002): one route per pair of
//! switches, each on the first layer where it closes no cycle.

use super::dfsssp::within;
use super::forest::Forest;
use super::graph::Graph;
use super::layer_stack::LayerStack;
use super::ways::Ways;
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, Tables};

/// Algorithm 3.5. Ignores the demand. All terminals of a switch share its routes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lash;

impl Engine for Lash {
    fn name(&self) -> &'static str {
        "lash"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let n = graph.switches();
        let trees = port_order_trees(&graph);
        let mut stack = LayerStack::new(&graph);
        // Switches without terminals last: they take what room there is and add no layer.
        let mut layers = vec![Tables::NO_LAYER; n * n];
        let with_terminals = |s: &usize| graph.terminals()[*s] > 0;
        for home in (0..n).filter(with_terminals) {
            for source in (0..n).filter(with_terminals) {
                layers[home * n + source] = stack.place(trees.tree(home), source);
            }
        }
        within(self.name(), budget, stack.used())?;
        for home in (0..n).filter(|s| !with_terminals(s)) {
            for source in (0..n).filter(with_terminals) {
                layers[home * n + source] = stack.place_within(trees.tree(home), source, stack.used());
            }
        }
        let mut forest = Forest::new(fabric);
        let mut all = Vec::with_capacity(fabric.dest_count() * n);
        for d in fabric.dest_ids() {
            let home = fabric.home(d).index();
            forest.tree_mut(d.index()).copy_from_slice(trees.tree(home));
            all.extend_from_slice(&layers[home * n..(home + 1) * n]);
        }
        forest.into_tables(fabric, &graph, self.name(), all)
    }
}

/// One shortest-path tree per switch, the lowest port first: dimension order where there are
/// dimensions, which needs few layers. O(switches × (switches + channels)).
pub fn port_order_trees(graph: &Graph) -> Forest {
    let n = graph.switches();
    let mut forest = Forest::with_trees(n, n);
    let mut ways = Ways::new(graph);
    for home in 0..n {
        let lane = ways.lane_of(home);
        let tree = forest.tree_mut(home);
        let masks = ways.slots(lane);
        for (slot, masks) in tree.iter_mut().zip(masks.chunks_exact(ways.words())) {
            if let Some(word) = masks.iter().position(|m| *m != 0) {
                *slot = (64 * word) as u8 + masks[word].trailing_zeros() as u8;
            }
        }
        tree[home] = Forest::HOME;
    }
    forest
}
