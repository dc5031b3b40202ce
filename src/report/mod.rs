//! Figures for people and programs: `report.json`, text, plots, HTML.

use serde::{Deserialize, Serialize};

use crate::measure::{Effective, Figures, Load, Paths};
use crate::model::Fabric;

/// `report.json`, and a row of `compare --format json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Engine that made the tables.
    pub engine: String,
    /// The fabric in numbers.
    pub fabric: FabricSummary,
    /// The jobs in numbers.
    pub jobs: JobsSummary,
    /// What the computation cost.
    pub compute: Compute,
    /// Virtual layers.
    pub layers: Layers,
    /// What the checker said.
    pub verdict: VerdictSummary,
    /// All host-to-host routes.
    pub load: Load,
    /// Routes inside jobs.
    pub effective: Effective,
    /// Path lengths.
    pub paths: Paths,
}

/// Size and identity of a fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricSummary {
    /// Switches.
    pub switches: usize,
    /// Terminals.
    pub terminals: usize,
    /// Directed inter-switch channels.
    pub inter_switch_channels: usize,
    /// See [`crate::model::Fingerprint`].
    pub fingerprint: String,
}

/// How many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobsSummary {
    /// Jobs that own nodes.
    pub running: usize,
    /// Those on at least two switches.
    pub multi_switch: usize,
}

/// Cost of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Compute {
    /// CPU seconds of the engine, all threads.
    pub cpu_seconds: f64,
    /// Wall-clock seconds of the engine.
    pub wall_seconds: f64,
    /// Largest resident set of the process so far, bytes.
    pub peak_rss_bytes: u64,
}

/// Virtual layers allowed and used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// Allowed.
    pub budget: u8,
    /// Used.
    pub used: u8,
}

/// The checker's answer; each finding as an object with a `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictSummary {
    /// Whether the tables may be used.
    pub accepted: bool,
    /// Why not.
    pub findings: Vec<serde_json::Value>,
}

impl FabricSummary {
    /// Of a fabric.
    pub fn of(fabric: &Fabric) -> Self {
        Self {
            switches: fabric.switches().len(),
            terminals: fabric.terminals().len(),
            inter_switch_channels: fabric.channels().len(),
            fingerprint: fabric.fingerprint().to_string(),
        }
    }
}

impl Report {
    /// Puts figures into a report.
    pub fn new(
        engine: &str,
        fabric: &Fabric,
        jobs: JobsSummary,
        layers: Layers,
        verdict: VerdictSummary,
        figures: Figures,
    ) -> Self {
        Self {
            engine: engine.to_string(),
            fabric: FabricSummary::of(fabric),
            jobs,
            compute: Compute::default(),
            layers,
            verdict,
            load: figures.load,
            effective: figures.effective,
            paths: figures.paths,
        }
    }
}
