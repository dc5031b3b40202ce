//! Pairs of hosts that answer each other: `--traffic pingpong` and `bulk`.

use super::{Args, Case, Failure, More};
use crate::model::rng::Rng;
use crate::simulate::run::{self, Outcome};
use crate::simulate::traffic::ping::{Ping, Rounds};
use crate::simulate::{AnyRouter, Net};

/// Ten rounds of all pairs at once.
pub(super) fn run(
    args: &Args,
    case: &Case,
    net: &Net,
    router: &AnyRouter<'_>,
    bulk: bool,
) -> Result<(Vec<Outcome>, More), Failure> {
    let jobs = case.jobs.iter().map(|(_, members)| members.clone());
    // On a direct torus only nodes of one job have routes to each other.
    let groups: Vec<Vec<u32>> = match router {
        AnyRouter::Torus(_) => jobs.collect(),
        _ => vec![jobs.flatten().collect()],
    };
    let pairs = drawn(groups, args.active, &mut Rng::new(args.seed));
    if pairs.is_empty() {
        return Err("pingpong and bulk are between two hosts at least: see --active and --jobs".into());
    }
    let bytes = case.bytes.unwrap_or(8192);
    let messages = if bulk { 10 } else { 1 };
    let what = Rounds { rounds: 10, messages, bytes, answer: 64 };
    let pings = Ping::new(&pairs, net.terminals(), what);
    let (outcome, times) = run::ping(net, case.settings, router, pings, args.seed)?;
    let mut means: Vec<f64> =
        times.iter().filter(|t| !t.is_empty()).map(|t| t.iter().sum::<f64>() / t.len() as f64).collect();
    means.sort_by(f64::total_cmp);
    let sent = f64::from(messages) * f64::from(bytes);
    let bandwidths: Vec<f64> = means.iter().rev().map(|ns| sent / ns).collect();
    let more = More {
        pairs: Some(pairs.len()),
        latency_ns: Some(means),
        bandwidth: Some(bandwidths),
        ..More::default()
    };
    Ok((vec![outcome], more))
}

/// Pairs inside each group, of at most so many hosts together.
fn drawn(mut groups: Vec<Vec<u32>>, active: Option<usize>, rng: &mut Rng) -> Vec<(u32, u32)> {
    groups.iter_mut().for_each(|hosts| rng.shuffle(hosts));
    let pairs = groups.iter().flat_map(|hosts| hosts.chunks_exact(2));
    let mut pairs: Vec<(u32, u32)> = pairs.map(|pair| (pair[0], pair[1])).collect();
    if groups.len() > 1 {
        rng.shuffle(&mut pairs);
    }
    pairs.truncate(active.map_or(pairs.len(), |active| active / 2));
    pairs
}
