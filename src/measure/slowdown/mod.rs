//! Slow-down: the predicted time of a job's exchange beside what its terminals' own cables need.
//!
//! Jobs exchange in steps, each a permutation of ranks, and what delays a step is how many of *its*
//! flows meet on a channel, how many others wait in the same lane, and how much traffic of all jobs
//! is there on average, for jobs are never quite in step. The formula counts these three. Its score
//! orders tables as the packet simulator does (docs/results.md has the rank correlations); a straight
//! line through simulated times makes the score a slow-down.

mod step;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::step::{Flows, Law, Room};
use crate::model::{Demand, Fabric, Group, Pattern, Phase, PortNum, SwitchId, Tables, TerminalId};

/// Steps of an exchange that are looked at; of longer ones so many, evenly spaced.
const MOST_STEPS: usize = 64;
/// As many even with many hosts.
const LEAST_STEPS: usize = 8;
/// Flows that are looked at, if those are steps enough.
const MOST_FLOWS: usize = 1 << 18;

/// Shares of traffic are summed as integers, so that the sum does not depend on the order.
const ONE: f64 = (1u64 << 32) as f64;

/// Slow-down over jobs. 1 is the time that the terminals' own cables need.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// Geometric mean over jobs.
    pub slowdown_mean: f64,
    /// 95 of 100 jobs have at most this.
    pub slowdown_p95: f64,
    /// Largest.
    pub slowdown_max: f64,
}

impl Default for Time {
    /// As of no job.
    fn default() -> Self {
        Self { slowdown_mean: 1.0, slowdown_p95: 1.0, slowdown_max: 1.0 }
    }
}

impl Time {
    /// Of the slow-downs of jobs. All 1 of none.
    pub fn of(jobs: &[f64]) -> Self {
        let mut sorted = jobs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let Some(max) = sorted.last() else { return Self::default() };
        let mean = (sorted.iter().map(|s| s.ln()).sum::<f64>() / sorted.len() as f64).exp();
        let place = (sorted.len() * 95).div_ceil(100) - 1;
        Self { slowdown_mean: mean, slowdown_p95: sorted[place], slowdown_max: *max }
    }
}

/// Slow-down of each group of the demand, in its order: the mean over its mix of patterns, all groups
/// at work at once. Infinite if a route does not arrive. Uses all threads; the figures do not depend
/// on their number.
///
/// O(patterns × steps × hosts of jobs × hops), with at most 64 steps per pattern, fewer with thousands of hosts.
pub fn slowdowns(fabric: &Fabric, tables: &Tables, demand: &Demand) -> Vec<f64> {
    let mut patterns: Vec<Pattern> =
        demand.groups.iter().flat_map(|g| g.mix.parts().iter().map(|p| p.0)).collect();
    patterns.sort_unstable();
    patterns.dedup();
    let mut time = vec![0.0; demand.groups.len()];
    let network = Network::new(fabric, tables);
    for pattern in patterns {
        let share = |g: &Group| {
            let parts = g.mix.parts();
            let all: f64 = parts.iter().map(|p| f64::from(p.1)).sum();
            parts.iter().filter(|p| p.0 == pattern).map(|p| f64::from(p.1)).sum::<f64>() / all
        };
        let shares: Vec<f64> = demand.groups.iter().map(share).collect();
        let own = network.exchange(&demand.groups, pattern, |j| shares[j] > 0.0);
        time.iter_mut().zip(shares.iter().zip(own)).for_each(|(sum, (share, own))| {
            if *share > 0.0 {
                *sum += share * own;
            }
        });
    }
    time
}

/// Slow-down of each group if all of them exchange in this pattern at once, whatever their mixes say.
/// As [`slowdowns`].
pub fn slowdowns_of(fabric: &Fabric, tables: &Tables, groups: &[Group], pattern: Pattern) -> Vec<f64> {
    Network::new(fabric, tables).exchange(groups, pattern, |_| true)
}

/// The tables, ready to be walked.
struct Network<'a> {
    fabric: &'a Fabric,
    tables: &'a Tables,
    /// `channels[switch * stride + port]`; `u32::MAX` for none.
    channels: Vec<u32>,
    stride: usize,
}

/// The steps of one group that are looked at.
struct Steps {
    /// Phase by step.
    phases: Vec<Phase>,
    /// Part of the exchange by step; they sum up to 1.
    weight: Vec<f64>,
}

impl Steps {
    /// At most so many.
    fn of(pattern: Pattern, ranks: usize, most: usize) -> Self {
        let phases = pattern.phases(ranks);
        let n = phases.len().min(most);
        // The middle ones of n equal stretches.
        let chosen = (0..n).map(|i| phases[(2 * i + 1) * phases.len() / (2 * n)].clone());
        let phases: Vec<Phase> = chosen.collect();
        let sum: f64 = phases.iter().map(|p| f64::from(p.share)).sum();
        let weight = phases.iter().map(|p| f64::from(p.share) / sum).collect();
        Self { phases, weight }
    }
}

impl<'a> Network<'a> {
    fn new(fabric: &'a Fabric, tables: &'a Tables) -> Self {
        let stride = fabric.switches().iter().map(|s| usize::from(s.ports) + 1).max().unwrap_or(1);
        let mut channels = vec![u32::MAX; stride * fabric.switches().len()];
        for (i, c) in fabric.channels().iter().enumerate() {
            channels[c.from.index() * stride + usize::from(c.from_port.get())] = i as u32;
        }
        Self { fabric, tables, channels, stride }
    }

    /// The slow-down of each group that takes part, 1 for the others.
    fn exchange(&self, groups: &[Group], pattern: Pattern, takes_part: impl Fn(usize) -> bool) -> Vec<f64> {
        let hosts: usize = groups.iter().map(|g| g.ranks.len()).sum();
        let most = (MOST_FLOWS / hosts.max(1)).clamp(LEAST_STEPS, MOST_STEPS);
        let steps: Vec<Steps> = groups
            .iter()
            .enumerate()
            .map(|(j, g)| Steps::of(pattern, if takes_part(j) { g.ranks.len() } else { 0 }, most))
            .collect();
        let longest = steps.iter().map(|s| s.phases.len()).max().unwrap_or(0);
        let average = self.average(groups, &steps, longest);
        let Some(average) = average else { return vec![f64::INFINITY; groups.len()] };
        let law = Law::of(pattern);
        // By step and group.
        let delays: Vec<Vec<f64>> = (0..longest)
            .into_par_iter()
            .map_init(
                || Room::new(self.fabric),
                |room, s| {
                    self.collect(groups, &steps, s, &mut room.flows);
                    room.delays(law, groups.len(), &average)
                },
            )
            .collect();
        let time = |j: usize| {
            if steps[j].phases.is_empty() {
                return 1.0;
            }
            let score: f64 = steps[j].weight.iter().enumerate().map(|(s, w)| w * delays[s][j]).sum();
            law.slowdown(score)
        };
        (0..groups.len()).map(time).collect()
    }

    /// Mean number of flows on each channel over the steps of all groups; `None` if a route does not arrive.
    fn average(&self, groups: &[Group], steps: &[Steps], longest: usize) -> Option<Vec<f32>> {
        let channels = self.fabric.channels().len();
        let partial = (0..longest).into_par_iter().map_init(Flows::default, |flows, s| {
            self.collect(groups, steps, s, flows);
            let mut sums = vec![0u64; channels];
            for flow in 0..flows.len() {
                let unit = (ONE / steps[flows.job(flow)].phases.len() as f64) as u64;
                flows.hops(flow).iter().for_each(|c| sums[*c as usize] += unit);
            }
            (sums, flows.lost)
        });
        let (sums, lost) = partial.reduce(
            || (Vec::new(), false),
            |a, b| {
                let lost = a.1 || b.1;
                if a.0.is_empty() || b.0.is_empty() {
                    return (if a.0.is_empty() { b.0 } else { a.0 }, lost);
                }
                (a.0.iter().zip(&b.0).map(|(a, b)| a + b).collect(), lost)
            },
        );
        let mean = |sum: u64| (sum as f64 / ONE) as f32;
        (!lost)
            .then(|| if sums.is_empty() { vec![0.0; channels] } else { sums.into_iter().map(mean).collect() })
    }

    /// The flows of a step, all groups that have so many steps.
    fn collect(&self, groups: &[Group], steps: &[Steps], s: usize, flows: &mut Flows) {
        flows.clear();
        for (j, (group, steps)) in groups.iter().zip(steps).enumerate() {
            let Some(phase) = steps.phases.get(s) else { continue };
            for (from, to) in phase.partners.pairs() {
                self.walk(group.ranks[from as usize], group.ranks[to as usize], j, flows);
            }
        }
    }

    fn walk(&self, from: TerminalId, to: TerminalId, job: usize, flows: &mut Flows) {
        let d = self.fabric.dest_of_terminal(to);
        let (home, source) = (self.fabric.home(d), self.fabric.terminal(from));
        let (ports, layer) = (self.tables.ports_to(d), self.tables.layers_to(d)[source.switch.index()]);
        let (mut at, mut came) = (source.switch, source.port);
        let mut left = ports.len();
        while at != home {
            let port = ports[at.index()];
            let c = match usize::from(port) < self.stride {
                true => self.channels[at.index() * self.stride + usize::from(port)],
                false => u32::MAX,
            };
            if c == u32::MAX || left == 0 {
                flows.lost = true;
                return flows.drop_last();
            }
            let channel = &self.fabric.channels()[c as usize];
            flows.hop(c, self.lane(at, came, channel.from_port, layer));
            (at, came) = (channel.to, channel.to_port);
            left -= 1;
        }
        flows.end(job, to.index() as u32);
    }

    /// The VL of the next channel: what the lane map says for the port a packet came by, or the layer.
    #[inline]
    fn lane(&self, at: SwitchId, came: PortNum, goes: PortNum, layer: u8) -> u8 {
        self.tables.lanes().map_or(layer & 15, |map| map.row(at, came, goes)[usize::from(layer & 15)].get())
    }
}
