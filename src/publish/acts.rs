//! What administrators did by hand, and who: a line each in `STATE/acts.jsonl`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EpochNumber, EpochStore, StoreError, Writer};

/// Name of the file in the state directory.
pub const ACTS_FILE: &str = "acts.jsonl";

/// Bytes at the end of the file that are read: thousands of acts.
const READ: u64 = 1 << 20;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// What is in force is held.
    Hold,
    /// A hold ended.
    Resume,
    /// An earlier epoch came into force.
    Rollback,
}

/// One act.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Act {
    /// Time of the act.
    pub time: DateTime<Utc>,
    /// What was done.
    pub act: Deed,
    /// The epoch in force after it.
    pub epoch: Option<EpochNumber>,
    /// Who, as the system knows them.
    pub by: Option<String>,
    /// Their words.
    pub reason: String,
}

impl EpochStore {
    /// The newest acts, oldest first. Lines that are not understood are left out.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn acts(&self) -> Result<Vec<Act>, StoreError> {
        let path = self.path().join(ACTS_FILE);
        let mut file = match std::fs::File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(StoreError::io("read", &path)(e)),
        };
        let mut read = || -> std::io::Result<Vec<u8>> {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(READ)))?;
            let mut bytes = Vec::new();
            Read::by_ref(&mut file).take(READ).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(StoreError::io("read", &path))?;
        Ok(bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

impl Writer {
    /// Writes down an act. That this is not possible, on a full disk, is no reason not to act: it is in the log of
    /// the command then.
    pub fn note(&mut self, act: &Act) {
        let path = self.store().path().join(ACTS_FILE);
        let line = serde_json::to_string(act).unwrap_or_default();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        // A line begins where one that was cut ends.
        if let Err(error) = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
            tracing::warn!("{}: {error}: not written down: {line}", path.display());
        }
    }
}
