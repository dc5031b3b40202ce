//! What wakes the loop, what every kind then does, and where it is kept.

use std::io;

use chrono::{TimeDelta, Utc};
use tracing::{debug, info, warn};

use super::reload::rhythm;
use super::{Listener, SELDOM, Service, Woken, delta};
use crate::config::{Record, Settings};
use crate::observe::slurmrestd;
use crate::observe::source::JobSourceRow;
use crate::publish::{EpochNumber, Hold, StoreError};
use crate::service::clock::steady;
use crate::service::command::{AboutNodes, Command};
use crate::service::health::Health;
use crate::service::kind::Kind;
use crate::service::record::{Recorder, note};

/// Between two looks that somebody wants.
const AGAIN: TimeDelta = TimeDelta::seconds(1);

impl<K: Kind> Service<K> {
    pub(super) fn handle(&mut self, woken: Woken<K::Done>, listener: Listener<'_>) {
        K::woken(self);
        match woken {
            Woken::Stop(_) | Woken::Alive => {}
            Woken::Told => {
                if self.beside.has_news() && !self.kind.is_busy() {
                    self.kind.look_by(steady());
                }
            }
            Woken::Asked => K::look(self),
            Woken::Tick => {
                // Where nobody tells of changes.
                if self.is_config_other() {
                    self.reload(listener);
                }
                K::tick(self);
            }
            Woken::Done(done) => K::done(self, done, listener),
            Woken::Changed(changed) => {
                if (changed.settings && self.reload(listener)) || changed.files {
                    self.look_soon();
                }
            }
            Woken::Command(command) => self.command(command),
        }
        self.waiting.handoff.tick(steady());
        K::attend(self);
        for (released, replies) in self.waiting.let_go() {
            K::start(self, released, replies);
        }
        self.is_behind = self.waiting.handoff.counters() != self.health.handoff;
        if self.is_behind && (Utc::now() - self.health.time).abs() > delta(SELDOM) {
            self.write_health();
        }
    }

    /// A look because somebody wants one: at once, unless the last one began just now. However often
    /// it is wanted, Slurm is asked once in [`AGAIN`].
    pub(in crate::service) fn look_soon(&mut self) {
        let (now, soonest) = (steady(), self.looked_at + AGAIN);
        match now >= soonest {
            true => K::look(self),
            false => self.kind.look_by(soonest.min(now + AGAIN)),
        }
    }

    fn command(&mut self, command: Command) {
        // Whoever does not wait for the answer any more does not get it.
        match command {
            Command::Health(reply) => {
                K::look_around(self);
                let handoff = self.waiting.handoff.counters();
                drop(reply.send(Health { handoff, ..self.health.clone() }));
            }
            Command::Seen(reply) => drop(reply.send(K::seen(self))),
            Command::Slurm(reply) => drop(reply.send(slurm(&self.settings))),
            Command::Start(said, reply) => {
                // The end of a hold may be too new for a look to have seen it.
                if self.health.held.is_some() && !self.look_at_hold() {
                    self.waiting.handoff.hold(steady(), false);
                }
                self.confirm();
                self.waiting.announce(steady(), said.guessing(&self.settings.traffic), reply);
            }
            Command::End(job, reply) => {
                self.waiting.ended(steady(), &job);
                K::ended(self, job);
                let _ = reply.send(());
            }
            Command::Look(reply) => {
                let _ = reply.send(());
                self.look_soon();
            }
        }
    }

    /// Compares what is known to be in force with the disk. A link that cannot be read is a pass's matter.
    pub(in crate::service) fn confirm(&mut self) {
        if let Ok(current) = self.store.current() {
            self.waiting.handoff.confirm(current.map(EpochNumber::get));
        }
    }

    /// Whether an administrator holds what is in force. A hold that cannot be read is one.
    pub(in crate::service) fn look_at_hold(&mut self) -> bool {
        self.found_hold(self.store.hold())
    }

    /// The same of a hold as it was read.
    pub(in crate::service) fn found_hold(&mut self, found: Result<Option<Hold>, StoreError>) -> bool {
        let is_unread = found.as_ref().inspect_err(|error| debug!("{error}")).is_err();
        let before = self.health.held.clone();
        self.health.note_hold(Utc::now(), found);
        let held = &self.health.held;
        if held.is_some() != before.is_some() {
            let by = held.as_ref().or(before.as_ref()).and_then(|hold| hold.by.as_deref());
            let reason = held.as_ref().map_or("", |hold| hold.reason.as_str());
            info!(held = held.is_some(), by, reason, "audit: an administrator's hold");
        }
        held.is_some() || is_unread
    }

    /// Whether this is a single pass beside a service. That one alone knows of the jobs that start just now.
    pub(in crate::service) fn is_beside(&self) -> bool {
        self.alone.is_none() && self.store.may_be_served()
    }

    pub(in crate::service) fn write_health(&mut self) {
        self.health.time = Utc::now();
        K::look_around(self);
        self.health.handoff = self.waiting.handoff.counters();
        self.is_behind = false;
        self.trouble_log.tell(&self.health);
        let line = self.health.line(self.health.time);
        self.systemd.status(self.beside.neighbours.line(self.settings.name.as_ref(), line));
        // A tick beside a service does not speak for it.
        if self.alone.is_none() && self.store.is_served() {
            return;
        }
        if let Err(error) = self.health.write(&self.settings.state.directory) {
            warn!("{error}");
        }
    }

    /// Begins a recording with these settings, or goes on with it: see [`Recorder::open`].
    pub(super) fn recorder(&self, settings: &Settings, bounds: Record, gap: bool) -> io::Result<Recorder> {
        Recorder::open(&self.store, bounds, rhythm(settings), gap, K::standing(self))
    }

    /// What was not recorded may have changed everything. So the recording goes on with an event that says all
    /// (`whole`), in a file of its own, with what is in force beside it.
    pub(in crate::service) fn may_record(&mut self, whole: bool) -> bool {
        let is_behind = self.health.unrecorded.is_some() && self.config.is_some();
        let (true, Some(bounds)) = (is_behind, self.settings.record) else { return true };
        if !whole {
            return false;
        }
        match self.recorder(&self.settings, bounds, true) {
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
    pub(in crate::service) fn record(&mut self, write: impl FnOnce(&mut Recorder) -> io::Result<()>) {
        let Some(recorder) = &mut self.recorder else { return };
        let written = write(recorder);
        note(&mut self.health, written);
    }
}

/// How Slurm is asked about nodes, if the jobs are its own.
fn slurm(settings: &Settings) -> Option<AboutNodes> {
    let source = JobSourceRow::of(&settings.slurm.source).ok().filter(|row| row.is_slurm)?;
    let rest = settings.rest.clone().filter(|_| source.name == slurmrestd::NAME);
    let rest = rest.map(|rest| (rest, settings.slurm.output_limit));
    Some(AboutNodes { commands: settings.placement.clone(), rest })
}
