//! What goes wrong with slurmrestd.

use reqwest::StatusCode;

use crate::model::FileError;
use crate::observe::source::PollError;

/// Why slurmrestd gave no jobs.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    /// No client can be made of the settings.
    #[error("slurmrestd: {0}")]
    Client(#[source] reqwest::Error),
    /// The token cannot be used.
    #[error("slurmrestd: {0}")]
    Token(#[from] FileError),
    /// The token is not one line of printable characters.
    #[error("slurmrestd: the token file holds no token")]
    NoToken,
    /// No answer.
    #[error("slurmrestd: {path}: {source}")]
    Exchange {
        /// What was asked.
        path: String,
        /// What the connection says.
        source: reqwest::Error,
    },
    /// It answers, but not with jobs.
    #[error("slurmrestd: {path}: {status}: {message}")]
    Refused {
        /// What was asked.
        path: String,
        /// HTTP status.
        status: StatusCode,
        /// The beginning of what it says.
        message: String,
    },
    /// More than allowed.
    #[error("slurmrestd: {path}: more than {limit} bytes")]
    TooMuch {
        /// What was asked.
        path: String,
        /// The bound.
        limit: u64,
    },
    /// It offers no version of the interface that lists jobs.
    #[error("slurmrestd: it offers no version of /slurm/v0.0.*/jobs")]
    NoVersion,
}

impl RestError {
    /// Whether an error is that slurmrestd refused, with this word in what it said.
    pub(super) fn refused_for(error: &PollError, word: &str) -> bool {
        let PollError::Source(error) = error else { return false };
        matches!(error.downcast_ref(), Some(Self::Refused { message, .. }) if message.contains(word))
    }
}

impl From<RestError> for PollError {
    fn from(error: RestError) -> Self {
        Self::Source(Box::new(error))
    }
}
