//! Slow-down: the predicted time of a job's exchange beside what its terminals' own cables need.
//!
//! Jobs exchange in steps, each a permutation of ranks. Three things delay a step: how many of *its* flows meet on a
//! channel, how many others wait in the same lane, and how much traffic of all jobs is there on average. Jobs are
//! never quite in step. The formula counts these three. Its score orders tables as the packet simulator does
//! (docs/results/time.md has the shares of pairs in order), and a power of it fits the simulated times: that is the
//! slow-down.

mod direct;
mod others;
mod predictor;
mod step;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::direct::{mean_of_kept, of_routes};
use self::others::Others;
pub use self::predictor::Predictor;
use self::step::{Flows, Law, Room};
use crate::model::{
    Adapters, ChannelId, Demand, Fabric, Group, Mix, Pattern, Phase, PortNum, SwitchId, Tables, TerminalId,
    Wiring,
};

/// Steps of an exchange that are looked at; of longer ones so many, evenly spaced.
const MOST_STEPS: usize = 64;
/// As many even with many hosts.
const LEAST_STEPS: usize = 8;
/// Flows that are looked at, if those are steps enough.
const MOST_FLOWS: usize = 1 << 18;

/// Slow-down over jobs. 1 is the time that the terminals' own cables need.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Time {
    /// Geometric mean over jobs.
    #[serde(deserialize_with = "or_endless")]
    #[schemars(with = "Option<f64>")]
    pub slowdown_mean: f64,
    /// 95 of 100 jobs have at most this.
    #[serde(deserialize_with = "or_endless")]
    #[schemars(with = "Option<f64>")]
    pub slowdown_p95: f64,
    /// Largest.
    #[serde(deserialize_with = "or_endless")]
    #[schemars(with = "Option<f64>")]
    pub slowdown_max: f64,
}

/// An exchange does not end where a route does not arrive. JSON has no number for that: it is `null`.
pub fn or_endless<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

impl Default for Time {
    /// As of no job.
    fn default() -> Self {
        Self { slowdown_mean: 1.0, slowdown_p95: 1.0, slowdown_max: 1.0 }
    }
}

impl Time {
    /// Of those that are known; `None` of none.
    pub fn of_known(jobs: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let known: Vec<f64> = jobs.into_iter().flatten().collect();
        (!known.is_empty()).then(|| Self::of(&known))
    }

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
/// at work at once. Infinite if a route does not arrive; what cables do not join exchanges nothing. Uses all
/// threads; the figures do not depend on their number.
///
/// O(patterns × steps × hosts of jobs × hops), with at most 64 steps per pattern, fewer with thousands of hosts.
pub fn slowdowns(fabric: &Fabric, tables: &Tables, demand: &Demand) -> Vec<f64> {
    let mixes: Vec<&Mix> = demand.groups.iter().map(|g| &g.mix).collect();
    mixed(&Placed { network: Network::new(fabric, tables), groups: &demand.groups }, &mixes, MOST_STEPS)
}

/// As [`slowdowns`], from few steps of each exchange.
pub(crate) fn rough_slowdowns(fabric: &Fabric, tables: &Tables, demand: &Demand) -> Vec<f64> {
    let mixes: Vec<&Mix> = demand.groups.iter().map(|g| &g.mix).collect();
    mixed(&Placed { network: Network::new(fabric, tables), groups: &demand.groups }, &mixes, LEAST_STEPS)
}

/// Mean over its mix of patterns, by group.
fn mixed(paths: &impl Paths, mixes: &[&Mix], most: usize) -> Vec<f64> {
    let mut time = vec![0.0; mixes.len()];
    let others = Others::of(&paths.ranks(), mixes, paths.size()[0], |steps, s| collect(paths, steps, s));
    for pattern in patterns(mixes.iter().copied()) {
        let shares: Vec<f64> = mixes.iter().map(|mix| share(mix, pattern)).collect();
        let own = exchange(paths, (pattern, others.beside(pattern)), most, |j| shares[j] > 0.0);
        time.iter_mut().zip(shares.iter().zip(own)).for_each(|(sum, (share, own))| {
            if *share > 0.0 {
                *sum += share * own;
            }
        });
    }
    time
}

/// All patterns of the groups, ascending.
fn patterns<'a>(mixes: impl IntoIterator<Item = &'a Mix>) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> = mixes.into_iter().flat_map(|mix| mix.parts()).map(|p| p.0).collect();
    patterns.sort_unstable();
    patterns.dedup();
    patterns
}

/// A pattern's part of a group's traffic.
fn share(mix: &Mix, pattern: Pattern) -> f64 {
    let parts = mix.parts();
    let all: f64 = parts.iter().map(|p| f64::from(p.1)).sum();
    parts.iter().filter(|p| p.0 == pattern).map(|p| f64::from(p.1)).sum::<f64>() / all
}

/// Slow-down of each group if all of them exchange in this pattern at once, whatever their mixes say.
/// As [`slowdowns`].
pub fn slowdowns_of(fabric: &Fabric, tables: &Tables, groups: &[Group], pattern: Pattern) -> Vec<f64> {
    exchange(&Placed { network: Network::new(fabric, tables), groups }, (pattern, &[]), MOST_STEPS, |_| true)
}

/// Slow-down of an exchange whose steps take, in the mean, so many times what the hosts' cables need: for who knows
/// the steps and not the routes. 1 at the least.
pub fn slowdown_of_steps(pattern: Pattern, steps: f64) -> f64 {
    Law::of(pattern).slowdown_at(steps)
}

/// Where the messages of groups go.
trait Paths: Sync {
    /// Numbers of channels and of terminals.
    fn size(&self) -> [usize; 2];
    /// Ranks by group, and how they are on nodes.
    fn ranks(&self) -> Vec<(usize, Adapters)>;
    /// Adds the flow from one rank of a group to another; `None` if it does not arrive.
    fn walk(&self, group: usize, from: u32, to: u32, flows: &mut Flows) -> Option<()>;
}

/// The slow-down of each group that takes part, 1 for the others, beside traffic that does not.
fn exchange(
    paths: &impl Paths,
    (pattern, others): (Pattern, &[f32]),
    most: usize,
    takes_part: impl Fn(usize) -> bool,
) -> Vec<f64> {
    let ranks = paths.ranks();
    let steps = Steps::all(&ranks, pattern, most, takes_part);
    let longest = steps.iter().map(|s| s.phases.len()).max().unwrap_or(0);
    let collect = |s| collect(paths, &steps, s);
    let Some(flows) = (0..longest).into_par_iter().map(collect).collect::<Option<Vec<Flows>>>() else {
        return vec![f64::INFINITY; ranks.len()];
    };
    let size = paths.size();
    let mut average = Average::new(size[0]);
    average.take(&flows, &steps, others);
    let scores = |average: &[f32], law| scores(&flows, &steps, size, law, average);
    let (law, crowds) = (Law::of(pattern), crowds(&ranks, size[1]));
    let mut found = scores(&average.mean, law);
    if crowds.iter().any(|crowd| *crowd < 1.0) {
        let in_step = match others.is_empty() {
            true => scores(&average.mean, law.in_step()),
            // Those of other patterns are in the way, whatever sets ranks apart.
            false => scores(others, law),
        };
        let in_step = in_step.into_iter().zip(crowds);
        found.iter_mut().zip(in_step).for_each(|(score, (in_step, crowd))| {
            *score = in_step + Law::set_apart(in_step, crowd) * (*score - in_step);
        });
    }
    let time = |(j, score): (usize, f64)| if steps[j].phases.is_empty() { 1.0 } else { law.slowdown(score) };
    found.into_iter().enumerate().map(time).collect()
}

/// How full of other groups the fabric is, by group: 0 with others on half of the terminals, 1 on nine of ten.
fn crowds(ranks: &[(usize, Adapters)], terminals: usize) -> Vec<f64> {
    let all: usize = ranks.iter().map(|r| r.0).sum();
    let share = |own: usize| (all - own) as f64 / terminals.max(1) as f64;
    ranks.iter().map(|r| ((share(r.0) - 0.5) / 0.4).clamp(0.0, 1.0)).collect()
}

/// The mean score of each group's steps.
fn scores(flows: &[Flows], steps: &[Steps], size: [usize; 2], law: Law, average: &[f32]) -> Vec<f64> {
    // By step and group.
    let delays: Vec<Vec<f64>> = flows
        .par_iter()
        .map_init(|| Room::new(size), |room, flows| room.delays(flows, law, steps.len(), average))
        .collect();
    let score = |j: usize| steps[j].weight.iter().enumerate().map(|(s, w)| w * delays[s][j]).sum();
    (0..steps.len()).map(score).collect()
}

/// The flows of a step, of all groups that have so many steps; `None` if one does not arrive.
fn collect(paths: &impl Paths, steps: &[Steps], s: usize) -> Option<Flows> {
    let mut flows = Flows::default();
    for (j, steps) in steps.iter().enumerate() {
        let Some(phase) = steps.phases.get(s) else { continue };
        for (from, to) in phase.partners.pairs() {
            paths.walk(j, from, to, &mut flows)?;
        }
    }
    Some(flows)
}

/// Groups on a network.
struct Placed<'a> {
    network: Network<'a>,
    groups: &'a [Group],
}

impl Paths for Placed<'_> {
    fn size(&self) -> [usize; 2] {
        self.network.size()
    }
    fn ranks(&self) -> Vec<(usize, Adapters)> {
        self.groups.iter().map(|g| (g.ranks.len(), g.adapters)).collect()
    }
    fn walk(&self, group: usize, from: u32, to: u32, flows: &mut Flows) -> Option<()> {
        let ranks = &self.groups[group].ranks;
        let [from, to] = [from, to].map(|rank| ranks[rank as usize]);
        if self.network.are_apart(from, to) {
            flows.stay(group);
            return Some(());
        }
        self.network.walk(from, to, group, flows)
    }
}

/// Tables on their fabric.
struct Network<'a> {
    fabric: &'a Fabric,
    tables: &'a Tables,
    wiring: Wiring,
    /// As [`Fabric::parts`]; empty if all is connected.
    parts: Vec<u32>,
}

/// Mean number of flows on each channel over the steps of all groups.
struct Average {
    /// By channel, of those that flows used last.
    sums: Vec<f64>,
    /// By channel; what is said of channels without flows means nothing.
    mean: Vec<f32>,
}

impl Average {
    fn new(channels: usize) -> Self {
        Self { sums: vec![0.0; channels], mean: vec![0.0; channels] }
    }

    /// Of flows by step, and of others that are there, unless that is empty.
    fn take(&mut self, flows: &[Flows], steps: &[Steps], others: &[f32]) {
        let Self { sums, mean } = self;
        each_hop(flows, |_, _, c| sums[c] = 0.0);
        each_hop(flows, |flows, flow, c| sums[c] += 1.0 / steps[flows.job(flow)].phases.len() as f64);
        let beside = |c: usize| others.get(c).copied().unwrap_or(0.0);
        each_hop(flows, |_, _, c| mean[c] = sums[c] as f32 + beside(c));
    }
}

/// Every channel of every flow.
fn each_hop(flows: &[Flows], mut see: impl FnMut(&Flows, usize, usize)) {
    for flows in flows {
        for flow in 0..flows.len() {
            flows.hops(flow).iter().for_each(|c| see(flows, flow, *c as usize));
        }
    }
}

/// The steps of one group that are looked at.
struct Steps {
    /// Phase by step.
    phases: Vec<Phase>,
    /// Part of the exchange by step; they sum up to 1.
    weight: Vec<f64>,
}

impl Steps {
    /// At most so many of all groups, none of those that do not take part.
    fn all(
        ranks: &[(usize, Adapters)],
        pattern: Pattern,
        most: usize,
        takes_part: impl Fn(usize) -> bool,
    ) -> Vec<Self> {
        let hosts: usize = ranks.iter().map(|r| r.0).sum();
        let most = (MOST_FLOWS / hosts.max(1)).clamp(LEAST_STEPS, MOST_STEPS).min(most);
        let taking = |j: usize| if takes_part(j) { ranks[j] } else { (0, Adapters::default()) };
        (0..ranks.len()).map(|j| Self::of(pattern, taking(j), most)).collect()
    }

    /// At most so many.
    fn of(pattern: Pattern, (ranks, adapters): (usize, Adapters), most: usize) -> Self {
        let phases = pattern.phases_among(ranks, adapters);
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
        let mut parts = fabric.parts();
        if parts.iter().all(|part| *part == parts[0]) {
            parts.clear();
        }
        Self { fabric, tables, wiring: fabric.wiring(), parts }
    }

    /// Whether no cables join two terminals, on rails of their own or after a failure.
    fn are_apart(&self, from: TerminalId, to: TerminalId) -> bool {
        let part = |t| self.parts[self.fabric.terminal(t).switch.index()];
        !self.parts.is_empty() && part(from) != part(to)
    }

    /// Numbers of channels and of terminals.
    fn size(&self) -> [usize; 2] {
        [self.fabric.channels().len(), self.fabric.terminals().len()]
    }

    /// Adds the flow from one terminal to another; `None` if it does not arrive.
    fn walk(&self, from: TerminalId, to: TerminalId, job: usize, flows: &mut Flows) -> Option<()> {
        if from == to {
            flows.stay(job);
            return Some(());
        }
        let Self { fabric, tables, wiring, .. } = self;
        let d = fabric.dest_of_terminal(to);
        let (home, source, ports) = (fabric.home(d).index(), fabric.terminal(from), tables.ports_to(d));
        let mut at = source.switch.index();
        let (layer, mut came, mut left) = (tables.layers_to(d)[at], source.port, ports.len());
        while at != home {
            left = left.checked_sub(1)?;
            let c = wiring.channel(at, ports[at]);
            if c == Wiring::NONE {
                return None;
            }
            flows.hop(c, self.lane(at, &mut came, c, layer));
            at = wiring.to[c as usize] as usize;
        }
        flows.end(job, to.index() as u32);
        Some(())
    }

    /// The VL of the next channel: what the lane map says for the port a packet came by, or the layer.
    #[inline]
    fn lane(&self, at: usize, came: &mut PortNum, channel: u32, layer: u8) -> u8 {
        let Some(map) = self.tables.lanes() else { return layer & 15 };
        let channel = self.fabric.channel(ChannelId::at(channel as usize));
        let row = map.row(SwitchId::at(at), *came, channel.from_port);
        *came = channel.to_port;
        row[usize::from(layer & 15)].get()
    }
}
