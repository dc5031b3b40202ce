//! The trial that is under way: `STATE/trial.json`.

use std::path::Path;

use super::{StoreError, Writer, state_file};
use crate::pass::trial::Trial;

/// Name of the file in the state directory.
pub const TRIAL_FILE: &str = "trial.json";

/// The trial of a state directory, if there is one.
///
/// # Errors
/// If it cannot be read or is not understood.
pub fn read_trial(state: &Path) -> Result<Option<Trial>, StoreError> {
    let path = state.join(TRIAL_FILE);
    let trial = state_file::read(&path)?.map(|bytes| serde_json::from_slice(&bytes));
    trial.transpose().map_err(|e| StoreError::io("understand", &path)(e.into()))
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
