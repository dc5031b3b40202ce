//! Figures of a direct torus's tables: channel load γ, deviation σ(4), hops, lower bound.

use serde::{Deserialize, Serialize};

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
