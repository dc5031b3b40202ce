//! Memory that the next events are going to look at, asked for some events ahead.
//!
//! The state of a large network is larger than the processor's nearer caches, and every event
//! looks at several places far from each other. The queues of the [`wheel`](super::wheel) say long
//! before what will happen; asked in time, memory is there when it does.

use super::engine::{ARRIVE, CREDIT, DELIVER, READ, SENT, Simulator, THROUGH};
use super::net::NO_LINK;
use super::router::Router;
use super::state::Packet;
use super::traffic::Traffic;

/// How many events ahead: what an event names, what that names, and what that names.
const AHEAD: [usize; 3] = [16, 9, 4];
/// Space of lanes in one line of the cache.
const IN_LINE: u32 = 8;

/// Asks for an element. Does not wait, and does nothing where there is none.
#[inline]
#[expect(unsafe_code, reason = "the instruction has no safe form; it is a hint that changes no state")]
pub(super) fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction may be given any address; it never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(index).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// For the next events of a queue.
    #[inline]
    pub(super) fn fetch(&self, line: usize) {
        let [first, second, third] = self.wheel.peek(line, AHEAD);
        self.fetch_first(first);
        self.fetch_second(second);
        self.fetch_third(third);
    }

    /// For the events of the next slot.
    pub(super) fn fetch_slots(&self) {
        self.wheel.next_slot().iter().for_each(|e| self.fetch_first(*e));
    }

    #[inline]
    fn fetch_first(&self, e: u64) {
        let (kind, a, b) = (e & 15, (e >> 4) as u32 & 0x0fff_ffff, (e >> 32) as u32);
        match kind {
            ARRIVE => prefetch(&self.packets, a as usize),
            DELIVER => {
                prefetch(&self.packets, a as usize);
                prefetch(&self.contents, a as usize);
            }
            READ | THROUGH => {
                self.fetch_output(a, b >> 28);
                prefetch(&self.ins, b as usize & 0x0fff_ffff);
            }
            SENT => {
                self.fetch_output(a, 0);
                prefetch(&self.hosts, (a as usize).wrapping_sub(self.net.channels()));
            }
            CREDIT => self.fetch_output(a >> self.shift, a & ((1 << self.shift) - 1)),
            _ => {}
        }
    }

    #[inline]
    fn fetch_output(&self, link: u32, lane: u32) {
        prefetch(&self.links, link as usize);
        prefetch(&self.outs, ((link << self.shift) + lane) as usize);
        prefetch(&self.space, self.places.of(link, lane));
    }

    #[inline]
    fn fetch_second(&self, e: u64) {
        let (kind, a, b) = (e & 15, (e >> 4) as u32 & 0x0fff_ffff, (e >> 32) as u32);
        match kind {
            ARRIVE => {
                let packet = &self.packets[a as usize];
                let q = (packet.link << self.shift) + u32::from(packet.header.lane);
                prefetch(&self.links, packet.link as usize);
                prefetch(&self.ins, q as usize);
                self.fetch_route(packet);
            }
            READ | THROUGH => {
                let q = b & 0x0fff_ffff;
                prefetch(&self.links, (q >> self.shift) as usize);
                prefetch(&self.packets, self.ins[q as usize].input.head as usize);
            }
            SENT | CREDIT => {
                let link = if kind == SENT { a } else { a >> self.shift };
                let lane = self.links[link as usize].ready.trailing_zeros() & 15;
                let out = self.outs.get(((link << self.shift) + lane) as usize);
                prefetch(&self.packets, out.map_or(0, |o| o.output.head as usize));
            }
            _ => {}
        }
    }

    #[inline]
    fn fetch_third(&self, e: u64) {
        let (kind, a, b) = (e & 15, (e >> 4) as u32 & 0x0fff_ffff, (e >> 32) as u32);
        match kind {
            ARRIVE => self.fetch_hop(&self.packets[a as usize]),
            READ | THROUGH => {
                let next = self.ins[b as usize & 0x0fff_ffff].input.head;
                if let Some(packet) = self.packets.get(next as usize) {
                    self.fetch_route(packet);
                }
            }
            _ => {}
        }
    }

    /// What the routing will look at.
    #[inline]
    fn fetch_route(&self, packet: &Packet) {
        self.router.fetch(packet.at, &packet.header);
        if self.looks_around {
            let (channels, lane) = (self.net.out(packet.at), packet.header.hops);
            for link in channels.step_by(IN_LINE as usize) {
                prefetch(&self.space, self.places.of(link, u32::from(lane)));
            }
        }
    }

    /// Where it will go.
    #[inline]
    fn fetch_hop(&self, packet: &Packet) {
        let link = self.router.foresee(packet.at, &packet.header);
        if link != NO_LINK {
            self.fetch_output(link, packet.header.lane.into());
        }
    }
}
