//! Figures of a direct torus's tables: channel load γ, deviation σ(4), hops, lower bound.

use serde::{Deserialize, Serialize};

use crate::model::torus::DIRECTIONS;
use crate::model::{Direction, Torus, TorusDemand, TorusTables};
use crate::route::angara::augment::Turns;
use crate::route::angara::minimal::Legal;

/// What tables are worth.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TorusFigures {
    /// Largest load of a channel (edge forwarding index).
    pub max: u32,
    /// Smallest load of a channel.
    pub min: u32,
    /// Mean load over channels, `γ_perfect` of the paper for minimal routes.
    pub mean: f64,
    /// Population standard deviation of the load.
    pub sd: f64,
    /// `σ(4)`: fourth root of the mean fourth power of the difference from the mean.
    pub sigma4: f64,
    /// Longest route.
    pub max_hops: u32,
    /// Mean over all pairs.
    pub mean_hops: f64,
    /// Channels that routes may use.
    pub channels: usize,
}

/// Measures the routes of one job (or of all together, `None`) over the channels these jobs may
/// use. O(routes × hops).
pub fn measure(torus: &Torus, tables: &TorusTables, job: Option<usize>) -> TorusFigures {
    let usable = tables.demand.usable(torus, job);
    let mut load = vec![0u32; torus.channel_slots()];
    let (mut pairs, mut hops, mut max_hops) = (0u64, 0u64, 0);
    for (_, routes) in tables.routes.iter().enumerate().filter(|(j, _)| job.is_none_or(|only| only == *j)) {
        for (source, _, steps) in routes.pairs() {
            let mut at = source;
            for step in steps {
                load[torus.channel(at, step.direction())] += 1;
                let Some(to) = torus.cabled(at, step.direction()) else { break };
                at = to;
            }
            pairs += 1;
            hops += steps.len() as u64;
            max_hops = max_hops.max(steps.len() as u32);
        }
    }
    let exists = |n: crate::model::NodeId, d: Direction| usable[n.index()] & d.bit() != 0;
    let used: Vec<u32> = torus
        .nodes()
        .flat_map(|n| Direction::all().map(move |d| (n, d)))
        .filter(|(n, d)| exists(*n, *d))
        .map(|(n, d)| load[torus.channel(n, d)])
        .collect();
    let mut figures = spread(&used);
    figures.max_hops = max_hops;
    figures.mean_hops = if pairs == 0 { 0.0 } else { hops as f64 / pairs as f64 };
    figures
}

/// Share of ordered pairs of jobs' nodes that have a single legal minimal route, 0..=1 (section
/// 4.3); 1 without pairs. Routes are told apart by their channels. O(pairs × alternatives).
pub fn unique_share(torus: &Torus, demand: &TorusDemand) -> f64 {
    let turns = Turns::new(torus, &demand.usable(torus, None));
    let (mut pairs, mut unique) = (0u64, 0u64);
    let mut found = Vec::new();
    for (number, job) in demand.jobs.iter().enumerate() {
        let legal = Legal::new(torus, &demand.usable(torus, Some(number)), &turns);
        for from in job.nodes() {
            for to in job.nodes().iter().filter(|to| *to != from) {
                legal.minimal(*from, *to, &mut found);
                pairs += 1;
                unique += u64::from(found.len() == 1);
            }
        }
    }
    if pairs == 0 { 1.0 } else { unique as f64 / pairs as f64 }
}

/// No table of legal minimal routes has a smaller maximum load.
///
/// By linear-programming duality every weighting of the channels (sum 1) gives a bound: the
/// weight of each pair's lightest route, summed. Weights start even (the averaging bound) and
/// follow the loads of the lightest routes multiplicatively; the best bound of
/// `BOUND_ROUNDS` weightings counts. For large demands fewer weightings are tried.
/// O(rounds × pairs × alternatives × hops).
pub fn lower_bound(torus: &Torus, demand: &TorusDemand) -> u32 {
    let Some(routes) = Alternatives::new(torus, demand) else { return 0 };
    let mut weight: Vec<f64> = routes.settled.iter().map(|_| 0.0).collect();
    let exists = demand.usable(torus, None);
    let real: Vec<usize> =
        (0..weight.len()).filter(|c| exists[c / DIRECTIONS] >> (c % DIRECTIONS) & 1 == 1).collect();
    real.iter().for_each(|c| weight[*c] = 1.0);
    let rounds = (BOUND_WORK / routes.hops.max(1)).clamp(3, BOUND_ROUNDS);
    let mut best = 0.0f64;
    for round in 0..rounds {
        let total: f64 = real.iter().map(|c| weight[*c]).sum();
        let (sum, load) = routes.lightest(&weight);
        best = best.max(sum / total);
        let most = f64::from(real.iter().map(|c| load[*c]).max().unwrap_or(0)).max(1.0);
        let rate = 2.0 / (1.0 + round as f64 / 8.0);
        for c in &real {
            weight[*c] *= (rate * (f64::from(load[*c]) / most - 1.0)).exp();
        }
        let heaviest = real.iter().map(|c| weight[*c]).fold(f64::MIN_POSITIVE, f64::max);
        real.iter().for_each(|c| weight[*c] = (weight[*c] / heaviest).max(1e-12));
    }
    (best - 1e-6).ceil() as u32
}

const BOUND_ROUNDS: usize = 400;
/// Channel visits that weightings may cost together.
const BOUND_WORK: usize = 100_000_000;

/// All routes of a demand, as channels.
struct Alternatives {
    /// Load of pairs with one route, by channel.
    settled: Vec<u32>,
    /// Channels of all alternatives of other pairs.
    channels: Vec<u32>,
    /// End of each alternative in `channels`, and whether it is the pair's last.
    ends: Vec<(usize, bool)>,
    hops: usize,
}

impl Alternatives {
    /// `None` if a pair has no route.
    fn new(torus: &Torus, demand: &TorusDemand) -> Option<Self> {
        let turns = Turns::new(torus, &demand.usable(torus, None));
        let mut all =
            Self { settled: vec![0; torus.channel_slots()], channels: vec![], ends: vec![], hops: 0 };
        let mut found = Vec::new();
        for (number, job) in demand.jobs.iter().enumerate() {
            let legal = Legal::new(torus, &demand.usable(torus, Some(number)), &turns);
            for from in job.nodes() {
                for to in job.nodes().iter().filter(|to| *to != from) {
                    legal.minimal(*from, *to, &mut found);
                    if let [only] = &found[..] {
                        legal.channels(*from, only, |c| all.settled[c] += 1);
                    }
                    for (i, shape) in found.iter().enumerate().filter(|_| found.len() > 1) {
                        legal.channels(*from, shape, |c| all.channels.push(c as u32));
                        all.ends.push((all.channels.len(), i + 1 == found.len()));
                    }
                    if found.is_empty() {
                        return None;
                    }
                }
            }
        }
        all.hops = all.channels.len() + all.settled.len();
        Some(all)
    }

    /// Weight of everybody's lightest route, and the load of these.
    fn lightest(&self, weight: &[f64]) -> (f64, Vec<u32>) {
        let mut load = self.settled.clone();
        let mut sum: f64 = load.iter().zip(weight).map(|(l, w)| f64::from(*l) * w).sum();
        let (mut start, mut best) = (0, (f64::INFINITY, 0..0));
        for (end, last) in &self.ends {
            let cost: f64 = self.channels[start..*end].iter().map(|c| weight[*c as usize]).sum();
            if cost < best.0 {
                best = (cost, start..*end);
            }
            start = *end;
            if *last {
                sum += best.0;
                self.channels[best.1].iter().for_each(|c| load[*c as usize] += 1);
                best = (f64::INFINITY, 0..0);
            }
        }
        (sum, load)
    }
}

/// Figures of channel loads.
fn spread(load: &[u32]) -> TorusFigures {
    let channels = load.len();
    let count = channels.max(1) as f64;
    let mean = load.iter().map(|l| f64::from(*l)).sum::<f64>() / count;
    let moment = |k: i32| load.iter().map(|l| (f64::from(*l) - mean).abs().powi(k)).sum::<f64>() / count;
    TorusFigures {
        max: load.iter().copied().max().unwrap_or(0),
        min: load.iter().copied().min().unwrap_or(0),
        mean,
        sd: moment(2).sqrt(),
        sigma4: moment(4).powf(0.25),
        channels,
        ..TorusFigures::default()
    }
}
