//! What all searches ask of a fabric: who starts, who is reached, and how far.

use crate::model::Fabric;
use crate::route::graph::{Graph, hosts_per_switch};
use crate::route::grid::Grid;

/// No channel: at home, or nothing leads there.
pub(super) const NONE: u8 = u8::MAX;
/// Hops where there is no way.
pub(super) const FAR: u16 = u16::MAX;

/// A fabric with its distances.
pub(super) struct Terrain<'a> {
    pub(super) graph: &'a Graph,
    /// Hosts of each switch.
    pub(super) hosts: Vec<f64>,
    /// `[home * switches + switch]`.
    hops: Vec<u16>,
    /// Switches in the part of each switch, itself included.
    reachable: Vec<u32>,
    /// Coordinates, of a torus or mesh.
    pub(super) grid: Option<Grid>,
}

impl<'a> Terrain<'a> {
    /// O(switches × (switches + channels)).
    pub(super) fn new(fabric: &Fabric, graph: &'a Graph) -> Self {
        let n = graph.switches();
        let mut hops = vec![FAR; n * n];
        let mut reachable = vec![0; n];
        let mut queue = Vec::with_capacity(n);
        for home in 0..n {
            let row = &mut hops[home * n..(home + 1) * n];
            row[home] = 0;
            queue.clear();
            queue.push(home);
            let mut next = 0;
            while let Some(&s) = queue.get(next) {
                next += 1;
                for to in graph.neighbours(s) {
                    if row[*to as usize] == FAR {
                        row[*to as usize] = row[s] + 1;
                        queue.push(*to as usize);
                    }
                }
            }
            reachable[home] = queue.len() as u32;
        }
        let hosts = hosts_per_switch(fabric).into_iter().map(f64::from).collect();
        Self { graph, hosts, hops, reachable, grid: Grid::of(fabric, graph) }
    }

    /// Hops from a switch to a home; [`FAR`] if there is no way.
    #[inline]
    pub(super) fn hops(&self, home: usize, s: usize) -> u16 {
        self.hops[home * self.graph.switches() + s]
    }

    /// Whether terminals are there, so that every switch sends there.
    pub(super) fn is_home(&self, s: usize) -> bool {
        self.graph.terminals()[s] > 0
    }

    /// Whether a switch starts packets to a home: its terminals do, and the switch itself answers those
    /// of others.
    pub(super) fn starts(&self, home: usize, s: usize) -> bool {
        s != home && (self.is_home(home) || self.is_home(s))
    }

    /// Switches that reach a home, itself included.
    pub(super) fn reachable(&self, home: usize) -> u32 {
        self.reachable[home]
    }

    /// Routes between hosts on a channel on average, if all are as short as can be; at least 1.
    pub(super) fn mean_load(&self) -> f64 {
        let n = self.graph.switches();
        let mut sum = 0.0;
        for home in 0..n {
            for s in (0..n).filter(|s| self.hops(home, *s) != FAR) {
                sum += self.hosts[home] * self.hosts[s] * f64::from(self.hops(home, s));
            }
        }
        (sum / self.graph.channels().max(1) as f64).max(1.0)
    }
}
