//! The trial that is under way: `STATE/trial.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::{StoreError, Writer};
use crate::pass::trial::Trial;

/// Name of the file in the state directory.
pub const TRIAL_FILE: &str = "trial.json";

/// The trial of a state directory, if there is one.
///
/// # Errors
/// If it cannot be read or is not understood.
pub fn read_trial(state: &Path) -> Result<Option<Trial>, StoreError> {
    let path = state.join(TRIAL_FILE);
    match fs::read(&path) {
        Ok(bytes) => {
            let read = serde_json::from_slice(&bytes);
            read.map(Some).map_err(|e| StoreError::io("understand", &path)(e.into()))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("read", &path)(e)),
    }
}

impl Writer {
    /// Begins a trial, instead of one that was there.
    ///
    /// # Errors
    /// Names the path.
    pub fn begin_trial(&mut self, trial: &Trial) -> Result<(), StoreError> {
        self.replace(TRIAL_FILE, trial)
    }

    /// Ends a trial; returns whether there was one.
    ///
    /// # Errors
    /// Names the path.
    pub fn end_trial(&mut self) -> Result<bool, StoreError> {
        self.remove(TRIAL_FILE)
    }
}
