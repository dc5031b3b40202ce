//! The batch system's answers: which jobs there are, and whose tables go.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tracing::{info, warn};

use super::{DirectKind, Done};
use crate::model::{JobId, JobMap, NodeName, Torus};
use crate::observe::source::{JobSource, PollError};
use crate::publish::job;
use crate::service::chain;
use crate::service::clock::{by_the_wall, steadily, steady};
use crate::service::health::{Failure, Stage};
use crate::service::run::{Service, delta};

impl Service<DirectKind> {
    /// Asks for the jobs of now, beside the loop.
    pub(super) fn poll(&mut self) {
        let now = Utc::now();
        self.kind.look = true;
        self.looked_at = steady();
        let next = self.looked_at + delta(self.settings.service.interval);
        self.kind.next_poll = self.health.serving.then_some(next);
        self.health.next_pass = self.kind.next_poll.map(by_the_wall);
        if let Some(batch) = self.kind.batch.take() {
            self.kind.polling.spawn(ask(batch, now));
        }
    }

    /// All is well unless the other half of a look was not.
    pub(super) fn well(&mut self) {
        if self.kind.jobs_well && self.kind.torus_well {
            self.health.succeeded(Utc::now());
        }
    }

    /// Removes the tables of jobs that are over though nobody said so.
    pub(super) fn polled(&mut self, jobs: Result<JobMap, PollError>) {
        let now = Utc::now();
        match jobs {
            Ok(jobs) => {
                let unknown =
                    self.kind.torus.as_ref().map(|torus| strangers(torus, &jobs)).unwrap_or_default();
                let unknown = self.beside.neighbours.nowhere(unknown);
                self.kind.chronicle.look(jobs.time, jobs.jobs.len(), unknown.len());
                self.health.note_unknown(now, unknown);
                self.kind.jobs = Some(Arc::new(jobs.clone()));
                let jobs = jobs.by_clock(steadily);
                self.waiting.handoff.forget(steady(), &jobs);
                let mut live: BTreeSet<JobId> = jobs.jobs.iter().map(|j| j.id.clone()).collect();
                live.extend(self.waiting.handoff.jobs().cloned());
                if !self.is_beside() {
                    self.remove_over(|id| !live.contains(id));
                }
                self.kind.bringing.again();
                self.bring(Vec::new());
                self.kind.jobs_well = true;
                self.well();
                self.decide_shared(&jobs);
            }
            Err(error) => {
                self.kind.jobs_well = false;
                self.decide_without_jobs();
                let message = chain(&error);
                warn!("{message}");
                self.health.failed(Failure { time: now, stage: Stage::Jobs, message });
            }
        }
        self.write_health();
    }

    /// Forgets these jobs, and removes what is on the disk of them.
    fn remove_over(&mut self, over: impl Fn(&JobId) -> bool) {
        self.forget(&over);
        let found = job::published(&self.jobs_root).unwrap_or_else(|e| {
            warn!("{}", chain(&e));
            Vec::new()
        });
        for id in found.into_iter().filter(over) {
            info!(job = %id, "its end was not announced: its tables are removed");
            self.warn_of(job::remove(&self.jobs_root, &id).err());
        }
    }
}

async fn ask(mut batch: Box<dyn JobSource>, now: DateTime<Utc>) -> Done {
    let jobs = batch.poll(now).await;
    Done::Polled(batch, jobs)
}

/// Nodes of jobs that the torus does not have.
fn strangers(torus: &Torus, jobs: &JobMap) -> Vec<NodeName> {
    let nodes = jobs.jobs.iter().flat_map(|job| &job.nodes);
    let unknown: BTreeSet<&NodeName> = nodes.filter(|name| torus.node_named(name).is_none()).collect();
    unknown.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Settings;
    use crate::observe::source::Poll;
    use crate::publish::EpochStore;
    use crate::service::kind::Kind;

    struct Panics;

    impl JobSource for Panics {
        fn poll(&mut self, _: DateTime<Utc>) -> Poll<'_> {
            panic!("a bug")
        }
    }

    #[test]
    fn a_source_of_jobs_that_panics_is_told_from_other_bugs_so_that_another_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let settings = "[fabric]\nsource = \"torus.toml\"\n";
        let settings = Settings::parse(settings, &dir.path().join("sarouter.toml")).unwrap();
        let store = EpochStore::open(dir.path()).unwrap();
        let ready = (String::from("4x4"), Box::new(Panics) as Box<dyn JobSource>);
        let mut kind = DirectKind::new(ready, &settings, &store, Path::new("jobs"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let batch = kind.batch.take().unwrap();
            kind.polling.spawn(ask(batch, Utc::now()));
            assert!(matches!(kind.finished().await, Done::PollAborted));
        });
    }
}
