//! What wakes the loop, and what it then does.

use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use tracing::debug;

use super::{Listener, Service, Woken, delta};
use crate::model::LidSet;
use crate::pass::step::{Action, Event};
use crate::service::clock::{by_the_wall, steady};
use crate::service::command::{Command, Seen};
use crate::service::handoff::{Outcome, Released};
use crate::service::health::Health;
use crate::service::pass::{PassError, pass};

/// Between two looks that somebody wants.
const AGAIN: TimeDelta = TimeDelta::seconds(1);

/// The health file is not written more often for what prologs say.
const SELDOM: TimeDelta = TimeDelta::seconds(1);

impl Service {
    pub(super) fn handle(&mut self, woken: Woken, listener: Listener<'_>) {
        self.handle_one(woken, listener);
        let now = steady();
        self.waiting.handoff.tick(now);
        if self.step.due().is_some() && self.waiting.handoff.wants_look(now) {
            let action = self.step(now, Event::Asked);
            self.act(action);
        }
        for (released, replies) in self.waiting.let_go() {
            let lids = self.lids_for(&released);
            self.files.start(released.start, released.outcome, self.in_force.clone(), lids, replies);
        }
        let told = self.health.handoff.announced + self.health.handoff.ended;
        let counters = self.waiting.handoff.counters();
        if counters.announced + counters.ended != told && (Utc::now() - self.health.time).abs() > SELDOM {
            self.write_health();
        }
    }

    fn handle_one(&mut self, woken: Woken, listener: Listener<'_>) {
        let mut fresh_in = None;
        let event = match woken {
            Woken::Stop(_) | Woken::Alive => return,
            Woken::Event(event) => {
                // Where nobody tells of changes.
                if matches!(event, Event::Tick) && self.is_config_other() {
                    self.reload(listener);
                }
                event
            }
            Woken::Changed(changed) => {
                let reloaded = changed.settings && self.reload(listener);
                match reloaded || changed.files {
                    true => match self.look_soon() {
                        Some(event) => event,
                        None => return,
                    },
                    false => return,
                }
            }
            Woken::Answered(answer) => return self.answered(answer, listener),
            Woken::Delivered(delivered) => return self.delivered(delivered),
            Woken::Command(command) => match self.command(command) {
                Some(event) => event,
                None => return,
            },
            Woken::Looked(looked) => {
                self.looker = Some(self.next_looker.take().unwrap_or(looked.0));
                fresh_in = looked.1.as_ref().ok().and_then(|sight| sight.fresh_in);
                self.looked(looked.1, listener)
            }
            Woken::Routed(result) => self.routed(*result, listener),
        };
        let now = steady();
        let action = self.step(now, event);
        if let Some(fresh_in) = fresh_in {
            self.step.look_by(now + delta(fresh_in));
        }
        self.act(action);
        if let Some(due) = self.step.due() {
            self.health.next_pass = Some(by_the_wall(due));
            self.write_health();
        }
    }

    /// A look because somebody wants one: at once, unless the last one began just now. However often
    /// it is wanted, Slurm is asked once in [`AGAIN`].
    fn look_soon(&mut self) -> Option<Event> {
        let (now, soonest) = (steady(), self.looked_at + AGAIN);
        if now >= soonest {
            return Some(Event::Asked);
        }
        self.step.look_by(soonest.min(now + AGAIN));
        None
    }

    /// Answers a command; the event that it is, if it is one.
    fn command(&mut self, command: Command) -> Option<Event> {
        // Whoever does not wait for the answer any more does not get it.
        match command {
            Command::Health(reply) => {
                self.look_around();
                let handoff = self.waiting.handoff.counters();
                let _ = reply.send(Health { handoff, ..self.health.clone() });
            }
            Command::Seen(reply) => {
                let view = self.sight.as_ref().map(|sight| Arc::clone(&sight.view));
                let _ = reply.send(view.map(Seen::Switched));
            }
            Command::Start(said, reply) => {
                self.waiting.announce(steady(), said.guessing(&self.settings.traffic), reply);
            }
            Command::End(job, reply) => {
                self.waiting.ended(steady(), &job);
                self.lids.ended(&job);
                self.files.end(job);
                let _ = reply.send(());
            }
            Command::Look(reply) => {
                let _ = reply.send(());
                return self.look_soon();
            }
        }
        None
    }

    /// Which LIDs a job is to use that starts, where a port's two have routes of their own.
    fn lids_for(&mut self, released: &Released) -> Option<LidSet> {
        let starts = !matches!(released.outcome, Outcome::Gone | Outcome::Superseded);
        let in_force = self.in_force.as_ref().filter(|_| starts && self.settings.split_lids)?;
        let fresh = in_force.lids.as_ref().map(|lids| lids.fresh);
        let acknowledged = self.health.acknowledged.is_some_and(|a| a.epoch == in_force.epoch);
        Some(self.lids.tell(&released.start.job, fresh, acknowledged || self.settings.opensm.is_none()))
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Wait => {}
            Action::Look => {
                if let Some(mut looker) = self.looker.take() {
                    self.looked_at = steady();
                    self.looking = Some(Box::pin(async move {
                        let result = looker.look(Utc::now()).await;
                        (looker, result)
                    }));
                }
            }
            Action::Keep(wanted) => {
                debug!(waiting = wanted.waiting, "nothing changed");
                self.succeeded(wanted.unknown_nodes, wanted.waiting);
                self.waiting.handoff.kept(steady());
            }
            Action::Refrain(_) => {
                debug!("the same failed not long ago");
                self.waiting.handoff.failed(steady());
            }
            Action::Route(view) => {
                self.lids.begun(view.policy.lids_in_use);
                let (store, keep) = (self.store.clone(), self.settings.state.keep_epochs);
                let route = tokio::task::spawn_blocking(move || pass(&store, keep, &view));
                self.routing = Some(Box::pin(async move {
                    route.await.unwrap_or_else(|error| Err(PassError::Aborted(error.to_string())))
                }));
            }
        }
    }
}
