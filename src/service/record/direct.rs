//! The lines of a direct torus: which tables were computed for whom, on what, and who is over.
//!
//! Tables depend on the torus, the jobs that start, the routes of those that run, and on how long an engine
//! searched: a line tells how often it had asked whether to go on. So [`super::replay`] makes them again byte
//! for byte.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Line, Recorder, link_files};
use crate::model::{JobId, NodeName, Traffic};
use crate::publish::angara::NODES_FILE;
use crate::publish::job;

/// A job that starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartLine {
    /// Number by which Slurm knows it.
    pub job: JobId,
    /// Its nodes in rank order.
    pub nodes: Vec<NodeName>,
    /// What it is taken to exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
}

/// A torus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteText {
    /// A spec, or the content of a description; empty if it could not be read.
    pub text: String,
    /// Channels that work and yet wait until jobs are over that were routed without them, as in `failed` of
    /// the description; null before the first computation of a process.
    pub closed: Option<Vec<String>>,
}

/// What a recording of a direct torus keeps beside each of its files.
#[derive(Debug)]
pub struct Standing {
    /// Directories of jobs.
    pub root: PathBuf,
    /// The torus, until the next computation.
    pub site: SiteText,
}

impl Standing {
    /// Jobs that have tables.
    fn jobs(&self) -> Vec<JobId> {
        let mut jobs = job::published(&self.root).unwrap_or_default();
        jobs.retain(|id| self.root.join(id.as_str()).join(NODES_FILE).is_file());
        jobs
    }

    pub(super) fn line(&self) -> Line {
        let jobs = self.jobs().into_iter().filter_map(|id| Some((id.clone(), job::digest(&self.root, &id)?)));
        Line::Standing { site: self.site.clone(), jobs: jobs.collect() }
    }

    /// Keeps the tables of these jobs.
    pub(super) fn keep(&self, base: &Path) -> io::Result<()> {
        fs::create_dir(base)?;
        self.jobs()
            .iter()
            .try_for_each(|id| link_files(&self.root.join(id.as_str()), &base.join(id.as_str())))
    }
}

impl Recorder {
    /// Writes that tables are computed, in a new file if this one is full. `site`: the torus before.
    ///
    /// # Errors
    /// If it cannot be written; the file is then as before.
    pub fn compute(&mut self, line: Line, now: DateTime<Utc>, site: SiteText) -> io::Result<()> {
        if let Some(direct) = &mut self.direct {
            direct.site = site;
        }
        if self.length > self.bounds.file_bytes {
            self.rotate(now)?;
        }
        self.line(&line)
    }
}
