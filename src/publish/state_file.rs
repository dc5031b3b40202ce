//! Small files of the state directory beside the epochs: there or not, replaced whole.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;

use super::job::write_synced;
use super::{EpochStore, StoreError, Writer, publication};

/// A file's bytes; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("read", path)(e)),
    }
}

/// Puts a file in the place of an earlier one. Its bytes are on the disk before its name is: no loss of power leaves an
/// empty file.
fn put(state: &Path, name: &str, text: &[u8]) -> Result<(), StoreError> {
    let (path, new) = (state.join(name), state.join(format!(".{name}.new")));
    write_synced(&new, text)?;
    fs::rename(&new, &path).map_err(StoreError::io("replace", &path))?;
    publication::sync_directory(state)
}

impl EpochStore {
    /// Puts a file in the place of an earlier one, by one rename, in a state directory that is made if there is none.
    /// Without the store's lock: for a file that nobody writes but the one service.
    ///
    /// # Errors
    /// Names the path.
    pub fn put(&self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        publication::ensure_directory(self.path())?;
        put(self.path(), name, &line(value)?)
    }
}

/// A value as it stands in a file.
fn line(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec(value).map_err(|e| StoreError::Unwritable(e.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

impl Writer {
    /// Puts a file in the place of an earlier one, by one rename.
    ///
    /// # Errors
    /// Names the path.
    pub fn replace(&mut self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        self.replace_bytes(name, &line(value)?)
    }

    /// As [`Writer::replace`], with these bytes.
    pub(super) fn replace_bytes(&mut self, name: &str, text: &[u8]) -> Result<(), StoreError> {
        put(self.store().path(), name, text)
    }

    /// Removes a file; returns whether there was one.
    pub(super) fn remove(&mut self, name: &str) -> Result<bool, StoreError> {
        let path = self.store().path().join(name);
        match fs::remove_file(&path) {
            Ok(()) => publication::sync_directory(self.store().path()).map(|()| true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(StoreError::io("delete", &path)(e)),
        }
    }
}
