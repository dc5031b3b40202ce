//! The batch system's answers: which jobs there are, and whose tables go.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::Utc;
use tracing::{info, warn};

use super::TorusService;
use crate::model::{JobId, JobMap, NodeName, Torus};
use crate::observe::slurm::PollError;
use crate::publish::job;
use crate::service::chain;
use crate::service::clock::{by_the_wall, steadily, steady};
use crate::service::health::{Failure, Stage};
use crate::service::run::delta;

impl TorusService {
    /// Asks for the jobs of now, beside the loop.
    pub(super) fn poll(&mut self) {
        let now = Utc::now();
        self.look = true;
        self.next_poll = steady() + delta(self.settings.service.interval);
        self.health.next_pass = Some(by_the_wall(self.next_poll));
        if let Some(mut batch) = self.batch.take() {
            self.polling.spawn(async move {
                let jobs = batch.poll(now).await;
                (batch, jobs)
            });
        }
    }

    /// All is well unless the other half of a look was not.
    pub(super) fn well(&mut self) {
        if self.jobs_well && self.torus_well {
            self.health.succeeded(Utc::now());
        }
    }

    /// Removes the tables of jobs that are over though nobody said so.
    pub(super) fn polled(&mut self, jobs: Result<JobMap, PollError>) {
        let now = Utc::now();
        match jobs {
            Ok(jobs) => {
                let unknown = self.torus.as_ref().map(|torus| strangers(torus, &jobs)).unwrap_or_default();
                self.chronicle.look(jobs.time, jobs.jobs.len(), unknown.len());
                self.health.note_unknown(now, unknown);
                self.jobs = Some(Arc::new(jobs.clone()));
                let jobs = JobMap { time: steadily(jobs.time), ..jobs };
                self.waiting.handoff.forget(steady(), &jobs);
                let mut live: BTreeSet<JobId> = jobs.jobs.into_iter().map(|j| j.id).collect();
                live.extend(self.waiting.handoff.jobs().cloned());
                let gone = |found: Vec<JobId>| found.into_iter().filter(|id| !live.contains(id)).collect();
                self.forget(|id| !live.contains(id));
                let orphans = job::published(&self.jobs_root).map(gone).unwrap_or_else(|e| {
                    warn!("{}", chain(&e));
                    Vec::new()
                });
                for id in orphans {
                    info!(job = %id, "its end was not announced: its tables are removed");
                    self.warn_of(job::remove(&self.jobs_root, &id).err());
                }
                self.jobs_well = true;
                self.well();
            }
            Err(error) => {
                self.jobs_well = false;
                let message = chain(&error);
                warn!("{message}");
                self.health.failed(Failure { time: now, stage: Stage::Jobs, message });
            }
        }
        self.write_health();
    }
}

/// Nodes of jobs that the torus does not have.
fn strangers(torus: &Torus, jobs: &JobMap) -> Vec<NodeName> {
    let nodes = jobs.jobs.iter().flat_map(|job| &job.nodes);
    let unknown: BTreeSet<&NodeName> = nodes.filter(|name| torus.node_named(name).is_none()).collect();
    unknown.into_iter().cloned().collect()
}
