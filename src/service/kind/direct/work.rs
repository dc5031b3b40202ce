//! What the service of a direct torus does beside its loop: computing tables, and writing them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tracing::warn;

use crate::measure::angara::measure;
use crate::model::{JobId, NodeName, Torus, TorusJob};
use crate::observe::torus_toml::{self, TorusSource, TorusSourceError};
use crate::pass::torus::{Cut, Plan, Site, plan};
use crate::publish::angara;
use crate::publish::job;
use crate::route::angara::{Limits, engine};
use crate::service::chain;
use crate::service::handoff::StartId;

/// Jobs that run with tables of ours, each with its routes.
pub(in crate::service) type Running = BTreeMap<JobId, TorusJob>;

/// One computation.
pub(in crate::service) struct Work {
    /// Read for each computation: what has failed meanwhile is known then.
    pub source: Source,
    /// Tried in turn.
    pub engines: Vec<String>,
    /// The torus of the last computation, [`Site::steady`].
    pub site: Option<Site>,
    /// Even if the torus is as it was.
    pub again: bool,
    pub running: Running,
    /// Directories of jobs whose tables nobody has read yet: they count as those of `running`.
    pub unread: Option<PathBuf>,
    pub starts: Vec<StartId>,
    /// Their nodes that are on other fabrics alone.
    pub elsewhere: BTreeSet<NodeName>,
    pub limit: Limit,
}

/// Where the torus comes from.
pub(in crate::service) enum Source {
    /// A spec, or the path of a description.
    Named(String),
    /// As it was read once.
    Text(String),
}

/// How long engines search once there are tables.
#[derive(Debug, Clone, Copy)]
pub(in crate::service) enum Limit {
    /// So long.
    For(Duration),
    /// Until they have asked so often, as another search of the same did; without a number to their end.
    Asked(Option<u32>),
}

/// Tells engines whether to go on, and how often they had asked when they were not to.
struct GoOn {
    until: Option<Instant>,
    most: u32,
    asked: AtomicU32,
    ended: AtomicU32,
}

impl GoOn {
    fn new(limit: Limit) -> Self {
        let (until, most) = match limit {
            Limit::For(time) => (Some(Instant::now() + time), u32::MAX),
            Limit::Asked(most) => (None, most.unwrap_or(u32::MAX)),
        };
        Self { until, most, asked: AtomicU32::new(0), ended: AtomicU32::new(u32::MAX) }
    }

    /// Engines ask one after the other, from one thread.
    fn goes_on(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let goes_on = asked < self.most && self.until.is_none_or(|until| Instant::now() < until);
        if !goes_on {
            self.ended.fetch_min(asked, Ordering::Relaxed);
        }
        goes_on
    }

    fn ended(&self) -> Option<u32> {
        Some(self.ended.load(Ordering::Relaxed)).filter(|asked| *asked < u32::MAX)
    }
}

/// What came of it.
pub(in crate::service) struct Computed {
    pub starts: Vec<StartId>,
    pub result: Result<Tables, String>,
}

/// Checked tables.
pub(in crate::service) struct Tables {
    pub site: Site,
    pub plan: Plan,
    /// Jobs that were read from [`Work::unread`].
    pub found: Running,
    /// Largest load of a channel.
    pub max: u32,
    /// The torus has other sizes than before: nothing is left of the jobs that ran.
    pub reshaped: bool,
    /// Time of engine and judge.
    pub took: Duration,
    /// What the torus was read from.
    pub text: String,
    /// How often engines had asked when they were to search no longer; `None`: they came to their end.
    pub searched: Option<u32>,
}

impl Work {
    /// `None`: nobody starts, the torus is as it was, and nothing is to be done again.
    pub(in crate::service) fn run(self) -> Option<Computed> {
        let result = self.compute().transpose()?;
        Some(Computed { starts: self.starts, result })
    }

    fn compute(&self) -> Result<Option<Tables>, String> {
        let begun = Instant::now();
        let search = GoOn::new(self.limit);
        let source = self.source.read().map_err(|e| chain(&e))?;
        let (torus, text) = (source.torus, source.text);
        let is_known = |site: &Site| site.torus.fingerprint() == torus.fingerprint();
        if self.starts.is_empty() && !self.again && self.site.as_ref().is_some_and(is_known) {
            return Ok(None);
        }
        let reshaped = self.site.as_ref().is_some_and(|site| site.torus.sizes() != torus.sizes());
        let starts = |id: &JobId| self.starts.iter().any(|s| s.job == *id);
        let unread = self.unread.as_ref().map(|root| found(root, &torus)).unwrap_or_default();
        let running = self.running.iter().chain(&unread).filter(|(id, _)| !reshaped && !starts(id));
        let running: Vec<TorusJob> = running.map(|(_, job)| job.clone()).collect();
        let before = self.site.as_ref().filter(|_| !running.is_empty());
        let steady = before.map_or_else(|| torus.clone(), |b| torus.without_failures_of(&b.steady));
        let site = Site { torus, steady, transit: source.transit.unwrap_or_default() };
        let (mut jobs, mut strange) = (Vec::new(), Vec::new());
        for start in &self.starts {
            let node = |name| site.torus.node_named(name).ok_or(name);
            let here = start.together().iter().filter(|name| !self.elsewhere.contains(*name));
            match here.map(node).collect() {
                Ok(nodes) => {
                    let job = TorusJob::new(Some(start.job.clone()), nodes);
                    jobs.push(job.told(start.traffic.clone()));
                }
                Err(name) => strange.push((start.job.clone(), format!("the torus has no node {name}"))),
            }
        }
        let mut failure = String::new();
        for name in &self.engines {
            let limits = Limits { go_on: &|_| search.goes_on(), ..Limits::default() };
            let engine = engine(name).map_err(|e| chain(&e))?;
            match plan(&site, &running, &jobs, engine.as_ref(), &limits) {
                Ok(mut plan) => {
                    plan.refused.extend(strange);
                    let max = measure(&site.torus, plan.tables.get(), None).max;
                    let (took, searched) = (begun.elapsed(), search.ended());
                    let found = unread;
                    return Ok(Some(Tables { site, plan, found, max, reshaped, took, text, searched }));
                }
                Err(error) => {
                    warn!(engine = name, "{}", chain(&error));
                    failure = chain(&error);
                }
            }
        }
        Err(failure)
    }
}

impl Source {
    fn read(&self) -> Result<TorusSource, TorusSourceError> {
        match self {
            Self::Named(source) => torus_toml::load(source),
            Self::Text(text) => torus_toml::of_text(Path::new("the torus of the recording"), text),
        }
    }
}

impl Tables {
    /// Writes the tables of the jobs of these numbers that are still wanted; returns those that were written.
    pub(in crate::service) fn publish(
        &self,
        root: &Path,
        jobs: &[usize],
        is_wanted: &dyn Fn(&JobId) -> bool,
    ) -> (Vec<Written>, Vec<(JobId, String)>) {
        let (mut written, mut failed) = (Vec::new(), Vec::new());
        let tables = self.plan.tables.get();
        for number in jobs.iter().copied() {
            let job = &tables.demand.jobs[number];
            let Some(id) = job.id.clone() else { continue };
            match angara::publish(root, &self.site.torus, &self.plan.tables, number, is_wanted) {
                Ok(false) => {}
                Ok(true) => {
                    let digest = job::digest(root, &id).unwrap_or_default();
                    let job = job.clone().keeping(Arc::new(tables.routes[number].clone()));
                    written.push(Written { id, job, digest });
                }
                Err(error) => failed.push((id, chain(&error))),
            }
        }
        (written, failed)
    }
}

/// What came of tables that were to be written.
pub(in crate::service) struct Published {
    /// Who started.
    pub starts: Vec<StartId>,
    /// See [`Tables::searched`].
    pub searched: Option<u32>,
    /// Whom failures touched.
    pub cuts: Vec<Cut>,
    pub written: Vec<Written>,
    /// Whose tables could not be written, and why.
    pub failed: Vec<(JobId, String)>,
}

/// A job whose tables are on the disk.
pub(in crate::service) struct Written {
    pub id: JobId,
    /// With its routes.
    pub job: TorusJob,
    /// See [`job::digest`].
    pub digest: String,
}

/// The jobs that have tables on the disk, as a service before this one left them.
pub(in crate::service) fn found(root: &Path, torus: &Torus) -> Running {
    let mut running = Running::new();
    for id in job::published(root).unwrap_or_default() {
        match angara::read_job(root, &id, torus) {
            Ok(Some(job)) => drop(running.insert(id, job)),
            Ok(None) => {}
            Err(error) => warn!(job = %id, "its tables do not count: {}", chain(&error)),
        }
    }
    running
}
