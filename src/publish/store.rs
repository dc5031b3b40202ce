//! The epoch store for readers: they need no lock, an epoch does not change.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::epoch::{Files, TABLES};
use super::{Epoch, EpochNumber, History, HistoryRow, Stamp, StoreError, handoff, history};
use crate::model::Fabric;
use crate::pass::plan::{Published, Repair};

/// A state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochStore {
    state: PathBuf,
}

impl EpochStore {
    /// The store in a state directory. The directory need not exist: then nothing is published.
    /// The first [`EpochStore::lock`] creates it.
    ///
    /// # Errors
    /// If the path is something else than a directory or cannot be looked at.
    pub fn open(state: &Path) -> Result<Self, StoreError> {
        let store = Self { state: state.to_path_buf() };
        match fs::metadata(state) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(store),
            Err(e) => Err(StoreError::io("look at", state)(e)),
            Ok(found) if found.is_dir() => Ok(store),
            Ok(_) => Err(StoreError::io("open", state)(ErrorKind::NotADirectory.into())),
        }
    }

    /// The state directory.
    pub fn path(&self) -> &Path {
        &self.state
    }
    pub(super) fn epochs_path(&self) -> PathBuf {
        self.state.join("epochs")
    }
    /// The link to the epoch in force.
    pub fn current_path(&self) -> PathBuf {
        self.state.join("current")
    }
    /// Directory of an epoch.
    pub fn epoch_path(&self, epoch: EpochNumber) -> PathBuf {
        self.epochs_path().join(epoch.directory())
    }
    pub(super) fn lock_path(&self) -> PathBuf {
        self.state.join("lock")
    }
    /// What the one service of this state directory has locked since it started.
    pub fn service_lock_path(&self) -> PathBuf {
        self.state.join("service.lock")
    }
    pub(super) fn history_path(&self) -> PathBuf {
        self.state.join("history.db")
    }

    /// The epoch in force; `None` before the first. Says nothing about its content.
    ///
    /// # Errors
    /// If `current` is not a link to an epoch's directory.
    pub fn current(&self) -> Result<Option<EpochNumber>, StoreError> {
        let path = self.current_path();
        let target = match fs::read_link(&path) {
            Ok(target) => target,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io("read the link", &path)(e)),
        };
        let named = target.strip_prefix("epochs").ok().map(Path::as_os_str).and_then(OsStr::to_str);
        match named.and_then(EpochNumber::from_directory) {
            Some(epoch) => Ok(Some(epoch)),
            None => Err(StoreError::BadCurrent { path, target }),
        }
    }

    /// Reads an epoch and checks it against its checksums.
    ///
    /// # Errors
    /// Names the damaged or missing file.
    pub fn epoch(&self, epoch: EpochNumber) -> Result<Epoch, StoreError> {
        let directory = self.epoch_path(epoch);
        if !directory.is_dir() {
            return Err(StoreError::NoSuchEpoch { epoch, path: self.epochs_path() });
        }
        Epoch::parse(epoch, &directory, &Files::read(&directory)?)
    }

    /// The files of an epoch as they are now: as long as these stay the same, so does what is read from them.
    ///
    /// # Errors
    /// If one of them cannot be looked at.
    pub fn stamps(&self, epoch: EpochNumber) -> io::Result<Vec<Stamp>> {
        let directory = self.epoch_path(epoch);
        Files::NAMES.iter().map(|name| Stamp::of(&directory.join(name))).collect()
    }

    /// The fabric that an epoch was made for, by GUIDs: see [`handoff::fabric`].
    ///
    /// # Errors
    /// Names the damaged or missing file.
    pub fn fabric(&self, epoch: EpochNumber) -> Result<Fabric, StoreError> {
        let directory = self.epoch_path(epoch);
        let files = Files::read(&directory)?;
        handoff::fabric(files.get(TABLES)).map_err(|e| StoreError::damaged(&directory.join(TABLES), e))
    }

    /// Numbers of all stored epochs, ascending, damaged ones included.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn epochs(&self) -> Result<Vec<EpochNumber>, StoreError> {
        let path = self.epochs_path();
        let mut found = Vec::new();
        match fs::read_dir(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(StoreError::io("read", &path)(e)),
            Ok(entries) => {
                for entry in entries {
                    let name = entry.map_err(StoreError::io("read", &path))?.file_name();
                    found.extend(name.to_str().and_then(EpochNumber::from_directory));
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// What is in force, for the next plan; `None` before the first epoch.
    ///
    /// An epoch that was made for another fabric is returned with its own fingerprint.
    ///
    /// # Errors
    /// If the epoch in force is damaged. Planning as if nothing were in force repairs that.
    pub fn published(&self, fabric: &Fabric) -> Result<Option<Published>, StoreError> {
        self.published_as(fabric, None)
    }

    /// The same with what OpenSM's plugin has changed of it, if that was this epoch: then it is between two, and another
    /// one is due.
    ///
    /// # Errors
    /// See [`EpochStore::published`].
    pub fn published_as(
        &self,
        fabric: &Fabric,
        repair: Option<&Repair>,
    ) -> Result<Option<Published>, StoreError> {
        self.current()?.map(|n| self.epoch(n)?.repaired(repair).published(fabric)).transpose()
    }

    /// A line for each epoch, the deleted ones included as far as the index still knows them.
    ///
    /// # Errors
    /// If the directory of epochs cannot be read. A damaged index is only noted.
    pub fn history(&self) -> Result<History, StoreError> {
        self.history_page(history::Page::default())
    }

    /// Adds changes that are no epochs on the disk to the history: those of a direct torus.
    ///
    /// # Errors
    /// If the file cannot be used. Nothing depends on it.
    pub fn add_history(&self, rows: &[HistoryRow]) -> rusqlite::Result<()> {
        history::add(self, rows)
    }

    /// As [`EpochStore::history`], a part of it; costs no more however long the history is.
    ///
    /// # Errors
    /// As there.
    pub fn history_page(&self, page: history::Page) -> Result<History, StoreError> {
        history::read(self, page)
    }
}
