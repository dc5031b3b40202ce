//! What the service keeps as JSON in the state directory.

use std::io;
use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::model::FileError;

/// Reads a file; `None` if there is none.
///
/// # Errors
/// If it cannot be read or is not what it should be.
pub fn read<T: DeserializeOwned>(path: PathBuf) -> Result<Option<T>, FileError> {
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| FileError::io(&path)(e.into())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError::io(&path)(source)),
    }
}
