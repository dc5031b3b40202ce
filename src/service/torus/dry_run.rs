//! What a pass on a direct torus would do now. Nothing is written.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::work::{Work, found};
use super::{engines, source};
use crate::config::Settings;
use crate::measure::angara::measure;
use crate::model::{JobId, JobMap, TorusDemand, TorusTables, Transit};
use crate::observe::torus_toml;
use crate::pass::torus::Cut;
use crate::publish::job::JOBS_DIRECTORY;
use crate::service::chain;
use crate::service::handoff::StartId;

/// See the module.
#[derive(Debug, Serialize)]
pub struct TorusDryRun {
    /// Whether tables would be written or removed.
    pub due: bool,
    /// Sizes of the torus.
    pub torus: String,
    /// Jobs that have tables.
    pub running: usize,
    /// Jobs without tables that would get some.
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
}

/// Holds the jobs of now against the tables on the disk. `limit`: search no longer, once there are tables.
///
/// # Errors
/// In a sentence: no torus, an engine there is not, jobs that cannot be routed together.
pub fn dry_run(settings: &Settings, jobs: &JobMap, limit: Duration) -> Result<TorusDryRun, String> {
    let source = source(settings).ok_or("the settings name no direct torus")?;
    let torus = torus_toml::load(&source).map_err(|e| chain(&e))?.torus;
    let mut running = found(&settings.state.directory.join(JOBS_DIRECTORY), &torus);
    let known: BTreeSet<&JobId> = jobs.jobs.iter().map(|job| &job.id).collect();
    let over: Vec<JobId> = running.keys().filter(|id| !known.contains(id)).cloned().collect();
    running.retain(|id, _| known.contains(id));
    let starts = jobs.jobs.iter().filter(|job| !running.contains_key(&job.id));
    let starts: Vec<StartId> = starts.map(|j| StartId::new(j.id.clone(), 0, j.nodes.clone())).collect();
    let (jobs, routes) = running.values().filter_map(|job| Some((job.clone(), job.kept()?.clone()))).unzip();
    let demand = TorusDemand { jobs, transit: Transit::Any };
    let before = TorusTables { torus: torus.fingerprint(), engine: String::new(), demand, routes };
    let mut dry = TorusDryRun {
        due: !over.is_empty(),
        torus: torus.size_text(),
        running: running.len(),
        starting: starts.iter().map(|start| start.job.clone()).collect(),
        refused: Vec::new(),
        over,
        cut: Vec::new(),
        load_before: measure(&torus, &before, None).max,
        load_after: 0,
    };
    let engines = engines(settings).map_err(|e| chain(&e))?;
    let work = Work { source, engines, site: None, running, starts, limit };
    let Some(computed) = work.run() else { return Ok(dry) };
    let tables = computed.result?;
    let is_refused = |id: &JobId| tables.plan.refused.iter().any(|(refused, _)| refused == id);
    dry.starting.retain(|id| !is_refused(id));
    dry.due |= !tables.plan.changed.is_empty();
    dry.load_after = tables.max;
    dry.refused = tables.plan.refused;
    let cut = tables.plan.cut.into_iter();
    dry.cut = cut.map(|Cut { job, routes, lost }| (job, routes, lost)).collect();
    Ok(dry)
}
