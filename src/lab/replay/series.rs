//! The results as rows: one per placement, snapshot and engine.

use std::io::{Read, Write};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::measure::{Effective, Time};

/// One engine at one snapshot. Nothing here depends on the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineSnapshot {
    /// Where the jobs' nodes come from.
    pub placement: String,
    /// Time of the snapshot.
    pub time: DateTime<Utc>,
    /// Name as `sarouter engines` lists it.
    pub engine: String,
    /// Jobs that run.
    pub jobs: usize,
    /// Those of them on several switches.
    pub multi_switch: usize,
    /// Largest effective EFI over all channels.
    pub max_effective: u64,
    /// No tables can have less.
    pub lower_bound: u64,
    /// Mean over jobs of the job's largest channel count.
    pub max_per_job_mean: f64,
    /// Share of channels that no job uses, 0..=1.
    pub dark_fiber: f64,
    /// Mean over jobs of the channels a job uses.
    pub links_per_job_mean: f64,
    /// 1 if other routes came into force at this snapshot.
    pub epoch: u8,
    /// 1 if other routes were due and there were none: those in force stayed.
    pub refused: u8,
    /// Host-to-host routes that became others; empty without an epoch or with nothing before it.
    pub routes_changed: Option<u64>,
    /// Blocks of 64 LFT entries that became others; empty as above.
    pub blocks_changed: Option<u64>,
    /// Node-hours that the jobs lose to contention until the next snapshot, as predicted.
    #[serde(default)]
    pub lost_node_hours: f64,
    /// Geometric mean of the jobs' slow-downs.
    #[serde(default = "nobody_waits")]
    pub slowdown_mean: f64,
    /// 95 of 100 jobs have at most this slow-down.
    #[serde(default = "nobody_waits")]
    pub slowdown_p95: f64,
    /// Geometric mean of the jobs' times in the packet simulator, us; empty where nobody asked, and after a deadlock.
    #[serde(default)]
    pub simulated_us: Option<f64>,
}

/// The slow-down in a series of before there was one.
fn nobody_waits() -> f64 {
    Time::default().slowdown_mean
}

impl EngineSnapshot {
    /// The figures of a row.
    pub fn set(&mut self, effective: &Effective, time: Time) {
        self.max_effective = effective.max;
        self.lower_bound = effective.lower_bound;
        self.max_per_job_mean = effective.max_per_job_mean;
        self.dark_fiber = effective.dark_fiber;
        self.links_per_job_mean = effective.links_per_job_mean;
        self.slowdown_mean = time.slowdown_mean;
        self.slowdown_p95 = time.slowdown_p95;
    }
}

/// What one reroute cost, on one thread. Differs from run to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// As in [`EngineSnapshot`].
    pub placement: String,
    /// As in [`EngineSnapshot`].
    pub time: DateTime<Utc>,
    /// As in [`EngineSnapshot`].
    pub engine: String,
    /// Deciding, routing and measuring before and after, as the service reports it.
    pub route_ms: f64,
    /// Checking.
    pub verify_ms: f64,
}

/// Writes rows as CSV with a header, even if there are none.
///
/// # Errors
/// Of the writer.
pub fn write<T: Serialize>(rows: &[T], header: &[&str], to: impl Write) -> Result<(), csv::Error> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(to);
    writer.write_record(header)?;
    rows.iter().try_for_each(|row| writer.serialize(row))?;
    writer.flush()?;
    Ok(())
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// With the line.
pub fn read<T: for<'de> Deserialize<'de>>(from: impl Read) -> Result<Vec<T>, csv::Error> {
    csv::Reader::from_reader(from).deserialize().collect()
}

/// Columns of [`EngineSnapshot`].
pub const ROW: &[&str] = &[
    "placement",
    "time",
    "engine",
    "jobs",
    "multi_switch",
    "max_effective",
    "lower_bound",
    "max_per_job_mean",
    "dark_fiber",
    "links_per_job_mean",
    "epoch",
    "refused",
    "routes_changed",
    "blocks_changed",
    "lost_node_hours",
    "slowdown_mean",
    "slowdown_p95",
    "simulated_us",
];

/// Columns of [`Cost`].
pub const COST: &[&str] = &["placement", "time", "engine", "route_ms", "verify_ms"];
