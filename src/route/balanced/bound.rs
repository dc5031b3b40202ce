//! What no routing can beat.

use std::ops::AddAssign;

use rayon::prelude::*;

use super::net::Net;
use super::routing::Routing;

/// A lower bound of the largest channel load, for shortest or longer routes to these terminals.
///
/// The larger of what must come into a switch over all its channels, and what must leave one, where
/// the routes to one destination all leave over the same channel. O(terminals × switches).
pub(super) fn floor(routing: &Routing, terminals: &[usize]) -> u32 {
    let (net, traffic) = (routing.net, routing.traffic);
    let switches = net.switches();
    let (mut coming, mut leaving) = (vec![0u64; switches], vec![Branches::default(); switches]);
    let mut flow = vec![0; switches];
    let is_same = |a: &usize, b: &usize| traffic.is_oblivious() && routing.home[*a] == routing.home[*b];
    for same in terminals.chunk_by(is_same) {
        traffic.fill(net, same[0], &mut flow);
        let (home, times) = (routing.home[same[0]] as usize, same.len() as u64);
        for s in (0..switches).filter(|s| *s != home && net.part[*s] == net.part[home]) {
            if flow[s] > 0 {
                coming[home] += times * u64::from(flow[s]);
                leaving[s].add(flow[s], times);
            }
        }
    }
    let bound = |s: usize| {
        let degree = net.degree(s).max(1) as u64;
        coming[s].div_ceil(degree).max(leaving[s].bound(degree))
    };
    (0..switches).map(bound).max().unwrap_or(0).min(u64::from(u32::MAX)) as u32
}

/// Flows that leave one switch, each over one channel.
#[derive(Debug, Clone, Default)]
struct Branches {
    total: u64,
    count: u64,
    smallest: u32,
    largest: u32,
}

impl Branches {
    fn add(&mut self, flow: u32, times: u64) {
        self.smallest = if self.count == 0 { flow } else { self.smallest.min(flow) };
        self.largest = self.largest.max(flow);
        self.total += times * u64::from(flow);
        self.count += times;
    }

    /// Some channel takes as many branches as the mean, rounded up, and none is smaller than the
    /// smallest.
    fn bound(&self, degree: u64) -> u64 {
        let whole = self.count.div_ceil(degree) * u64::from(self.smallest);
        self.total.div_ceil(degree).max(whole).max(u64::from(self.largest))
    }
}

/// What the fullest channel carries at least if all hosts send to all by shortest routes: some of these have no
/// other channel to go over, as where one cable joins two groups of a dragonfly. O(switches × channels), on all
/// threads.
pub(super) fn of_shortest(net: &Net) -> u32 {
    let homes = (0..net.switches()).into_par_iter().filter(|home| net.hosts[*home] > 0);
    let start = || (Only::new(net.switches()), vec![0u64; net.channels()]);
    let loads = homes.fold(start, |(mut only, mut load), home| {
        only.add(net, home, &mut load);
        (only, load)
    });
    let all = loads.map(|(_, load)| load).reduce(|| vec![0; net.channels()], sum);
    all.into_iter().max().unwrap_or(0).min(u64::from(u32::MAX)) as u32
}

/// Sums of two parts, entry by entry.
pub(super) fn sum<N: Copy + AddAssign>(mut a: Vec<N>, b: Vec<N>) -> Vec<N> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

/// What all shortest routes to one switch have in common.
struct Only {
    hops: Vec<u32>,
    reached: Vec<u32>,
    /// The next switch that all shortest routes of a switch pass, and how many such follow.
    next: Vec<u32>,
    depth: Vec<u32>,
    /// The channel over which they all leave; [`u32::MAX`] if there are several.
    by: Vec<u32>,
    flow: Vec<u64>,
}

impl Only {
    fn new(switches: usize) -> Self {
        let none = || vec![0; switches];
        let (next, depth, by) = (none(), none(), none());
        Self { hops: none(), reached: Vec::new(), next, depth, by, flow: vec![0; switches] }
    }

    /// Adds the routes of all hosts to those of a switch to each channel that they have to take.
    fn add(&mut self, net: &Net, home: usize, load: &mut [u64]) {
        self.hops.fill(u32::MAX);
        self.reached.clear();
        self.reached.push(home as u32);
        (self.hops[home], self.depth[home], self.flow[home]) = (0, 0, 0);
        let mut head = 0;
        while let Some(&u) = self.reached.get(head) {
            head += 1;
            let hops = self.hops[u as usize] + 1;
            for back in net.out(u as usize) {
                let v = net.to(back);
                if self.hops[v] == u32::MAX {
                    self.reached.push(v as u32);
                    self.hops[v] = hops;
                    self.depth[v] = self.depth[u as usize] + 1;
                    self.flow[v] = u64::from(net.hosts[v]);
                    (self.next[v], self.by[v]) = (u, net.reverse(back) as u32);
                } else if self.hops[v] == hops {
                    self.next[v] = self.common(self.next[v], u);
                    self.depth[v] = self.depth[self.next[v] as usize] + 1;
                    self.by[v] = u32::MAX;
                }
            }
        }
        for &v in self.reached.iter().skip(1).rev() {
            let (flow, by) = (self.flow[v as usize], self.by[v as usize]);
            self.flow[self.next[v as usize] as usize] += flow;
            if by != u32::MAX {
                load[by as usize] += u64::from(net.hosts[home]) * flow;
            }
        }
    }

    /// The first switch that the routes of two have to pass both.
    fn common(&self, mut a: u32, mut b: u32) -> u32 {
        while a != b {
            if self.depth[a as usize] < self.depth[b as usize] {
                b = self.next[b as usize];
            } else {
                a = self.next[a as usize];
            }
        }
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    /// Hops to a switch from all others, without one channel.
    fn hops_without(net: &Net, home: usize, closed: Option<usize>) -> Vec<u32> {
        let mut hops = vec![u32::MAX; net.switches()];
        let mut queue = vec![home];
        hops[home] = 0;
        let mut head = 0;
        while let Some(&u) = queue.get(head) {
            head += 1;
            for back in net.out(u).filter(|back| Some(net.reverse(*back)) != closed) {
                if hops[net.to(back)] == u32::MAX {
                    hops[net.to(back)] = hops[u] + 1;
                    queue.push(net.to(back));
                }
            }
        }
        hops
    }

    /// Counts the routes that get longer when a channel is gone, for each.
    #[test]
    fn shortest_routes_have_to_take_what_they_miss_when_it_is_gone() {
        let specs =
            ["dragonfly:4,2,2,9", "random:12,20,24,seed=3", "torus:3x4,hosts=2,faults=10%", "kary:3,3"];
        for spec in specs {
            let net = Net::new(&generate(spec).unwrap());
            let mut most = 0;
            for c in 0..net.channels() {
                let mut routes = 0;
                for home in (0..net.switches()).filter(|home| net.hosts[*home] > 0) {
                    let (before, after) = (hops_without(&net, home, None), hops_without(&net, home, Some(c)));
                    let longer = (0..net.switches()).filter(|s| after[*s] > before[*s]);
                    routes += net.hosts[home] * longer.map(|s| net.hosts[s]).sum::<u32>();
                }
                most = most.max(routes);
            }
            assert!(most > 0 || spec == "kary:3,3", "{spec}");
            assert_eq!(of_shortest(&net), most, "{spec}");
        }
    }
}
