//! Nodes, tables of nodes, and a dry run.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::ApiError;
use super::direct::TorusNodeAnswer;
use super::heavy::Question;
use super::heavy::child::PlanRequest;
use super::peer::Caller;
use super::routes::{Operation, Routes};
use super::{Api, Ask, direct, json, written};
use crate::model::{Guid, JobId, Lid, NodeName, PortNum, did_you_mean, nearest};
use crate::publish::angara::NODES_FILE;
use crate::publish::job::JOBS_DIRECTORY;
use crate::service::command::Seen;
use crate::service::dry_run::DryRun;
use crate::service::kind::direct::{Terms, TorusDryRun};

pub(super) fn read() -> Routes<Api> {
    let what = "On a direct torus: the node's table of the job";
    let told_table = Operation::new("/v1/jobs/{job}/nodes/{node}/table", what);
    let told_node = Operation::new("/v1/nodes/{node}", "Where a node is attached, and whose it is");
    let told_plan = Operation::new("/v1/plan", "A dry run for the jobs of now, or for others");
    let told_node = told_node.answers::<NodeAnswer>().answers::<TorusNodeAnswer>();
    let told_plan = told_plan.takes::<PlanRequest>().answers::<DryRun>().answers::<TorusDryRun>();
    Routes::new()
        .get(told_table.answers_as("text/plain").refuses(&[400, 404]), node_table)
        .get(told_node.refuses(&[400, 404]), node)
        .post(told_plan.refuses(&[400, 404, 413, 429]), plan)
}

/// A node on a switched fabric.
#[derive(Debug, Serialize, JsonSchema)]
struct NodeAnswer {
    /// Slurm's name.
    node: NodeName,
    /// Its adapters.
    terminals: Vec<Attached>,
    /// Jobs that own it.
    jobs: Vec<JobId>,
}

/// Where an adapter is attached.
#[derive(Debug, Serialize, JsonSchema)]
struct Attached {
    /// Of its port.
    guid: Guid,
    /// Its base LID.
    lid: Lid,
    /// Its own port.
    port: PortNum,
    /// GUID of the switch.
    switch: Guid,
    /// What the switch is called.
    switch_description: String,
}

fn named(name: &str) -> Result<NodeName, ApiError> {
    NodeName::new(name).map_err(ApiError::bad)
}

async fn node(State(api): Ask, Path(name): Path<String>) -> Result<Response, ApiError> {
    let node = named(&name)?;
    let view = match api.seen().await? {
        Seen::Switched(view) => view,
        Seen::Direct(seen) => return Ok(json(direct::node(&seen, &node)?)),
    };
    let terminals = view.nodes.terminals(&node);
    if terminals.is_empty() {
        let near = did_you_mean(nearest(node.as_str(), view.nodes.names().map(NodeName::as_str)));
        return Err(ApiError::missing(format!("no host of the fabric is called {node}{near}")));
    }
    // Slurm may write the node's name otherwise than whoever asks.
    let is_here = |name: &NodeName| view.nodes.terminals(name).iter().any(|t| terminals.contains(t));
    let jobs: Vec<_> =
        view.jobs.jobs.iter().filter(|j| j.nodes.iter().any(is_here)).map(|j| j.id.clone()).collect();
    let terminals: Vec<_> = terminals
        .iter()
        .map(|t| {
            let (terminal, switch) = (view.fabric.terminal(*t), view.fabric.terminal(*t).switch);
            let switch = view.fabric.switch(switch);
            Attached {
                guid: terminal.port_guid,
                lid: terminal.lid,
                port: terminal.port,
                switch: switch.guid,
                switch_description: switch.description.clone(),
            }
        })
        .collect();
    Ok(json(NodeAnswer { node, terminals, jobs }))
}

/// The routing table of one node of a job on a direct torus, as text. Names lead only to files that
/// the job's own index lists.
async fn node_table(State(api): Ask, Path((job, node)): Path<(String, String)>) -> Result<String, ApiError> {
    let job = JobId::new(job).map_err(ApiError::bad)?;
    let node = named(&node)?;
    let table = move |api: &Api| {
        let directory = api.store.path().join(JOBS_DIRECTORY).join(job.as_str());
        let missing = || ApiError::missing(format!("job {job} has no table for node {node}"));
        let index = std::fs::read_to_string(directory.join(NODES_FILE)).map_err(|_| missing())?;
        let file = index.lines().find_map(|line| line.strip_prefix(node.as_str())?.strip_prefix(' '));
        let file = file.filter(|name| !name.contains('/') && !name.starts_with('.')).ok_or_else(missing)?;
        std::fs::read_to_string(directory.join(file)).map_err(|_| missing())
    };
    api.read(table).await
}

async fn plan(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let seen = api.seen().await?;
    let _place = api.places.enter(&caller).await?;
    let question = match &seen {
        Seen::Switched(_) => Question::Plan,
        Seen::Direct(seen) => {
            // There is to be an answer before the deadline.
            let limit = seen.terms.limit.min(api.settings.deadline / 2);
            Question::DirectPlan(Terms { limit, ..seen.terms.clone() })
        }
    };
    Ok(written(api.heavy(question, seen, body).await?))
}
