//! The escape tree of a search: a spanning tree, whose turns close no cycle on one lane.

use petgraph::unionfind::UnionFind;

use super::terrain::{FAR, NONE, Terrain};
use crate::route::graph::Graph;

/// Spanning trees of all parts.
pub(super) struct Escape<'a> {
    graph: &'a Graph,
    /// Channels of the trees, both directions of their cables.
    inside: Vec<bool>,
}

impl<'a> Escape<'a> {
    /// Of those of these cables that close no circle with cables before; together they must lead everywhere.
    pub(super) fn of(graph: &'a Graph, cables: Vec<usize>) -> Self {
        let mut escape = Self { graph, inside: vec![false; graph.channels()] };
        let mut joined = UnionFind::<usize>::new(graph.switches());
        for c in cables {
            if joined.union(graph.from(c), graph.to(c)) {
                escape.take(c);
            }
        }
        escape
    }

    /// Breadth-first trees from a switch in the middle of each part.
    pub(super) fn broad(terrain: &Terrain<'a>) -> Self {
        let (graph, n) = (terrain.graph, terrain.graph.switches());
        let mut escape = Self { graph, inside: vec![false; graph.channels()] };
        let far = |root: usize| {
            let hops = (0..n).map(|s| terrain.hops(root, s)).filter(|h| *h != FAR).map(u64::from);
            hops.fold((0, 0), |(m, s), h| (m.max(h), s + h))
        };
        let part = graph.components();
        let mut root: Vec<Option<((u64, u64), usize)>> = vec![None; n];
        for s in 0..n {
            let (key, best) = (far(s), &mut root[part[s] as usize]);
            if best.is_none_or(|(least, _)| key < least) {
                *best = Some((key, s));
            }
        }
        for (_, root) in root.into_iter().flatten() {
            for s in (0..n).filter(|s| *s != root && terrain.hops(root, *s) != FAR) {
                let nearer = |c: &usize| terrain.hops(root, graph.to(*c)) + 1 == terrain.hops(root, s);
                if let Some(c) = graph.out(s).find(nearer) {
                    escape.take(c);
                }
            }
        }
        escape
    }

    fn take(&mut self, c: usize) {
        self.inside[c] = true;
        self.inside[self.graph.reverse(c)] = true;
    }

    /// All turns inside, which no cycle can come from.
    pub(super) fn turns(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let graph = self.graph;
        let inside = (0..graph.channels()).filter(|c| self.inside[*c]);
        inside.flat_map(move |from| {
            graph.out(graph.to(from)).filter(|to| self.inside[*to]).map(move |to| (from, to))
        })
    }

    /// Fills in the slots towards a home.
    pub(super) fn lead_to(&self, home: usize, row: &mut [u8]) {
        let graph = self.graph;
        row.fill(NONE);
        let mut queue = vec![home];
        let mut next = 0;
        while let Some(&at) = queue.get(next) {
            next += 1;
            for back in graph.out(at).filter(|c| self.inside[*c]) {
                let (s, c) = (graph.to(back), graph.reverse(back));
                if s != home && row[s] == NONE {
                    row[s] = graph.slot_at(s, c);
                    queue.push(s);
                }
            }
        }
    }
}
