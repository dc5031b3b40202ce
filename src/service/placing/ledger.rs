//! The held jobs on the disk: who is held and until when survives whatever happens to the service.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::hold::Holds;

/// Name of the file in the state directory.
pub const LEDGER_FILE: &str = "held-jobs.json";

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
}

/// Reads what is held; nothing if there is no file.
///
/// # Errors
/// With the path.
pub fn read(state: &Path) -> Result<Holds, LedgerError> {
    let path = state.join(LEDGER_FILE);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| LedgerError::Json { path, source }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Holds::default()),
        Err(source) => Err(LedgerError::Io { path, source }),
    }
}

/// Writes what is held: on return it is on the disk, and a crash leaves the old file or the new.
///
/// # Errors
/// With the path; the old file then stands.
pub fn write(state: &Path, holds: &Holds) -> Result<(), LedgerError> {
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
    replace().map_err(|source| LedgerError::Io { path, source })
}
