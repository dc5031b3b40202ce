//! Routing tables of a direct torus: for every ordered pair of a job's nodes a list of steps.

use super::{Step, TorusDemand};
use crate::model::{Fingerprint, NodeId};

/// Pairs that share a start in the array of steps.
const BLOCK: usize = 64;
/// Steps kept of one route: more than any legal one has, and a block of them fits 16 bits.
const LONGEST: usize = 512;

/// Routes between all ordered pairs of a job's nodes, source-major in one flat array: a byte per
/// step and two per pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    nodes: Vec<NodeId>,
    /// The route of pair `p = source × nodes + destination` (places in `nodes`) starts
    /// `ends[p - 1]` and ends `ends[p]` steps after its block of [`BLOCK`] pairs.
    ends: Vec<u16>,
    /// By block of pairs: where its steps start.
    blocks: Vec<u64>,
    steps: Vec<Step>,
}

impl Routes {
    /// An empty table for a job's nodes (ascending), to be filled by [`Routes::push`].
    pub fn new(nodes: Vec<NodeId>) -> Self {
        Self { nodes, ends: Vec::new(), blocks: Vec::new(), steps: Vec::new() }
    }
    /// Appends the route of the next pair in source-major order: empty from a node to itself and
    /// where there is no route. Of a route of more than 512 steps, which no rule allows, only these
    /// are kept.
    pub fn push(&mut self, steps: impl IntoIterator<Item = Step>) {
        if self.ends.len() % BLOCK == 0 {
            self.blocks.push(self.steps.len() as u64);
        }
        self.steps.extend(steps.into_iter().take(LONGEST));
        let start = self.blocks.last().map_or(0, |start| *start as usize);
        self.ends.push((self.steps.len() - start) as u16);
    }
    /// Makes room for the routes of all pairs with that many steps in total.
    pub fn reserve(&mut self, steps: usize) {
        self.ends.reserve_exact(self.nodes.len() * self.nodes.len());
        self.steps.reserve_exact(steps);
    }
    /// The job's nodes, ascending.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }
    /// The route between two places in [`Routes::nodes`]; empty if there is none.
    #[inline]
    pub fn route(&self, source: usize, destination: usize) -> &[Step] {
        let pair = source * self.nodes.len() + destination;
        let (Some(end), Some(block)) = (self.ends.get(pair), self.blocks.get(pair / BLOCK)) else {
            return &[];
        };
        let start = if pair % BLOCK == 0 { 0 } else { self.ends[pair - 1] };
        let block = *block as usize;
        &self.steps[block + usize::from(start)..block + usize::from(*end)]
    }
    /// Ordered pairs of different nodes with their routes: `(source, destination, steps)`.
    pub fn pairs(&self) -> impl Iterator<Item = (NodeId, NodeId, &[Step])> {
        let places = 0..self.nodes.len();
        places.clone().flat_map(move |s| {
            let row = places.clone().filter(move |d| *d != s);
            row.map(move |d| (self.nodes[s], self.nodes[d], self.route(s, d)))
        })
    }
}

/// What an engine made: one [`Routes`] per job of the demand, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorusTables {
    /// The torus these routes are for.
    pub torus: Fingerprint,
    /// The engine that made them, or `file`.
    pub engine: String,
    /// The demand they were made for.
    pub demand: TorusDemand,
    /// Routes by job.
    pub routes: Vec<Routes>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Direction;

    /// Every length is read back where it was put, over the edges of blocks too.
    #[test]
    fn routes_are_read_back_as_pushed() {
        let mut routes = Routes::new((0..20).map(NodeId::at).collect());
        let route = |pair: usize| (0..pair * 7 % 23).map(move |i| Step::plain(Direction::at(i + pair)));
        assert!(routes.route(0, 1).is_empty());
        (0..400).for_each(|pair| routes.push(route(pair)));
        for pair in 0..400 {
            assert_eq!(routes.route(pair / 20, pair % 20), route(pair).collect::<Vec<_>>(), "{pair}");
        }
        let mut routes = Routes::new((0..20).map(NodeId::at).collect());
        (0..400).for_each(|_| routes.push(vec![Step::plain(Direction::at(0)); 1000]));
        assert!((0..400).all(|pair| routes.route(pair / 20, pair % 20).len() == LONGEST));
    }
}
