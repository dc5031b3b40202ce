//! What looks, computations and acknowledgements came to, and where it is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tracing::{debug, error, info, info_span, warn};

use super::files::InForce;
use super::{Acknowledgement, SwitchedKind};
use crate::measure::Figures;
use crate::model::{Demand, JobId, JobMap, LidSet, NodeName};
use crate::observe::hostlist;
use crate::pass::plan::Reason;
use crate::pass::step::{Event, View};
use crate::pass::worth::Worth;
use crate::publish::{Hold, Snapshot, StoreError};
use crate::service::acknowledge::acknowledgement;
use crate::service::chain;
use crate::service::clock::{steadily, steady};
use crate::service::handoff::Outcome;
use crate::service::health::{Failure, NotWorth, Stage};
use crate::service::look::{LookError, Sight};
use crate::service::neighbours::Nodes;
use crate::service::pass::{EpochLine, PassError, Passed, event, milliseconds};
use crate::service::run::{Listener, Note, Service};

/// Why an epoch was made, and what it changed.
pub(super) type EpochFigures = (Reason, Option<Figures>, Figures);

impl Service<SwitchedKind> {
    pub(super) fn looked(&mut self, result: Result<Sight, LookError>, listener: Listener<'_>) -> Event {
        match result {
            Ok(sight) => {
                self.kind.deliveries.fabric = Some(Arc::clone(&sight.view.fabric));
                let nodes = Nodes::Switched(Arc::clone(&sight.view.nodes));
                self.beside.neighbours.seen(self.settings.name.as_ref(), nodes);
                if !sight.unknown_storage.is_empty() {
                    warn!(nodes = %hostlist::fold(&sight.unknown_storage), "storage nodes are not in the fabric");
                }
                self.notice_replaced();
                if self.is_held() {
                    // Whoever asks is told of the jobs and the fabric of now all the same.
                    self.kind.sight = Some(sight);
                    self.succeeded(Vec::new(), 0);
                    return Event::Held;
                }
                // Until all switches have the first of two steps, or OpenSM is known not to answer.
                let is_between = self.kind.halfway == Some(sight.view.fabric.fingerprint());
                if is_between && self.kind.acknowledging.is_some() {
                    self.kind.sight = Some(sight);
                    self.health.succeeded(Utc::now());
                    self.waiting.handoff.failed(steady());
                    return Event::Held;
                }
                // Who was announced before Slurm was asked is told by one clock.
                let JobMap { time, as_of, .. } = sight.view.jobs;
                let seen = View { jobs: sight.view.jobs.clone().by_clock(steadily), ..(*sight.view).clone() };
                let jobs = JobMap { time, as_of, ..self.waiting.handoff.merge(steady(), &seen) };
                let known = self.waiting.handoff.jobs().chain(jobs.jobs.iter().map(|j| &j.id));
                let known: BTreeSet<JobId> = known.cloned().collect();
                let mut view = View { jobs, ..(*sight.view).clone() };
                self.note_lids(&mut view, &known);
                view.policy.may_wait = self.goes_on && self.is_stranded_by_us();
                // Of an epoch before that, which switches do not have any more.
                let newest = self.kind.published.map(|(epoch, _)| epoch);
                let older = view.policy.in_switches.map(|found| found.epoch);
                view.policy.repair.take_if(|repair| {
                    newest.is_some_and(|newest| newest != repair.epoch) && older != Some(repair.epoch)
                });
                if !self.is_beside() {
                    self.kind.files.sweep(known, view.jobs.known_at());
                }
                let view = Arc::new(view);
                self.kind.sight = Some(Sight { view: Arc::clone(&view), ..sight });
                Event::Seen(view)
            }
            Err(error) => {
                // What is told of a hold does not hang on the batch system.
                self.is_held();
                self.failed(error.stage(), &error, listener);
                Event::LookFailed
            }
        }
    }

    /// Forgets what is in force if an administrator chose another epoch, or it is gone: the next pass finds out.
    fn notice_replaced(&mut self) {
        self.confirm();
        if !self.waiting.handoff.take_replaced() {
            return;
        }
        info!(epoch = self.kind.published.map(|(epoch, _)| epoch), "the epoch was replaced by hand");
        self.step(steady(), Event::Replaced);
        self.kind.in_force = None;
        self.kind.published = None;
        self.kind.halfway = None;
        self.kind.acknowledging = None;
        self.health.waits_for_opensm = None;
        self.health.unacknowledged = None;
    }

    /// Says which of a port's two LIDs running jobs use.
    fn note_lids(&mut self, view: &mut View, known: &BTreeSet<JobId>) {
        if view.policy.lids_in_use.is_none() {
            return;
        }
        let (asked, handoff) = (view.jobs.known_at(), &self.waiting.handoff);
        let mut in_use = self.kind.lids.in_use(view, known, asked, |job| handoff.is_starting(job));
        // What is in force is not known yet, so that jobs that start now are told nothing.
        in_use[LidSet::Base.offset()] |=
            self.kind.in_force.is_none() && self.store.current().is_ok_and(|c| c.is_some());
        view.policy.lids_in_use = Some(in_use);
    }

    /// Whether an administrator holds what is in force.
    pub(super) fn is_held(&mut self) -> bool {
        let found = self.store.hold();
        self.is_held_by(found)
    }

    fn is_held_by(&mut self, found: Result<Option<Hold>, StoreError>) -> bool {
        let is_held = self.found_hold(found);
        // One that cannot be read lets nobody go: it may be over soon.
        self.waiting.handoff.hold(steady(), self.health.held.is_some());
        is_held
    }

    pub(super) fn routed(&mut self, result: Result<Passed, PassError>, listener: Listener<'_>) -> Event {
        self.kind.lids.settled();
        match (result, &self.kind.sight) {
            (Ok(passed), Some(sight)) => {
                let sight_view = Arc::clone(&sight.view);
                for warning in &passed.warnings {
                    warn!("{warning}");
                }
                self.health.waits_for_lid = passed.waits_for_lid;
                let found = passed.in_force.filter(|_| passed.epoch.is_none());
                let is_new = passed.epoch.is_some();
                let is_halfway = passed.epoch.as_ref().is_some_and(|epoch| epoch.halfway);
                self.kind.halfway = is_halfway.then(|| sight_view.fabric.fingerprint());
                self.kind.made = passed.made;
                self.kind.remembered = passed.remembered.or(self.kind.remembered.take());
                if let Some(mut line) = passed.epoch {
                    line.ask_ms = milliseconds(sight.asking);
                    line.parse_ms = milliseconds(sight.parsing);
                    self.published(line, listener);
                } else if found.is_some() && found != self.kind.published {
                    // Of an earlier process, or put in force by hand.
                    self.kind.published = found;
                    self.await_acknowledgement();
                }
                if let Some(worth) = passed.not_worth {
                    self.not_worth(worth, sight_view.jobs.time);
                }
                if let Some(((epoch, _), tables)) = self.kind.published.zip(passed.tables) {
                    let view = &sight_view;
                    let (fabric, nodes) = (Arc::clone(&view.fabric), Arc::clone(&view.nodes));
                    let (budget, layer_per_job) = (view.policy.budget, view.policy.layer_per_job);
                    let demand = Arc::new(passed.demand.clone());
                    let lids = passed.lids;
                    let in_force =
                        InForce { epoch, fabric, nodes, tables, lids, budget, layer_per_job, demand };
                    self.kind.in_force = Some(Arc::new(in_force));
                }
                self.let_go((is_new, passed.waits_for_lid, passed.not_worth), &passed.demand, &passed.served);
                self.succeeded(passed.unknown_nodes, passed.waiting);
                event(is_halfway, passed.demand, passed.not_worth, &sight_view)
            }
            (Err(PassError::Held(hold)), _) => {
                self.is_held_by(Ok(Some(hold)));
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

    /// Tells the jobs that wait what a pass means for them.
    fn let_go(
        &mut self,
        (is_new, waits_for_lid, not_worth): (bool, bool, Option<Worth>),
        demand: &Demand,
        served: &Demand,
    ) {
        let Some((epoch, _)) = self.kind.published else { return };
        let watched = self.settings.opensm.is_some();
        let handoff = &mut self.waiting.handoff;
        match not_worth {
            _ if is_new => handoff.published(steady(), epoch, demand, watched),
            _ if waits_for_lid => {
                debug!("other routes wait until the jobs of one LID have ended");
                handoff.not_worth(steady(), epoch, served, Outcome::NextPass);
            }
            None => handoff.found(steady(), epoch, demand, watched),
            Some(worth) => {
                let soon = worth.not_before.is_some();
                let why = if soon { Outcome::NextPass } else { Outcome::GoodEnough };
                handoff.not_worth(steady(), epoch, served, why);
            }
        }
    }

    /// Jobs get no routes of their own: says so, and looks again when the pause is over.
    fn not_worth(&mut self, worth: Worth, time: DateTime<Utc>) {
        if let Some(not_before) = worth.not_before {
            debug!(%not_before, "too soon after the last change");
            return self.kind.step.look_by(steadily(not_before));
        }
        let Worth { gain, at_most, price, slowdown, slowdown_after, .. } = worth;
        info!(gain, at_most, price, slowdown, slowdown_after, "other routes are not worth the change");
        self.health.not_worth = Some(NotWorth { time, worth });
        self.health.not_worth_count += 1;
    }

    pub(super) fn published(&mut self, line: EpochLine, listener: Listener<'_>) {
        let _span = info_span!("epoch", number = line.epoch).entered();
        info!(reason = line.reason.words(), jobs = line.jobs, multi_switch = line.multi_switch, "published");
        if let Some(difference) = &line.difference {
            info!("the fabric has changed: {difference}");
        }
        self.health.published += 1;
        self.health.epoch = Some(line.epoch);
        self.health.acknowledged = None;
        self.health.unacknowledged = None;
        if self.settings.opensm.is_some() {
            self.health.unanswered_since.get_or_insert(line.time);
        }
        self.kind.published = Some((line.epoch, line.time));
        self.kind.figures = Some((line.reason, line.before, line.after));
        listener(&Note::Epoch(Box::new(line)));
        self.await_acknowledgement();
    }

    /// Begins to wait for OpenSM; gives up waiting for an earlier epoch.
    pub(super) fn await_acknowledgement(&mut self) {
        if let (Some(opensm), Some((epoch, renamed))) = (&self.settings.opensm, self.kind.published) {
            let is_halfway = self.kind.halfway.is_some();
            self.health.waits_for_opensm = Some(renamed);
            self.kind.acknowledging =
                Some(Box::pin(acknowledgement(opensm.clone(), epoch, renamed, is_halfway)));
        }
    }

    pub(super) fn answered(&mut self, answer: Acknowledgement, listener: Listener<'_>) {
        match answer {
            Ok(acknowledged) => {
                info!(
                    epoch = acknowledged.epoch,
                    ms = acknowledged.milliseconds,
                    "OpenSM has the epoch in force"
                );
                self.health.acknowledged = Some(acknowledged);
                self.health.waits_for_opensm = None;
                self.health.unanswered_since = None;
                self.health.unacknowledged = None;
                self.waiting.handoff.acknowledged(steady(), acknowledged.epoch);
                if self.kind.halfway.is_some() {
                    self.kind.step.look_by(steady());
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
                // Whoever waits for the second of two steps waits no longer.
                if self.kind.halfway.is_some() {
                    self.kind.step.look_by(steady());
                } else if self.waiting.handoff.awaits_acknowledgement() {
                    self.await_acknowledgement();
                }
            }
        }
        self.write_health();
    }

    pub(super) fn succeeded(&mut self, unknown_nodes: Vec<NodeName>, waiting: usize) {
        self.health.note_unknown(Utc::now(), self.beside.neighbours.nowhere(unknown_nodes));
        self.health.note_parted(Utc::now(), &self.waiting.handoff.parted());
        self.health.waiting_jobs = waiting;
        match self.kind.sight.as_ref().and_then(|sight| sight.jobs_failed.clone()) {
            None => self.health.succeeded(Utc::now()),
            Some(message) => {
                error!(target: "sarouter::failed", stage = Stage::Jobs.name(), "{message}");
                self.health.failed(Failure { time: Utc::now(), stage: Stage::Jobs, message });
            }
        }
        self.remember();
        self.kind.deliveries.begin(&self.settings, &self.store);
        if self.health.unacknowledged.is_some() && self.kind.acknowledging.is_none() {
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
        self.waiting.handoff.pass_failed(steady());
        listener(&Note::Failed(failure));
    }

    /// Writes a look into the history, beside the loop. While the disk is slow, looks are left
    /// out: nothing waits for it, and nothing piles up.
    pub(super) fn remember(&mut self) {
        let busy = self.kind.remembering.as_ref().is_some_and(|task| !task.is_finished());
        let Some(sight) = self.kind.sight.as_ref().filter(|_| !busy) else { return };
        let snapshot = Snapshot {
            time: sight.view.jobs.time,
            jobs: sight.view.jobs.jobs.len(),
            waiting: self.health.waiting_jobs,
            unknown_nodes: self.health.unknown_nodes.len(),
            epoch: self.store.current().ok().flatten(),
        };
        let (figures, store, keep) =
            (self.kind.figures.take(), self.store.clone(), self.settings.history.keep);
        self.kind.remembering = Some(tokio::task::spawn_blocking(move || {
            let reason =
                figures.as_ref().map(|(reason, ..)| serde_json::to_value(reason).unwrap_or_default());
            let reason = reason.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
            let made = figures.as_ref().zip(snapshot.epoch);
            let made = made.map(|((_, before, after), epoch)| (epoch, reason, before.as_ref(), after));
            if let Err(error) = store.remember(&snapshot, made, keep) {
                // An index for people; the epochs are what counts.
                debug!(%error, "the history was not written");
            }
        }));
    }
}
