//! The way of an epoch onto the disk, as a list of steps. A crash after any of them leaves the old
//! epoch or the new one in force.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::epoch::{Files, PLAN, REPORT, SUMS, TABLES};
use super::{EpochNumber, EpochStore, StoreError};

/// OpenSM may run as another user: everybody may read, whatever the umask.
const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// Prefix of directories that are being filled.
pub(super) const NEW: &str = ".new-";
/// Prefix of directories that are being deleted.
pub(super) const OLD: &str = ".old-";

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// An empty directory beside the epochs.
    MakeDirectory,
    /// An empty file in it.
    Create(&'static str),
    /// Its content.
    Fill(&'static str),
    /// Its content on the disk.
    SyncFile(&'static str),
    /// The names of the files on the disk.
    SyncDirectory,
    /// The directory gets its number.
    Name,
    /// The number on the disk.
    SyncEpochs,
    /// A new link beside `current`.
    MakeLink,
    /// It takes the place of `current`: from here on the new epoch is in force.
    Switch,
    /// `current` on the disk.
    SyncState,
}

/// An epoch on its way onto the disk.
pub(super) struct Publication<'a> {
    store: &'a EpochStore,
    epoch: EpochNumber,
    files: &'a Files,
    open: Option<File>,
    /// Steps that [`Publication::begin`] and [`Publication::finish`] have taken.
    taken: usize,
}

impl<'a> Publication<'a> {
    pub(super) fn new(store: &'a EpochStore, epoch: EpochNumber, files: &'a Files) -> Self {
        Self { store, epoch, files, open: None, taken: 0 }
    }

    /// All steps, in order. The tables, by far the largest file, come first.
    pub(super) fn steps() -> Vec<Step> {
        let mut steps = vec![Step::MakeDirectory];
        for name in [TABLES, PLAN, REPORT, SUMS] {
            steps.extend([Step::Create(name), Step::Fill(name), Step::SyncFile(name)]);
        }
        steps.extend([Step::SyncDirectory, Step::Name, Step::SyncEpochs]);
        steps.extend([Step::MakeLink, Step::Switch, Step::SyncState]);
        steps
    }

    /// The steps up to the content of the tables: before it is known whether the epoch can be read back, as nothing of
    /// them is in force. Leaves everything as it was where one fails.
    pub(super) fn begin(self) -> Result<Self, StoreError> {
        let steps = Self::steps();
        let tables = steps.iter().position(|step| *step == Step::Fill(TABLES));
        self.take(&steps[..=tables.unwrap_or(0)])
    }

    /// All steps that are left, as [`Publication::begin`].
    pub(super) fn finish(self) -> Result<(), StoreError> {
        self.take(&Self::steps()).map(drop)
    }

    fn take(mut self, steps: &[Step]) -> Result<Self, StoreError> {
        for step in &steps[self.taken..] {
            if let Err(error) = self.run(*step) {
                self.undo();
                return Err(error);
            }
            self.taken += 1;
        }
        Ok(self)
    }

    pub(super) fn run(&mut self, step: Step) -> Result<(), StoreError> {
        let directory = self.store.epochs_path().join(format!("{NEW}{}", self.epoch.directory()));
        match step {
            Step::MakeDirectory => make_directory(&directory),
            Step::Create(name) => self.create(&directory.join(name)),
            Step::Fill(name) => self.fill(&directory.join(name), self.files.get(name)),
            Step::SyncFile(name) => self.sync_file(&directory.join(name)),
            Step::SyncDirectory => sync_directory(&directory),
            Step::Name => fs::rename(&directory, self.store.epoch_path(self.epoch))
                .map_err(StoreError::io("rename", &directory)),
            Step::SyncEpochs => sync_directory(&self.store.epochs_path()),
            Step::MakeLink => make_link(self.store, self.epoch),
            Step::Switch => switch(self.store),
            Step::SyncState => sync_directory(self.store.path()),
        }
    }

    fn create(&mut self, path: &Path) -> Result<(), StoreError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
        let file = file.map_err(StoreError::io("create", path))?;
        file.set_permissions(Permissions::from_mode(FILE_MODE))
            .map_err(StoreError::io("set the mode of", path))?;
        self.open = Some(file);
        Ok(())
    }

    fn fill(&mut self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        self.open.iter_mut().try_for_each(|f| f.write_all(bytes)).map_err(StoreError::io("write", path))
    }

    fn sync_file(&mut self, path: &Path) -> Result<(), StoreError> {
        self.open.take().iter().try_for_each(File::sync_all).map_err(StoreError::io("sync", path))
    }

    /// Takes back what an interrupted publication left, unless it is already in force.
    pub(super) fn undo(self) {
        if self.store.current().is_ok_and(|current| current != Some(self.epoch)) {
            // What cannot be removed now goes with the next lock, or stays as an epoch that never
            // was in force.
            let _ = remove_epoch(self.store, self.epoch);
            let _ = sweep(self.store);
        }
    }
}

fn link_path(store: &EpochStore) -> PathBuf {
    store.path().join(".current.new")
}

/// Creates a directory that everybody can read, or leaves an existing one as it is.
pub(super) fn ensure_directory(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() { Ok(()) } else { make_directory(path) }
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path).map_err(StoreError::io("create", path))?;
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
        .map_err(StoreError::io("set the mode of", path))
}

pub(super) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|d| d.sync_all()).map_err(StoreError::io("sync", path))
}

/// Puts a new link beside `current`.
pub(super) fn make_link(store: &EpochStore, epoch: EpochNumber) -> Result<(), StoreError> {
    let link = link_path(store);
    symlink(Path::new("epochs").join(epoch.directory()), &link).map_err(StoreError::io("create", &link))
}

/// Lets the new link take the place of `current`.
pub(super) fn switch(store: &EpochStore) -> Result<(), StoreError> {
    let current = store.current_path();
    fs::rename(link_path(store), &current).map_err(StoreError::io("replace", &current))
}

/// Deletes an epoch. It loses its number first: a directory with a number is always complete.
pub(super) fn remove_epoch(store: &EpochStore, epoch: EpochNumber) -> Result<(), StoreError> {
    let directory = store.epoch_path(epoch);
    let doomed = store.epochs_path().join(format!("{OLD}{}", epoch.directory()));
    fs::rename(&directory, &doomed).map_err(StoreError::io("rename", &directory))?;
    fs::remove_dir_all(&doomed).map_err(StoreError::io("delete", &doomed))
}

/// Removes what crashed writers left. Only under the lock.
pub(super) fn sweep(store: &EpochStore) -> Result<(), StoreError> {
    let link = link_path(store);
    match fs::remove_file(&link) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(StoreError::io("delete", &link)(e)),
        _ => {}
    }
    let epochs = store.epochs_path();
    for entry in fs::read_dir(&epochs).map_err(StoreError::io("read", &epochs))? {
        let path = entry.map_err(StoreError::io("read", &epochs))?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if name.starts_with(NEW) || name.starts_with(OLD) {
            fs::remove_dir_all(&path).map_err(StoreError::io("delete", &path))?;
        }
    }
    Ok(())
}
