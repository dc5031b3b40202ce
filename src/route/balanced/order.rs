//! An order of all channels that grows turn by turn and stays acyclic.

use super::net::Net;

/// One layer's order of channels: a turn may be used if it leads upwards.
///
/// Turns that were added stay upwards for ever; all others may be turned around to make room
/// (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2007).
pub(super) struct Order {
    /// Place of each channel, a permutation.
    pub(super) place: Vec<u32>,
    /// One bit in each of these words says whether a turn was added: `added[turn] & bit`.
    bit: u16,
    visited: Vec<bool>,
    before: Vec<u32>,
    after: Vec<u32>,
    places: Vec<u32>,
}

impl Order {
    /// Starts from any keys, one per channel: smaller keys come first.
    pub(super) fn new(keys: &[u32], bit: u16) -> Self {
        let mut by_key: Vec<u32> = (0..keys.len() as u32).collect();
        by_key.sort_by_key(|c| keys[*c as usize]);
        let mut place = vec![0; keys.len()];
        for (i, c) in by_key.iter().enumerate() {
            place[*c as usize] = i as u32;
        }
        let visited = vec![false; keys.len()];
        Self { place, bit, visited, before: Vec::new(), after: Vec::new(), places: Vec::new() }
    }

    /// Adds the turn from `coming` into `leaving`, both channels; `false` and no change if that
    /// closes a cycle of added turns. O(added turns between the two places).
    pub(super) fn add(&mut self, net: &Net, added: &mut [u16], coming: usize, leaving: usize) -> bool {
        let (low, high) = (self.place[leaving], self.place[coming]);
        if low < high && !self.make_room(net, added, coming, leaving) {
            return false;
        }
        let u = net.to(coming);
        let leaving = net.slot(leaving);
        added[net.turn(u, net.back_slot[coming], leaving)] |= self.bit;
        true
    }

    fn make_room(&mut self, net: &Net, added: &[u16], coming: usize, leaving: usize) -> bool {
        let (low, high) = (self.place[leaving], self.place[coming]);
        self.after.clear();
        self.before.clear();
        self.after.push(leaving as u32);
        self.visited[leaving] = true;
        let mut head = 0;
        let mut acyclic = true;
        while let (true, Some(&c)) = (acyclic, self.after.get(head)) {
            head += 1;
            let u = net.to(c as usize);
            let slot = net.back_slot[c as usize];
            for (leaving, next) in net.out(u).enumerate() {
                let is_added = added[net.turn(u, slot, leaving as u8)] & self.bit != 0;
                if is_added && !self.visited[next] && self.place[next] <= high {
                    acyclic &= next != coming;
                    self.visited[next] = true;
                    self.after.push(next as u32);
                }
            }
        }
        if acyclic {
            self.collect_before(net, added, coming, low);
            self.reorder();
        }
        for c in self.after.iter().chain(&self.before) {
            self.visited[*c as usize] = false;
        }
        acyclic
    }

    fn collect_before(&mut self, net: &Net, added: &[u16], coming: usize, low: u32) {
        self.before.push(coming as u32);
        self.visited[coming] = true;
        let mut head = 0;
        while let Some(&c) = self.before.get(head) {
            head += 1;
            let u = net.from(c as usize);
            let slot = net.slot(c as usize);
            let row = net.turn(u, 0, slot);
            for (coming, reverse) in net.out(u).enumerate() {
                let previous = net.reverse(reverse);
                let is_added = added[row + coming] & self.bit != 0;
                if is_added && !self.visited[previous] && self.place[previous] >= low {
                    self.visited[previous] = true;
                    self.before.push(previous as u32);
                }
            }
        }
    }

    /// Gives the places of both sets to `before`, then to `after`, each in its old order.
    fn reorder(&mut self) {
        let place = &mut self.place;
        self.before.sort_unstable_by_key(|c| place[*c as usize]);
        self.after.sort_unstable_by_key(|c| place[*c as usize]);
        self.places.clear();
        self.places.extend(self.before.iter().chain(&self.after).map(|c| place[*c as usize]));
        self.places.sort_unstable();
        for (c, at) in self.before.iter().chain(&self.after).zip(&self.places) {
            place[*c as usize] = *at;
        }
    }
}
