//! What is wrong with a file.

use std::io;
use std::path::{Path, PathBuf};

/// A file that is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
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
    /// [`Self::Io`] of this file.
    pub fn io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }

    /// [`Self::Refused`] of this file.
    pub fn refused(path: &Path, reason: impl Into<String>) -> Self {
        Self::Refused { path: path.to_path_buf(), reason: reason.into() }
    }

    /// [`Self::Line`] of this file.
    pub fn line(path: &Path, line: usize, reason: impl Into<String>) -> Self {
        Self::Line { path: path.to_path_buf(), line, reason: reason.into() }
    }
}
