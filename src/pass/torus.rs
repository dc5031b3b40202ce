//! One pass on a direct torus: tables for the jobs that start, around those of the jobs that run.
//!
//! No clock, no I/O. A job that runs keeps its routes. Where failures cut some, these pairs alone get
//! others. All routes of all jobs are judged together: the routes that stay and the new ones are what is
//! on the nodes while they change, so there is no other mixture of old and new.

use std::sync::Arc;

use crate::model::rng::Rng;
use crate::model::{JobId, NodeId, Routes, Step, Torus, TorusDemand, TorusJob, TorusTables, Transit};
use crate::route::angara::{Limits, TorusEngine, TorusRouteError};
use crate::verify::Verified;
use crate::verify::angara::{TorusFinding, TorusVerdict, accept, judge};

/// The network as it is.
#[derive(Debug, Clone)]
pub struct Site {
    /// What is routed.
    pub torus: Torus,
    /// The same without what was broken at any time since the first of the running jobs was routed. What
    /// was repaired closes rings that turns of theirs may not go with: then it has to wait.
    pub steady: Torus,
    /// Nodes that may forward a job's packets.
    pub transit: Transit,
}

/// What failures did to a job that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Who has lost a pair of nodes.
    pub job: JobId,
    /// Its routes that lead nowhere any more.
    pub routes: usize,
    /// Why it cannot be mended; `None`: its tables are new.
    pub lost: Option<String>,
}

/// New tables, checked.
#[derive(Debug)]
pub struct Plan {
    /// Those of all jobs, running ones first, but for the lost and the refused.
    pub tables: Verified<TorusTables>,
    /// Jobs of these tables, by number, that have other routes than before.
    pub changed: Vec<usize>,
    /// Starting jobs that cannot be routed, and why.
    pub refused: Vec<(JobId, String)>,
    /// Running jobs that failures touched.
    pub cut: Vec<Cut>,
}

/// Why there are no tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The engine refused.
    #[error(transparent)]
    Route(#[from] TorusRouteError),
    /// A bug in the engine, or turns of running jobs that go with nothing.
    #[error("the tables were rejected: {}", serde_json::to_string(.0).unwrap_or_default())]
    Rejected(Option<TorusFinding>),
}

/// Routes `starting` jobs, and what failures cut of those that run with routes that stay
/// ([`TorusJob::kept`]). Every job has an id. O(engine, once more for each job that cannot be routed).
///
/// # Errors
/// If the jobs that can be routed one by one cannot be routed together.
pub fn plan(
    site: &Site,
    running: &[TorusJob],
    starting: &[TorusJob],
    engine: &dyn TorusEngine,
    limits: &Limits<'_>,
) -> Result<Plan, PlanError> {
    let on = |torus| Attempt::new(torus, site.transit, running, starting).run(engine, limits);
    match on(&site.torus) {
        Err(PlanError::Rejected(_)) if !site.torus.works_like(&site.steady) => on(&site.steady),
        found => found,
    }
}

/// Pairs of nodes of jobs that may come, at most: they cost time as those that are there.
const PAIRS_TO_COME: usize = 100_000;

/// Everybody's routes on one state of the torus.
struct Attempt<'a> {
    torus: &'a Torus,
    /// Running jobs first.
    demand: TorusDemand,
    /// How many of them run.
    running: usize,
    /// Running jobs that cannot be mended. Their packets fly until they are over.
    lost: Vec<TorusJob>,
    refused: Vec<(JobId, String)>,
    cut: Vec<Cut>,
}

impl<'a> Attempt<'a> {
    fn new(torus: &'a Torus, transit: Transit, running: &[TorusJob], starting: &[TorusJob]) -> Self {
        let mut cut = Vec::new();
        let mut jobs = Vec::with_capacity(running.len() + starting.len());
        for job in running {
            let (alive, routes) = without_dead_routes(torus, transit, job);
            cut.extend(job.id.clone().filter(|_| routes > 0).map(|job| Cut { job, routes, lost: None }));
            jobs.push(alive);
        }
        jobs.extend_from_slice(starting);
        let demand = TorusDemand { jobs, transit };
        Self { torus, demand, running: running.len(), lost: Vec::new(), refused: Vec::new(), cut }
    }

    fn run(mut self, engine: &dyn TorusEngine, limits: &Limits<'_>) -> Result<Plan, PlanError> {
        let tables = loop {
            match self.route(engine, limits) {
                Ok(tables) => break tables,
                Err(error) => self.leave_out(error)?,
            }
        };
        // New routes are as short as the rules allow; those that stay may be longer since a repair.
        let verdict = judge(self.torus, &since(&tables, self.running), false);
        rejected(verdict.accepted, verdict)?;
        if !self.lost.is_empty() {
            let verdict = judge(self.torus, &with(&tables, &self.lost), true);
            let expected = |f: &TorusFinding| match f {
                TorusFinding::More { of, .. } => ["missing", "failed_node"].contains(of),
                f => matches!(f, TorusFinding::Missing { .. } | TorusFinding::FailedNode { .. }),
            };
            rejected(verdict.findings.iter().all(expected), verdict)?;
        }
        let tables = accept(self.torus, tables, true).map_err(PlanError::of)?;
        let mended = |job: &TorusJob| self.cut.iter().any(|cut| Some(&cut.job) == job.id.as_ref());
        let jobs = tables.get().demand.jobs.iter().enumerate();
        let changed = jobs.filter(|(number, job)| *number >= self.running || mended(job));
        let changed = changed.map(|(number, _)| number).collect();
        Ok(Plan { changed, tables, refused: self.refused, cut: self.cut })
    }

    /// Jobs that may come: of the mean size of those that are there, on the idle nodes, drawn at random. Routed
    /// with the others they make these leave room. Jobs that keep to their own nodes need none.
    fn to_come(&self, seed: u64) -> Vec<TorusJob> {
        let jobs = &self.demand.jobs;
        if jobs.len() == self.running && self.cut.is_empty() {
            // Every route stays.
            return Vec::new();
        }
        let nodes: usize = jobs.iter().map(|job| job.nodes().len()).sum();
        let size = nodes.div_ceil(jobs.len().max(1));
        if self.demand.transit == Transit::Job || size < 2 {
            return Vec::new();
        }
        let mut idle: Vec<bool> = self.torus.nodes().map(|node| self.torus.is_healthy(node)).collect();
        jobs.iter().flat_map(|job| job.nodes()).for_each(|node| idle[node.index()] = false);
        let mut idle: Vec<NodeId> = self.torus.nodes().filter(|node| idle[node.index()]).collect();
        Rng::new(seed).shuffle(&mut idle);
        let come = idle.chunks_exact(size).take(PAIRS_TO_COME / (size * size));
        come.map(|nodes| TorusJob::new(None, nodes.to_vec())).collect()
    }

    /// The engine's tables, in the company of jobs that may come as long as these can be routed.
    fn route(&self, engine: &dyn TorusEngine, limits: &Limits<'_>) -> Result<TorusTables, TorusRouteError> {
        let mut company = self.demand.clone();
        company.jobs.extend(self.to_come(limits.seed));
        match engine.route(self.torus, &company, limits) {
            Ok(mut tables) => {
                tables.demand.jobs.truncate(self.demand.jobs.len());
                tables.routes.truncate(self.demand.jobs.len());
                Ok(tables)
            }
            Err(_) if company.jobs.len() > self.demand.jobs.len() => {
                engine.route(self.torus, &self.demand, limits)
            }
            Err(error) => Err(error),
        }
    }

    /// Goes on without the job that an engine cannot route.
    fn leave_out(&mut self, error: TorusRouteError) -> Result<(), PlanError> {
        let jobs = &mut self.demand.jobs;
        let is_it = |id: &&JobId| error.job() == Some(id.as_str());
        let found =
            jobs.iter().enumerate().find_map(|(n, job)| Some((n, job.id.as_ref().filter(is_it)?.clone())));
        let Some((number, id)) = found else { return Err(error.into()) };
        let job = jobs.remove(number);
        // Whoever says it names the job.
        let (why, named) = (error.to_string(), format!("job {id}: "));
        let why = why.strip_prefix(&named).unwrap_or(&why).to_string();
        if number >= self.running {
            self.refused.push((id, why));
            return Ok(());
        }
        self.running -= 1;
        let lost = Some(why);
        match self.cut.iter_mut().find(|cut| cut.job == id) {
            Some(cut) => cut.lost = lost,
            None => self.cut.push(Cut { job: id, routes: 0, lost }),
        }
        self.lost.push(job);
        Ok(())
    }
}

impl PlanError {
    fn of(verdict: TorusVerdict) -> Self {
        Self::Rejected(verdict.findings.into_iter().next())
    }
}

fn rejected(accepted: bool, verdict: TorusVerdict) -> Result<(), PlanError> {
    if accepted { Ok(()) } else { Err(PlanError::of(verdict)) }
}

/// How many of the routes that a job keeps lead nowhere on a torus.
pub fn dead_routes(torus: &Torus, transit: Transit, job: &TorusJob) -> usize {
    without_dead_routes(torus, transit, job).1
}

/// A job that keeps those of its routes that still lead somewhere, and how many do not.
fn without_dead_routes(torus: &Torus, transit: Transit, job: &TorusJob) -> (TorusJob, usize) {
    let Some(kept) = job.kept() else { return (job.clone(), 0) };
    let usable = TorusDemand { jobs: vec![job.clone()], transit }.usable(torus, Some(0));
    let leads = |from: NodeId, steps: &[Step]| {
        steps.iter().try_fold(from, |at, step| {
            let works = usable[at.index()] & step.direction().bit() != 0;
            torus.neighbour(at, step.direction()).filter(|_| works)
        })
    };
    let mut alive = Routes::new(kept.nodes().to_vec());
    let mut dead = 0;
    for (s, from) in kept.nodes().iter().enumerate() {
        for d in 0..kept.nodes().len() {
            let steps = kept.route(s, d);
            let works = leads(*from, steps).is_some();
            dead += usize::from(!works);
            alive.push(if works { steps } else { &[] }.iter().copied());
        }
    }
    (job.clone().keeping(Arc::new(alive)), dead)
}

/// The tables of all jobs from one on.
fn since(tables: &TorusTables, first: usize) -> TorusTables {
    let demand = TorusDemand { jobs: tables.demand.jobs[first..].to_vec(), ..tables.demand };
    let (torus, engine) = (tables.torus, tables.engine.clone());
    TorusTables { torus, engine, demand, routes: tables.routes[first..].to_vec() }
}

/// Tables beside the routes that other jobs have left.
fn with(tables: &TorusTables, others: &[TorusJob]) -> TorusTables {
    let mut all = tables.clone();
    for (job, left) in others.iter().filter_map(|job| Some((job, job.kept()?))) {
        all.routes.push(left.clone());
        all.demand.jobs.push(job.clone());
    }
    all
}

#[cfg(test)]
mod tests;
