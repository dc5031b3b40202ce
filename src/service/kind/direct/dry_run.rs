//! What a pass on a direct torus would do now. Nothing is written.

use schemars::JsonSchema;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kept::kept;
use super::work::{Limit, Running, Source, Tables, Work, found};
use super::{engines, source};
use crate::config::Settings;
use crate::measure::angara::{measure, per_job};
use crate::measure::{JobFigures, Time, of_routes};
use crate::model::{Job, JobId, JobMap, Routes, Torus, TorusDemand, TorusJob, TorusTables, Transit};
use crate::observe::torus_toml;
use crate::pass::torus::Cut;
use crate::publish::job::JOBS_DIRECTORY;
use crate::service::chain;
use crate::service::handoff::StartId;

/// What a dry run goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Description of the torus.
    pub source: String,
    /// Tried in turn.
    pub engines: Vec<String>,
    /// State directory, with the tables of now.
    pub state: PathBuf,
    /// Search no longer, once there are tables.
    pub limit: Duration,
    /// Whether jobs may have nodes that other fabrics have alone.
    #[serde(default)]
    pub several: bool,
}

impl Terms {
    /// Those of the settings.
    ///
    /// # Errors
    /// In a sentence: no torus, an engine there is not.
    pub fn of(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            source: source(settings).ok_or("the settings name no direct torus")?,
            engines: engines(settings).map_err(|e| chain(&e))?,
            state: settings.state.directory.clone(),
            limit: settings.handoff.deadline,
            several: settings.name.is_some(),
        })
    }
}

/// What tables give a job beside all the others.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct Gets {
    /// Predicted time of its exchange over what its nodes' own cables need; `None` if a route is missing.
    pub slowdown: Option<f64>,
    /// Its own routes on the channel that carries most of them, and channels it uses.
    #[serde(flatten)]
    pub own: JobFigures,
    /// Routes of all jobs on the busiest of those channels.
    pub busiest: u64,
}

/// What is predicted of jobs together.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct Predicted {
    /// Over the jobs.
    pub time: Time,
}

/// A job of a dry run.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TorusPerJob {
    /// Its id.
    pub job: JobId,
    /// How many it runs on.
    pub nodes: usize,
    /// Now; null if it has no tables.
    pub before: Option<Gets>,
    /// Beside the jobs of the dry run.
    pub after: Gets,
}

/// See the module.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TorusDryRun {
    /// Whether the next pass would write or remove tables. Those of starting jobs are written when they are announced.
    pub due: bool,
    /// Sizes of the torus.
    pub torus: String,
    /// Jobs that have tables.
    pub running: usize,
    /// Jobs without tables that would get some if they started now.
    pub starting: Vec<JobId>,
    /// Jobs that cannot have any, and why.
    pub refused: Vec<(JobId, String)>,
    /// Jobs that have tables and are over.
    pub over: Vec<JobId>,
    /// Jobs whose routes lead over what has failed: how many do, and why they cannot be mended, if so.
    pub cut: Vec<(JobId, usize, Option<String>)>,
    /// Largest load of a link by the tables there are.
    pub load_before: u32,
    /// The same by those that there would be.
    pub load_after: u32,
    /// Slow-down of the jobs that have tables, and of those that would have some; null of none.
    pub before: Option<Predicted>,
    /// The same beside the jobs of the dry run.
    pub after: Option<Predicted>,
    /// What each job has and would get; nothing if no table would change.
    pub per_job: Vec<TorusPerJob>,
}

/// Holds the jobs of now against the tables on the disk.
///
/// # Errors
/// In a sentence: no torus, an engine there is not, jobs that cannot be routed together.
pub fn dry_run(terms: &Terms, jobs: &JobMap) -> Result<TorusDryRun, String> {
    let torus = torus_toml::load(&terms.source).map_err(|e| chain(&e))?.torus;
    let mut running = found(&terms.state.join(JOBS_DIRECTORY), &torus);
    let site = kept(&terms.state, Some(&torus)).map(|(site, _)| site);
    let known: BTreeSet<&JobId> = jobs.jobs.iter().map(|job| &job.id).collect();
    let over: Vec<JobId> = running.keys().filter(|id| !known.contains(id)).cloned().collect();
    running.retain(|id, _| known.contains(id));
    let starts = jobs.jobs.iter().filter(|job| !running.contains_key(&job.id));
    let start = |j: &Job| StartId::new(j.id.clone(), 0, j.nodes.clone()).exchanging(j.traffic());
    let mut starts: Vec<StartId> = starts.map(start).collect();
    if terms.several {
        // Other fabrics have the rest.
        starts.iter_mut().for_each(|start| start.nodes.retain(|node| torus.node_named(node).is_some()));
        starts.retain(|start| !start.nodes.is_empty());
    }
    let mut dry = TorusDryRun {
        due: !over.is_empty(),
        torus: torus.size_text(),
        running: running.len(),
        starting: starts.iter().map(|start| start.job.clone()).collect(),
        refused: Vec::new(),
        over,
        cut: Vec::new(),
        load_before: measure(&torus, &tables_of(&torus, &running), None).max,
        load_after: 0,
        before: time(gets(&torus, &running).values()),
        after: None,
        per_job: Vec::new(),
    };
    let Terms { source, engines, limit, .. } = terms.clone();
    let (source, limit) = (Source::Named(source), Limit::For(limit));
    let elsewhere = BTreeSet::new();
    let running_now = running.clone();
    let (again, unread) = (true, None);
    let work = Work { source, engines, site, again, running: running_now, unread, starts, elsewhere, limit };
    let Some(computed) = work.run() else {
        (dry.after, dry.load_after) = (dry.before, dry.load_before);
        return Ok(dry);
    };
    let tables = computed.result?;
    dry.per_job = compared(&running, &tables);
    dry.after = time(dry.per_job.iter().map(|job| &job.after));
    let is_refused = |id: &JobId| tables.plan.refused.iter().any(|(refused, _)| refused == id);
    dry.starting.retain(|id| !is_refused(id));
    // Jobs that run without tables get none; one that starts gets its own before it does.
    dry.due |= tables.plan.changed.iter().any(|job| *job < running.len());
    dry.load_after = tables.max;
    dry.refused = tables.plan.refused;
    let cut = tables.plan.cut.into_iter();
    dry.cut = cut.map(|Cut { job, routes, lost }| (job, routes, lost)).collect();
    Ok(dry)
}

fn tables_of(torus: &Torus, running: &Running) -> TorusTables {
    let kept = running.values().filter_map(|job| Some((job.clone(), job.kept()?.clone())));
    let (jobs, routes) = kept.unzip();
    let demand = TorusDemand { jobs, transit: Transit::Any };
    TorusTables { torus: torus.fingerprint(), engine: String::new(), demand, routes }
}

/// What the tables of jobs give each of them. O(routes × hops), and as [`of_routes`].
pub fn gets(torus: &Torus, running: &Running) -> BTreeMap<JobId, Gets> {
    let with_routes = running.iter().filter_map(|(id, job)| Some((id.clone(), (job, job.kept()?))));
    let (ids, jobs): (Vec<JobId>, Vec<(&TorusJob, &Routes)>) = with_routes.unzip();
    ids.into_iter().zip(of_jobs(torus, &jobs)).collect()
}

/// Slow-down over jobs of which it is known; `None` of none.
fn time<'a>(gets: impl IntoIterator<Item = &'a Gets>) -> Option<Predicted> {
    Time::of_known(gets.into_iter().map(|gets| gets.slowdown)).map(|time| Predicted { time })
}

/// What the routes of jobs give each of them, beside all the others.
pub(super) fn of_jobs(torus: &Torus, jobs: &[(&TorusJob, &Routes)]) -> Vec<Gets> {
    let figures = per_job(torus, jobs.iter().map(|(_, routes)| *routes)).into_iter();
    let slowdowns =
        of_routes(torus, jobs.iter().copied()).into_iter().map(|s| Some(s).filter(|s| s.is_finite()));
    figures.zip(slowdowns).map(|((own, busiest), slowdown)| Gets { slowdown, own, busiest }).collect()
}

/// What each job has and would get.
fn compared(running: &Running, tables: &Tables) -> Vec<TorusPerJob> {
    let (torus, new) = (&tables.site.torus, tables.plan.tables.get());
    let before = gets(torus, running);
    let jobs: Vec<(&TorusJob, &Routes)> = new.demand.jobs.iter().zip(&new.routes).collect();
    let after = of_jobs(torus, &jobs);
    let named = jobs
        .iter()
        .zip(after)
        .filter_map(|((job, _), after)| Some((job.id.clone()?, job.nodes().len(), after)));
    named
        .map(|(job, nodes, after)| TorusPerJob { before: before.get(&job).copied(), job, nodes, after })
        .collect()
}
