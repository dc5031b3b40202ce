//! What the service of a direct torus does beside its loop: computing tables, and writing them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::measure::angara::measure;
use crate::model::{JobId, Torus, TorusJob};
use crate::observe::torus_toml;
use crate::pass::torus::{Plan, Site, plan};
use crate::publish::angara;
use crate::publish::job;
use crate::route::angara::{Limits, engine};
use crate::service::chain;
use crate::service::handoff::StartId;

/// Jobs that run with tables of ours, each with its routes.
pub(super) type Running = BTreeMap<JobId, TorusJob>;

/// One computation.
pub(super) struct Work {
    /// Description of the torus. Read for each computation: what has failed meanwhile is known then.
    pub source: String,
    /// Tried in turn.
    pub engines: Vec<String>,
    /// The torus of the last computation, [`Site::steady`].
    pub site: Option<Site>,
    pub running: Running,
    pub starts: Vec<StartId>,
    /// Search no longer, once there are tables.
    pub limit: Duration,
}

/// What came of it.
pub(super) struct Computed {
    pub starts: Vec<StartId>,
    pub result: Result<Tables, String>,
}

/// Checked tables.
pub(super) struct Tables {
    pub site: Site,
    pub plan: Plan,
    /// Largest load of a channel.
    pub max: u32,
    /// The torus has other sizes than before: nothing is left of the jobs that ran.
    pub reshaped: bool,
    /// Time of engine and judge.
    pub took: Duration,
}

impl Work {
    /// `None`: nobody starts, and the torus is as it was.
    pub(super) fn run(self) -> Option<Computed> {
        let result = self.compute().transpose()?;
        Some(Computed { starts: self.starts, result })
    }

    fn compute(&self) -> Result<Option<Tables>, String> {
        let begun = Instant::now();
        let until = begun + self.limit;
        let found = torus_toml::load(&self.source).map_err(|e| chain(&e))?;
        let torus = found.torus;
        let is_known = |site: &Site| site.torus.fingerprint() == torus.fingerprint();
        if self.starts.is_empty() && self.site.as_ref().is_some_and(is_known) {
            return Ok(None);
        }
        let reshaped = self.site.as_ref().is_some_and(|site| site.torus.sizes() != torus.sizes());
        let starts = |id: &JobId| self.starts.iter().any(|s| s.job == *id);
        let running = self.running.iter().filter(|(id, _)| !reshaped && !starts(id));
        let running: Vec<TorusJob> = running.map(|(_, job)| job.clone()).collect();
        let before = self.site.as_ref().filter(|_| !running.is_empty());
        let steady = before.map_or_else(|| torus.clone(), |b| torus.without_failures_of(&b.steady));
        let site = Site { torus, steady, transit: found.transit.unwrap_or_default() };
        let (mut jobs, mut strange) = (Vec::new(), Vec::new());
        for start in &self.starts {
            let node = |name| site.torus.node_named(name).ok_or(name);
            match start.nodes.iter().map(node).collect() {
                Ok(nodes) => jobs.push(TorusJob::new(Some(start.job.clone()), nodes)),
                Err(name) => strange.push((start.job.clone(), format!("the torus has no node {name}"))),
            }
        }
        let mut failure = String::new();
        for name in &self.engines {
            let limits = Limits { go_on: &|_| Instant::now() < until, ..Limits::default() };
            let engine = engine(name).map_err(|e| chain(&e))?;
            match plan(&site, &running, &jobs, engine.as_ref(), &limits) {
                Ok(mut plan) => {
                    plan.refused.extend(strange);
                    let max = measure(&site.torus, plan.tables.get(), None).max;
                    return Ok(Some(Tables { site, plan, max, reshaped, took: begun.elapsed() }));
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

impl Tables {
    /// Writes the tables of the jobs of these numbers; returns those that were written.
    pub(super) fn publish(&self, root: &Path, jobs: &[usize]) -> (Vec<TorusJob>, Vec<(JobId, String)>) {
        let (mut written, mut failed) = (Vec::new(), Vec::new());
        let tables = self.plan.tables.get();
        for number in jobs.iter().copied() {
            let job = &tables.demand.jobs[number];
            let Some(id) = job.id.clone() else { continue };
            match angara::publish(root, &self.site.torus, &self.plan.tables, number) {
                Ok(()) => written.push(job.clone().keeping(Arc::new(tables.routes[number].clone()))),
                Err(error) => failed.push((id, chain(&error))),
            }
        }
        (written, failed)
    }
}

/// The jobs that have tables on the disk, as a service before this one left them.
pub(super) fn found(root: &Path, torus: &Torus) -> Running {
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
