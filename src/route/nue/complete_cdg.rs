//! The complete channel dependency graph (thesis Definition 6.1) with states per dependency.
//!
//! Directions follow the search: outward from the destination. A route takes the reverse
//! channels in reverse order; turning every dependency around keeps a graph acyclic.
//!
//! Instead of numbering acyclic subgraphs (thesis 6.2.6.1) the used dependencies are kept in a
//! topological order that is repaired where a new one contradicts it ([`AcyclicLayer`]): most
//! questions are answered by one comparison.

use super::search::NONE;
use crate::route::cdg::AcyclicLayer;
use crate::route::graph::Graph;
use crate::route::order::Labels;

/// What became of a wish to use a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It was in use already.
    Known,
    /// It is now.
    New,
    /// It would close a cycle.
    Refused,
}

/// All channel dependencies of one virtual layer. Channels are those of [`Graph`].
#[derive(Debug, Clone)]
pub(super) struct CompleteCdg {
    layer: AcyclicLayer<Labels>,
}

impl CompleteCdg {
    /// Everything unused. `order` lists all switches; the first topological order puts channels
    /// towards its front first, from its back on, and then those away from it: with the order of
    /// a breadth-first search, what goes up and then down needs no repair. O(channels).
    pub(super) fn new(graph: &Graph, order: &[u32]) -> Self {
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(i, s)| place[*s as usize] = i);
        let mut channels: Vec<u32> = Vec::with_capacity(graph.channels());
        let mut leave = |s: u32, towards_front: bool| {
            let first = channels.len();
            let to_front = |c: &usize| place[graph.to(*c)] < place[s as usize];
            let some = graph.out(s as usize).filter(|c| to_front(c) == towards_front);
            channels.extend(some.map(|c| c as u32));
            // Those of one switch in the order of the fabric's ids.
            channels[first..].sort_unstable_by_key(|c| graph.id(*c as usize));
        };
        order.iter().rev().for_each(|s| leave(*s, true));
        order.iter().for_each(|s| leave(*s, false));
        Self { layer: AcyclicLayer::ordered(graph, channels) }
    }

    /// Uses the dependency from `p` to the following channel `q` if that closes no cycle;
    /// otherwise refuses it from now on.
    ///
    /// `q` must leave the switch that `p` enters. Back to where `p` came from is never allowed.
    #[inline]
    pub(super) fn try_use(&mut self, graph: &Graph, p: usize, q: usize) -> Use {
        let slot = graph.slot_at(graph.to(p), q);
        if self.layer.contains(p, slot) {
            return Use::Known;
        }
        if graph.to(q) != graph.from(p) && self.layer.admit(graph, p, slot) {
            return Use::New;
        }
        self.layer.forbid(p, slot);
        Use::Refused
    }

    /// Takes back a dependency that no route of the finished step needs.
    pub(super) fn release(&mut self, graph: &Graph, p: usize, q: usize) {
        self.layer.remove(graph, p, graph.slot_at(graph.to(p), q));
    }

    /// Whether `p`, if there is one, comes after `q` in the order, so that the order would have to be
    /// repaired if the dependency is not in use.
    #[inline]
    pub(super) fn is_against_order(&self, p: u32, q: usize) -> bool {
        p != NONE && self.layer.is_before(q, p as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::rng::Rng;

    /// On random fabrics, every answer of `try_use` agrees with a plain search for a cycle.
    #[test]
    fn agrees_with_petgraph() {
        for seed in 0..30 {
            let graph = Graph::new(&generate(&format!("random:8,8,14,seed={seed}")).unwrap());
            let order: Vec<u32> = (0..graph.switches() as u32).collect();
            let mut cdg = CompleteCdg::new(&graph, &order);
            let mut rng = Rng::new(seed);
            let mut plain = petgraph::graph::DiGraph::<(), ()>::new();
            let nodes: Vec<_> = (0..graph.channels()).map(|_| plain.add_node(())).collect();
            let mut refused = 0;
            for _ in 0..400 {
                let p = rng.below(graph.channels());
                let out = graph.out(graph.to(p));
                let q = out.start + rng.below(out.len());
                let edge = plain.add_edge(nodes[p], nodes[q], ());
                let legal = graph.to(q) != graph.from(p) && !petgraph::algo::is_cyclic_directed(&plain);
                let answer = cdg.try_use(&graph, p, q);
                assert_eq!(answer != Use::Refused, legal, "seed {seed}: {p:?} -> {q:?}");
                refused += usize::from(!legal);
                if answer != Use::New {
                    plain.remove_edge(edge);
                }
            }
            assert!(refused > 0, "seed {seed}: nothing was ever refused");
        }
    }
}
