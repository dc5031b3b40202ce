//! Many channels for each job: the routes inside a job are chosen one by one, so that they do not
//! join where they need not.

use super::net::Net;
use super::routing::{Routing, covers, price};
use super::search::{Ground, Loads};
use super::traffic::Class;

/// How much more a route of the same job weighs than another.
const OWN: u32 = 2;
/// What a route costs that makes a channel too full.
const TOO_FULL: f32 = 1e12;
/// How often each route of a new job is looked at in the end.
const SEPARATE_ROUNDS: usize = 2;
/// Change of crowding below which a route is moved; less is a rounding error.
const LEAST_GAIN: f32 = -1e-3;
/// What a channel without any job's routes is worth, and one without those of the own job, in units
/// of the crowding of one route. Thirty makes dark channels worth several routes on a next one: with
/// eight, a month on TSUBAME2 had more of them dark than under `sar`.
pub(super) const DARK: f32 = 30.0;
const UNUSED: f32 = 1.0;

impl Routing<'_> {
    /// Routes a terminal in jobs anew, route by route, and adds their load: below `limit`, if there
    /// is one, by what its own jobs have on the channels, and over unused channels first. Changes
    /// nothing and says so if there is more to it than that. O(channels × hops).
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
        let limit = self.fullest();
        self.each_job(terminals, |routing, same| {
            same.iter().for_each(|t| routing.spread_again(*t, within, limit));
            for _ in 0..SEPARATE_ROUNDS {
                if same.iter().map(|t| routing.separate(*t, limit)).sum::<usize>() == 0 {
                    break;
                }
            }
        });
    }

    /// Lets jobs whose routes were taken over, to `settled` terminals, have channels that others left:
    /// one look at each of their routes, as [`Routing::widen`] gives new jobs at the end.
    pub(super) fn touch_up(&mut self, settled: &[bool]) {
        let limit = self.fullest();
        let mut terminals = self.traffic.destinations(Class::Job);
        terminals.retain(|t| settled[*t]);
        self.each_job(&terminals, |routing, same| {
            same.iter().for_each(|t| {
                routing.separate(*t, limit);
            });
        });
    }

    /// Calls with the terminals of each job, with [`Routing::own`] as their routes are.
    pub(super) fn each_job(&mut self, terminals: &[usize], mut change: impl FnMut(&mut Self, &[usize])) {
        let traffic = self.traffic;
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
            change(self, same);
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

    /// Moves single routes of a tree to where its own jobs have fewer; returns the number of moves.
    /// No channel gets more than `limit`. O(switches + routes of the job × ports × hops).
    fn separate(&mut self, terminal: usize, limit: u32) -> usize {
        self.follow(terminal);
        self.gather(terminal);
        let mut moved = 0;
        for i in (1..self.search.reached.len()).rev() {
            let v = self.search.reached[i] as usize;
            if self.flow[v] == 0 {
                continue;
            }
            let now = self.row(terminal)[v];
            let mut best = (LEAST_GAIN, now, v);
            for slot in 0..self.net.degree(v) as u8 {
                if !self.is_nearer(terminal, v, slot) {
                    continue;
                }
                let Some(change) = self.crowding(terminal, v, slot, limit) else { continue };
                if change.gain < best.0 && self.layers_behind(terminal, v, slot, false) {
                    best = (change.gain, slot, change.meets);
                }
            }
            if best.1 != now {
                self.lead_own_over(terminal, v, best.1, best.2);
                moved += 1;
            }
        }
        moved
    }

    /// Whether a switch can be led over a slot that is not the present one, and its route become no longer.
    pub(super) fn is_nearer(&self, terminal: usize, v: usize, slot: u8) -> bool {
        let (search, u) = (&self.search, self.net.to(self.net.channel(v, slot)));
        slot != self.row(terminal)[v] && search.hops[u] < search.hops[v] && search.layers[u] != 0
    }

    /// What would change with the route of `v` over another slot; `None` if a channel would be too full.
    pub(super) fn crowding(&self, terminal: usize, v: usize, slot: u8, limit: u32) -> Option<Change> {
        let flow = self.flow[v];
        let unit = price(flow);
        let (mut gain, mut lit, mut darkened, mut left) = (0.0, 0, 0, None);
        let meets = self.each_change(terminal, v, slot, |c, joins| {
            let (own, load) = (self.own[c], self.load[c]);
            if joins {
                gain += price(own + flow) - price(own) - unit * worth(own == 0, load == 0);
                lit += u8::from(load == 0);
                return load + flow <= limit;
            }
            gain -= price(own) - price(own - flow) - unit * worth(own == flow, load == flow);
            if load == flow {
                darkened += 1;
                left = Some(c);
            }
            true
        })?;
        Some(Change { gain: gain / unit, meets, lit, darkened, left })
    }

    /// [`Routing::lead_over`], with the loads of the terminal's own jobs.
    pub(super) fn lead_own_over(&mut self, terminal: usize, v: usize, slot: u8, meets: usize) {
        let flow = self.flow[v];
        self.shift_own(terminal, v, meets, |own| own - flow);
        self.lead_over(terminal, v, slot, meets);
        self.shift_own(terminal, v, meets, |own| own + flow);
    }

    fn shift_own(&mut self, terminal: usize, v: usize, end: usize, change: impl Fn(u32) -> u32) {
        let mut at = v;
        while at != end {
            let c = self.net.channel(at, self.row(terminal)[at]);
            self.own[c] = change(self.own[c]);
            at = self.net.to(c);
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

/// What leading a switch over another slot would change.
pub(super) struct Change {
    /// How much more crowded the jobs' own channels would be, and darker, in units of the route.
    pub(super) gain: f32,
    /// First switch that is on both ways.
    pub(super) meets: usize,
    /// Channels that no longer were dark, and that became dark, with the last of these.
    pub(super) lit: u8,
    pub(super) darkened: u8,
    pub(super) left: Option<usize>,
}

/// What it is worth to use a channel that the own job does not use, and nobody does.
fn worth(is_unused: bool, is_dark: bool) -> f32 {
    f32::from(u8::from(is_unused)) * UNUSED + f32::from(u8::from(is_dark)) * DARK
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
