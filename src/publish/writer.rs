//! The epoch store for its one writer.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::epoch::Files;
use super::publication::{self, Publication};
use super::record::{PlanRecord, to_json};
use super::{Epoch, EpochNumber, EpochStore, HistoryRow, StoreError, handoff, history};
use crate::model::{Fabric, LidSet};
use crate::pass::plan::Plan;
use crate::report::Report;
use crate::verify::Verified;

/// The right to write, until dropped or until the process dies, however it dies.
#[derive(Debug)]
pub struct Writer {
    store: EpochStore,
    lock: File,
    /// No epoch gets a smaller number.
    least: EpochNumber,
    /// An epoch that is never deleted.
    in_switches: Option<u64>,
}

impl EpochStore {
    /// Becomes the one writer: creates the state directory if there is none and removes what
    /// crashed writers left. A writer that is there already is waited for, for three seconds.
    ///
    /// # Errors
    /// [`StoreError::Locked`] with the holder's pid if there is a writer already.
    pub fn lock(&self) -> Result<Writer, StoreError> {
        publication::ensure_directory(self.path())?;
        self.refuse_foreign_root()?;
        let lock = take_within(PATIENCE, &self.lock_path())?;
        let writer = Writer { store: self.clone(), lock, least: EpochNumber::after(None), in_switches: None };
        publication::ensure_directory(&self.epochs_path())?;
        publication::sweep(self)?;
        Ok(writer)
    }

    /// Becomes the one service of this state directory. Others may write meanwhile: see
    /// [`EpochStore::lock`]. Does not wait.
    ///
    /// # Errors
    /// [`StoreError::Locked`] with the other service's pid if there is one.
    pub fn serve(&self) -> Result<Serving, StoreError> {
        let path = self.service_lock_path();
        Ok(Serving { lock: take(&path)?, path })
    }

    /// Whether a service of this state directory lives. False also for a user who may not open its lock, and so
    /// cannot know. Not to be asked where one may be about to start.
    pub fn is_served(&self) -> bool {
        self.served().unwrap_or(false)
    }

    /// As [`EpochStore::is_served`], but true for a user who cannot know.
    pub fn may_be_served(&self) -> bool {
        self.served().unwrap_or(true)
    }

    fn served(&self) -> std::io::Result<bool> {
        match File::open(self.service_lock_path()) {
            Ok(lock) => Ok(rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Root may write anywhere, but what it leaves the owner of the directory could neither
    /// replace nor remove.
    fn refuse_foreign_root(&self) -> Result<(), StoreError> {
        let path = self.path();
        let owner = std::fs::metadata(path).map_err(StoreError::io("read", path))?.uid();
        if owner != 0 && rustix::process::geteuid().is_root() {
            return Err(StoreError::Foreign { path: path.to_path_buf(), owner });
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        release(&self.lock);
    }
}

/// The right to be the service of a state directory, until dropped or until the process dies.
#[derive(Debug)]
pub struct Serving {
    lock: File,
    path: PathBuf,
}

impl Serving {
    /// Takes the right once more if somebody has removed its file, with all of the directory perhaps.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another service has it by now. What else may be wrong is not looked at here.
    pub fn keep(&mut self) -> Result<(), StoreError> {
        let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
        let is_there =
            std::fs::metadata(&self.path).map(identity).ok() == self.lock.metadata().map(identity).ok();
        if is_there {
            return Ok(());
        }
        match take(&self.path) {
            Ok(lock) => self.lock = lock,
            Err(error @ StoreError::Locked { .. }) => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        release(&self.lock);
    }
}

/// So long a writer waits for another: one that publishes takes less, one that routes may take longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// [`take`], again and again for so long.
fn take_within(patience: Duration, path: &Path) -> Result<File, StoreError> {
    let begun = Instant::now();
    loop {
        match take(path) {
            Err(StoreError::Locked { .. }) if begun.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(20));
            }
            taken => return taken,
        }
    }
}

/// Whoever may open a lock file, if only for reading, may lock it, and so keep everybody else from writing.
const LOCK_MODE: u32 = 0o600;

/// Takes a lock file, which is made if there is none.
fn take(path: &Path) -> Result<File, StoreError> {
    let options =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(LOCK_MODE).open(path);
    let mut lock = options.map_err(StoreError::io("open", path))?;
    if lock.metadata().is_ok_and(|found| found.mode() & 0o777 & !LOCK_MODE != 0) {
        // Earlier versions made it readable. Whose file it is not cannot close it, and may use it all the same.
        let _ = lock.set_permissions(Permissions::from_mode(LOCK_MODE));
    }
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            // An unreadable pid leaves the holder unnamed.
            let _ = lock.read_to_string(&mut pid);
            return Err(StoreError::Locked { path: path.to_path_buf(), holder: pid.trim().parse().ok() });
        }
        Err(errno) => return Err(StoreError::io("lock", path)(errno.into())),
    }
    // The pid is for people only: a full disk must not keep a rollback from working.
    let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    Ok(lock)
}

fn release(lock: &File) {
    // So that the next to be refused is not told of us.
    let _ = lock.set_len(0);
    // Closing is not enough: a process that another thread is just starting has a copy of the
    // descriptor until it executes its program.
    let _ = flock(lock, FlockOperation::Unlock);
}

impl Writer {
    /// What has been published so far.
    pub fn store(&self) -> &EpochStore {
        &self.store
    }

    /// The same, whose next epoch has this number unless there are epochs with this or a larger one.
    pub fn from_epoch(mut self, least: EpochNumber) -> Self {
        self.least = least;
        self
    }

    /// The same, which deletes no epoch of this number: switches may still have it.
    pub fn keeping(mut self, in_switches: Option<u64>) -> Self {
        self.in_switches = in_switches;
        self
    }

    /// Publishes: on return the epoch is on the disk and in force. Where there is no space for it, old
    /// epochs are deleted, the oldest first, until there is.
    ///
    /// # Errors
    /// Names the path. The old epoch is in force then; only if the very last step failed, syncing
    /// the switched `current`, the new one is.
    pub fn publish(
        &mut self,
        fabric: &Fabric,
        plan: &Verified<Plan>,
        report: &Report,
        created: DateTime<Utc>,
    ) -> Result<EpochNumber, StoreError> {
        let (epoch, files) = self.prepare(fabric, plan, report, created)?;
        let begin = || Publication::new(&self.store, epoch, &files).begin();
        let (begun, row) = rayon::join(begin, || self.read_back(epoch, &files));
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                let _ = begun.map(Publication::undo);
                return Err(error);
            }
        };
        let put = begun.and_then(Publication::finish);
        self.until_there_is_space(&row, &files, put)?;
        Ok(epoch)
    }

    /// Puts an epoch on the disk and in force; where there is no space for it, in the place of old ones.
    pub(super) fn put_with_space(&mut self, row: &HistoryRow, files: &Files) -> Result<(), StoreError> {
        let put = self.put(row.epoch, files);
        self.until_there_is_space(row, files, put)
    }

    /// Tries to put an epoch on the disk again while that has failed for want of space and there is an old one to delete.
    fn until_there_is_space(
        &mut self,
        row: &HistoryRow,
        files: &Files,
        mut put: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        while let Err(error) = put {
            // Old epochs are worth less than the one that is due.
            if !error.is_no_space() || !self.make_space()? {
                return Err(error);
            }
            put = self.put(row.epoch, files);
        }
        history::index(&self.store, row);
        Ok(())
    }

    /// Puts an epoch on the disk and in force, or leaves everything as it was.
    fn put(&self, epoch: EpochNumber, files: &Files) -> Result<(), StoreError> {
        Publication::new(&self.store, epoch, files).finish()
    }

    /// Deletes the oldest epoch that is neither in force nor in the switches. False if there is none.
    pub(super) fn make_space(&mut self) -> Result<bool, StoreError> {
        let current = self.store.current()?;
        let oldest = self.store.epochs()?.into_iter().find(|n| self.may_go(*n, current));
        // Without an epoch in force the newest number must not come again.
        let Some(oldest) = oldest.filter(|_| current.is_some()) else { return Ok(false) };
        publication::remove_epoch(&self.store, oldest)?;
        Ok(true)
    }

    /// The next number, and the files of its directory.
    pub(super) fn prepare(
        &self,
        fabric: &Fabric,
        verified: &Verified<Plan>,
        report: &Report,
        created: DateTime<Utc>,
    ) -> Result<(EpochNumber, Files), StoreError> {
        let plan = verified.get();
        if plan.tables.fabric() != fabric.fingerprint() {
            let (plan, fabric) = (plan.tables.fabric().to_string(), fabric.fingerprint().to_string());
            return Err(StoreError::WrongFabric { plan, fabric });
        }
        // A damaged `current` is no reason not to replace it.
        let previous = self.store.current().unwrap_or(None);
        let epoch = EpochNumber::after(self.store.epochs()?.last().copied().max(previous)).max(self.least);
        let record = PlanRecord::new(fabric, plan, verified.promise(), epoch, previous, created);
        let json = |e: serde_json::Error| StoreError::Unwritable(e.to_string());
        let tables = {
            let closure = plan.lanes.as_ref().map(|lanes| &*lanes.closure);
            let of = |set| plan.lids.as_ref().map(|lids| lids.of(&plan.tables, set));
            let (base, high) = (of(LidSet::Base).unwrap_or(&plan.tables), of(LidSet::High));
            let proof = verified.certificate().map(|certificate| (certificate, verified.promise()));
            handoff::encode_lids(fabric, base, high, closure, proof, epoch.get())
        };
        let (plan, report) = (to_json(&record).map_err(json)?, to_json(report).map_err(json)?);
        Ok((epoch, Files::new(plan, tables, report)))
    }

    /// The line of the history of an epoch that is not on the disk yet. What cannot be read back (a figure that is not
    /// a number, say) must not come into force. The checksums are made meanwhile.
    fn read_back(&self, epoch: EpochNumber, files: &Files) -> Result<HistoryRow, StoreError> {
        let parse = || Epoch::parse(epoch, &self.store.epoch_path(epoch), files);
        let (_, parsed) = rayon::join(|| files.sums(), parse);
        parsed.map(|parsed| HistoryRow::of(&parsed)).map_err(|e| StoreError::Unwritable(e.to_string()))
    }

    /// Puts an earlier epoch back in force, after checking it against its checksums.
    ///
    /// # Errors
    /// If it is damaged or does not exist; nothing changes then.
    pub fn rollback(&mut self, epoch: EpochNumber) -> Result<(), StoreError> {
        self.store.epoch(epoch)?;
        let switched =
            publication::make_link(&self.store, epoch).and_then(|()| publication::switch(&self.store));
        if switched.is_err() {
            // The half-made link; what cannot be removed now goes with the next lock.
            let _ = publication::sweep(&self.store);
        }
        switched?;
        publication::sync_directory(self.store.path())
    }

    /// Deletes epochs, except the newest `keep` (at least one, so that no number comes again), the one in force and
    /// that of [`Writer::keeping`]. Returns the deleted ones.
    ///
    /// # Errors
    /// If it is not known what is in force, or a directory cannot be deleted.
    pub fn collect_garbage(&mut self, keep: usize) -> Result<Vec<EpochNumber>, StoreError> {
        let current = self.store.current()?;
        let mut doomed = self.store.epochs()?;
        doomed.truncate(doomed.len().saturating_sub(keep.max(1)));
        doomed.retain(|n| self.may_go(*n, current));
        for epoch in &doomed {
            publication::remove_epoch(&self.store, *epoch)?;
        }
        Ok(doomed)
    }

    fn may_go(&self, epoch: EpochNumber, current: Option<EpochNumber>) -> bool {
        Some(epoch) != current && Some(epoch.get()) != self.in_switches
    }
}
