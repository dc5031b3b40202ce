//! What a run prints for programs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::JobId;
use crate::simulate::Settings;
use crate::simulate::run::Outcome;
use crate::simulate::stats::mean_ci95;

/// All of it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Simulated<'a> {
    /// As given.
    pub fabric: &'a str,
    /// The engine, or what stood in its place.
    pub engine: &'a str,
    /// As given.
    pub traffic: &'a [String],
    /// Of all that is drawn.
    pub seed: u64,
    /// The hardware.
    pub settings: Settings,
    /// A run, or one for each load.
    pub runs: &'a [Outcome],
    /// What more is known of jobs or pairs.
    #[serde(flatten)]
    pub more: More,
}

/// What more is known; left out where it is not.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct More {
    /// Of each job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<JobRow>>,
    /// Of several seeds, for each load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub means: Option<Vec<MeanRow>>,
    /// Pairs that exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// Mean time of a round of each, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Vec<f64>>,
    /// What each got, Gbyte/s, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Vec<f64>>,
}

/// The runs of all seeds at one load. Of bisections the mean is the effective bisection bandwidth, as a share
/// of the full one (Hoefler, Mehlan, Lumsdaine, Rehm 2007).
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeanRow {
    /// As given; null for as much as possible.
    pub offered: Option<f64>,
    /// Runs.
    pub seeds: usize,
    /// Mean over seeds and hosts of what is accepted, as a share of a terminal's rate.
    pub accepted: f64,
    /// Half of the 95 % confidence interval over seeds; null of one run.
    pub ci95: Option<f64>,
}

impl MeanRow {
    /// Of runs at one load; those that ended in a deadlock accept what they did until then.
    pub fn of(runs: &[Outcome]) -> Self {
        let steady = runs.iter().filter_map(|run| run.steady);
        let (accepted, ci95) = mean_ci95(&steady.clone().map(|s| s.accepted).collect::<Vec<f64>>());
        Self { offered: steady.clone().next().and_then(|s| s.offered), seeds: runs.len(), accepted, ci95 }
    }
}

/// A job's exchange, or its storage.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobRow {
    /// Slurm's id; null of all hosts.
    pub id: Option<JobId>,
    /// Hosts that it runs on.
    pub terminals: usize,
    /// `reads` or `writes`; left out of an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<&'static str>,
    /// When its last message arrived; null if it never did.
    pub finished_ns: Option<f64>,
}

impl JobRow {
    /// It has not begun yet.
    pub fn new(id: Option<&JobId>, terminals: usize, storage: Option<&'static str>) -> Self {
        Self { id: id.cloned(), terminals, storage, finished_ns: None }
    }
}
