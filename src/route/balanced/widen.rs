//! Many channels for each job: the routes inside a job are chosen one by one, so that they do not
//! join where they need not.

use super::net::Net;
use super::routing::{Routing, covers, price};
use super::search::{Ground, Loads};

/// How much more a route of the same job weighs than another.
const OWN: u32 = 2;
/// What a route costs that makes a channel too full.
const TOO_FULL: f32 = 1e12;

impl Routing<'_> {
    /// Routes a terminal in jobs anew, route by route, and adds their load: below `limit`, if there
    /// is one, by what its own jobs have on the channels, and over unused channels first. Changes nothing and says so if there is
    /// more to it than that. O(channels × hops).
    pub(super) fn spread(&mut self, terminal: usize, within: u16, limit: Option<u32>) -> bool {
        if !self.traffic.is_in_job(terminal) {
            return false;
        }
        let (net, layers, home) = (self.net, self.layers, self.home[terminal] as usize);
        let switches = net.switches();
        self.traffic.fill(net, terminal, &mut self.flow);
        self.flow[home] = 0;
        self.own_of(terminal);
        let span = terminal * switches..(terminal + 1) * switches;
        let before = self.rows[span.clone()].to_vec();
        let mut added = Vec::new();
        let loads = Adding {
            load: &mut self.load,
            price_back: &mut self.price_back,
            own: &mut self.own,
            net,
            limit,
            added: &mut added,
        };
        let ground = Ground { net, fit: &layers.fit, home, price_back: &[] };
        let row = &mut self.rows[span.clone()];
        self.search.spread(ground, within, row, &self.flow, loads);
        let is_full = limit.is_some_and(|limit| added.iter().any(|(c, _)| self.load[*c] > limit));
        if covers(net, &self.search, home) && !is_full {
            self.search.attach_rest(net, row);
            return true;
        }
        row.copy_from_slice(&before);
        for (c, routes) in added {
            self.set_load(c, self.load[c] - routes);
            self.own[c] -= routes;
        }
        false
    }

    /// Forgets the own loads of other jobs than the terminal's.
    fn own_of(&mut self, terminal: usize) {
        let of = self.traffic.groups_of(terminal);
        if self.own_groups != of {
            self.own_groups = of.to_vec();
            self.own.fill(0);
        }
    }

    /// Spreads the routes inside each job, without making the fullest channel fuller. `terminals`
    /// must be in the order of their jobs. O(terminals × channels × hops).
    pub(super) fn widen(&mut self, terminals: &[usize], within: u16) {
        let traffic = self.traffic;
        let limit = self.fullest();
        for same in terminals.chunk_by(|a, b| traffic.groups_of(*a) == traffic.groups_of(*b)) {
            if !traffic.is_in_job(same[0]) {
                continue;
            }
            self.own_groups.clear();
            self.own_of(same[0]);
            for &t in same {
                self.follow(t);
                self.gather(t);
                self.count_own(t, u32::wrapping_add);
            }
            same.iter().for_each(|t| self.spread_again(*t, within, limit));
        }
    }

    fn spread_again(&mut self, terminal: usize, within: u16, limit: u32) {
        self.lift(terminal);
        self.count_own(terminal, u32::wrapping_sub);
        if !self.spread(terminal, within, Some(limit)) {
            self.follow(terminal);
            self.gather(terminal);
            self.count(terminal, u32::wrapping_add);
            self.count_own(terminal, u32::wrapping_add);
        }
    }

    /// [`Routing::count`] for the loads of the terminal's own jobs.
    fn count_own(&mut self, terminal: usize, change: fn(u32, u32) -> u32) {
        for i in 1..self.search.reached.len() {
            let v = self.search.reached[i] as usize;
            if self.flow[v] > 0 {
                let c = self.net.channel(v, self.row(terminal)[v]);
                self.own[c] = change(self.own[c], self.flow[v]);
            }
        }
    }
}

/// Loads while a tree grows.
struct Adding<'a> {
    load: &'a mut [u32],
    price_back: &'a mut [f32],
    own: &'a mut [u32],
    net: &'a Net,
    limit: Option<u32>,
    added: &'a mut Vec<(usize, u32)>,
}

impl Loads for Adding<'_> {
    fn price(&self, channel: usize, routes: u32) -> f32 {
        let (load, own) = (self.load[channel], price(OWN * self.own[channel]));
        match self.limit {
            None => price(load) + own,
            Some(limit) if load + routes > limit => TOO_FULL,
            Some(_) if load == 0 => 0.0,
            Some(_) => load as f32 + own + price(OWN * routes) / 2.0,
        }
    }

    fn add(&mut self, channel: usize, routes: u32) {
        self.load[channel] += routes;
        self.own[channel] += routes;
        self.price_back[self.net.reverse(channel)] = price(self.load[channel]);
        self.added.push((channel, routes));
    }
}
