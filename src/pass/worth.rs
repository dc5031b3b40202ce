//! Whether other routes for other jobs are worth their price.
//!
//! Gain: what running jobs save until the epoch after this one, in node-hours: that time or the rest of a job, times
//! its nodes, times the share that the predicted slow-downs of old and new tables let it save. What comes after the
//! next epoch is not counted: by then other jobs run, and routes for them cost or gain whatever was done now.
//!
//! Price: a stretch of time of the whole machine, and the more of it the more running connections move to other ways.
//! It is fixed, or it is found: each epoch makes the next one dearer, and the price falls as time passes, so that there
//! are so many epochs a day on any site, those of the largest gains ([`Price::epochs_per_day`]). Where it is
//! fixed, the next epoch is taken to be as far off as the last one is back: what has been wanted for long counts more.
//!
//! Predicting is cheap, routing is dear: as no tables let a job communicate faster than its terminals' own
//! cables, the most that could be gained is known before anything is routed.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::{Policy, Published};
use super::tally::Tally;
use crate::measure::{self, Time};
use crate::model::{Demand, Fabric, Group, Job, JobMap, JobState, NodeMap, Tables};
use crate::verify;

/// What an administrator asks of a change of routes that jobs alone cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// What it must save: so much time of the whole machine. Zero: nothing, every difference is published. With
    /// [`Price::epochs_per_day`] the least that the price falls to.
    pub min_gain: TimeDelta,
    /// Changes a day at which the price neither rises nor falls; 0: the price is `min_gain`.
    pub epochs_per_day: u16,
    /// Least time since the epoch before.
    pub min_pause: TimeDelta,
    /// Percent of its time that a job communicates where no other traffic is in its way.
    pub communication: u8,
}

impl Price {
    /// Every difference is published, at once.
    pub const NONE: Self = Self {
        min_gain: TimeDelta::zero(),
        epochs_per_day: 0,
        min_pause: TimeDelta::zero(),
        communication: 30,
    };

    /// Whether nothing is asked of a change.
    fn is_none(self) -> bool {
        self.min_gain <= TimeDelta::zero() && self.epochs_per_day == 0
    }

    /// What the next change must save, in node-hours of a machine of so many `nodes`, if the last one had to save
    /// `asked`, so many `hours` ago.
    fn asked(self, nodes: f64, asked: Option<f64>, hours: f64) -> f64 {
        let of_machine = |seconds: f64| seconds / 3600.0 * nodes;
        let fixed = of_machine(self.min_gain.as_seconds_f64());
        if self.epochs_per_day == 0 {
            return fixed;
        }
        let day = hours / 24.0 * f64::from(self.epochs_per_day);
        let falls = |asked: f64| asked * STEP.powf(1.0 - day);
        asked.map_or(of_machine(FIRST), falls).max(fixed).max(of_machine(LEAST))
    }

    /// Hours until a price has fallen by a factor, if it falls. See [`Price::asked`].
    fn hours_to_fall(self, factor: f64) -> f64 {
        factor.ln() / STEP.ln() * 24.0 / f64::from(self.epochs_per_day)
    }

    /// Share of its time that a job at this slow-down loses to contention. 0 at slow-down 1.
    pub fn lost(self, slowdown: f64) -> f64 {
        self.saved(slowdown, 1.0)
    }

    /// Share of its time that a job saves if its slow-down becomes another; negative if it loses. A slow-down
    /// that is not finite, of routes that do not arrive, stands for no progress at all.
    fn saved(self, before: f64, after: f64) -> f64 {
        let share = f64::from(self.communication) / 100.0;
        match (before.is_finite(), after.is_finite()) {
            (true, true) => share * (before - after) / (1.0 - share + share * before),
            (false, true) => 1.0,
            (true, false) => -1.0,
            (false, false) => 0.0,
        }
    }
}

/// By how much each change makes the next one dearer, and what the price falls by in a day over the number of
/// changes that are wanted in it.
const STEP: f64 = 1.2;
/// The first price, and the least, where it is found: seconds of the whole machine.
const FIRST: f64 = 100.0;
const LEAST: f64 = 1.0;
/// What the price rises by if all running connections move. With one, four times as much, tables made anew are hardly ever
/// taken, and ten points less of what can be gained are.
const MOVES: f64 = 0.25;
/// Hours ahead for which a change counts: until the next one, as far as is known.
const AHEAD: f64 = 1.0;
/// Hours after which nobody asks again whether the same change has become worth its price.
const LONGEST: f64 = 7.0 * 24.0;

/// What a change is worth, in node-hours, and what it would have to be.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Worth {
    /// What the running jobs save by the new routes until the next change; `None`: they were not computed.
    pub gain: Option<f64>,
    /// The most that any routes could save.
    pub at_most: f64,
    /// What a change must save.
    pub price: f64,
    /// The same where no connection moves: what the price of the next change is made of.
    #[serde(default)]
    pub asked: f64,
    /// Geometric mean of the running jobs' slow-downs with the tables in force.
    pub slowdown: f64,
    /// The same with the new tables.
    pub slowdown_after: Option<f64>,
    /// Share of the connections inside jobs served before that the new tables lead another way, 0..=1.
    pub moved: Option<f64>,
    /// LFT blocks of 64 entries that differ.
    pub changed_blocks: Option<usize>,
    /// The epoch before is too young: no change for jobs alone before then.
    pub not_before: Option<DateTime<Utc>>,
    /// When the same change may have become worth its price, which falls, or as it has been wanted for long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<DateTime<Utc>>,
}

impl Worth {
    /// Whether the change pays.
    pub fn is_paid(&self) -> bool {
        self.not_before.is_none() && self.gain.is_some_and(|gain| gain >= self.price)
    }
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gain {
            Some(gain) => write!(f, "{gain:.3}")?,
            None => write!(f, "at most {:.3}", self.at_most)?,
        }
        write!(f, " node-hours, price {:.3}", self.price)
    }
}

/// Jobs that send over cables between switches now.
#[derive(Debug, Clone)]
pub struct Running {
    /// One group each.
    demand: Demand,
    /// Nodes of each.
    nodes: Vec<f64>,
    /// Hours that each has left.
    hours: Vec<f64>,
}

impl Running {
    /// Those of a snapshot that are on several switches, and neither over nor suspended. O(sum of job sizes ×
    /// log nodes).
    pub fn of(fabric: &Fabric, nodes: &NodeMap, jobs: &JobMap) -> Self {
        let mut running = Self { demand: Demand::default(), nodes: Vec::new(), hours: Vec::new() };
        for job in nodes.place(jobs).jobs.iter().filter(|job| job.ranks.is_multi_switch(fabric)) {
            let left = job.parts.iter().map(|i| hours_left(&jobs.jobs[*i], jobs.time)).fold(0.0, f64::max);
            if left > 0.0 {
                running.demand.groups.push(job.ranks.group());
                running.nodes.push(job.ranks.nodes as f64);
                running.hours.push(left);
            }
        }
        running
    }

    /// One group each.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Slow-down of each. As [`measure::slowdowns`].
    pub fn slowdowns(&self, fabric: &Fabric, tables: &Tables) -> Vec<f64> {
        measure::slowdowns(fabric, tables, &self.demand)
    }

    /// Node-hours that all of them lose to contention in an hour, at these slow-downs. O(jobs).
    pub fn lost(&self, slowdowns: &[f64], price: Price) -> f64 {
        slowdowns.iter().zip(&self.nodes).map(|(slowdown, nodes)| price.lost(*slowdown) * nodes).sum()
    }
}

/// A change for jobs alone that is to be judged.
pub(super) struct Question<'a> {
    fabric: &'a Fabric,
    in_force: &'a Published,
    demand: &'a Demand,
    price: Price,
    running: Running,
    /// Nodes of the machine.
    nodes: f64,
    now: DateTime<Utc>,
    /// When the change before was made; `None`: not known.
    begun: Option<DateTime<Utc>>,
    /// What it had to save; `None`: not known.
    asked: Option<f64>,
    /// Hours since the change before; `None`: not known.
    since: Option<f64>,
    /// Slow-downs of the running jobs with the tables in force.
    before: Vec<f64>,
}

/// The change before.
struct Before {
    begun: Option<DateTime<Utc>>,
    asked: Option<f64>,
    /// Since then.
    hours: Option<f64>,
}

impl Before {
    /// Where the clock was set back, it is not known how long ago that was: nothing waits for it.
    fn of(in_force: &Published, now: DateTime<Utc>) -> Self {
        let begun = in_force.since.filter(|begun| *begun <= now);
        let asked = in_force.asked.filter(|_| begun.is_some() || in_force.since.is_none());
        Self { begun, asked, hours: begun.map(|begun| (now - begun).as_seconds_f64() / 3600.0) }
    }
}

impl<'a> Question<'a> {
    /// `None` if there is no question: the settings want every difference, or a promise is at stake.
    /// `demand` is what `jobs` ask for. As [`measure::slowdowns`].
    pub(super) fn new(
        (fabric, nodes): (&'a Fabric, &NodeMap),
        jobs: &JobMap,
        demand: &'a Demand,
        in_force: Option<&'a Published>,
        policy: &Policy,
    ) -> Option<Self> {
        let in_force = in_force?;
        let price = policy.price;
        let is_whole = |g: &Group| verify::layers_of_group(fabric, &in_force.tables, g).len() <= 1;
        if price.is_none()
            || in_force.tables.layers_used() > policy.budget.get()
            || (policy.layer_per_job && !demand.groups.iter().all(is_whole))
        {
            return None;
        }
        let running = Running::of(fabric, nodes, jobs);
        let before = running.slowdowns(fabric, &in_force.tables);
        let nodes = (nodes.names().count() + nodes.unnamed().len()) as f64;
        let now = jobs.time;
        let Before { begun, asked, hours: since } = Before::of(in_force, now);
        Some(Self { fabric, in_force, demand, price, running, nodes, now, begun, asked, since, before })
    }

    /// Node-hours saved by tables with these slow-downs.
    fn gain(&self, after: impl Iterator<Item = f64>) -> f64 {
        let saved = self.before.iter().zip(after).map(|(before, after)| self.price.saved(*before, after));
        let jobs = self.running.nodes.iter().zip(&self.running.hours);
        let ahead = self.ahead();
        saved.zip(jobs).map(|(saved, (nodes, hours))| saved * nodes * hours.min(ahead)).sum()
    }

    /// Hours until the change after this one, as far as they are known.
    fn ahead(&self) -> f64 {
        match self.price.epochs_per_day {
            0 => self.since.unwrap_or(AHEAD).max(AHEAD),
            _ => AHEAD,
        }
    }

    /// When what does not pay now may do so, if no other job starts: at a price that falls, or after the longer time.
    fn again(&self, gain: f64, price: f64) -> Option<DateTime<Utc>> {
        let missing = price / gain;
        let hours = match self.price.epochs_per_day {
            0 => self.ahead() * missing - self.since?,
            _ => self.price.hours_to_fall(missing),
        };
        // Prices do not fall for ever; what gains nothing would have to wait for ever, too.
        let is_reached =
            self.price.epochs_per_day == 0 || gain >= self.price.asked(self.nodes, Some(0.0), 0.0);
        let seconds = (hours.clamp(0.0, LONGEST) * 3600.0).ceil() as i64;
        (missing > 1.0 && is_reached && hours < LONGEST)
            .then(|| self.now + TimeDelta::seconds(seconds.max(SOONEST)))
    }

    /// As far as it is known without new tables.
    fn unrouted(&self) -> Worth {
        let earliest = self.begun.map(|begun| begun + self.price.min_pause);
        let asked = self.price.asked(self.nodes, self.asked, self.since.unwrap_or(0.0));
        let at_most = self.gain(std::iter::repeat(1.0));
        Worth {
            gain: None,
            at_most,
            price: asked,
            asked,
            slowdown: Time::of(&self.before).slowdown_mean,
            slowdown_after: None,
            moved: None,
            changed_blocks: None,
            not_before: earliest.filter(|earliest| self.now < *earliest),
            again: self.again(at_most, asked),
        }
    }

    /// The answer, if it is no whatever the new tables are.
    pub(super) fn refused(&self) -> Option<Worth> {
        let worth = self.unrouted();
        (worth.not_before.is_some() || worth.at_most < worth.price).then_some(worth)
    }

    /// The answer for new tables. As [`measure::slowdowns`] and [`measure::moved_share`].
    pub(super) fn judged(&self, tables: &Tables) -> Worth {
        let after = self.running.slowdowns(self.fabric, tables);
        // Connections of jobs that are over move nobody.
        let mut wanted = Tally::of(&self.demand.groups);
        let served = self.in_force.demand.groups.iter().filter(|group| wanted.take(group));
        let served: Vec<&Group> = served.collect();
        let moved = measure::moved_share(self.fabric, &self.in_force.tables, tables, &served);
        let known = self.unrouted();
        let (gain, price) = (self.gain(after.iter().copied()), known.asked * (1.0 + MOVES * moved));
        Worth {
            gain: Some(gain),
            price,
            again: self.again(gain, price),
            slowdown_after: Some(Time::of(&after).slowdown_mean),
            moved: Some(moved),
            changed_blocks: tables.changed_blocks(self.fabric, &self.in_force.tables),
            ..known
        }
    }
}

/// Seconds until the same change is judged again, at least.
const SOONEST: i64 = 60;

/// Hours until a job ends: its time limit tells. Without one it is taken to run as long again as it has run, an
/// hour at least. None for a job that does not compute now.
fn hours_left(job: &Job, now: DateTime<Utc>) -> f64 {
    if matches!(job.state, JobState::Completing | JobState::Suspended) {
        return 0.0;
    }
    let hour = TimeDelta::hours(1);
    let left = match job.end {
        Some(end) => end - now,
        None => job.start.map_or(hour, |start| (now - start).max(hour)),
    };
    left.as_seconds_f64().max(0.0) / 3600.0
}

#[cfg(test)]
mod tests;
