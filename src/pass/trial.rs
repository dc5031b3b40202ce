//! A trial: days with routes for jobs and days without, drawn at random, so that an administrator learns what the
//! routes are worth to his users. No clock here: the days come in as instants.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::rng::Rng;

/// Two weeks: the days of a trial come in pairs of the same weekday, one of each kind.
const PAIR: usize = 14;

/// Which of so many days are with routes for jobs, if of each pair, by its number, the first or the second is.
pub fn kinds(days: usize, mut is_first: impl FnMut(usize) -> bool) -> Vec<bool> {
    let mut with = vec![false; days];
    for pair in 0..days / 2 {
        let first = pair / (PAIR / 2) * PAIR + pair % (PAIR / 2);
        with[if is_first(pair) { first } else { first + PAIR / 2 }] = true;
    }
    with
}

/// The pair of a day, both by their numbers.
pub fn pair_of(day: usize) -> usize {
    day / PAIR * (PAIR / 2) + day % (PAIR / 2)
}

/// A day of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Day {
    /// When it begins: midnight at the site.
    pub from: DateTime<Utc>,
    /// Whether jobs are routed for.
    pub with: bool,
}

/// A schedule of days.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Trial {
    /// Seed of the draw.
    pub seed: u64,
    /// The engine of the days without: one that knows no jobs.
    pub without: String,
    /// In order.
    pub days: Vec<Day>,
    /// When the last one ends.
    pub until: DateTime<Utc>,
}

impl Trial {
    /// Draws the kinds of days that begin at these instants; the last instant is the end. In each two weeks
    /// one day of each weekday is with routes for jobs and the other without. `None` if these are not whole
    /// pairs of weeks in ascending order.
    pub fn draw(midnights: &[DateTime<Utc>], without: &str, seed: u64) -> Option<Self> {
        let (until, begins) = midnights.split_last()?;
        if begins.is_empty() || begins.len() % PAIR != 0 || !midnights.is_sorted() {
            return None;
        }
        let mut rng = Rng::new(seed);
        let with = kinds(begins.len(), |_| rng.below(2) == 0);
        let days = begins.iter().zip(with).map(|(from, with)| Day { from: *from, with }).collect();
        Some(Self { seed, without: without.to_string(), days, until: *until })
    }

    /// The day of an instant, counted from 0; `None` before and after the trial.
    pub fn day(&self, at: DateTime<Utc>) -> Option<usize> {
        let begun = self.days.partition_point(|day| day.from <= at);
        (begun > 0 && at < self.until).then(|| begun - 1)
    }

    /// The engine that takes the place of that of the settings; `None` on days with routes for jobs, before and
    /// after.
    pub fn engine(&self, at: DateTime<Utc>) -> Option<&str> {
        let day = self.day(at)?;
        (!self.days[day].with).then_some(self.without.as_str())
    }
}

/// So many days that begin an hour before midnight, and the end of the last.
#[cfg(test)]
pub(crate) fn midnights(days: i64) -> Vec<DateTime<Utc>> {
    let first: DateTime<Utc> = "2026-03-01T23:00:00Z".parse().unwrap();
    (0..=days).map(|d| first + chrono::TimeDelta::days(d)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, TimeDelta};

    #[test]
    fn each_weekday_is_as_often_with_as_without() {
        for seed in 0..50 {
            let trial = Trial::draw(&midnights(28), "updown", seed).unwrap();
            for weekday in 0..7 {
                let of = |d: &&Day| d.from.weekday().num_days_from_monday() == weekday;
                let with = trial.days.iter().filter(of).filter(|d| d.with).count();
                assert_eq!(with, 2, "seed {seed}, weekday {weekday}");
            }
        }
        let drawn = |seed| Trial::draw(&midnights(14), "updown", seed).unwrap();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1).days, drawn(2).days);
        // A seed means the same days in every version.
        let days: String = drawn(1).days.iter().map(|day| if day.with { '+' } else { '-' }).collect();
        assert_eq!(days, "---++--+++--++");
        let backwards: Vec<DateTime<Utc>> = midnights(14).into_iter().rev().collect();
        for days in [midnights(13), midnights(0), Vec::new(), backwards] {
            assert_eq!(Trial::draw(&days, "updown", 1), None, "{days:?}");
        }
    }

    #[test]
    fn the_engine_changes_at_midnight_and_only_in_the_trial() {
        let trial = Trial::draw(&midnights(14), "updown", 7).unwrap();
        for (i, day) in trial.days.iter().enumerate() {
            let wanted = (!day.with).then_some("updown");
            assert_eq!((trial.day(day.from), trial.engine(day.from)), (Some(i), wanted));
            let before = day.from - TimeDelta::seconds(1);
            assert_eq!(trial.day(before), i.checked_sub(1));
        }
        assert_eq!((trial.day(trial.until), trial.engine(trial.until)), (None, None));
    }
}
