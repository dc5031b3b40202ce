//! What a switched fabric's service does with events.

use chrono::{DateTime, Utc};
use tracing::debug;

use super::SwitchedKind;
use crate::model::LidSet;
use crate::pass::step::{Action, Event};
use crate::service::clock::{by_the_wall, steady};
use crate::service::handoff::{Outcome, Released};
use crate::service::look::{LookError, Looker, Sight};
use crate::service::pass::{PassError, pass};
use crate::service::run::{Listener, Service, delta};

impl Service<SwitchedKind> {
    /// Lets an event change what is known, and does what follows.
    pub(super) fn event(&mut self, event: Event) {
        let action = self.step(steady(), event);
        self.follow_up(action);
    }

    /// Records an event, then lets it change what is known.
    pub(super) fn step(&mut self, now: DateTime<Utc>, event: Event) -> Action {
        let made = self.kind.made.take();
        if self.may_record(matches!(event, Event::Seen(_))) {
            self.record(|recorder| recorder.write(now, &event, made.as_ref()));
        }
        self.kind.step.handle(now, event)
    }

    /// A look has ended.
    pub(super) fn came(
        &mut self,
        (looker, result): (Looker, Result<Sight, LookError>),
        listener: Listener<'_>,
    ) {
        self.kind.looker = Some(self.kind.next_looker.take().unwrap_or(looker));
        let fresh_in = result.as_ref().ok().and_then(|sight| sight.fresh_in);
        let event = self.looked(result, listener);
        let now = steady();
        let action = self.step(now, event);
        if let Some(fresh_in) = fresh_in {
            self.kind.step.look_by(now + delta(fresh_in));
        }
        self.follow_up(action);
    }

    /// Does it, and says when the next look is.
    fn follow_up(&mut self, action: Action) {
        self.act(action);
        if let Some(due) = self.kind.step.due() {
            self.health.next_pass = Some(by_the_wall(due));
            self.write_health();
        }
    }

    /// Which LIDs a job is to use that starts, where a port's two have routes of their own.
    pub(super) fn lids_for(&mut self, released: &Released) -> Option<LidSet> {
        let starts = !matches!(released.outcome, Outcome::Gone | Outcome::Superseded);
        let in_force = self.kind.in_force.as_ref().filter(|_| starts && self.settings.split_lids)?;
        let fresh = in_force.lids.as_ref().map(|lids| lids.fresh);
        let acknowledged = self.health.acknowledged.is_some_and(|a| a.epoch == in_force.epoch);
        Some(self.kind.lids.tell(&released.start.job, fresh, acknowledged || self.settings.opensm.is_none()))
    }

    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Wait => {}
            Action::Look => {
                if let Some(mut looker) = self.kind.looker.take() {
                    self.looked_at = steady();
                    self.kind.looking = Some(Box::pin(async move {
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
                self.kind.lids.begun(view.policy.lids_in_use);
                let (store, keep) = (self.store.clone(), self.settings.state.keep_epochs);
                let remembered = self.kind.remembered.clone();
                let route = tokio::task::spawn_blocking(move || pass(&store, keep, &view, remembered));
                self.kind.routing = Some(Box::pin(async move {
                    route.await.unwrap_or_else(|error| Err(PassError::Aborted(error.to_string())))
                }));
            }
        }
    }
}
