//! What no routing can beat.

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
