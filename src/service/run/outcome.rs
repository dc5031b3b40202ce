//! What looks, computations and acknowledgements came to, and where it is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tracing::{debug, error, info, info_span, warn};

use super::files::InForce;
use super::waiting::look_at_hold;
use super::{Answer, Listener, Note, Service};
use crate::model::{JobId, JobMap, LidSet, NodeName};
use crate::pass::step::{Event, View};
use crate::pass::worth::Worth;
use crate::service::acknowledge::acknowledgement;
use crate::service::chain;
use crate::service::clock::{steadily, steady};
use crate::service::handoff::Outcome;
use crate::service::health::{Failure, NotWorth, Stage};
use crate::service::look::{LookError, Sight};
use crate::service::pass::{EpochLine, PassError, Passed, milliseconds};

impl Service {
    pub(super) fn looked(&mut self, result: Result<Sight, LookError>, listener: Listener<'_>) -> Event {
        match result {
            Ok(sight) => {
                self.delivery.fabric = Some(Arc::clone(&sight.view.fabric));
                self.neighbours.seen(self.settings.name.as_ref(), &sight.view.nodes);
                if !sight.unknown_storage.is_empty() {
                    warn!(nodes = ?sight.unknown_storage, "storage nodes are not in the fabric");
                }
                if self.is_held() {
                    self.succeeded(Vec::new(), 0);
                    return Event::Held;
                }
                // Until all switches have the first of two steps, or OpenSM is known not to answer.
                let is_between = self.halfway == Some(sight.view.fabric.fingerprint());
                if is_between && self.acknowledging.is_some() {
                    self.health.succeeded(Utc::now());
                    self.waiting.handoff.failed(steady());
                    return Event::Held;
                }
                // Who was announced before Slurm was asked is told by one clock.
                let asked = sight.view.jobs.time;
                let jobs = JobMap { time: steadily(asked), ..sight.view.jobs.clone() };
                let seen = View { jobs, ..(*sight.view).clone() };
                let jobs = JobMap { time: asked, ..self.waiting.handoff.merge(steady(), &seen) };
                let known = self.waiting.handoff.jobs().chain(jobs.jobs.iter().map(|j| &j.id));
                let known: BTreeSet<JobId> = known.cloned().collect();
                let mut view = View { jobs, ..(*sight.view).clone() };
                self.note_lids(&mut view, &known);
                self.files.sweep(known, view.jobs.time);
                let view = Arc::new(view);
                self.sight = Some(Sight { view: Arc::clone(&view), ..sight });
                Event::Seen(view)
            }
            Err(error) => {
                self.failed(error.stage(), &error, listener);
                Event::LookFailed
            }
        }
    }

    /// Says which of a port's two LIDs running jobs use.
    fn note_lids(&mut self, view: &mut View, known: &BTreeSet<JobId>) {
        if view.policy.lids_in_use.is_none() {
            return;
        }
        let (asked, handoff) = (view.jobs.time, &self.waiting.handoff);
        let mut in_use = self.lids.in_use(view, known, asked, |job| handoff.is_starting(job));
        // What is in force is not known yet, so that jobs that start now are told nothing.
        in_use[LidSet::Base.offset()] |=
            self.in_force.is_none() && self.store.current().is_ok_and(|c| c.is_some());
        view.policy.lids_in_use = Some(in_use);
    }

    /// See [`look_at_hold`].
    pub(super) fn is_held(&mut self) -> bool {
        let is_held = look_at_hold(&self.store, &mut self.health);
        // One that cannot be read lets nobody go: it may be over soon.
        self.waiting.handoff.hold(steady(), self.health.held.is_some());
        is_held
    }

    pub(super) fn routed(&mut self, result: Result<Passed, PassError>, listener: Listener<'_>) -> Event {
        self.lids.settled();
        match (result, &self.sight) {
            (Ok(passed), Some(sight)) => {
                let sight_view = Arc::clone(&sight.view);
                for warning in &passed.warnings {
                    warn!("{warning}");
                }
                self.health.waits_for_lid = passed.waits_for_lid;
                let found = passed.in_force.filter(|_| passed.epoch.is_none());
                let is_new = passed.epoch.is_some();
                let is_halfway = passed.epoch.as_ref().is_some_and(|epoch| epoch.halfway);
                self.halfway = is_halfway.then(|| sight_view.fabric.fingerprint());
                self.made = passed.made;
                if let Some(mut line) = passed.epoch {
                    line.ask_ms = milliseconds(sight.asking);
                    line.parse_ms = milliseconds(sight.parsing);
                    self.published(line, listener);
                } else if found.is_some() && found != self.published {
                    // Of an earlier process, or put in force by hand.
                    self.published = found;
                    self.await_acknowledgement();
                }
                if let Some(worth) = passed.not_worth {
                    self.not_worth(worth, sight_view.jobs.time);
                }
                if let Some(((epoch, _), tables)) = self.published.zip(passed.tables) {
                    let view = &sight_view;
                    let (fabric, nodes) = (Arc::clone(&view.fabric), Arc::clone(&view.nodes));
                    let (budget, layer_per_job) = (view.policy.budget, view.policy.layer_per_job);
                    let demand = Arc::new(passed.demand.clone());
                    let lids = passed.lids;
                    let in_force =
                        InForce { epoch, fabric, nodes, tables, lids, budget, layer_per_job, demand };
                    self.in_force = Some(Arc::new(in_force));
                }
                if let Some((epoch, _)) = self.published {
                    let watched = self.settings.opensm.is_some();
                    let handoff = &mut self.waiting.handoff;
                    match passed.not_worth {
                        _ if is_new => handoff.published(steady(), epoch, &passed.demand, watched),
                        _ if passed.waits_for_lid => {
                            debug!("other routes wait until the jobs of one LID have ended");
                            handoff.not_worth(steady(), epoch, &passed.served, Outcome::NextPass);
                        }
                        None => handoff.found(steady(), epoch, &passed.demand, watched),
                        Some(worth) => {
                            let soon = worth.not_before.is_some();
                            let why = if soon { Outcome::NextPass } else { Outcome::GoodEnough };
                            handoff.not_worth(steady(), epoch, &passed.served, why);
                        }
                    }
                }
                self.succeeded(passed.unknown_nodes, passed.waiting);
                match is_halfway {
                    true => Event::Halfway,
                    false => Event::InForce(sight_view.fabric.fingerprint(), passed.demand),
                }
            }
            (Err(PassError::Held(_)), _) => {
                self.is_held();
                Event::Held
            }
            (Err(error), _) => {
                self.failed(error.stage(), &error, listener);
                // Somebody else may hold the store's lock for a moment: no fault of the demand.
                if matches!(error, PassError::Store(_)) { Event::LookFailed } else { Event::RouteFailed }
            }
            // Nothing is routed that was not seen.
            (Ok(_), None) => Event::RouteFailed,
        }
    }

    /// Jobs get no routes of their own: says so, and looks again when the pause is over.
    fn not_worth(&mut self, worth: Worth, time: DateTime<Utc>) {
        if let Some(not_before) = worth.not_before {
            debug!(%not_before, "too soon after the last change");
            return self.step.look_by(steadily(not_before));
        }
        let Worth { gain, at_most, price, slowdown, slowdown_after, .. } = worth;
        info!(gain, at_most, price, slowdown, slowdown_after, "other routes are not worth the change");
        self.health.not_worth = Some(NotWorth { time, worth });
        self.health.not_worth_count += 1;
    }

    pub(super) fn published(&mut self, line: EpochLine, listener: Listener<'_>) {
        let _span = info_span!("epoch", number = line.epoch).entered();
        info!(reason = ?line.reason, jobs = line.jobs, multi_switch = line.multi_switch, "published");
        self.health.published += 1;
        self.health.epoch = Some(line.epoch);
        self.health.acknowledged = None;
        self.health.unacknowledged = None;
        if self.settings.opensm.is_some() {
            self.health.unanswered_since.get_or_insert(line.time);
        }
        self.published = Some((line.epoch, line.time));
        self.figures = Some((line.reason, line.before, line.after));
        listener(&Note::Epoch(Box::new(line)));
        self.await_acknowledgement();
    }

    /// Begins to wait for OpenSM; gives up waiting for an earlier epoch.
    pub(super) fn await_acknowledgement(&mut self) {
        if let (Some(opensm), Some((epoch, renamed))) = (&self.settings.opensm, self.published) {
            self.acknowledging = Some(Box::pin(acknowledgement(opensm.clone(), epoch, renamed)));
        }
    }

    pub(super) fn answered(&mut self, answer: Answer, listener: Listener<'_>) {
        match answer {
            Ok(acknowledged) => {
                info!(
                    epoch = acknowledged.epoch,
                    ms = acknowledged.milliseconds,
                    "OpenSM has the epoch in force"
                );
                self.health.acknowledged = Some(acknowledged);
                self.health.unanswered_since = None;
                self.health.unacknowledged = None;
                self.waiting.handoff.acknowledged(steady(), acknowledged.epoch);
                if self.halfway.is_some() {
                    self.step.look_by(steady());
                }
                listener(&Note::Acknowledged(acknowledged));
            }
            Err(failure) => {
                // Said once, tried again at each pass.
                if self.health.unacknowledged.is_none() {
                    error!(target: "sarouter::failed", "{}", failure.message);
                    *self.health.failures.entry(failure.stage).or_default() += 1;
                    listener(&Note::Failed(failure.clone()));
                }
                self.health.unacknowledged = Some(failure);
                if self.waiting.handoff.awaits_acknowledgement() {
                    self.await_acknowledgement();
                }
            }
        }
        self.write_health();
    }

    pub(super) fn succeeded(&mut self, unknown_nodes: Vec<NodeName>, waiting: usize) {
        self.health.note_unknown(Utc::now(), self.neighbours.nowhere(unknown_nodes));
        self.health.waiting_jobs = waiting;
        match self.sight.as_ref().and_then(|sight| sight.jobs_failed.clone()) {
            None => self.health.succeeded(Utc::now()),
            Some(message) => {
                error!(target: "sarouter::failed", stage = Stage::Jobs.name(), "{message}");
                self.health.failed(Failure { time: Utc::now(), stage: Stage::Jobs, message });
            }
        }
        self.remember();
        self.deliver();
        if self.health.unacknowledged.is_some() && self.acknowledging.is_none() {
            self.await_acknowledgement();
        }
    }

    pub(super) fn failed(
        &mut self,
        stage: Stage,
        error: &(dyn std::error::Error + 'static),
        listener: Listener<'_>,
    ) {
        let message = chain(error);
        error!(target: "sarouter::failed", stage = stage.name(), "{message}");
        let failure = Failure { time: Utc::now(), stage, message };
        self.health.failed(failure.clone());
        self.waiting.handoff.failed(steady());
        listener(&Note::Failed(failure));
    }

    pub(super) fn write_health(&mut self) {
        self.health.time = Utc::now();
        self.look_around();
        self.teller.tell(&self.health);
        self.health.handoff = self.waiting.handoff.counters();
        self.systemd.status(self.health.line(self.health.time));
        if let Err(error) = self.health.write(&self.settings.state.directory) {
            warn!("{error}");
        }
    }
}
