//! What the nodes of one job read before it starts: `STATE/jobs/<job id>/`.
//!
//! The layout is specified in `plugin/README.md`, "The directory of a job". A directory appears
//! complete or not at all: files are written beside it, synced together, then the directory is renamed, or
//! exchanged in one step with the one of an earlier start of the job.

mod fabrics;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use self::fabrics::{OnFabric, publish_of_several};
use super::StoreError;
use crate::model::{JobId, JobMap, LidSet, Mix, NodeName, Sl, Traffic};

/// Directory of all jobs, in the state directory.
pub const JOBS_DIRECTORY: &str = "jobs";
/// What a job's tasks find in their environment.
pub const ENVIRONMENT_FILE: &str = "routing.env";
/// Digests of all other files, as `sha256sum` writes them.
pub const SUMS_FILE: &str = "SHA256SUMS";

/// The order of the ranks, as [`RankOrder`], if the job asked for one.
pub const ORDER_FILE: &str = "order.json";
/// Its nodes alone, one a line: what the nodes' plugin reads.
const ORDERED_NODES_FILE: &str = "order.txt";

/// Line of [`ENVIRONMENT_FILE`]: LID minus base LID.
const PATH_BITS: &str = "SAROUTER_LID_PATH_BITS";

/// In which order ranks go to a job's nodes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RankOrder {
    /// The nodes, that of rank 0 first; ranks of one node follow each other.
    pub nodes: Vec<NodeName>,
    /// For what the ranks exchange.
    pub pattern: Mix,
    /// Under the routes of this epoch.
    pub epoch: Option<u64>,
    /// Predicted time with Slurm's list, over what it would take if each rank had a cable of its own and met nobody.
    pub list: f64,
    /// The same in this order. Never more.
    pub ordered: f64,
}

/// What [`ENVIRONMENT_FILE`] says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobEnvironment {
    /// The service level of all paths inside the job, if it has one.
    pub service_level: Option<Sl>,
    /// Which of the two LIDs of each port it is to use, where these have routes of their own.
    pub lids: Option<LidSet>,
    /// Whether the routes were made for this job, or it starts on what was in force (its deadline
    /// has passed, or no single layer could be had).
    pub routed: bool,
    /// The epoch in force, on a switched fabric.
    pub epoch: Option<u64>,
    /// Number of node tables beside it, on a direct torus.
    pub tables: usize,
    /// What the job is taken to exchange since its start.
    pub traffic: Option<Traffic>,
    /// Why it is not routed, in one line for people. Control characters become spaces.
    pub note: String,
    /// What each of several fabrics says, by its name.
    pub fabrics: Vec<(String, JobEnvironment)>,
}

impl JobEnvironment {
    /// The file's text: `SAROUTER_NAME=value` per line.
    pub fn text(&self, job: &JobId) -> String {
        let mut text = format!("SAROUTER_FORMAT=1\nSAROUTER_JOB={job}\n");
        let _ = writeln!(text, "SAROUTER_ROUTED={}", if self.routed { "yes" } else { "no" });
        if let Some(level) = self.service_level {
            let _ = writeln!(text, "SAROUTER_SL={}", level.get());
        }
        if let Some(lids) = self.lids {
            let _ = writeln!(text, "{PATH_BITS}={}", lids.offset());
        }
        if let Some(epoch) = self.epoch {
            let _ = writeln!(text, "SAROUTER_EPOCH={epoch}");
        }
        if self.tables > 0 {
            let _ = writeln!(text, "SAROUTER_TABLES={}", self.tables);
        }
        if let Some(Traffic { mix, guessed }) = &self.traffic {
            let from = if *guessed { "rule" } else { "job" };
            let _ = writeln!(text, "SAROUTER_TRAFFIC={mix}\nSAROUTER_TRAFFIC_FROM={from}");
        }
        for (name, own) in &self.fabrics {
            let name = name.to_ascii_uppercase().replace('-', "_");
            if let Some(level) = own.service_level {
                let _ = writeln!(text, "SAROUTER_SL_{name}={}", level.get());
            }
            if let Some(lids) = own.lids {
                let _ = writeln!(text, "{PATH_BITS}_{name}={}", lids.offset());
            }
            if let Some(epoch) = own.epoch {
                let _ = writeln!(text, "SAROUTER_EPOCH_{name}={epoch}");
            }
        }
        if !self.note.is_empty() {
            let note = self.note.replace(char::is_control, " ");
            let _ = writeln!(text, "SAROUTER_NOTE={note}");
        }
        text
    }
}

/// How many directories this process has begun, or taken away.
static WRITERS: AtomicU64 = AtomicU64::new(0);

/// Files that are synced at a time: one flush of the disk then does for several.
const SYNCED_AT_ONCE: usize = 16;

/// A job's directory while it is written.
#[derive(Debug)]
pub struct JobWriter {
    unseen: UnseenJob,
    sums: BTreeMap<String, String>,
}

/// A job's directory that readers do not see yet. Dropped before [`UnseenJob::publish`], it leaves nothing.
#[derive(Debug)]
pub struct UnseenJob {
    root: PathBuf,
    target: PathBuf,
    beside: PathBuf,
}

impl JobWriter {
    /// Begins the directory of a job in `root`, which is created if need be. Readers see nothing yet.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn begin(root: &Path, job: &JobId) -> Result<Self, StoreError> {
        // Ids never start with a dot, so readers tell these names apart.
        // Two prologs of one job may be answered at one time.
        let number = WRITERS.fetch_add(1, Ordering::Relaxed);
        let beside = root.join(format!(".{job}.{}.{number}.tmp", std::process::id()));
        let _ = fs::remove_dir_all(&beside);
        fs::create_dir_all(&beside).map_err(StoreError::io("create", &beside))?;
        let (root, target) = (root.to_path_buf(), root.join(job.as_str()));
        Ok(Self { unseen: UnseenJob { root, target, beside }, sums: BTreeMap::new() })
    }

    /// Adds a file.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.unseen.beside.join(name);
        fs::write(&path, bytes).map_err(StoreError::io("write", &path))?;
        self.sums.insert(name.to_string(), hex(bytes));
        Ok(())
    }

    /// Writes the checksums, and has the disk hold all files. Readers see nothing yet.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn sync(self) -> Result<UnseenJob, StoreError> {
        let beside = &self.unseen.beside;
        let line = |(name, sum): (&String, &String)| format!("{sum}  {name}\n");
        let sums: String = self.sums.iter().map(line).collect();
        write_synced(&beside.join(SUMS_FILE), sums.as_bytes())?;
        let names: Vec<&String> = self.sums.keys().collect();
        let sync_all = |names: &[&String]| names.iter().try_for_each(|name| sync(&beside.join(name)));
        std::thread::scope(|scope| {
            let parts = names.chunks(names.len().div_ceil(SYNCED_AT_ONCE).max(1));
            let at_work: Vec<_> = parts.map(|part| scope.spawn(move || sync_all(part))).collect();
            at_work.into_iter().try_for_each(|part| part.join().expect("nothing there panics"))
        })?;
        sync(beside)?;
        Ok(self.unseen)
    }
}

impl UnseenJob {
    /// Puts the directory in its place, synced.
    ///
    /// # Errors
    /// What the system says, with the path; what was published before stays.
    pub fn publish(self) -> Result<(), StoreError> {
        let put = |flags| renameat_with(CWD, &self.beside, CWD, &self.target, flags);
        loop {
            let done = match put(RenameFlags::EXCHANGE) {
                Err(Errno::NOENT) => put(RenameFlags::NOREPLACE),
                done => done,
            };
            match done {
                Ok(()) => return sync(&self.root),
                // Another one came first.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(StoreError::io("rename", &self.target)(error.into())),
            }
        }
    }
}

impl Drop for UnseenJob {
    fn drop(&mut self) {
        // What was never published, or the directory of an earlier start.
        let _ = fs::remove_dir_all(&self.beside);
    }
}

/// Publishes the directory of a job on a switched fabric: its environment and nothing else.
///
/// # Errors
/// What the system says, with the path; what was published before stays.
pub fn publish(root: &Path, job: &JobId, environment: &JobEnvironment) -> Result<(), StoreError> {
    publish_with(root, job, environment, None)
}

/// The same with the order of its ranks, if there is one.
///
/// # Errors
/// As [`publish`].
pub fn publish_with(
    root: &Path,
    job: &JobId,
    environment: &JobEnvironment,
    order: Option<&RankOrder>,
) -> Result<(), StoreError> {
    begin_with(root, job, environment, order)?.sync()?.publish()
}

/// Begins a directory with both.
fn begin_with(
    root: &Path,
    job: &JobId,
    environment: &JobEnvironment,
    order: Option<&RankOrder>,
) -> Result<JobWriter, StoreError> {
    let mut writer = JobWriter::begin(root, job)?;
    writer.add(ENVIRONMENT_FILE, environment.text(job).as_bytes())?;
    if let Some(order) = order {
        let text = serde_json::to_vec(order).map_err(|e| StoreError::Unwritable(e.to_string()))?;
        writer.add(ORDER_FILE, &text)?;
        let nodes: String = order.nodes.iter().map(|node| format!("{node}\n")).collect();
        writer.add(ORDERED_NODES_FILE, nodes.as_bytes())?;
    }
    Ok(writer)
}

/// Removes the directory of a job that is over; nothing to do if there is none.
///
/// # Errors
/// What the system says, with the path.
pub fn remove(root: &Path, job: &JobId) -> Result<(), StoreError> {
    let number = WRITERS.fetch_add(1, Ordering::Relaxed);
    let (target, gone) =
        (root.join(job.as_str()), root.join(format!(".{job}.{}.{number}.gone", std::process::id())));
    match fs::rename(&target, &gone) {
        Ok(()) => fs::remove_dir_all(&gone).map_err(StoreError::io("remove", &gone)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StoreError::io("rename", &target)(e)),
    }
}

/// Removes what processes left that ended while they wrote or removed directories. For the only writer, before it
/// begins.
///
/// # Errors
/// What the system says of the first that cannot be removed, with the path.
pub fn tidy(root: &Path) -> Result<(), StoreError> {
    let is_left = |name: &str| name.starts_with('.') && (name.ends_with(".tmp") || name.ends_with(".gone"));
    let mut failed = None;
    for path in names(root)?.into_iter().filter(|name| is_left(name)).map(|name| root.join(name)) {
        let removed = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        failed = failed.or(removed.map_err(StoreError::io("remove", &path)).err());
    }
    failed.map_or(Ok(()), Err)
}

/// Jobs that have a directory, in order of their names.
///
/// # Errors
/// What the system says, with the path; a root that does not exist has no jobs.
pub fn published(root: &Path) -> Result<Vec<JobId>, StoreError> {
    let names = names(root)?;
    let jobs =
        names.iter().filter(|name| !name.starts_with('.')).filter_map(|name| JobId::new(name.as_str()).ok());
    let mut jobs: Vec<JobId> = jobs.collect();
    jobs.sort();
    Ok(jobs)
}

/// Names of all that is there; a root that does not exist has none.
fn names(root: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("read", root)(e)),
    };
    let name = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.map_err(StoreError::io("read", root))?;
        Ok(entry.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

/// SHA-256 of a job's [`SUMS_FILE`], and so of all its files; `None` if it has none.
pub fn digest(root: &Path, job: &JobId) -> Option<String> {
    let sums = fs::read(root.join(job.as_str()).join(SUMS_FILE)).ok()?;
    Some(hex(&sums))
}

/// The service levels that jobs were told, in order of their ids; jobs without one are left out.
///
/// # Errors
/// What the system says, with the path.
pub fn levels(root: &Path) -> Result<Vec<(JobId, Sl)>, StoreError> {
    let level = |job: JobId| Some((value(root, &job, "SAROUTER_SL")?.parse().ok()?, job));
    Ok(published(root)?.into_iter().filter_map(level).map(|(level, job)| (job, level)).collect())
}

/// The LIDs that jobs were told to use, in order of their ids; jobs without are left out.
///
/// # Errors
/// What the system says, with the path.
pub fn lids(root: &Path) -> Result<Vec<(JobId, LidSet)>, StoreError> {
    let told = |job: JobId| {
        let bits: usize = value(root, &job, PATH_BITS)?.parse().ok()?;
        Some((job, *LidSet::ALL.get(bits)?))
    };
    Ok(published(root)?.into_iter().filter_map(told).collect())
}

/// What a job is taken to exchange since its start.
pub fn traffic(root: &Path, job: &JobId) -> Option<Traffic> {
    let mix = value(root, job, "SAROUTER_TRAFFIC")?.parse().ok()?;
    let guessed = value(root, job, "SAROUTER_TRAFFIC_FROM").is_some_and(|from| from == "rule");
    Some(Traffic { mix, guessed })
}

/// What jobs are taken to exchange since their start; those of which nothing was known are left out.
///
/// # Errors
/// What the system says, with the path.
pub fn all_traffic(root: &Path) -> Result<BTreeMap<JobId, Traffic>, StoreError> {
    let said = |job: JobId| traffic(root, &job).map(|traffic| (job, traffic));
    Ok(published(root)?.into_iter().filter_map(said).collect())
}

/// Adds to jobs what they are taken to exchange since their start.
///
/// # Errors
/// What the system says, with the path.
pub fn add_traffic(root: &Path, jobs: &mut JobMap) -> Result<(), StoreError> {
    let said = all_traffic(root)?;
    for job in &mut jobs.jobs {
        said.get(&job.id).into_iter().for_each(|traffic| job.is_told(traffic.clone()));
    }
    Ok(())
}

/// What a job was told under this name.
fn value(root: &Path, job: &JobId, name: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(job.as_str()).join(ENVIRONMENT_FILE)).ok()?;
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('=')).map(str::to_string)
}

pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(StoreError::io("write", path))
}

/// Of a file or a directory.
fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|found| found.sync_all()).map_err(StoreError::io("sync", path))
}

/// SHA-256 as 64 hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
