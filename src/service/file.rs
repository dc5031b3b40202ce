//! What the service keeps as JSON in the state directory.

use std::io;
use std::path::PathBuf;

use serde::de::DeserializeOwned;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
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

/// Reads a file; `None` if there is none.
///
/// # Errors
/// If it cannot be read or is not what it should be.
pub fn read<T: DeserializeOwned>(path: PathBuf) -> Result<Option<T>, FileError> {
    match std::fs::read(&path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|source| FileError::Json { path, source })
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError::Io { path, source }),
    }
}
