//! Events to come, by time.
//!
//! Most events of a network come after one of a few fixed delays: a packet's time on a cable, a
//! cable's delay. Those of one delay are made in the order of their times, so each delay has a
//! queue that is only appended to; memory is walked in order, and what comes next is known long
//! before it is due. Everything else goes to slots of the near future or to a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fetch::prefetch;
use super::state::NONE;

/// Most delays with a queue of their own.
pub(super) const LINES: usize = 4;

#[inline(always)]
fn event(kind: u64, a: u32, b: u32) -> u64 {
    kind | u64::from(a) << 4 | u64::from(b) << 32
}

/// The two numbers of an event.
#[inline(always)]
pub(super) fn named(e: u64) -> (u32, u32) {
    ((e >> 4) as u32 & 0x0fff_ffff, (e >> 32) as u32)
}

/// Not an event.
const NO_EVENT: u64 = u64::MAX;

/// Events that come after one delay: a ring of times and events.
#[derive(Debug)]
#[repr(align(64))]
struct Line {
    delay: u64,
    /// Time of the first event; `u64::MAX` for none.
    first: u64,
    /// Its place, and the place behind the last one; both only grow.
    head: usize,
    tail: usize,
    /// As many as a power of two.
    ring: Vec<(u64, u64)>,
}

impl Line {
    fn new(delay: u64) -> Self {
        Self { delay, first: u64::MAX, head: 0, tail: 0, ring: vec![(0, 0); 64] }
    }

    #[inline(always)]
    fn push(&mut self, time: u64, event: u64) {
        let size = self.ring.len();
        if self.tail - self.head == size {
            self.grow();
        }
        let mask = self.ring.len() - 1;
        self.ring[self.tail & mask] = (time, event);
        // Times only grow in a queue, so this is a change only for an empty one: no branch to predict.
        self.first = self.first.min(time);
        self.tail += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let size = self.ring.len();
        self.ring.rotate_left(self.head & (size - 1));
        self.ring.resize(2 * size, (0, 0));
        (self.head, self.tail) = (0, size);
    }
}

/// Events of one tick come out in a fixed order: by delay, then as they went in.
#[derive(Debug)]
pub(super) struct Wheel {
    lines: [Line; LINES],
    /// Other delays: slots of the near future, each with the first and last of its `nodes`.
    slots: Vec<(u32, u32)>,
    /// Events in slots and the next one of each; those that are free are linked as well.
    nodes: Vec<(u64, u32)>,
    free: u32,
    /// Bit per slot that is not empty.
    full: Vec<u64>,
    in_slots: usize,
    /// Time of the first slot that is not empty; `u64::MAX` for none.
    first_slot: u64,
    /// Beyond the slots: time, order of insertion, event.
    far: BinaryHeap<Reverse<(u64, u64, u64)>>,
    inserted: u64,
    now: u64,
    /// By kind of event: the place of the queue that it usually belongs to.
    pub(super) likely: [u8; 8],
}

impl Wheel {
    /// With a queue for each of `delays`, the first [`LINES`] different ones, and slots for at least
    /// `reach` ticks ahead.
    pub(super) fn new(mut delays: Vec<u64>, reach: u64) -> Self {
        delays.sort_unstable();
        delays.dedup();
        // No event takes that long: queues that stay empty.
        delays.resize(LINES, u64::MAX);
        let size = (reach + 1).next_power_of_two().max(64) as usize;
        Self {
            lines: std::array::from_fn(|i| Line::new(delays[i])),
            slots: vec![(NONE, NONE); size],
            nodes: Vec::new(),
            free: NONE,
            full: vec![0; size / 64],
            in_slots: 0,
            first_slot: u64::MAX,
            far: BinaryHeap::new(),
            inserted: 0,
            now: 0,
            likely: [0; 8],
        }
    }

    /// Number of events to come.
    pub(super) fn len(&self) -> usize {
        self.in_slots + self.far.len() + self.lines.iter().map(|l| l.tail - l.head).sum::<usize>()
    }

    /// The place of the queue of a delay that was given at the start.
    pub(super) fn line(&self, delay: u64) -> u8 {
        self.lines.iter().position(|l| l.delay == delay).unwrap_or(0) as u8
    }

    /// Adds an event of two numbers, the first below 2^28, in the queue of its kind if that has its delay.
    #[inline(always)]
    pub(super) fn at(&mut self, time: u64, kind: u64, a: u32, b: u32) {
        self.push(self.likely[kind as usize & 7], time, event(kind, a, b));
    }

    /// Adds an event; `time` must be later than the last tick. `likely` is the place of the
    /// queue that it probably belongs to.
    #[inline(always)]
    pub(super) fn push(&mut self, likely: u8, time: u64, event: u64) {
        if cfg!(test) {
            assert!(time > self.now);
        }
        let line = &mut self.lines[usize::from(likely) % LINES];
        if time - self.now == line.delay { line.push(time, event) } else { self.push_anywhere(time, event) }
    }

    #[inline(never)]
    fn push_anywhere(&mut self, time: u64, event: u64) {
        let delay = time - self.now;
        if let Some(line) = self.lines.iter_mut().find(|l| l.delay == delay) {
            return line.push(time, event);
        }
        if delay < self.slots.len() as u64 {
            return self.put(time, event);
        }
        self.inserted += 1;
        self.far.push(Reverse((time, self.inserted, event)));
    }

    fn put(&mut self, time: u64, event: u64) {
        let slot = time as usize & (self.slots.len() - 1);
        let node = self.free;
        let node = if node == NONE {
            self.nodes.push((event, NONE));
            self.nodes.len() as u32 - 1
        } else {
            self.free = std::mem::replace(&mut self.nodes[node as usize], (event, NONE)).1;
            node
        };
        let (first, last) = &mut self.slots[slot];
        if *first == NONE {
            *first = node;
        } else {
            self.nodes[*last as usize].1 = node;
        }
        *last = node;
        self.full[slot / 64] |= 1 << (slot % 64);
        self.in_slots += 1;
        self.first_slot = self.first_slot.min(time);
    }

    /// Advances to the next tick that has events, if it is not after `until`, and moves those of
    /// its slot into `events` (emptied first); then [`Wheel::pop`] has the rest.
    pub(super) fn next(&mut self, until: u64, events: &mut Vec<u64>) -> Option<u64> {
        events.clear();
        let mut time = self.far.peek().map_or(u64::MAX, |Reverse((time, ..))| *time).min(self.first_slot);
        time = self.lines.iter().fold(time, |time, line| time.min(line.first));
        if time > until || time == u64::MAX {
            return None;
        }
        self.now = time;
        while let Some(Reverse((t, _, event))) = self.far.peek().copied() {
            if t - time >= self.slots.len() as u64 {
                break;
            }
            self.far.pop();
            self.put(t, event);
        }
        if self.first_slot == time {
            let slot = time as usize & (self.slots.len() - 1);
            self.full[slot / 64] &= !(1 << (slot % 64));
            let (first, last) = std::mem::replace(&mut self.slots[slot], (NONE, NONE));
            events.extend(self.slot(first));
            self.nodes[last as usize].1 = self.free;
            self.free = first;
            self.in_slots -= events.len();
            self.first_slot = if self.in_slots > 0 { self.scan() } else { u64::MAX };
            let next = self.slots[self.first_slot as usize & (self.slots.len() - 1)].0;
            if next != NONE {
                prefetch(&self.nodes, next as usize);
            }
        }
        Some(time)
    }

    /// The next event of a queue in this tick.
    #[inline]
    pub(super) fn pop(&mut self, line: usize) -> Option<u64> {
        let line = &mut self.lines[line % LINES];
        if line.first != self.now {
            return None;
        }
        let mask = line.ring.len() - 1;
        let event = line.ring[line.head & mask].1;
        line.head += 1;
        line.first = if line.head == line.tail { u64::MAX } else { line.ring[line.head & mask].0 };
        Some(event)
    }

    /// The events so many places behind the next one of a queue, or [`NO_EVENT`].
    #[inline(always)]
    pub(super) fn peek<const N: usize>(&self, line: usize, ahead: [usize; N]) -> [u64; N] {
        let line = &self.lines[line % LINES];
        let (mask, left) = (line.ring.len() - 1, line.tail - line.head);
        ahead.map(|a| if a < left { line.ring[(line.head + a) & mask].1 } else { NO_EVENT })
    }

    /// Events of the next slot that is not empty.
    pub(super) fn next_slot(&self) -> impl Iterator<Item = u64> {
        let slot = self.first_slot as usize & (self.slots.len() - 1);
        self.slot(if self.in_slots > 0 { self.slots[slot].0 } else { NONE })
    }

    /// Events from a node on.
    fn slot(&self, mut node: u32) -> impl Iterator<Item = u64> {
        std::iter::from_fn(move || {
            let (event, next) = *self.nodes.get(node as usize)?;
            node = next;
            Some(event)
        })
    }

    /// Time of the first slot with events; there is one.
    fn scan(&self) -> u64 {
        let size = self.slots.len();
        let start = (self.now + 1) as usize & (size - 1);
        let words = self.full.len();
        let mut word = start / 64;
        let mut bits = self.full[word] & (!0 << (start % 64));
        for _ in 0..=words {
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                return self.now + 1 + ((slot + size - start) & (size - 1)) as u64;
            }
            word = (word + 1) % words;
            bits = self.full[word];
        }
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rng::Rng;

    #[test]
    fn events_come_out_by_time_and_none_is_lost() {
        let mut wheel = Wheel::new(vec![7, 40], 100);
        let (mut rng, mut expected) = (Rng::new(5), Vec::new());
        let (mut found, mut events, mut number) = (Vec::new(), Vec::new(), 0);
        wheel.push(0, 1, u64::MAX);
        while let Some(time) = wheel.next(u64::MAX, &mut events) {
            events.extend((0..LINES).flat_map(|l| std::iter::from_fn(|| wheel.pop(l)).collect::<Vec<_>>()));
            found.extend(events.iter().filter(|e| **e != u64::MAX).map(|e| (time, *e)));
            for _ in 0..if number < 3000 { 1 + rng.below(2) } else { 0 } {
                // Delays with a queue, near ones, and some far beyond the slots.
                let delay = [7, 40, 1 + rng.below(90) as u64, 1 + rng.below(1000) as u64][rng.below(4)];
                wheel.push(number as u8 % 3, time + delay, number);
                expected.push((time + delay, number));
                number += 1;
            }
        }
        assert!(number >= 3000 && wheel.len() == 0 && found.is_sorted_by_key(|f| f.0));
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_comes_out_after_the_limit() {
        let (mut wheel, mut events) = (Wheel::new(vec![7], 10), Vec::new());
        wheel.push(0, 7, 1);
        wheel.push(0, 5000, 2);
        assert_eq!(wheel.next(6, &mut events), None);
        assert_eq!((wheel.next(7, &mut events), wheel.pop(0)), (Some(7), Some(1)));
        assert_eq!(wheel.next(4999, &mut events), None);
        assert_eq!(wheel.next(5000, &mut events), Some(5000));
    }
}
