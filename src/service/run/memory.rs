//! What the service keeps of what happened: the recording of events, the history of looks.

use chrono::{DateTime, Utc};
use tracing::debug;

use super::Service;
use super::reload::rhythm;
use crate::measure::Figures;
use crate::pass::plan::Reason;
use crate::pass::step::{Action, Event};
use crate::publish::Snapshot;
use crate::service::record::{Recorder, note};

/// Why an epoch was made, and what it changed.
pub(super) type EpochFigures = (Reason, Option<Figures>, Figures);

impl Service {
    /// Records an event, then lets it change what is known.
    pub(super) fn step(&mut self, now: DateTime<Utc>, event: Event) -> Action {
        let made = self.made.take();
        if self.may_record(&event) {
            self.record(|recorder| recorder.write(now, &event, made.as_ref()));
        }
        self.step.handle(now, event)
    }

    /// What was not recorded may have been an epoch. So the recording goes on with the next look, in a file of its own,
    /// with what is in force beside it.
    fn may_record(&mut self, event: &Event) -> bool {
        let (true, Some(bounds)) = (self.health.unrecorded.is_some(), self.settings.record) else {
            return true;
        };
        if !matches!(event, Event::Seen(_)) {
            return false;
        }
        match Recorder::open(&self.store, bounds, rhythm(&self.settings), true, Utc::now()) {
            Ok(recorder) => {
                self.recorder = Some(recorder);
                true
            }
            Err(error) => {
                note(&mut self.health, Err(error));
                false
            }
        }
    }

    /// What cannot be recorded is told, and handled all the same.
    pub(super) fn record(&mut self, write: impl FnOnce(&mut Recorder) -> std::io::Result<()>) {
        let Some(recorder) = &mut self.recorder else { return };
        let written = write(recorder);
        note(&mut self.health, written);
    }

    /// Writes a look into the history, beside the loop. While the disk is slow, looks are left
    /// out: nothing waits for it, and nothing piles up.
    pub(super) fn remember(&mut self) {
        let busy = self.remembering.as_ref().is_some_and(|task| !task.is_finished());
        let Some(sight) = self.sight.as_ref().filter(|_| !busy) else { return };
        let snapshot = Snapshot {
            time: sight.view.jobs.time,
            jobs: sight.view.jobs.jobs.len(),
            waiting: self.health.waiting_jobs,
            unknown_nodes: self.health.unknown_nodes.len(),
            epoch: self.store.current().ok().flatten(),
        };
        let (figures, store, keep) = (self.figures.take(), self.store.clone(), self.settings.history.keep);
        self.remembering = Some(tokio::task::spawn_blocking(move || {
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
