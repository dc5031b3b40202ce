//! How long the exchanges of jobs take in the packet simulator, all at once.

use super::traffic::jobs::Jobs;
use super::traffic::script::Script;
use super::{Ended, Net, Router, Settings, TableRouter, run};
use crate::model::pattern::{Grid, Mix};
use crate::model::{Fabric, Group, Pattern, Tables};

/// What a job that says nothing exchanges, one run each. Three of them (shifts, random order, rings) choose tables
/// that take 1 to 8 % longer in the others.
const RUNS: [Pattern; 7] = [
    Pattern::Linear,
    Pattern::Pairwise,
    Pattern::Shift,
    Pattern::Random,
    Pattern::Ring,
    Pattern::Halo(Grid::SPACE),
    Pattern::Doubling,
];
/// Bytes of a message in a run, where no others are wanted.
pub const BYTES: u32 = 8192;
/// The same in coarse runs: two packets.
const COARSE_BYTES: u32 = 16_384;
/// Pairs of ranks in all jobs, above which runs take more than a second.
const MOST_PAIRS: usize = 50_000;

/// Whether [`runs`] of these jobs take less than a second.
pub fn is_short(groups: &[Group]) -> bool {
    pairs(groups) <= MOST_PAIRS
}

/// Pairs of ranks in all jobs.
pub fn pairs(groups: &[Group]) -> usize {
    groups.iter().map(|g| g.ranks.len() * g.ranks.len()).sum()
}

/// By which tables are told apart where predictions do not tell: the times of [`with_tables`] in seven exchanges of
/// messages of so many bytes; jobs that say what they exchange do that in each. Infinite where the tables cannot be
/// simulated or deadlock.
pub fn runs(on: (&Fabric, &Net), tables: &Tables, groups: &[Group], bytes: u32) -> Vec<f64> {
    runs_with(on, tables, groups, (Settings::qdr(), bytes, 1), &ALL)
}

/// All of [`runs`].
const ALL: [usize; RUNS.len()] = [0, 1, 2, 3, 4, 5, 6];
/// The place among [`runs`] of the exchange whose messages crowd channels most.
pub const LINEAR: usize = 0;
/// That of shifts.
pub const SHIFT: usize = 2;
/// That of rings.
pub const RING: usize = 4;
/// That of a random order.
pub const RANDOM: usize = 3;
/// Those of the others.
pub const OTHERS: [usize; 3] = [1, 5, 6];

/// All of them in the order in which tables are told apart by them.
const TURNS: [usize; RUNS.len()] = [SHIFT, RING, LINEAR, RANDOM, OTHERS[0], OTHERS[1], OTHERS[2]];

/// How much of an exchange is run.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Bytes of a message.
    pub bytes: u32,
    /// About so many messages of all jobs, if there are more: as many of each job's steps are left out.
    pub messages: usize,
}

/// Some of [`runs`], by their places, or parts of them.
pub fn some_runs(
    on: (&Fabric, &Net),
    tables: &Tables,
    groups: &[Group],
    part: Part,
    some: &[usize],
) -> Vec<f64> {
    let every = pairs(groups).div_ceil(part.messages).max(1) as u32;
    runs_with(on, tables, groups, (Settings::qdr(), part.bytes, every), some)
}

/// The same with messages of 16 KiB in packets of 8 KiB, in two thirds of the time. Among tables of one
/// engine for one tree, that differ by 1 %, their times correlate with those of packets of 2 KiB by 0.90.
pub fn coarse_runs(on: (&Fabric, &Net), tables: &Tables, groups: &[Group]) -> Vec<f64> {
    let settings = Settings { mtu: 8192, input_flits: 129, output_flits: 0, ..Settings::qdr() };
    runs_with(on, tables, groups, (settings, COARSE_BYTES, 1), &ALL)
}

fn runs_with(
    (fabric, net): (&Fabric, &Net),
    tables: &Tables,
    groups: &[Group],
    (settings, bytes, every): (Settings, u32, u32),
    some: &[usize],
) -> Vec<f64> {
    let pattern = |group: &Group, run: usize| match group.mix.is_default() {
        true => RUNS[run],
        false => exchanged(&group.mix, run),
    };
    let Ok(router) = TableRouter::new(fabric, net, tables) else {
        return vec![f64::INFINITY; some.len()];
    };
    let run = |i| {
        let script = |g: &Group| {
            Script::among((&members(g), g.adapters), net.terminals(), pattern(g, i), (bytes, every), 1)
        };
        simulated(net, settings, &router, groups.iter().map(script).collect()).ok().flatten()
    };
    some.iter().map(|i| run(*i).unwrap_or(f64::INFINITY)).collect()
}

/// What a job that says what it exchanges does in a run: each part is in as many runs as its weight asks for, of those that
/// come first as well. O(runs × parts).
fn exchanged(mix: &Mix, run: usize) -> Pattern {
    let parts = mix.parts();
    let all: i64 = parts.iter().map(|(_, weight)| i64::from(*weight)).sum();
    let (mut had, mut last) = (vec![0; parts.len()], 0);
    for turn in 1.. {
        let lacks = |i: &usize| i64::from(parts[*i].1) * turn - had[*i] * all;
        last = (0..parts.len()).max_by_key(|i| (lacks(i), std::cmp::Reverse(*i))).unwrap_or(0);
        had[last] += 1;
        if TURNS.get(turn as usize - 1).is_none_or(|at| *at == run) {
            break;
        }
    }
    parts[last].0
}

/// Geometric mean over the jobs of the time until a job's last byte has arrived, ns; `None` after a deadlock. The
/// largest message of the pattern has so many bytes.
///
/// # Errors
/// If the tables cannot be simulated.
pub fn with_tables(
    (fabric, net): (&Fabric, &Net),
    tables: &Tables,
    groups: &[Group],
    pattern: Pattern,
    bytes: u32,
) -> Result<Option<f64>, String> {
    let router = TableRouter::new(fabric, net, tables).map_err(|e| e.to_string())?;
    with_router(net, &router, groups, pattern, bytes)
}

/// The same by any router.
///
/// # Errors
/// If the jobs cannot be simulated.
pub fn with_router<R: Router>(
    net: &Net,
    router: &R,
    groups: &[Group],
    pattern: Pattern,
    bytes: u32,
) -> Result<Option<f64>, String> {
    let script = |g: &Group| Script::exchange(&members(g), net.terminals(), pattern, bytes, 1);
    simulated(net, Settings::qdr(), router, groups.iter().map(script).collect())
}

/// Terminals of the ranks.
fn members(group: &Group) -> Vec<u32> {
    group.ranks.iter().map(|t| t.index() as u32).collect()
}

fn simulated<R: Router>(
    net: &Net,
    settings: Settings,
    router: &R,
    scripts: Vec<Script>,
) -> Result<Option<f64>, String> {
    let jobs = Jobs::new(scripts, net.terminals());
    let (outcome, finished) = run::jobs(net, settings, router, jobs, 1)?;
    let times: Option<Vec<f64>> = finished.into_iter().collect();
    Ok(times.filter(|_| outcome.ended == Ended::Finished).map(geometric))
}

/// The geometric mean; 1 of nothing.
pub fn geometric(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut n) = (0.0, 0);
    for value in values {
        sum += value.ln();
        n += 1;
    }
    (sum / f64::from(n.max(1))).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::{Demand, LayerBudget};
    use crate::route::{self, EngineOptions};

    #[test]
    fn what_a_job_exchanges_most_is_in_most_runs_the_first_ones_too() {
        let in_turn = |text: &str| {
            let mix: Mix = text.parse().unwrap();
            TURNS.map(|run| exchanged(&mix, run))
        };
        assert_eq!(in_turn("1*linear+9999*ring"), [Pattern::Ring; 7]);
        let all = in_turn("2*linear+5*ring");
        assert_eq!(all[..2], [Pattern::Ring, Pattern::Linear]);
        assert_eq!(all.iter().filter(|pattern| **pattern == Pattern::Linear).count(), 2, "{all:?}");
    }

    #[test]
    fn a_part_with_room_for_all_messages_is_the_whole() {
        let fabric = generate("torus:4x4,hosts=4").unwrap();
        let ranks = fabric.terminal_ids().collect();
        let groups = [Group::new(ranks)];
        let engine = route::engine("dfsssp", &EngineOptions::default()).unwrap();
        let tables = engine.route(&fabric, &Demand::oblivious(), LayerBudget::new(8).unwrap()).unwrap();
        let net = Net::of_fabric(&fabric);
        let whole = runs((&fabric, &net), &tables, &groups, BYTES);
        let of = |messages| {
            let part = Part { bytes: BYTES, messages };
            some_runs((&fabric, &net), &tables, &groups, part, &[LINEAR, RING])
        };
        assert_eq!(of(64 * 64), [whole[LINEAR], whole[RING]]);
        let half = of(64 * 64 / 2);
        assert!((0.4..0.6).contains(&(half[0] / whole[LINEAR])), "{half:?} of {whole:?}");
        assert!((0.4..0.6).contains(&(half[1] / whole[RING])), "{half:?} of {whole:?}");
    }
}
