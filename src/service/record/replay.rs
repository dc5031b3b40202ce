//! Feeds a recording back: the same events through the same [`Step`], the same passes, into another
//! state directory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::adopt::{adopt, adopt_older};
use super::direct_replay::DirectReplay;
use super::line::terminals;
use super::{FORMAT, LINE_LIMIT, Line, Made, file_path, files};
use crate::model::{Fabric, FileError, Guid, Job, JobId, JobMap, NodeMap, plain};
use crate::observe::ibnetdiscover;
use crate::pass::baseline::Oblivious;
use crate::pass::plan::Policy;
use crate::pass::step::{Action, Event, Rhythm, Step, View};
use crate::publish::{EpochNumber, EpochStore, StoreError};
use crate::report::Compute;
use crate::service::pass::{self, Again, PassError};

/// A recording that cannot be fed back.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file cannot be read or written, or a line is not what it should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// The directory has no recording.
    #[error("{}: no recording", .0.display())]
    Empty(PathBuf),
    /// The new state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a replay found.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct Replayed {
    /// Lines read.
    pub lines: u64,
    /// Good looks.
    pub looks: u64,
    /// Epochs that the recording names; on a direct torus, tables of jobs.
    pub recorded: u64,
    /// Of those, byte for byte the same.
    pub same: u64,
    /// What is different, one sentence each; at most [`NAMED`].
    pub different: Vec<String>,
}

impl Replayed {
    pub(super) fn differs(&mut self, what: String) {
        if self.different.len() < NAMED {
            self.different.push(what);
        }
    }
}

/// Differences that are named.
pub const NAMED: usize = 20;

/// The service without clock and outside.
pub(super) struct Replay<'a> {
    store: &'a EpochStore,
    step: Option<Step>,
    fabric: Option<(Arc<Fabric>, Arc<NodeMap>)>,
    /// Its tables that know no jobs.
    oblivious: Oblivious,
    policy: Option<Policy>,
    jobs: BTreeMap<JobId, Job>,
    /// Jobs as they came when ids were not unique.
    many: Option<Vec<Job>>,
    /// To be routed.
    view: Option<Arc<View>>,
    /// When it was seen.
    seen: DateTime<Utc>,
    /// Of a direct torus.
    direct: DirectReplay,
    /// Tables beside the file that just begins, if they count.
    base: Option<PathBuf>,
    pub(super) found: Replayed,
}

/// The files of a recording, a directory or one file of it.
pub(super) fn recorded(recording: &Path) -> Result<Vec<PathBuf>, ReplayError> {
    if !recording.is_dir() {
        return Ok(vec![recording.to_path_buf()]);
    }
    let numbers = files(recording).map_err(FileError::io(recording))?;
    if numbers.is_empty() {
        return Err(ReplayError::Empty(recording.to_path_buf()));
    }
    Ok(numbers.iter().map(|n| file_path(recording, *n)).collect())
}

/// Calls `take` with each line, its file and number, and `each` with its bytes.
pub(super) fn each_line(
    paths: &[PathBuf],
    each: &mut dyn FnMut(usize),
    mut take: impl FnMut(Line, &Path, usize) -> Result<(), ReplayError>,
) -> Result<(), ReplayError> {
    for (n, path) in paths.iter().enumerate() {
        read(path, |line, number| take(line, path, number), n + 1 == paths.len(), each)?;
    }
    Ok(())
}

/// Feeds the recording of a directory, or one file of it, into an empty state directory. `each` is
/// called with each line's number of bytes.
///
/// # Errors
/// If a file is damaged (a last line cut short is not), or the state directory is not empty.
pub fn replay(
    recording: &Path,
    into: &EpochStore,
    each: &mut dyn FnMut(usize),
) -> Result<Replayed, ReplayError> {
    let paths = recorded(recording)?;
    if into.current()?.is_some() {
        let source = io::Error::new(io::ErrorKind::AlreadyExists, "there are epochs in it already");
        return Err(FileError::io(into.path())(source).into());
    }
    drop(into.lock()?);
    let mut replay = Replay::new(into);
    each_line(&paths, each, |line, path, number| {
        // The first file that is left, or one begun after a time without recording.
        let first = replay.found.lines == 0;
        let base = path.with_extension("epoch");
        if let (1, Line::Begin { goes_on, in_force: Some(made), .. }) = (number, &line) {
            if first || (!goes_on && base.is_dir() && into.current()? != Some(made.epoch)) {
                adopt(into, made.epoch, &base)?;
            }
        }
        if let Line::Begin { goes_on, .. } = &line {
            replay.base = (number == 1 && (first || !goes_on) && base.is_dir()).then_some(base);
        }
        if let Line::Policy(policy) = &line {
            adopt_older(into, policy, path)?;
        }
        replay.found.lines += 1;
        replay.handle(line).map_err(|reason| FileError::line(path, number, reason))?;
        Ok(())
    })?;
    Ok(replay.found)
}

fn read(
    path: &Path,
    mut take: impl FnMut(Line, usize) -> Result<(), ReplayError>,
    last: bool,
    each: &mut dyn FnMut(usize),
) -> Result<(), ReplayError> {
    let failed = FileError::io(path);
    let mut reader = BufReader::new(fs::File::open(path).map_err(failed)?);
    let mut text = String::new();
    for number in 1.. {
        text.clear();
        let limit = LINE_LIMIT as u64;
        let length = (&mut reader).take(limit).read_line(&mut text).map_err(failed)?;
        if length == 0 || (last && !text.ends_with('\n') && length < LINE_LIMIT) {
            break;
        }
        each(length);
        let line = parse(&text).map_err(|reason| FileError::line(path, number, reason))?;
        take(line, number)?;
    }
    Ok(())
}

/// Reads one line.
///
/// # Errors
/// What is wrong.
pub fn parse(text: &str) -> Result<Line, String> {
    let line: Line = serde_json::from_str(text).map_err(|e| plain(&e.to_string()))?;
    match line {
        Line::Begin { format, .. } if format != FORMAT => {
            Err(format!("its format is {format}, this program knows {FORMAT}"))
        }
        line => Ok(line),
    }
}

impl<'a> Replay<'a> {
    pub(super) fn new(store: &'a EpochStore) -> Self {
        Self {
            store,
            step: None,
            fabric: None,
            oblivious: Oblivious::default(),
            policy: None,
            jobs: BTreeMap::new(),
            many: None,
            view: None,
            seen: DateTime::UNIX_EPOCH,
            direct: DirectReplay::new(store),
            base: None,
            found: Replayed::default(),
        }
    }

    /// Makes the epoch that is due, if one is, as if its computation had cost nothing; the line that
    /// records it.
    pub(super) fn make(&mut self) -> Result<Option<Line>, String> {
        let Some(view) = self.view.take() else { return Ok(None) };
        let time = self.seen;
        let published = self.store.published(&view.fabric).ok().flatten();
        let difference = published.and_then(|p| pass::difference(self.store, &p, &view.fabric, None));
        let again = Again { created: time, compute: Compute::default(), difference };
        Ok(Some(match pass::pass_as(self.store, usize::MAX, &view, None, Some(again)) {
            Ok(passed) => {
                let made = passed.made.clone();
                self.step()?.handle(time, passed.event(&view));
                Line::InForce { time, made }
            }
            Err(_) => {
                self.step()?.handle(time, Event::RouteFailed);
                Line::RouteFailed { time }
            }
        }))
    }

    pub(super) fn handle(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Begin { time, interval_ms, backoff_max_ms, goes_on, in_force, .. } => {
                let of = |ms: i64| TimeDelta::try_milliseconds(ms).unwrap_or(TimeDelta::MAX);
                let rhythm = Rhythm { interval: of(interval_ms), backoff_max: of(backoff_max_ms) };
                // The first file that is left may begin in the middle.
                if !goes_on || self.step.is_none() {
                    // Made, but the process ended before it was recorded.
                    let current = self.store.current().ok().flatten();
                    if let Some(made) = in_force.filter(|made| Some(made.epoch) > current) {
                        self.route(Some(&made));
                    }
                    self.view = None;
                    self.step = Some(Step::new(rhythm, time));
                }
            }
            Line::Fabric { text, nodes } => {
                self.fabric = Some(fabric(&text, &nodes)?);
                self.oblivious = Oblivious::default();
            }
            Line::Policy(policy) => {
                let (fabric, nodes) = self.fabric.as_mut().ok_or("a policy before any fabric")?;
                if nodes.rails() != policy.rails {
                    *nodes = Arc::new(NodeMap::clone(nodes).among(policy.rails));
                }
                self.policy = Some(policy.on(fabric));
            }
            Line::Seen { time, snapshot, whole, jobs, ended } => {
                let view = self.view_of(snapshot, whole, jobs, &ended)?;
                self.found.looks += 1;
                self.seen = time;
                let action = self.step()?.handle(time, Event::Seen(Arc::clone(&view)));
                self.view = matches!(action, Action::Route(_)).then_some(view);
            }
            Line::InForce { time, made } => {
                if let Some(event) = self.route(made.as_ref()) {
                    self.step()?.handle(time, event);
                }
            }
            Line::RouteFailed { time } => {
                self.view = None;
                self.step()?.handle(time, Event::RouteFailed);
            }
            Line::LookFailed { time } => drop(self.step()?.handle(time, Event::LookFailed)),
            Line::Held { time } => drop(self.step()?.handle(time, Event::Held)),
            Line::Replaced { time } => drop(self.step()?.handle(time, Event::Replaced)),
            Line::Asked { time } => drop(self.step()?.handle(time, Event::Asked)),
            Line::Tick { time } => drop(self.step()?.handle(time, Event::Tick)),
            line => {
                let base = self.base.take();
                self.direct.handle(line, base.as_deref(), &mut self.found)?;
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<&mut Step, String> {
        self.step.as_mut().ok_or_else(|| "an event before the beginning".to_string())
    }

    fn view_of(
        &mut self,
        snapshot: DateTime<Utc>,
        whole: bool,
        jobs: Vec<Job>,
        ended: &[JobId],
    ) -> Result<Arc<View>, String> {
        let (fabric, nodes) = self.fabric.as_ref().ok_or("jobs before any fabric")?;
        let policy = self.policy.clone().ok_or("jobs before any policy")?;
        let count = jobs.len();
        if whole {
            self.jobs.clear();
            self.many = Some(jobs.clone());
        } else {
            self.many = None;
        }
        ended.iter().for_each(|id| drop(self.jobs.remove(id)));
        self.jobs.extend(jobs.into_iter().map(|j| (j.id.clone(), j)));
        let all = match self.many.take().filter(|_| whole && self.jobs.len() != count) {
            Some(many) => many,
            None => self.jobs.values().cloned().collect(),
        };
        let (fabric, nodes) = (Arc::clone(fabric), Arc::clone(nodes));
        Ok(Arc::new(View {
            fabric,
            nodes,
            jobs: JobMap::new(snapshot, all),
            policy,
            oblivious: self.oblivious.clone(),
        }))
    }

    /// Repeats a pass, and compares what it made with what was made.
    fn route(&mut self, made: Option<&Made>) -> Option<Event> {
        let Some(view) = self.view.take() else {
            if let Some(made) = made {
                self.found.recorded += 1;
                self.differs(format!("epoch {} was made, here nothing was due", made.epoch));
            }
            return None;
        };
        self.found.recorded += u64::from(made.is_some());
        if let Some(previous) = made.and_then(|m| m.previous) {
            // An administrator went back to it.
            if self.store.current().ok().flatten() != Some(previous) {
                let back = self.store.lock().and_then(|mut writer| writer.rollback(previous));
                if let Err(error) = back {
                    self.differs(error.to_string());
                }
            }
        }
        let gap = made.and_then(|made| self.leave_gap(made.epoch));
        let again = made.map(|made| {
            let Made { created, compute, ref difference, .. } = *made;
            Again { created, compute, difference: difference.clone() }
        });
        let passed = pass::pass_as(self.store, usize::MAX, &view, None, again);
        if let Some(gap) = gap {
            // Empty: nothing is lost.
            let _ = fs::remove_dir(gap);
        }
        match passed {
            Ok(passed) => {
                self.compare(made, passed.epoch.as_ref().map(|line| line.epoch));
                Some(passed.event(&view))
            }
            Err(error) => {
                self.failed(made, &error);
                None
            }
        }
    }

    /// A number that a killed service had given but never put in force is not given again here
    /// either: a directory holds its place for one pass.
    fn leave_gap(&self, epoch: EpochNumber) -> Option<PathBuf> {
        let last = self.store.epochs().ok()?.last().map_or(0, |n| n.get());
        let before: EpochNumber = (epoch.get() - 1).to_string().parse().ok()?;
        let path = self.store.epoch_path(before);
        (before.get() > last && fs::create_dir_all(&path).is_ok()).then_some(path)
    }

    fn compare(&mut self, made: Option<&Made>, here: Option<u64>) {
        let current = Made::current(self.store);
        match (made, here, current) {
            (None, None, _) => {}
            (Some(made), Some(_), Some(found)) if *made == found => self.found.same += 1,
            (Some(made), Some(_), Some(found)) => {
                self.differs(format!(
                    "epoch {} is another than the recorded epoch {}",
                    found.epoch, made.epoch
                ));
            }
            (Some(made), _, _) => self.differs(format!("epoch {} was made, here none was due", made.epoch)),
            (None, Some(here), _) => self.differs(format!("epoch {here} is made here, none was recorded")),
        }
    }

    fn failed(&mut self, made: Option<&Made>, error: &PassError) {
        let what = made.map_or("a pass".to_string(), |made| format!("epoch {}", made.epoch));
        self.differs(format!("{what} fails here: {error}"));
    }

    fn differs(&mut self, what: String) {
        self.found.differs(what);
    }
}

pub(super) type Named = (Arc<Fabric>, Arc<NodeMap>);

/// The fabric of a line, with its nodes.
pub(super) fn fabric(
    text: &str,
    nodes: &BTreeMap<crate::model::NodeName, Vec<Guid>>,
) -> Result<Named, String> {
    let parsed = ibnetdiscover::parse(Path::new("fabric"), text).map_err(|e| e.to_string())?;
    let fabric = parsed.fabric;
    let nodes = nodes.iter().map(|(name, guids)| (name.clone(), terminals(&fabric, guids))).collect();
    let nodes = NodeMap::new(nodes, Vec::new()).on(&fabric);
    Ok((Arc::new(fabric), Arc::new(nodes)))
}
