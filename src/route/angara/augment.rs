//! Deadlock-free edge augmentation (section 3.2, Theorem 2): which turns may violate the direction
//! order.
//!
//! The channel dependency graph starts with every turn in direction order. A turn `D_j -> D_k`,
//! `D_j > D_k`, is added where `D_j` is not in the used-direction set of the channel turned into,
//! i.e. where no path can come back to direction `D_j`. Hence no cycle, even if each complete
//! ring is one vertex (bubble rule): all channels of a ring share a direction.
//!
//! Where the paper leaves freedom:
//! - Only turns that a route can make are considered: from a positive to a lower positive
//!   direction (a first step) and from a negative to a lower negative one (a last step). The paper
//!   adds all; each useless one would only enlarge used-direction sets.
//! - Immediate reversals (`+X -X`) are no edges: no minimal route makes one.
//! - Channels are visited by node index, then direction; the order decides between turns that
//!   exclude each other.
//! - All jobs of a demand share one graph, so the union of their routes is free of deadlock.
//! - The turns of routes that stay are there first, so that new ones exclude themselves.

use crate::model::{Direction, NodeId, Torus, TorusDemand};

/// Turns against the direction order that cannot close a cycle.
#[derive(Debug, Clone)]
pub struct Turns {
    /// By channel: bit `k` is set where direction `k`, lower than the channel's, may follow.
    extra: Vec<u8>,
    any: bool,
}

impl Turns {
    /// Those that the routes of a demand share: see [`Turns::new`]. The turns of routes that stay are among
    /// them, whether Theorem 2 would allow them now or not: that is for the checker to say.
    /// O(channels × directions² + hops of routes that stay).
    pub fn of(torus: &Torus, demand: &TorusDemand) -> Self {
        let usable = demand.usable(torus, None);
        let mut graph = Dependencies::new(torus, &usable);
        for (source, _, steps) in demand.jobs.iter().filter_map(|j| j.kept()).flat_map(|kept| kept.pairs()) {
            let hops = || torus.walk(source, steps);
            for ((at, from), (head, to)) in
                hops().zip(hops().skip(1)).filter(|((_, from), (_, to))| to < from)
            {
                graph.add_turn(torus.channel(at, from), torus.channel(head, to), to);
            }
        }
        Self::complete(graph)
    }

    /// Builds the used-direction sets and adds every turn that Theorem 2 allows.
    ///
    /// `usable[node]` has bit `d` set where the channel in direction `d` may be used.
    /// O(channels × directions²): a set grows at most eight times.
    pub fn new(torus: &Torus, usable: &[u8]) -> Self {
        Self::complete(Dependencies::new(torus, usable))
    }

    fn complete(mut graph: Dependencies<'_>) -> Self {
        let (torus, usable) = (graph.torus, graph.usable);
        for node in torus.nodes() {
            for from in Direction::all().filter(|d| usable[node.index()] & d.bit() != 0) {
                let Some(at) = torus.cabled(node, from) else { continue };
                let same_sign = Direction::all().filter(|to| to.is_negative() == from.is_negative());
                for to in same_sign.filter(|to| *to < from && usable[at.index()] & to.bit() != 0) {
                    if graph.used[torus.channel(at, to)] & from.bit() == 0 {
                        graph.add_turn(torus.channel(node, from), torus.channel(at, to), to);
                    }
                }
            }
        }
        let any = graph.extra.iter().any(|e| *e != 0);
        Self { extra: graph.extra, any }
    }
    /// No turn against the order at all.
    pub fn none(torus: &Torus) -> Self {
        Self { extra: vec![0; torus.channel_slots()], any: false }
    }
    /// Whether there is any such turn.
    #[inline]
    pub fn any(&self) -> bool {
        self.any
    }
    /// Whether a route may turn from a channel into `to`, a different direction.
    #[inline]
    pub fn allows(&self, channel: usize, from: Direction, to: Direction) -> bool {
        (from < to && to != from.opposite()) || self.extra[channel] & to.bit() != 0
    }
    /// Directions, one bit each, that may follow a channel against the order.
    #[inline]
    pub fn after(&self, channel: usize) -> u8 {
        self.extra[channel]
    }
    /// Number of turns against the order.
    pub fn count(&self) -> u32 {
        self.extra.iter().map(|e| e.count_ones()).sum()
    }
}

/// The channel dependency graph with the used-direction set `B` of every channel.
struct Dependencies<'a> {
    torus: &'a Torus,
    usable: &'a [u8],
    extra: Vec<u8>,
    used: Vec<u8>,
    /// Channels whose set has grown and must be told to their predecessors.
    queue: Vec<usize>,
}

impl<'a> Dependencies<'a> {
    fn new(torus: &'a Torus, usable: &'a [u8]) -> Self {
        let slots = torus.channel_slots();
        let mut graph =
            Self { torus, usable, extra: vec![0; slots], used: vec![0; slots], queue: Vec::new() };
        // Highest directions first: their sets are final when lower ones ask.
        for direction in Direction::all().rev() {
            for node in torus.nodes().filter(|n| usable[n.index()] & direction.bit() != 0) {
                graph.grow(torus.channel(node, direction), direction.bit());
            }
        }
        graph
    }

    /// Allows the turn from a channel into the next one, of direction `to`.
    fn add_turn(&mut self, channel: usize, next: usize, to: Direction) {
        if self.extra[channel] & to.bit() == 0 {
            self.extra[channel] |= to.bit();
            self.grow(channel, self.used[next]);
        }
    }

    /// Adds directions to a channel's set and to the sets of all channels that lead to it.
    fn grow(&mut self, channel: usize, bits: u8) {
        self.add(channel, bits);
        while let Some(channel) = self.queue.pop() {
            let node = NodeId::at(channel / Direction::all().count());
            let to = Direction::at(channel);
            for from in Direction::all() {
                let Some(before) = self.torus.cabled(node, from.opposite()) else { continue };
                let earlier = self.torus.channel(before, from);
                let turns = from == to || (from < to && to != from.opposite());
                if self.usable[before.index()] & from.bit() != 0
                    && (turns || self.extra[earlier] & to.bit() != 0)
                {
                    self.add(earlier, self.used[channel]);
                }
            }
        }
    }

    fn add(&mut self, channel: usize, bits: u8) {
        if self.used[channel] | bits != self.used[channel] {
            self.used[channel] |= bits;
            self.queue.push(channel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TorusBuilder;

    fn turns(sizes: &[usize]) -> u32 {
        let torus = TorusBuilder::new(sizes).unwrap().build().unwrap();
        let usable: Vec<u8> = torus.nodes().map(|n| torus.exits(n)).collect();
        Turns::new(&torus, &usable).count()
    }

    #[test]
    fn healthy_rings_have_none_and_meshes_many() {
        assert_eq!(turns(&[4, 4]), 0);
        assert_eq!(turns(&[5, 3, 4]), 0);
        // Every positive hop of Y and every negative one may turn into X of the far row.
        assert_eq!(turns(&[4, 2]), 8);
        assert!(turns(&[4, 2, 2, 2]) > 100);
    }
}
