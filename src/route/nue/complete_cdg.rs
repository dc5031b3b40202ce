//! The complete channel dependency graph (thesis Definition 6.1) with states per dependency.
//!
//! Directions follow the search: outward from the destination. A route takes the reverse
//! channels in reverse order; turning every dependency around keeps a graph acyclic.
//!
//! Instead of numbering acyclic subgraphs (thesis 6.2.6.1) the used dependencies are kept in a
//! topological order that is repaired where a new one contradicts it (Pearce and Kelly, "A dynamic
//! topological sort algorithm for directed acyclic graphs", 2006): most questions are answered by
//! one comparison, the others by a search between two places of the order.

use crate::model::{ChannelId, Fabric, SwitchId};

const UNUSED: u8 = 0;
const USED: u8 = 1;
const BLOCKED: u8 = 2;

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

/// States of all channel dependencies of one virtual layer, and an order that proves the used
/// ones acyclic.
pub(super) struct CompleteCdg<'a> {
    fabric: &'a Fabric,
    /// Dependencies that start at channel `c` are `start[c]..start[c + 1]`, in the order of the
    /// channels that leave its far switch.
    start: Vec<u32>,
    /// `position[c]`: index of `c` among the channels that leave its own switch.
    position: Vec<u32>,
    state: Vec<u8>,
    /// `rank[c]`: place of channel `c` in the topological order; a permutation.
    rank: Vec<u32>,
    /// Stamp of the last search that saw a channel.
    seen: Vec<u32>,
    stamp: u32,
    /// Results of the two searches: rank in the upper half, channel in the lower, so that they
    /// sort as plain numbers.
    forward: Vec<u64>,
    backward: Vec<u64>,
}

fn channel_of(entry: u64) -> usize {
    (entry & u64::from(u32::MAX)) as usize
}

impl<'a> CompleteCdg<'a> {
    /// Everything unused. `order` lists all switches; the first topological order puts channels
    /// towards its front first, from its back on, and then those away from it: with the order of
    /// a breadth-first search, what goes up and then down needs no repair. O(dependencies).
    pub(super) fn new(fabric: &'a Fabric, order: &[SwitchId]) -> Self {
        let channels = fabric.channels().len();
        let mut position = vec![0; channels];
        for s in fabric.switch_ids() {
            for (i, c) in fabric.out(s).iter().enumerate() {
                position[c.index()] = i as u32;
            }
        }
        let mut start = Vec::with_capacity(channels + 1);
        let mut total = 0;
        for c in fabric.channel_ids() {
            start.push(total);
            total += fabric.out(fabric.channel(c).to).len() as u32;
        }
        start.push(total);
        Self {
            fabric,
            start,
            position,
            state: vec![UNUSED; total as usize],
            rank: up_then_down(fabric, order),
            seen: vec![0; channels],
            stamp: 0,
            forward: Vec::new(),
            backward: Vec::new(),
        }
    }

    #[inline]
    fn dependency(&self, p: ChannelId, q: ChannelId) -> usize {
        (self.start[p.index()] + self.position[q.index()]) as usize
    }

    /// Uses the dependency from `p` to the following channel `q` if that closes no cycle;
    /// otherwise blocks it for good.
    ///
    /// `q` must leave the switch that `p` enters. Back to where `p` came from is never allowed.
    #[inline]
    pub(super) fn try_use(&mut self, p: ChannelId, q: ChannelId) -> Use {
        let edge = self.dependency(p, q);
        match self.state[edge] {
            USED => return Use::Known,
            BLOCKED => return Use::Refused,
            _ => {}
        }
        let back = self.fabric.channel(q).to == self.fabric.channel(p).from;
        let accepted = !back && self.order(p, q);
        self.state[edge] = if accepted { USED } else { BLOCKED };
        if accepted { Use::New } else { Use::Refused }
    }

    /// Takes back a dependency that no route of the finished step needs.
    pub(super) fn release(&mut self, p: ChannelId, q: ChannelId) {
        let edge = self.dependency(p, q);
        self.state[edge] = UNUSED;
    }

    fn entry(&self, c: ChannelId) -> u64 {
        u64::from(self.rank[c.index()]) << 32 | c.index() as u64
    }

    /// Makes `p` come before `q` in the order; `false`, with nothing changed, if `q` leads to `p`.
    fn order(&mut self, p: ChannelId, q: ChannelId) -> bool {
        let (low, high) = (self.rank[q.index()], self.rank[p.index()]);
        if high < low {
            return true;
        }
        if !self.search_forward(q, p, high) {
            return false;
        }
        self.search_backward(p, low);
        // The channels found keep the set of places they had: first what leads to p, then what q
        // leads to, each in its old order.
        self.backward.sort_unstable();
        self.forward.sort_unstable();
        let (mut b, mut f) = (0, 0);
        for i in 0..self.backward.len() + self.forward.len() {
            let of_backward = self.backward.get(b).map_or(u64::MAX, |entry| *entry);
            let of_forward = self.forward.get(f).map_or(u64::MAX, |entry| *entry);
            let place = of_backward.min(of_forward);
            if of_backward < of_forward {
                b += 1;
            } else {
                f += 1;
            }
            let moved = match self.backward.get(i) {
                Some(entry) => channel_of(*entry),
                None => channel_of(self.forward[i - self.backward.len()]),
            };
            self.rank[moved] = (place >> 32) as u32;
        }
        true
    }

    /// Collects what `from` leads to up to rank `high`; `false` if `target` is among it.
    fn search_forward(&mut self, from: ChannelId, target: ChannelId, high: u32) -> bool {
        self.stamp += 1;
        self.forward.clear();
        self.forward.push(self.entry(from));
        self.seen[from.index()] = self.stamp;
        let mut next = 0;
        while next < self.forward.len() {
            let c = ChannelId::at(channel_of(self.forward[next]));
            next += 1;
            let first = self.start[c.index()] as usize;
            for (i, d) in self.fabric.out(self.fabric.channel(c).to).iter().enumerate() {
                if self.state[first + i] != USED || self.rank[d.index()] > high {
                    continue;
                }
                if *d == target {
                    return false;
                }
                if self.seen[d.index()] != self.stamp {
                    self.seen[d.index()] = self.stamp;
                    self.forward.push(self.entry(*d));
                }
            }
        }
        true
    }

    /// Collects what leads to `from` down to rank `low`.
    fn search_backward(&mut self, from: ChannelId, low: u32) {
        self.stamp += 1;
        self.backward.clear();
        self.backward.push(self.entry(from));
        self.seen[from.index()] = self.stamp;
        let mut next = 0;
        while next < self.backward.len() {
            let c = ChannelId::at(channel_of(self.backward[next]));
            next += 1;
            // Channels that enter the switch `c` leaves are the reverses of those that leave it.
            for out in self.fabric.out(self.fabric.channel(c).from) {
                let d = out.reverse();
                if self.rank[d.index()] < low || self.seen[d.index()] == self.stamp {
                    continue;
                }
                if self.state[self.dependency(d, c)] == USED {
                    self.seen[d.index()] = self.stamp;
                    self.backward.push(self.entry(d));
                }
            }
        }
    }
}

/// `result[channel]`: first the channels towards the front of `order`, those from its back first;
/// then the others, those from its front first.
fn up_then_down(fabric: &Fabric, order: &[SwitchId]) -> Vec<u32> {
    let mut place = vec![0i64; order.len()];
    order.iter().enumerate().for_each(|(i, s)| place[s.index()] = i as i64);
    let mut channels: Vec<ChannelId> = fabric.channel_ids().collect();
    channels.sort_by_key(|c| {
        let ch = fabric.channel(*c);
        let (from, to) = (place[ch.from.index()], place[ch.to.index()]);
        if to < from { (false, -from, *c) } else { (true, from, *c) }
    });
    let mut rank = vec![0; channels.len()];
    channels.iter().enumerate().for_each(|(i, c)| rank[c.index()] = i as u32);
    rank
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{generate, rng::Rng};

    /// On random fabrics, every answer of `try_use` agrees with a plain search for a cycle.
    #[test]
    fn agrees_with_petgraph() {
        for seed in 0..30 {
            let fabric = generate(&format!("random:8,8,14,seed={seed}")).unwrap();
            let order: Vec<SwitchId> = fabric.switch_ids().collect();
            let mut cdg = CompleteCdg::new(&fabric, &order);
            let mut rng = Rng::new(seed);
            let mut plain = petgraph::graph::DiGraph::<(), ()>::new();
            let nodes: Vec<_> = fabric.channel_ids().map(|_| plain.add_node(())).collect();
            let mut refused = 0;
            for _ in 0..400 {
                let p = ChannelId::at(rng.below(fabric.channels().len()));
                let out = fabric.out(fabric.channel(p).to);
                let q = out[rng.below(out.len())];
                let edge = plain.add_edge(nodes[p.index()], nodes[q.index()], ());
                let back = fabric.channel(q).to == fabric.channel(p).from;
                let legal = !back && !petgraph::algo::is_cyclic_directed(&plain);
                let answer = cdg.try_use(p, q);
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
