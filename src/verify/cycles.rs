//! The channel dependency graph (Dally and Seitz 1987; thesis Definition 3.10) of each layer, and
//! its cycles.

use crate::model::{ChannelId, Fabric};

/// Dependencies between channels as a bit set of layers per turn.
///
/// A turn is a channel into a switch followed by a channel out of it. Turns of channel `c` are
/// `start[c]..start[c + 1]`, in the order of [`Fabric::out`] of the switch it leads to.
pub(super) struct Turns<'a> {
    fabric: &'a Fabric,
    start: Vec<u32>,
    /// Position of each channel in [`Fabric::out`] of its sender.
    rank: Vec<u32>,
}

/// Which turns some route of each layer takes: bit `l` of `layers[turn]` for layer `l`.
pub(super) struct Dependencies {
    layers: Vec<u16>,
}

impl<'a> Turns<'a> {
    /// O(turns).
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let mut rank = vec![0; fabric.channels().len()];
        for s in fabric.switch_ids() {
            for (i, c) in fabric.out(s).iter().enumerate() {
                rank[c.index()] = i as u32;
            }
        }
        let mut start = vec![0];
        let mut turns = 0;
        for c in fabric.channels() {
            turns += fabric.out(c.to).len() as u32;
            start.push(turns);
        }
        Self { fabric, start, rank }
    }

    /// No dependencies yet.
    pub(super) fn none(&self) -> Dependencies {
        Dependencies { layers: vec![0; self.start[self.start.len() - 1] as usize] }
    }

    /// Channels that layer `layer` has routes on right after channel `c`.
    fn after<'b>(
        &'b self,
        dependencies: &'b Dependencies,
        c: usize,
        layer: u8,
    ) -> impl Iterator<Item = ChannelId> + 'b {
        let out = self.fabric.out(self.fabric.channel(ChannelId::at(c)).to);
        let layers = &dependencies.layers[self.start[c] as usize..self.start[c + 1] as usize];
        out.iter().zip(layers).filter(move |(_, l)| *l >> layer & 1 == 1).map(|(c, _)| *c)
    }

    /// Marks the turn from `c1` to `c2` for a set of layers.
    #[inline]
    pub(super) fn mark(&self, dependencies: &mut Dependencies, c1: u32, c2: u32, layers: u16) {
        dependencies.layers[(self.start[c1 as usize] + self.rank[c2 as usize]) as usize] |= layers;
    }

    /// A cycle of a layer, channels in order; `None` if there is none. Depth first, and then the
    /// shortest cycle through the channel that closed the one found. O(turns).
    pub(super) fn cycle(&self, dependencies: &Dependencies, layer: u8) -> Option<Vec<ChannelId>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            No,
            Open,
            Done,
        }
        let channels = self.fabric.channels().len();
        let mut seen = vec![Seen::No; channels];
        let mut stack = Vec::new();
        for root in 0..channels {
            if seen[root] != Seen::No {
                continue;
            }
            seen[root] = Seen::Open;
            stack.push((root, self.after(dependencies, root, layer)));
            while let Some((c, successors)) = stack.last_mut() {
                match successors.next().map(ChannelId::index) {
                    None => {
                        seen[*c] = Seen::Done;
                        stack.pop();
                    }
                    Some(next) if seen[next] == Seen::Open => {
                        return self.shortest_through(dependencies, next, layer);
                    }
                    Some(next) if seen[next] == Seen::No => {
                        seen[next] = Seen::Open;
                        stack.push((next, self.after(dependencies, next, layer)));
                    }
                    Some(_) => {}
                }
            }
        }
        None
    }

    /// Breadth first from a channel that is on a cycle, back to it.
    fn shortest_through(
        &self,
        dependencies: &Dependencies,
        start: usize,
        layer: u8,
    ) -> Option<Vec<ChannelId>> {
        let mut from = vec![usize::MAX; self.fabric.channels().len()];
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(c) = queue.pop_front() {
            for next in self.after(dependencies, c, layer).map(ChannelId::index) {
                if next == start {
                    let mut cycle = vec![ChannelId::at(c)];
                    while let Some(last) = cycle.last().map(|c| c.index()).filter(|c| *c != start) {
                        cycle.push(ChannelId::at(from[last]));
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if from[next] == usize::MAX {
                    from[next] = c;
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

impl Dependencies {
    /// Dependencies of both.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.layers.iter_mut().zip(&other.layers).for_each(|(a, b)| *a |= b);
        self
    }

    /// All layers with any dependency, as a bit set.
    pub(super) fn layers(&self) -> u16 {
        self.layers.iter().fold(0, |all, l| all | l)
    }
}
