//! How packets leave a switch over a cable.

use super::engine::{ARRIVE, CREDIT, READ, SENT, Simulator, THROUGH};
use super::router::Router;
use super::state::{Link, NONE, Packet, SENDING, in_turn};
use super::traffic::Traffic;

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// Puts a packet on the cable of a link, if it is free and one may go.
    #[inline(always)]
    pub(super) fn send(&mut self, link: u32) {
        if self.settings.output_flits == 0 {
            return self.send_unbuffered(link);
        }
        let Link { ready, doing, .. } = self.links[link as usize];
        if self.settings.random_arbiter {
            self.due.sending.push(link);
        } else if doing & SENDING == 0 && ready != 0 {
            self.send_ready(link);
        }
    }

    pub(super) fn send_ready(&mut self, link: u32) {
        let Link { ready, cable_turn, doing, .. } = self.links[link as usize];
        if doing & SENDING != 0 {
            return;
        }
        for v in in_turn(ready, cable_turn) {
            let place = self.place(link, v.into());
            let credit = &mut self.space[place].credit;
            if *credit == 0 {
                continue;
            }
            let list = &mut self.outs[((link << self.size.shift) + u32::from(v)) as usize].output;
            let p = list.head;
            let packet = &self.packets[p as usize];
            let flits = packet.header.flits;
            if *credit < flits {
                continue;
            }
            *credit -= flits;
            list.head = packet.next;
            if packet.next == NONE {
                self.links[link as usize].ready &= !(1 << v);
            }
            return self.depart(p, link, v, u32::from(v) << 28 | u32::from(flits), None);
        }
    }

    pub(super) fn send_unbuffered(&mut self, link: u32) {
        loop {
            let Link { wanted, cable_turn, doing, .. } = self.links[link as usize];
            if doing & SENDING != 0 || wanted == 0 {
                return;
            }
            let Some((v, p)) = self.pick(link, wanted, cable_turn, |lane| lane.credit) else { return };
            let Some(q) = self.take(p, link, v) else { continue };
            self.send_from(link, v, q, p);
        }
    }

    /// Without output buffers: the first packet `p` goes from an input lane to the cable.
    #[inline(always)]
    pub(super) fn send_from(&mut self, link: u32, v: u8, q: u32, p: u32) {
        self.leave(q, p, true);
        let Packet { header, ticks, tail, .. } = self.packets[p as usize];
        let place = self.place(link, v.into());
        self.space[place].credit -= header.flits;
        let read = (self.now + u64::from(ticks)).max(tail);
        self.agenda.wheel.at(read + self.pace.link_delay, CREDIT, q, u32::from(header.flits));
        self.depart(p, link, v, q, None);
    }

    /// A packet starts on a lane of a cable. `sent` is for [`Simulator::sent`]; `read` is the end of its way
    /// through the crossbar, if that is not to come yet.
    #[inline(always)]
    pub(super) fn depart(&mut self, p: u32, link: u32, v: u8, sent: u32, read: Option<(u64, u32)>) {
        self.stats.links += 1;
        let way = &mut self.links[link as usize];
        way.cable_turn = (v + 1) & 15;
        way.doing |= SENDING;
        let packet = &mut self.packets[p as usize];
        let q = (link << self.size.shift) + u32::from(v);
        packet.input = q;
        if way.to == NONE {
            return self.eject(p, link, sent, read);
        }
        // Behind a slower cable the last byte leaves when it is there.
        let end = (self.now + u64::from(packet.ticks)).max(packet.tail);
        packet.tail = end + self.pace.link_delay;
        way.busy += end - self.now;
        self.end_sending(end, link, sent, read);
        self.agenda.wheel.at(self.now + self.pace.head_delay, ARRIVE, p, q);
    }

    /// A packet will have left the crossbar, if that is not to come yet, and the cable of `link`
    /// will be free at `end`.
    #[inline(always)]
    pub(super) fn end_sending(&mut self, end: u64, link: u32, sent: u32, read: Option<(u64, u32)>) {
        match read {
            Some((time, what)) if time == end && sent & 0x0fff_ffff == self.pace.full_flits => {
                return self.agenda.wheel.at(end, THROUGH, link, what);
            }
            Some((time, what)) => self.agenda.wheel.at(time, READ, link, what),
            None => {}
        }
        self.agenda.wheel.at(end, SENT, link, sent);
    }
}
