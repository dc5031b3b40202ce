//! Nodes, tables of nodes, and a dry run.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use chrono::Utc;
use serde::Deserialize;
use serde_json::json;

use super::answer::ApiError;
use super::{Api, Ask, json};
use crate::model::{JobId, NodeName};
use crate::observe::{jobs, spool};
use crate::pass::step::View;
use crate::publish::angara::NODES_FILE;
use crate::publish::job::JOBS_DIRECTORY;
use crate::service::dry_run::DryRun;
use crate::service::pass::decide;

pub(super) fn read() -> Router<Api> {
    Router::new()
        .route("/v1/jobs/{job}/nodes/{node}/table", get(node_table))
        .route("/v1/nodes/{node}", get(node))
        .route("/v1/plan", post(plan))
}

fn named(name: &str) -> Result<NodeName, ApiError> {
    NodeName::new(name).map_err(ApiError::bad)
}

async fn node(State(api): Ask, Path(name): Path<String>) -> Result<Response, ApiError> {
    let node = named(&name)?;
    let view = api.view().await?;
    let terminals = view.nodes.terminals(&node);
    if terminals.is_empty() {
        return Err(ApiError::missing(format!("no terminal is known as node {node}")));
    }
    let terminals: Vec<_> = terminals
        .iter()
        .map(|t| {
            let (terminal, switch) = (view.fabric.terminal(*t), view.fabric.terminal(*t).switch);
            let switch = view.fabric.switch(switch);
            json!({
                "guid": terminal.port_guid, "lid": terminal.lid, "port": terminal.port,
                "switch": switch.guid, "switch_description": switch.description,
            })
        })
        .collect();
    let jobs: Vec<_> = view.jobs.jobs.iter().filter(|j| j.nodes.contains(&node)).map(|j| &j.id).collect();
    Ok(json(json!({ "node": node, "terminals": terminals, "jobs": jobs })))
}

/// The routing table of one node of a job on a direct torus, as text. Names lead only to files that
/// the job's own index lists.
async fn node_table(State(api): Ask, Path((job, node)): Path<(String, String)>) -> Result<String, ApiError> {
    let job = JobId::new(job).map_err(ApiError::bad)?;
    let node = named(&node)?;
    let directory = api.store.path().join(JOBS_DIRECTORY).join(job.as_str());
    let missing = || ApiError::missing(format!("job {job} has no table for node {node}"));
    let index = std::fs::read_to_string(directory.join(NODES_FILE)).map_err(|_| missing())?;
    let file = index.lines().find_map(|line| line.strip_prefix(node.as_str())?.strip_prefix(' '));
    let file = file.filter(|name| !name.contains('/') && !name.starts_with('.')).ok_or_else(missing)?;
    std::fs::read_to_string(directory.join(file)).map_err(|_| missing())
}

/// What to plan for; nothing means the jobs of the newest look.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PlanRequest {
    /// Jobs in any form that `--jobs` takes.
    jobs: Option<String>,
    /// The same in a file of the spool.
    spool_file: Option<String>,
}

async fn plan(State(api): Ask, body: Bytes) -> Result<Response, ApiError> {
    let request: PlanRequest = match body.is_empty() {
        true => PlanRequest::default(),
        false => serde_json::from_slice(&body).map_err(ApiError::bad)?,
    };
    let view = api.view().await?;
    api.clone()
        .work(move || {
            let limit = api.settings.body_limit as u64;
            let text = match (&request.spool_file, &api.spool) {
                (None, _) => request.jobs,
                (Some(_), None) => return Err(ApiError::bad("the settings name no spool")),
                (Some(name), Some(directory)) => {
                    let text = spool::read(directory, name, limit);
                    Some(
                        text.inspect_err(|error| tracing::warn!("refused: {error}"))
                            .map_err(ApiError::bad)?,
                    )
                }
            };
            let view = match text {
                None => view,
                Some(text) => {
                    let jobs = jobs::parse(&text, "jobs", Utc::now()).map_err(ApiError::bad)?;
                    View { jobs, ..(*view).clone() }.into()
                }
            };
            let published = api.store.published(&view.fabric).map_err(|e| ApiError::failed(&e))?;
            let decided = decide(&view, published.as_ref()).map_err(|e| ApiError::failed(&e))?;
            let epoch = api.store.current().ok().flatten().map(|n| n.get());
            Ok(json(DryRun::new(&view, published.as_ref(), epoch, &decided)))
        })
        .await
}
