//! A run on disk, and parts of a run joined.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::kept;
use super::moment::{Moment, better};
use super::pages::page;
use super::run::Results;
use super::series::{self, Cost, EngineSnapshot};
use super::summary::{Summary, summarise};
use super::trace::FaultKind;
use crate::model::Fabric;
use crate::report::{FabricSummary, rejected_sentence};

/// One row per placement, snapshot and engine.
pub const SERIES: &str = "series.csv";
/// What each reroute cost: the only file that differs from run to run.
pub const TIMES: &str = "times.csv";
/// What was replayed.
pub const RUN: &str = "run.json";
/// See [`Moment`].
pub const MOMENT: &str = "moment.json";
/// The tables.
pub const SUMMARY: &str = "summary.json";
/// The same for people.
pub const SUMMARY_TEXT: &str = "summary.txt";
/// All of it to look at.
pub const REPORT: &str = "report.html";
/// Faults of the trace, line by line.
pub const FAULTS: &str = "bad-lines.txt";

/// What was replayed. Two parts of one run differ in `shard` alone.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Run {
    /// `--fabric` as given.
    pub fabric_source: String,
    /// Switches, hosts and cables that the trace was replayed on.
    pub fabric: FabricSummary,
    /// Where the jobs come from, and how many.
    pub trace: TraceSummary,
    /// Where nodes come from, run by run.
    pub placements: Vec<String>,
    /// Seed of random placement.
    pub seed: u64,
    /// Engines that took part.
    pub engines: Vec<String>,
    /// Those of them that follow the jobs.
    pub job_aware: Vec<String>,
    /// Engines that cannot route the fabric, and why.
    pub refused: BTreeMap<String, String>,
    /// Tables given with `--tables` that the checker rejects, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected: BTreeMap<String, String>,
    /// Virtual layers.
    pub layers: u8,
    /// All routes inside one job on one layer.
    pub layer_per_job: bool,
    /// Time of the first snapshot.
    pub from: chrono::DateTime<chrono::Utc>,
    /// Seconds between snapshots.
    pub every_seconds: i64,
    /// Snapshots per placement.
    pub snapshots: usize,
    /// Snapshots per chunk.
    pub chunk: usize,
    /// Which part of the run this is, from 1, and of how many; absent for a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

impl Run {
    /// What is wrong with tables that were given, a sentence each.
    pub fn warnings(&self) -> String {
        self.rejected.iter().map(|(name, why)| rejected_sentence(name, why)).collect()
    }
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Shard {
    /// From 1.
    pub index: usize,
    /// How many there are.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not I/N with 1 <= I <= N");
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let shard = Self { index: index.parse().map_err(|_| wrong())?, of: of.parse().map_err(|_| wrong())? };
        if (1..=shard.of).contains(&shard.index) { Ok(shard) } else { Err(wrong()) }
    }
}

impl Shard {
    /// Its share of chunks or runs: every N-th, so that shares are alike.
    pub fn of<T>(self, all: Vec<T>) -> Vec<T> {
        all.into_iter().skip(self.index - 1).step_by(self.of).collect()
    }
}

/// A trace in short.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct TraceSummary {
    /// File name or spec.
    pub name: String,
    /// `sacct`, `swf` or how else the file is written.
    pub format: String,
    /// SHA-256.
    pub digest: String,
    /// Jobs or snapshots used.
    pub entries: usize,
    /// Entries that never held nodes.
    pub passed_over: usize,
    /// Number of faults by kind.
    pub faults: BTreeMap<FaultKind, usize>,
}

/// A run read or about to be written.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was replayed.
    pub run: Run,
    /// Rows in the order of placement, time, engine.
    pub rows: Vec<EngineSnapshot>,
    /// Costs in the same order.
    pub costs: Vec<Cost>,
    /// What is worth a picture.
    pub moment: Option<Moment>,
}

/// Why parts cannot be joined, or files not used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The parts are not those of one run, or not all of them.
    #[error("{0}")]
    Parts(String),
}

impl Outcome {
    /// Of a computation.
    pub fn new(run: Run, results: Results) -> Self {
        Self { run, rows: results.rows, costs: results.costs, moment: results.moment }
    }

    /// The tables, by placement.
    pub fn summaries(&self) -> Vec<Summary> {
        let Run { engines, job_aware, every_seconds, .. } = &self.run;
        let of = |p: &String| summarise(p, &self.rows, engines, job_aware, *every_seconds);
        self.run.placements.iter().map(of).collect()
    }

    /// File names and contents: everything that does not differ from run to run, then the times.
    ///
    /// # Errors
    /// Of the encoders; never in practice.
    pub fn files(&self, fabric: &Fabric) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut files = vec![(RUN.to_string(), pretty(&self.run)?)];
        let mut csv = Vec::new();
        series::write(&self.rows, series::ROW, &mut csv).map_err(io::Error::other)?;
        files.push((SERIES.to_string(), csv));
        files.push((MOMENT.to_string(), serde_json::to_vec(&self.moment)?));
        if self.run.shard.is_none() {
            let summaries = self.summaries();
            let texts: Vec<String> = summaries.iter().map(Summary::text).collect();
            files.push((SUMMARY.to_string(), pretty(&summaries)?));
            files.push((SUMMARY_TEXT.to_string(), texts.join("\n").into_bytes()));
            let several = summaries.len() > 1;
            for summary in &summaries {
                let name =
                    if several { format!("kept-{}.svg", summary.placement) } else { "kept.svg".into() };
                files.extend(kept::picture(summary).map(|svg| (name, svg.into_bytes())));
            }
            let page = page(self);
            files.extend(page.files(fabric).into_iter().map(|(name, svg)| (name, svg.into_bytes())));
            files.push((REPORT.to_string(), page.html(fabric, String::new()).into_bytes()));
        }
        let mut csv = Vec::new();
        series::write(&self.costs, series::COST, &mut csv).map_err(io::Error::other)?;
        files.push((TIMES.to_string(), csv));
        Ok(files)
    }

    /// Reads what [`Outcome::files`] gave.
    ///
    /// # Errors
    /// With the file.
    pub fn read(directory: &Path) -> Result<Self, FilesError> {
        Ok(Self {
            run: json(&directory.join(RUN))?,
            rows: table(&directory.join(SERIES))?,
            costs: table(&directory.join(TIMES))?,
            moment: json(&directory.join(MOMENT))?,
        })
    }

    /// Joins all parts of a run, in any order: what an unshared run would have given.
    ///
    /// # Errors
    /// If they are not of one run, or one is missing or there twice.
    pub fn merge(mut parts: Vec<Self>) -> Result<Self, FilesError> {
        let shard = |part: &Self| part.run.shard.unwrap_or(Shard { index: 1, of: 1 });
        parts.sort_by_key(|p| shard(p).index);
        let Some(first) = parts.first() else { return Err(FilesError::Parts("no parts were given".into())) };
        let mut run = first.run.clone();
        run.shard = None;
        let of = shard(first).of;
        for (i, part) in parts.iter().enumerate() {
            let own = shard(part);
            let plain = Run { shard: None, ..part.run.clone() };
            if plain != run {
                let message =
                    format!("parts {} and {} are not of one run", shard(&parts[0]).index, own.index);
                return Err(FilesError::Parts(message));
            }
            if own.of != of || own.index != i + 1 {
                let there: Vec<String> =
                    parts.iter().map(|p| format!("{}/{}", shard(p).index, shard(p).of)).collect();
                return Err(FilesError::Parts(format!(
                    "parts 1 to {of} are needed once each; given: {}",
                    there.join(", ")
                )));
            }
        }
        if parts.len() != of {
            return Err(FilesError::Parts(format!(
                "parts 1 to {of} are needed, part {} is missing",
                parts.len() + 1
            )));
        }
        let (mut rows, mut costs, mut moment) = (Vec::new(), Vec::new(), None);
        for part in parts {
            rows.extend(part.rows);
            costs.extend(part.costs);
            moment = earlier_or_better(&run, moment, part.moment);
        }
        let place = |placement: &String| run.placements.iter().position(|p| p == placement);
        // Stable: the engines of a snapshot come from one part and stay in their order.
        rows.sort_by_key(|r| (place(&r.placement), r.time));
        costs.sort_by_key(|c| (place(&c.placement), c.time));
        Ok(Self { run, rows, costs, moment })
    }
}

/// [`better`], where parts are not in the order of time.
fn earlier_or_better(run: &Run, a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    let key = |m: &Moment| (run.placements.iter().position(|p| *p == m.placement), m.time);
    match (&a, &b) {
        (Some(x), Some(y)) if x.gain == y.gain && key(y) < key(x) => b,
        _ => better(a, b),
    }
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, FilesError> {
    let file = open(path)?;
    serde_json::from_reader(BufReader::new(file))
        .map_err(|e| FilesError::Content { path: path.to_path_buf(), message: e.to_string() })
}

fn table<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, FilesError> {
    let file = open(path)?;
    series::read(BufReader::new(file))
        .map_err(|e| FilesError::Content { path: path.to_path_buf(), message: e.to_string() })
}

fn open(path: &Path) -> Result<File, FilesError> {
    File::open(path).map_err(|error| FilesError::Io { path: path.to_path_buf(), error })
}

fn pretty(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(io::Error::other)?;
    bytes.push(b'\n');
    Ok(bytes)
}
