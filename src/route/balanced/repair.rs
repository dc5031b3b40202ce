//! Ways out of an impasse: the search gives each switch one route only, and sometimes none of a
//! switch's neighbours kept one that can be continued to it.

use super::net::NONE;
use super::routing::{Routing, covers};
use super::search::Ground;

impl Routing<'_> {
    /// Gives switches without a route one, by leading a neighbour elsewhere. Returns whether all
    /// switches with terminals have a route then.
    pub(super) fn repair(&mut self, terminal: usize) -> bool {
        let home = self.home[terminal] as usize;
        let mut missing = self.missing(home);
        while !missing.is_empty() {
            if !missing.iter().any(|v| self.reach(terminal, *v)) {
                return false;
            }
            let at = self.search.reached.len() - 1;
            let (net, switches) = (self.net, self.net.switches());
            let row = &mut self.rows[terminal * switches..(terminal + 1) * switches];
            let ground = Ground { net, fit: &self.layers.fit, home, price_back: &self.price_back };
            self.search.resume(ground, row, at);
            missing = self.missing(home);
        }
        // Switches were moved: their order by hops is another.
        self.follow(terminal);
        covers(self.net, &self.search, home)
    }

    fn missing(&self, home: usize) -> Vec<usize> {
        let net = self.net;
        let is_missing = |s: &usize| net.part[*s] == net.part[home] && self.search.layers[*s] == 0;
        (0..net.switches()).filter(is_missing).filter(|s| net.is_source[*s]).collect()
    }

    /// Leads one neighbour of `v` over another slot so that `v` can go over it.
    fn reach(&mut self, terminal: usize, v: usize) -> bool {
        let net = self.net;
        let home = self.home[terminal] as usize;
        for c in net.out(v) {
            let x = net.to(c);
            if self.search.layers[x] == 0 || x == home {
                continue;
            }
            for slot in 0..net.degree(x) as u8 {
                let Some(layers) = self.behind(terminal, v, c, slot) else { continue };
                if self.layers_behind(terminal, x, slot, false) {
                    self.layers_behind(terminal, x, slot, true);
                    let at = terminal * net.switches();
                    self.rows[at + x] = slot;
                    self.rows[at + v] = net.slot(c);
                    let row = &self.rows[at..at + net.switches()];
                    self.search.admit(net, v, layers, row);
                    return true;
                }
            }
        }
        false
    }

    /// Layers that allow the route of `v` over channel `c` if the next switch leaves over `slot`.
    fn behind(&self, terminal: usize, v: usize, c: usize, slot: u8) -> Option<u16> {
        let (net, search, fit) = (self.net, &self.search, &self.layers.fit);
        let (x, row) = (net.to(c), self.row(terminal));
        let leaving = net.channel(x, slot);
        let u = net.to(leaving);
        if u == v || slot == row[x] || search.layers[u] == 0 || search.hops[u] > search.hops[x] {
            return None;
        }
        let above = if row[u] == NONE { u16::MAX } else { fit[net.turn(u, net.back_slot[leaving], row[u])] };
        let layers = search.layers[u] & above & fit[net.turn(x, net.back_slot[c], slot)];
        (layers != 0).then_some(layers)
    }
}
