//! Outside to model: fabric files and generated specs, jobs, Slurm. Decides nothing.

pub mod child;
pub mod fabric;
pub mod grid;
pub mod hostlist;
pub mod ibnetdiscover;
pub mod jobs;
pub mod nodes;
pub mod pending;
pub mod regular;
pub mod secret;
pub mod slurm;
pub mod slurmrestd;
pub mod source;
pub mod spool;
pub mod topology_conf;
pub mod torus_toml;

use std::io;
use std::path::{Path, PathBuf};

/// A file that is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Others could read or replace it.
    #[error("{}: it is not used: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong, in words.
        reason: String,
    },
    /// A wrong line.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

impl FileError {
    /// [`Self::Read`] of this file.
    pub fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_path_buf(), source }
    }

    fn refused(path: &Path, reason: String) -> Self {
        Self::Refused { path: path.to_path_buf(), reason }
    }

    fn line(path: &Path, line: usize, reason: String) -> Self {
        Self::Line { path: path.to_path_buf(), line, reason }
    }
}

/// Without the byte-order mark with which some editors begin a file.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
