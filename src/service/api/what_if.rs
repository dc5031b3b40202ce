//! What would another engine give, and which nodes would suit a job? Nothing is changed.

use std::collections::BTreeSet;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::heavy::Question;
use super::heavy::child::PlanRequest;
use super::peer::Caller;
use super::picture::stored;
use super::routes::{Operation, Routes};
use super::{Api, Ask, json, written};
use crate::measure::{Time, effective_loads, least_load, slowdowns};
use crate::model::{Demand, Fabric, Group, Mix, NodeName, Tables};
use crate::observe::hostlist;
use crate::pass::baseline::Baseline;
use crate::pass::step::View;
use crate::placement::{self, Board, Insist, Predicted, Recommendation, Switched};
use crate::publish::EpochStore;
use crate::route::{self, EngineOptions};
use crate::service::command::Seen;

pub(super) fn read() -> Routes<Api> {
    let told_list = Operation::new("/v1/engines", "Engines that can be tried");
    let told_one = Operation::new("/v1/engines/{engine}", "Another engine's tables beside those in force");
    let told_place = Operation::new("/v1/place", "Nodes that would suit a job");
    let told_one = told_one.takes::<PlanRequest>().answers::<TriedAnswer>();
    Routes::new()
        .get(told_list.answers::<EnginesAnswer>(), engines)
        .post(told_one.refuses(&[400, 404, 413, 429]), engine)
        .get(told_place.query::<WantedNodes>().answers::<PlacedAnswer>().refuses(&[400, 404, 429]), place)
}

/// Engines that can be tried.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EnginesAnswer {
    /// In the order of the documentation; none on a direct torus.
    engines: Vec<EngineAnswer>,
}

/// An engine.
#[derive(Debug, Serialize, JsonSchema)]
struct EngineAnswer {
    /// Its name.
    name: &'static str,
    /// What it is, in a few words.
    what: &'static str,
}

/// What tables give the jobs.
#[derive(Debug, Serialize, JsonSchema)]
struct Given {
    /// Whose they are.
    engine: String,
    /// Slow-down of the jobs; null without any on several switches.
    time: Option<Time>,
    /// Routes inside jobs on the fullest channel.
    largest_load: u64,
}

/// An engine's tables beside those in force and those that know no jobs, with the same jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TriedAnswer {
    /// Of the engine that was asked for.
    tried: Given,
    /// In force; null if nothing is, or it is of another fabric.
    now: Option<Given>,
    /// Of the engine without jobs that is compared with.
    baseline: Option<Given>,
    /// No tables can have a smaller largest load.
    bound: u64,
    /// Jobs on several switches.
    multi_switch: usize,
}

/// What a job wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WantedNodes {
    /// How many nodes.
    nodes: usize,
    /// What it exchanges; everybody with everybody unless told.
    pattern: Option<String>,
}

/// Nodes that would suit a job.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PlacedAnswer {
    /// The nodes, as a host list; null if none can be recommended.
    nodes: Option<String>,
    /// Why not.
    why: Option<String>,
    /// Nodes that it may get.
    free: usize,
    /// Who says which these are.
    free_from: FreeFrom,
    /// What is predicted for them.
    predicted: Option<Predicted>,
    /// Slurm's usual choice.
    usual_nodes: Option<String>,
    /// What is predicted for it.
    usual: Option<Predicted>,
}

/// Who says which nodes are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FreeFrom {
    /// Slurm: the nodes that it calls idle.
    Slurm,
    /// The running jobs: the nodes that none of them has. Drained, reserved and unreachable ones are among them. So it
    /// is where the jobs are not Slurm's, or Slurm does not say.
    Jobs,
}

async fn engines(State(api): Ask) -> Result<Response, ApiError> {
    let row = |row: &route::EngineRow| EngineAnswer { name: row.name, what: row.what };
    Ok(json(match api.seen().await? {
        Seen::Switched(_) => EnginesAnswer { engines: route::ENGINES.iter().map(row).collect() },
        Seen::Direct(_) => EnginesAnswer { engines: Vec::new() },
    }))
}

/// The look, if there are switches.
async fn switched(api: &Api) -> Result<Seen, ApiError> {
    match api.seen().await? {
        Seen::Direct(_) => Err(ApiError::missing("on a direct torus tables belong to jobs: see /v1/plan")),
        seen => Ok(seen),
    }
}

async fn engine(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let seen = switched(&api).await?;
    route::engine(&name, &EngineOptions::default()).map_err(|e| ApiError::missing(&e))?;
    let _place = api.places.enter(&caller).await?;
    Ok(written(api.heavy(Question::Engine(name), seen, body).await?))
}

async fn place(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    Query(wanted): Query<WantedNodes>,
) -> Result<Response, ApiError> {
    if wanted.nodes == 0 {
        return Err(ApiError::bad("a job has at least one node"));
    }
    wanted.mix()?;
    let seen = switched(&api).await?;
    let _place = api.places.enter(&caller).await?;
    let idle = serde_json::to_vec(&api.idle_nodes().await?).map_err(|e| ApiError::failed(&e))?;
    Ok(written(api.heavy(Question::Place(wanted), seen, idle.into()).await?))
}

impl WantedNodes {
    fn mix(&self) -> Result<Option<Mix>, ApiError> {
        let pattern = self.pattern.as_deref().filter(|text| !text.trim().is_empty());
        pattern.map(|text| text.trim().parse().map_err(ApiError::bad)).transpose()
    }
}

/// What an engine's tables would give the jobs of a look.
pub(super) fn tried(store: &EpochStore, view: &View, name: &str) -> Result<TriedAnswer, ApiError> {
    let fabric = &view.fabric;
    let demand = view.nodes.place(&view.jobs).demand(fabric, view.policy.storage.clone());
    let groups = &demand.groups;
    let promise = route::default_promise(name, false);
    let options = EngineOptions { promise, ..EngineOptions::default() };
    let routed = route::engine(name, &options).and_then(|e| e.route(fabric, &demand, view.policy.budget));
    // Not every engine routes every fabric.
    let tables = routed.map_err(|e| ApiError::new(StatusCode::NOT_FOUND, format!("{name}: {e}")))?;
    let baseline = Baseline::tables(fabric, groups, view.policy.baseline.as_deref(), view.policy.budget);
    Ok(TriedAnswer {
        tried: given(name, fabric, &tables, groups),
        now: in_force(store, fabric).map(|(engine, tables)| given(&engine, fabric, &tables, groups)),
        baseline: baseline.map(|(engine, tables)| given(engine, fabric, &tables, groups)),
        bound: least_load(fabric, groups),
        multi_switch: groups.len(),
    })
}

/// The tables in force, of the same fabric, and their engine.
fn in_force(store: &EpochStore, fabric: &Fabric) -> Option<(String, Tables)> {
    let epoch = stored(store, store.current().ok()??).ok()?;
    let is_same = epoch.plan().fabric == fabric.fingerprint();
    Some((epoch.plan().engine.clone(), epoch.tables(fabric).ok().filter(|_| is_same)?))
}

fn given(engine: &str, fabric: &Fabric, tables: &Tables, groups: &[Group]) -> Given {
    let demand = Demand { groups: groups.to_vec(), ..Demand::default() };
    Given {
        engine: engine.to_string(),
        time: (!groups.is_empty()).then(|| Time::of(&slowdowns(fabric, tables, &demand))),
        largest_load: effective_loads(fabric, tables, groups).into_iter().max().unwrap_or(0),
    }
}

/// Nodes for a job beside those of a look, among the `idle` ones if Slurm said which these are.
pub(super) fn placed(
    view: &View,
    wanted: &WantedNodes,
    idle: Option<&[NodeName]>,
) -> Result<PlacedAnswer, ApiError> {
    let board = Board::Switched(Switched::new(&view.fabric, &view.nodes));
    let running: Vec<Vec<u32>> = view.jobs.jobs.iter().map(|job| board.numbers(&job.nodes)).collect();
    let busy: BTreeSet<u32> = running.iter().flatten().copied().collect();
    let (mut candidates, free_from) = match idle {
        Some(idle) => (board.numbers(idle), FreeFrom::Slurm),
        None => ((0..board.names().len() as u32).collect(), FreeFrom::Jobs),
    };
    candidates.retain(|n| !busy.contains(n));
    let mix = wanted.mix()?;
    let question = placement::Question {
        nodes: wanted.nodes,
        candidates: &candidates,
        insist: Insist::Require,
        mix: mix.as_ref(),
        isolated: false,
    };
    let list = |numbers: &[u32]| {
        let names: Vec<NodeName> = numbers.iter().map(|n| board.names()[*n as usize].clone()).collect();
        hostlist::fold(&names)
    };
    let nothing = PlacedAnswer {
        nodes: None,
        why: None,
        free: candidates.len(),
        free_from,
        predicted: None,
        usual_nodes: None,
        usual: None,
    };
    Ok(match board.choose(&board.running(&running), question) {
        Recommendation::Chosen(choice) => PlacedAnswer {
            nodes: Some(list(&choice.nodes)),
            predicted: Some(choice.predicted),
            usual_nodes: Some(list(&placement::usual::usual(wanted.nodes, &candidates))),
            usual: choice.usual,
            ..nothing
        },
        Recommendation::Any(why) | Recommendation::No(why) => {
            PlacedAnswer { why: Some(why.to_string()), ..nothing }
        }
    })
}
