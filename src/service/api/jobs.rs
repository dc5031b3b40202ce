//! Jobs announced by prolog and epilog.

use schemars::JsonSchema;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use axum::{Extension, Json};
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::peer::{Caller, audit};
use super::routes::{Operation, Routes};
use super::{Api, Ask, Done, json};
use crate::model::{JobId, Mix, Submission, Traffic};
use crate::observe::hostlist;
use crate::publish::job::{ENVIRONMENT_FILE, JOBS_DIRECTORY, ORDER_FILE, RankOrder};
use crate::service::command::Command;
use crate::service::handoff::{Announcement, Outcome, StartId};

pub(super) fn read() -> Routes<Api> {
    Routes::new().get(told_environment(), environment).get(told_order(), order)
}

pub(super) fn write() -> Routes<Api> {
    Routes::new().post(told_start(), start).post(told_end(), end)
}

pub(super) fn told_environment() -> Operation {
    let what = "What the job was told at its start, by name: SAROUTER_SL and others";
    let told = Operation::new("/v1/jobs/{id}/environment", what);
    told.answers::<BTreeMap<String, String>>().refuses(&[400, 404])
}

pub(super) fn told_order() -> Operation {
    let told = Operation::new("/v1/jobs/{id}/order", "The order that was found for the job's ranks");
    told.answers::<RankOrder>().refuses(&[400, 404])
}

pub(super) fn told_start() -> Operation {
    let told = Operation::new("/v1/jobs/{id}/start", "May this job start? Asked by the prolog until it may");
    told.takes::<StartRequest>().answers::<StartAnswer>().refuses(&[400, 415, 422])
}

pub(super) fn told_end() -> Operation {
    Operation::new("/v1/jobs/{id}/end", "The job is over").answers::<Done>().refuses(&[400])
}

/// One request waits no longer than this; the prolog then asks again, and so notices a service that
/// hangs.
pub const ROUND: Duration = Duration::from_millis(1000);

/// A prolog's request.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct StartRequest {
    /// How often the job was started before.
    #[serde(default)]
    pub restart: u32,
    /// The job's nodes, as a host list of Slurm.
    pub nodes: String,
    /// Seconds that the job may run, if known.
    #[serde(default)]
    pub length_seconds: Option<f64>,
    /// Seconds that the prolog will go on waiting.
    pub patience_seconds: f64,
    /// What the job says that it exchanges: `ring`, `3*ring+alltoall`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Mix>,
    /// Whether its ranks are to be put in order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rank_order: bool,
    /// Whether it is a component of a heterogeneous job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_component: bool,
    /// Who submitted it: for the rules of the site.
    #[serde(default)]
    pub submission: Submission,
}

/// The answer to a prolog.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct StartAnswer {
    /// Why the job may start; `None`: not yet, ask again.
    pub start: Option<Outcome>,
    /// The same on each of several fabrics, as far as it is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fabrics: BTreeMap<String, Outcome>,
}

impl StartRequest {
    /// What is announced.
    pub(super) fn announcement(self, job: JobId) -> Result<Announcement, ApiError> {
        let nodes = hostlist::expand(&self.nodes).map_err(ApiError::bad)?;
        Ok(Announcement {
            start: StartId::new(job, self.restart, nodes)
                .exchanging(self.traffic.map(Traffic::said))
                .ordering(self.rank_order)
                .component(self.is_component),
            length: self.length_seconds.map(seconds),
            patience: seconds(self.patience_seconds),
            submission: self.submission,
        })
    }
}

/// At most a year, so that it fits.
fn seconds(value: f64) -> TimeDelta {
    const YEAR: f64 = 365.0 * 86400.0;
    let bounded = if value.is_finite() { value.clamp(0.0, YEAR) } else { YEAR };
    TimeDelta::milliseconds((bounded * 1000.0) as i64)
}

async fn environment(State(api): Ask, Path(job): Path<String>) -> Result<Response, ApiError> {
    read_environment(&api.store.path().join(JOBS_DIRECTORY), job).await
}

/// The lines of the job's `routing.env`, by name.
pub(super) async fn read_environment(root: &std::path::Path, job: String) -> Result<Response, ApiError> {
    let job = JobId::new(job).map_err(ApiError::bad)?;
    let text = tokio::fs::read_to_string(root.join(job.as_str()).join(ENVIRONMENT_FILE)).await;
    let text = text.map_err(|_| ApiError::missing(format!("job {job} has no directory")))?;
    let values: BTreeMap<&str, &str> = text.lines().filter_map(|l| l.split_once('=')).collect();
    Ok(json(values))
}

async fn order(State(api): Ask, Path(job): Path<String>) -> Result<Response, ApiError> {
    read_order(&api.store.path().join(JOBS_DIRECTORY), job).await
}

/// The order that was found for the job's ranks when it started: see [`RankOrder`].
pub(super) async fn read_order(root: &std::path::Path, job: String) -> Result<Response, ApiError> {
    let job = JobId::new(job).map_err(ApiError::bad)?;
    let path = root.join(job.as_str()).join(ORDER_FILE);
    let missing = || {
        let why = format!(
            "job {job} has no order of ranks: it did not ask for one (sbatch --rank-order=fabric), or none could be \
             found; sarouter order --job {job} finds one now"
        );
        ApiError::missing(why)
    };
    let text = tokio::fs::read(path).await.map_err(|_| missing())?;
    let order: RankOrder = serde_json::from_slice(&text).map_err(|e| ApiError::failed(&e))?;
    Ok(json(order))
}

async fn start(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    Path(job): Path<String>,
    Json(request): Json<StartRequest>,
) -> Result<Response, ApiError> {
    let job = JobId::new(job).map_err(ApiError::bad)?;
    let said = request.announcement(job.clone())?;
    let answer = api.handle.ask_for_job(|reply| Command::Start(Box::new(said), reply));
    let start = match tokio::time::timeout(ROUND, answer).await {
        Ok(outcome) => Some(outcome?),
        Err(_) => None,
    };
    if let Some(outcome) = start {
        audit(&caller, format_args!("start of job {job}: {outcome:?}"));
    }
    Ok(json(StartAnswer { start, fabrics: BTreeMap::new() }))
}

async fn end(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    Path(job): Path<String>,
) -> Result<Response, ApiError> {
    let job = JobId::new(job).map_err(ApiError::bad)?;
    audit(&caller, format_args!("end of job {job}"));
    api.handle.ask_for_job(|reply| Command::End(job, reply)).await?;
    Ok(json(Done {}))
}
