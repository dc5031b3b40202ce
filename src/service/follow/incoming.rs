//! Epochs on their way here: `STATE/incoming/000123`. What came before a connection broke is gone on with; an
//! epoch leaves this place only whole.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use super::remote::{Remote, RemoteError};
use crate::model::FileError;
use crate::publish::{EpochNumber, file_limit};
use crate::service::api::follow::EpochFiles;

/// Name of the directory in the state directory.
pub const INCOMING_DIRECTORY: &str = "incoming";

const SUMS: &str = "SHA256SUMS";

/// Why an epoch has not come.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// The service did not give it.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// It cannot be kept.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that no epoch has, or of a length that none has.
    #[error("epoch {epoch}: the service tells of a file {name:?} of {bytes} bytes")]
    Strange {
        /// Which epoch.
        epoch: EpochNumber,
        /// The file's name.
        name: String,
        /// Its length.
        bytes: u64,
    },
    /// Not the four files.
    #[error("epoch {0}: the service does not tell of all its files")]
    Incomplete(EpochNumber),
    /// The service gives less than it told of.
    #[error("epoch {epoch}: {name} ends after {found} of {bytes} bytes")]
    Short {
        /// Which epoch.
        epoch: EpochNumber,
        /// The file's name.
        name: String,
        /// How much there is.
        found: u64,
        /// How much was told of.
        bytes: u64,
    },
}

/// The place of epochs on their way.
#[derive(Debug)]
pub struct Incoming {
    home: PathBuf,
}

impl Incoming {
    /// In a state directory.
    pub fn new(state: &Path) -> Self {
        Self { home: state.join(INCOMING_DIRECTORY) }
    }

    /// Brings the files of an epoch here and says where they are; goes on where it was broken off.
    ///
    /// # Errors
    /// [`IncomingError`]; what has come is kept for the next time.
    pub async fn bring(&self, remote: &Remote, told: &EpochFiles) -> Result<PathBuf, IncomingError> {
        let directory = self.prepare(told)?;
        let mut missing = ["plan.json", "lft.bin", "report.json", SUMS].to_vec();
        for file in &told.files {
            let (name, bytes, epoch) = (file.name.clone(), file.bytes, told.epoch);
            if file_limit(&name).is_none_or(|limit| bytes > limit) {
                return Err(IncomingError::Strange { epoch, name, bytes });
            }
            missing.retain(|wanted| *wanted != name);
            if name != SUMS {
                self.bring_file(remote, epoch, &name, bytes, &directory.join(&name)).await?;
            }
        }
        if missing.is_empty() { Ok(directory) } else { Err(IncomingError::Incomplete(told.epoch)) }
    }

    /// Forgets all that has come.
    pub fn clear(&self) {
        // What cannot be removed is overwritten the next time.
        let _ = fs::remove_dir_all(&self.home);
    }

    /// A directory for this very epoch, with what has come of it.
    fn prepare(&self, told: &EpochFiles) -> Result<PathBuf, IncomingError> {
        let directory = self.home.join(told.epoch.directory());
        let sums = directory.join(SUMS);
        if fs::read(&sums).is_ok_and(|found| found == told.sums.as_bytes()) {
            return Ok(directory);
        }
        // Another epoch, or another one with this number.
        self.clear();
        fs::create_dir_all(&directory).map_err(FileError::io(&directory))?;
        fs::write(&sums, &told.sums).map_err(FileError::io(&sums))?;
        Ok(directory)
    }

    async fn bring_file(
        &self,
        remote: &Remote,
        epoch: EpochNumber,
        name: &str,
        bytes: u64,
        path: &Path,
    ) -> Result<(), IncomingError> {
        let mut file =
            OpenOptions::new().append(true).create(true).open(path).map_err(FileError::io(path))?;
        let length = |file: &File| file.metadata().map(|m| m.len()).map_err(FileError::io(path));
        let mut found = length(&file)?;
        if found > bytes {
            file.set_len(0).map_err(FileError::io(path))?;
            found = 0;
        }
        while found < bytes {
            if remote.part(epoch, name, found, &mut file).await? == 0 {
                return Err(IncomingError::Short { epoch, name: name.to_string(), found, bytes });
            }
            found = length(&file)?;
        }
        Ok(())
    }
}
