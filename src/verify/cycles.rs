//! The channel dependency graph (Dally and Seitz 1987; thesis Definition 3.10) over channels and
//! their virtual lanes, and its cycles.

use super::lanes::Lanes;
use crate::model::{ChannelId, Fabric};

/// Turns: a channel into a switch followed by a channel out of it. Those of channel `c` are
/// `start[c]..start[c + 1]`, in the order of [`Fabric::out`] of the switch it leads to.
pub(super) struct Turns<'a> {
    pub(super) fabric: &'a Fabric,
    start: Vec<u32>,
    /// Position of each channel in [`Fabric::out`] of its sender.
    rank: Vec<u32>,
}

/// What packets of each turn may wait on: `vls[turn * columns + column]` are the VLs of the first
/// channel, as bits, on which packets of that column of [`Lanes`] may be.
pub(super) struct Dependencies {
    vls: Vec<u16>,
}

/// A VL of a channel: what a buffer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Buffer {
    pub(super) channel: ChannelId,
    pub(super) vl: u8,
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

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.start[self.start.len() - 1] as usize
    }

    /// The turn from one channel to another, which leaves the switch that the first leads to.
    #[inline]
    pub(super) fn of(&self, c1: u32, c2: u32) -> usize {
        (self.start[c1 as usize] + self.rank[c2 as usize]) as usize
    }

    /// The turns from a channel with the channels they lead to.
    pub(super) fn from(&self, c: ChannelId) -> impl Iterator<Item = (usize, ChannelId)> + use<'_> {
        let out = self.fabric.out(self.fabric.channel(c).to);
        (self.start[c.index()] as usize..).zip(out.iter().copied())
    }
}

impl Dependencies {
    /// None yet.
    pub(super) fn none(turns: &Turns<'_>, lanes: &Lanes) -> Self {
        Self { vls: vec![0; turns.len() * lanes.columns()] }
    }

    /// Packets of a column may be on these VLs of the first channel of a turn and go on by it. `at` is
    /// `turn * columns + column`.
    #[inline]
    pub(super) fn mark(&mut self, at: usize, vls: u16) {
        self.vls[at] |= vls;
    }

    /// Dependencies of both.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.vls.iter_mut().zip(&other.vls).for_each(|(a, b)| *a |= b);
        self
    }

    /// All VLs from which anything depends, as bits.
    pub(super) fn vls(&self) -> u16 {
        self.vls.iter().fold(0, |all, l| all | l)
    }
}

/// Dependencies as a graph over [`Buffer`]s.
pub(super) struct Graph<'a> {
    pub(super) turns: &'a Turns<'a>,
    pub(super) lanes: &'a Lanes,
    pub(super) dependencies: &'a Dependencies,
}

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    No,
    Open,
    Done,
}

impl Graph<'_> {
    fn channels(&self) -> usize {
        self.turns.fabric.channels().len()
    }

    fn number(&self, b: Buffer) -> usize {
        usize::from(b.vl) * self.channels() + b.channel.index()
    }

    fn buffer(&self, number: usize) -> Buffer {
        let (vl, channel) = (number / self.channels(), number % self.channels());
        Buffer { channel: ChannelId::at(channel), vl: vl as u8 }
    }

    /// Buffers that packets in this one may wait for.
    fn after(&self, b: Buffer) -> impl Iterator<Item = usize> + '_ {
        let columns = self.lanes.columns();
        self.turns.from(b.channel).flat_map(move |(turn, next)| {
            let at = turn * columns..(turn + 1) * columns;
            let on = at.filter(move |at| self.dependencies.vls[*at] >> b.vl & 1 == 1);
            let mut vls = on.fold(0, |vls, at| vls | self.lanes.pass(at, 1 << b.vl));
            std::iter::from_fn(move || {
                let vl = (vls != 0).then(|| vls.trailing_zeros())?;
                vls &= vls - 1;
                Some(self.number(Buffer { channel: next, vl: vl as u8 }))
            })
        })
    }

    /// The same as buffers.
    pub(super) fn buffers_after(&self, b: Buffer) -> impl Iterator<Item = Buffer> + '_ {
        self.after(b).map(|number| self.buffer(number))
    }

    /// One cycle of each part of the graph that no dependency joins to another and that has any: where
    /// VL = SL, of each VL; else one in all. Depth first, and then the shortest cycle through
    /// the buffer that closed the one found. O(VLs × turns).
    pub(super) fn cycles(&self) -> Vec<Vec<Buffer>> {
        let used = self.dependencies.vls();
        let mut seen = vec![Seen::No; usize::from(u16::BITS as u8) * self.channels()];
        let mut cycles = Vec::new();
        for vl in (0..u16::BITS as u8).filter(|vl| used >> vl & 1 == 1) {
            let mut roots = (0..self.channels()).map(|c| Buffer { channel: ChannelId::at(c), vl });
            if let Some(on_it) = roots.find_map(|root| self.cyclic(root, &mut seen)) {
                cycles.push(self.shortest_through(on_it));
                if !self.lanes.are_layers() {
                    break;
                }
            }
        }
        cycles
    }

    /// All buffers of which any depends on another, each before those that its packets may wait for; `None` if
    /// there is a cycle. Those from which most others follow one by one come first, so that in a tree ways up come
    /// before ways down: routes of later tables climb the same order as a rule. Depth first. O(VLs × turns).
    pub(super) fn order(&self) -> Option<Vec<Buffer>> {
        let used = self.dependencies.vls();
        let mut seen = vec![Seen::No; usize::from(u16::BITS as u8) * self.channels()];
        let mut last_first = Vec::new();
        for vl in (0..u16::BITS as u8).filter(|vl| used >> vl & 1 == 1) {
            for c in 0..self.channels() {
                let root = Buffer { channel: ChannelId::at(c), vl };
                if self.after(root).next().is_none() {
                    continue;
                }
                if self.search(root, &mut seen, |done| last_first.push(self.buffer(done))).is_some() {
                    return None;
                }
            }
        }
        let mut height = vec![0u32; seen.len()];
        for b in &last_first {
            let above = self.after(*b).map(|next| height[next] + 1).max();
            height[self.number(*b)] = above.unwrap_or(0);
        }
        last_first.reverse();
        last_first.sort_by_key(|b| std::cmp::Reverse(height[self.number(*b)]));
        Some(last_first)
    }

    /// A buffer on a cycle that can be reached from `root` by ones not yet seen.
    fn cyclic(&self, root: Buffer, seen: &mut [Seen]) -> Option<Buffer> {
        self.search(root, seen, |_| ())
    }

    /// The same; `done` gets all others, each after those that it depends on.
    fn search(&self, root: Buffer, seen: &mut [Seen], mut done: impl FnMut(usize)) -> Option<Buffer> {
        let number = self.number(root);
        if seen[number] != Seen::No {
            return None;
        }
        seen[number] = Seen::Open;
        let mut stack = vec![(number, self.after(root))];
        while let Some((at, successors)) = stack.last_mut() {
            match successors.next() {
                None => {
                    seen[*at] = Seen::Done;
                    done(*at);
                    stack.pop();
                }
                Some(next) if seen[next] == Seen::Open => return Some(self.buffer(next)),
                Some(next) if seen[next] == Seen::No => {
                    seen[next] = Seen::Open;
                    stack.push((next, self.after(self.buffer(next))));
                }
                Some(_) => {}
            }
        }
        None
    }

    /// Breadth first from a buffer that is on a cycle, back to it.
    fn shortest_through(&self, start: Buffer) -> Vec<Buffer> {
        let start = self.number(start);
        let mut from = vec![usize::MAX; usize::from(u16::BITS as u8) * self.channels()];
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for next in self.after(self.buffer(at)) {
                if next == start {
                    let back = std::iter::successors(Some(at), |n| (*n != start).then(|| from[*n]));
                    let mut cycle: Vec<Buffer> = back.map(|n| self.buffer(n)).collect();
                    cycle.reverse();
                    return cycle;
                }
                if from[next] == usize::MAX {
                    from[next] = at;
                    queue.push_back(next);
                }
            }
        }
        Vec::new()
    }
}
