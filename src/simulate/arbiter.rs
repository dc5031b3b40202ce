//! Random arbitration: once in a tick, after everything that happens in it, all packets that are
//! first in an input lane choose at once, and each lane of an output draws one of those that chose
//! it ([`Settings::random_arbiter`](super::Settings::random_arbiter)).

use super::engine::{RECONSIDER, Simulator};
use super::router::{Hop, Router};
use super::state::{NONE, is_filling};
use super::traffic::Traffic;

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// Ends a tick. O(first packets that wait).
    pub(super) fn arbitrate(&mut self) {
        let asking = std::mem::take(&mut self.due.asking);
        // All choices are made before the first packet moves.
        let (mut drawn, mut waiting): (Vec<u32>, Vec<u32>) = asking.into_iter().partition(|q| self.asks(*q));
        self.rng.shuffle(&mut drawn);
        for q in drawn {
            let packet = &self.packets[self.ins[q as usize].head as usize];
            let (link, lane) = (packet.out, u32::from(packet.out_lane));
            if self.can_fill(link, lane, packet.header.flits) {
                let p = self.ins[q as usize].head;
                self.fill_with(link, lane as u8, q, p);
            } else {
                // It may choose another output as soon as the next tick.
                self.idle_at(self.now + 1, RECONSIDER, q, 0);
                waiting.push(q);
            }
        }
        waiting.append(&mut self.due.asking);
        self.due.asking = waiting;
        let mut links = std::mem::take(&mut self.due.sending);
        for link in links.drain(..) {
            match (link as usize).wrapping_sub(self.net.channels()) {
                t if t < self.net.terminals() => self.inject_now(t as u32),
                _ => self.send_ready(link),
            }
        }
        self.due.sending = links;
    }

    /// Has the first packet of an input lane choose; whether its choice can take it now.
    fn asks(&mut self, q: u32) -> bool {
        let p = self.ins[q as usize].head;
        let mut hop = self.ask_router(q);
        let flits = self.packets[p as usize].header.flits;
        if self.habits.any_first_lane && self.links[hop.link as usize].to == NONE {
            hop.lane = self.last_lane(hop, flits);
        }
        self.packets[p as usize].take_hop(hop);
        self.can_fill(hop.link, hop.lane.into(), flits << u32::from(hop.bubble))
    }

    fn can_fill(&self, link: u32, lane: u32, flits: u16) -> bool {
        let filling = is_filling(self.links[link as usize].doing, lane, self.settings.parallel_fills.into());
        !filling && self.space[self.places.of(link, lane)].room >= flits
    }

    /// One of the lanes to a terminal that can take a packet, or the one that was chosen.
    fn last_lane(&mut self, hop: Hop, flits: u16) -> u8 {
        let (mut lane, mut ties) = (hop.lane, 0);
        for v in 0..self.router.lanes() {
            if self.can_fill(hop.link, v.into(), flits) {
                ties += 1;
                if self.rng.below(ties) == 0 {
                    lane = v;
                }
            }
        }
        lane
    }
}
