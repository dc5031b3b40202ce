//! What happens at a terminal: packets are made, injected and consumed.

use super::engine::{ARRIVE, CREDIT, DELIVER, SENT, Simulator, Times, WAKE};
use super::router::{Header, Router};
use super::state::{Content, NONE, Packet, SENDING, view};
use super::traffic::{Delivery, Message, Next, Traffic};

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// Ticks of a packet with that much payload.
    #[inline(always)]
    pub(super) fn times(&self, bytes: u32) -> Times {
        if bytes == self.settings.mtu { self.pace.full_packet } else { Times::of(&self.settings, bytes) }
    }

    /// A packet starts on the cable to its terminal.
    #[inline(always)]
    pub(super) fn eject(&mut self, p: u32, link: u32, sent: u32, read: Option<(u64, u32)>) {
        let packet = &self.packets[p as usize];
        let Times { ejection, consumption, .. } = self.times(packet.bytes);
        // The last byte cannot leave before it is there.
        let done = (self.now + u64::from(ejection)).max(packet.tail);
        let q = packet.input;
        let until = &mut self.consumed[packet.header.dst as usize];
        let start = (self.now + self.pace.link_delay).max(*until);
        let consumed = (start + u64::from(consumption)).max(done + self.pace.link_delay);
        *until = consumed;
        self.links[link as usize].busy += done - self.now;
        self.end_sending(done, link, sent, read);
        self.agenda.wheel.at(consumed, DELIVER, p, q);
    }

    pub(super) fn deliver(&mut self, p: u32, q: u32) {
        let packet = &mut self.packets[p as usize];
        let Packet { header, bytes, .. } = *packet;
        packet.next = self.free;
        let Content { tag, last, born } = self.contents[p as usize];
        self.free = p;
        self.live -= 1;
        self.agenda.wheel.at(self.now + self.pace.link_delay, CREDIT, q, u32::from(header.flits));
        self.stats.delivered(&header, bytes, born, self.now);
        let delivery = Delivery { src: header.src, dst: header.dst, bytes, tag, last, born };
        self.traffic.delivered(&delivery, self.now, &mut self.due.wake);
        if !self.due.wake.is_empty() {
            self.wake_hosts();
        }
    }

    pub(super) fn wake_hosts(&mut self) {
        let mut wake = std::mem::take(&mut self.due.wake);
        wake.drain(..).for_each(|host| self.inject(host));
        self.due.wake = wake;
        self.ask_all();
    }

    /// A terminal sends its next packet, if it has one and its switch has room.
    pub(super) fn inject(&mut self, t: u32) {
        if self.settings.random_arbiter {
            return self.due.sending.push(self.net.injection(t));
        }
        self.inject_now(t);
    }

    pub(super) fn inject_now(&mut self, t: u32) {
        let link = self.size.channels + t;
        if self.links[link as usize].doing & SENDING != 0 {
            return;
        }
        let mut p = self.hosts[t as usize].packet;
        if p == NONE {
            if !self.make_packet(t) {
                return;
            }
            p = self.hosts[t as usize].packet;
        }
        let Packet { header, bytes, .. } = self.packets[p as usize];
        let flits = header.flits;
        let lanes =
            if self.habits.any_first_lane { 0..self.router.lanes() } else { header.lane..header.lane + 1 };
        let has_room = |v: &u8| self.space[self.place(link, (*v).into())].credit >= flits;
        let Some(lane) = lanes.into_iter().find(has_room) else { return };
        let place = self.place(link, lane.into());
        self.space[place].credit -= flits;
        self.hosts[t as usize].packet = NONE;
        let on_cable = u64::from(self.times(bytes).injection);
        let packet = &mut self.packets[p as usize];
        packet.header.lane = lane;
        let q = (link << self.size.shift) + u32::from(lane);
        packet.input = q;
        packet.tail = self.now + self.pace.link_delay + on_cable;
        let way = &mut self.links[link as usize];
        way.doing |= SENDING;
        way.busy += on_cable;
        self.stats.links += 1;
        self.stats.injected(t, bytes);
        self.agenda.wheel.at(self.now + on_cable, SENT, link, 0);
        self.agenda.wheel.at(self.now + self.pace.head_delay, ARRIVE, p, q);
    }

    /// The message that a terminal sends, or begins to send now.
    fn message_of(&mut self, t: u32) -> Option<Message> {
        let message = self.hosts[t as usize].message;
        if message.is_some() || self.stopped {
            return message;
        }
        match self.traffic.next(t, self.now) {
            Next::Idle => None,
            Next::At(time) => {
                let time = time.max(self.now + 1);
                if self.hosts[t as usize].wake != time {
                    self.hosts[t as usize].wake = time;
                    self.idle_at(time, WAKE, t, 0);
                }
                None
            }
            Next::Send(message) => {
                self.hosts[t as usize].message = Some(message);
                self.hosts[t as usize].left = message.bytes.max(1);
                Some(message)
            }
        }
    }

    /// Makes a terminal's next packet; `false` if it has nothing to send now.
    pub(super) fn make_packet(&mut self, t: u32) -> bool {
        let Some(message) = self.message_of(t) else { return false };
        let left = self.hosts[t as usize].left;
        let bytes = left.min(self.settings.mtu);
        let last = bytes == left;
        self.hosts[t as usize].left -= bytes;
        if last {
            self.hosts[t as usize].message = None;
        }
        let (from, home) = (self.net.home(t), self.net.home(message.dst));
        let flits = self.settings.flits(bytes) as u16;
        let (sl, lid) = (self.traffic.sl(&message), self.traffic.lid(&message));
        let mut header = Header { src: t, dst: message.dst, from, home, flits, sl, lid, ..Header::default() };
        header.lane = self.router.inject(&mut header, &view!(self), &mut self.rng);
        let ticks = self.times(bytes).link;
        let packet = Packet {
            header,
            next: NONE,
            behind: NONE,
            input: NONE,
            out: NONE,
            out_lane: 0,
            bubble: false,
            waits: false,
            ticks,
            bytes,
            tail: 0,
        };
        let content = Content { born: message.born, tag: message.tag, last };
        self.live += 1;
        let slot = self.free;
        if slot == NONE {
            self.hosts[t as usize].packet = self.packets.len() as u32;
            self.packets.push(packet);
            self.contents.push(content);
        } else {
            self.free = self.packets[slot as usize].next;
            self.packets[slot as usize] = packet;
            self.contents[slot as usize] = content;
            self.hosts[t as usize].packet = slot;
        }
        true
    }
}
