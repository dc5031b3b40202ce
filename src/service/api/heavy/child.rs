//! The process that answers one heavy question: `sarouter answer`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use axum::http::StatusCode;
use chrono::Utc;
use rustix::process::{Resource, Rlimit, Signal, nice, set_parent_process_death_signal, setrlimit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Question;
use crate::model::{JobMap, NodeName};
use crate::observe::hostlist::Budget;
use crate::observe::{jobs, spool};
use crate::pass::step::View;
use crate::publish::EpochStore;
use crate::service::api::answer::{Answered, ApiError};
use crate::service::api::{epochs, picture, served, what_if};
use crate::service::dry_run::DryRun;
use crate::service::kind::direct::dry_run;
use crate::service::pass::{decide, published};
use crate::service::record::whole;

/// How much nicer than the service.
const NICE: i32 = 10;
/// The first line is short.
const HEAD_LIMIT: u64 = 64 << 10;

/// What is asked, and the bounds: one line, then the request's body, then the look.
#[derive(Debug, Serialize, Deserialize)]
pub struct Head {
    /// What is asked.
    pub question: Question,
    /// The epoch store.
    pub state: PathBuf,
    /// The spool, if there is one.
    pub spool: Option<PathBuf>,
    /// Bytes of the request's body.
    pub body: usize,
    /// What a file of the spool may have at most.
    pub body_limit: u64,
    /// Nodes that are known.
    pub nodes: usize,
    /// Bytes of address space.
    pub memory: u64,
    /// Seconds of a processor.
    pub seconds: u64,
}

/// What to plan for; nothing means the jobs of the look.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlanRequest {
    /// Jobs in any form that `--jobs` takes.
    jobs: Option<String>,
    /// The same in a file of the spool.
    spool_file: Option<String>,
}

/// Answers the question on standard input: a line with the status, then the answer.
///
/// # Errors
/// If what asks or hears is gone.
pub fn answer() -> std::io::Result<()> {
    let mut asked = BufReader::new(std::io::stdin().lock());
    let mut line = String::new();
    asked.by_ref().take(HEAD_LIMIT).read_line(&mut line)?;
    let head: Head = serde_json::from_str(&line)?;
    confine(&head)?;
    let answered = reply(&head, asked);
    let (status, body) = match answered {
        Ok(body) => (Answered { status: StatusCode::OK.as_u16(), error: String::new() }, body),
        Err(error) => (error.into(), Vec::new()),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &status)?;
    out.write_all(b"\n")?;
    out.write_all(&body)?;
    out.flush()
}

/// Bounds this process before it reads what a stranger wrote.
fn confine(head: &Head) -> std::io::Result<()> {
    // The service may be gone before its answer: nobody waits for it then.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let most = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
    setrlimit(Resource::As, most(head.memory))?;
    setrlimit(Resource::Cpu, most(head.seconds))?;
    setrlimit(Resource::Core, most(0))?;
    nice(NICE)?;
    // If memory runs out nevertheless, this process goes first. Not everywhere possible.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

fn reply(head: &Head, mut asked: impl BufRead) -> Result<Vec<u8>, ApiError> {
    let mut body = vec![0; head.body];
    asked.read_exact(&mut body).map_err(|e| ApiError::failed(&e))?;
    // Refused before the fabric is read.
    let other_jobs = match head.question {
        Question::Plan | Question::Engine(_) | Question::DirectPlan(_) => planned_for(head, &body)?,
        _ => None,
    };
    let idle: Option<Vec<NodeName>> = match head.question {
        Question::Place(_) => serde_json::from_slice(&body).map_err(|e| ApiError::failed(&e))?,
        _ => None,
    };
    drop(body);
    if let Question::DirectPlan(terms) = &head.question {
        let seen: Option<JobMap> = serde_json::from_reader(asked).map_err(|e| ApiError::failed(&e))?;
        let jobs = other_jobs.or(seen).ok_or_else(|| {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no job has been seen yet: see /v1/health")
        })?;
        let refused = |e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e);
        return written(&dry_run(terms, &jobs).map_err(refused)?);
    }
    let mut view = whole::read(asked)
        .map_err(|e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the look: {e}")))?;
    let store = EpochStore::open(&head.state).map_err(|e| ApiError::failed(&e))?;
    match &head.question {
        Question::Fabric => written(&picture::FabricAnswer::of(&view)),
        Question::Load { epoch, job, against } => {
            written(&picture::measured(&store, &view, *epoch, job.as_ref(), *against)?)
        }
        Question::Jobs { epoch, against } => written(&served::served(&store, &view, *epoch, *against)?),
        Question::Switch { epoch, guid } => written(&epochs::entries(&store, &view, *epoch, *guid)?),
        Question::Plan => {
            view.jobs = other_jobs.unwrap_or(view.jobs);
            written(&plan(&store, &view)?)
        }
        Question::Engine(name) => {
            view.jobs = other_jobs.unwrap_or(view.jobs);
            written(&what_if::tried(&store, &view, name)?)
        }
        Question::Place(wanted) => written(&what_if::placed(&view, wanted, idle.as_deref())?),
        Question::DirectPlan(_) => unreachable!("answered above"),
    }
}

fn written(answer: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(answer).map_err(|e| ApiError::failed(&e))
}

/// The jobs that a request names, if it names any.
fn planned_for(head: &Head, body: &[u8]) -> Result<Option<JobMap>, ApiError> {
    let request: PlanRequest = match body.is_empty() {
        true => PlanRequest::default(),
        false => serde_json::from_slice(body).map_err(ApiError::bad)?,
    };
    let text = match (&request.spool_file, &head.spool) {
        (None, _) => request.jobs,
        (Some(_), None) => return Err(ApiError::bad("the settings name no spool")),
        (Some(name), Some(directory)) => {
            let text = spool::read(directory, name, head.body_limit);
            Some(text.inspect_err(|error| tracing::warn!("refused: {error}")).map_err(ApiError::bad)?)
        }
    };
    let budget = Budget::of_machine(head.nodes);
    let parse = |text: String| jobs::parse_within(&text, "jobs", Utc::now(), budget).map_err(ApiError::bad);
    text.map(parse).transpose()
}

fn plan(store: &EpochStore, view: &View) -> Result<DryRun, ApiError> {
    let published = published(store, view).map_err(|e| ApiError::failed(&e))?;
    let decided = decide(view, published.as_ref()).map_err(|e| ApiError::failed(&e))?;
    let epoch = store.current().ok().flatten().map(|n| n.get());
    Ok(DryRun::new(view, published.as_ref(), epoch, &decided))
}
