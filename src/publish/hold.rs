//! An administrator's hold: while `STATE/hold.json` is there, no epoch is published, so that the
//! one put in force by hand stays.

use std::fs;
use std::io::ErrorKind;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{EpochNumber, EpochStore, StoreError, Writer, publication};

/// Name of the file in the state directory.
pub const HOLD_FILE: &str = "hold.json";

/// Since when, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Since when.
    pub since: DateTime<Utc>,
    /// The epoch that was in force then.
    pub epoch: Option<EpochNumber>,
    /// The administrator's words.
    pub reason: String,
}

impl EpochStore {
    /// The hold, if there is one. A file that is not understood holds too: it was put there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn hold(&self) -> Result<Option<Hold>, StoreError> {
        let path = self.path().join(HOLD_FILE);
        let unreadable = || Hold {
            since: DateTime::<Utc>::UNIX_EPOCH,
            epoch: None,
            reason: format!("{} is not understood", path.display()),
        };
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).unwrap_or_else(|_| unreadable()))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io("read", &path)(e)),
        }
    }
}

impl Writer {
    /// Holds what is in force, or what is put in force under the same lock.
    ///
    /// # Errors
    /// Names the path.
    pub fn hold(&mut self, hold: &Hold) -> Result<(), StoreError> {
        self.replace(HOLD_FILE, hold)
    }

    /// Ends the hold; returns whether there was one.
    ///
    /// # Errors
    /// Names the path.
    pub fn resume(&mut self) -> Result<bool, StoreError> {
        self.remove(HOLD_FILE)
    }

    /// Puts a file of the state directory in the place of an earlier one, by one rename.
    pub(super) fn replace(&mut self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let path = self.store().path().join(name);
        let new = self.store().path().join(format!(".{name}.new"));
        let mut text = serde_json::to_vec(value).map_err(|e| StoreError::Unwritable(e.to_string()))?;
        text.push(b'\n');
        fs::write(&new, text).map_err(StoreError::io("write", &new))?;
        fs::rename(&new, &path).map_err(StoreError::io("replace", &path))?;
        publication::sync_directory(self.store().path())
    }

    /// Removes a file of the state directory; returns whether there was one.
    pub(super) fn remove(&mut self, name: &str) -> Result<bool, StoreError> {
        let path = self.store().path().join(name);
        match fs::remove_file(&path) {
            Ok(()) => publication::sync_directory(self.store().path()).map(|()| true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(StoreError::io("delete", &path)(e)),
        }
    }
}
