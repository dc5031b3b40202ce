//! An administrator's hold: while `STATE/hold.json` is there, no epoch is published, so that the
//! one put in force by hand stays.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EpochNumber, EpochStore, StoreError, Writer, state_file};

/// Name of the file in the state directory.
pub const HOLD_FILE: &str = "hold.json";

/// Bytes of a reason; a sentence is shorter.
const MOST_REASON: usize = 1000;

/// Whether words can be the reason of a hold.
///
/// # Errors
/// In words.
pub fn may_be_reason(words: &str) -> Result<(), String> {
    match words.len() > MOST_REASON || words.chars().any(char::is_control) {
        true => Err(format!("the reason must be a line of at most {MOST_REASON} bytes")),
        false => Ok(()),
    }
}

/// Since when, and why.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Hold {
    /// Since when.
    pub since: DateTime<Utc>,
    /// The epoch that was in force then.
    pub epoch: Option<EpochNumber>,
    /// The administrator's words.
    pub reason: String,
    /// Who; `None` in files of before this was written down.
    #[serde(default)]
    pub by: Option<String>,
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
            by: None,
        };
        let bytes = state_file::read(&path)?;
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes).unwrap_or_else(|_| unreadable())))
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
}
