//! The recording: every event, written before it is handled, as lines of JSON.
//!
//! Files `000001.jsonl`, `000002.jsonl`, … in the directory [`DIRECTORY`] of the state directory;
//! a full one is closed, the oldest goes. Each file stands by itself: it begins with the settings
//! that matter, and the first look after that writes fabric and jobs whole; later looks write what is
//! different. Beside a file lies the epoch that was in force when it was begun (`000002.epoch`), as
//! links to its files, and those that OpenSM had in the switches instead of the newest
//! (`000002.epoch-000007`). Clock and cost are part of what comes from outside, so the line of an epoch
//! names them, and [`replay`] repeats the epochs byte for byte.
//!
//! Lines are not synced one by one: a killed process loses none, a machine without power may lose the
//! last ones. A line that was cut short is dropped when the file is opened again.

mod adopt;
pub mod capture;
pub mod direct;
mod direct_replay;
mod line;
pub mod replay;
pub mod whole;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tracing::warn;

pub use self::direct::Standing;
pub use self::line::{Line, Made, PolicyLine};
use super::health::{Failure, Health, Stage};
use crate::config::Record;
use crate::model::{Fabric, Job, JobId, NodeMap};
use crate::pass::step::{Event, Rhythm, View};
use crate::publish::{EpochNumber, EpochStore};

/// Name of the directory in the state directory.
pub const DIRECTORY: &str = "record";
/// Version of the lines. Keys may be added without a new one.
const FORMAT: u32 = 1;
/// Longest line that is read: a fabric of 50,000 hosts is some MB.
pub const LINE_LIMIT: usize = 256 << 20;

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
fn base_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.epoch"))
}

/// Path of an epoch beside it that OpenSM had in the switches instead of the newest one.
fn older_path(file: &Path, epoch: u64) -> PathBuf {
    file.with_extension(format!("epoch-{epoch:06}"))
}

impl Recorder {
    /// Goes on with the newest file, or begins one; after a time without recording (`gap`) always
    /// begins one, with what is in force beside it. `standing`: what of a direct torus is.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub fn open(
        store: &EpochStore,
        bounds: Record,
        rhythm: Rhythm,
        gap: bool,
        standing: Option<Standing>,
    ) -> io::Result<Self> {
        let (now, direct) = (Utc::now(), standing);
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

    /// New settings: on switches the memory of what is in force is void. Tables of a direct torus stay.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn resume(&mut self, rhythm: Rhythm, bounds: Record, now: DateTime<Utc>) -> io::Result<()> {
        (self.rhythm, self.bounds) = (rhythm, bounds);
        if self.direct.is_some() {
            return Ok(());
        }
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
            Event::Replaced => self.line(&Line::Replaced { time }),
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
            self.keep_older(&policy)?;
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

    /// Keeps what OpenSM has in the switches instead of the newest epoch, as far as the store still has it.
    fn keep_older(&self, policy: &PolicyLine) -> io::Result<()> {
        let Some(found) = policy.in_switches else { return Ok(()) };
        let to = older_path(&file_path(&self.directory, self.number), found.epoch);
        let from = EpochNumber::new(found.epoch)
            .map(|number| self.store.epoch_path(number))
            .filter(|from| from.is_dir() && !to.exists());
        from.map_or(Ok(()), |from| link_files(&from, &to))
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
            self.forget_bases(*old)?;
        }
        Ok(())
    }
}

impl Recorder {
    /// Removes the epochs beside a file. There is none if nothing was in force.
    fn forget_bases(&self, number: u64) -> io::Result<()> {
        let base = base_path(&self.directory, number);
        let name = base.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let found = path.file_name().unwrap_or_default().to_string_lossy();
            if found.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
                let _ = fs::remove_dir_all(&path);
            }
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
