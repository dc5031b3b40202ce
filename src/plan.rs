//! The one decision: are new routes due, and which.
//!
//! Pure: no clock, no I/O. Time comes in with the snapshot; what is in force comes in as a value.

use std::sync::Arc;

use chrono::TimeDelta;

use crate::measure::{self, Figures};
use crate::model::{Demand, Fabric, Fingerprint, JobMap, LayerBudget, NodeMap, NodeName, Tables, TerminalId};
use crate::route::{self, EngineOptions, RouteError};

/// What an administrator decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Name of the routing engine.
    pub engine: String,
    /// Virtual layers the fabric has for us.
    pub budget: LayerBudget,
    /// Jobs younger than this wait: most very short jobs never cause an epoch.
    pub min_job_age: TimeDelta,
    /// All routes inside one job on one layer.
    pub layer_per_job: bool,
    /// Terminals of storage servers.
    pub storage: Vec<TerminalId>,
}

/// What is in force.
#[derive(Debug, Clone)]
pub struct Published {
    /// Fabric it was made for.
    pub fabric: Fingerprint,
    /// Engine that made it.
    pub engine: String,
    /// Demand it was made for.
    pub demand: Demand,
    /// Its tables.
    pub tables: Arc<Tables>,
}

/// Why new routes are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Nothing is in force.
    First,
    /// Switches, ports or cables changed.
    FabricChanged,
    /// The settings name another engine.
    EngineChanged,
    /// Multi-switch jobs run on other sets of nodes.
    JobsChanged,
}

/// New tables, not yet checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Why.
    pub reason: Reason,
    /// Engine.
    pub engine: String,
    /// Allowed layers.
    pub budget: LayerBudget,
    /// For whom.
    pub demand: Demand,
    /// The jobs that were looked at.
    pub jobs: JobMap,
    /// The routes.
    pub tables: Tables,
    /// Figures of the tables in force, under the new demand; `None` if they are of another fabric.
    pub before: Option<Figures>,
    /// Figures of the new tables.
    pub after: Figures,
}

impl AsRef<Tables> for Plan {
    fn as_ref(&self) -> &Tables {
        &self.tables
    }
}

/// The answer.
#[derive(Debug, Clone)]
pub enum Decision {
    /// What is in force stays: the demand is the same.
    Keep,
    /// New routes.
    Publish(Box<Plan>),
}

/// Decision and what was noticed on the way.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The answer.
    pub decision: Decision,
    /// Nodes of jobs that no terminal matches.
    pub unknown_nodes: Vec<NodeName>,
    /// Jobs that are too young to count yet.
    pub waiting: usize,
}

/// Decides whether the snapshot needs other routes than those in force, and computes them.
///
/// Jobs on one switch, job ids and the order of jobs do not matter (thesis Figure 5.6): a job
/// replaced by another on the same nodes is no change.
///
/// # Errors
/// If the engine makes no tables.
pub fn plan(
    fabric: &Fabric,
    nodes: &NodeMap,
    jobs: &JobMap,
    published: Option<&Published>,
    policy: &Policy,
) -> Result<Outcome, RouteError> {
    let (jobs, waiting) = old_enough(jobs, policy.min_job_age);
    let placed = nodes.place(&jobs);
    let demand = placed.demand(fabric, policy.storage.clone());
    let decision = match due(fabric, &demand, published, policy) {
        None => Decision::Keep,
        Some(reason) => {
            Decision::Publish(Box::new(compute(fabric, jobs, demand, published, policy, reason)?))
        }
    };
    Ok(Outcome { decision, unknown_nodes: placed.unknown, waiting })
}

fn old_enough(jobs: &JobMap, age: TimeDelta) -> (JobMap, usize) {
    let mut kept = jobs.clone();
    kept.jobs.retain(|job| job.start.is_none_or(|start| jobs.time - start >= age));
    let waiting = jobs.jobs.len() - kept.jobs.len();
    (kept, waiting)
}

fn due(fabric: &Fabric, demand: &Demand, published: Option<&Published>, policy: &Policy) -> Option<Reason> {
    match published {
        None => Some(Reason::First),
        Some(p) if p.fabric != fabric.fingerprint() => Some(Reason::FabricChanged),
        Some(p) if p.engine != policy.engine => Some(Reason::EngineChanged),
        Some(p) if p.demand != *demand => Some(Reason::JobsChanged),
        Some(_) => None,
    }
}

fn compute(
    fabric: &Fabric,
    jobs: JobMap,
    demand: Demand,
    published: Option<&Published>,
    policy: &Policy,
    reason: Reason,
) -> Result<Plan, RouteError> {
    let same_fabric = published.filter(|p| p.fabric == fabric.fingerprint());
    let options = EngineOptions {
        previous: same_fabric.map(|p| Arc::clone(&p.tables)),
        layer_per_job: policy.layer_per_job,
        ..EngineOptions::default()
    };
    let tables = route::engine(&policy.engine, &options)?.route(fabric, &demand, policy.budget)?;
    let before = same_fabric.map(|p| measure::measure(fabric, &p.tables, &demand));
    let after = measure::measure(fabric, &tables, &demand);
    let engine = policy.engine.clone();
    Ok(Plan { reason, engine, budget: policy.budget, demand, jobs, tables, before, after })
}
