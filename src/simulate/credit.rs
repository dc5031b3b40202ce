//! Credits on their way back to a sender.
//!
//! Most are back before the sender needs them. They are noted at the link with their time, and
//! counted when the sender looks; only a sender that is short of them has them come as events. So a
//! packet that waits for credit always has an event to come, or its credit is not under way.

use super::engine::{CREDIT, Simulator};
use super::router::Router;
use super::traffic::Traffic;

/// Noted at one link, at most: as many packets as its port sends on at a time (thesis section
/// 4.3.2). Further ones are events.
pub(super) const RETURNS: usize = 3;

/// Time (44 bits), lane (4) and flits (16) of one packet's room that is free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Return(u64);

impl Return {
    pub(super) const NONE: Self = Self(0);

    /// `None` if the time is too late for it.
    #[inline]
    fn new(time: u64, lane: u32, flits: u32) -> Option<Self> {
        (time >> 44 == 0).then_some(Self(time << 20 | u64::from(lane) << 16 | u64::from(flits)))
    }
    #[inline]
    fn time(self) -> u64 {
        self.0 >> 20
    }
    #[inline]
    pub(super) fn lane(self) -> u32 {
        (self.0 >> 16) as u32 & 15
    }
    #[inline]
    pub(super) fn flits(self) -> u32 {
        self.0 as u32 & 0xffff
    }
}

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// Room in the buffer of input lane `q` is free: its sender knows from `time` on.
    #[inline(always)]
    pub(super) fn give_back(&mut self, time: u64, q: u32, flits: u32) {
        let (link, lane) = (q >> self.shift, q & ((1 << self.shift) - 1));
        let way = &mut self.links[link as usize];
        // A routing that looks at buffers sees every credit when it is back.
        if way.starved & (1 << lane) == 0 && !self.looks_around {
            let place = way.returns.iter_mut().find(|r| r.time() <= self.now);
            if let (Some(place), Some(new)) = (place, Return::new(time, lane, flits)) {
                let old = std::mem::replace(place, new);
                return self.count(link, old);
            }
        }
        self.at(time, CREDIT, q, flits);
    }

    #[inline]
    fn count(&mut self, link: u32, back: Return) {
        if back != Return::NONE {
            *self.credit((link << self.shift) + back.lane()) += back.flits() as i32;
        }
    }

    /// Whether the sender of a lane has so much credit.
    #[inline(always)]
    pub(super) fn has_credit(&mut self, lane: u32, flits: i32) -> bool {
        if *self.credit(lane) >= flits {
            return true;
        }
        self.count_returns(lane >> self.shift);
        *self.credit(lane) >= flits
    }

    /// Counts what is back at the sender of a link.
    #[inline(never)]
    pub(super) fn count_returns(&mut self, link: u32) {
        for i in 0..RETURNS {
            let back = self.links[link as usize].returns[i];
            if back != Return::NONE && back.time() <= self.now {
                self.links[link as usize].returns[i] = Return::NONE;
                self.count(link, back);
            }
        }
    }

    /// Nothing goes onto the free cable of a link, and these lanes are short of credit, by
    /// [`Simulator::has_credit`]: it comes as events until a packet goes.
    pub(super) fn starve(&mut self, link: u32, lanes: u16) {
        if self.looks_around {
            return;
        }
        self.links[link as usize].starved |= lanes;
        for i in 0..RETURNS {
            let back = self.links[link as usize].returns[i];
            if back != Return::NONE && lanes & (1 << back.lane()) != 0 {
                self.links[link as usize].returns[i] = Return::NONE;
                self.at(back.time(), CREDIT, (link << self.shift) + back.lane(), back.flits());
            }
        }
    }
}
