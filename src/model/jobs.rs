//! Which job runs on which nodes, as the batch system says it.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{JobId, NodeName};

/// The states of Slurm in which a job owns nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// Nodes are being prepared (a prolog runs, nodes boot).
    Configuring,
    /// The job runs.
    Running,
    /// The job is over and its nodes are being cleaned.
    Completing,
}

/// One job that owns nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Slurm's id.
    pub id: JobId,
    /// Slurm's state.
    pub state: JobState,
    /// The allocated nodes, sorted, without repetition.
    pub nodes: Vec<NodeName>,
    /// When the job started, if the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<DateTime<Utc>>,
    /// When it ends at the latest, if it has a time limit and the source says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<DateTime<Utc>>,
}

/// A snapshot of all jobs that own nodes (also the snapshot format of `--jobs`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobMap {
    /// When the snapshot was taken.
    pub time: DateTime<Utc>,
    /// The jobs, sorted by id.
    pub jobs: Vec<Job>,
}

impl Job {
    /// A job whose nodes are sorted and deduplicated.
    pub fn new(id: JobId, state: JobState, mut nodes: Vec<NodeName>, start: Option<DateTime<Utc>>) -> Self {
        nodes.sort_unstable();
        nodes.dedup();
        Self { id, state, nodes, start, end: None }
    }

    /// The same with a latest end.
    #[must_use]
    pub fn ending(mut self, end: Option<DateTime<Utc>>) -> Self {
        self.end = end;
        self
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
        Self { time, jobs }
    }
}
