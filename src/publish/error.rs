//! What can go wrong with the epoch store. Every message names the path.

use std::io;
use std::path::{Path, PathBuf};

use super::EpochNumber;
use super::handoff::HandoffError;

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another writer is at work.
    #[error("{path} is held by {holder}", path = path.display(),
        holder = holder.map_or("another process".to_string(), |pid| format!("process {pid}")))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds it, if it got as far as writing that down.
        holder: Option<u32>,
    },
    /// Root would write into the directory of another user.
    #[error("{path} belongs to user {owner}: run this as that user (runuser -u $(id -nu {owner}) -- sarouter …)", path = path.display())]
    Foreign {
        /// The state directory.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// A file of an epoch is not what was published.
    #[error("{file} is damaged: {reason}", file = file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// How that was noticed.
        reason: String,
    },
    /// `current` is not a link to an epoch.
    #[error("{path} points at {target:?}, which is not an epoch", path = path.display())]
    BadCurrent {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// No such directory.
    #[error("there is no epoch {epoch} in {path}", path = path.display())]
    NoSuchEpoch {
        /// The number asked for.
        epoch: EpochNumber,
        /// The directory of all epochs.
        path: PathBuf,
    },
    /// The plan is for another fabric than the one given with it.
    #[error("the plan is for fabric {plan}, it was to be published for fabric {fabric}")]
    WrongFabric {
        /// Fingerprint in the plan's tables.
        plan: String,
        /// Fingerprint of the fabric given.
        fabric: String,
    },
    /// The plan cannot be written so that it can be read again.
    #[error("the plan cannot be written: {0}")]
    Unwritable(String),
    /// See [`HandoffError`].
    #[error("the stored tables do not fit: {0}")]
    Handoff(#[from] HandoffError),
}

impl StoreError {
    /// Makes an [`io::Error`] say on what it happened.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// Whether there is no space left on the disk, or no quota.
    pub(super) fn is_no_space(&self) -> bool {
        let kind = match self {
            Self::Io { source, .. } => source.kind(),
            _ => return false,
        };
        matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// A file that is not as published.
    pub(super) fn damaged(file: &Path, reason: impl ToString) -> Self {
        Self::Damaged { file: file.to_path_buf(), reason: reason.to_string() }
    }
}
