//! The one decision: are new routes due, and which.
//!
//! Pure: no clock, no I/O. Time comes in with the snapshot; what is in force comes in as a value.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;

use super::anew::{self, Start};
use super::kept::{keep_told, may_stay};
use super::lanes;
pub use super::policy::{InSwitches, Policy, Repair};
use super::tally::Tally;
use super::worth::{Question, Worth};
use crate::measure::{self, Counted, Figures};
use crate::model::{
    Demand, Fabric, FabricDifference, FabricLanes, Fingerprint, Group, JobMap, Layer, LayerBudget, LidSet,
    NodeMap, NodeName, PlacedJob, Promise, SplitLids, Tables,
};
use crate::route::{self, EngineOptions, RouteError};
use crate::verify::{self, Certificate, Proved};

/// What is in force.
#[derive(Debug, Clone)]
pub struct Published {
    /// Fabric it was made for.
    pub fabric: Fingerprint,
    /// Engine that made it.
    pub engine: String,
    /// When it was made; `None`: not known, long ago.
    pub since: Option<DateTime<Utc>>,
    /// What it had to save if it was a change for jobs alone, see [`Worth::asked`]; `None`: not known, or it was none.
    pub asked: Option<f64>,
    /// Demand it was made for.
    pub demand: Demand,
    /// Its tables; where LIDs have routes of their own, those that jobs are told that start.
    pub tables: Arc<Tables>,
    /// The other LIDs, where these have routes of their own.
    pub lids: Option<SplitLids>,
    /// Jobs that run and were told to use one layer for everything: they will go on doing so.
    pub told: Vec<(Group, Layer)>,
    /// What was proved of it.
    pub promise: Promise,
    /// Its lanes on the fabric of now, where it has some: without the next hops over cables that are gone.
    pub lanes: Option<Arc<FabricLanes>>,
    /// See [`Plan::halfway`].
    pub halfway: bool,
    /// See [`Plan::drained`].
    pub drained: bool,
    /// The order of buffers that its epoch has, for the next one.
    pub certificate: Option<Arc<Certificate>>,
    /// What this process has proved of the tables, if it has.
    pub proved: Option<Proved>,
    /// What this process has counted of the tables, if it has.
    pub counted: Option<Arc<Counted>>,
    /// What is other in the fabric of now than in the one it was made for; after the first of several steps, what it was
    /// that they are for. `None`: nothing, or not known.
    pub difference: Option<FabricDifference>,
    /// What the switches have, where OpenSM has not taken this epoch.
    pub behind: Option<Behind>,
}

/// An epoch that switches have instead of the newest one: the next one may take its place at once.
#[derive(Debug, Clone)]
pub struct Behind {
    /// It.
    pub published: Arc<Published>,
    /// Whether OpenSM refused the newest one.
    pub refused: bool,
}

impl Published {
    /// What the next epoch changes: what the switches have, where OpenSM refused this one.
    pub fn to_change(&self) -> &Published {
        self.behind.as_ref().filter(|behind| behind.refused).map_or(self, |behind| &behind.published)
    }

    /// What the switches have as far as is known: this, or an older one.
    pub fn in_switches(&self) -> &Published {
        self.behind.as_ref().map_or(self, |behind| &behind.published)
    }

    /// The tables of a LID.
    pub fn of(&self, set: LidSet) -> &Tables {
        self.lids.as_ref().map_or(&self.tables, |lids| lids.of(&self.tables, set))
    }

    /// The tables that a plan's take the place of.
    pub fn replaced_by(&self, plan: &Plan) -> &Tables {
        plan.lids.as_ref().map_or(&self.tables, |lids| self.of(lids.fresh))
    }
}

/// Why new routes are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, serde::Serialize, serde::Deserialize)]
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
    /// What is in force uses more layers than the settings allow, or several inside a job, or routes by LID.
    BudgetChanged,
    /// The settings promise more than is proved of what is in force.
    PromiseChanged,
}

impl Reason {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::FabricChanged => "fabric changed",
            Self::EngineChanged => "engine changed",
            Self::JobsChanged => "jobs changed",
            Self::BudgetChanged => "layer budget changed",
            Self::PromiseChanged => "promise changed",
        }
    }
}

/// New tables, not yet checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Why new routes were due.
    pub reason: Reason,
    /// Name of who made the tables.
    pub engine: String,
    /// Engines that were to route before it.
    pub passed_over: Vec<PassedOver>,
    /// Allowed layers.
    pub budget: LayerBudget,
    /// For whom.
    pub demand: Demand,
    /// The jobs that were looked at.
    pub jobs: JobMap,
    /// The routes.
    pub tables: Arc<Tables>,
    /// The LID of each port that gets them, and what the other keeps; `None`: all LIDs get them.
    pub lids: Option<SplitLids>,
    /// The lanes inside which they were chosen, for the next epoch; `None`: they need none.
    pub lanes: Option<Arc<FabricLanes>>,
    /// Figures of the tables in force, under the new demand; `None` if they are of another fabric.
    pub before: Option<Figures>,
    /// Figures of the new tables.
    pub after: Figures,
    /// What the change is worth, where that was the question.
    pub worth: Option<Worth>,
    /// The first of two steps, or of three: the next plan is due as soon as all switches have this one.
    pub halfway: bool,
    /// The first of three: what is in force in the lanes in force, without what is in the way of routes to come and leads
    /// no host to another.
    pub drained: bool,
    /// What was counted of the tables, for the next plan.
    pub counted: Option<Arc<Counted>>,
    /// See [`Published::difference`].
    pub difference: Option<FabricDifference>,
}

/// An engine that was to route before the one that did.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, serde::Serialize, serde::Deserialize)]
pub struct PassedOver {
    /// Its name.
    pub engine: String,
    /// Why it made nothing that may be published.
    pub reason: String,
}

impl AsRef<Tables> for Plan {
    fn as_ref(&self) -> &Tables {
        &self.tables
    }
}

impl AsRef<Arc<Tables>> for Plan {
    fn as_ref(&self) -> &Arc<Tables> {
        &self.tables
    }
}

/// The answer.
#[derive(Debug, Clone)]
pub enum Decision {
    /// What is in force stays: it serves the demand, and perhaps jobs that are over.
    Keep,
    /// What is in force stays: other routes are not worth the change.
    NotWorth(Worth),
    /// New routes.
    Publish(Box<Plan>),
}

/// Decision and what was noticed on the way.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The answer.
    pub decision: Decision,
    /// What the routes in force are to serve, now or once the plan is published.
    pub demand: Demand,
    /// Nodes of jobs that no terminal matches.
    pub unknown_nodes: Vec<NodeName>,
    /// Multi-switch jobs that are too young to count yet.
    pub waiting: usize,
    /// Other routes are due, and running jobs use both LIDs of each port: what is in force stays.
    pub waits_for_lid: bool,
}

/// What a snapshot asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The jobs that count.
    pub jobs: JobMap,
    /// For whom to route.
    pub demand: Demand,
    /// Nodes of jobs that no terminal matches.
    pub unknown_nodes: Vec<NodeName>,
    /// Multi-switch jobs that are too young to count yet.
    pub waiting: usize,
    /// When the first of those is old enough.
    pub ripe: Option<DateTime<Utc>>,
}

/// Decides whether the snapshot needs other routes than those in force, and computes them.
///
/// Jobs on one switch, job ids and the order of jobs do not matter (thesis Figure 5.6): a job
/// replaced by another on the same nodes is no change. Nor is a job's end: the others' routes are as
/// good as before, and moving them gains nothing but packets out of order. Other jobs get other routes if
/// those are worth their price ([`Policy::price`]); small gains gather, as all jobs are judged together.
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
    let in_force = published.map(|p| &p.demand);
    let Wanted { jobs, demand, unknown_nodes, waiting, .. } = wanted(fabric, nodes, jobs, in_force, policy);
    let due = due(fabric, &demand, published, policy);
    let waits_for_lid = due.is_some_and(|why| keeps_a_lid(why) && is_without_lid(policy));
    let published = published.map(Published::to_change);
    let decision = match due {
        None => Decision::Keep,
        Some(_) if waits_for_lid => Decision::Keep,
        Some(Reason::JobsChanged) => {
            let question = Question::new((fabric, nodes), &jobs, &demand, published, policy);
            for_jobs(fabric, jobs, &demand, published, policy, question)?
        }
        Some(reason) => {
            let make =
                |jobs, start| compute(fabric, jobs, demand.clone(), published, policy, (reason, start));
            let (plan, anew) = anew::both(fabric, jobs, published, policy, make)?;
            let plan = anew.into_iter().fold((plan, None), |plan, anew| anew::better(plan, (anew, None))).0;
            Decision::Publish(Box::new(plan))
        }
    };
    Ok(Outcome { decision, demand, unknown_nodes, waiting, waits_for_lid })
}

/// Whether an epoch for this reason leaves the routes to one LID of each port as they are. Where the others do not
/// fit any more, both change.
fn keeps_a_lid(why: Reason) -> bool {
    matches!(why, Reason::JobsChanged | Reason::EngineChanged)
}

/// Whether running jobs use both LIDs of each port.
fn is_without_lid(policy: &Policy) -> bool {
    policy.lids_in_use.is_some_and(|in_use| LidSet::free(in_use).is_none())
}

/// Routes for other jobs, if they are worth it.
fn for_jobs(
    fabric: &Fabric,
    jobs: JobMap,
    demand: &Demand,
    published: Option<&Published>,
    policy: &Policy,
    question: Option<Question<'_>>,
) -> Result<Decision, RouteError> {
    if let Some(worth) = question.as_ref().and_then(Question::refused) {
        return Ok(Decision::NotWorth(worth));
    }
    let judged = |plan: Plan| {
        let worth = question.as_ref().map(|question| question.judged(&plan.tables));
        (plan, worth)
    };
    let make =
        |jobs, start| compute(fabric, jobs, demand.clone(), published, policy, (Reason::JobsChanged, start));
    let (plan, anew) = anew::both(fabric, jobs, published, policy, make)?;
    let (plan, worth) = anew.into_iter().fold(judged(plan), |plan, anew| anew::better(plan, judged(anew)));
    Ok(match worth {
        Some(worth) if !worth.is_paid() => Decision::NotWorth(worth),
        _ => Decision::Publish(Box::new(Plan { worth, ..plan })),
    })
}

/// What a snapshot asks for. Jobs younger than [`Policy::min_job_age`] do not count, except those
/// on nodes that `in_force` serves already: they need nothing new. Jobs without a start count.
/// O(sum of job sizes × log nodes).
pub fn wanted(
    fabric: &Fabric,
    nodes: &NodeMap,
    jobs: &JobMap,
    in_force: Option<&Demand>,
    policy: &Policy,
) -> Wanted {
    let placed = nodes.place(jobs);
    // A whole job is as old as its oldest part.
    let oldest = |job: &PlacedJob| job.parts.iter().map(|i| ripens(jobs.jobs[*i].start, jobs, policy)).min();
    let ripens: Vec<Option<DateTime<Utc>>> = placed.jobs.iter().map(|job| oldest(job).flatten()).collect();
    let mut served = Tally::of(in_force.iter().flat_map(|d| &d.groups));
    let groups: Vec<Group> = placed.jobs.iter().map(|job| job.ranks.group()).collect();
    // The old ones first: what they use of the demand in force cannot excuse a young one.
    for (group, _) in groups.iter().zip(&ripens).filter(|(_, ripens)| ripens.is_none()) {
        served.take(group);
    }
    let counts: Vec<bool> =
        groups.iter().zip(&ripens).map(|(group, ripens)| ripens.is_none() || served.take(group)).collect();
    let is_waiting = |i: &usize| !counts[*i] && placed.jobs[*i].ranks.is_multi_switch(fabric);
    let waiting: Vec<usize> = (0..groups.len()).filter(is_waiting).collect();
    let ripe = waiting.iter().filter_map(|i| ripens[*i]).min();
    let mut counted = vec![false; jobs.jobs.len()];
    for (job, counts) in placed.jobs.iter().zip(&counts) {
        job.parts.iter().for_each(|i| counted[*i] = *counts);
    }
    let mut flags = counted.iter();
    let mut kept = jobs.clone();
    kept.jobs.retain(|_| flags.next() == Some(&true));
    let demand = nodes.place(&kept).demand(fabric, policy.storage.clone());
    Wanted { jobs: kept, demand, unknown_nodes: placed.unknown, waiting: waiting.len(), ripe }
}

/// When a young job is old enough; `None` if it is.
fn ripens(start: Option<DateTime<Utc>>, jobs: &JobMap, policy: &Policy) -> Option<DateTime<Utc>> {
    let age = policy.min_job_age;
    // Without an age to reach, a clock of Slurm that is ahead of ours makes nobody wait.
    let young = start.filter(|start| age > TimeDelta::zero() && jobs.time - *start < age)?;
    Some(young.checked_add_signed(age).unwrap_or(DateTime::<Utc>::MAX_UTC))
}

/// Why other routes are due for a demand, if they are.
pub(crate) fn due(
    fabric: &Fabric,
    demand: &Demand,
    published: Option<&Published>,
    policy: &Policy,
) -> Option<Reason> {
    match published {
        None => Some(Reason::First),
        Some(p) if p.fabric != fabric.fingerprint() || p.halfway => Some(Reason::FabricChanged),
        Some(p) if p.engine != policy.engine && !policy.then.contains(&p.engine) => {
            Some(Reason::EngineChanged)
        }
        // A change that is over needs no proof any more.
        Some(p) if !p.promise.covers(&Promise { mixed: false, ..policy.promise }) => {
            Some(Reason::PromiseChanged)
        }
        Some(p) if !p.demand.covers(demand) => Some(Reason::JobsChanged),
        Some(p) if LidSet::ALL.into_iter().any(|set| p.of(set).layers_used() > policy.budget.get()) => {
            Some(Reason::BudgetChanged)
        }
        Some(p) if p.lids.is_some() && policy.lids_in_use.is_none() => Some(Reason::BudgetChanged),
        Some(p) if policy.layer_per_job && !is_layer_per_job(fabric, p) => Some(Reason::BudgetChanged),
        Some(_) => None,
    }
}

/// Whether all routes inside each job are on one layer already.
fn is_layer_per_job(fabric: &Fabric, published: &Published) -> bool {
    let layers = |g: &Group| verify::layers_of_group(fabric, &published.tables, g).len();
    published.demand.groups.iter().all(|g| layers(g) <= 1)
}

/// For whom the routes in force were made: those of another engine for nobody in particular.
fn served(in_force: &Published, policy: &Policy) -> Demand {
    if in_force.engine == policy.engine { in_force.demand.clone() } else { Demand::oblivious() }
}

fn compute(
    fabric: &Fabric,
    jobs: JobMap,
    demand: Demand,
    published: Option<&Published>,
    policy: &Policy,
    (reason, start): (Reason, Start),
) -> Result<Plan, RouteError> {
    let same_fabric = published.filter(|p| p.fabric == fabric.fingerprint());
    let lanes = lanes::due(fabric, published, policy);
    let to_keep = same_fabric.filter(|p| !p.halfway);
    let from = to_keep.filter(|_| start == Start::InForce);
    let options = EngineOptions {
        previous: from.map(|p| Arc::clone(&p.tables)),
        served: from.map(|p| served(p, policy)),
        layer_per_job: policy.layer_per_job,
        promise: policy.promise,
        lanes: lanes.clone(),
        ..EngineOptions::default()
    };
    let tables = route::engine(&policy.engine, &options)?.route(fabric, &demand, policy.budget)?;
    let tables = match same_fabric {
        Some(p) => keep_told(fabric, tables, p),
        None => tables,
    };
    let known = same_fabric.map(|p| (&*p.tables, p.counted.as_deref()));
    let (before, after, counted) = measure::measure_since(fabric, known, &tables, &demand);
    let in_force = to_keep.filter(|p| {
        let is_better = before.is_some_and(|before| before.time.slowdown_mean < after.time.slowdown_mean);
        is_better && reason == Reason::JobsChanged && may_stay(p, lanes.as_ref(), &demand, policy)
    });
    let (tables, (before, after, counted)) = match in_force {
        Some(p) => (Tables::clone(&p.tables), measure::measure_since(fabric, known, &p.tables, &demand)),
        None => (tables, (before, after, counted)),
    };
    let lids = policy.lids_in_use.and_then(LidSet::free).and_then(|fresh| {
        let p = same_fabric.filter(|p| keeps_a_lid(reason) && p.lanes == lanes)?;
        let same = p.lids.as_ref().filter(|lids| lids.fresh == fresh);
        Some(SplitLids { fresh, kept: Arc::clone(same.map_or(&p.tables, |lids| &lids.kept)) })
    });
    let engine = policy.engine.clone();
    Ok(Plan {
        lids,
        reason,
        engine,
        passed_over: Vec::new(),
        budget: policy.budget,
        demand,
        jobs,
        tables: Arc::new(tables),
        lanes,
        before,
        after,
        worth: None,
        halfway: false,
        drained: false,
        counted: Some(Arc::new(counted)),
        difference: published.and_then(|p| p.difference.clone()),
    })
}

#[cfg(test)]
mod tests;
