//! The tokio shell around [`Step`]: clock, signals, children, threads, log, health file.

mod events;
mod files;
mod lft_file;
mod memory;
mod neighbours;
mod opensm;
mod outcome;
pub(in crate::service) mod reload;
pub mod several;
pub(in crate::service) mod waiting;

use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use self::files::{InForce, JobFiles};
use self::lft_file::{Delivered, Delivery};
use self::neighbours::Neighbours;
use self::reload::{ConfigFile, changed, rhythm};
use self::waiting::Waiting;
use super::api::listen::{ListenError, allow_many_files};
use super::api::servers::Servers;
use super::clock::steady;
use super::command::{Command, Commands, Handle};
use super::health::teller::Teller;
use super::health::{Acknowledged, Failure, Health};
use super::lids::Lids;
use super::look::{LookError, Looker, Sight};
use super::pass::{EpochLine, PassError, Passed};
use super::placing::Placing;
use super::record::{Made, Recorder, note};
use super::systemd::Systemd;
use super::torus::{self, TorusService};
use super::watch::Changed;
use crate::config::Settings;
use crate::model::Fingerprint;
use crate::pass::step::{Event, Step};
use crate::publish::job::JOBS_DIRECTORY;
use crate::publish::{EpochStore, Serving, StoreError};
use crate::route::angara::TorusRouteError;
use crate::route::{self, EngineOptions, RouteError};

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
    /// The settings name an engine that does not exist.
    #[error(transparent)]
    Engine(#[from] RouteError),
    /// The settings name an engine that does not exist for a direct torus.
    #[error(transparent)]
    TorusEngine(#[from] TorusRouteError),
    /// The settings name no fabric.
    #[error(transparent)]
    Look(#[from] LookError),
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The socket cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
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
    /// A direct torus among several fabrics.
    #[error("a direct torus has a service of its own: write its settings as one [fabric]")]
    TorusOfSeveral,
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
    let result = runtime.block_on(async {
        // Before any socket is open: who sees one may send a signal.
        let signals = Signals::new()?;
        match torus::source(&settings) {
            Some(source) => TorusService::start(settings, source, Some(config))?.run(signals, listener).await,
            None => Service::start(settings, Some(config))?.run(signals, listener).await,
        }
    });
    // A computation that did not finish in time is not waited for.
    runtime.shutdown_background();
    result
}

/// One pass, and OpenSM's acknowledgement if it made an epoch.
///
/// # Errors
/// Only at the start. Returns the failure of the pass, if it failed.
pub fn tick(settings: Settings, listener: Listener<'_>) -> Result<Option<Failure>, ServeError> {
    let runtime = runtime()?;
    match torus::source(&settings) {
        Some(source) => {
            runtime.block_on(async { Ok(TorusService::start(settings, source, None)?.once().await) })
        }
        None if settings.split_lids => Err(ServeError::Lids),
        None => runtime.block_on(async { Service::start(settings, None)?.once(listener).await }),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Answer = Result<Acknowledged, Failure>;

struct Service {
    settings: Settings,
    store: EpochStore,
    step: Step,
    health: Health,
    /// What others ask.
    commands: Commands,
    /// Sockets; nothing is open for one pass.
    servers: Servers,
    /// `None` for one pass.
    config: Option<ConfigFile>,
    placing: Placing,
    recorder: Option<Recorder>,
    /// Nobody else serves this state directory; `None` for one pass.
    _serving: Option<Serving>,
    /// The epoch behind the next event, for the recording.
    made: Option<Made>,
    /// Its figures, for the history.
    figures: Option<memory::EpochFigures>,
    /// The writer of the history.
    remembering: Option<tokio::task::JoinHandle<()>>,
    systemd: Systemd,
    /// When the newest look began, by [`steady`].
    looked_at: DateTime<Utc>,
    /// Not here while it looks.
    looker: Option<Looker>,
    /// For new settings: takes the place of one that looks.
    next_looker: Option<Looker>,
    looking: Option<Task<(Looker, Result<Sight, LookError>)>>,
    routing: Option<Task<Result<Passed, PassError>>>,
    acknowledging: Option<Task<Answer>>,
    delivery: Delivery,
    /// The look behind the decision.
    sight: Option<Sight>,
    /// The fabric of an epoch that is the first of two steps, until the second is made.
    halfway: Option<Fingerprint>,
    /// The epoch in force, and when it came into force on the disk.
    published: Option<(u64, DateTime<Utc>)>,
    waiting: Waiting,
    /// What jobs are told of the epoch in force.
    in_force: Option<Arc<InForce>>,
    /// Which of a port's two LIDs jobs use.
    lids: Lids,
    files: JobFiles,
    teller: Teller,
    neighbours: Neighbours,
}

/// What the loop woke up for.
enum Woken {
    Stop(&'static str),
    Event(Event),
    Looked(Box<(Looker, Result<Sight, LookError>)>),
    Routed(Box<Result<Passed, PassError>>),
    Answered(Answer),
    Delivered(Delivered),
    Command(Command),
    Changed(Changed),
    Alive,
}

impl Service {
    /// With a settings file it serves, without it is for one pass.
    fn start(settings: Settings, config: Option<&Path>) -> Result<Self, ServeError> {
        let serving = config.is_some();
        for engine in settings.routing.engines() {
            route::engine(engine, &EngineOptions::default())?;
        }
        if let (Some(_), Some(of_all)) = (&settings.name, settings.state.directory.parent()) {
            // There already, or what is wrong is said below.
            let _ = std::fs::create_dir(of_all);
        }
        let store = EpochStore::open(&settings.state.directory)?;
        // Creates the directory. Anything else that is wrong is reported by the pass.
        if let Err(error) = store.lock().and_then(|mut writer| writer.identify()) {
            if !store.path().is_dir() {
                return Err(error.into());
            }
        }
        let alone = serving.then(|| store.serve()).transpose()?;
        let rhythm = rhythm(&settings);
        // A process before this one may have ended while nothing could be recorded.
        let gap =
            Health::read(&settings.state.directory).is_ok_and(|h| h.is_some_and(|h| h.unrecorded.is_some()));
        let recorder = settings.record.filter(|_| serving);
        let recorder = recorder.map(|bounds| Recorder::open(&store, bounds, rhythm, gap, Utc::now()));
        let (recorder, unrecorded) = match recorder.transpose() {
            Ok(recorder) => (recorder, None),
            // It goes on as soon as there is space.
            Err(error) if error.kind() == ErrorKind::StorageFull => (None, Some(error)),
            Err(error) => return Err(ServeError::Record(error)),
        };
        let (handle, commands) = Handle::new();
        let mut servers = Servers::new(handle, store.clone());
        let mut placing = Placing::default();
        if serving {
            let opened = servers.prepare(&settings)?;
            placing.follow(&settings)?;
            servers.follow(opened);
        }
        let now = Utc::now();
        let jobs_root = settings.state.directory.join(JOBS_DIRECTORY);
        let mut waiting = Waiting::new(&settings.handoff);
        waiting.remember_traffic(&jobs_root);
        let mut health = Health::new(now, serving);
        if !serving {
            // A tick continues the count of the ticks before it.
            if let Ok(Some(before)) = Health::read(&settings.state.directory) {
                health =
                    Health { time: now, pid: health.pid, serving, next_pass: None, ended: None, ..before };
            }
        }
        if let Some(error) = unrecorded {
            note(&mut health, Err(error));
        }
        Ok(Self {
            looker: Some(Looker::new(settings.clone())?),
            step: Step::new(rhythm, steady()),
            waiting,
            in_force: None,
            lids: Lids::load(&jobs_root),
            files: JobFiles::new(jobs_root),
            store,
            health,
            commands,
            servers,
            config: config.map(|path| ConfigFile::new(path, &settings)),
            placing,
            recorder,
            _serving: alone,
            made: None,
            figures: None,
            remembering: None,
            systemd: Systemd::new(),
            next_looker: None,
            looked_at: DateTime::UNIX_EPOCH,
            looking: None,
            routing: None,
            acknowledging: None,
            delivery: Delivery::default(),
            sight: None,
            halfway: None,
            published: None,
            teller: Teller::default(),
            neighbours: Neighbours::default(),
            settings,
        })
    }

    async fn run(mut self, mut signals: Signals, listener: Listener<'_>) -> Result<(), ServeError> {
        info!(state = %self.settings.state.directory.display(), engine = self.settings.routing.engine, "serving");
        self.systemd.ready();
        loop {
            match self.wake(&mut signals).await {
                Woken::Stop(signal) => {
                    info!(signal, "stopping");
                    break;
                }
                woken => self.handle(woken, listener),
            }
            self.systemd.alive();
        }
        self.systemd.stopping();
        self.stop(listener).await;
        Ok(())
    }

    async fn wake(&mut self, signals: &mut Signals) -> Woken {
        let due = self.step.due();
        let due = due.into_iter().chain(self.waiting.handoff.due(due.is_some())).min();
        let pause = due.map(|due| (due - steady()).to_std().unwrap_or_default());
        tokio::select! {
            biased;
            _ = signals.terminate.recv() => Woken::Stop("SIGTERM"),
            _ = signals.interrupt.recv() => Woken::Stop("SIGINT"),
            _ = signals.hangup.recv() => Woken::Event(Event::Asked),
            answer = finished(&mut self.acknowledging) => Woken::Answered(answer),
            looked = finished(&mut self.looking) => Woken::Looked(Box::new(looked)),
            result = finished(&mut self.routing) => Woken::Routed(Box::new(result)),
            done = finished(&mut self.delivery.task) => Woken::Delivered(done),
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => Woken::Event(Event::Tick),
            () = self.systemd.due() => Woken::Alive,
            changed = changed(&self.config) => Woken::Changed(changed),
            // Last: however much is asked, the service's own work comes first.
            Some(command) = self.commands.recv() => Woken::Command(command),
        }
    }

    /// Kills a running `squeue`, gives a computation the time of the settings.
    async fn stop(&mut self, listener: Listener<'_>) {
        self.looking = None;
        self.servers.end();
        if self.routing.is_some() {
            let bound = self.settings.service.stop_deadline;
            match tokio::time::timeout(bound, finished(&mut self.routing)).await {
                Ok(result) => drop(self.routed(result, listener)),
                Err(_) => warn!("a computation is abandoned"),
            }
        }
        self.health.serving = false;
        self.health.next_pass = None;
        self.health.ended = Some(Utc::now());
        self.write_health();
    }

    async fn once(mut self, listener: Listener<'_>) -> Result<Option<Failure>, ServeError> {
        self.handle(Woken::Event(Event::Tick), listener);
        let looked = finished(&mut self.looking).await;
        self.handle(Woken::Looked(Box::new(looked)), listener);
        if self.routing.is_some() {
            let result = finished(&mut self.routing).await;
            self.handle(Woken::Routed(Box::new(result)), listener);
        }
        if self.acknowledging.is_some() {
            let answer = finished(&mut self.acknowledging).await;
            self.answered(answer, listener);
        }
        if self.delivery.task.is_some() {
            let done = finished(&mut self.delivery.task).await;
            self.delivered(done);
        }
        self.health.next_pass = None;
        self.write_health();
        Ok(self.health.failing)
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
async fn finished<T>(task: &mut Option<Task<T>>) -> T {
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
