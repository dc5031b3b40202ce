//! Which packets wait for which: the circle of a deadlock.

use super::engine::Simulator;
use super::router::Router;
use super::state::{NONE, Space};
use super::traffic::Traffic;

/// One packet of a circle of waiting packets.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
pub struct Wait {
    /// The link in whose input buffer the packet is.
    pub link: u32,
    /// Its lane: the layer, for tables.
    pub lane: u8,
    /// Terminal that sent it.
    pub src: u32,
    /// Terminal that it is for.
    pub dst: u32,
    /// Link that it wants.
    pub wants: u32,
    /// Lane there.
    pub wants_lane: u8,
    /// Packets in that input buffer.
    pub packets: usize,
}

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    /// The circle in which packets wait for each other, if every packet is stuck: the first of
    /// each buffer waits for room in the next one, and the last for room in the first. O(links).
    pub fn wait_cycle(&self) -> Vec<Wait> {
        self.cycle(|q| self.waits_for(q))
    }

    /// The same while other packets still move: a circle of buffers none of which will ever move. The first
    /// packet of each waits for the next one, that and the output buffer before it have no room for who is
    /// first to go there, and nothing is on its way between the two, no credit either. A circle that has only
    /// just closed may be found later, when all that was on its way has come. Under a random arbiter none is
    /// found. O(lanes + packets).
    pub fn standing_cycle(&self) -> Vec<Wait> {
        self.cycle(|q| self.is_blocked(q))
    }

    /// The next input lane, if the first packet of this one waits for it and nothing under way can change that.
    fn is_blocked(&self, q: u32) -> Option<u32> {
        let first = self.packets.get(self.ins[q as usize].head as usize).filter(|p| p.waits)?;
        let (link, lane) = (first.out, u32::from(first.out_lane));
        if link >= self.size.channels {
            return None;
        }
        let next = (link << self.size.shift) + lane;
        let Space { credit, room } = self.space[self.place(link, lane)];
        let (credit, room, out) = (u32::from(credit), u32::from(room), &self.outs[next as usize]);
        let need = |p: u32| {
            self.packets.get(p as usize).map_or(0, |p| u32::from(p.header.flits) << u32::from(p.bubble))
        };
        let at_rest = |free: u32, list, all: u32| free + self.flits(list) == all;
        let (input, output) = (self.settings.input_flits, self.settings.output_flits);
        let is_full = match output {
            0 => need(out.waiting.head) > credit,
            _ => {
                at_rest(room, out.output, output)
                    && need(out.waiting.head) > room
                    && need(out.output.head) > credit
            }
        };
        (is_full && at_rest(credit, self.ins[next as usize], input)).then_some(next)
    }

    /// The first circle of a relation, in the order of lanes.
    fn cycle(&self, after: impl Fn(u32) -> Option<u32>) -> Vec<Wait> {
        let mut seen = vec![NONE; self.ins.len()];
        for start in 0..self.ins.len() as u32 {
            let mut at = start;
            while let Some(next) = after(at).filter(|_| seen[at as usize] == NONE) {
                seen[at as usize] = start;
                at = next;
            }
            if seen[at as usize] == start {
                return self.circle(at);
            }
        }
        Vec::new()
    }

    fn waits_for(&self, q: u32) -> Option<u32> {
        let p = self.ins[q as usize].head;
        let packet = self.packets.get(p as usize).filter(|packet| packet.out != NONE)?;
        Some((packet.out << self.size.shift) + u32::from(packet.out_lane))
    }

    fn circle(&self, start: u32) -> Vec<Wait> {
        let (mut circle, mut at) = (Vec::new(), start);
        while let Some(next) = self.waits_for(at) {
            let mut p = self.ins[at as usize].head;
            let packet = &self.packets[p as usize];
            let mask = (1 << self.size.shift) - 1;
            let mut wait = Wait {
                link: at >> self.size.shift,
                lane: (at & mask) as u8,
                src: packet.header.src,
                dst: packet.header.dst,
                wants: packet.out,
                wants_lane: packet.out_lane,
                packets: 0,
            };
            while p != NONE {
                wait.packets += 1;
                p = self.packets[p as usize].next;
            }
            circle.push(wait);
            at = next;
            if at == start {
                break;
            }
        }
        circle
    }
}
