//! Where the jobs come from: what every source does, and the table of those that there are.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::child::ChildError;
use super::jobs::JobsError;
use super::{slurm, slurmrestd, spool};
use crate::config::Settings;
use crate::model::{JobMap, did_you_mean, nearest};

/// A source of jobs that settings may name. Its row stands in the file that reads it.
pub struct JobSourceRow {
    /// Value of `slurm.source`.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// Settings that say where it is; those in brackets may be left out.
    pub settings: &'static str,
    /// Makes it for a site and touches nothing yet; `None` if a setting that it needs is not there.
    pub make: fn(&Settings) -> Option<Box<dyn JobSource>>,
    /// Whether its jobs are Slurm's, whose other commands know the nodes.
    pub is_slurm: bool,
    /// What rules for traffic cannot see of its jobs, and what would show it; `None` if they see all.
    pub unseen: fn(&Settings) -> Option<&'static str>,
}

impl std::fmt::Debug for JobSourceRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All sources of jobs, the default first.
pub const JOB_SOURCES: &[JobSourceRow] = &[slurm::SOURCE, slurmrestd::SOURCE, spool::SOURCE];

impl JobSourceRow {
    /// The source of that name.
    ///
    /// # Errors
    /// In words, with the name that was probably meant.
    pub fn of(name: &str) -> Result<&'static Self, String> {
        let names = || JOB_SOURCES.iter().map(|row| row.name);
        JOB_SOURCES.iter().find(|row| row.name == name).ok_or_else(|| {
            let instead = match nearest(name, names()) {
                None => format!("; known are {}", names().collect::<Vec<_>>().join(", ")),
                near => did_you_mean(near),
            };
            format!("{name:?} is not known here{instead}")
        })
    }

    /// The source for a site, which touches nothing yet.
    ///
    /// # Errors
    /// If a setting that it needs is not there, in words.
    pub fn for_site(&self, settings: &Settings) -> Result<Box<dyn JobSource>, String> {
        (self.make)(settings).ok_or_else(|| format!("this source needs {}", self.settings))
    }
}

/// Who is asked for the jobs of a site.
pub fn job_source(settings: &Settings) -> Box<dyn JobSource> {
    let made = JobSourceRow::of(&settings.slurm.source).and_then(|row| row.for_site(settings));
    made.unwrap_or_else(|why| Box::new(NoSource(why)))
}

/// In the place of a source that settings name which no file can say.
struct NoSource(String);

impl JobSource for NoSource {
    fn poll(&mut self, _: DateTime<Utc>) -> Poll<'_> {
        Box::pin(async { Err(PollError::NoSource(self.0.clone())) })
    }
}

/// Why there are no jobs.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// A command gave no output.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// What came is not understood, or is Slurm's own complaint.
    #[error(transparent)]
    Jobs(#[from] JobsError),
    /// What only one source knows of, such as [`slurmrestd::RestError`].
    #[error(transparent)]
    Source(Box<dyn Error + Send + Sync>),
    /// Several asked together.
    #[error(transparent)]
    Together(Arc<PollError>),
    /// The settings name no source that can be made.
    #[error("slurm.source: {0}")]
    NoSource(String),
    /// A bug: asking panicked.
    #[error("asking for the jobs was aborted")]
    Aborted,
}

/// The answer to come from a [`JobSource`].
pub type Poll<'a> = Pin<Box<dyn Future<Output = Result<JobMap, PollError>> + Send + 'a>>;

/// Where the jobs come from. An implementation bounds its own time.
pub trait JobSource: Send {
    /// Asks once. `now` becomes the time of the snapshot.
    fn poll(&mut self, now: DateTime<Utc>) -> Poll<'_>;

    /// How long it will go on answering what it knows instead of asking; `None` if it asks each time.
    fn fresh_in(&self) -> Option<Duration> {
        None
    }
}
