//! The answers of the service of a direct torus: nodes stand in the place of switches, links in that of
//! cables, and tables belong to jobs, not to epochs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::against::Against;
use super::answer::ApiError;
use super::picture::{FabricAnswer, LoadAnswer};
use super::served::{JobAnswer, JobsAnswer, SaidBy};
use crate::measure::Time;
use crate::measure::angara::channel_loads;
use crate::model::{Job, JobId, JobState, NodeName, Torus, TorusJob, Traffic};
use crate::observe::hostlist;
use crate::publish::{EpochNumber, HistoryRow};
use crate::report::layout;
use crate::service::kind::direct::{self, Direct, Newest, TorusBaseline};

impl FabricAnswer {
    /// A direct torus: a node is a switch with one host. O(nodes).
    pub(super) fn of_torus(torus: &Torus) -> Self {
        let (links, drawn) = layout::torus(torus);
        let ends = links.iter().filter_map(|(n, d)| Some([n.index(), torus.neighbour(*n, *d)?.index()]));
        Self {
            fingerprint: torus.fingerprint().to_string(),
            direct: true,
            names: torus.nodes().map(|n| torus.name(n).to_string()).collect(),
            hosts: torus.nodes().map(|n| usize::from(torus.is_healthy(n))).collect(),
            cables: ends.collect(),
            ports: links.iter().map(|(_, d)| [d.to_string(), d.opposite().to_string()]).collect(),
            ..Self::drawn(&drawn)
        }
    }
}

/// The change that is asked for must be the newest: no other tables are kept.
fn newest(seen: &Direct, asked: Option<EpochNumber>) -> Result<&Newest, ApiError> {
    let newest = seen.newest.as_ref().ok_or_else(|| ApiError::missing("no job has got tables yet"))?;
    match asked {
        Some(number) if number != newest.epoch => Err(ApiError::missing(format!(
            "the service of a direct torus keeps the tables of now, change {}; of change {number} there is what \
             /v1/epochs tells",
            newest.epoch
        ))),
        _ => Ok(newest),
    }
}

/// A direct torus keeps the tables of now and of before alone.
pub(super) fn only_before(against: Option<Against>) -> Result<(), ApiError> {
    match against {
        None => Ok(()),
        Some(_) => Err(ApiError::missing("a direct torus has only the tables before to compare with")),
    }
}

type Tables = BTreeMap<JobId, TorusJob>;

/// Routes of all jobs, or of one, over each channel, as [`FabricAnswer`] counts them.
pub(super) fn load(
    seen: &Direct,
    asked: Option<EpochNumber>,
    job: Option<&JobId>,
    baseline: Option<&TorusBaseline>,
) -> Result<LoadAnswer, ApiError> {
    let newest = newest(seen, asked)?;
    let torus = &seen.torus;
    if let Some(id) = job.filter(|id| !seen.running.contains_key(id)) {
        return Err(ApiError::missing(format!("job {id} has no tables")));
    }
    let (links, _) = layout::torus(torus);
    let loads = |tables: &Tables| {
        let of = tables.iter().filter(|(id, _)| job.is_none_or(|job| job == *id));
        let loads = channel_loads(torus, of.filter_map(|(_, job)| job.kept()));
        let both = links.iter().filter_map(|(node, direction)| {
            let back = torus.channel(torus.neighbour(*node, *direction)?, direction.opposite());
            Some([loads[torus.channel(*node, *direction)], loads[back]].map(u64::from))
        });
        both.flatten().collect::<Vec<u64>>()
    };
    Ok(LoadAnswer {
        epoch: newest.epoch,
        created: newest.time,
        reason: newest.reason,
        engine: newest.engine.clone(),
        other_fabric: false,
        now: loads(&seen.running),
        before: newest.before.as_ref().map(loads),
        // That of one job alone is not computed.
        bound: baseline.filter(|_| job.is_none()).and_then(|baseline| baseline.bound),
        against: None,
        beside: None,
    })
}

/// The jobs of the newest look, and those that have got tables since.
pub(super) fn jobs(
    seen: &Direct,
    asked: Option<EpochNumber>,
    baseline: Option<&TorusBaseline>,
) -> Result<JobsAnswer, ApiError> {
    if asked.is_some() {
        newest(seen, asked)?;
    }
    let gets = |tables: &Tables| direct::gets(&seen.torus, tables);
    let now = gets(&seen.running);
    let before = seen.newest.as_ref().and_then(|newest| newest.before.as_ref()).map(gets).unwrap_or_default();
    let answer = |id: &JobId, nodes: Vec<NodeName>, job: Option<&Job>| {
        // Tables stay as they were made.
        let traffic = match seen.running.get(id) {
            Some(job) => Some(Traffic { mix: job.mix.clone(), guessed: job.guessed }),
            None => job.and_then(Job::traffic),
        };
        let (pattern, pattern_from) = SaidBy::of(traffic.filter(|traffic| !traffic.mix.is_default()));
        JobAnswer {
            pattern,
            pattern_from,
            state: job.map_or(JobState::Configuring, |job| job.state),
            nodes: hostlist::fold(&nodes),
            node_count: nodes.len(),
            switches: nodes.iter().filter(|name| seen.torus.node_named(name).is_some()).count(),
            start: job.and_then(|job| job.start),
            now: now.get(id).copied(),
            before: before.get(id).copied(),
            baseline: baseline.and_then(|baseline| baseline.slowdowns.get(id).copied()),
            beside: None,
            id: id.clone(),
        }
    };
    let known = seen.jobs.iter().flat_map(|jobs| &jobs.jobs);
    let mut jobs: BTreeMap<JobId, JobAnswer> =
        known.map(|job| (job.id.clone(), answer(&job.id, job.nodes.clone(), Some(job)))).collect();
    for (id, job) in &seen.running {
        let names = || job.nodes().iter().map(|node| seen.torus.name(*node).clone()).collect();
        jobs.entry(id.clone()).or_insert_with(|| answer(id, names(), None));
    }
    let time = seen.jobs.as_ref().map(|jobs| jobs.time).unwrap_or_default();
    let epoch = seen.newest.as_ref().map(|newest| newest.epoch);
    let [now, before] = [&now, &before].map(|gets| Time::of_known(gets.values().map(|gets| gets.slowdown)));
    let jobs = jobs.into_values().collect();
    let baseline = baseline.map(|baseline| baseline.all.clone());
    Ok(JobsAnswer { epoch, time, now, before, baseline, against: None, beside: None, jobs })
}

/// A node of a direct torus.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TorusNodeAnswer {
    /// Slurm's name.
    node: NodeName,
    /// Its coordinates.
    at: String,
    /// Whether it works.
    healthy: bool,
    /// Jobs that own it.
    jobs: Vec<JobId>,
    /// Jobs whose tables it has.
    tables: Vec<JobId>,
}

/// A change of tables.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChangeAnswer {
    /// Whether it is the newest.
    in_force: bool,
    /// As the history tells it.
    change: HistoryRow,
}

/// A node: where it is, and whose it is.
pub(super) fn node(seen: &Direct, name: &NodeName) -> Result<TorusNodeAnswer, ApiError> {
    let node = seen.torus.node_named(name);
    let node = node.ok_or_else(|| ApiError::missing(format!("the torus has no node {name}")))?;
    let known = seen.jobs.iter().flat_map(|jobs| &jobs.jobs);
    let jobs = known.filter(|job| job.nodes.contains(name)).map(|job| job.id.clone()).collect();
    let tables = seen.running.iter().filter(|(_, job)| job.nodes().binary_search(&node).is_ok());
    let tables = tables.map(|(id, _)| id.clone()).collect();
    let (at, healthy) = (seen.torus.coords(node).to_string(), seen.torus.is_healthy(node));
    Ok(TorusNodeAnswer { node: name.clone(), at, healthy, jobs, tables })
}

/// A change of tables, as the history tells it.
pub(super) fn change(
    rows: &[HistoryRow],
    number: EpochNumber,
    seen: &Direct,
) -> Result<ChangeAnswer, ApiError> {
    let missing = || ApiError::missing(format!("there is no change {number} in the history"));
    let row = rows.iter().find(|row| row.epoch == number).ok_or_else(missing)?;
    let in_force = seen.newest.as_ref().is_some_and(|newest| newest.epoch == number);
    Ok(ChangeAnswer { in_force, change: row.clone() })
}
