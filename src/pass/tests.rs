//! What tests of a pass begin with.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::plan::{Plan, Policy, Published};
use crate::model::{
    Demand, Fabric, Group, Job, JobId, JobMap, JobState, LayerBudget, NodeMap, Promise, Storage, TerminalId,
};
use crate::observe::hostlist;
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::publish::tests::fixture;

pub(crate) const NOW: DateTime<Utc> = DateTime::<Utc>::UNIX_EPOCH;

pub(crate) fn budget(layers: u64) -> LayerBudget {
    LayerBudget::new(layers).unwrap()
}

/// Settings that want every difference, on one layer, as programs are told.
pub(crate) fn policy(engine: &str) -> Policy {
    Policy::new(engine, budget(1), Promise::TOLD)
}

/// Terminals by number.
pub(crate) fn group(members: &[usize]) -> Group {
    Group::new(members.iter().map(|t| TerminalId::at(*t)).collect())
}

pub(crate) fn demand(groups: &[&[usize]]) -> Demand {
    Demand::new(groups.iter().map(|members| group(members)).collect(), Storage::default())
}

/// Hosts by their names in generated fabrics: n1 is terminal 0.
pub(crate) fn nodes(fabric: &Fabric) -> NodeMap {
    name_hosts(fabric, &NodeNames::default())
}

/// A job that began so many hours from now.
pub(crate) fn job(id: &str, state: JobState, on: &str, start: i64) -> Job {
    let start = Some(NOW + TimeDelta::hours(start));
    Job::new(JobId::new(id).unwrap(), state, hostlist::expand(on).unwrap(), start)
}

/// Jobs that have run for an hour on these hosts.
pub(crate) fn jobs(on: &[&str]) -> JobMap {
    let job = |(n, on): (usize, &&str)| job(&format!("{}", n + 1), JobState::Running, on, -1);
    JobMap::new(NOW, on.iter().enumerate().map(job).collect())
}

/// Shortest ways, in force since two hours ago.
pub(crate) fn in_force(fabric: &Fabric, demand: Demand) -> Published {
    let tables = fixture::tables(fabric, "sssp", 0);
    let in_force = Published::new(fabric.fingerprint(), "sssp", demand, tables);
    Published { since: Some(NOW - TimeDelta::hours(2)), ..in_force }
}

/// A plan that was published as it is.
pub(crate) fn published(fabric: &Fabric, plan: &Plan, promise: Promise) -> Published {
    Published {
        engine: plan.engine.clone(),
        tables: Arc::clone(&plan.tables),
        lids: plan.lids.clone(),
        lanes: plan.lanes.clone(),
        promise,
        ..in_force(fabric, plan.demand.clone())
    }
}
