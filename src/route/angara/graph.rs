//! The routing graph (section 3.1) with the edges of section 3.2: per node a begin vertex, one per
//! non-standard first step, one per set of direction bits, one per non-standard last step, and an
//! end vertex: `3ⁿ + 2n + 1`.
//!
//! Edges are not stored: which kind of vertex a step leads to depends on the kind it leaves and
//! the direction only, so one table serves all nodes; whether the channel is usable and the turn
//! free of deadlock is looked up.

use super::augment::Turns;
use crate::model::torus::DIRECTIONS;
use crate::model::{Direction, NodeId, Step, Torus};

/// Number of a vertex: node × kinds + kind.
pub type Vertex = u32;

/// No vertex.
pub const NONE: Vertex = Vertex::MAX;

/// One way on from a kind of vertex.
#[derive(Debug, Clone, Copy)]
struct Onward {
    direction: Direction,
    /// Kind of vertex it leads to.
    kind: u16,
    /// The step is in the direction order: no added turn is needed.
    ordered: bool,
    step: Step,
}

/// See the module.
pub struct RoutingGraph<'a> {
    torus: &'a Torus,
    turns: &'a Turns,
    kinds: usize,
    /// By kind: the direction a vertex of this kind was reached in, `None` for begin and end.
    reached_in: Vec<Option<Direction>>,
    onward: Vec<Vec<Onward>>,
    /// By channel: the node it leads to, or `NONE`.
    heads: Vec<u32>,
}

impl<'a> RoutingGraph<'a> {
    /// The graph over the usable channels (a bit per direction and node) and the added turns.
    pub fn new(torus: &'a Torus, usable: &[u8], turns: &'a Turns) -> Self {
        let kinds = Kinds { dims: torus.dims() };
        let heads = torus.nodes().flat_map(|n| {
            Direction::all().map(move |d| {
                let open = usable[n.index()] & d.bit() != 0;
                torus.cabled(n, d).filter(|_| open).map_or(NONE, |to| to.0)
            })
        });
        let heads = heads.collect();
        let reached_in = (0..kinds.count()).map(|k| kinds.reached_in(k)).collect();
        let onward = (0..kinds.count()).map(|k| kinds.onward(k)).collect();
        Self { torus, turns, kinds: kinds.count(), reached_in, onward, heads }
    }
    /// Vertices per node, `C_V(n) = 3ⁿ + 2n + 1`.
    pub fn kinds(&self) -> usize {
        self.kinds
    }
    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.torus.len() * self.kinds
    }
    /// Never: a torus has nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The vertex where routes of a node start.
    pub fn begin(&self, node: NodeId) -> Vertex {
        (node.index() * self.kinds) as Vertex
    }
    /// The vertex where routes to a node stop.
    pub fn end(&self, node: NodeId) -> Vertex {
        (node.index() * self.kinds + self.kinds - 1) as Vertex
    }
    /// The node of a vertex.
    #[inline]
    pub fn node(&self, vertex: Vertex) -> NodeId {
        NodeId::at(vertex as usize / self.kinds)
    }
    /// Calls `visit` for every edge that is a hop: next vertex, channel, step. The edge to the end
    /// vertex, which every vertex but the end has, is not listed.
    #[inline]
    pub fn hops(&self, vertex: Vertex, mut visit: impl FnMut(Vertex, usize, Step)) {
        let (node, kind) = (vertex as usize / self.kinds, vertex as usize % self.kinds);
        let mut through = None;
        for on in &self.onward[kind] {
            let head = self.heads[node * DIRECTIONS + on.direction.index()];
            if head == NONE || !(on.ordered || self.turn_is_added(node, kind, on.direction, &mut through)) {
                continue;
            }
            let channel = node * DIRECTIONS + on.direction.index();
            visit((head as usize * self.kinds) as Vertex + Vertex::from(on.kind), channel, on.step);
        }
    }

    fn turn_is_added(&self, node: usize, kind: usize, to: Direction, through: &mut Option<usize>) -> bool {
        let Some(from) = self.reached_in[kind] else { return false };
        if !self.turns.any() {
            return false;
        }
        let channel = through.or_else(|| {
            let before = self.torus.cabled(NodeId::at(node), from.opposite())?;
            Some(self.torus.channel(before, from))
        });
        *through = channel;
        channel.is_some_and(|c| self.turns.allows(c, from, to))
    }

    /// From one node to every node: hops (`u32::MAX` if there is no route) and the number of
    /// shortest paths of the graph, by node. O(vertices + edges).
    pub fn distances(&self, source: NodeId) -> (Vec<u32>, Vec<u64>) {
        let mut hops = vec![u32::MAX; self.torus.len()];
        let mut paths = vec![0u64; self.torus.len()];
        let mut depth = vec![u32::MAX; self.len()];
        let mut count = vec![0u64; self.len()];
        let mut level = vec![self.begin(source)];
        depth[level[0] as usize] = 0;
        count[level[0] as usize] = 1;
        for distance in 0.. {
            let mut next = Vec::new();
            for vertex in level {
                let node = self.node(vertex).index();
                if hops[node] >= distance {
                    hops[node] = distance;
                    paths[node] += count[vertex as usize];
                }
                let ways = count[vertex as usize];
                self.hops(vertex, |to, _, _| {
                    if depth[to as usize] == u32::MAX {
                        depth[to as usize] = distance + 1;
                        next.push(to);
                    }
                    if depth[to as usize] == distance + 1 {
                        count[to as usize] += ways;
                    }
                });
            }
            if next.is_empty() {
                break;
            }
            level = next;
        }
        (hops, paths)
    }
}

/// Kinds of vertices: begin, first steps, sets of direction bits (as a number in base 3: digit `i`
/// is 0 for none, 1 for positive, 2 for negative in dimension `i`), last steps, end.
struct Kinds {
    dims: usize,
}

impl Kinds {
    fn sets(&self) -> usize {
        3usize.pow(self.dims as u32)
    }
    fn count(&self) -> usize {
        self.sets() + 2 * self.dims + 1
    }
    fn first(&self, dim: usize) -> usize {
        1 + dim
    }
    /// The empty set has no vertex; its number would be that of the last first step.
    fn bits(&self, set: usize) -> usize {
        self.dims + set
    }
    fn last(&self, dim: usize) -> usize {
        self.dims + self.sets() + dim
    }
    fn digit(set: usize, dim: usize) -> usize {
        set / 3usize.pow(dim as u32) % 3
    }
    fn with(set: usize, direction: Direction) -> Option<usize> {
        let digit = 1 + usize::from(direction.is_negative());
        match Self::digit(set, direction.dim()) {
            0 => Some(set + digit * 3usize.pow(direction.dim() as u32)),
            same if same == digit => Some(set),
            _ => None,
        }
    }
    fn set_of(&self, kind: usize) -> Option<usize> {
        (kind > self.dims && kind < self.dims + self.sets()).then(|| kind - self.dims)
    }
    fn directions(&self) -> impl DoubleEndedIterator<Item = Direction> + use<> {
        let dims = self.dims;
        Direction::all().filter(move |d| d.dim() < dims)
    }
    fn reached_in(&self, kind: usize) -> Option<Direction> {
        if (1..=self.dims).contains(&kind) {
            return Some(Direction::positive(kind - 1));
        }
        let set = self.set_of(kind)?;
        self.directions().rev().find(|d| Self::digit(set, d.dim()) == 1 + usize::from(d.is_negative()))
    }

    fn onward(&self, kind: usize) -> Vec<Onward> {
        let mut onward = Vec::new();
        let mut add = |direction, kind: usize, ordered, step| {
            onward.push(Onward { direction, kind: kind as u16, ordered, step });
        };
        let set = self.set_of(kind);
        let before = self.reached_in(kind);
        let is_first = (1..=self.dims).contains(&kind);
        for direction in self.directions().filter(|_| kind == 0 || is_first || set.is_some()) {
            let plain = Step::plain(direction);
            let reverses = before == Some(direction.opposite());
            let ordered = before.is_none_or(|b| b < direction && !reverses);
            let single = Self::with(0, direction).map(|s| self.bits(s));
            if let Some(single) = single.filter(|_| kind == 0 || (is_first && before != Some(direction))) {
                add(direction, single, ordered, plain);
            }
            if let Some(extended) = set.and_then(|s| Self::with(s, direction)) {
                if before.is_none_or(|b| b <= direction) {
                    add(direction, self.bits(extended), true, plain);
                }
            }
            if kind == 0 && !direction.is_negative() {
                add(direction, self.first(direction.dim()), true, Step::first(direction));
            }
            if set.is_some() && direction.is_negative() && before != Some(direction) {
                add(direction, self.last(direction.dim()), ordered, Step::last(direction));
            }
        }
        onward
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TorusBuilder;

    #[test]
    fn as_many_vertices_as_the_paper_says() {
        for (sizes, vertices) in [(&[3][..], 6), (&[3, 3], 14), (&[3, 3, 3], 34), (&[3, 3, 3, 3], 90)] {
            let torus = TorusBuilder::new(sizes).unwrap().build().unwrap();
            let usable: Vec<u8> = torus.nodes().map(|n| torus.exits(n)).collect();
            let turns = Turns::new(&torus, &usable);
            let graph = RoutingGraph::new(&torus, &usable, &turns);
            assert_eq!(graph.kinds(), vertices);
        }
    }
}
