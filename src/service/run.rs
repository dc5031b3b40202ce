//! The only loop, for every kind of network: clock, signals, sockets, files, log, health file. What differs
//! between kinds is behind `Kind`.

mod events;
pub(in crate::service) mod reload;
pub mod several;
pub(in crate::service) mod waiting;

use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use self::reload::{ConfigFile, changed};
use self::waiting::Waiting;
use super::api::listen::allow_many_files;
use super::api::servers::Servers;
use super::chain;
use super::clock::steady;
use super::command::{Command, Commands, Handle};
use super::health::trouble_log::TroubleLog;
use super::health::{Acknowledged, Failure, Health};
use super::kind::direct::{self, DirectKind};
use super::kind::switched::SwitchedKind;
use super::kind::{Kind, NotReady};
use super::neighbours::Neighbours;
use super::pass::EpochLine;
use super::placing::Placing;
use super::record::{Recorder, note};
use super::systemd::Systemd;
use super::together::Place;
use super::watch::Changed;
use crate::config::Settings;
use crate::model::FileError;
use crate::observe::source::{JobSource, job_source};
use crate::publish::job::{self, JOBS_DIRECTORY};
use crate::publish::{EpochStore, Serving, StoreError};

/// What the service has to say.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// An epoch was published.
    Epoch(Box<EpochLine>),
    /// OpenSM has it in force.
    Acknowledged(Acknowledged),
    /// Something failed; what was in force still is.
    Failed(Failure),
}

/// Where notes go: standard output for `serve` and `tick`.
pub type Listener<'a> = &'a mut dyn FnMut(&Note);

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The settings do not fit the network.
    #[error(transparent)]
    Settings(#[from] NotReady),
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The socket cannot be used.
    #[error(transparent)]
    Listen(#[from] FileError),
    /// Events cannot be recorded.
    #[error("the recording: {0}")]
    Record(#[source] std::io::Error),
    /// Nobody would be told LIDs.
    #[error("opensm.lmc = 1 needs `sarouter serve` and the prolog, which tell jobs their LIDs")]
    Lids,
    /// One of several fabrics.
    #[error("fabric {name}: {source}")]
    Fabric {
        /// Its name.
        name: String,
        /// What is wrong there.
        source: Box<ServeError>,
    },
    /// More than one direct torus.
    #[error("of several fabrics one may be a direct torus, and there are {}", .0.join(", "))]
    TwoTori(Vec<String>),
    /// Neither runtime nor signals.
    #[error("the runtime does not start: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Runs until SIGTERM or SIGINT. SIGHUP means: look now. When the settings file `config` changes it
/// is read again; one that cannot be used changes nothing and is told in the health file.
///
/// A stop takes at most the settings' `stop_seconds`: a running `squeue` is killed, a computation
/// may finish within that time and is abandoned otherwise; what is published stays whole.
///
/// # Errors
/// Only at the start. Later failures are logged, counted and written to the health file.
pub fn serve(settings: Settings, config: &Path, listener: Listener<'_>) -> Result<(), ServeError> {
    allow_many_files();
    let runtime = runtime()?;
    let result = runtime.block_on(work(settings, Some(config), Beside::default(), listener));
    // A computation that did not finish in time is not waited for.
    runtime.shutdown_background();
    result.map(drop)
}

/// One pass, and OpenSM's acknowledgement if it made an epoch.
///
/// # Errors
/// Only at the start. Returns the failure of the pass, if it failed.
pub fn tick(settings: Settings, listener: Listener<'_>) -> Result<Option<Failure>, ServeError> {
    runtime()?.block_on(work(settings, None, Beside::default(), listener))
}

/// The same for one of several fabrics, which ask the batch system together.
///
/// # Errors
/// As [`tick`].
pub fn tick_of(
    settings: Settings,
    place: Place,
    listener: Listener<'_>,
) -> Result<Option<Failure>, ServeError> {
    let beside = Beside { place: Some(place), ..Beside::default() };
    runtime()?.block_on(work(settings, None, beside, listener))
}

/// With a settings file it serves, without it is one pass.
async fn work(
    settings: Settings,
    config: Option<&Path>,
    beside: Beside,
    listener: Listener<'_>,
) -> Result<Option<Failure>, ServeError> {
    match direct::source(&settings) {
        Some(_) => Service::<DirectKind>::work(settings, config, beside, listener).await,
        None if settings.split_lids && config.is_none() => Err(ServeError::Lids),
        None => Service::<SwitchedKind>::work(settings, config, beside, listener).await,
    }
}

/// What one of several fabrics shares with the others; of one fabric nothing.
#[derive(Clone, Default)]
pub(super) struct Beside {
    /// Where it asks the batch system.
    pub(super) place: Option<Place>,
    pub(super) neighbours: Neighbours,
    /// The settings of all fabrics: nodes for jobs are chosen on all.
    pub(super) fabrics: Vec<Settings>,
}

impl Beside {
    /// Who is asked for the jobs.
    pub(super) fn jobs(&self, settings: &Settings) -> Box<dyn JobSource> {
        match &self.place {
            Some(place) => place.source(settings),
            None => job_source(settings),
        }
    }

    /// Another fabric had an answer from the batch system; never of one fabric.
    async fn told(&self) {
        match &self.place {
            Some(place) => place.told().await,
            None => std::future::pending().await,
        }
    }

    fn has_news(&self) -> bool {
        self.place.as_ref().is_some_and(Place::has_news)
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// The health file is not written more often for what prologs say.
const SELDOM: Duration = Duration::from_secs(1);

/// Something that runs beside the loop.
pub(super) type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The service of one network: what is common to all kinds, and the kind.
pub(super) struct Service<K> {
    pub(super) kind: K,
    pub(super) settings: Settings,
    pub(super) beside: Beside,
    pub(super) store: EpochStore,
    /// Directories of jobs.
    pub(super) jobs_root: PathBuf,
    pub(super) health: Health,
    /// What others ask.
    commands: Commands,
    /// Sockets; nothing is open for one pass.
    servers: Servers,
    /// `None` for one pass.
    config: Option<ConfigFile>,
    placing: Placing,
    pub(super) recorder: Option<Recorder>,
    /// Nobody else serves this state directory; `None` for one pass.
    alone: Option<Serving>,
    systemd: Systemd,
    trouble_log: TroubleLog,
    pub(super) waiting: Waiting,
    /// When the newest look began, by [`steady`].
    pub(super) looked_at: DateTime<Utc>,
    /// Prologs said something that the health file does not have.
    is_behind: bool,
    /// Whether there will be another pass.
    pub(super) goes_on: bool,
}

/// What the loop woke up for.
enum Woken<D> {
    Stop(&'static str),
    /// By SIGHUP.
    Asked,
    /// Something is due.
    Tick,
    /// Something ended beside the loop.
    Done(D),
    Command(Command),
    Changed(Changed),
    /// Another fabric had an answer from the batch system.
    Told,
    Alive,
}

/// Creates the state directory. What is wrong with it otherwise is reported by the pass, but for root in a directory of
/// another user: what root leaves there the owner's service could neither replace nor remove.
fn identify(store: &EpochStore) -> Result<(), StoreError> {
    match store.lock().and_then(|mut writer| writer.identify()) {
        Err(error) if !store.path().is_dir() || matches!(error, StoreError::Foreign { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Removes what a service that was killed left beside what it told jobs.
fn tidy(state: &Path) {
    if let Err(error) = job::tidy(&state.join(JOBS_DIRECTORY)) {
        warn!("{}", chain(&error));
    }
}

impl<K: Kind> Service<K> {
    async fn work(
        settings: Settings,
        config: Option<&Path>,
        beside: Beside,
        listener: Listener<'_>,
    ) -> Result<Option<Failure>, ServeError> {
        // Before any socket is open: who sees one may send a signal.
        let signals = config.map(|_| Signals::new()).transpose()?;
        let service = Self::start(settings, config, beside)?;
        match signals {
            Some(signals) => service.run(signals, listener).await.map(|()| None),
            None => Ok(service.once(listener).await),
        }
    }

    /// With a settings file it serves, without it is for one pass.
    fn start(settings: Settings, config: Option<&Path>, beside: Beside) -> Result<Self, ServeError> {
        let serving = config.is_some();
        let ready = K::ready(&settings, beside.jobs(&settings))?;
        if let (Some(_), Some(of_all)) = (&settings.name, settings.state.directory.parent()) {
            // There already, or what is wrong is said below.
            let _ = std::fs::create_dir(of_all);
        }
        let store = EpochStore::open(&settings.state.directory)?;
        identify(&store)?;
        let alone = serving.then(|| store.serve()).transpose()?;
        alone.iter().for_each(|_| tidy(&settings.state.directory));
        let (handle, commands) = Handle::new();
        let mut servers = Servers::new(handle, store.clone());
        let mut placing = Placing::default();
        if serving {
            let opened = servers.prepare(&settings)?;
            placing.follow(&settings, &beside.fabrics)?;
            servers.follow(opened);
        }
        let before = Health::read(&settings.state.directory).ok().flatten();
        let jobs_root = settings.state.directory.join(JOBS_DIRECTORY);
        let mut service = Self {
            kind: K::new(ready, &settings, &store, &jobs_root),
            waiting: Waiting::new(&K::rules(&settings)),
            health: health(serving, before.clone()),
            config: config.map(|path| ConfigFile::new(path, &settings)),
            store,
            jobs_root,
            commands,
            servers,
            placing,
            recorder: None,
            alone,
            systemd: Systemd::new(),
            trouble_log: TroubleLog::default(),
            looked_at: DateTime::UNIX_EPOCH,
            is_behind: false,
            goes_on: false,
            beside,
            settings,
        };
        K::begin(&mut service, before.as_ref());
        if let Some(bounds) = service.settings.record.filter(|_| serving) {
            // A process before this one may have ended while nothing could be recorded.
            let gap = before.is_some_and(|health| health.unrecorded.is_some());
            match service.recorder(&service.settings, bounds, gap) {
                Ok(recorder) => service.recorder = Some(recorder),
                // It goes on as soon as there is space.
                Err(error) if error.kind() == ErrorKind::StorageFull => note(&mut service.health, Err(error)),
                Err(error) => return Err(ServeError::Record(error)),
            }
        }
        Ok(service)
    }

    async fn run(mut self, mut signals: Signals, listener: Listener<'_>) -> Result<(), ServeError> {
        let (torus, engine) = K::names(&self.settings);
        info!(torus, state = %self.settings.state.directory.display(), engine, "serving");
        self.systemd.ready();
        self.goes_on = true;
        loop {
            match self.wake(&mut signals).await {
                Woken::Stop(signal) => {
                    info!(signal, "stopping");
                    break;
                }
                woken => {
                    // Another service has begun in a directory that was emptied: it is the one that everybody sees.
                    self.alone.as_mut().map_or(Ok(()), Serving::keep)?;
                    self.handle(woken, listener);
                }
            }
            self.systemd.alive();
            self.servers.reopen();
            self.placing.reopen();
        }
        self.systemd.stopping();
        self.servers.end();
        K::end(&mut self, listener).await;
        self.health.serving = false;
        self.health.next_pass = None;
        self.health.ended = Some(Utc::now());
        self.write_health();
        Ok(())
    }

    async fn wake(&mut self, signals: &mut Signals) -> Woken<K::Done> {
        let due = self.kind.due();
        let due = due.into_iter().chain(self.waiting.handoff.due(due.is_some())).min();
        let pause = due.map(|due| (due - steady()).to_std().unwrap_or_default());
        tokio::select! {
            biased;
            _ = signals.terminate.recv() => Woken::Stop("SIGTERM"),
            _ = signals.interrupt.recv() => Woken::Stop("SIGINT"),
            _ = signals.hangup.recv() => Woken::Asked,
            done = self.kind.finished() => Woken::Done(done),
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => Woken::Tick,
            () = self.systemd.due() => Woken::Alive,
            () = tokio::time::sleep(SELDOM), if self.is_behind => Woken::Alive,
            changed = changed(&self.config) => Woken::Changed(changed),
            () = self.beside.told() => Woken::Told,
            // Last: however much is asked, the service's own work comes first.
            Some(command) = self.commands.recv() => Woken::Command(command),
        }
    }

    async fn once(mut self, listener: Listener<'_>) -> Option<Failure> {
        self.handle(Woken::Tick, listener);
        while self.kind.is_busy() {
            let done = self.kind.finished().await;
            self.handle(Woken::Done(done), listener);
        }
        K::end(&mut self, listener).await;
        self.health.next_pass = None;
        self.write_health();
        self.health.failing
    }
}

/// At the start. A tick continues the count of the ticks before it.
fn health(serving: bool, before: Option<Health>) -> Health {
    let new = Health::new(Utc::now(), serving);
    match before.filter(|_| !serving) {
        Some(before) => {
            Health { time: new.time, pid: new.pid, serving, next_pass: None, ended: None, ..before }
        }
        None => new,
    }
}

/// What ends a service, and what makes it look.
pub(super) struct Signals {
    pub(super) terminate: Signal,
    pub(super) interrupt: Signal,
    pub(super) hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// The result of a task, which is then forgotten; waits for ever if there is none.
pub(super) async fn finished<T>(task: &mut Option<Task<T>>) -> T {
    match task {
        Some(running) => {
            let result = running.as_mut().await;
            *task = None;
            result
        }
        None => std::future::pending().await,
    }
}

/// Settings are at most a year.
pub(super) fn delta(duration: std::time::Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}
