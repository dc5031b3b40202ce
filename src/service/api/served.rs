//! What tables give each job: the answer of `GET /v1/jobs`.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::against::{self, Against, Compared};
use super::answer::ApiError;
use super::picture::{before, jobs_of, stored};
use crate::measure::{Time, effective_loads, per_job, slowdowns};
use crate::model::{Demand, Group, Job, JobId, JobState, Mix, PlacedJob, Tables, Traffic};
use crate::observe::hostlist;
use crate::pass::baseline::Baseline;
use crate::pass::step::View;
use crate::publish::{Epoch, EpochNumber, EpochStore};
use crate::service::kind::direct::Gets;

/// The answer of `GET /v1/jobs?epoch=N&against=WHAT`. For the epoch in force, the jobs of the newest look; for
/// another, those it was made for.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct JobsAnswer {
    /// The epoch whose tables are measured; `None`: nothing is published.
    pub epoch: Option<EpochNumber>,
    /// When Slurm was asked.
    pub time: DateTime<Utc>,
    /// Slow-down of the jobs on several switches with the epoch's tables.
    pub now: Option<Time>,
    /// With the tables before.
    pub before: Option<Time>,
    /// With tables that know no jobs: of the engine that the settings name, or the best.
    pub baseline: Option<Baseline>,
    /// The tables that were chosen to compare with; left out where none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Compared>,
    /// Slow-down with those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Time>,
    /// By id.
    pub jobs: Vec<JobAnswer>,
}

/// A job, and what the tables give it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct JobAnswer {
    /// Slurm's id.
    pub id: JobId,
    /// Slurm's state.
    pub state: JobState,
    /// Its nodes, as a host list.
    pub nodes: String,
    /// How many they are.
    pub node_count: usize,
    /// Switches that its nodes are on.
    pub switches: usize,
    /// When it started.
    pub start: Option<DateTime<Utc>>,
    /// What it is taken to exchange.
    pub pattern: Mix,
    /// Who says so.
    pub pattern_from: SaidBy,
    /// With the epoch's tables; `None` under one switch.
    pub now: Option<Gets>,
    /// With the tables before.
    pub before: Option<Gets>,
    /// Its slow-down with these tables.
    pub baseline: Option<f64>,
    /// With the tables that were chosen to compare with; left out where none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Gets>,
}

/// Who says what a job exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SaidBy {
    /// The job itself.
    Job,
    /// A rule of the site.
    Rule,
    /// Nobody.
    Nobody,
}

impl SaidBy {
    /// What a job is taken to exchange, and who says so.
    pub(super) fn of(traffic: Option<Traffic>) -> (Mix, Self) {
        match traffic {
            Some(Traffic { mix, guessed: false }) => (mix, Self::Job),
            Some(Traffic { mix, guessed: true }) => (mix, Self::Rule),
            None => (Mix::default(), Self::Nobody),
        }
    }
}

/// What an epoch's tables give each job.
pub(super) fn served(
    store: &EpochStore,
    view: &View,
    number: Option<EpochNumber>,
    against: Option<Against>,
) -> Result<JobsAnswer, ApiError> {
    let epoch = number.map(|n| stored(store, n)).transpose()?;
    let previous = epoch.as_ref().and_then(|epoch| before(store, epoch));
    let jobs = epoch.as_ref().map_or_else(|| view.jobs.clone(), |epoch| jobs_of(view, epoch, store));
    let fabric = &view.fabric;
    let placed = view.nodes.place(&jobs).jobs;
    let multi: Vec<&PlacedJob> = placed.iter().filter(|job| job.ranks.is_multi_switch(fabric)).collect();
    let groups: Vec<Group> = multi.iter().map(|job| job.ranks.group()).collect();
    // By job: the components of a heterogeneous job get what the whole gets.
    let mut group_of = vec![None; jobs.jobs.len()];
    let mut patterns = vec![(Mix::default(), SaidBy::Nobody); jobs.jobs.len()];
    for job in &placed {
        let pattern = SaidBy::of(jobs.traffic(&job.parts));
        job.parts.iter().for_each(|i| patterns[*i] = pattern.clone());
    }
    for (g, job) in multi.iter().enumerate() {
        job.parts.iter().for_each(|i| group_of[*i] = Some(g));
    }
    let now = given_by(view, epoch.as_ref(), &groups)?;
    let before = given_by(view, previous.as_ref(), &groups).unwrap_or_else(|_| vec![None; groups.len()]);
    let baseline = Baseline::of(fabric, &groups, view.policy.baseline.as_deref(), view.policy.budget);
    let compared = epoch.as_ref().zip(against).map(|(epoch, against)| {
        let (told, tables) = against::tables(store, epoch, against, view, &groups)?;
        Ok::<_, ApiError>((told, given(view, &tables, &groups)))
    });
    let (against, beside) = compared.transpose()?.unzip();
    let answers =
        jobs.jobs.iter().zip(group_of).zip(patterns).map(|((job, group), (pattern, pattern_from))| {
            JobAnswer {
                id: job.id.clone(),
                state: job.state,
                nodes: hostlist::fold(&job.nodes),
                node_count: job.nodes.len(),
                switches: switches_of(view, job),
                start: job.start,
                pattern,
                pattern_from,
                now: group.and_then(|g: usize| now[g]),
                before: group.and_then(|g: usize| before[g]),
                baseline: group.and_then(|g: usize| Some(baseline.as_ref()?.slowdowns[g])),
                beside: group.and_then(|g: usize| beside.as_ref()?[g]),
            }
        });
    let answers = answers.collect();
    Ok(JobsAnswer {
        epoch: number,
        time: jobs.time,
        now: Time::of_known(now.iter().flatten().map(|gets| gets.slowdown)),
        before: Time::of_known(before.iter().flatten().map(|gets| gets.slowdown)),
        baseline,
        beside: beside.as_ref().and_then(|b| Time::of_known(b.iter().flatten().map(|gets| gets.slowdown))),
        against,
        jobs: answers,
    })
}

/// Switches that a job's nodes are on.
fn switches_of(view: &View, job: &Job) -> usize {
    let terminals = view.nodes.ranks(&job.nodes).terminals;
    let switches: BTreeSet<_> = terminals.iter().map(|t| view.fabric.terminal(*t).switch).collect();
    switches.len()
}

/// What an epoch's tables give each group; nothing without an epoch.
fn given_by(view: &View, epoch: Option<&Epoch>, groups: &[Group]) -> Result<Vec<Option<Gets>>, ApiError> {
    let Some(epoch) = epoch else { return Ok(vec![None; groups.len()]) };
    let tables = epoch.tables(&view.fabric).map_err(|e| ApiError::failed(&e))?;
    Ok(given(view, &tables, groups))
}

/// What tables give each group.
fn given(view: &View, tables: &Tables, groups: &[Group]) -> Vec<Option<Gets>> {
    let fabric = &view.fabric;
    let all = effective_loads(fabric, tables, groups);
    let figures = per_job(fabric, tables, groups);
    let busiest = |group: &Group| {
        let own = effective_loads(fabric, tables, std::slice::from_ref(group));
        own.iter().zip(&all).filter(|(own, _)| **own > 0).map(|(_, all)| *all).max().unwrap_or(0)
    };
    let demand = Demand { groups: groups.to_vec(), ..Demand::default() };
    let slowdowns = slowdowns(fabric, tables, &demand);
    let gets = groups.iter().zip(figures).zip(slowdowns);
    gets.map(|((group, own), slowdown)| Some(Gets { slowdown: Some(slowdown), own, busiest: busiest(group) }))
        .collect()
}
