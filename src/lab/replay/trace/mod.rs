//! Job histories: SWF, `sacct` dumps, recorded snapshots, generated months.
//!
//! A line that is not understood never ends a replay: it is kept as a [`Fault`] with its number and
//! skipped. The caller decides what to do with faults.

mod rows;
mod sacct;
mod snapshots;
mod swf;

use schemars::JsonSchema;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::lab::workload::mix;
use crate::model::{FileError, JobId, JobMap, NodeName};
use crate::observe::without_mark;

/// What is wrong with a piece of a trace.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A line that is not what it should be; skipped.
    Malformed,
    /// Time runs backwards: an end before its start, a snapshot before the last one; skipped.
    Backwards,
    /// Nodes that the fabric does not have; the job keeps those that it has.
    UnknownNodes,
    /// A job that is there twice, as in dumps of times that overlap: the later row counts.
    Repeated,
    /// A job larger than the system; skipped.
    TooLarge,
    /// A node that already runs another job; both keep it, as Slurm may share nodes.
    Overlap,
}

/// A fault and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line in the trace, from 1; 0 if it has none.
    pub line: usize,
    /// What kind.
    pub kind: FaultKind,
    /// For people.
    pub message: String,
}

/// Seconds since 1970 until the year 10000: what is later was written in other units.
const TIMES: std::ops::Range<i64> = 0..253_402_300_800;

/// A job of a trace. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceJob {
    /// Number that Slurm gave it; unique in a trace.
    pub id: JobId,
    /// Line in the trace, from 1.
    pub line: usize,
    /// When it was submitted.
    pub submit: i64,
    /// When it started.
    pub start: i64,
    /// When it ended; `None` if it still ran when the trace was taken.
    pub end: Option<i64>,
    /// Nodes, or processors in SWF without node lists.
    pub size: usize,
    /// Its nodes in the order of ranks, without repetition; `None` if the trace does not say.
    pub nodes: Option<Vec<NodeName>>,
}

/// What a trace tells.
#[derive(Debug, Clone)]
pub enum Content {
    /// Jobs with start and end, in the order of the trace.
    Jobs(Vec<TraceJob>),
    /// Snapshots, by time.
    Snapshots(Vec<JobMap>),
    /// To be generated for the system at hand: a mix of [`crate::lab::workload::mix`], days, seed.
    Generated(&'static mix::Mix, u32, u64),
}

/// A trace as read.
#[derive(Debug, Clone)]
pub struct Trace {
    /// File name without directories, or the spec.
    pub name: String,
    /// `swf`, `sacct`, `snapshots` or `generated`.
    pub format: &'static str,
    /// SHA-256 of the bytes read, or of the spec; hexadecimal.
    pub digest: String,
    /// What it tells.
    pub content: Content,
    /// What is wrong with it, by line.
    pub faults: Vec<Fault>,
    /// Entries that say nothing about nodes in use: jobs that never started, steps of jobs.
    pub passed_over: usize,
}

/// A trace that cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read, or has a fault where none is accepted.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is of no known format, or its header is wrong.
    #[error("{name}: {message}")]
    Format {
        /// Path or spec.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// What a reader found.
#[derive(Debug, Default)]
struct Found<T> {
    entries: Vec<T>,
    faults: Vec<Fault>,
    passed_over: usize,
}

impl<T> Found<T> {
    fn new() -> Self {
        Self { entries: Vec::new(), faults: Vec::new(), passed_over: 0 }
    }

    fn fault(&mut self, line: usize, kind: FaultKind, message: String) {
        self.faults.push(Fault { line, kind, message });
    }

    /// What a line says: an entry, nothing that counts, or a fault.
    fn add(&mut self, line: usize, said: Result<Option<T>, (FaultKind, String)>) {
        match said {
            Ok(Some(entry)) => self.entries.push(entry),
            Ok(None) => self.passed_over += 1,
            Err((kind, message)) => self.fault(line, kind, message),
        }
    }
}

/// Loads a trace; its kind is recognised by its content. `columns` names the fields of a `sacct`
/// dump that has no header. A directory holds one snapshot per file; `generated:MIX[,days=30]
/// [,seed=1]` is made up.
///
/// # Errors
/// [`TraceError`]; single lines are no error but faults.
pub fn load(source: &str, columns: Option<&str>) -> Result<Trace, TraceError> {
    if let Some(spec) = source.strip_prefix("generated:") {
        return generated(source, spec);
    }
    let path = Path::new(source);
    let name = path.file_name().map_or(source.to_string(), |n| n.to_string_lossy().into_owned());
    let failed = FileError::io(path);
    if path.is_dir() {
        let (digest, found) = snapshots::directory(path).map_err(failed)?;
        let content = Content::Snapshots(found.entries);
        let (faults, passed_over) = (found.faults, found.passed_over);
        return Ok(Trace { name, format: "snapshots", digest, content, faults, passed_over });
    }
    let bytes = fs::read(path).map_err(failed)?;
    let digest = hex(&Sha256::digest(&bytes));
    // A line that is not UTF-8 becomes a malformed line, nothing worse.
    let text = String::from_utf8_lossy(&bytes);
    let text = without_mark(&text);
    let wrong = |message| TraceError::Format { name: source.to_string(), message };
    let (format, content, faults, passed_over) = match kind(text) {
        "snapshots" => {
            let found = snapshots::lines(text, &name);
            ("snapshots", Content::Snapshots(found.entries), found.faults, found.passed_over)
        }
        "sacct" => {
            let found = sacct::parse(text, columns).map(rows::joined).map_err(wrong)?;
            ("sacct", Content::Jobs(found.entries), found.faults, found.passed_over)
        }
        _ => {
            let found = rows::joined(swf::parse(text));
            ("swf", Content::Jobs(found.entries), found.faults, found.passed_over)
        }
    };
    Ok(Trace { name, format, digest, content, faults, passed_over })
}

/// By the first line that is no comment.
fn kind(text: &str) -> &'static str {
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(';'));
    match lines.next() {
        Some(line) if line.starts_with('{') => "snapshots",
        Some(line) if line.contains('|') => "sacct",
        _ => "swf",
    }
}

fn generated(source: &str, spec: &str) -> Result<Trace, TraceError> {
    let wrong = |message: String| TraceError::Format { name: source.to_string(), message };
    let mut words = spec.split(',');
    let name = words.next().unwrap_or("");
    let mix = mix::mix(name)
        .ok_or_else(|| wrong(format!("there is no mix {name:?}; mixes are {}", mix::names().join(", "))))?;
    let (mut days, mut seed) = (30u64, 1u64);
    for word in words {
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong(format!("{word:?} is not a number")));
        match word.split_once('=') {
            Some(("days", text)) => {
                days = number(text)?;
                if !(1..=3_660).contains(&days) {
                    return Err(wrong(format!("{word:?}: days are from 1 to 3660")));
                }
            }
            Some(("seed", text)) => seed = number(text)?,
            _ => return Err(wrong(format!("{word:?} is neither days=N nor seed=N"))),
        }
    }
    Ok(Trace {
        name: source.to_string(),
        format: "generated",
        digest: hex(&Sha256::digest(source)),
        content: Content::Generated(mix, days as u32, seed),
        faults: Vec::new(),
        passed_over: 0,
    })
}

/// Bytes as lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
