//! Routing tables of a direct torus: for every ordered pair of a job's nodes a list of steps.

use super::{Step, TorusDemand};
use crate::model::{Fingerprint, NodeId};

/// Routes between all ordered pairs of a job's nodes, source-major in one flat array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    nodes: Vec<NodeId>,
    /// `steps[starts[p]..starts[p + 1]]` is the route of pair `p = source × nodes + destination`
    /// (places in `nodes`).
    starts: Vec<u32>,
    steps: Vec<Step>,
}

impl Routes {
    /// An empty table for a job's nodes (ascending), to be filled by [`Routes::push`].
    pub fn new(nodes: Vec<NodeId>) -> Self {
        let mut starts = Vec::with_capacity(nodes.len() * nodes.len() + 1);
        starts.push(0);
        Self { nodes, starts, steps: Vec::new() }
    }
    /// Appends the route of the next pair in source-major order: empty from a node to itself and
    /// where there is no route.
    pub fn push(&mut self, steps: impl IntoIterator<Item = Step>) {
        self.steps.extend(steps);
        self.starts.push(self.steps.len() as u32);
    }
    /// Makes room for the routes of all pairs with that many steps in total.
    pub fn reserve(&mut self, steps: usize) {
        self.starts.reserve_exact(self.nodes.len() * self.nodes.len());
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
        match (self.starts.get(pair), self.starts.get(pair + 1)) {
            (Some(from), Some(to)) => &self.steps[*from as usize..*to as usize],
            _ => &[],
        }
    }
    /// Ordered pairs of different nodes with their routes: `(source, destination, steps)`.
    pub fn pairs(&self) -> impl Iterator<Item = (NodeId, NodeId, &[Step])> {
        let places = 0..self.nodes.len();
        places.clone().flat_map(move |s| {
            let row = places.clone().filter(move |d| *d != s);
            row.map(move |d| (self.nodes[s], self.nodes[d], self.route(s, d)))
        })
    }
    /// Memory of the arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.starts.capacity() * 4 + self.steps.capacity() + self.nodes.capacity() * 4
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
