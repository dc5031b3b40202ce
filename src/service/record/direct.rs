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
use crate::model::{Coords, Direction, JobId, NodeId, NodeName, Torus, TorusError, Traffic};
use crate::observe::torus_toml::TorusSource;
use crate::pass::torus::Site;
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
    /// the description; null before the first computation.
    pub closed: Option<Vec<String>>,
}

impl SiteText {
    /// The torus as it was at a computation; `None` before the first. `source`: what [`SiteText::text`] says.
    ///
    /// # Errors
    /// The first of the channels that the torus has not.
    pub fn site(&self, source: TorusSource) -> Result<Option<Site>, String> {
        let Some(closed) = &self.closed else { return Ok(None) };
        let closed = closed.iter().map(|text| channel(&source.torus, text));
        let closed: Vec<(NodeId, Direction)> = closed.collect::<Result<_, _>>()?;
        let steady = source.torus.without_channels(closed);
        Ok(Some(Site { torus: source.torus, steady, transit: source.transit.unwrap_or_default() }))
    }
}

/// A channel as descriptions write it: `0.1+Y`.
fn channel(torus: &Torus, text: &str) -> Result<(NodeId, Direction), String> {
    let wrong = |e: TorusError| e.to_string();
    let at = text.find(['+', '-']).ok_or_else(|| format!("{text:?} is no channel"))?;
    let (coords, direction) =
        (text[..at].parse::<Coords>().map_err(wrong)?, text[at..].parse().map_err(wrong)?);
    let node = torus.node_at(coords).ok_or_else(|| format!("{text:?} is outside the torus"))?;
    Ok((node, direction))
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
