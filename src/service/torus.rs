//! The service of a direct torus: tables for each job before it starts, removed when it is over.
//!
//! No epochs and no OpenSM: each job's tables are its own. They are computed and checked when the
//! job is announced, and published as the job's directory; those of jobs that the batch system does
//! not know any more are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::api::servers::Servers;
use super::chain;
use super::clock::{by_the_wall, steadily, steady};
use super::command::{Command, Commands, Handle};
use super::handoff::{Outcome, Released, StartId};
use super::health::{Failure, Health, Stage};
use super::look::job_source;
use super::placing::Placing;
use super::run::reload::{ConfigFile, Unusable, changed, refuse};
use super::run::waiting::{Waiting, answer};
use super::run::{Listener, Note, ServeError, Signals, delta};
use super::systemd::Systemd;
use crate::config::{self, FabricSource, Settings};
use crate::model::{JobId, JobMap, Torus, TorusDemand, TorusJob, TorusTables};
use crate::observe::slurm::{JobSource, PollError};
use crate::observe::torus_toml;
use crate::publish::job::{self, JOBS_DIRECTORY, JobEnvironment};
use crate::publish::{EpochStore, Serving, angara};
use crate::route::angara::{ENGINES, Limits, engine};
use crate::verify::Verified;
use crate::verify::angara::accept;

/// The description of the torus, if the settings name one and no switched fabric.
pub fn source(settings: &Settings) -> Option<String> {
    match &settings.fabric {
        Some(FabricSource::Source(source)) if torus_toml::is_torus(source) => Some(source.clone()),
        _ => None,
    }
}

/// What a computation came to: checked tables, then the same on the disk.
enum Made {
    Tables(Box<(Torus, Verified<TorusTables>)>),
    Published,
}

/// A computation that ended.
type Done = (StartId, Result<Made, String>);
type Polled = (Box<dyn JobSource>, Result<JobMap, PollError>);

/// The loop. Unlike that of a switched fabric it has nothing to decide: every job gets tables.
pub(super) struct TorusService {
    settings: Settings,
    source: String,
    jobs_root: PathBuf,
    health: Health,
    commands: Commands,
    servers: Servers,
    placing: Placing,
    /// `None` for one pass.
    config: Option<ConfigFile>,
    waiting: Waiting,
    /// At most one at a time for each job, so that the newest start's tables come last.
    working: JoinSet<Done>,
    busy: BTreeSet<JobId>,
    next: BTreeMap<JobId, StartId>,
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
        let (handle, commands) = Handle::new();
        let mut servers = Servers::new(handle, store);
        let mut placing = Placing::default();
        if config.is_some() {
            let opened = servers.prepare(&settings)?;
            placing.follow(&settings)?;
            servers.follow(opened);
        }
        let now = Utc::now();
        Ok(Self {
            jobs_root: settings.state.directory.join(JOBS_DIRECTORY),
            health: Health::new(now, config.is_some()),
            commands,
            servers,
            placing,
            config: config.map(|path| ConfigFile::new(path, &settings)),
            waiting: Waiting::new(&rules(&settings)),
            working: JoinSet::new(),
            busy: BTreeSet::new(),
            next: BTreeMap::new(),
            batch: Some(job_source(&settings)),
            other_batch: false,
            _serving: serving,
            polling: JoinSet::new(),
            next_poll: steady(),
            source,
            settings,
        })
    }

    pub(super) async fn run(
        mut self,
        mut signals: Signals,
        listener: Listener<'_>,
    ) -> Result<(), ServeError> {
        let mut systemd = Systemd::new();
        info!(torus = self.source, state = %self.settings.state.directory.display(), "serving");
        systemd.ready();
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
                () = systemd.due() => {}
                Some(command) = self.commands.recv() => self.command(command),
            }
            self.attend();
            systemd.alive();
        }
        systemd.stopping();
        self.servers.end();
        self.health.serving = false;
        self.health.next_pass = None;
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
        self.settings = new;
        Ok(())
    }

    /// One look: removes what jobs left that are over.
    pub(super) async fn once(mut self) -> Option<Failure> {
        self.poll();
        if let Some(Ok((_, jobs))) = self.polling.join_next().await {
            self.polled(jobs);
        }
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
            Command::View(reply) => drop(reply.send(None)),
            Command::Look(reply) => {
                let _ = reply.send(());
                self.next_poll = now;
            }
            Command::Start(said, reply) => self.waiting.announce(now, said, reply),
            Command::End(job, reply) => {
                self.waiting.ended(now, &job);
                self.next.remove(&job);
                // Nobody waits long for this: a rename, and files of one job.
                self.warn_of(job::remove(&self.jobs_root, &job).err());
                let _ = reply.send(());
            }
        }
    }

    /// Begins what is due, and lets go who may start.
    fn attend(&mut self) {
        let now = steady();
        self.waiting.handoff.tick(now);
        for start in self.waiting.handoff.take_new() {
            match self.busy.contains(&start.job) {
                true => drop(self.next.insert(start.job.clone(), start)),
                false => self.compute(start),
            }
        }
        if now >= self.next_poll {
            self.poll();
        }
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
        let environment = JobEnvironment { note: why.to_string(), ..JobEnvironment::default() };
        let told = job::publish(&self.jobs_root, &released.start.job, &environment);
        self.warn_of(told.err());
    }

    fn compute(&mut self, start: StartId) {
        self.busy.insert(start.job.clone());
        let (source, half) = (self.source.clone(), self.settings.handoff.deadline / 2);
        let engine = self.settings.routing.engine.clone();
        self.working.spawn_blocking(move || {
            let made = tables(&source, &engine, &start, half);
            (start, made.map(|made| Made::Tables(Box::new(made))))
        });
    }

    fn done(&mut self, (start, made): Done) {
        let now = Utc::now();
        let waits = self.waiting.handoff.is_waiting(&start);
        match made {
            // What nobody waits for any more is not put under a running job.
            Ok(Made::Tables(made)) if waits => {
                let root = self.jobs_root.clone();
                self.working.spawn_blocking(move || {
                    let published = angara::publish(&root, &made.0, &made.1);
                    (start, published.map(|()| Made::Published).map_err(|e| chain(&e)))
                });
                return;
            }
            Ok(_) => {
                self.health.published += u64::from(waits);
                self.waiting.handoff.served(steady(), &start, Outcome::InForce);
                self.health.succeeded(now);
            }
            Err(message) => {
                warn!(job = %start.job, "no tables: {message}");
                self.health.failed(Failure { time: now, stage: Stage::Route, message: message.clone() });
                let environment = JobEnvironment { note: message, ..JobEnvironment::default() };
                if waits {
                    self.warn_of(job::publish(&self.jobs_root, &start.job, &environment).err());
                }
                self.waiting.handoff.served(steady(), &start, Outcome::Unrouted);
            }
        }
        self.busy.remove(&start.job);
        if let Some(next) = self.next.remove(&start.job) {
            self.compute(next);
        }
    }

    fn poll(&mut self) {
        let now = Utc::now();
        self.next_poll = steady() + delta(self.settings.service.interval);
        self.health.next_pass = Some(by_the_wall(self.next_poll));
        if let Some(mut batch) = self.batch.take() {
            self.polling.spawn(async move {
                let jobs = batch.poll(now).await;
                (batch, jobs)
            });
        }
    }

    /// Removes the tables of jobs that are over though nobody said so.
    fn polled(&mut self, jobs: Result<JobMap, PollError>) {
        let now = Utc::now();
        match jobs {
            Ok(jobs) => {
                let jobs = JobMap { time: steadily(jobs.time), ..jobs };
                self.waiting.handoff.forget(steady(), &jobs);
                let mut live: BTreeSet<JobId> = jobs.jobs.into_iter().map(|j| j.id).collect();
                live.extend(self.waiting.handoff.jobs().cloned());
                let gone = |found: Vec<JobId>| found.into_iter().filter(|id| !live.contains(id)).collect();
                let orphans = job::published(&self.jobs_root).map(gone).unwrap_or_else(|e| {
                    warn!("{}", chain(&e));
                    Vec::new()
                });
                for id in orphans {
                    info!(job = %id, "its end was not announced: its tables are removed");
                    self.warn_of(job::remove(&self.jobs_root, &id).err());
                }
                self.health.succeeded(now);
            }
            Err(error) => {
                let message = chain(&error);
                warn!("{message}");
                self.health.failed(Failure { time: now, stage: Stage::Jobs, message });
            }
        }
        self.write_health();
    }

    fn warn_of(&self, error: Option<crate::publish::StoreError>) {
        if let Some(error) = error {
            warn!("{}", chain(&error));
        }
    }

    fn write_health(&mut self) {
        self.health.time = Utc::now();
        self.health.handoff = self.waiting.handoff.counters();
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

/// Computes and checks the tables of a job; searches no longer than `limit` once there are some.
fn tables(
    source: &str,
    name: &str,
    start: &StartId,
    limit: Duration,
) -> Result<(Torus, Verified<TorusTables>), String> {
    let until = Instant::now() + limit;
    // Read for each job: what has failed meanwhile is known then.
    let found = torus_toml::load(source).map_err(|e| chain(&e))?;
    let torus = found.torus;
    let node = |name| torus.node_named(name).ok_or_else(|| format!("the torus has no node {name}"));
    let nodes: Result<Vec<_>, String> = start.nodes.iter().map(node).collect();
    let job = TorusJob::new(Some(start.job.clone()), nodes?);
    let demand = TorusDemand { jobs: vec![job], transit: found.transit.unwrap_or_default() };
    demand.check(&torus).map_err(|e| chain(&e))?;
    // The settings may name an engine of switched fabrics, such as the default.
    let name = if ENGINES.contains(&name) { name } else { ENGINES[0] };
    let limits = Limits { go_on: &|_| Instant::now() < until, ..Limits::default() };
    let engine = engine(name).map_err(|e| chain(&e))?;
    let tables = engine.route(&torus, &demand, &limits).map_err(|e| chain(&e))?;
    match accept(&torus, tables, false) {
        Ok(verified) => Ok((torus, verified)),
        Err(verdict) => Err(format!("the tables were rejected: {:?}", verdict.findings.first())),
    }
}
