//! The recording: every event, written before it is handled, as lines of JSON.
//!
//! Files `000001.jsonl`, `000002.jsonl`, … in the directory [`DIRECTORY`] of the state directory;
//! a full one is closed, the oldest goes. Each file stands by itself: it begins with the settings
//! that matter, and the first look after that writes fabric and jobs whole; later looks write what is
//! different. Beside a file lies the epoch that was in force when it was begun (`000002.epoch`), as
//! links to its files. Clock and cost are part of what comes from outside, so the line of an epoch
//! names them, and [`replay`] repeats the epochs byte for byte.
//!
//! Lines are not synced one by one: a killed process loses none, a machine without power may lose the
//! last ones. A line that was cut short is dropped when the file is opened again.

pub mod capture;
pub mod direct;
mod direct_replay;
pub mod replay;
pub mod whole;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tracing::warn;

use self::direct::{SiteText, Standing, StartLine};
use super::health::{Failure, Health, Stage};
use crate::config::Record;
use crate::model::{Fabric, Guid, Job, JobId, LayerBudget, NodeMap, NodeName, Promise, TerminalId};
use crate::observe::ibnetdiscover::to_ibnetdiscover;
use crate::pass::plan::Policy;
use crate::pass::step::{Event, Rhythm, View};
use crate::publish::{EpochNumber, EpochStore};
use crate::report::{Compute, Report};

/// Name of the directory in the state directory.
pub const DIRECTORY: &str = "record";
/// Version of the lines. Keys may be added without a new one.
const FORMAT: u32 = 1;
/// Longest line that is read: a fabric of 50,000 hosts is some MB.
pub const LINE_LIMIT: usize = 256 << 20;

/// An epoch that was made, with what came from the clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Its number.
    pub epoch: EpochNumber,
    /// What was in force before.
    pub previous: Option<EpochNumber>,
    /// When it was made.
    pub created: DateTime<Utc>,
    /// What it cost.
    pub compute: Compute,
    /// SHA-256 of its `SHA256SUMS`, and so of all its files.
    pub digest: String,
}

/// What an administrator decided, by GUID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLine {
    engine: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    then: Vec<String>,
    layers: LayerBudget,
    min_job_age_ms: i64,
    layer_per_job: bool,
    #[serde(default = "Promise::told")]
    promise: Promise,
    storage: Vec<Guid>,
    #[serde(default)]
    min_gain_ms: i64,
    #[serde(default)]
    min_pause_ms: i64,
    #[serde(default)]
    communication_percent: u8,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Line {
    /// A process or a file begins, or settings changed: nothing before it is remembered.
    Begin {
        /// Version of the lines.
        format: u32,
        /// When.
        time: DateTime<Utc>,
        /// The pause between looks, milliseconds.
        interval_ms: i64,
        /// The longest pause, milliseconds.
        backoff_max_ms: i64,
        /// Whether this is only a new file: the memory of what is in force goes on.
        goes_on: bool,
        /// What is in force.
        in_force: Option<Made>,
    },
    /// The fabric is another than before.
    Fabric {
        /// As `ibnetdiscover` prints it.
        text: String,
        /// Port GUIDs of each node.
        nodes: BTreeMap<NodeName, Vec<Guid>>,
    },
    /// The policy is another than before.
    Policy(PolicyLine),
    /// A look succeeded.
    Seen {
        /// When it was handled.
        time: DateTime<Utc>,
        /// When the jobs were asked for.
        snapshot: DateTime<Utc>,
        /// Whether `jobs` are all; otherwise those that are new or different.
        whole: bool,
        /// Jobs.
        jobs: Vec<Job>,
        /// Jobs that are gone.
        ended: Vec<JobId>,
    },
    /// Routes were computed; `made` is the epoch if one was due.
    InForce {
        /// When.
        time: DateTime<Utc>,
        /// The epoch.
        made: Option<Made>,
    },
    /// The computation failed.
    RouteFailed {
        /// When.
        time: DateTime<Utc>,
    },
    /// A look failed.
    LookFailed {
        /// When.
        time: DateTime<Utc>,
    },
    /// An administrator holds what is in force.
    Held {
        /// When.
        time: DateTime<Utc>,
    },
    /// Somebody wants a look.
    Asked {
        /// When.
        time: DateTime<Utc>,
    },
    /// Time for a look.
    Tick {
        /// When.
        time: DateTime<Utc>,
    },
    /// On a direct torus, what a file or process begins with.
    Standing {
        /// The torus.
        site: SiteText,
        /// Jobs that have tables, with the digest of each job's directory.
        jobs: BTreeMap<JobId, String>,
    },
    /// On a direct torus, tables are computed.
    Compute {
        /// When.
        time: DateTime<Utc>,
        /// Engines, tried in turn.
        engines: Vec<String>,
        /// Jobs that start; nobody does where links may have failed.
        starts: Vec<StartLine>,
    },
    /// A computation read a torus that is another than before.
    Torus {
        /// A spec, or the content of a description.
        text: String,
    },
    /// A computation came to its end, and tables were written.
    Tables {
        /// When.
        time: DateTime<Utc>,
        /// How often engines had asked whether to go on when they were not to; null if they came to their end.
        searched: Option<u32>,
        /// Jobs whose tables were written, with the digest of each job's directory.
        made: BTreeMap<JobId, String>,
    },
    /// Jobs with tables are over.
    Over {
        /// When.
        time: DateTime<Utc>,
        /// The jobs.
        jobs: Vec<JobId>,
    },
}

impl Line {
    /// The fabric of a look.
    fn fabric(view: &View) -> Self {
        let names = view.nodes.names();
        let nodes = names.map(|n| (n.clone(), guids(view, view.nodes.terminals(n)))).collect();
        Self::Fabric { text: to_ibnetdiscover(&view.fabric), nodes }
    }
}

impl Made {
    /// Of a stored epoch; `None` if it cannot be read.
    pub fn of(store: &EpochStore, epoch: EpochNumber) -> Option<Self> {
        #[derive(Deserialize)]
        struct Plan {
            created: DateTime<Utc>,
            previous: Option<EpochNumber>,
        }
        let directory = store.epoch_path(epoch);
        let plan: Plan = serde_json::from_slice(&fs::read(directory.join("plan.json")).ok()?).ok()?;
        let report: Report = serde_json::from_slice(&fs::read(directory.join("report.json")).ok()?).ok()?;
        let sums = fs::read(directory.join("SHA256SUMS")).ok()?;
        let digest = Sha256::digest(sums).iter().map(|b| format!("{b:02x}")).collect();
        let (created, previous) = (plan.created, plan.previous);
        Some(Self { epoch, previous, created, compute: report.compute, digest })
    }

    /// Of the epoch in force.
    pub fn current(store: &EpochStore) -> Option<Self> {
        Self::of(store, store.current().ok()??)
    }
}

/// What the file already says.
#[derive(Debug, Default)]
struct Known {
    fabric: Option<(Arc<Fabric>, Arc<NodeMap>)>,
    policy: Option<PolicyLine>,
    jobs: Option<BTreeMap<JobId, Job>>,
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    directory: PathBuf,
    bounds: Record,
    store: EpochStore,
    rhythm: Rhythm,
    number: u64,
    file: File,
    length: u64,
    known: Known,
    /// Of a direct torus.
    direct: Option<Standing>,
}

/// Numbers of the files of a recording, ascending.
///
/// # Errors
/// If the directory cannot be read.
pub fn files(directory: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|n| n.strip_suffix(".jsonl")).and_then(|n| n.parse().ok());
        found.extend(number);
    }
    found.sort_unstable();
    Ok(found)
}

/// Path of a file of a recording.
pub fn file_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.jsonl"))
}

/// Path of the epoch beside it.
pub fn base_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.epoch"))
}

impl Recorder {
    /// Goes on with the newest file, or begins one; after a time without recording (`gap`) always
    /// begins one, with what is in force beside it.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub fn open(
        store: &EpochStore,
        bounds: Record,
        rhythm: Rhythm,
        gap: bool,
        now: DateTime<Utc>,
    ) -> io::Result<Self> {
        Self::open_as(store, bounds, rhythm, gap, now, None)
    }

    fn open_as(
        store: &EpochStore,
        bounds: Record,
        rhythm: Rhythm,
        gap: bool,
        now: DateTime<Utc>,
        direct: Option<Standing>,
    ) -> io::Result<Self> {
        let directory = store.path().join(DIRECTORY);
        fs::create_dir_all(&directory)?;
        let newest = files(&directory)?.last().copied();
        let number = newest.map_or(1, |newest| newest + u64::from(gap));
        if newest.is_none() || gap {
            keep_base(store, &directory, number, direct.as_ref())?;
        }
        let (file, length) = open_file(&file_path(&directory, number))?;
        let known = Known::default();
        let store = store.clone();
        let mut recorder = Self { directory, bounds, store, rhythm, number, file, length, known, direct };
        if let Err(error) = recorder.begin(now, false) {
            if length == 0 {
                // Or each attempt would leave one behind.
                let _ = fs::remove_file(file_path(&recorder.directory, number));
            }
            return Err(error);
        }
        Ok(recorder)
    }

    /// New settings: the memory of what is in force is void.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn resume(&mut self, rhythm: Rhythm, bounds: Record, now: DateTime<Utc>) -> io::Result<()> {
        (self.rhythm, self.bounds) = (rhythm, bounds);
        self.known = Known::default();
        self.begin(now, false)
    }

    /// Writes an event. `made` is the epoch behind [`Event::InForce`].
    ///
    /// # Errors
    /// If it cannot be written; the file is then as before.
    pub fn write(&mut self, time: DateTime<Utc>, event: &Event, made: Option<&Made>) -> io::Result<()> {
        match event {
            Event::Tick => self.line(&Line::Tick { time }),
            Event::Asked => self.line(&Line::Asked { time }),
            Event::LookFailed => self.line(&Line::LookFailed { time }),
            Event::Held => self.line(&Line::Held { time }),
            Event::RouteFailed => self.line(&Line::RouteFailed { time }),
            Event::InForce(..) | Event::Halfway => self.line(&Line::InForce { time, made: made.cloned() }),
            Event::Seen(view) => {
                if self.length > self.bounds.file_bytes {
                    self.rotate(time)?;
                }
                self.seen(time, view)
            }
        }
    }

    fn seen(&mut self, time: DateTime<Utc>, view: &View) -> io::Result<()> {
        let same = |(fabric, nodes): &(Arc<Fabric>, Arc<NodeMap>)| {
            Arc::ptr_eq(fabric, &view.fabric) && Arc::ptr_eq(nodes, &view.nodes)
        };
        if !self.known.fabric.as_ref().is_some_and(same) {
            self.line(&Line::fabric(view))?;
            self.known.fabric = Some((Arc::clone(&view.fabric), Arc::clone(&view.nodes)));
        }
        let policy = PolicyLine::of(view);
        if self.known.policy.as_ref() != Some(&policy) {
            self.line(&Line::Policy(policy.clone()))?;
            self.known.policy = Some(policy);
        }
        let now: BTreeMap<JobId, Job> = view.jobs.jobs.iter().map(|j| (j.id.clone(), j.clone())).collect();
        // Two jobs of one id would not survive the map.
        let whole = self.known.jobs.is_none() || now.len() != view.jobs.jobs.len();
        let empty = BTreeMap::new();
        let before = self.known.jobs.as_ref().filter(|_| !whole).unwrap_or(&empty);
        let jobs = match whole {
            true => view.jobs.jobs.clone(),
            false => view.jobs.jobs.iter().filter(|j| before.get(&j.id) != Some(j)).cloned().collect(),
        };
        let ended = before.keys().filter(|id| !now.contains_key(id)).cloned().collect();
        self.line(&Line::Seen { time, snapshot: view.jobs.time, whole, jobs, ended })?;
        self.known.jobs = (now.len() == view.jobs.jobs.len()).then_some(now);
        Ok(())
    }

    fn begin(&mut self, time: DateTime<Utc>, goes_on: bool) -> io::Result<()> {
        self.line(&Line::Begin {
            format: FORMAT,
            time,
            interval_ms: self.rhythm.interval.num_milliseconds(),
            backoff_max_ms: self.rhythm.backoff_max.num_milliseconds(),
            goes_on,
            in_force: Made::current(&self.store),
        })?;
        let standing = self.direct.as_ref().map(Standing::line);
        standing.map_or(Ok(()), |line| self.line(&line))
    }

    /// One write, so that a killed process leaves whole lines.
    ///
    /// # Errors
    /// If it cannot be written; the file is then as before.
    pub(in crate::service) fn line(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // Half a line would spoil the next one.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += text.len() as u64;
        Ok(())
    }

    fn rotate(&mut self, now: DateTime<Utc>) -> io::Result<()> {
        let number = self.number + 1;
        keep_base(&self.store, &self.directory, number, self.direct.as_ref())?;
        (self.file, self.length) = open_file(&file_path(&self.directory, number))?;
        self.number = number;
        self.known = Known::default();
        self.begin(now, true)?;
        let all = files(&self.directory)?;
        for old in &all[..all.len().saturating_sub(self.bounds.files)] {
            fs::remove_file(file_path(&self.directory, *old))?;
            // There is none if nothing was in force.
            let _ = fs::remove_dir_all(base_path(&self.directory, *old));
        }
        Ok(())
    }
}

/// Opens a file for appending; drops a line that was cut short.
fn open_file(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut length = file.metadata()?.len();
    let mut byte = [0];
    while length > 0 {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut byte)?;
        if byte == *b"\n" {
            break;
        }
        length -= 1;
    }
    file.set_len(length)?;
    Ok((file, length))
}

/// Keeps the epoch in force beside a file, or the jobs' tables: links cost nothing, and the files never change.
fn keep_base(store: &EpochStore, directory: &Path, number: u64, direct: Option<&Standing>) -> io::Result<()> {
    let base = base_path(directory, number);
    if let Some(direct) = direct {
        let _ = fs::remove_dir_all(&base);
        return direct.keep(&base);
    }
    let Some(epoch) = store.current().ok().flatten() else { return Ok(()) };
    // Left by a crash before its file was begun.
    let _ = fs::remove_dir_all(&base);
    link_files(&store.epoch_path(epoch), &base)
}

/// Makes a directory with links to the files of another.
fn link_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let from = entry?.path();
        if let Some(name) = from.file_name() {
            let to = to.join(name);
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop))?;
        }
    }
    Ok(())
}

/// Tells in the health whether events are recorded.
pub(in crate::service) fn note(health: &mut Health, written: io::Result<()>) {
    let Err(error) = written else {
        health.unrecorded = None;
        return;
    };
    let failure = Failure { time: Utc::now(), stage: Stage::Record, message: error.to_string() };
    if health.unrecorded.is_none() {
        warn!("events are not recorded: {error}");
        *health.failures.entry(failure.stage).or_default() += 1;
    }
    health.unrecorded = Some(failure);
}

fn guids(view: &View, terminals: &[TerminalId]) -> Vec<Guid> {
    terminals.iter().map(|t| view.fabric.terminal(*t).port_guid).collect()
}

impl PolicyLine {
    fn of(view: &View) -> Self {
        // Named one by one: a new field must not be forgotten here.
        let Policy { engine, then, budget, min_job_age, layer_per_job, promise, storage, price } =
            &view.policy;
        Self {
            engine: engine.clone(),
            then: then.clone(),
            layers: *budget,
            min_job_age_ms: min_job_age.num_milliseconds(),
            layer_per_job: *layer_per_job,
            promise: *promise,
            storage: guids(view, storage),
            min_gain_ms: price.min_gain.num_milliseconds(),
            min_pause_ms: price.min_pause.num_milliseconds(),
            communication_percent: price.communication,
        }
    }
}
