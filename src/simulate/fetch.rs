//! Memory that the next events are going to look at, asked for some events ahead.
//!
//! The state of a large network is larger than the processor's nearer caches, and every event
//! looks at several places far from each other. The queues of the [`wheel`](super::wheel) say long
//! before what will happen; asked in time, memory is there when it does.

use super::engine::{ARRIVE, CREDIT, DELIVER, READ, SENT, Simulator, THROUGH};
use super::net::NO_LINK;
use super::router::Router;
use super::state::{Link, NONE, Packet};
use super::switch::in_turn;
use super::traffic::Traffic;

/// How many events ahead: what an event names, what that names, and what that names.
const AHEAD: [usize; 3] = [16, 9, 4];
/// Space of lanes in one line of the cache.
const IN_LINE: u32 = 16;

/// Asks for an element. Does not wait, and does nothing where there is none.
#[inline]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the instruction has no safe form; it is a hint that changes no state")
)]
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
        self.wheel.next_slot().for_each(|e| self.fetch_first(e));
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
                self.fetch_lanes(a);
                prefetch(&self.ins, b as usize & 0x0fff_ffff);
            }
            SENT => {
                self.fetch_output(a, 0);
                self.fetch_lanes(a);
                match self.sender(a) {
                    Some(t) => prefetch(&self.hosts, t),
                    None if self.settings.output_flits == 0 => prefetch(&self.ins, b as usize),
                    None => {}
                }
            }
            CREDIT => {
                let link = a >> self.shift;
                self.fetch_output(link, a & ((1 << self.shift) - 1));
                if let Some(t) = self.sender(link) {
                    prefetch(&self.hosts, t);
                }
            }
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
                self.fetch_read(b & 0x0fff_ffff);
                self.fetch_lane(self.next_waiting(a));
            }
            SENT | CREDIT => {
                let link = if kind == SENT { a } else { a >> self.shift };
                if let Some(t) = self.sender(link) {
                    return self.fetch_packet(self.hosts[t].packet);
                }
                let buffered = self.settings.output_flits > 0;
                if buffered {
                    self.fetch_packet(self.next_ready(link));
                } else if kind == SENT {
                    self.fetch_read(b);
                }
                if kind == SENT || !buffered {
                    self.fetch_lane(self.next_waiting(link));
                }
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
                self.fetch_next_route(b & 0x0fff_ffff);
                self.fetch_waiting(a);
            }
            SENT if self.sender(a).is_none() => {
                if self.settings.output_flits == 0 {
                    self.fetch_next_route(b);
                }
                self.fetch_waiting(a);
            }
            CREDIT if self.settings.output_flits == 0 => self.fetch_waiting(a >> self.shift),
            _ => {}
        }
    }

    /// For an input lane that will have been read.
    #[inline]
    fn fetch_read(&self, q: u32) {
        prefetch(&self.links, (q >> self.shift) as usize);
        self.fetch_packet(self.ins[q as usize].input.head);
    }

    /// What the routing will look at for the next packet of an input lane.
    #[inline]
    fn fetch_next_route(&self, q: u32) {
        if let Some(packet) = self.packets.get(self.ins[q as usize].input.head as usize) {
            self.fetch_route(packet);
        }
    }

    #[inline]
    fn fetch_packet(&self, p: u32) {
        if p != NONE {
            prefetch(&self.packets, p as usize);
        }
    }

    #[inline]
    fn fetch_lane(&self, q: u32) {
        if q != NONE {
            prefetch(&self.ins, q as usize);
        }
    }

    /// The upper lanes of an output, if they are in another line of the cache.
    #[inline]
    fn fetch_lanes(&self, link: u32) {
        if self.shift > 2 {
            prefetch(&self.outs, ((link << self.shift) + IN_LINE / 4) as usize);
        }
    }

    /// The packet that the cable of a link takes next.
    #[inline]
    fn next_ready(&self, link: u32) -> u32 {
        let Link { ready, cable_turn, .. } = self.links[link as usize];
        self.first_lane(link, ready, cable_turn).map_or(NONE, |lane| self.outs[lane].output.head)
    }

    /// The input lane that the crossbar reads next for a link.
    #[inline]
    fn next_waiting(&self, link: u32) -> u32 {
        let Link { wanted, crossbar_turn, .. } = self.links[link as usize];
        self.first_lane(link, wanted, crossbar_turn).map_or(NONE, |lane| self.outs[lane].waiting.head)
    }

    /// The first lane of a link in a mask, in turn.
    #[inline]
    fn first_lane(&self, link: u32, mask: u16, turn: u8) -> Option<usize> {
        Some(((link << self.shift) + u32::from(in_turn(mask, turn).next()?)) as usize)
    }

    /// The first packet there.
    #[inline]
    fn fetch_waiting(&self, link: u32) {
        let q = self.next_waiting(link);
        if let Some(waiting) = self.ins.get(q as usize) {
            prefetch(&self.packets, waiting.input.head as usize);
            prefetch(&self.links, (q >> self.shift) as usize);
        }
    }

    /// What the routing will look at.
    #[inline]
    fn fetch_route(&self, packet: &Packet) {
        self.router.fetch(packet.at, &packet.header);
        if self.looks_around {
            let channels = self.net.out(packet.at);
            let mut link = channels.start;
            while link < channels.end {
                prefetch(&self.space, self.places.of(link, packet.header.hops.into()));
                link += IN_LINE;
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
