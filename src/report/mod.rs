//! Figures for people and programs: `report.json`, text, plots, HTML.

pub mod bars;
pub mod cost;
pub mod curves;
pub mod demo_page;
pub mod heat_map;
pub mod histogram;
pub mod inventory;
pub mod layout;
pub mod map_layout;
pub mod page;
pub mod replay_page;
pub mod sheet;
pub mod svg;
pub mod time;

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::time::JobTimes;
use crate::measure::{Effective, Figures, Load, Measure, Paths, StorageLoad};
use crate::model::Fabric;
use crate::route::RouteError;

/// `report.json`, and a row of `compare --format json`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
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
    /// Predicted time of jobs: the leading figure.
    #[serde(default)]
    pub time: JobTimes,
    /// All host-to-host routes.
    pub load: Load,
    /// Routes inside jobs.
    pub effective: Effective,
    /// Path lengths.
    pub paths: Paths,
    /// Routes of storage; left out where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageLoad>,
}

/// Size and identity of a fabric.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FabricSummary {
    /// With and without hosts.
    pub switches: usize,
    /// Ports of hosts.
    pub terminals: usize,
    /// Directed inter-switch channels.
    pub inter_switch_channels: usize,
    /// See [`crate::model::Fingerprint`].
    pub fingerprint: String,
}

/// How many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct JobsSummary {
    /// Jobs that own nodes.
    pub running: usize,
    /// Those on at least two switches.
    pub multi_switch: usize,
}

/// Cost of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Compute {
    /// CPU seconds of the engine, all threads.
    pub cpu_seconds: f64,
    /// Wall-clock seconds of the engine.
    pub wall_seconds: f64,
    /// Largest resident set of the process so far, bytes.
    pub peak_rss_bytes: u64,
}

/// Virtual layers allowed and used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Layers {
    /// Allowed.
    pub budget: u8,
    /// Highest number of a layer with routes, plus one.
    pub used: u8,
}

/// The checker's answer; each finding as an object with a `kind`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct VerdictSummary {
    /// Whether the tables may be used.
    pub accepted: bool,
    /// Why not.
    pub findings: Vec<serde_json::Value>,
}

/// That tables of a site are not fit for use.
pub fn rejected_sentence(name: &str, why: &str) -> String {
    format!("The checker rejects the tables {name}, whatever time they take: {why}. ")
}

/// Why an engine made no tables: what stands in the place of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Refusal {
    /// Name of who found no tables.
    pub engine: String,
    /// Its reason.
    pub refused: RefusalReason,
}

/// The reason of a [`Refusal`].
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RefusalReason {
    /// `out_of_budget`, `not_applicable`, `unknown_engine` or `bug`.
    pub kind: String,
    /// For people.
    pub message: String,
    /// Layers that would have been needed, for `out_of_budget`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<usize>,
}

impl Refusal {
    /// Of an engine's answer.
    pub fn new(engine: &str, error: &RouteError) -> Self {
        let (kind, needed) = match error {
            RouteError::OutOfBudget { needed, .. } => ("out_of_budget", Some(*needed)),
            RouteError::NotApplicable { .. } => ("not_applicable", None),
            RouteError::UnknownEngine(_) => ("unknown_engine", None),
            RouteError::Tables(_) => ("bug", None),
        };
        let refused = RefusalReason { kind: kind.to_string(), message: error.to_string(), needed };
        Self { engine: engine.to_string(), refused }
    }
}

/// Cells as text, columns aligned to the right, the first to the left.
pub fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |c: usize| lines.iter().filter_map(|l| l.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(i, (s, w))| if i == 0 { format!("{s:<w$}") } else { format!("{s:>w$}") });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

impl FabricSummary {
    /// Of a fabric.
    pub fn of(fabric: &Fabric) -> Self {
        Self {
            switches: fabric.switches().len(),
            terminals: fabric.host_ids().count(),
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
            time: JobTimes { all: figures.time, ..JobTimes::default() },
            load: figures.load,
            effective: figures.effective,
            paths: figures.paths,
            storage: figures.storage,
        }
    }

    /// What the tables are worth.
    pub fn figures(&self) -> Figures {
        Figures {
            time: self.time.all,
            load: self.load,
            effective: self.effective,
            paths: self.paths,
            layers_used: self.layers.used,
            storage: self.storage,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Self { engine, fabric, jobs, compute, layers, verdict, .. } = self;
        let verdict = if verdict.accepted { "accepted" } else { "rejected" };
        let mut out = format!(
            "engine        {engine}: {:.3} s CPU, {} of {} layers, {verdict}\n\
             fabric        {} switches, {} terminals, {} channels\n\
             jobs          {}, {} of them on several switches\n",
            compute.cpu_seconds,
            layers.used,
            layers.budget,
            fabric.switches,
            fabric.terminals,
            fabric.inter_switch_channels,
            jobs.running,
            jobs.multi_switch,
        );
        for (name, said) in Measure::lines(&self.figures()) {
            let _ = writeln!(out, "{name:14}{said}");
        }
        out
    }
}
