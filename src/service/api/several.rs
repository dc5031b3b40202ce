//! One interface for several fabrics.
//!
//! | path | who | answer |
//! |---|---|---|
//! | `GET /v1/openapi.json` | readers | all of this for programs: [`openapi`] |
//! | `GET /v1/fabrics` | readers | their names |
//! | `GET /v1/health` | readers | [`SiteHealth`]: that of each, and what is wrong with its name before it |
//! | `GET /metrics` | readers | Prometheus, with the label `fabric` |
//! | `POST /v1/look` | writers | all look at once |
//! | `POST /v1/jobs/ID/start` | writers | one answer when all have answered |
//! | `POST /v1/jobs/ID/end` | writers | told to all |
//! | `GET /v1/jobs/ID/environment`, `…/order` | readers | what the job was told |
//! | `/fabrics/NAME/…` | as there | every path of [`super`] for one fabric, its page among them |

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::middleware;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Extension, Json, Router};
use chrono::{DateTime, Utc};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tracing::warn;

use super::answer::ApiError;
use super::jobs::{
    ROUND, StartAnswer, StartRequest, read_environment, read_order, told_end, told_environment, told_order,
    told_start,
};
use super::peer::{Caller, audit};
use super::routes::{Operation, Routes};
use super::servers::Door;
use super::state::HealthAnswer;
use super::{Done, json, metrics, openapi, page, rate_limit, with_deadline};
use crate::config;
use crate::model::JobId;
use crate::publish::job::{self, JOBS_DIRECTORY, OnFabric, publish_of_several};
use crate::service::chain;
use crate::service::command::{AskError, Command, Handle};
use crate::service::handoff::Outcome;
use crate::service::health::{Health, Kind, PATIENCE, Stage};

/// The fabrics behind one interface. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Front {
    /// In the order of the settings.
    doors: Arc<Vec<(String, Door)>>,
    /// Those that are direct tori.
    direct: Arc<BTreeSet<String>>,
    /// Directories of jobs, of all fabrics together.
    jobs: PathBuf,
}

/// Where everything of one fabric is, before its name.
const PREFIX: &str = "/fabrics/";

/// The name of a fabric and the path there, of `/fabrics/NAME/path`.
pub(super) fn below(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix(PREFIX)?;
    let slash = rest.find('/')?;
    Some((&rest[..slash], &rest[slash..]))
}

/// Whether a path is that of a fabric's page, without the last slash.
pub(super) fn is_door(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

impl Front {
    /// For these fabrics, of which some are direct tori; what jobs are told is in the state directory of the service.
    pub fn new(doors: Vec<(String, Door)>, direct: BTreeSet<String>, state: &std::path::Path) -> Self {
        Self { doors: Arc::new(doors), direct: Arc::new(direct), jobs: state.join(JOBS_DIRECTORY) }
    }

    fn names(&self) -> Vec<&str> {
        self.doors.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Asks all at once, as long as one request may take; what is not answered by then is `None`.
    async fn ask_for_job<T: Send + 'static, F>(
        &self,
        make: impl Fn(Handle) -> F,
    ) -> Result<Vec<Option<T>>, ApiError>
    where
        F: Future<Output = Result<T, AskError>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        for (i, (_, door)) in self.doors.iter().enumerate() {
            let question = make(door.handle.clone());
            asked.spawn(async move { (i, tokio::time::timeout(ROUND, question).await) });
        }
        let mut answers: Vec<Option<T>> = self.doors.iter().map(|_| None).collect();
        while let Some(answered) = asked.join_next().await {
            let (i, answer) = answered.map_err(|e| ApiError::failed(&e))?;
            answers[i] = answer.ok().transpose()?;
        }
        Ok(answers)
    }

    /// Writes what a job is told that may start; whether it is written.
    async fn tell(&self, job: JobId, outcomes: Vec<Outcome>) -> bool {
        let front = self.clone();
        let name = job.clone();
        let written = tokio::task::spawn_blocking(move || {
            let roots: Vec<PathBuf> =
                front.doors.iter().map(|(_, door)| door.store.path().join(JOBS_DIRECTORY)).collect();
            // Where its nodes have no adapters, nothing is to be said, if they have some elsewhere.
            let is_somewhere = outcomes.iter().any(|outcome| *outcome != Outcome::Unknown);
            let each = front.doors.iter().zip(&roots).zip(outcomes);
            let each = each.filter(|(_, outcome)| !is_somewhere || *outcome != Outcome::Unknown);
            let fabrics: Vec<OnFabric<'_>> = each
                .map(|(((name, _), root), outcome)| OnFabric {
                    name,
                    root,
                    matters: outcome != Outcome::OneSwitch,
                    direct: front.direct.contains(name),
                })
                .collect();
            publish_of_several(&front.jobs, &job, &fabrics)
        });
        match written.await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => warn!(job = %name, "{}", chain(&error)),
            Err(error) => warn!(job = %name, "{error}"),
        }
        false
    }

    /// Removes the directories of jobs that no fabric has any more.
    pub fn sweep(&self) {
        let published = |root: PathBuf| {
            job::published(&root).unwrap_or_else(|error| {
                warn!("{}", chain(&error));
                Vec::new()
            })
        };
        // Before those of the fabrics are read: a job that starts meanwhile is not in it.
        let told = published(self.jobs.clone());
        let known: BTreeSet<JobId> = self
            .doors
            .iter()
            .flat_map(|(_, door)| published(door.store.path().join(JOBS_DIRECTORY)))
            .collect();
        for gone in told.iter().filter(|job| !known.contains(*job)) {
            if let Err(error) = job::remove(&self.jobs, gone) {
                warn!("{}", chain(&error));
            }
        }
    }
}

/// All paths of the service, and below `/fabrics/NAME/` those of each fabric.
pub(super) fn router(front: &Front, settings: &Arc<config::Api>, spool: Option<&PathBuf>) -> Router {
    let routers: BTreeMap<String, Router> =
        front.doors.iter().map(|(name, door)| (name.clone(), door.router(settings, spool))).collect();
    let routers = Arc::new(routers);
    paths(settings.deadline)
        .router
        // Not a route: its part of the path would be one more for the handlers below.
        .fallback(move |request| enter(Arc::clone(&routers), request))
        .layer(middleware::from_fn(page::own_pages_only))
        .layer(middleware::map_response(super::answer::in_json))
        .layer(DefaultBodyLimit::max(settings.body_limit))
        .layer(middleware::from_fn(rate_limit::in_turn))
        .with_state(front.clone())
}

/// All paths that are not below a fabric, with what is told of them.
pub(super) fn paths(deadline: Duration) -> Routes<Front> {
    let told_names = Operation::new("/v1/fabrics", "Names of the fabrics").answers::<FabricsAnswer<'_>>();
    let told_health = Operation::new("/v1/health", "How each fabric is served, and what is wrong");
    let told_look = Operation::new("/v1/look", "All look at jobs and cables at once").answers::<Done>();
    let read = openapi::read(true)
        .get(told_names, names)
        .get(told_health.answers::<SiteHealth>(), health)
        .get(metrics::told(), metrics)
        .get(told_environment(), environment)
        .get(told_order(), order)
        .for_readers();
    let write = Routes::new().post(told_look, look).for_administrators();
    let waiting = Routes::new().post(told_start(), start).post(told_end(), end).for_administrators();
    let short = read.merge(write).wrapped(|router| with_deadline(router, deadline));
    short.merge(waiting.wrapped(|router| with_deadline(router, deadline + ROUND)))
}

/// What is told of them.
pub(super) fn told() -> Vec<Operation> {
    paths(Duration::ZERO).told
}

/// The answer of `GET /v1/fabrics`.
#[derive(Debug, Serialize, JsonSchema)]
struct FabricsAnswer<'a> {
    /// In the order of the settings.
    fabrics: Vec<&'a str>,
}

/// A request for one fabric, as if it were the only one.
async fn enter(routers: Arc<BTreeMap<String, Router>>, mut request: Request) -> Response {
    let path = request.uri().path_and_query().map_or("", |path| path.as_str()).to_string();
    if path == "/" {
        return list(routers.keys()).into_response();
    }
    if is_door(&path) {
        return Redirect::permanent(&format!("{path}/")).into_response();
    }
    let found = below(&path).and_then(|(name, rest)| Some((routers.get(name)?, rest.parse::<Uri>().ok()?)));
    let Some((router, uri)) = found else {
        let names: Vec<&str> = routers.keys().map(String::as_str).collect();
        return not_here(&names).into_response();
    };
    *request.uri_mut() = uri;
    match TowerToHyperService::new(router.clone()).call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The pages of all fabrics, for people. Names are those of the settings: letters, digits, `-` and `_`.
fn list<'a>(names: impl Iterator<Item = &'a String>) -> Html<String> {
    let items: String =
        names.map(|name| format!("<li><a href=\"{PREFIX}{name}/\">{name}</a></li>")).collect();
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">\
         <title>sarouter</title><h1>Fabrics</h1><ul>{items}</ul></html>"
    ))
}

fn not_here(names: &[&str]) -> ApiError {
    let places: Vec<String> = names.iter().map(|name| format!("{PREFIX}{name}/")).collect();
    ApiError::new(
        StatusCode::NOT_FOUND,
        format!("no such path; each fabric has its own: {}", places.join(", ")),
    )
}

async fn names(State(front): State<Front>) -> Response {
    json(FabricsAnswer { fabrics: front.names() })
}

/// The answer of `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SiteHealth {
    /// Whether nothing is wrong anywhere.
    pub healthy: bool,
    /// What is wrong, one sentence each, with the name of the fabric before it.
    pub problems: Vec<String>,
    /// The details of each fabric.
    pub fabrics: BTreeMap<String, HealthAnswer>,
}

async fn health(State(front): State<Front>) -> Result<Response, ApiError> {
    let mut all: Vec<(String, Health)> = Vec::new();
    for (name, door) in front.doors.iter() {
        all.push((name.clone(), door.handle.ask(Command::Health).await?));
    }
    let now = Utc::now();
    let problems = of_all(&all, now);
    let fabrics = all.into_iter().map(|(name, health)| (name, HealthAnswer::of(health, now)));
    Ok(json(SiteHealth { healthy: problems.is_empty(), problems, fabrics: fabrics.collect() }))
}

/// What is wrong with each fabric, its name before it. That Slurm does not answer is said once, with the names of all
/// to which it does not: they ask together.
fn of_all(all: &[(String, Health)], now: DateTime<Utc>) -> Vec<String> {
    let asks_in_vain = |health: &Health| health.failing.as_ref().is_some_and(|f| f.stage == Stage::Jobs);
    let in_vain: Vec<&str> =
        all.iter().filter(|(_, health)| asks_in_vain(health)).map(|(name, _)| name.as_str()).collect();
    let mut problems = Vec::new();
    for (name, health) in all {
        for trouble in health.found(now, PATIENCE) {
            let is_common = trouble.kind == Kind::Failing && asks_in_vain(health);
            match is_common {
                false => problems.push(format!("{name}: {}", trouble.text)),
                true if in_vain[0] == name => {
                    problems.push(format!("{}: {}", in_vain.join(", "), trouble.text))
                }
                true => {}
            }
        }
    }
    problems
}

async fn metrics(State(front): State<Front>) -> Result<Response, ApiError> {
    metrics::of_several(front.doors.iter().map(|(name, door)| (name.as_str(), &door.handle, &door.store)))
        .await
}

async fn look(
    State(front): State<Front>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ApiError> {
    audit(&caller, format_args!("look"));
    for (_, door) in front.doors.iter() {
        door.handle.ask(Command::Look).await?;
    }
    Ok(json(Done {}))
}

async fn environment(State(front): State<Front>, Path(job): Path<String>) -> Result<Response, ApiError> {
    read_environment(&front.jobs, job).await
}

async fn order(State(front): State<Front>, Path(job): Path<String>) -> Result<Response, ApiError> {
    read_order(&front.jobs, job).await
}

/// May this job start? Once all fabrics say so: each has the same deadline, and a question that is asked again
/// joins what waits there.
async fn start(
    State(front): State<Front>,
    Extension(caller): Extension<Caller>,
    Path(job): Path<String>,
    Json(request): Json<StartRequest>,
) -> Result<Response, ApiError> {
    let job = JobId::new(job).map_err(ApiError::bad)?;
    let said = request.announcement(job.clone())?;
    let ask = |handle: Handle| {
        let said = Box::new(said.clone());
        async move { handle.ask_for_job(|reply| Command::Start(said, reply)).await }
    };
    let answers = front.ask_for_job(ask).await?;
    let named = front.doors.iter().zip(&answers);
    let fabrics: BTreeMap<String, Outcome> =
        named.filter_map(|((name, _), outcome)| Some((name.clone(), (*outcome)?))).collect();
    let all: Option<Vec<Outcome>> = answers.into_iter().collect();
    let mut start = all.clone().and_then(Outcome::worst);
    if let (Some(outcome), Some(all)) = (&mut start, all) {
        *outcome = outcome.told(front.tell(job.clone(), all).await);
        audit(&caller, format_args!("start of job {job}: {outcome:?} of {fabrics:?}"));
    }
    Ok(json(StartAnswer { start, fabrics }))
}

async fn end(
    State(front): State<Front>,
    Extension(caller): Extension<Caller>,
    Path(job): Path<String>,
) -> Result<Response, ApiError> {
    let job = JobId::new(job).map_err(ApiError::bad)?;
    audit(&caller, format_args!("end of job {job}"));
    let ask = |handle: Handle| {
        let job = job.clone();
        async move { handle.ask_for_job(|reply| Command::End(job, reply)).await }
    };
    front.ask_for_job(ask).await?;
    let root = front.jobs.clone();
    let removed = tokio::task::spawn_blocking(move || job::remove(&root, &job)).await;
    if let Ok(Err(error)) = removed {
        warn!("{}", chain(&error));
    }
    Ok(json(Done {}))
}
