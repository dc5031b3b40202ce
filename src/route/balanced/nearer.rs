//! Which slots of each switch lead nearer to a destination, so that moves need not look at all.

use super::net::Net;

/// The slots that lead nearer to one switch.
#[derive(Default)]
pub(super) struct Nearer {
    home: Option<usize>,
    /// Hops to that switch by shortest routes.
    hops: Vec<u16>,
    queue: Vec<u32>,
    /// Slots of each switch that lead nearer: `slots[first[switch]..first[switch + 1]]`.
    first: Vec<u32>,
    slots: Vec<u8>,
}

impl Nearer {
    /// Finds the slots that lead nearer to a switch. O(channels), or O(1) if it is the one of the last call.
    pub(super) fn find(&mut self, net: &Net, home: usize) {
        if self.home == Some(home) {
            return;
        }
        self.home = Some(home);
        self.hops.clear();
        self.hops.resize(net.switches(), u16::MAX);
        self.queue.clear();
        self.queue.push(home as u32);
        self.hops[home] = 0;
        let mut head = 0;
        while let Some(&u) = self.queue.get(head) {
            head += 1;
            let hops = self.hops[u as usize] + 1;
            for &w in net.neighbours(u as usize) {
                if self.hops[w as usize] == u16::MAX {
                    self.hops[w as usize] = hops;
                    self.queue.push(w);
                }
            }
        }
        self.first.clear();
        self.slots.resize(net.channels(), 0);
        let mut found = 0;
        for v in 0..net.switches() {
            self.first.push(found as u32);
            let own = self.hops[v];
            // Written in any case, and overwritten if it is none: a branch would be guessed wrong too often.
            for (slot, u) in net.neighbours(v).iter().enumerate() {
                self.slots[found] = slot as u8;
                found += usize::from(self.hops[*u as usize] < own);
            }
        }
        self.first.push(found as u32);
    }

    /// Those of a switch whose present route has so many hops, if that is one of the shortest: no other slot leads
    /// to a switch with fewer.
    #[inline]
    pub(super) fn slots(&self, switch: usize, hops: u16) -> Option<&[u8]> {
        let is_shortest = self.hops[switch] == hops;
        is_shortest.then(|| &self.slots[self.first[switch] as usize..self.first[switch + 1] as usize])
    }
}
