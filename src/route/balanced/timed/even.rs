//! Routes of a tree that no job uses, led off the channels that are too full: they serve the jobs that start
//! before the next tables are there.
//!
//! Routes of a tree climb and then descend, so one pass over its levels finds what a destination puts on the
//! channels. A route that is moved meets the old one at the destination's switch or one above. So a round over all
//! routes is cheap enough for trees of any size.

use super::super::bound;
use super::super::climb::Climb;
use super::super::jobs::JobLayers;
use super::super::net::{NONE, Net};
use super::super::routing::Routing;
use super::super::traffic::{Class, Traffic};

/// Most rounds over all destinations.
const ROUNDS: usize = 12;

/// One destination at a time.
struct Relief<'a> {
    net: &'a Net,
    climb: &'a Climb,
    /// Routes between all hosts that pass each switch.
    flow: Vec<u32>,
    /// Routes of jobs that do.
    held: Vec<u32>,
}

impl Relief<'_> {
    /// The channel by which a switch forwards, and where it leads.
    #[inline]
    fn next(&self, row: &[u8], v: usize) -> (usize, usize) {
        let c = self.net.channel(v, row[v]);
        (c, self.net.to(c))
    }

    /// Whether something that passes goes over a channel with more than a limit.
    fn is_full(&self, home: usize, row: &[u8], load: &[u32], limit: u32) -> bool {
        (0..row.len()).any(|v| v != home && self.flow[v] > 0 && load[self.next(row, v).0] > limit)
    }

    /// Whether some route to a terminal's switch, used or not, goes over such a channel.
    fn may_be_full(&self, home: usize, row: &[u8], load: &[u32], limit: u32) -> bool {
        let is_over = |(v, slot): (usize, &u8)| load[self.net.channel(v, *slot)] > limit;
        row.iter().enumerate().filter(|(v, slot)| **slot != NONE && *v != home).any(is_over)
    }

    /// Leads switches below tops over other tops where that makes the fuller of the two channels less full, up to a
    /// limit. Returns the number of moves. O(switches × ports).
    fn change_tops(&mut self, home: usize, row: &mut [u8], load: &mut [u32], limit: u32) -> usize {
        let mut moved = 0;
        let climb = self.climb;
        for m in climb.switches[climb.switches.len() - 2].iter().map(|m| *m as usize) {
            let flow = self.flow[m];
            if flow == 0 || self.held[m] > 0 {
                continue;
            }
            let (up, top) = self.next(row, m);
            if !climb.is_up(m, top) {
                continue;
            }
            let (down, below) = self.next(row, top);
            let mut best = (load[up].max(load[down]), None);
            if best.0 <= limit {
                continue;
            }
            for c in self.net.out(m).filter(|c| *c != up && climb.is_up(m, self.net.to(*c))) {
                if !climb.arrives(self.net, home, row, self.net.to(c)) {
                    continue;
                }
                let (then, middle) = self.next(row, self.net.to(c));
                let most = load[c].max(load[then]) + flow;
                if middle == below && self.net.to(c) != top && most < best.0 {
                    best = (most, Some((c, then)));
                }
            }
            let Some((c, then)) = best.1 else { continue };
            [up, down].iter().for_each(|c| load[*c] -= flow);
            [c, then].iter().for_each(|c| load[*c] += flow);
            self.flow[top] -= flow;
            self.flow[self.net.to(c)] += flow;
            row[m] = self.net.slot_at(m, c);
            moved += 1;
        }
        moved
    }

    /// Leads switches of a level over others above where that makes the fullest channel of the way less full, up to a
    /// limit. Returns the number of moves. O(switches × ports × hops).
    fn change_ways(
        &mut self,
        level: usize,
        home: usize,
        row: &mut [u8],
        load: &mut [u32],
        limit: u32,
    ) -> usize {
        let (climb, mut moved) = (self.climb, 0);
        for (i, s) in climb.switches[level].iter().map(|s| *s as usize).enumerate() {
            let flow = self.flow[s];
            if s == home || flow == 0 || self.held[s] > 0 {
                continue;
            }
            let (up, now) = self.next(row, s);
            if !climb.is_up(s, now) {
                continue;
            }
            let mut best = (load[up].max(self.most(home, row, load, now)), None);
            if best.0 <= limit {
                continue;
            }
            let out = self.net.out(s);
            let turn = (home + i) % out.len();
            for c in (out.start + turn..out.end).chain(out.start..out.start + turn).filter(|c| *c != up) {
                let u = self.net.to(c);
                if !climb.is_up(s, u) || !climb.arrives(self.net, home, row, u) {
                    continue;
                }
                let behind = self.most(home, row, load, u) + if u == now { 0 } else { flow };
                let most = (load[c] + flow).max(behind);
                if most < best.0 {
                    best = (most, Some(c));
                }
            }
            let Some(c) = best.1 else { continue };
            self.count(home, row, s, load, |n| n - flow);
            row[s] = self.net.slot_at(s, c);
            self.count(home, row, s, load, |n| n + flow);
            moved += 1;
        }
        moved
    }

    /// Load of the fullest channel from a switch on.
    fn most(&self, home: usize, row: &[u8], load: &[u32], mut v: usize) -> u32 {
        let mut most = 0;
        while v != home {
            let (c, next) = self.next(row, v);
            (most, v) = (most.max(load[c]), next);
        }
        most
    }

    /// Changes loads and flows on the way of a switch.
    fn count(&mut self, home: usize, row: &[u8], from: usize, load: &mut [u32], change: impl Fn(u32) -> u32) {
        let mut v = from;
        while v != home {
            let (c, next) = self.next(row, v);
            load[c] = change(load[c]);
            if v != from {
                self.flow[v] = change(self.flow[v]);
            }
            v = next;
        }
    }
}

impl<'a> Routing<'a> {
    /// Adds the routes of all hosts, `everyone`'s, to some terminals to the loads, or takes them away. Says whether all of
    /// them are known to climb and then descend, used or not. O(terminals × switches).
    pub(super) fn weigh_all(
        &mut self,
        terminals: impl Iterator<Item = usize>,
        everyone: &'a Traffic<'a>,
        change: fn(u32, u32) -> u32,
    ) -> bool {
        let own = std::mem::replace(&mut self.traffic, everyone);
        let mut all = true;
        for t in terminals.filter(|t| everyone.class(*t) == Class::Job) {
            all &= self.weigh(t, change);
        }
        self.traffic = own;
        all
    }

    /// As [`Routing::level`], in a tree: levels the routes between all hosts, `everyone`'s, down to a sixteenth
    /// above the mean where that can be done without touching routes of jobs or storage. Routes that are on no
    /// channel which is too full stay. The loads must be those of all trees; afterwards they are those of the rows.
    /// O(rounds × terminals × switches).
    pub(super) fn level_tree(
        &mut self,
        everyone: &'a Traffic<'a>,
        job_layers: &'a JobLayers,
        in_force: Option<u32>,
    ) {
        let Some(climb) = self.climb.take() else { return };
        let jobs = std::mem::replace(&mut self.traffic, everyone);
        let hosts = everyone.destinations(Class::Job);
        let mean = self.mean_load();
        let bound = bound::floor(self, &hosts).max(mean);
        let in_jobs = |t: &usize| jobs.class(*t) == Class::Job;
        let (terminals, limit) = match in_force {
            Some(in_force) => (hosts.into_iter().filter(in_jobs).collect(), in_force.max(bound + bound / 4)),
            // The last sixteenth takes most of the time.
            None => (hosts, bound.max(mean + mean / 16)),
        };
        let none = vec![0; self.net.switches()];
        let mut relief = Relief { net: self.net, climb: &climb, flow: none.clone(), held: none };
        for _ in 0..ROUNDS {
            if self.fullest() <= limit {
                break;
            }
            let moved = terminals.iter().map(|t| self.relieve_tree(*t, limit, jobs, job_layers, &mut relief));
            if moved.sum::<usize>() == 0 {
                break;
            }
        }
    }

    /// Moves what no job uses of one tree off channels with more than a limit. Returns the number of moves.
    /// O(switches), where something moves × ports.
    fn relieve_tree(
        &mut self,
        terminal: usize,
        limit: u32,
        jobs: &Traffic<'_>,
        job_layers: &JobLayers,
        relief: &mut Relief<'_>,
    ) -> usize {
        let (net, home) = (self.net, self.home[terminal] as usize);
        let row = &mut self.rows[terminal * net.switches()..(terminal + 1) * net.switches()];
        if !relief.may_be_full(home, row, &self.load, limit) {
            return 0;
        }
        relief.flow.copy_from_slice(&net.hosts);
        let is_tree = relief.climb.gather(net, home, row, &mut relief.flow).is_some();
        if !is_tree || !relief.is_full(home, row, &self.load, limit) {
            return 0;
        }
        relief.held.fill(0);
        if jobs.class(terminal) != Class::Other {
            jobs.fill(net, terminal, &mut relief.held);
            let in_layer = job_layers.of(terminal).map_or(&[][..], |(_, switches)| switches);
            in_layer.iter().for_each(|s| relief.held[*s as usize] += 1);
            relief.climb.gather(net, home, row, &mut relief.held);
        }
        // Below the tops another top is chosen, at lower levels another way; with leaves and tops alone that is one.
        let tops = relief.climb.switches.len() - 1;
        if tops == 1 {
            return relief.change_ways(0, home, row, &mut self.load, limit);
        }
        let mut moved = relief.change_tops(home, row, &mut self.load, limit);
        for level in (0..tops - 1).rev() {
            moved += relief.change_ways(level, home, row, &mut self.load, limit);
        }
        moved
    }
}
