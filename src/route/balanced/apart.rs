//! Keeps the routes between the same two switches of a tree apart.
//!
//! Levelled loads say nothing of which routes meet: all hosts of one switch may be led to those of
//! another over the same channel, though the routes of others make up for it. In the steps of a shift, and wherever
//! neighbours in the order of ranks send to neighbours, just these routes are used at the same time.

use super::routing::Routing;

impl Routing<'_> {
    /// Moves routes to where fewer of those between the same two switches are, as long as no channel
    /// gets more than the fullest one has. Routes become no longer.
    /// O(terminals × terminals per switch × switches with hosts × hops).
    pub(super) fn keep_apart(&mut self, terminals: &[usize]) {
        let limit = self.fullest();
        let home = self.home.clone();
        let mut by_home = terminals.to_vec();
        by_home.sort_by_key(|t| home[*t]);
        let mut routes = vec![0; self.net.channels()];
        for same in by_home.chunk_by(|a, b| home[*a] == home[*b]) {
            same.iter().for_each(|t| self.keep_one_apart(*t, same, limit, &mut routes));
        }
    }

    /// Does so for one tree; `same` are all terminals of its switch. `routes` must be zero for every
    /// channel, and is afterwards.
    fn keep_one_apart(&mut self, terminal: usize, same: &[usize], limit: u32, routes: &mut [u32]) {
        self.follow(terminal);
        self.gather(terminal);
        for i in (1..self.search.reached.len()).rev() {
            let v = self.search.reached[i] as usize;
            if self.net.hosts[v] == 0 {
                continue;
            }
            let others = || same.iter().filter(|t| **t != terminal);
            others().for_each(|t| self.each_channel(*t, v, |c| routes[c] += 1));
            let now = self.row(terminal)[v];
            let mut best = (self.shared(terminal, v, now, routes), now, v);
            for slot in 0..self.net.degree(v) as u8 {
                let u = self.net.to(self.net.channel(v, slot));
                if best.0 == 0 || self.search.hops[u] >= self.search.hops[v] || self.search.layers[u] == 0 {
                    continue;
                }
                let shared = self.shared(terminal, v, slot, routes);
                if shared >= best.0 {
                    continue;
                }
                let detour = self.try_detour(terminal, v, slot, limit);
                if detour.fullest <= limit && self.layers_behind(terminal, v, slot, false) {
                    best = (shared, slot, detour.meets);
                }
            }
            others().for_each(|t| self.each_channel(*t, v, |c| routes[c] = 0));
            if best.1 != now {
                self.lead_over(terminal, v, best.1, best.2);
            }
        }
    }

    /// Calls with each channel from a switch to a terminal's.
    fn each_channel(&self, terminal: usize, mut at: usize, mut call: impl FnMut(usize)) {
        let (home, row) = (self.home[terminal] as usize, self.row(terminal));
        while at != home {
            let c = self.net.channel(at, row[at]);
            call(c);
            at = self.net.to(c);
        }
    }

    /// How many `routes` there are on the way from `v` over a slot, summed over its channels.
    fn shared(&self, terminal: usize, v: usize, slot: u8, routes: &[u32]) -> u32 {
        let first = self.net.channel(v, slot);
        let mut shared = routes[first];
        self.each_channel(terminal, self.net.to(first), |c| shared += routes[c]);
        shared
    }
}
