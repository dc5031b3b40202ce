//! What must hold at every moment, for tests.

use super::engine::Simulator;
use super::router::Router;
use super::state::{List, NONE, Out, Space};
use super::traffic::Traffic;

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// Checks that no buffer holds more than fits and that room and credits are what the packets
    /// leave. O(lanes + packets).
    ///
    /// # Errors
    /// The first lane where it does not hold.
    pub fn audit(&self) -> Result<(), String> {
        let (input, output) = (self.settings.input_flits, self.settings.output_flits);
        for (q, lane) in self.outs.iter().enumerate() {
            let (link, number) = self.lane_of(q as u32);
            let Space { credit, room } = self.space[self.place(link, number)];
            let (credit, room) = (u32::from(credit), u32::from(room));
            let (inside, outside) = (self.flits(self.ins[q]), self.flits(lane.output));
            // Credits under way belong to neither side, packets on a cable to the receiving one.
            if credit + inside > input {
                return Err(format!("lane {q}: {credit} credits, {inside} of {input} flits in use"));
            }
            if output > 0 && room + outside > output {
                return Err(format!("lane {q}: room for {room}, {outside} of {output} flits in use"));
            }
        }
        Ok(())
    }

    /// Packets that left their terminal and have not been consumed.
    pub fn in_network(&self) -> u64 {
        self.live() - self.hosts.iter().filter(|h| h.packet != NONE).count() as u64
    }

    /// Whether every buffer is empty and every credit is back.
    pub fn is_at_rest(&self) -> bool {
        let (input, output) = (self.settings.input_flits as u16, self.settings.output_flits as u16);
        let at_rest = |l: &Out| l.output.head == NONE && l.waiting.head == NONE;
        self.live() == 0
            && self.space.iter().all(|s| s.credit == input && s.room == output)
            && self.outs.iter().all(at_rest)
            && self.ins.iter().all(|l| l.head == NONE)
            && self.links.iter().all(|l| l.reading == 0 && l.parked == 0 && l.read == 0)
            && self.links.iter().all(|l| l.doing == 0)
    }

    /// Flits of the packets in a list.
    pub(super) fn flits(&self, list: List) -> u32 {
        let (mut p, mut sum) = (list.head, 0);
        while p != NONE {
            sum += u32::from(self.packets[p as usize].header.flits);
            p = self.packets[p as usize].next;
        }
        sum
    }
}
