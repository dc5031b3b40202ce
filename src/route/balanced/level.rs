//! Routes that no job uses: they serve the jobs that start before the next tables are there.

use super::bound;
use super::jobs::JobLayers;
use super::keep::InForce;
use super::net::NONE;
use super::routing::{Routing, covers, price};
use super::search::Ground;
use super::traffic::{Class, Traffic};
use crate::route::graph::is_indirect;

/// Whose routes must stay.
#[derive(Clone, Copy)]
pub(super) struct Hold<'a> {
    pub(super) traffic: &'a Traffic<'a>,
    pub(super) job_layers: &'a JobLayers,
}

impl<'a> Routing<'a> {
    /// Balances the routes between all hosts, `everyone`'s, without touching any that carry traffic
    /// of jobs or storage: what these put on the channels cannot change. Routes become no longer.
    ///
    /// Where tables were taken over (`in_force`), routes are moved only off channels that are fuller than their
    /// fullest one, and an eighth fuller than the bound, and only routes to terminals in jobs. It `is_known` what
    /// settled ones put on channels if none of them was touched since.
    /// Returns the trees. O(terminals × channels), and what `refine` needs.
    pub(super) fn level(
        mut self,
        everyone: &'a Traffic<'a>,
        job_layers: &'a JobLayers,
        in_force: &InForce,
        is_known: bool,
    ) -> Vec<u8> {
        let jobs = self.traffic;
        self.hold = Some(Hold { traffic: jobs, job_layers });
        self.traffic = everyone;
        let hosts = everyone.destinations(Class::Job);
        match is_known && !in_force.load.is_empty() {
            true => self.sum_up_since(&hosts, in_force),
            false => self.sum_up(&hosts),
        }
        let mean = self.mean_load();
        let bound = bound::floor(&self, &hosts).max(mean);
        match in_force.fullest {
            Some(in_force) => {
                let limit = in_force.max(bound + bound / 8);
                let in_jobs: Vec<usize> =
                    hosts.iter().copied().filter(|t| jobs.class(*t) == Class::Job).collect();
                self.refine(&in_jobs, limit, limit);
            }
            None => {
                hosts.iter().for_each(|t| self.grow_around(*t));
                // Beside routes of jobs, which stay, the last sixteenth takes most of the time.
                let most = mean / 16;
                let room =
                    if is_indirect(&self.net.hosts) { most } else { self.by_size(most as usize) as u32 };
                let bound = bound.max(mean + room);
                let base = if self.is_large(hosts.len()) { bound } else { mean };
                self.refine(&hosts, bound, base);
            }
        }
        self.rows
    }

    /// Loads of the routes to these terminals alone. O(terminals × switches).
    pub(super) fn sum_up(&mut self, terminals: &[usize]) {
        self.clear_load();
        for &t in terminals {
            if !self.count_ways(t) {
                self.follow(t);
                self.gather(t);
                self.count(t, u32::wrapping_add);
            }
        }
    }

    /// Adds the routes to a terminal one by one; false, and nothing, if they come from everywhere. O(their hops).
    fn count_ways(&mut self, terminal: usize) -> bool {
        let (net, home) = (self.net, self.home[terminal] as usize);
        let mut way = std::mem::take(&mut self.way);
        let is_sparse = self.traffic.each_sender(terminal, |sender, routes| {
            let row = &self.rows[terminal * net.switches()..(terminal + 1) * net.switches()];
            let mut v = sender;
            way.clear();
            while v != home && row[v] != NONE {
                let c = net.channel(v, row[v]);
                way.push(c as u32);
                v = net.to(c);
            }
            if v == home {
                for c in &way {
                    let load = self.load[*c as usize] + routes;
                    self.load[*c as usize] = load;
                    self.price_back[net.reverse(*c as usize)] = price(load);
                }
            }
        });
        self.way = way;
        is_sparse
    }

    /// As [`Routing::sum_up`] of all hosts, where routes to settled terminals are those in force.
    fn sum_up_since(&mut self, hosts: &[usize], in_force: &InForce) {
        let switches = self.net.switches();
        self.load.copy_from_slice(&in_force.load);
        for (t, before) in in_force.before.iter().filter(|(t, _)| self.traffic.class(*t) == Class::Job) {
            let span = t * switches..(t + 1) * switches;
            let now = self.rows[span.clone()].to_vec();
            self.rows[span.clone()].copy_from_slice(before);
            self.weigh(*t, u32::wrapping_sub);
            self.rows[span].copy_from_slice(&now);
        }
        for t in hosts.iter().filter(|t| !in_force.settled[**t]) {
            self.weigh(*t, u32::wrapping_add);
        }
        (0..self.net.channels()).for_each(|c| self.set_load(c, self.load[c]));
        if cfg!(test) {
            let found = self.load.clone();
            self.sum_up(hosts);
            assert_eq!(found, self.load, "routes in force were touched");
        }
    }

    /// Searches anew for the routes of a tree that may change. O(channels).
    fn grow_around(&mut self, terminal: usize) {
        let (net, layers, home) = (self.net, self.layers, self.home[terminal] as usize);
        self.lift(terminal);
        self.mark_held(terminal);
        let lengths = |hops: &[u16]| -> u64 {
            let sources = hops.iter().zip(&net.is_source).filter(|(h, is)| **is && **h != u16::MAX);
            sources.map(|(h, _)| u64::from(*h)).sum()
        };
        let allowed = lengths(&self.search.hops);
        let span = terminal * net.switches()..(terminal + 1) * net.switches();
        let before = self.rows[span.clone()].to_vec();
        let ground = Ground { net, fit: &layers.fit, home, price_back: &self.price_back };
        let row = &mut self.rows[span.clone()];
        self.search.run_around(ground, layers.all, row, &before, &self.held);
        if covers(net, &self.search, home) && lengths(&self.search.hops) <= allowed {
            self.search.attach_rest(net, row);
        } else {
            row.copy_from_slice(&before);
            self.follow(terminal);
        }
        self.gather(terminal);
        self.count(terminal, u32::wrapping_add);
    }

    /// Marks the switches of the tree in `search` whose routes must stay; uses `flow`. O(switches).
    pub(super) fn mark_held(&mut self, terminal: usize) {
        let Some(Hold { traffic, job_layers }) = self.hold else { return };
        self.held.fill(false);
        if traffic.class(terminal) == Class::Other {
            return;
        }
        traffic.fill(self.net, terminal, &mut self.flow);
        let in_layer = job_layers.of(terminal).map_or(&[][..], |(_, switches)| switches);
        in_layer.iter().for_each(|s| self.flow[*s as usize] += 1);
        for i in (1..self.search.reached.len()).rev() {
            let v = self.search.reached[i] as usize;
            if self.flow[v] > 0 || self.held[v] {
                self.held[v] = true;
                let next = self.net.to(self.net.channel(v, self.row(terminal)[v]));
                self.held[next] = true;
            }
        }
    }
}
