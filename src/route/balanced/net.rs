//! The switch graph and its turns.

use crate::model::Fabric;
use crate::route::graph::{Graph, hosts_per_switch};

/// No channel: the home switch of a destination, or a switch that cannot reach it.
pub(super) const NONE: u8 = u8::MAX;

/// The switch graph and its turns.
///
/// A turn at switch `u` is a pair of an incoming channel and an outgoing channel, stored at
/// `turn_start[u] + slot(outgoing) * degree(u) + slot(reverse of incoming)`: all turns into one
/// outgoing channel lie side by side.
pub(super) struct Net {
    graph: Graph,
    /// Slot of the reverse of each channel.
    pub(super) back_slot: Vec<u8>,
    /// First turn of each switch, and the number of turns.
    pub(super) turn_start: Vec<usize>,
    /// Hosts of each switch.
    pub(super) hosts: Vec<u32>,
    /// Whether a switch has terminals, and so routes that start there.
    pub(super) is_source: Vec<bool>,
    /// Those that have, ascending.
    pub(super) sources: Vec<u32>,
    /// Smallest switch of the connected part a switch is in.
    pub(super) part: Vec<u32>,
}

impl std::ops::Deref for Net {
    type Target = Graph;
    #[inline]
    fn deref(&self) -> &Graph {
        &self.graph
    }
}

impl Net {
    /// O(size of the fabric).
    pub(super) fn new(fabric: &Fabric) -> Self {
        let graph = Graph::new(fabric);
        let mut turn_start = vec![0];
        for s in 0..graph.switches() {
            turn_start.push(turn_start[s] + graph.out(s).len().pow(2));
        }
        let back_slot = (0..graph.channels()).map(|c| graph.slot(graph.reverse(c))).collect();
        let is_source: Vec<bool> = graph.terminals().iter().map(|n| *n > 0).collect();
        let sources = (0..).zip(&is_source).filter(|(_, is)| **is).map(|(s, _)| s).collect();
        let hosts = hosts_per_switch(fabric);
        let part = graph.components();
        Self { graph, back_slot, turn_start, hosts, is_source, sources, part }
    }

    /// Number of turns.
    pub(super) fn turns(&self) -> usize {
        self.turn_start[self.switches()]
    }

    /// Number of channels that leave a switch.
    #[inline]
    pub(super) fn degree(&self, s: usize) -> usize {
        self.out(s).len()
    }

    /// The turn at `u` from the reverse of its slot `coming` into its slot `leaving`.
    #[inline]
    pub(super) fn turn(&self, u: usize, coming: u8, leaving: u8) -> usize {
        self.turn_start[u] + usize::from(leaving) * self.degree(u) + usize::from(coming)
    }
}
