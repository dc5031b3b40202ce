//! Numbers per channel, laid out so that a straight run of channels is one slice.
//!
//! A lane holds the channels of one direction on one line of nodes, by coordinate, and then a
//! second time: a run over the wrap of a ring is contiguous too. Whoever changes a number changes
//! both copies ([`Span::each`]); sums and maxima may read either.

use std::ops::Range;

use crate::model::torus::{DIRECTIONS, MAX_DIMS};
use crate::model::{Direction, NodeId, Torus};

/// Where each channel lies.
#[derive(Debug, Clone)]
pub struct Lanes {
    /// By node and dimension: start of the lane in the positive direction.
    start: Vec<u32>,
    /// By dimension: from there to the lane in the negative direction.
    back: [u32; MAX_DIMS],
    sizes: [u32; MAX_DIMS],
    slots: usize,
}

/// A straight run of channels.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    lane: u32,
    from: u32,
    hops: u32,
    size: u32,
}

impl Span {
    /// The slots of one copy.
    #[inline]
    pub fn slots(&self) -> Range<usize> {
        let from = (self.lane + self.from) as usize;
        from..from + self.hops as usize
    }
    /// Calls `visit` with every slot of both copies.
    #[inline]
    pub fn each(&self, mut visit: impl FnMut(usize)) {
        for at in self.from..self.from + self.hops {
            visit((self.lane + at) as usize);
            visit((self.lane + if at < self.size { at + self.size } else { at - self.size }) as usize);
        }
    }
}

impl Lanes {
    /// O(channels).
    pub fn new(torus: &Torus) -> Self {
        let mut lanes =
            Self { start: vec![0; torus.len() * MAX_DIMS], back: [0; 4], sizes: [1; 4], slots: 0 };
        for dim in 0..torus.dims() {
            let size = u32::from(torus.size(dim));
            lanes.sizes[dim] = size;
            lanes.back[dim] = 2 * torus.len() as u32;
            let mut next = lanes.slots as u32;
            for node in torus.nodes() {
                let c = torus.coords(node).all()[dim];
                if c == 0 {
                    lanes.start[node.index() * MAX_DIMS + dim] = next;
                    next += 2 * size;
                } else {
                    let first = torus.moved(node, dim, c, 0);
                    lanes.start[node.index() * MAX_DIMS + dim] = lanes.start[first.index() * MAX_DIMS + dim];
                }
            }
            lanes.slots += 4 * torus.len();
        }
        lanes
    }

    /// Length of an array of numbers.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The channels passed when leaving a node, at coordinate `c` of the direction's dimension, and
    /// going straight, at most once round.
    #[inline]
    pub fn span(&self, node: u32, c: u8, direction: Direction, hops: u8) -> Span {
        let dim = direction.dim();
        let (size, hops, c) = (self.sizes[dim], u32::from(hops), u32::from(c));
        let lane = self.start[node as usize * MAX_DIMS + dim];
        if direction.is_negative() {
            Span { lane: lane + self.back[dim], from: c + size + 1 - hops, hops, size }
        } else {
            Span { lane, from: c, hops, size }
        }
    }

    /// The numbers by channel ([`Torus::channel`]), `T::default()` where the torus has no dimension.
    pub fn by_channel<T: Copy + Default>(&self, torus: &Torus, numbers: &[T]) -> Vec<T> {
        let mut all = vec![T::default(); torus.channel_slots()];
        for (slot, number) in all.iter_mut().enumerate() {
            let (node, direction) = (NodeId::at(slot / DIRECTIONS), Direction::at(slot));
            if direction.dim() < torus.dims() {
                let c = torus.coords(node).all()[direction.dim()];
                *number = numbers[self.span(node.0, c, direction, 1).slots().start];
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TorusBuilder;

    /// A run is the channels that a walk passes, in both copies, and no two channels share a slot.
    #[test]
    fn a_run_is_what_a_walk_passes() {
        let torus = TorusBuilder::new(&[4, 2, 5]).unwrap().build().unwrap();
        let lanes = Lanes::new(&torus);
        for node in torus.nodes() {
            for direction in Direction::all().filter(|d| d.dim() < 3) {
                let c = torus.coords(node).all()[direction.dim()];
                for hops in 1..=torus.size(direction.dim()) {
                    let mut count = vec![0; lanes.slots()];
                    lanes.span(node.0, c, direction, hops).each(|slot| count[slot] += 1);
                    let read = lanes.span(node.0, c, direction, hops).slots();
                    assert!(count[read].iter().all(|n| *n == 1));
                    assert_eq!(count.iter().sum::<u8>(), 2 * hops);
                    let mut walked = vec![0; torus.channel_slots()];
                    let mut at = node;
                    for _ in 0..hops {
                        walked[torus.channel(at, direction)] = 1;
                        let c = torus.coords(at).all()[direction.dim()];
                        let size = torus.size(direction.dim());
                        let to = if direction.is_negative() { (c + size - 1) % size } else { (c + 1) % size };
                        at = torus.moved(at, direction.dim(), c, to);
                    }
                    assert_eq!(lanes.by_channel(&torus, &count), walked);
                }
            }
        }
    }
}
