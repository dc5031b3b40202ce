//! The escape paths of a layer: a spanning tree whose dependencies are in use from the start, so that
//! every destination of the layer has a way (thesis 6.2.2).

use super::complete_cdg::CompleteCdg;
use super::search::NONE;
use crate::route::graph::Graph;

/// Channels of a spanning forest: `parent[switch]` enters it from the side of its root.
pub(super) struct EscapeForest {
    parent: Vec<u32>,
    /// Switches, each after its parent.
    pub(super) order: Vec<u32>,
}

impl EscapeForest {
    /// Breadth-first from `root`; parts of the fabric that it does not reach get trees of their
    /// own from their lowest switch. O(channels).
    pub(super) fn new(graph: &Graph, root: usize) -> Self {
        let n = graph.switches();
        let mut forest = Self { parent: vec![NONE; n], order: Vec::with_capacity(n) };
        let mut known = vec![false; n];
        for start in std::iter::once(root).chain(0..n) {
            if std::mem::replace(&mut known[start], true) {
                continue;
            }
            let mut next = forest.order.len();
            forest.order.push(start as u32);
            while next < forest.order.len() {
                for c in graph.out(forest.order[next] as usize) {
                    let to = graph.to(c);
                    if !std::mem::replace(&mut known[to], true) {
                        forest.parent[to] = c as u32;
                        forest.order.push(to as u32);
                    }
                }
                next += 1;
            }
        }
        forest
    }

    /// Whether a channel belongs to the forest, in either direction.
    pub(super) fn has(&self, graph: &Graph, c: usize) -> bool {
        self.parent[graph.to(c)] == c as u32 || self.parent[graph.from(c)] == graph.reverse(c) as u32
    }

    /// Uses every dependency of routes over the forest from switches with terminals to destinations
    /// on `targets` (thesis Definition 6.2, without what nothing uses). A forest closes no cycle.
    /// O(dependencies).
    pub(super) fn mark(&self, graph: &Graph, cdg: &mut CompleteCdg, targets: &[bool]) {
        let targets = self.sides(graph, |s| targets[s]);
        let sources = self.sides(graph, |s| graph.terminals()[s] > 0);
        for p in (0..graph.channels()).filter(|c| self.has(graph, *c)) {
            // The search comes through `p` if there is a destination on its near side, and goes on if
            // there is a source beyond.
            if self.nearer(graph, &targets, p) == 0 {
                continue;
            }
            let on = graph.out(graph.to(p)).filter(|q| *q != graph.reverse(p) && self.has(graph, *q));
            for q in on.filter(|q| self.nearer(graph, &sources, graph.reverse(*q)) > 0) {
                cdg.try_use(graph, p, q);
            }
        }
    }

    /// How many switches are counted below each switch, itself included, and in its whole tree.
    fn sides(&self, graph: &Graph, counts: impl Fn(usize) -> bool) -> Vec<(u32, u32)> {
        let mut sides: Vec<(u32, u32)> = (0..self.parent.len()).map(|s| (u32::from(counts(s)), 0)).collect();
        let up = |s: &u32| {
            let c = self.parent[*s as usize];
            (*s as usize, (c != NONE).then(|| graph.from(c as usize)))
        };
        for (s, above) in self.order.iter().rev().map(up) {
            if let Some(above) = above {
                sides[above].0 += sides[s].0;
            }
        }
        for (s, above) in self.order.iter().map(up) {
            sides[s].1 = above.map_or(sides[s].0, |above| sides[above].1);
        }
        sides
    }

    /// Of `sides`, what is on the side of a channel of the forest where the channel begins.
    fn nearer(&self, graph: &Graph, sides: &[(u32, u32)], c: usize) -> u32 {
        let (from, to) = (graph.from(c), graph.to(c));
        if self.parent[to] == c as u32 { sides[to].1 - sides[to].0 } else { sides[from].0 }
    }
}
