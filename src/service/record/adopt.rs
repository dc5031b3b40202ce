//! Epochs that lie beside the files of a recording, put into the store of a replay.

use std::fs;
use std::path::Path;

use super::replay::ReplayError;
use super::{PolicyLine, older_path};
use crate::model::FileError;
use crate::publish::{EpochNumber, EpochStore};

/// Puts the epoch beside the first file in force.
pub(super) fn adopt(store: &EpochStore, epoch: EpochNumber, base: &Path) -> Result<(), ReplayError> {
    copy_epoch(store, epoch, base)?;
    store.lock()?.rollback(epoch)?;
    Ok(())
}

/// Copies an epoch beside a file that OpenSM had in the switches, and that the file did not make.
pub(super) fn adopt_older(store: &EpochStore, policy: &PolicyLine, file: &Path) -> Result<(), ReplayError> {
    let Some(epoch) = policy.in_switches.map(|found| found.epoch) else { return Ok(()) };
    let base = older_path(file, epoch);
    match EpochNumber::new(epoch) {
        Some(number) if base.is_dir() && !store.epoch_path(number).exists() => {
            copy_epoch(store, number, &base)
        }
        _ => Ok(()),
    }
}

fn copy_epoch(store: &EpochStore, epoch: EpochNumber, base: &Path) -> Result<(), ReplayError> {
    let to = store.epoch_path(epoch);
    fs::create_dir_all(&to).map_err(FileError::io(&to))?;
    for entry in fs::read_dir(base).map_err(FileError::io(base))? {
        let from = entry.map_err(FileError::io(base))?.path();
        if let Some(name) = from.file_name() {
            fs::copy(&from, to.join(name)).map_err(FileError::io(&from))?;
        }
    }
    Ok(())
}
