//! Packets that are lost: for want of an entry, or with a cable that dies.

use super::engine::{CREDIT, Simulator};
use super::net::NO_LINK;
use super::router::Router;
use super::state::{Content, List, NONE, Packet};
use super::traffic::{Delivery, Loss, Traffic};

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// Why a packet that is to take a link is lost, if it is.
    #[inline]
    pub(super) fn loss_on(&self, link: u32) -> Option<Loss> {
        match link {
            NO_LINK => Some(Loss::NoEntry),
            _ => self.router.is_cut(link).then_some(Loss::Cable),
        }
    }

    /// A channel between switches, which [`Router::is_cut`] names from now on, is dead: packets in its output
    /// buffer and those that wait for it are lost, and what is on the cable is when it should arrive. A packet
    /// whose head is through goes on. O(lanes + packets).
    pub fn cut(&mut self, link: u32) {
        for lane in 0..1 << self.size.shift {
            let (at, place) = (((link << self.size.shift) + lane) as usize, self.place(link, lane));
            let mut p = std::mem::replace(&mut self.outs[at].output, List::EMPTY).head;
            while p != NONE {
                let Packet { header, next, .. } = self.packets[p as usize];
                self.space[place].room += header.flits;
                self.lose(p, Loss::Cable);
                p = next;
            }
            let mut p = std::mem::replace(&mut self.outs[at].waiting, List::EMPTY).head;
            while p != NONE {
                let Packet { behind, input, .. } = self.packets[p as usize];
                self.packets[p as usize].waits = false;
                self.discard(input, Loss::Cable);
                p = behind;
            }
        }
        let way = &mut self.links[link as usize];
        (way.ready, way.wanted) = (0, 0);
        self.ask_all();
    }

    /// The first packet of an input lane is lost. Its buffer is free when the last byte has come.
    #[cold]
    pub(super) fn discard(&mut self, q: u32, why: Loss) {
        let p = self.ins[q as usize].head;
        let next = self.packets[p as usize].next;
        self.ins[q as usize].head = next;
        self.free_input(p, q);
        self.lose(p, why);
        if next != NONE {
            self.due.todo.push(q);
        }
    }

    /// A packet should arrive by a cable that has died under it.
    #[cold]
    pub(super) fn lose_arriving(&mut self, p: u32, q: u32) {
        self.free_input(p, q);
        self.lose(p, Loss::Cable);
    }

    /// The sender to an input lane gets back the credits of a packet.
    fn free_input(&mut self, p: u32, q: u32) {
        let Packet { header, tail, .. } = self.packets[p as usize];
        let gone = self.now.max(tail);
        self.agenda.wheel.at(gone + self.pace.link_delay, CREDIT, q, u32::from(header.flits));
    }

    /// A packet that is in no list any more.
    fn lose(&mut self, p: u32, why: Loss) {
        let packet = &mut self.packets[p as usize];
        packet.next = std::mem::replace(&mut self.free, p);
        let Packet { header, bytes, .. } = *packet;
        self.live -= 1;
        let Content { tag, last, born } = self.contents[p as usize];
        self.traffic.lost(&Delivery { src: header.src, dst: header.dst, bytes, tag, last, born }, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::{Demand, LayerBudget};
    use crate::route::{EngineOptions, engine};
    use crate::simulate::traffic::calls::{Calling, Calls};
    use crate::simulate::traffic::endpoints::Leaving;
    use crate::simulate::traffic::open::Destinations;
    use crate::simulate::{Ended, LiveRouter, Net, Settings};

    /// Nothing vanishes and no room is left taken, whatever a packet was doing when its cable died.
    #[test]
    fn what_a_dead_cable_takes_is_counted_and_all_room_comes_back() {
        let fabric = generate("torus:4x4,hosts=2").unwrap();
        let (net, vls) = (Net::of_fabric(&fabric), LayerBudget::new(8).unwrap());
        let updown = engine("updown", &EngineOptions::default()).unwrap();
        let tables = updown.route(&fabric, &Demand::oblivious(), vls).unwrap();
        let small = Settings { input_flits: 40, output_flits: 40, ..Settings::qdr() };
        let mut lost = 0;
        for settings in [small, Settings { output_flits: 0, ..small }, Settings { speed_up: 0.0, ..small }] {
            for link in 0..net.channels() as u32 {
                let router = LiveRouter::new(&fabric, &net, vls, &tables);
                let calling = Calling {
                    members: net.hosts().to_vec(),
                    destinations: Destinations::Uniform,
                    bytes: 2048,
                    gap: 0.0,
                    queue: 1,
                    untold: 0.5,
                    answers: 0.5,
                    leaving: Leaving::Stay,
                    keeps: false,
                    seed: link.into(),
                };
                let calls = Calls::new(calling, &net.home, net.switches());
                let mut simulator = Simulator::new(&net, settings, &router, calls, 1).unwrap();
                assert_eq!(simulator.run(20_000 + 77 * u64::from(link)), Ended::Time);
                router.cut(link);
                simulator.cut(link);
                assert_eq!((simulator.audit(), simulator.run(40_000)), (Ok(()), Ended::Time));
                simulator.traffic.close();
                assert_eq!((simulator.run(u64::MAX), simulator.audit()), (Ended::Finished, Ok(())));
                assert!(simulator.is_at_rest(), "{}", net.link_name(link));
                let (stats, counts) = (&simulator.stats, simulator.traffic.counts);
                assert_eq!(stats.injected_packets, stats.delivered_packets + counts.lost_on_cable);
                assert_eq!(counts.lost, 0);
                lost += counts.lost_on_cable;
            }
        }
        assert!(lost > 1000, "{lost}");
    }
}
