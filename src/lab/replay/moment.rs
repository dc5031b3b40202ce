//! The moment of a run that is worth a picture.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::series::EngineSnapshot;
use crate::measure;
use crate::model::{Fabric, Group, Tables};

/// The moment at which job-aware routes gained most over the first static engine: what is worth a
/// picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// As in [`EngineSnapshot`].
    pub placement: String,
    /// As in [`EngineSnapshot`].
    pub time: DateTime<Utc>,
    /// Largest effective EFI of the first static engine less that of the first job-aware one.
    pub gain: i64,
    /// Terminals of the largest job.
    pub largest_job: usize,
    /// Leaf switches it is on.
    pub largest_job_leaves: usize,
    /// Loads by channel, engine by engine.
    pub loads: Vec<Loads>,
}

impl Moment {
    /// What a snapshot gains; between engines of one kind only, what there is to see. `follows` says of each row
    /// whether its engine follows the jobs.
    pub fn gain(rows: &[EngineSnapshot], follows: &[bool]) -> i64 {
        let max =
            |kind| rows.iter().zip(follows).find(|(_, f)| **f == kind).map(|(r, _)| r.max_effective as i64);
        match (max(false), max(true)) {
            (Some(theirs), Some(ours)) => theirs - ours,
            (theirs, ours) => theirs.or(ours).unwrap_or(0),
        }
    }

    /// The moment of a row's snapshot. `groups` are its jobs, the largest first; `None` without any.
    pub fn new(
        fabric: &Fabric,
        row: &EngineSnapshot,
        gain: i64,
        groups: &[Group],
        engines: &[(&str, &Tables)],
    ) -> Option<Self> {
        let largest = groups.first()?;
        let loads = engines.iter().map(|(engine, tables)| Loads {
            engine: engine.to_string(),
            all: measure::effective_loads(fabric, tables, groups),
            largest_job: measure::effective_loads(fabric, tables, std::slice::from_ref(largest)),
        });
        let mut leaves: Vec<_> = largest.terminals.iter().map(|t| fabric.terminal(*t).switch).collect();
        leaves.sort_unstable();
        leaves.dedup();
        Some(Self {
            placement: row.placement.clone(),
            time: row.time,
            gain,
            largest_job: largest.terminals.len(),
            largest_job_leaves: leaves.len(),
            loads: loads.collect(),
        })
    }
}

/// What an engine put on the channels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loads {
    /// Name as `sarouter engines` lists it.
    pub engine: String,
    /// Routes inside jobs, by channel.
    pub all: Vec<u64>,
    /// Routes inside the largest job, by channel.
    pub largest_job: Vec<u64>,
}

/// The better of two moments; the first if they gain the same.
pub fn better(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    match (a, b) {
        (Some(a), Some(b)) if b.gain > a.gain => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}
