//! What happens in a switch: arrival, choice, waiting, crossbar, cable.
//!
//! What is on the way of every packet is inlined by order: the calls cost a seventh of all instructions.

use super::engine::{CREDIT, READ, RECONSIDER, Simulator};
use super::router::{Hop, Router};
use super::state::{FILLING, Link, NONE, Packet, SENDING, Space, in_turn, is_filling, is_full, view};
use super::traffic::Traffic;

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// The terminal that sends on a link, if one does.
    #[inline(always)]
    pub(super) fn sender(&self, link: u32) -> Option<usize> {
        let terminal = link.wrapping_sub(self.size.channels);
        (terminal < self.size.terminals).then_some(terminal as usize)
    }

    #[inline(always)]
    pub(super) fn sender_may_send(&mut self, link: u32) {
        match self.sender(link) {
            Some(terminal) => self.inject(terminal as u32),
            None => self.send(link),
        }
    }

    /// The crossbar has filled the output buffer of a lane of `link`; `b` is that lane and the input
    /// lane that was read.
    #[inline(always)]
    pub(super) fn read(&mut self, link: u32, b: u32) {
        self.links[link as usize].doing &= !(1 << (b >> 28));
        self.finish_read(b & 0x0fff_ffff);
        self.fill(link);
    }

    /// The cable of `link` is free again. `b` is the input lane that was read, without output
    /// buffers; else lane (from bit 28) and flits.
    #[inline(always)]
    pub(super) fn sent(&mut self, link: u32, b: u32) {
        self.links[link as usize].doing &= !SENDING;
        if let Some(terminal) = self.sender(link) {
            return self.inject(terminal as u32);
        }
        if self.settings.output_flits == 0 {
            self.finish_read(b);
        } else {
            let place = self.place(link, b >> 28);
            self.space[place].room += b as u16;
        }
        self.send(link);
        if self.settings.output_flits > 0 {
            self.fill(link);
        }
    }

    #[inline(always)]
    pub(super) fn arrive(&mut self, p: u32, q: u32) {
        if R::LOSES && self.router.is_cut(q >> self.size.shift) {
            return self.lose_arriving(p, q);
        }
        self.packets[p as usize].next = NONE;
        let own = &mut self.ins[q as usize];
        let last = std::mem::replace(&mut own.tail, p);
        if own.head == NONE {
            own.head = p;
            let (link, lane) = self.lane_of(q);
            if self.links[link as usize].read & 1 << lane == 0 {
                self.request(q);
            }
        } else {
            self.packets[last as usize].next = p;
        }
    }

    /// The first packet of an input lane is new there: it chooses, or waits for its port.
    #[inline(always)]
    pub(super) fn request(&mut self, q: u32) {
        let (own, lane) = self.lane_of(q);
        let (limit, link) = (self.settings.parallel_reads, &mut self.links[own as usize]);
        if limit > 0 && link.reading >= limit {
            link.parked |= 1 << lane;
            self.count_turn(q);
        } else {
            self.ask(q);
        }
    }

    /// The same for a port that is not busy.
    fn ask(&mut self, q: u32) {
        if self.settings.random_arbiter {
            return self.due.asking.push(q);
        }
        self.count_turn(q);
        self.choose(q);
    }

    #[inline(always)]
    fn count_turn(&mut self, q: u32) {
        if self.pace.reconsider > 0 {
            self.turns[q as usize] = self.turns[q as usize].wrapping_add(1);
        }
    }

    /// Link and lane of a place in [`Simulator::ins`] and [`Simulator::outs`].
    #[inline(always)]
    pub(super) fn lane_of(&self, q: u32) -> (u32, u32) {
        (q >> self.size.shift, q & ((1 << self.size.shift) - 1))
    }

    /// Where a lane of a link is in [`Simulator::space`].
    #[inline(always)]
    pub(super) fn place(&self, link: u32, lane: u32) -> usize {
        // In the order of lanes themselves no multiplication is needed.
        if self.habits.looks_around {
            self.places.of(link, lane)
        } else {
            ((link << self.size.shift) + lane) as usize
        }
    }

    #[inline(always)]
    pub(super) fn ask_router(&mut self, q: u32) -> Hop {
        let packet = &self.packets[self.ins[q as usize].head as usize];
        let at = self.links[(q >> self.size.shift) as usize].to;
        self.router.hop(at, &packet.header, &view!(self), &mut self.rng)
    }

    /// Has the first packet of an input lane choose, and wait or go there.
    #[inline(always)]
    fn choose(&mut self, q: u32) {
        let p = self.ins[q as usize].head;
        let at = self.links[(q >> self.size.shift) as usize].to;
        let header = &self.packets[p as usize].header;
        let hop = self.router.hop(at, header, &view!(self), &mut self.rng);
        if R::LOSES {
            if let Some(why) = self.loss_on(hop.link) {
                return self.discard(q, why);
            }
        }
        let packet = &mut self.packets[p as usize];
        packet.take_hop(hop);
        let need = u32::from(packet.header.flits) << u32::from(hop.bubble);
        let buffered = self.settings.output_flits > 0;
        let Link { doing, wanted, .. } = self.links[hop.link as usize];
        let blocked = match buffered {
            true => is_filling(doing, hop.lane.into(), self.settings.parallel_fills.into()),
            false => doing & SENDING != 0,
        };
        if !blocked && wanted == 0 {
            let Space { credit, room } = self.space[self.place(hop.link, hop.lane.into())];
            if need <= u32::from(if buffered { room } else { credit }) {
                // Nobody else wants the link: no need to wait in a list.
                return self.move_on(hop.link, hop.lane, q, p);
            }
        }
        self.enqueue(p, hop);
        if !blocked && wanted != 0 {
            self.output_may_move(hop.link);
        }
        if self.pace.reconsider > 0 && self.packets[p as usize].waits {
            let turn = u32::from(self.turns[q as usize]);
            self.idle_at(self.now + self.pace.reconsider, RECONSIDER, q, turn);
        }
    }

    /// A packet leaves an input lane for another lane, the output buffer of which has room, or without these
    /// the cable.
    #[inline(always)]
    fn move_on(&mut self, link: u32, lane: u8, q: u32, p: u32) {
        if self.settings.output_flits > 0 {
            self.fill_with(link, lane, q, p);
        } else {
            self.send_from(link, lane, q, p);
        }
    }

    #[inline]
    pub(super) fn output_may_move(&mut self, link: u32) {
        if self.settings.output_flits == 0 {
            self.send(link);
        } else {
            self.fill(link);
        }
    }

    /// Has the first packet of an input lane wait for what it chose.
    fn enqueue(&mut self, p: u32, hop: Hop) {
        let target = ((hop.link << self.size.shift) + u32::from(hop.lane)) as usize;
        let last = self.outs[target].waiting.tail;
        if last == NONE {
            self.outs[target].waiting.head = p;
            self.links[hop.link as usize].wanted |= 1 << hop.lane;
        } else {
            self.packets[last as usize].behind = p;
        }
        self.outs[target].waiting.tail = p;
        let packet = &mut self.packets[p as usize];
        (packet.behind, packet.waits) = (NONE, true);
    }

    /// The opposite. It is nearly always the first of its list; if not, those before it are searched.
    fn dequeue(&mut self, p: u32, link: u32, lane: u8) {
        let target = ((link << self.size.shift) + u32::from(lane)) as usize;
        let packet = &mut self.packets[p as usize];
        packet.waits = false;
        let next = packet.behind;
        let list = &mut self.outs[target].waiting;
        if list.head == p {
            list.head = next;
            if next == NONE {
                list.tail = NONE;
                self.links[link as usize].wanted &= !(1 << lane);
            }
            return;
        }
        let mut before = list.head;
        while self.packets[before as usize].behind != p {
            before = self.packets[before as usize].behind;
        }
        self.packets[before as usize].behind = next;
        if next == NONE {
            list.tail = before;
        }
    }

    /// A waiting packet may choose anew.
    pub(super) fn reconsider(&mut self, q: u32, turn: u16) {
        let p = self.ins[q as usize].head;
        let Some(packet) = self.packets.get(p as usize).filter(|p| p.waits) else { return };
        if self.turns[q as usize] != turn {
            return;
        }
        let old = packet.hop();
        let hop = self.ask_router(q);
        if hop != old {
            self.dequeue(p, old.link, old.lane);
            self.packets[p as usize].take_hop(hop);
            self.enqueue(p, hop);
            self.output_may_move(hop.link);
        }
        if self.packets[p as usize].waits {
            self.idle_at(self.now + self.pace.reconsider, RECONSIDER, q, u32::from(turn));
        }
    }

    /// The first lane in `mask`, in turn from `from`, for which some packet waits that fits.
    pub(super) fn pick(
        &self,
        link: u32,
        mask: u16,
        from: u8,
        free: impl Fn(&Space) -> u16,
    ) -> Option<(u8, u32)> {
        for v in in_turn(mask, from) {
            let target = (link << self.size.shift) + u32::from(v);
            let free = free(&self.space[self.place(link, v.into())]);
            if free == 0 {
                continue;
            }
            let mut p = self.outs[target as usize].waiting.head;
            while p != NONE {
                let waiting = &self.packets[p as usize];
                if u32::from(waiting.header.flits) << u32::from(waiting.bubble) <= u32::from(free) {
                    return Some((v, p));
                }
                if !waiting.bubble {
                    break;
                }
                p = waiting.behind;
            }
        }
        None
    }

    /// A packet no longer waits for a lane; the input lane that it is in, unless that one's port is busy: then
    /// the input lane is parked.
    #[inline(always)]
    pub(super) fn take(&mut self, p: u32, out: u32, out_lane: u8) -> Option<u32> {
        self.dequeue(p, out, out_lane);
        let q = self.packets[p as usize].input;
        let (own, lane) = self.lane_of(q);
        let (limit, link) = (self.settings.parallel_reads, &mut self.links[own as usize]);
        if limit > 0 && link.reading >= limit {
            link.parked |= 1 << lane;
            return None;
        }
        Some(q)
    }

    /// The first packet of an input lane leaves it, and is being `read` if that takes time. Whether
    /// there is another one behind.
    #[inline(always)]
    pub(super) fn leave(&mut self, q: u32, p: u32, read: bool) -> bool {
        let packet = &mut self.packets[p as usize];
        let next = std::mem::replace(&mut packet.next, NONE);
        let hop = packet.hop();
        // Where tables change, a packet may go round for a while.
        packet.header.hops = packet.header.hops.saturating_add(u16::from(hop.link < self.size.channels));
        self.router.taken(&mut packet.header, hop);
        packet.header.lane = hop.lane;
        self.ins[q as usize].head = next;
        let (link, lane) = self.lane_of(q);
        let port = &mut self.links[link as usize];
        port.reading += u8::from(read);
        port.read |= u16::from(read) << lane;
        next != NONE
    }

    /// The crossbar moves packets into the output buffer of a link.
    #[inline(always)]
    pub(super) fn fill(&mut self, link: u32) {
        let Link { wanted, doing, .. } = self.links[link as usize];
        let some = wanted & !(doing & FILLING) as u16 != 0;
        if some && !is_full(doing, self.settings.parallel_fills.into()) {
            self.fill_wanted(link);
        }
    }

    fn fill_wanted(&mut self, link: u32) {
        loop {
            let Link { wanted, crossbar_turn, doing, .. } = self.links[link as usize];
            let wanted = wanted & !(doing & FILLING) as u16;
            if wanted == 0 || is_full(doing, self.settings.parallel_fills.into()) {
                return;
            }
            let Some((v, p)) = self.pick(link, wanted, crossbar_turn, |lane| lane.room) else { return };
            let Some(q) = self.take(p, link, v) else { continue };
            self.fill_with(link, v, q, p);
        }
    }

    /// The crossbar moves the first packet `p` of an input lane into the output buffer of another lane.
    #[inline(always)]
    pub(super) fn fill_with(&mut self, link: u32, v: u8, q: u32, p: u32) {
        let takes_time = self.pace.fill > 0.0;
        let more = self.leave(q, p, takes_time);
        let Packet { header, mut ticks, tail, bytes, .. } = self.packets[p as usize];
        let place = self.place(link, v.into());
        let way = &mut self.links[link as usize];
        way.crossbar_turn = (v + 1) & 15;
        way.doing |= u32::from(takes_time) << v;
        let Link { doing, ready, to, .. } = *way;
        if to == NONE {
            ticks = self.times(bytes).ejection;
        }
        let flits = u32::from(header.flits);
        let read = (self.now + self.filling_time(ticks)).max(tail);
        self.agenda.wheel.at(read + self.pace.credit_delay, CREDIT, q, flits);
        let mut reading = None;
        if takes_time {
            reading = Some((read, u32::from(v) << 28 | q));
        } else if more {
            self.due.todo.push(q);
        }
        let space = &mut self.space[place];
        space.room -= header.flits;
        let idle = doing & SENDING == 0 && ready == 0 && !self.settings.random_arbiter;
        if idle && space.credit >= header.flits {
            space.credit -= header.flits;
            return self.depart(p, link, v, u32::from(v) << 28 | flits, reading);
        }
        if let Some((read, what)) = reading {
            self.agenda.wheel.at(read, READ, link, what);
        }
        let list = &mut self.outs[((link << self.size.shift) + u32::from(v)) as usize].output;
        let last = std::mem::replace(&mut list.tail, p);
        if ready & 1 << v == 0 {
            list.head = p;
            self.links[link as usize].ready |= 1 << v;
        } else {
            self.packets[last as usize].next = p;
        }
        self.send(link);
    }

    /// Ticks that the crossbar needs for what takes so many on a cable.
    #[inline]
    fn filling_time(&self, ticks: u32) -> u64 {
        if self.pace.fill == 1.0 {
            u64::from(ticks)
        } else {
            (f64::from(ticks) * self.pace.fill).ceil() as u64
        }
    }

    /// An input lane has been read: its next packet may ask, after parked lanes of the same port.
    #[inline(always)]
    pub(super) fn finish_read(&mut self, q: u32) {
        let (link, own) = self.lane_of(q);
        let more = self.ins[q as usize].head != NONE;
        let port = &mut self.links[link as usize];
        port.reading -= 1;
        port.read &= !(1 << own);
        port.parked |= u16::from(more) << own;
        let limit = self.settings.parallel_reads;
        for v in in_turn(port.parked, own as u8 + 1) {
            let port = &mut self.links[link as usize];
            if limit > 0 && port.reading >= limit {
                break;
            }
            port.parked &= !(1 << v);
            self.ask((link << self.size.shift) + u32::from(v));
        }
    }
}
