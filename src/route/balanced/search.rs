//! The shortest routes of one destination that some layer allows, by price.

use super::net::{NONE, Net};

/// Reusable arrays of one search; afterwards they describe the tree that was found.
pub(super) struct Search {
    /// Hops to the destination's switch; `u16::MAX` where there is no route.
    pub(super) hops: Vec<u16>,
    /// Layers in which all turns of the route are allowed.
    pub(super) layers: Vec<u16>,
    /// Switches with a route, nearest first; the home switch first of all.
    pub(super) reached: Vec<u32>,
    cost: Vec<f32>,
}

impl Search {
    pub(super) fn new(switches: usize) -> Self {
        Self {
            hops: vec![u16::MAX; switches],
            layers: vec![0; switches],
            reached: Vec::with_capacity(switches),
            cost: vec![0.0; switches],
        }
    }

    fn start(&mut self, home: usize, layers: u16, row: &mut [u8]) {
        row.fill(NONE);
        self.hops.fill(u16::MAX);
        self.layers.fill(0);
        self.reached.clear();
        self.reached.push(home as u32);
        self.hops[home] = 0;
        self.layers[home] = layers;
        self.cost[home] = 0.0;
    }

    /// Fills `row` (slot per switch) with the routes to `home` that are shortest under `fit` (the
    /// layers that allow each turn) within `layers`, and among those cheapest by `price_back` (price
    /// of the reverse of each channel). A greedy search: a switch keeps one route only, so others may
    /// be longer than they had to, or missing. O(channels).
    pub(super) fn run(
        &mut self,
        net: &Net,
        fit: &[u16],
        layers: u16,
        home: usize,
        price_back: &[f32],
        row: &mut [u8],
    ) {
        self.start(home, layers, row);
        let mut head = 0;
        while let Some(&u) = self.reached.get(head) {
            head += 1;
            let u = u as usize;
            let (hops, cost, above) = (self.hops[u] + 1, self.cost[u], self.layers[u]);
            let out = net.out(u);
            // At the home switch there is no turn to check.
            let turns = (u != home).then(|| &fit[net.turn(u, 0, row[u])..][..out.len()]);
            for (i, c) in out.enumerate() {
                let w = net.to(c);
                if self.hops[w] < hops {
                    continue;
                }
                let layers = turns.map_or(above, |t| above & t[i]);
                let cost = cost + price_back[c];
                if layers == 0 || (self.hops[w] == hops && cost >= self.cost[w]) {
                    continue;
                }
                if self.hops[w] == u16::MAX {
                    self.hops[w] = hops;
                    self.reached.push(w as u32);
                }
                self.cost[w] = cost;
                self.layers[w] = layers;
                row[w] = net.back_slot[c];
            }
        }
    }

    /// Recomputes everything but costs from the routes in `row`. Switches whose route is broken or
    /// allowed in no layer count as not reached. O(channels).
    pub(super) fn follow(&mut self, net: &Net, fit: &[u16], layers: u16, home: usize, row: &[u8]) {
        self.hops.fill(u16::MAX);
        self.layers.fill(0);
        self.reached.clear();
        self.reached.push(home as u32);
        self.hops[home] = 0;
        self.layers[home] = layers;
        let mut head = 0;
        while let Some(&u) = self.reached.get(head) {
            head += 1;
            let u = u as usize;
            for (i, c) in net.out(u).enumerate() {
                let w = net.to(c);
                if w == home || row[w] != net.back_slot[c] {
                    continue;
                }
                let fit = if u == home { u16::MAX } else { fit[net.turn(u, i as u8, row[u])] };
                if self.layers[u] & fit != 0 {
                    self.hops[w] = self.hops[u] + 1;
                    self.layers[w] = self.layers[u] & fit;
                    self.reached.push(w as u32);
                }
            }
        }
    }

    /// Gives switches without a route one over any neighbour that has one; such routes are allowed
    /// in no layer. O(channels).
    pub(super) fn attach_rest(&mut self, net: &Net, row: &mut [u8]) {
        let mut head = 0;
        while let Some(&u) = self.reached.get(head) {
            head += 1;
            let u = u as usize;
            for c in net.out(u) {
                let w = net.to(c);
                if self.hops[w] == u16::MAX {
                    self.hops[w] = self.hops[u] + 1;
                    row[w] = net.back_slot[c];
                    self.reached.push(w as u32);
                }
            }
        }
    }
}
