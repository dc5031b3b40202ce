//! Memory that the next events are going to look at, asked for some events ahead.
//!
//! The state of a large network is larger than the processor's nearer caches, and every event
//! looks at several places far from each other. The queues of the [`wheel`](super::wheel) say long
//! before what will happen; asked in time, memory is there when it does.

use super::engine::{ARRIVE, CREDIT, DELIVER, Simulator};
use super::net::NO_LINK;
use super::router::Router;
use super::state::{Link, Packet};
use super::traffic::Traffic;
use super::wheel::named;

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

/// The same, or any element where there is none. No branch, since nothing foretells these.
#[inline]
fn prefetch_some<T>(slice: &[T], index: u32) {
    let index = index as usize;
    prefetch(slice, if index < slice.len() { index } else { 0 });
}

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// For the next events of the queue of arrivals. A packet that is not to arrive may be at no switch.
    #[inline(always)]
    pub(super) fn fetch_arrivals(&self, line: usize) {
        let [first, second, third] = self.agenda.wheel.peek(line, AHEAD);
        let (p, q) = named(first);
        prefetch(&self.packets, p as usize);
        prefetch(&self.links, (q >> self.size.shift) as usize);
        prefetch(&self.ins, q as usize);
        if second & 15 == ARRIVE {
            let (p, q) = named(second);
            self.fetch_route(q, &self.packets[p as usize]);
        }
        if third & 15 == ARRIVE {
            let (p, q) = named(third);
            self.fetch_hop(q, &self.packets[p as usize]);
        }
    }

    /// For the next events of the queue of a packet's time on a cable. Those that have not read an input lane
    /// name a small number instead, the place of a lane that does no harm.
    #[inline(always)]
    pub(super) fn fetch_cables(&self, line: usize) {
        let [first, second] = self.agenda.wheel.peek(line, [AHEAD[0], AHEAD[1]]);
        let (link, b) = named(first);
        self.fetch_output(link, b >> 28);
        if self.size.shift > 2 {
            // The upper lanes are in another line of the cache.
            prefetch(&self.outs, ((link << self.size.shift) + IN_LINE / 4) as usize);
        }
        prefetch(&self.ins, b as usize & 0x0fff_ffff);
        let (link, b) = named(second);
        if let (Some(way), Some(read)) =
            (self.links.get(link as usize), self.ins.get(b as usize & 0x0fff_ffff))
        {
            self.fetch_sender(link, way);
            prefetch_some(&self.packets, self.next_waiting(link, way));
            prefetch(&self.links, (b & 0x0fff_ffff) as usize >> self.size.shift);
            prefetch_some(&self.packets, read.head);
        }
        if self.habits.looks_around {
            self.fetch_choices(line);
        }
    }

    /// The same, for packets that are going to look at all channels of a switch. For others this cost 5 to 10 %.
    #[inline(always)]
    fn fetch_choices(&self, line: usize) {
        let [third] = self.agenda.wheel.peek(line, [AHEAD[2]]);
        let (link, b) = named(third);
        if let (Some(way), Some(read)) =
            (self.links.get(link as usize), self.ins.get(b as usize & 0x0fff_ffff))
        {
            self.fetch_waiting(link, way);
            if let Some(packet) = self.packets.get(read.head as usize) {
                self.fetch_route(b & 0x0fff_ffff, packet);
            }
        }
    }

    /// For the next events of a queue of credits.
    #[inline(always)]
    pub(super) fn fetch_credits(&self, line: usize) {
        let [first] = self.agenda.wheel.peek(line, [AHEAD[0]]);
        let (link, lane) = self.lane_of(named(first).0);
        self.fetch_output(link, lane);
    }

    /// For the events of the next slot.
    pub(super) fn fetch_slots(&self) {
        for e in self.agenda.wheel.next_slot() {
            let (kind, a) = (e & 15, named(e).0);
            if kind == DELIVER || kind == ARRIVE {
                prefetch(&self.packets, a as usize);
                prefetch(&self.contents, a as usize);
            } else {
                let link = if kind == CREDIT { a >> self.size.shift } else { a };
                self.fetch_output(link, 0);
            }
        }
    }

    #[inline(always)]
    fn fetch_output(&self, link: u32, lane: u32) {
        prefetch(&self.links, link as usize);
        prefetch(&self.outs, ((link << self.size.shift) + lane) as usize);
        prefetch(&self.space, self.place(link, lane));
    }

    /// The packet that a cable takes next, from a lane or a terminal.
    #[inline(always)]
    fn fetch_sender(&self, link: u32, way: &Link) {
        let ready = self.outs[self.next_lane(link, way.ready, way.cable_turn)].output.head;
        prefetch_some(&self.packets, ready);
        if let Some(t) = self.sender(link) {
            prefetch_some(&self.packets, self.hosts[t].packet);
        }
    }

    /// The packet that the crossbar takes next for a link.
    #[inline(always)]
    fn next_waiting(&self, link: u32, way: &Link) -> u32 {
        self.outs[self.next_lane(link, way.wanted, way.crossbar_turn)].waiting.head
    }

    /// The first lane of a link in a mask, in turn; any if there is none.
    #[inline(always)]
    fn next_lane(&self, link: u32, mask: u16, turn: u8) -> usize {
        if self.size.shift == 0 {
            return link as usize;
        }
        let first = mask.rotate_right(u32::from(turn)).trailing_zeros() + u32::from(turn);
        ((link << self.size.shift) + (first & ((1 << self.size.shift) - 1))) as usize
    }

    /// Where it is.
    #[inline(always)]
    fn fetch_waiting(&self, link: u32, way: &Link) {
        if let Some(packet) = self.packets.get(self.next_waiting(link, way) as usize) {
            prefetch(&self.ins, packet.input as usize);
            prefetch(&self.links, (packet.input >> self.size.shift) as usize);
        }
    }

    /// What the routing will look at for a packet of an input lane.
    #[inline]
    fn fetch_route(&self, q: u32, packet: &Packet) {
        let at = self.links[(q >> self.size.shift) as usize].to;
        self.router.fetch(at, &packet.header);
        if self.habits.looks_around {
            let channels = self.net.out(at);
            let mut link = channels.start;
            while link < channels.end {
                prefetch(&self.space, self.places.of(link, packet.header.hops.into()));
                link += IN_LINE;
            }
        }
    }

    /// Where it will go.
    #[inline]
    fn fetch_hop(&self, q: u32, packet: &Packet) {
        let link = self.router.foresee(self.links[(q >> self.size.shift) as usize].to, &packet.header);
        if link != NO_LINK {
            self.fetch_output(link, packet.header.lane.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::Pattern;
    use crate::model::{Demand, LayerBudget};
    use crate::route::{self, EngineOptions};
    use crate::simulate::adaptive::Distances;
    use crate::simulate::traffic::script::Script;
    use crate::simulate::{AnyRouter, Net, Settings, TableRouter};

    fn outcome(net: &Net, settings: Settings, router: &AnyRouter<'_>, fetches: bool) -> String {
        let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, 40, 0);
        let mut simulator = Simulator::new(net, settings, router, script, 1).unwrap();
        simulator.habits.fetches = fetches;
        let ended = simulator.run(u64::MAX);
        format!("{ended:?} {:?} {:?}", simulator.stats, simulator.busy())
    }

    #[test]
    fn asking_ahead_changes_nothing() {
        let fabric = generate("torus:4x4,hosts=3").unwrap();
        let engine = route::engine("torus", &EngineOptions::default()).unwrap();
        let tables = engine.route(&fabric, &Demand::oblivious(), LayerBudget::new(8).unwrap()).unwrap();
        let net = Net::of_fabric(&fabric);
        let far = Distances::new(&net).unwrap();
        let routers = [
            AnyRouter::Table(TableRouter::new(&fabric, &net, &tables).unwrap()),
            AnyRouter::adaptive("minimal", &net, &far, 8, 1).unwrap(),
        ];
        // With a switch that takes as long as a packet, deliveries are in the queue of arrivals.
        let slow = Settings { switch_delay_ps: 16_000, ..Settings::phits() };
        for settings in [Settings::phits(), slow, Settings { output_flits: 0, ..slow }] {
            for router in &routers {
                let [with, without] = [true, false].map(|f| outcome(&net, settings, router, f));
                assert_eq!(with, without, "{settings:?}");
                assert!(with.starts_with("Finished"), "{with}");
            }
        }
    }
}
