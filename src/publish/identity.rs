//! `service.id`: whose epochs a state directory has. Two services that publish to one subnet are told apart by it.

use std::fmt;
use std::fs::File;
use std::io::Read;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::job::hex;
use super::{EpochStore, StoreError, Writer, state_file};

/// Name of the file in the state directory.
pub const IDENTITY_FILE: &str = "service.id";

/// Bytes behind an identity: chosen at random, no two services have the same.
const BYTES: usize = 32;
/// Digits of an identity.
const DIGITS: usize = 32;

/// Whose epochs they are: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Identity(String);

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl EpochStore {
    /// Whose epochs these are; `None` before a service has run here, or if a loss of power left the file empty.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn identity(&self) -> Result<Option<Identity>, StoreError> {
        let bytes = state_file::read(&self.path().join(IDENTITY_FILE))?;
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_string());
        Ok(text.filter(|text| !text.is_empty()).map(Identity))
    }
}

impl Writer {
    /// As [`EpochStore::identity`], but gives the state directory one if it has none.
    ///
    /// # Errors
    /// Names the path.
    pub fn identify(&mut self) -> Result<Identity, StoreError> {
        if let Some(identity) = self.store().identity()? {
            return Ok(identity);
        }
        let source = std::path::Path::new("/dev/urandom");
        let mut bytes = [0; BYTES];
        File::open(source)
            .and_then(|mut file| file.read_exact(&mut bytes))
            .map_err(StoreError::io("read", source))?;
        let mut digits = hex(&bytes);
        digits.truncate(DIGITS);
        let identity = Identity(digits);
        self.replace_bytes(IDENTITY_FILE, format!("{identity}\n").as_bytes())?;
        Ok(identity)
    }
}
