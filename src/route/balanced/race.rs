//! Tables for the same jobs beside each other in the packet simulator.

use rayon::prelude::*;

use super::portfolio::{Candidate, Scene, cost, predicted};
use crate::model::{Demand, Fabric, Tables};
use crate::simulate::Net as Wires;
use crate::simulate::exchange::{self, Part};

/// Runs of the simulator by which tables are chosen.
#[derive(Clone, Copy)]
pub(super) enum Runs {
    /// The [`ROUNDS`]. What counts is how long they take together, and the one in which the tables are furthest behind the
    /// best ones without jobs in that run. Predicted time beside that made the choice no better.
    Rounds,
    /// Parts of three exchanges, on fabrics where more would take long. They count in the same way.
    Short,
    /// In less time, of large packets ([`exchange::coarse_runs`]). All together count.
    Coarse,
}

/// Runs of some exchanges, which only the best tables of the rounds before have.
struct Round {
    /// So many tables, beside those without jobs that are the fastest in a run.
    best: usize,
    part: Part,
    /// Exchanges, by their places in [`exchange::runs`].
    which: &'static [usize],
}

/// Part of most exchanges tells nearly all, but for those that crowd channels the more the longer they last: these are run
/// whole, with larger messages.
const ROUNDS: [Round; 4] = [
    Round { best: usize::MAX, part: PART, which: &[exchange::SHIFT, exchange::RING] },
    Round { best: 8, part: WHOLE, which: &[exchange::LINEAR] },
    Round { best: 4, part: WHOLE, which: &[exchange::SHIFT, exchange::RANDOM] },
    Round { best: 4, part: PART, which: &exchange::OTHERS },
];
/// Of [`Runs::Short`], the part of the exchange that crowds channels most.
const LONGER: Part = Part { bytes: 16_384, messages: 20_000 };
const PART: Part = Part { bytes: 8192, messages: FEW_MESSAGES };
const WHOLE: Part = Part { bytes: 16_384, messages: MANY_MESSAGES };
/// About so many messages tell how long an exchange takes that keeps step.
const FEW_MESSAGES: usize = 5_000;
/// About so many that crowd channels.
const MANY_MESSAGES: usize = 50_000;

/// So many of those without jobs stay in each round beside these: where fewer are left, these would be what nobody may be
/// behind in later runs, and be nowhere behind themselves.
const BLIND: usize = 3;

/// Runs tell no smaller differences: whole exchanges differ by as much from their parts.
const LEVEL: f64 = 1.01;
/// Predictions tell such differences, where no slow-down is above [`CROWDED`].
const NEARLY_LEVEL: f64 = 1.05;
/// See [`NEARLY_LEVEL`]: more than this is waiting in queues of which predictions know little.
const CROWDED: f64 = 1.5;

/// Tables with the times of their runs so far.
struct Raced {
    candidate: Candidate,
    /// Their predicted slow-down.
    predicted: f64,
    times: Vec<f64>,
}

/// The tables with which the jobs' exchanges end first in the simulator, as these `runs` count. The first of equal
/// ones. A run per tables and exchange.
pub(super) fn fastest(
    fabric: &Fabric,
    demand: &Demand,
    mut candidates: Vec<Candidate>,
    runs: Runs,
) -> Tables {
    forget_copies(fabric, &mut candidates);
    let on = (fabric, &Wires::of_fabric(fabric));
    let enter = |candidate: Candidate| {
        let predicted = predicted(fabric, demand, &candidate.tables);
        Raced { candidate, predicted, times: Vec::new() }
    };
    let mut all: Vec<Raced> = candidates.into_par_iter().map(enter).collect();
    let groups = &demand.groups;
    match runs {
        Runs::Coarse => run(&mut all, |tables| exchange::coarse_runs(on, tables, groups)),
        Runs::Short => run(&mut all, |tables| {
            let short = exchange::some_runs(on, tables, groups, PART, &[exchange::SHIFT, exchange::RING]);
            let linear = exchange::some_runs(on, tables, groups, LONGER, &[exchange::LINEAR]);
            [short, linear].concat()
        }),
        Runs::Rounds => {
            for Round { best, part, which } in &ROUNDS {
                let scores = scores(&all, runs);
                all = finalists(all, &scores, *best);
                run(&mut all, |tables| exchange::some_runs(on, tables, groups, *part, which));
            }
        }
    }
    let scores = scores(&all, runs);
    let predicted = |i: usize| all[i].predicted;
    let best = match runs {
        Runs::Rounds => best_predicted(&scores, predicted),
        Runs::Short | Runs::Coarse => least(&scores),
    };
    all.swap_remove(best).candidate.tables
}

/// Our `own` tables of a tree or some of `more`: those with which the jobs' exchanges end first in the simulator. None
/// is asked about that is predicted to take longer than our own and than the best `other`. Predictions hardly tell them
/// apart.
pub(super) fn quickest(
    scene: &Scene<'_>,
    own: (f64, Candidate),
    more: Vec<(f64, Candidate)>,
    other: Option<f64>,
) -> (f64, Candidate) {
    let most = other.filter(|other| other.is_finite()).map_or(own.0, |other| own.0.max(other));
    let near: Vec<Candidate> = more.into_iter().filter(|more| more.0 <= most).map(|more| more.1).collect();
    if near.is_empty() {
        return own;
    }
    let all = std::iter::once(own.1).chain(near).collect();
    let tables = fastest(scene.fabric, scene.demand, all, Runs::Coarse);
    (cost(scene, &tables), Candidate::of_jobs(tables))
}

/// The first of the least.
fn least(scores: &[f64]) -> usize {
    (1..scores.len()).fold(0, |best, i| if scores[i] < scores[best] { i } else { best })
}

/// Of those that are level with the best the one that is predicted to take the least time.
fn best_predicted(scores: &[f64], predicted: impl Fn(usize) -> f64) -> usize {
    let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let among = |level: f64| {
        let level = (0..scores.len()).filter(|i| scores[*i] <= least * level).map(|i| (predicted(i), i));
        level.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
    };
    match among(NEARLY_LEVEL) {
        (slowdown, found) if slowdown < CROWDED => found,
        _ => among(LEVEL).1,
    }
}

/// Adds the times of more runs.
fn run(all: &mut [Raced], times: impl Fn(&Tables) -> Vec<f64> + Sync) {
    all.par_iter_mut().for_each(|raced| raced.times.extend(times(&raced.candidate.tables)));
}

/// What each counts for, less is better.
fn scores(all: &[Raced], runs: Runs) -> Vec<f64> {
    let least: Vec<f64> = (0..all[0].times.len()).map(|i| all[leader(all, i)].times[i]).collect();
    let score = |Raced { times, .. }: &Raced| {
        let together = exchange::geometric(times.iter().copied());
        let behind = times.iter().zip(&least).map(|(time, least)| time / least).fold(1.0, f64::max);
        if matches!(runs, Runs::Coarse) { together } else { together * behind }
    };
    all.iter().map(score).collect()
}

/// The fastest in a run of those without jobs, which are what nobody may be behind; where there are none, of all.
fn leader(all: &[Raced], run: usize) -> usize {
    let has_blind = all.iter().any(|raced| raced.candidate.is_blind);
    let counts = |raced: &Raced| raced.candidate.is_blind || !has_blind;
    let held = (0..all.len()).filter(|i| counts(&all[*i]));
    held.min_by(|a, b| all[*a].times[run].total_cmp(&all[*b].times[run])).unwrap_or(0)
}

/// So many of the best, [`BLIND`] of those without jobs, who leads in a run, and who is predicted to take the least time, in
/// the order that they had.
fn finalists(all: Vec<Raced>, scores: &[f64], left: usize) -> Vec<Raced> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let mut stays = vec![false; all.len()];
    let leaders = (0..all[0].times.len()).map(|run| leader(&all, run));
    let predicted: Vec<f64> = all.iter().map(|raced| raced.predicted).collect();
    let blind = order.iter().copied().filter(|i| all[*i].candidate.is_blind).take(BLIND);
    let best = order.iter().copied().take(left).chain(blind);
    leaders.chain([least(&predicted)]).chain(best).for_each(|i| stays[i] = true);
    all.into_iter().zip(stays).filter_map(|(raced, stays)| stays.then_some(raced)).collect()
}

/// Takes off tables that were there before; those that are left were made for no jobs if one of the same was.
fn forget_copies(fabric: &Fabric, candidates: &mut Vec<Candidate>) {
    let mut kept: Vec<Candidate> = Vec::with_capacity(candidates.len());
    for next in candidates.drain(..) {
        let is_same = |a: &Candidate| {
            let (a, b) = (&a.tables, &next.tables);
            fabric.dest_ids().all(|d| a.ports_to(d) == b.ports_to(d) && a.layers_to(d) == b.layers_to(d))
        };
        match kept.iter_mut().find(|a| is_same(a)) {
            Some(same) => same.is_blind |= next.is_blind,
            None => kept.push(next),
        }
    }
    *candidates = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    /// Tables that nobody looks at, with times.
    fn raced(is_blind: bool, times: [f64; 2]) -> Raced {
        let fabric = generate("mesh:2,hosts=1").unwrap();
        let entries = fabric.dest_count() * fabric.switches().len();
        let tables = Tables::new(&fabric, "none", vec![0; entries], vec![0; entries]).unwrap();
        Raced { candidate: Candidate { is_blind, tables }, predicted: times[1], times: times.to_vec() }
    }

    #[test]
    fn of_level_ones_the_best_predicted_is_taken() {
        let predicted = |i: usize| [4.0, 3.0, 2.0][i];
        assert_eq!(best_predicted(&[1.0, 1.009, 1.02], predicted), 1);
        assert_eq!(best_predicted(&[1.0, 1.011, 1.02], predicted), 0);
        // Where channels are hardly crowded, predictions tell more.
        let hardly = |i: usize| [1.5, 1.4, 1.3][i];
        assert_eq!(best_predicted(&[1.0, 1.04, 1.06], hardly), 1);
    }

    #[test]
    fn the_best_and_those_that_lead_a_run_without_jobs_are_finalists() {
        let mut all: Vec<Raced> = (0..10).map(|i| raced(false, [1.0, 10.0 - f64::from(i)])).collect();
        all.push(raced(true, [30.0, 2.0]));
        all.push(raced(true, [20.0, 3.0]));
        all.push(raced(true, [21.0, 4.0]));
        all.push(raced(true, [22.0, 5.0]));
        all.push(raced(false, [50.0, 0.5]));
        assert_eq!([leader(&all, 0), leader(&all, 1)], [11, 10]);
        assert_eq!([leader(&all[..10], 0), leader(&all[..10], 1)], [0, 9], "of all, if none is without jobs");
        let together: Vec<f64> = all.iter().map(|raced| raced.times[1] * raced.times[0]).collect();
        let left: Vec<[f64; 2]> =
            finalists(all, &together, 8).iter().map(|raced| [raced.times[0], raced.times[1]]).collect();
        let expected = [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0].map(|second| [1.0, second]);
        assert_eq!(
            left,
            [&expected[..], &[[30.0, 2.0], [20.0, 3.0], [21.0, 4.0], [50.0, 0.5]]].concat(),
            "three without jobs, and the last is predicted best"
        );
    }
}
