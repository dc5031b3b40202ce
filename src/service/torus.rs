//! The service of a direct torus: tables for each job before it starts, removed when it is over.
//!
//! No epochs and no OpenSM: each job's tables are its own. They are computed around those of the jobs that
//! run, checked together with them, and published as the job's directory; those of jobs that the batch
//! system does not know any more are removed. Where a failed link or node touches a job that runs, the pairs
//! that lost their route get another.

mod dry_run;
mod history;
mod look;
mod outcome;
mod record;
mod seen;
pub(in crate::service) mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;
use tracing::{info, warn};

pub use self::dry_run::{Gets, Predicted, Terms, TorusDryRun, TorusPerJob, dry_run, gets};
use self::history::Chronicle;
pub use self::seen::{Direct, Newest};
use self::work::{Computed, Limit, Running, Source, Work, Written, found};
use super::api::servers::Servers;
use super::chain;
use super::clock::steady;
use super::command::{Command, Commands, Handle, Seen};
use super::handoff::{Outcome, Released, StartId};
use super::health::teller::Teller;
use super::health::{Failure, Health};
use super::look::job_source;
use super::placing::Placing;
use super::record::Recorder;
use super::run::reload::{ConfigFile, Unusable, changed, refuse};
use super::run::waiting::{Waiting, answer, look_at_hold};
use super::run::{Listener, Note, ServeError, Signals, delta};
use super::systemd::Systemd;
use crate::config::{self, FabricSource, Settings};
use crate::model::{JobId, JobMap, Torus};
use crate::observe::slurm::{JobSource, PollError};
use crate::observe::torus_toml;
use crate::pass::torus::Site;
use crate::publish::job::{self, JOBS_DIRECTORY, JobEnvironment};
use crate::publish::{EpochStore, Serving};
use crate::route::angara::{TorusRouteError, named};

/// The description of the torus, if the settings name one and no switched fabric.
pub fn source(settings: &Settings) -> Option<String> {
    match &settings.fabric {
        Some(FabricSource::Source(source)) if torus_toml::is_torus(source) => Some(source.clone()),
        _ => None,
    }
}

/// The engines of the settings, by their names on a direct torus.
///
/// # Errors
/// The first that there is not.
pub fn engines(settings: &Settings) -> Result<Vec<String>, TorusRouteError> {
    settings.routing.engines().map(|name| named(name).map(String::from)).collect()
}

/// What ended beside the loop.
enum Done {
    Computed(Option<Box<Computed>>),
    /// Who started, what was written, whose tables could not be.
    Published(Vec<StartId>, Option<u32>, Vec<Written>, Vec<(JobId, String)>),
}

type Polled = (Box<dyn JobSource>, Result<JobMap, PollError>);

/// The loop. Unlike that of a switched fabric it decides nothing of its own: every job gets tables.
pub(super) struct TorusService {
    settings: Settings,
    source: String,
    store: EpochStore,
    jobs_root: PathBuf,
    health: Health,
    commands: Commands,
    servers: Servers,
    placing: Placing,
    systemd: Systemd,
    teller: Teller,
    recorder: Option<Recorder>,
    /// `None` for one pass.
    config: Option<ConfigFile>,
    waiting: Waiting,
    /// One computation or publication at a time, so that each knows all others' routes.
    working: JoinSet<Done>,
    /// Who starts and is in no computation yet.
    starts: Vec<StartId>,
    running: Running,
    /// The torus of the last computation; `None` before the first.
    site: Option<Site>,
    /// The torus that the running jobs' routes are on; `None` while its description cannot be read.
    torus: Option<Arc<Torus>>,
    /// What the newest computation read it from.
    torus_text: Option<String>,
    /// The engine of the newest tables.
    engine: String,
    /// Time that they took.
    took: Duration,
    chronicle: Chronicle,
    /// The newest change of tables.
    newest: Option<Newest>,
    /// Those of the newest good look.
    jobs: Option<Arc<JobMap>>,
    /// Whether the newest answer of the batch system was good.
    jobs_well: bool,
    /// Whether the newest computation was: it reads the torus.
    torus_well: bool,
    /// The torus is to be looked at.
    look: bool,
    /// Not here while it asks.
    batch: Option<Box<dyn JobSource>>,
    /// Settings changed while it asked.
    other_batch: bool,
    /// Nobody else serves this state directory; `None` for one pass.
    _serving: Option<Serving>,
    polling: JoinSet<Polled>,
    /// By [`steady`].
    next_poll: DateTime<Utc>,
}

impl TorusService {
    /// With a settings file it serves, without it is for one pass.
    pub(super) fn start(
        settings: Settings,
        source: String,
        config: Option<&Path>,
    ) -> Result<Self, ServeError> {
        let store = EpochStore::open(&settings.state.directory)?;
        drop(store.lock()?);
        let serving = config.is_some().then(|| store.serve()).transpose()?;
        engines(&settings)?;
        let (handle, commands) = Handle::new();
        let mut servers = Servers::new(handle, store.clone());
        let mut placing = Placing::default();
        if config.is_some() {
            let opened = servers.prepare(&settings)?;
            placing.follow(&settings)?;
            servers.follow(opened);
        }
        let now = Utc::now();
        let jobs_root = settings.state.directory.join(JOBS_DIRECTORY);
        let mut health = Health::new(now, config.is_some());
        // Whom failures touched before is on the nodes still.
        let before = Health::read(&settings.state.directory).ok().flatten().and_then(|before| before.torus);
        health.torus = Some(before.unwrap_or_default());
        let torus = torus_toml::load(&source).ok().map(|source| Arc::new(source.torus));
        let running = torus.as_ref().map(|torus| found(&jobs_root, torus)).unwrap_or_default();
        let mut service = Self {
            running,
            site: None,
            torus,
            torus_text: None,
            engine: settings.routing.engine.clone(),
            took: Duration::ZERO,
            chronicle: Chronicle::open(&store),
            newest: None,
            jobs: None,
            jobs_well: false,
            torus_well: true,
            look: true,
            starts: Vec::new(),
            store,
            jobs_root,
            health,
            commands,
            servers,
            placing,
            recorder: None,
            systemd: Systemd::new(),
            teller: Teller::default(),
            config: config.map(|path| ConfigFile::new(path, &settings)),
            waiting: Waiting::new(&rules(&settings)),
            working: JoinSet::new(),
            batch: Some(job_source(&settings)),
            other_batch: false,
            _serving: serving,
            polling: JoinSet::new(),
            next_poll: steady(),
            source,
            settings,
        };
        service.go_on();
        if service.config.is_some() {
            service.follow_record(false).map_err(ServeError::Record)?;
        }
        Ok(service)
    }

    pub(super) async fn run(
        mut self,
        mut signals: Signals,
        listener: Listener<'_>,
    ) -> Result<(), ServeError> {
        info!(torus = self.source, state = %self.settings.state.directory.display(), "serving");
        self.systemd.ready();
        loop {
            let now = steady();
            let due = self.waiting.handoff.due(false).into_iter().chain([self.next_poll]).min();
            let pause = due.map_or(Duration::ZERO, |due| (due - now).to_std().unwrap_or_default());
            tokio::select! {
                biased;
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                _ = signals.hangup.recv() => self.next_poll = now,
                Some(Ok(done)) = self.working.join_next() => self.done(done),
                Some(Ok((source, jobs))) = self.polling.join_next() => {
                    let replaced = std::mem::take(&mut self.other_batch);
                    self.batch = Some(if replaced { job_source(&self.settings) } else { source });
                    self.polled(jobs);
                }
                changed = changed(&self.config) => {
                    if changed.settings {
                        self.reload(listener);
                    }
                    self.next_poll = now;
                }
                () = tokio::time::sleep(pause) => {
                    // Where nobody tells of changes.
                    if self.config.as_ref().is_some_and(ConfigFile::is_other) {
                        self.reload(listener);
                    }
                }
                () = self.systemd.due() => {}
                load = self.chronicle.written() => self.written(load),
                Some(command) = self.commands.recv() => self.command(command),
            }
            self.attend();
            self.systemd.alive();
        }
        self.systemd.stopping();
        self.servers.end();
        self.chronicle.end(self.settings.history.keep).await;
        self.health.serving = false;
        self.health.next_pass = None;
        self.health.ended = Some(Utc::now());
        self.write_health();
        Ok(())
    }

    /// Reads the settings again and goes by them, or tells why not.
    fn reload(&mut self, listener: Listener<'_>) {
        let Some(config) = &mut self.config else { return };
        let read = config.read(&self.settings);
        let result = read.and_then(|new| match new == self.settings {
            true => Ok(()),
            false => self.adopt(new),
        });
        match result {
            Ok(()) => self.health.settings_refused = None,
            Err(error) => listener(&Note::Failed(refuse(&mut self.health, &error))),
        }
        self.write_health();
    }

    /// Puts new settings in force. What can fail comes first; then nothing has changed.
    fn adopt(&mut self, new: Settings) -> Result<(), Unusable> {
        engines(&new)?;
        let opened = self.servers.prepare(&new)?;
        self.placing.follow(&new).map_err(Unusable::Placing)?;
        self.servers.follow(opened);
        if let Some(source) = source(&new) {
            self.source = source;
        }
        self.waiting.follow(&rules(&new));
        if let Some(config) = &mut self.config {
            config.follow(&new);
        }
        info!(torus = self.source, "new settings");
        self.other_batch = self.batch.is_none();
        if !self.other_batch {
            self.batch = Some(job_source(&new));
        }
        let gap = self.recorder.is_none();
        self.settings = new;
        if let Err(error) = self.follow_record(gap) {
            self.record(|_| Err(error));
        }
        Ok(())
    }

    /// One look: removes what jobs left that are over, and mends what failures cut.
    pub(super) async fn once(mut self) -> Option<Failure> {
        self.poll();
        if let Some(Ok((_, jobs))) = self.polling.join_next().await {
            self.polled(jobs);
        }
        if !self.look_at_hold() {
            self.compute();
        }
        while let Some(Ok(done)) = self.working.join_next().await {
            self.done(done);
        }
        self.chronicle.end(self.settings.history.keep).await;
        self.health.next_pass = None;
        self.write_health();
        self.health.failing
    }

    fn command(&mut self, command: Command) {
        let now = steady();
        // Whoever does not wait for the answer any more does not get it.
        match command {
            Command::Health(reply) => {
                let handoff = self.waiting.handoff.counters();
                drop(reply.send(Health { handoff, ..self.health.clone() }));
            }
            Command::Seen(reply) => drop(reply.send(self.seen().map(Seen::Direct))),
            Command::Look(reply) => {
                let _ = reply.send(());
                self.next_poll = now;
            }
            Command::Start(said, reply) => {
                self.look_at_hold();
                self.waiting.announce(now, said.guessing(&self.settings.traffic), reply);
            }
            Command::End(job, reply) => {
                self.waiting.ended(now, &job);
                self.forget(|id| *id == job);
                // Nobody waits long for this: a rename, and files of one job.
                self.warn_of(job::remove(&self.jobs_root, &job).err());
                let _ = reply.send(());
            }
        }
    }

    /// An administrator's hold: no table is made or changed.
    fn look_at_hold(&mut self) -> bool {
        let is_held = look_at_hold(&self.store, &mut self.health);
        self.waiting.handoff.hold(steady(), is_held);
        is_held
    }

    /// Begins what is due, and lets go who may start.
    fn attend(&mut self) {
        let now = steady();
        let held = self.look_at_hold();
        self.waiting.handoff.tick(now);
        self.starts.extend(self.waiting.handoff.take_new());
        self.starts.retain(|start| self.waiting.handoff.is_waiting(start));
        if self.working.is_empty() && (!self.starts.is_empty() || (self.look && !held)) {
            self.compute();
        }
        if now >= self.next_poll {
            self.poll();
        }
        self.chronicle.write(self.settings.history.keep);
        for (released, replies) in self.waiting.let_go() {
            self.tell_unrouted(&released);
            answer(replies, released.outcome);
        }
        let counters = self.waiting.handoff.counters();
        if counters != self.health.handoff
            && (Utc::now() - self.health.time).abs() > delta(Duration::from_secs(1))
        {
            self.write_health();
        }
    }

    /// A job that starts without tables is told so.
    fn tell_unrouted(&mut self, released: &Released) {
        let why = match released.outcome {
            Outcome::Deadline => "no tables at the deadline",
            Outcome::Full => "too many jobs wait for tables",
            Outcome::Held => "an administrator holds the routes as they are",
            _ => return,
        };
        self.tell(&released.start.job, why);
    }

    /// Tells a job why it has no tables.
    fn tell(&self, job: &JobId, why: &str) {
        let environment = JobEnvironment { note: why.to_string(), ..JobEnvironment::default() };
        self.warn_of(job::publish(&self.jobs_root, job, &environment).err());
    }

    fn compute(&mut self) {
        self.look = false;
        self.record_compute();
        let work = Work {
            source: Source::Named(self.source.clone()),
            engines: engines(&self.settings).unwrap_or_default(),
            site: self.site.clone(),
            running: self.running.clone(),
            starts: std::mem::take(&mut self.starts),
            // A job that comes meanwhile waits for this computation and for its own.
            limit: Limit::For(self.settings.handoff.deadline / 4),
        };
        self.working.spawn_blocking(move || Done::Computed(work.run().map(Box::new)));
    }

    fn warn_of(&self, error: Option<crate::publish::StoreError>) {
        if let Some(error) = error {
            warn!("{}", chain(&error));
        }
    }

    fn write_health(&mut self) {
        self.health.time = Utc::now();
        let last = self.health.last_success.map(|time| ("the last pass ended", time));
        self.health.look_around(Utc::now(), &self.settings.state.directory, last.as_slice());
        self.health.handoff = self.waiting.handoff.counters();
        self.teller.tell(&self.health);
        self.systemd.status(self.health.line(self.health.time));
        if let Err(error) = self.health.write(&self.settings.state.directory) {
            warn!("{error}");
        }
    }
}

/// Without tables no job can speak, however small and short.
fn rules(settings: &Settings) -> config::HandOff {
    let zero = delta(Duration::ZERO);
    config::HandOff { min_nodes: 1, min_length: zero, reroute_interval: zero, ..settings.handoff.clone() }
}
