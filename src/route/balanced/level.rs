//! Routes that no job uses: they serve the jobs that start before the next tables are there.

use super::bound;
use super::jobs::JobLayers;
use super::routing::{Routing, covers};
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
    /// Where tables were taken over, `in_force` is the load of their fullest channel: routes are
    /// then moved only off channels that are fuller, and an eighth fuller than the bound, and
    /// only routes to terminals in jobs.
    /// Returns the trees. O(terminals × channels), and what `refine` needs.
    pub(super) fn level(
        mut self,
        everyone: &'a Traffic<'a>,
        job_layers: &'a JobLayers,
        in_force: Option<u32>,
    ) -> Vec<u8> {
        let jobs = self.traffic;
        self.hold = Some(Hold { traffic: jobs, job_layers });
        self.traffic = everyone;
        let hosts = everyone.destinations(Class::Job);
        self.sum_up(&hosts);
        let mean = self.mean_load();
        let bound = bound::floor(&self, &hosts).max(mean);
        match in_force {
            Some(in_force) => {
                let limit = in_force.max(bound + bound / 8);
                let in_jobs: Vec<usize> =
                    hosts.iter().copied().filter(|t| jobs.class(*t) == Class::Job).collect();
                self.refine(&in_jobs, limit, limit);
            }
            None => {
                hosts.iter().for_each(|t| self.grow_around(*t));
                // Beside routes of jobs, which stay, the last sixteenth takes most of the time in a tree.
                let is_tree = is_indirect(&self.net.hosts);
                let bound = if is_tree { bound.max(mean + mean / 16) } else { bound };
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
            self.follow(t);
            self.gather(t);
            self.count(t, u32::wrapping_add);
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
