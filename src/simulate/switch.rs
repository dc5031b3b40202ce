//! What happens in a switch: arrival, choice, waiting, crossbar, cable.
//!
//! What is on the way of every packet is inlined by order: the calls cost a seventh of all instructions.

use super::engine::{ARRIVE, CREDIT, READ, RECONSIDER, SENT, Simulator, THROUGH};
use super::router::{Hop, Router};
use super::state::{FILLING, Link, List, NONE, Packet, SENDING, Space, is_filling, view};
use super::traffic::Traffic;

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// The terminal that sends on a link, if one does.
    #[inline(always)]
    pub(super) fn sender(&self, link: u32) -> Option<usize> {
        let terminal = (link as usize).wrapping_sub(self.net.channels());
        (terminal < self.net.terminals()).then_some(terminal)
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
    /// buffers; else lane and flits.
    #[inline(always)]
    pub(super) fn sent(&mut self, link: u32, b: u32) {
        self.links[link as usize].doing &= !SENDING;
        if let Some(terminal) = self.sender(link) {
            return self.inject(terminal as u32);
        }
        if self.settings.output_flits == 0 {
            self.finish_read(b);
            self.send(link);
        } else {
            *self.room((link << self.shift) + (b >> 24)) += b as u16;
            self.send(link);
            self.fill(link);
        }
    }

    #[inline(always)]
    pub(super) fn arrive(&mut self, p: u32) {
        let packet = &mut self.packets[p as usize];
        packet.next = NONE;
        let q = (packet.link << self.shift) + u32::from(packet.header.lane);
        let list = &mut self.ins[q as usize].input;
        if list.head == NONE {
            *list = List { head: p, tail: p };
            if !self.ins[q as usize].read {
                self.request(q);
            }
        } else {
            let last = std::mem::replace(&mut list.tail, p);
            self.packets[last as usize].next = p;
        }
    }

    /// The first packet of an input lane is new there.
    pub(super) fn request(&mut self, q: u32) {
        if self.settings.random_arbiter {
            return self.asking.push(q);
        }
        if self.reconsider > 0 {
            self.turns[q as usize] = self.turns[q as usize].wrapping_add(1);
        }
        let (limit, link) = (self.settings.parallel_reads, &mut self.links[(q >> self.shift) as usize]);
        if limit > 0 && link.reading >= limit {
            link.parked |= 1 << (q & ((1 << self.shift) - 1));
        } else {
            self.choose(q);
        }
    }

    /// Where a lane is in [`Simulator::space`].
    #[inline(always)]
    pub(super) fn place(&self, lane: u32) -> usize {
        self.places.of(lane >> self.shift, lane & ((1 << self.shift) - 1))
    }
    #[inline(always)]
    pub(super) fn credit(&mut self, lane: u32) -> &mut u16 {
        let place = self.place(lane);
        &mut self.space[place].credit
    }
    #[inline(always)]
    fn room(&mut self, lane: u32) -> &mut u16 {
        let place = self.place(lane);
        &mut self.space[place].room
    }

    #[inline(always)]
    pub(super) fn ask_router(&mut self, q: u32) -> Hop {
        let packet = &self.packets[self.ins[q as usize].input.head as usize];
        self.router.hop(packet.at, &packet.header, &view!(self), &mut self.rng)
    }

    /// Has the first packet of an input lane choose, and queues the lane where it wants to go.
    pub(super) fn choose(&mut self, q: u32) {
        let hop = self.ask_router(q);
        let packet = &mut self.packets[self.ins[q as usize].input.head as usize];
        packet.take_hop(hop);
        let need = i32::from(packet.header.flits) << u32::from(hop.bubble);
        let buffered = self.settings.output_flits > 0;
        let lane = (hop.link << self.shift) + u32::from(hop.lane);
        let doing = self.links[hop.link as usize].doing;
        let blocked = match buffered {
            true => is_filling(doing, hop.lane.into(), self.settings.parallel_fills.into()),
            false => doing & SENDING != 0,
        };
        if blocked {
            self.enqueue(q, hop);
        } else if self.links[hop.link as usize].wanted != 0 {
            self.enqueue(q, hop);
            self.output_may_move(hop.link);
        } else if need <= i32::from(if buffered { *self.room(lane) } else { *self.credit(lane) }) {
            // Nobody else wants the link: no need to wait in a list.
            let p = self.take_first(q);
            return if buffered { self.fill_with(lane, q, p) } else { self.send_from(lane, q, p) };
        } else {
            self.enqueue(q, hop);
        }
        if self.reconsider > 0 && self.ins[q as usize].waits > 0 {
            let turn = u32::from(self.turns[q as usize]);
            self.idle_at(self.now + self.reconsider, RECONSIDER, q, turn);
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

    /// Has an input lane wait for what its first packet chose.
    fn enqueue(&mut self, q: u32, hop: Hop) {
        let target = ((hop.link << self.shift) + u32::from(hop.lane)) as usize;
        let last = self.outs[target].waiting.tail;
        if last == NONE {
            self.outs[target].waiting.head = q;
            self.links[hop.link as usize].wanted |= 1 << hop.lane;
        } else {
            self.ins[last as usize].next = q;
        }
        self.outs[target].waiting.tail = q;
        let own = &mut self.ins[q as usize];
        let flits = self.packets[own.input.head as usize].header.flits;
        (own.next, own.waits, own.bubble) = (NONE, flits, hop.bubble);
    }

    /// The opposite. It is nearly always the first of its list; if not, those before it are searched.
    fn dequeue(&mut self, q: u32, link: u32, lane: u8) {
        let target = ((link << self.shift) + u32::from(lane)) as usize;
        self.ins[q as usize].waits = 0;
        let next = self.ins[q as usize].next;
        let list = &mut self.outs[target].waiting;
        if list.head == q {
            list.head = next;
            if next == NONE {
                list.tail = NONE;
                self.links[link as usize].wanted &= !(1 << lane);
            }
            return;
        }
        let mut before = list.head;
        while self.ins[before as usize].next != q {
            before = self.ins[before as usize].next;
        }
        self.ins[before as usize].next = next;
        if next == NONE {
            list.tail = before;
        }
    }

    /// A waiting packet may choose anew.
    pub(super) fn reconsider(&mut self, q: u32, turn: u16) {
        let lane = &self.ins[q as usize];
        if lane.waits == 0 || self.turns[q as usize] != turn {
            return;
        }
        let packet = &self.packets[lane.input.head as usize];
        let old = packet.hop();
        let hop = self.ask_router(q);
        if hop != old {
            self.dequeue(q, old.link, old.lane);
            let packet = &mut self.packets[self.ins[q as usize].input.head as usize];
            packet.take_hop(hop);
            self.enqueue(q, hop);
            self.output_may_move(hop.link);
        }
        if self.ins[q as usize].waits > 0 {
            self.idle_at(self.now + self.reconsider, RECONSIDER, q, u32::from(turn));
        }
    }

    /// The first lane in `mask`, in turn from `from`, on which some input lane waits that fits.
    pub(super) fn pick(
        &self,
        link: u32,
        mask: u16,
        from: u8,
        free: impl Fn(&Space) -> u16,
    ) -> Option<(u8, u32)> {
        for v in in_turn(mask, from) {
            let target = (link << self.shift) + u32::from(v);
            let free = free(&self.space[self.place(target)]);
            if free == 0 {
                continue;
            }
            let mut q = self.outs[target as usize].waiting.head;
            while q != NONE {
                let waiting = &self.ins[q as usize];
                if u32::from(waiting.waits) << u32::from(waiting.bubble) <= u32::from(free) {
                    return Some((v, q));
                }
                if !waiting.bubble {
                    break;
                }
                q = waiting.next;
            }
        }
        None
    }

    /// Takes the first packet of an input lane that waits for another lane out of it, or parks the
    /// input lane if its port is busy.
    fn take(&mut self, q: u32, out: u32, out_lane: u8) -> Option<u32> {
        self.dequeue(q, out, out_lane);
        let (limit, link) = (self.settings.parallel_reads, &mut self.links[(q >> self.shift) as usize]);
        if limit > 0 && link.reading >= limit {
            link.parked |= 1 << (q & ((1 << self.shift) - 1));
            return None;
        }
        Some(self.take_first(q))
    }

    #[inline(always)]
    pub(super) fn take_first(&mut self, q: u32) -> u32 {
        let p = self.ins[q as usize].input.head;
        let packet = &mut self.packets[p as usize];
        let list = &mut self.ins[q as usize].input;
        list.head = packet.next;
        if list.head == NONE {
            list.tail = NONE;
        }
        packet.next = NONE;
        let hop = packet.hop();
        packet.header.hops += u8::from((hop.link as usize) < self.net.channels());
        self.router.taken(&mut packet.header, hop);
        packet.header.lane = hop.lane;
        p
    }

    /// The crossbar moves packets into the output buffer of a link.
    #[inline(always)]
    pub(super) fn fill(&mut self, link: u32) {
        let Link { wanted, doing, .. } = self.links[link as usize];
        if wanted & !(doing & FILLING) as u16 != 0 {
            self.fill_wanted(link);
        }
    }

    fn fill_wanted(&mut self, link: u32) {
        loop {
            let Link { wanted, crossbar_turn, doing, .. } = self.links[link as usize];
            let parallel = u32::from(self.settings.parallel_fills);
            let wanted = wanted & !(doing & FILLING) as u16;
            if wanted == 0 || (parallel > 0 && (doing & FILLING).count_ones() >= parallel) {
                return;
            }
            let Some((v, q)) = self.pick(link, wanted, crossbar_turn, |lane| lane.room) else { return };
            let Some(p) = self.take(q, link, v) else { continue };
            self.fill_with((link << self.shift) + u32::from(v), q, p);
        }
    }

    /// The crossbar moves a packet from an input lane into the output buffer of another lane.
    #[inline(always)]
    pub(super) fn fill_with(&mut self, target: u32, q: u32, p: u32) {
        let (link, v) = (target >> self.shift, (target & ((1 << self.shift) - 1)) as u8);
        self.links[link as usize].crossbar_turn = (v + 1) & 15;
        let Packet { header, mut ticks, tail, bytes, .. } = self.packets[p as usize];
        if self.links[link as usize].to == NONE {
            ticks = self.times(bytes).ejection;
        }
        let flits = u32::from(header.flits);
        *self.room(target) -= header.flits;
        let read = (self.now + self.filling_time(ticks)).max(tail);
        self.at(read + self.credit_delay, CREDIT, q, flits);
        let mut reading = None;
        if self.fill > 0.0 {
            self.links[link as usize].doing |= 1 << v;
            self.start_read(q);
            reading = Some((read, u32::from(v) << 28 | q));
        } else if self.ins[q as usize].input.head != NONE {
            self.todo.push(q);
        }
        let Link { doing, ready, .. } = self.links[link as usize];
        let idle = doing & SENDING == 0 && ready == 0 && !self.settings.random_arbiter;
        if idle && *self.credit(target) >= header.flits {
            *self.credit(target) -= header.flits;
            self.links[link as usize].cable_turn = (v + 1) & 15;
            return self.depart(p, link, u32::from(v) << 24 | flits, reading);
        }
        if let Some((read, what)) = reading {
            self.at(read, READ, link, what);
        }
        let list = &mut self.outs[target as usize].output;
        let last = std::mem::replace(&mut list.tail, p);
        if last == NONE {
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
        if self.fill == 1.0 { u64::from(ticks) } else { (f64::from(ticks) * self.fill).ceil() as u64 }
    }

    pub(super) fn start_read(&mut self, q: u32) {
        self.ins[q as usize].read = true;
        self.links[(q >> self.shift) as usize].reading += 1;
    }

    /// An input lane has been read: its next packet may ask, after parked lanes of the same port.
    #[inline(always)]
    pub(super) fn finish_read(&mut self, q: u32) {
        let (link, own) = (q >> self.shift, q & ((1 << self.shift) - 1));
        self.ins[q as usize].read = false;
        self.links[link as usize].reading -= 1;
        if self.ins[q as usize].input.head != NONE {
            self.links[link as usize].parked |= 1 << own;
        }
        let limit = self.settings.parallel_reads;
        for v in in_turn(self.links[link as usize].parked, own as u8 + 1) {
            if limit > 0 && self.links[link as usize].reading >= limit {
                break;
            }
            self.links[link as usize].parked &= !(1 << v);
            self.request((link << self.shift) + u32::from(v));
        }
    }

    /// Puts a packet on the cable of a link, if it is free and one may go.
    #[inline(always)]
    pub(super) fn send(&mut self, link: u32) {
        if self.settings.output_flits == 0 {
            return self.send_unbuffered(link);
        }
        let Link { ready, doing, .. } = self.links[link as usize];
        if self.settings.random_arbiter {
            self.sending.push(link);
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
            let target = (link << self.shift) + u32::from(v);
            let place = self.place(target);
            let credit = &mut self.space[place].credit;
            if *credit == 0 {
                continue;
            }
            let p = self.outs[target as usize].output.head;
            let packet = &self.packets[p as usize];
            let flits = packet.header.flits;
            if *credit < flits {
                continue;
            }
            *credit -= flits;
            let list = &mut self.outs[target as usize].output;
            list.head = packet.next;
            if packet.next == NONE {
                list.tail = NONE;
                self.links[link as usize].ready &= !(1 << v);
            }
            self.links[link as usize].cable_turn = (v + 1) & 15;
            return self.depart(p, link, u32::from(v) << 24 | u32::from(flits), None);
        }
    }

    pub(super) fn send_unbuffered(&mut self, link: u32) {
        loop {
            let Link { wanted, cable_turn, doing, .. } = self.links[link as usize];
            if doing & SENDING != 0 || wanted == 0 {
                return;
            }
            let Some((v, q)) = self.pick(link, wanted, cable_turn, |lane| lane.credit) else { return };
            let Some(p) = self.take(q, link, v) else { continue };
            self.send_from((link << self.shift) + u32::from(v), q, p);
        }
    }

    /// Without output buffers: a packet goes from an input lane to the cable.
    fn send_from(&mut self, target: u32, q: u32, p: u32) {
        let (link, v) = (target >> self.shift, (target & ((1 << self.shift) - 1)) as u8);
        self.links[link as usize].cable_turn = (v + 1) & 15;
        let Packet { header, ticks, tail, .. } = self.packets[p as usize];
        *self.credit(target) -= header.flits;
        self.start_read(q);
        let read = (self.now + u64::from(ticks)).max(tail);
        self.at(read + self.link_delay, CREDIT, q, u32::from(header.flits));
        self.depart(p, link, q, None);
    }

    /// A packet starts on a cable. `sent` is for [`Simulator::sent`]; `read` is the end of its way
    /// through the crossbar, if that is not to come yet.
    #[inline(always)]
    pub(super) fn depart(&mut self, p: u32, link: u32, sent: u32, read: Option<(u64, u32)>) {
        self.stats.links += 1;
        let way = &mut self.links[link as usize];
        way.doing |= SENDING;
        let packet = &mut self.packets[p as usize];
        (packet.link, packet.at) = (link, way.to);
        if way.to == NONE {
            return self.eject(p, link, sent, read);
        }
        // Behind a slower cable the last byte leaves when it is there.
        let end = (self.now + u64::from(packet.ticks)).max(packet.tail);
        packet.tail = end + self.link_delay;
        self.links[link as usize].busy += end - self.now;
        self.end_sending(end, link, sent, read);
        self.at(self.now + self.head_delay, ARRIVE, p, 0);
    }

    /// A packet will have left the crossbar, if that is not to come yet, and the cable of `link`
    /// will be free at `end`.
    #[inline(always)]
    pub(super) fn end_sending(&mut self, end: u64, link: u32, sent: u32, read: Option<(u64, u32)>) {
        match read {
            Some((time, what)) if time == end && sent & 0xff_ffff == self.full_flits => {
                return self.at(end, THROUGH, link, what);
            }
            Some((time, what)) => self.at(time, READ, link, what),
            None => {}
        }
        self.at(end, SENT, link, sent);
    }
}

/// The lanes in `mask`, in turn from `from`.
#[inline(always)]
pub(super) fn in_turn(mask: u16, from: u8) -> impl Iterator<Item = u8> {
    let mut left = mask.rotate_right(u32::from(from) & 15);
    std::iter::from_fn(move || {
        let lane = (left.trailing_zeros() as u8 + from) & 15;
        let some = left != 0;
        left &= left.wrapping_sub(1);
        some.then_some(lane)
    })
}
