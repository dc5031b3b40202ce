//! Which job runs on which nodes, as the batch system says it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{JobId, Mix, NodeName, Submitted, Traffic, TrafficRules, without_repetition};

/// The states of Slurm in which a job owns nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// Nodes are being prepared (a prolog runs, nodes boot).
    Configuring,
    /// The job runs.
    Running,
    /// The job is stopped on its nodes and will run on: gang scheduling, preemption, an administrator.
    Suspended,
    /// The job is over and its nodes are being cleaned.
    Completing,
}

/// Which part of a heterogeneous job a job of the batch system is.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Component {
    /// Id of the heterogeneous job: that of its first component.
    pub of: JobId,
    /// Place among the components, from 0.
    pub offset: u32,
}

/// One job that owns nodes.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Job {
    /// Slurm's id.
    pub id: JobId,
    /// Slurm's state.
    pub state: JobState,
    /// The allocated nodes in the order of the batch system's list, which is the order of ranks;
    /// without repetition.
    pub nodes: Vec<NodeName>,
    /// When the job started, if the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<DateTime<Utc>>,
    /// When it ends at the latest, if it has a time limit and the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<DateTime<Utc>>,
    /// Set for a part of a heterogeneous job, whose parts compute together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<Component>,
    /// What it says that it exchanges, see [`super::hint()`], or what a rule of the site guesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// Whether that is a guess.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
    /// Who submitted it, if the source says it: in memory alone, nothing writes it.
    #[serde(skip)]
    pub submitted: Submitted,
}

/// Whether two lists hold the same nodes, in whatever order and however often. O(nodes × log nodes).
pub fn same_nodes(one: &[NodeName], other: &[NodeName]) -> bool {
    one == other || one.iter().collect::<BTreeSet<_>>() == other.iter().collect()
}

/// A snapshot of all jobs that own nodes (also the snapshot format of `--jobs`).
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct JobMap {
    /// When the snapshot was taken.
    pub time: DateTime<Utc>,
    /// The jobs, sorted by id.
    pub jobs: Vec<Job>,
    /// When the source said so, where that was before `time`: an answer that was kept, a file. Who is not listed may have
    /// started since. In memory alone, nothing writes it.
    #[serde(skip)]
    pub as_of: Option<DateTime<Utc>>,
}

impl Job {
    /// A job on nodes in rank order; repetitions are left out.
    pub fn new(id: JobId, state: JobState, nodes: Vec<NodeName>, start: Option<DateTime<Utc>>) -> Self {
        Self {
            id,
            state,
            nodes: without_repetition(nodes),
            start,
            end: None,
            component: None,
            mix: None,
            guessed: false,
            submitted: Submitted::default(),
        }
    }

    /// Whether it has just these nodes, in whatever order. O(nodes × log nodes).
    pub fn is_on(&self, nodes: &[NodeName]) -> bool {
        same_nodes(&self.nodes, nodes)
    }

    /// The same with a latest end.
    #[must_use]
    pub fn ending(mut self, end: Option<DateTime<Utc>>) -> Self {
        self.end = end;
        self
    }

    /// The same as a part of a heterogeneous job.
    #[must_use]
    pub fn part_of(mut self, component: Option<Component>) -> Self {
        self.component = component;
        self
    }

    /// The same with what it says that it exchanges.
    #[must_use]
    pub fn exchanging(mut self, mix: Option<Mix>) -> Self {
        self.mix = mix;
        self
    }

    /// What it says that it exchanges, or what is guessed of it.
    pub fn traffic(&self) -> Option<Traffic> {
        Some(Traffic { mix: self.mix.clone()?, guessed: self.guessed })
    }

    /// Is taken to exchange this, unless more is known: what it says itself now, or else what it said.
    pub fn is_told(&mut self, traffic: Traffic) {
        if self.mix.is_none() || self.guessed && !traffic.guessed {
            (self.mix, self.guessed) = (Some(traffic.mix), traffic.guessed);
        }
    }

    /// How long it may run, if that is known.
    pub fn length(&self) -> Option<TimeDelta> {
        self.end.zip(self.start).map(|(end, start)| end - start)
    }
}

impl JobMap {
    /// A snapshot whose jobs are sorted by id.
    pub fn new(time: DateTime<Utc>, mut jobs: Vec<Job>) -> Self {
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        Self { time, jobs, as_of: None }
    }

    /// When the source said so.
    pub fn known_at(&self) -> DateTime<Utc> {
        self.as_of.map_or(self.time, |as_of| as_of.min(self.time))
    }

    /// The same by another clock.
    #[must_use]
    pub fn by_clock(self, clock: impl Fn(DateTime<Utc>) -> DateTime<Utc>) -> Self {
        Self { time: clock(self.time), as_of: self.as_of.map(clock), jobs: self.jobs }
    }

    /// Guesses what jobs exchange that do not say it. O(jobs × rules).
    #[must_use]
    pub fn guessing(mut self, rules: &TrafficRules) -> Self {
        for job in &mut self.jobs {
            let guess = job.submitted.known().and_then(|submission| rules.guess(submission));
            guess.into_iter().for_each(|guess| job.is_told(guess));
        }
        self
    }

    /// What jobs that compute together exchange: of a heterogeneous job the first part
    /// that says something speaks for all. O(parts).
    pub fn traffic(&self, parts: &[usize]) -> Option<Traffic> {
        let of = |guessed: bool| {
            let mut jobs = parts.iter().map(|i| &self.jobs[*i]).filter(|job| job.guessed == guessed);
            jobs.find_map(Job::traffic)
        };
        of(false).or_else(|| of(true))
    }

    /// Jobs as they compute, by index: one each, the components of a heterogeneous job together and in their
    /// order. In the order of their first. O(jobs × log jobs).
    pub fn whole(&self) -> Vec<Vec<usize>> {
        let mut of: BTreeMap<&JobId, usize> = BTreeMap::new();
        let mut whole: Vec<Vec<usize>> = Vec::with_capacity(self.jobs.len());
        for (i, job) in self.jobs.iter().enumerate() {
            match job.component.as_ref().map(|c| of.entry(&c.of)) {
                Some(Entry::Occupied(at)) => whole[*at.get()].push(i),
                Some(Entry::Vacant(new)) => {
                    new.insert(whole.len());
                    whole.push(vec![i]);
                }
                None => whole.push(vec![i]),
            }
        }
        let offset = |i: &usize| self.jobs[*i].component.as_ref().map_or(0, |c| c.offset);
        whole.iter_mut().for_each(|parts| parts.sort_by_key(offset));
        whole
    }
}
