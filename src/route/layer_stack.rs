//! A growing stack of layers that take routes one by one, none ever cyclic (thesis Algorithm 3.5).

use super::cdg::{AcyclicLayer, Dependencies};
use super::forest::Forest;
use super::graph::Graph;
use super::order::Labels;
use crate::model::Tables;

/// Layers that grow in number as routes need them.
#[derive(Debug, Clone)]
pub struct LayerStack<'a> {
    graph: &'a Graph,
    layers: Vec<AcyclicLayer<Labels>>,
}

impl<'a> LayerStack<'a> {
    /// Far beyond any hardware: routes that fit nowhere below are given no layer.
    const MOST: usize = 250;

    /// No layers yet.
    pub fn new(graph: &'a Graph) -> Self {
        Self { graph, layers: Vec::new() }
    }
    /// The layers as given routes use them, of as many trees as `layers` has rows; each must be
    /// acyclic, and there must be at most 32. [`Tables::NO_LAYER`] marks routes to leave out. A walk
    /// ends where an earlier one of the same tree and layer went on: O(trees × switches × layers)
    /// at worst.
    pub fn of_routes(
        graph: &'a Graph,
        deps: &Dependencies,
        forest: &Forest,
        layers: &[u8],
        used: usize,
    ) -> Self {
        let n = graph.switches();
        // Bit l: in layer l.
        let mut present = vec![0u32; deps.len()];
        let mut walked = vec![0u32; n];
        for (t, layers) in layers.chunks(n).enumerate() {
            let tree = forest.tree(t);
            walked.fill(0);
            let starts = |s: &usize| graph.terminals()[*s] > 0 && layers[*s] != Tables::NO_LAYER;
            for source in (0..n).filter(starts).filter(|s| tree[*s] < Forest::HOME) {
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
        let layer = |l: usize| AcyclicLayer::of(graph, deps, |d| present[d] >> l & 1 == 1);
        Self { graph, layers: (0..used).map(layer).collect() }
    }
    /// Layers so far.
    pub fn used(&self) -> usize {
        self.layers.len()
    }
    /// One more layer, empty.
    pub fn push(&mut self) -> &mut AcyclicLayer<Labels> {
        self.layers.push(AcyclicLayer::new(self.graph));
        let last = self.layers.len() - 1;
        &mut self.layers[last]
    }
    /// The first layer, of at most `limit`, where a route of a tree closes no cycle; a new one if
    /// there is none; [`Tables::NO_LAYER`] beyond the limit.
    pub fn place_within(&mut self, tree: &[u8], source: usize, limit: usize) -> u8 {
        let graph = self.graph;
        let open = self.layers.iter_mut().take(limit);
        if let Some(found) = open.into_iter().position(|l| l.add_route(graph, tree, source)) {
            return found as u8;
        }
        if self.used() >= limit {
            return Tables::NO_LAYER;
        }
        self.push().add_route(graph, tree, source);
        (self.used() - 1) as u8
    }
    /// [`LayerStack::place_within`] as many layers as it takes.
    pub fn place(&mut self, tree: &[u8], source: usize) -> u8 {
        self.place_within(tree, source, Self::MOST)
    }

    /// The first layer where all routes (tree, source) of a set fit together; a new one if they
    /// fit an empty layer; `None` if they close a cycle by themselves.
    pub fn place_all<'f, I: Iterator<Item = (&'f [u8], usize)>>(
        &mut self,
        routes: impl Fn() -> I,
    ) -> Option<u8> {
        let graph = self.graph;
        let fits = |layer: &mut AcyclicLayer<Labels>| {
            let fits = routes().all(|(tree, source)| layer.extend(graph, tree, source));
            if fits {
                layer.commit()
            } else {
                layer.rollback(graph)
            }
            fits
        };
        if let Some(found) = self.layers.iter_mut().position(fits) {
            return Some(found as u8);
        }
        if !fits(self.push()) {
            self.layers.pop();
            return None;
        }
        Some((self.used() - 1) as u8)
    }
}
