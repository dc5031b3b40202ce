//! Epochs that another service published: checked anew, then put in force here, byte for byte.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::epoch::{Files, PLAN, REPORT, SUMS, TABLES};
use super::handoff::{self, HandoffError};
use super::{Epoch, EpochNumber, EpochStore, HistoryRow, StoreError, Writer, publication, state_file};
use crate::model::{Fabric, LidSet, Promise, Tables};
use crate::verify::{self, Beside, Finding, Verified};

/// One file of an epoch.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct EpochFile {
    /// Without a directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// An epoch that came from elsewhere: its checksums were right, its parts belong together.
pub struct Received {
    files: Files,
    epoch: Epoch,
    fabric: Fabric,
    tables: Arc<Tables>,
}

impl AsRef<Tables> for Received {
    fn as_ref(&self) -> &Tables {
        &self.tables
    }
}

/// An epoch that is not put in force.
#[derive(Debug, thiserror::Error)]
pub enum ReceivedError {
    /// It is not what was published, or cannot be written here.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It has routes that must not be in force.
    #[error("epoch {epoch} is rejected: {}", words(findings))]
    Rejected {
        /// Its number.
        epoch: EpochNumber,
        /// What the checker found.
        findings: Vec<Finding>,
    },
}

/// The first finding, and how many there are.
fn words(findings: &[Finding]) -> String {
    let first = findings.first().map_or("no reason is known".to_string(), ToString::to_string);
    match findings.len() {
        0 | 1 => first,
        n => format!("{first} (and {} findings more)", n - 1),
    }
}

impl Received {
    /// Reads the files in a directory that somebody else filled. O(entries).
    ///
    /// # Errors
    /// Names the file that is missing, does not match its checksum, or contradicts another.
    pub fn read(directory: &Path, number: EpochNumber) -> Result<Self, StoreError> {
        let files = Files::read(directory)?;
        let epoch = Epoch::parse(number, directory, &files)?;
        let tables = directory.join(TABLES);
        let damaged = |e: HandoffError| StoreError::damaged(&tables, e);
        let fabric = handoff::fabric(files.get(TABLES)).map_err(damaged)?;
        let tables = Arc::new(epoch.tables(&fabric)?);
        Ok(Self { files, epoch, fabric, tables })
    }

    /// What it says of itself: number, engine, promise.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The fabric it is for, as far as routes need it: see [`handoff::fabric`].
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Proves again what the epoch promises, from its tables alone: by its certificate, or in full where it
    /// has none. The change from the epoch before is proved too if that is `before`, of the same fabric.
    ///
    /// # Errors
    /// Why it must not be in force.
    pub fn verify(self, before: Option<&Epoch>) -> Result<Verified<Self>, ReceivedError> {
        let plan = self.epoch.plan();
        let (number, promise, budget) = (plan.epoch, plan.promise, plan.layer_budget);
        let before = before.filter(|b| promise.mixed && plan.previous == Some(b.number()));
        let before = before.filter(|b| b.plan().fabric == plan.fabric);
        // Where one LID of each port keeps its routes, those of the other change.
        let lids = plan.fresh_lids.map_or(LidSet::ALL.to_vec(), |fresh| vec![fresh]);
        let mut mixed: Vec<Tables> = Vec::new();
        if let Some(before) = before {
            for set in lids {
                mixed.push(before.tables_of(&self.fabric, set)?);
            }
        }
        mixed.dedup();
        let apart: Vec<Tables> = self.epoch.kept(&self.fabric)?.into_iter().collect();
        let alone = Promise { mixed: !mixed.is_empty(), ..promise };
        let fabric = self.fabric.clone();
        let tables: &Tables = self.as_ref();
        let later = Beside::of_step(plan.halfway, tables.lanes().is_some(), plan.drained);
        let beside = Beside { mixed: &mixed, apart: &apart, ..later };
        let certificate = self.epoch.certificate(&fabric).filter(|_| !alone.mixed);
        let by_certificate = match certificate {
            Some(certificate) => verify::accept_certified(&fabric, self, budget, alone, &apart, certificate),
            None => return judged(&fabric, self, alone, beside, number),
        };
        match by_certificate {
            Ok(verified) => Ok(verified),
            // The tables may be right though the certificate is not theirs.
            Err(refused) => judged(&fabric, refused.0, alone, beside, number),
        }
    }
}

fn judged(
    fabric: &Fabric,
    received: Received,
    promise: Promise,
    beside: Beside<'_>,
    epoch: EpochNumber,
) -> Result<Verified<Received>, ReceivedError> {
    let budget = received.epoch.plan().layer_budget;
    verify::accept_promise(fabric, received, budget, promise, beside, &[])
        .map_err(|refused| ReceivedError::Rejected { epoch, findings: refused.1.findings })
}

impl EpochStore {
    /// Names and lengths of an epoch's files, the checksums last. What is in them is not looked at.
    ///
    /// # Errors
    /// If there is no such epoch, or a file is missing.
    pub fn files(&self, epoch: EpochNumber) -> Result<Vec<EpochFile>, StoreError> {
        let directory = self.epoch_path(epoch);
        if !directory.is_dir() {
            return Err(StoreError::NoSuchEpoch { epoch, path: self.epochs_path() });
        }
        let file = |name: &str| {
            let path = directory.join(name);
            let found = fs::metadata(&path).map_err(StoreError::io("read", &path))?;
            Ok(EpochFile { name: name.to_string(), bytes: found.len() })
        };
        Files::NAMES.into_iter().map(file).collect()
    }

    /// The checksums of an epoch, as written: equal for equal epochs. `None` if there is no such epoch.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn sums(&self, epoch: EpochNumber) -> Result<Option<String>, StoreError> {
        let bytes = state_file::read(&self.epoch_path(epoch).join(SUMS))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// The longest that a file of an epoch may be; `None` if an epoch has no such file.
pub fn file_limit(name: &str) -> Option<u64> {
    match name {
        TABLES => Some(handoff::MAX_FILE),
        PLAN | REPORT => Some(256 << 20),
        SUMS => Some(1 << 10),
        _ => None,
    }
}

impl Writer {
    /// Puts another service's epoch in force here: the same bytes, under its own number. An epoch with that
    /// number that is there already is replaced. As [`Writer::publish`] otherwise.
    ///
    /// # Errors
    /// As there.
    pub fn adopt(&mut self, verified: &Verified<Received>) -> Result<EpochNumber, StoreError> {
        let received = verified.get();
        let number = received.epoch.number();
        if self.store().epoch_path(number).is_dir() {
            publication::remove_epoch(self.store(), number)?;
        }
        self.put_with_space(&HistoryRow::of(&received.epoch), &received.files)?;
        Ok(number)
    }
}
