//! What a trial found: run times of repeated jobs on days with routes for them and on days without.
//!
//! Jobs of one user with one name on as many nodes are repetitions of one run. Days were drawn at random, so the
//! question is how often another draw would have shown as large a difference: the randomisation test (Fisher 1935).
//! It assumes nothing of how run times are spread, and knows that the jobs of one day have the day in common.

pub mod sacct;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::rng::Rng;
use crate::pass::trial::{Trial, kinds, pair_of};

/// A job that ran from its beginning to its end on one day of the trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Day of the trial, from 0.
    pub day: usize,
    /// What is the same when the job is repeated: user, name, nodes.
    pub kind: String,
    /// Seconds, more than 0.
    pub seconds: f64,
}

/// What is said of run times.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct Difference {
    /// Jobs that are repeated and ran on days of both kinds.
    pub jobs: usize,
    /// Of so many kinds.
    pub kinds: usize,
    /// How much less time they took with routes for them, in percent; negative is more.
    pub less_percent: f64,
    /// 95 of 100 such intervals have the true value inside, in percent.
    pub from_percent: f64,
    /// The other end.
    pub to_percent: f64,
}

/// Logarithm of the largest effect that is looked for.
const FURTHEST: f64 = 10.0;
/// Draws that are tried, all of them if there are no more.
const DRAWS: usize = 4000;
/// Of draws, that may look more different.
const LEVEL: f64 = 0.05;

/// Pairs of days from which a difference has bounds. With fewer, the most different draw and its contrary alone are
/// more than 5 % of all draws.
pub const LEAST_PAIRS: usize = 6;

/// Pairs of days on which some of the runs were.
pub fn pairs(runs: &[Run]) -> usize {
    runs.iter().map(|run| pair_of(run.day)).collect::<BTreeSet<_>>().len()
}

/// By day, the sums over its jobs of what a draw's difference needs.
struct Day {
    /// Logarithms of run times, without the mean of their kind.
    rest: f64,
    /// Jobs by kind.
    kinds: Vec<(usize, f64)>,
}

/// Of the runs of a trial. `None` if no kind ran on days of both kinds, or too few did for any bounds.
/// O(draws × runs).
pub fn difference(trial: &Trial, runs: &[Run]) -> Option<Difference> {
    let mut sides: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for run in runs {
        sides.entry(&run.kind).or_default()[usize::from(trial.days[run.day].with)] += 1;
    }
    sides.retain(|_, sides| sides[0] > 0 && sides[1] > 0);
    let number: BTreeMap<&str, usize> = sides.keys().enumerate().map(|(i, kind)| (*kind, i)).collect();
    let used: Vec<(usize, usize, f64)> =
        runs.iter().filter_map(|r| Some((*number.get(r.kind.as_str())?, r.day, r.seconds.ln()))).collect();
    if used.is_empty() {
        return None;
    }
    let days = Days::new(trial.days.len(), number.len(), &used);
    let own = as_numbers(trial.days.iter().map(|day| day.with));
    let least = days.effect(&own, &own)?;
    let (from, to) = days.interval(&own, least)?;
    let less = |log: f64| 100.0 * (1.0 - log.exp());
    Some(Difference {
        jobs: used.len(),
        kinds: number.len(),
        less_percent: less(least.of_times),
        from_percent: less(to),
        to_percent: less(from),
    })
}

/// A draw's difference is linear in the run times: if the true effect is `e`, a draw shows
/// `of_times - e × of_draw`.
#[derive(Debug, Clone, Copy)]
struct Effect {
    of_times: f64,
    of_draw: f64,
}

struct Days {
    days: Vec<Day>,
    /// Jobs by kind.
    jobs: Vec<f64>,
}

impl Days {
    /// From kind, day and logarithm of the run time of each job.
    fn new(days: usize, kinds: usize, used: &[(usize, usize, f64)]) -> Self {
        let (mut jobs, mut sums) = (vec![0.0; kinds], vec![0.0; kinds]);
        for (kind, _, log) in used {
            jobs[*kind] += 1.0;
            sums[*kind] += log;
        }
        let mut counts: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); days];
        let mut rest = vec![0.0; days];
        for (kind, day, log) in used {
            *counts[*day].entry(*kind).or_default() += 1.0;
            rest[*day] += log - sums[*kind] / jobs[*kind];
        }
        let day =
            |(kinds, rest): (BTreeMap<usize, f64>, f64)| Day { rest, kinds: kinds.into_iter().collect() };
        Self { days: counts.into_iter().zip(rest).map(day).collect(), jobs }
    }

    /// Least squares with a mean of its own for each kind: what a draw's days (1 with, 0 without) seem to make.
    /// `None` if all of each kind ran on one side.
    fn effect(&self, draw: &[f64], own: &[f64]) -> Option<Effect> {
        let (mut with, mut own_with) = (vec![0.0; self.jobs.len()], vec![0.0; self.jobs.len()]);
        let (mut times, mut both) = (0.0, 0.0);
        for ((day, side), own) in self.days.iter().zip(draw).zip(own) {
            times += side * day.rest;
            for (kind, jobs) in &day.kinds {
                with[*kind] += side * jobs;
                own_with[*kind] += own * jobs;
                both += side * own * jobs;
            }
        }
        let spread: f64 = with.iter().zip(&self.jobs).map(|(w, n)| w - w * w / n).sum();
        let common: f64 = with.iter().zip(&own_with).zip(&self.jobs).map(|((w, o), n)| w * o / n).sum();
        (spread > 0.0).then(|| Effect { of_times: times / spread, of_draw: (both - common) / spread })
    }

    /// Effects that the test does not refuse: those for which at least [`LEVEL`] of the draws differ as much
    /// from none as the draw of the trial.
    /// `None` if it has no end: there are too few days or jobs.
    fn interval(&self, own: &[f64], found: Effect) -> Option<(f64, f64)> {
        let draws: Vec<Effect> = draws(own.len()).iter().filter_map(|d| self.effect(d, own)).collect();
        let stands = |e: f64| {
            let shown = (found.of_times - e).abs() - 1e-12;
            let as_far = draws.iter().filter(|d| (d.of_times - e * d.of_draw).abs() >= shown).count();
            as_far as f64 > LEVEL * draws.len() as f64
        };
        let end = |sign: f64| {
            let (mut inside, mut outside) = (0.0, 1e-4);
            while stands(found.of_times + sign * outside) && outside < FURTHEST {
                (inside, outside) = (outside, 2.0 * outside);
            }
            if outside >= FURTHEST {
                return None;
            }
            for _ in 0..40 {
                let middle = 0.5 * (inside + outside);
                match stands(found.of_times + sign * middle) {
                    true => inside = middle,
                    false => outside = middle,
                }
            }
            Some(found.of_times + sign * inside)
        };
        end(-1.0).zip(end(1.0))
    }
}

/// 1 for days with routes for jobs, 0 for days without.
fn as_numbers(with: impl IntoIterator<Item = bool>) -> Vec<f64> {
    with.into_iter().map(|with| f64::from(u8::from(with))).collect()
}

/// Draws as a trial makes them: all that there are, or [`DRAWS`] of them.
fn draws(days: usize) -> Vec<Vec<f64>> {
    let pairs = days / 2;
    if pairs < 12 {
        return (0..1_usize << pairs)
            .map(|bits| as_numbers(kinds(days, |pair| bits >> pair & 1 == 1)))
            .collect();
    }
    let mut rng = Rng::new(1);
    (0..DRAWS).map(|_| as_numbers(kinds(days, |_| rng.below(2) == 0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::trial::midnights;

    #[test]
    fn jobs_that_ran_on_one_side_say_nothing() {
        let trial = Trial::draw(&midnights(14), "updown", 1).unwrap();
        let day = |with| trial.days.iter().position(|d| d.with == with).unwrap();
        let run = |with, kind: &str, seconds| Run { day: day(with), kind: kind.to_string(), seconds };
        let alone = [run(true, "a", 10.0), run(false, "b", 100.0)];
        assert_eq!(difference(&trial, &alone), None);
        let both = [run(true, "a", 10.0), run(false, "a", 10.0), run(false, "b", 100.0)];
        assert_eq!(difference(&trial, &both), None, "two jobs have no bounds");
        let daily = |day| Run { day, kind: "a".to_string(), seconds: 10.0 };
        let daily: Vec<Run> = (0..14).map(daily).chain([run(false, "b", 100.0)]).collect();
        let found = difference(&trial, &daily).unwrap();
        assert!((found.jobs, found.kinds) == (14, 1) && found.less_percent.abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn six_pairs_of_days_have_bounds_and_five_have_none() {
        let trial = Trial::draw(&midnights(14), "updown", 1).unwrap();
        let on = |days: &[usize]| -> Vec<Run> {
            let seconds = |day: &usize| 100.0 + *day as f64;
            days.iter().map(|day| Run { day: *day, kind: "a".to_string(), seconds: seconds(day) }).collect()
        };
        // The first is a Monday.
        let working_days = [0, 1, 2, 3, 4, 7, 8, 9, 10, 11];
        let with_saturdays = [&working_days[..], &[5, 12]].concat();
        let (five, six) = (on(&working_days), on(&with_saturdays));
        assert_eq!((pairs(&five), difference(&trial, &five)), (LEAST_PAIRS - 1, None));
        assert!(pairs(&six) == LEAST_PAIRS && difference(&trial, &six).is_some());
    }
}
