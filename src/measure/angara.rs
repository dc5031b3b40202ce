//! Figures of a direct torus's tables: channel load γ, deviation σ(4), hops, lower bound.

use serde::{Deserialize, Serialize};

use super::JobFigures;
use crate::model::{Direction, NodeId, Routes, Torus, TorusDemand, TorusTables};
use crate::route::angara::augment::Turns;
use crate::route::angara::choice::{Choice, Flexible};
use crate::route::angara::lanes::Lanes;
use crate::route::angara::minimal::Legal;
use crate::route::angara::shape::Shape;

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
    let of_jobs = || tables.routes.iter().enumerate().filter(|(j, _)| job.is_none_or(|only| only == *j));
    let load = channel_loads(torus, of_jobs().map(|(_, routes)| routes));
    let (mut pairs, mut hops, mut max_hops) = (0u64, 0u64, 0);
    for (_, routes) in of_jobs() {
        for (_, _, steps) in routes.pairs() {
            pairs += 1;
            hops += steps.len() as u64;
            max_hops = max_hops.max(steps.len() as u32);
        }
    }
    let exists = |n: NodeId, d: Direction| usable[n.index()] & d.bit() != 0;
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

/// How many of these routes lead over each channel, by [`Torus::channel`]. O(routes × hops).
pub fn channel_loads<'a>(torus: &Torus, tables: impl IntoIterator<Item = &'a Routes>) -> Vec<u32> {
    let mut load = vec![0u32; torus.channel_slots()];
    for (source, _, steps) in tables.into_iter().flat_map(Routes::pairs) {
        torus.walk(source, steps).for_each(|(at, direction)| load[torus.channel(at, direction)] += 1);
    }
    load
}

/// What each job's routes are like beside all the others': its own on the channel that carries most of them,
/// the channels it uses, and all jobs' routes on the busiest of those. O(routes × hops).
pub fn per_job<'a>(torus: &Torus, tables: impl IntoIterator<Item = &'a Routes>) -> Vec<(JobFigures, u64)> {
    let tables: Vec<&Routes> = tables.into_iter().collect();
    let all = channel_loads(torus, tables.iter().copied());
    let of_one = |routes: &&Routes| {
        let own = channel_loads(torus, [*routes]);
        let used = || own.iter().zip(&all).filter(|(own, _)| **own > 0);
        let max = used().map(|(own, _)| u64::from(*own)).max().unwrap_or(0);
        let busiest = used().map(|(_, all)| u64::from(*all)).max().unwrap_or(0);
        (JobFigures { max, links: used().count() as u64 }, busiest)
    };
    tables.iter().map(of_one).collect()
}

/// Share of the channels that work, used by jobs or not, over which no route leads; 0..=1.
pub fn dark_fiber(torus: &Torus, load: &[u32]) -> f64 {
    let all = torus.nodes().flat_map(|n| Direction::all().map(move |d| (n, d)));
    let works = all.filter(|(n, d)| torus.exits(*n) & d.bit() != 0);
    let (channels, dark) = works.fold((0u32, 0u32), |(channels, dark), (n, d)| {
        (channels + 1, dark + u32::from(load[torus.channel(n, d)] == 0))
    });
    f64::from(dark) / f64::from(channels.max(1))
}

/// Share of ordered pairs of jobs' nodes that have a single legal minimal route, 0..=1 (section
/// 4.3); 1 without pairs. Routes are told apart by their channels. O(pairs × alternatives).
pub fn unique_share(torus: &Torus, demand: &TorusDemand) -> f64 {
    let (mut pairs, mut unique) = (0u64, 0u64);
    alternatives(torus, demand, |_, _, routes| {
        pairs += 1;
        unique += u64::from(routes == 1);
        true
    });
    if pairs == 0 { 1.0 } else { unique as f64 / pairs as f64 }
}

/// The first pair of a job, by its nodes, that no legal route joins. O(pairs × alternatives).
pub fn first_unroutable(torus: &Torus, demand: &TorusDemand) -> Option<(NodeId, NodeId)> {
    let mut first = None;
    alternatives(torus, demand, |from, to, routes| {
        first = (routes == 0).then_some((from, to));
        first.is_none()
    });
    first
}

/// Calls `each` with every ordered pair of jobs' nodes and its number of legal minimal routes, until
/// it returns false.
fn alternatives(torus: &Torus, demand: &TorusDemand, mut each: impl FnMut(NodeId, NodeId, usize) -> bool) {
    let turns = Turns::of(torus, demand);
    let mut found = Vec::new();
    for (number, job) in demand.jobs.iter().enumerate() {
        let legal = Legal::new(torus, &demand.usable(torus, Some(number)), &turns);
        for from in job.nodes() {
            for to in job.nodes().iter().filter(|to| *to != from) {
                legal.minimal(*from, *to, &mut found);
                if !each(*from, *to, found.len()) {
                    return;
                }
            }
        }
    }
}

/// No table of legal minimal routes has a smaller maximum load; 0 without jobs, and if a pair has no route.
///
/// By linear-programming duality every weighting of the channels (sum 1) gives a bound: the
/// weight of each pair's lightest route, summed. Weights start even (the averaging bound) and
/// follow the loads of the lightest routes multiplicatively; the best bound of
/// `BOUND_ROUNDS` weightings counts. For large demands fewer weightings are tried. 0 without jobs.
/// O(rounds × pairs × alternatives × hops).
pub fn lower_bound(torus: &Torus, demand: &TorusDemand) -> u32 {
    if demand.jobs.is_empty() {
        return 0;
    }
    let turns = Turns::of(torus, demand);
    let mut settled = Vec::new();
    let choice = |job| Choice::new(torus, demand, job, &turns, &mut settled).ok();
    let Some(choices) = (0..demand.jobs.len()).map(choice).collect::<Option<Vec<_>>>() else { return 0 };
    if choices.is_empty() {
        return 0;
    }
    let real = existing(torus, demand);
    let mut weight = vec![0.0f64; settled.len()];
    real.iter().for_each(|c| weight[*c] = 1.0);
    let visits = |pair: &Flexible| usize::from(pair.length) * usize::from(pair.count);
    let work = choices.iter().flat_map(|c| &c.flexible).map(visits).sum::<usize>() + settled.len();
    let mut best = 0.0f64;
    for round in 0..(BOUND_WORK / work.max(1)).clamp(3, BOUND_ROUNDS) {
        let (sum, load) = lightest(&choices, &settled, &weight);
        // Every channel has two copies.
        best = best.max(2.0 * sum / real.iter().map(|c| weight[*c]).sum::<f64>());
        let most = f64::from(load.iter().copied().max().unwrap_or(0)).max(1.0);
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

/// Slots, in lanes, of the channels that some job may use.
fn existing(torus: &Torus, demand: &TorusDemand) -> Vec<usize> {
    let (lanes, usable) = (Lanes::new(torus), demand.usable(torus, None));
    let mut real = Vec::new();
    for node in torus.nodes() {
        for direction in Direction::all().filter(|d| usable[node.index()] & d.bit() != 0) {
            let c = torus.coords(node).all()[direction.dim()];
            lanes.span(node.0, c, direction, 1).each(|slot| real.push(slot));
        }
    }
    real
}

/// Weight of everybody's lightest route, and the load of these.
fn lightest(choices: &[Choice<'_>], settled: &[u32], weight: &[f64]) -> (f64, Vec<u32>) {
    let mut load = settled.to_vec();
    let mut sum = load.iter().zip(weight).map(|(l, w)| f64::from(*l) * w).sum::<f64>() / 2.0;
    for choice in choices {
        for pair in &choice.flexible {
            let mut best = (f64::INFINITY, Shape::default());
            for shape in choice.alternatives(pair) {
                let mut cost = 0.0;
                choice.legal.spans(pair.source, shape, |s| cost += weight[s.slots()].iter().sum::<f64>());
                if cost < best.0 {
                    best = (cost, *shape);
                }
            }
            sum += best.0;
            choice.legal.spans(pair.source, &best.1, |s| s.each(|c| load[c] += 1));
        }
    }
    (sum, load)
}

/// Figures of channel loads.
fn spread(load: &[u32]) -> TorusFigures {
    let channels = load.len();
    let count = channels.max(1) as f64;
    // A sum of nothing is minus zero.
    let sum = |f: &dyn Fn(f64) -> f64| 0.0 + load.iter().map(|l| f(f64::from(*l))).sum::<f64>();
    let mean = sum(&|l| l) / count;
    let moment = |k: i32| sum(&|l| (l - mean).abs().powi(k)) / count;
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
