//! What a run prints for programs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::JobId;
use crate::simulate::Settings;
use crate::simulate::run::Outcome;

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

/// A job's exchange, or its storage.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobRow {
    /// Slurm's id; null of all hosts.
    pub id: Option<JobId>,
    /// Its terminals.
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
