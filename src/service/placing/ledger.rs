//! The held jobs on the disk: who is held and until when survives whatever happens to the service.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::hold::Holds;
use crate::model::FileError;
use crate::service::file;

/// Name of the file in the state directory.
pub const LEDGER_FILE: &str = "held-jobs.json";

/// Reads what is held; nothing if there is no file.
///
/// # Errors
/// With the path.
pub fn read(state: &Path) -> Result<Holds, FileError> {
    Ok(file::read(state.join(LEDGER_FILE))?.unwrap_or_default())
}

/// Writes what is held: on return it is on the disk, and a crash leaves the old file or the new.
///
/// # Errors
/// With the path; the old file then stands.
pub fn write(state: &Path, holds: &Holds) -> Result<(), FileError> {
    let path = state.join(LEDGER_FILE);
    let replace = || -> io::Result<()> {
        fs::create_dir_all(state)?;
        let beside = state.join(format!(".{LEDGER_FILE}.{}", std::process::id()));
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(holds)?)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(state)?.sync_all()
    };
    replace().map_err(|source| FileError::Io { path, source })
}
