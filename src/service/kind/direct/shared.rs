//! Jobs that share a node. It has one table, so that of the job that was there first stays, and the other job starts
//! without tables.
//!
//! The end of the first job may not have been announced: the batch system is asked whether it is still there. While
//! that does not answer, it is taken to be over.
//!
//! Components of a heterogeneous job are asked for in the same way: each gets tables for the nodes of all.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::DirectKind;
use crate::model::{Job, JobId, JobMap, NodeName};
use crate::service::clock::steady;
use crate::service::handoff::{HandOff, StartId};
use crate::service::run::Service;

/// How long a start waits for the batch system.
const PATIENCE: TimeDelta = TimeDelta::seconds(3);

/// Starts on nodes that other jobs had, or of components, and since when they wait, by [`steady`].
#[derive(Default)]
pub(super) struct Doubtful(Vec<(DateTime<Utc>, StartId)>);

impl Doubtful {
    /// When one has waited for long enough.
    pub(super) fn due(&self) -> Option<DateTime<Utc>> {
        self.0.iter().map(|(since, _)| *since + PATIENCE).min()
    }
}

impl DirectKind {
    /// Takes up starts that nobody has begun to serve. Whether the batch system is to be asked of one of them.
    pub(super) fn take_up(&mut self, new: Vec<StartId>, handoff: &HandOff) -> bool {
        let (shared, own): (Vec<_>, Vec<_>) = new.into_iter().partition(|start| {
            start.is_component || handoff.shares_nodes(start) || self.is_on_running(start)
        });
        self.starts.extend(own);
        let asks = !shared.is_empty();
        self.doubtful.0.extend(shared.into_iter().map(|start| (steady(), start)));
        asks
    }

    /// Serves whoever has waited for the batch system for long enough, and forgets who waits no more.
    pub(super) fn wait_no_longer(&mut self, handoff: &HandOff) {
        self.doubtful.0.retain(|(_, start)| handoff.is_waiting(start));
        let now = steady();
        self.serve(|since| *since + PATIENCE <= now);
    }

    fn serve(&mut self, which: impl Fn(&DateTime<Utc>) -> bool) {
        let (served, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.doubtful.0).into_iter().partition(|(since, _)| which(since));
        self.doubtful.0 = left;
        self.starts.extend(served.into_iter().map(|(_, start)| start));
    }

    /// Whether a start is on a node of a job that has tables.
    fn is_on_running(&self, start: &StartId) -> bool {
        let Some(torus) = &self.torus else { return false };
        let nodes: BTreeSet<_> = start.nodes.iter().filter_map(|name| torus.node_named(name)).collect();
        let others = self.running.iter().filter(|(id, _)| **id != start.job);
        others.flat_map(|(_, job)| job.nodes()).any(|node| nodes.contains(node))
    }

    /// The first job of these that is on a node of the torus with a start, and on which. `counts` says whose tables
    /// count.
    fn shares(
        &self,
        start: &StartId,
        jobs: &JobMap,
        counts: impl Fn(&JobId) -> bool,
    ) -> Option<(JobId, NodeName)> {
        let torus = self.torus.as_ref()?;
        let here = start.nodes.iter().filter(|node| torus.node_named(node).is_some());
        let nodes: BTreeSet<&NodeName> = here.collect();
        let mut others = jobs.jobs.iter().filter(|job| job.id != start.job && counts(&job.id));
        let shared = |node: &&NodeName| nodes.contains(*node);
        let found = |job: &Job| Some((job.id.clone(), job.nodes.iter().find(shared)?.clone()));
        others.find_map(found)
    }
}

impl Service<DirectKind> {
    /// The batch system has answered: who is on a node with a job that came first has no tables.
    pub(super) fn decide_shared(&mut self, jobs: &JobMap) {
        let (asked, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.kind.doubtful.0).into_iter().partition(|(since, _)| *since <= jobs.time);
        let mut later: BTreeSet<JobId> = asked.iter().chain(&left).map(|(_, s)| s.job.clone()).collect();
        self.kind.doubtful.0 = left;
        for (since, start) in asked {
            later.remove(&start.job);
            let (running, handoff) = (&self.kind.running, &self.waiting.handoff);
            let counts =
                |id: &JobId| running.contains_key(id) || (handoff.is_starting(id) && !later.contains(id));
            // An answer of before says nothing of now.
            let shared = (since <= jobs.known_at()).then(|| self.kind.shares(&start, jobs, counts)).flatten();
            match shared {
                Some((id, node)) => {
                    let why = format!(
                        "node {node} has the table of job {id}, which is still there: jobs must not share nodes \
                         (OverSubscribe=EXCLUSIVE)"
                    );
                    self.unrouted(&start, &why);
                }
                None => self.kind.starts.push(start),
            }
        }
        if !self.kind.doubtful.0.is_empty() {
            self.look_soon();
        }
    }

    /// The batch system does not answer.
    pub(super) fn decide_without_jobs(&mut self) {
        self.kind.serve(|_| true);
    }
}
