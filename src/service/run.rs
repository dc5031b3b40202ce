//! The tokio shell around [`Step`]: clock, signals, children, threads, log, health file.

mod files;
mod memory;
mod reload;
pub(in crate::service) mod waiting;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{debug, error, info, info_span, warn};

use self::files::{InForce, JobFiles};
use self::reload::{Stamp, changed, rhythm};
use self::waiting::Waiting;
use super::acknowledge::acknowledgement;
use super::api::listen::ListenError;
use super::api::{self, Api};
use super::chain;
use super::command::{Command, Handle};
use super::health::{Acknowledged, Failure, Health, Stage};
use super::look::{LookError, Looker, Sight};
use super::pass::{EpochLine, PassError, Passed, milliseconds, pass};
use super::placing::Placing;
use super::record::{Made, Recorder};
use super::step::{Action, Event, Step, View};
use super::systemd::Systemd;
use super::torus::{self, TorusService};
use super::watch::{Changed, Watch};
use crate::config::Settings;
use crate::model::NodeName;
use crate::publish::job::JOBS_DIRECTORY;
use crate::publish::{EpochStore, StoreError};
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
    let runtime = runtime()?;
    let result = match torus::source(&settings) {
        Some(source) => runtime.block_on(async { TorusService::start(settings, source, true)?.run().await }),
        None => {
            let _placing = Placing::start(&settings)?;
            runtime.block_on(async { Service::start(settings, Some(config))?.run(listener).await })
        }
    };
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
            runtime.block_on(async { Ok(TorusService::start(settings, source, false)?.once().await) })
        }
        None => runtime.block_on(async { Service::start(settings, None)?.once(listener).await }),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Between two looks that somebody wants.
const AGAIN: TimeDelta = TimeDelta::seconds(1);

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Answer = Result<Acknowledged, Failure>;

struct Service {
    settings: Settings,
    store: EpochStore,
    step: Step,
    health: Health,
    /// What others ask.
    commands: mpsc::Receiver<Command>,
    /// The servers of the sockets; they end with this.
    servers: tokio::task::JoinSet<()>,
    /// The settings file and what it looked like; `None` for one pass.
    config: Option<(PathBuf, Option<Stamp>)>,
    watch: Option<Watch>,
    recorder: Option<Recorder>,
    /// The epoch behind the next event, for the recording.
    made: Option<Made>,
    /// Its figures, for the history.
    figures: Option<memory::EpochFigures>,
    /// The writer of the history.
    remembering: Option<tokio::task::JoinHandle<()>>,
    systemd: Systemd,
    /// When the newest look began.
    looked_at: DateTime<Utc>,
    /// Not here while it looks.
    looker: Option<Looker>,
    /// For new settings: takes the place of one that looks.
    next_looker: Option<Looker>,
    looking: Option<Task<(Looker, Result<Sight, LookError>)>>,
    routing: Option<Task<Result<Passed, PassError>>>,
    acknowledging: Option<Task<Answer>>,
    /// The look behind the decision.
    sight: Option<Sight>,
    /// The epoch in force, and when it came into force on the disk.
    published: Option<(u64, DateTime<Utc>)>,
    waiting: Waiting,
    /// What jobs are told of the epoch in force.
    in_force: Option<Arc<InForce>>,
    files: JobFiles,
}

/// What the loop woke up for.
enum Woken {
    Stop(&'static str),
    Event(Event),
    Looked(Box<(Looker, Result<Sight, LookError>)>),
    Routed(Box<Result<Passed, PassError>>),
    Answered(Answer),
    Command(Command),
    Changed(Changed),
    Alive,
}

impl Service {
    /// With a settings file it serves, without it is for one pass.
    fn start(settings: Settings, config: Option<&Path>) -> Result<Self, ServeError> {
        let serving = config.is_some();
        route::engine(&settings.routing.engine, &EngineOptions::default())?;
        let store = EpochStore::open(&settings.state.directory)?;
        // Creates the directory. Anything else that is wrong is reported by the pass.
        if let Err(error) = store.lock() {
            if !store.path().is_dir() {
                return Err(error.into());
            }
        }
        let rhythm = rhythm(&settings);
        let recorder = match settings.record.filter(|_| serving) {
            Some(bounds) => Recorder::open(&store, bounds, rhythm, Utc::now()).map(Some),
            None => Ok(None),
        };
        let recorder = recorder.map_err(ServeError::Record)?;
        let (handle, commands) = Handle::new();
        let mut servers = tokio::task::JoinSet::new();
        if serving {
            listen(&settings, &store, &handle, &mut servers)?;
        }
        let now = Utc::now();
        let mut health = Health::new(now, serving);
        if !serving {
            // A tick continues the count of the ticks before it.
            if let Ok(Some(before)) = Health::read(&settings.state.directory) {
                health = Health { time: now, pid: health.pid, serving, next_pass: None, ..before };
            }
        }
        Ok(Self {
            looker: Some(Looker::new(settings.clone())?),
            step: Step::new(rhythm, now),
            waiting: Waiting::new(&settings.handoff),
            in_force: None,
            files: JobFiles::new(settings.state.directory.join(JOBS_DIRECTORY)),
            store,
            health,
            commands,
            servers,
            watch: config.map(|path| Watch::new(Some(path), &settings)),
            config: config.map(|path| (path.to_path_buf(), Stamp::of(path))),
            recorder,
            made: None,
            figures: None,
            remembering: None,
            systemd: Systemd::new(),
            next_looker: None,
            looked_at: DateTime::UNIX_EPOCH,
            looking: None,
            routing: None,
            acknowledging: None,
            sight: None,
            published: None,
            settings,
        })
    }

    async fn run(mut self, listener: Listener<'_>) -> Result<(), ServeError> {
        let mut signals = Signals::new()?;
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
        let pause = due.map(|due| (due - Utc::now()).to_std().unwrap_or_default());
        tokio::select! {
            biased;
            _ = signals.terminate.recv() => Woken::Stop("SIGTERM"),
            _ = signals.interrupt.recv() => Woken::Stop("SIGINT"),
            _ = signals.hangup.recv() => Woken::Event(Event::Asked),
            answer = finished(&mut self.acknowledging) => Woken::Answered(answer),
            looked = finished(&mut self.looking) => Woken::Looked(Box::new(looked)),
            result = finished(&mut self.routing) => Woken::Routed(Box::new(result)),
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => Woken::Event(Event::Tick),
            () = self.systemd.due() => Woken::Alive,
            changed = changed(&self.watch) => Woken::Changed(changed),
            // Last: however much is asked, the service's own work comes first.
            Some(command) = self.commands.recv() => Woken::Command(command),
        }
    }

    fn handle(&mut self, woken: Woken, listener: Listener<'_>) {
        self.handle_one(woken, listener);
        let now = Utc::now();
        self.waiting.handoff.tick(now);
        if self.step.due().is_some() && self.waiting.handoff.wants_look(now) {
            let action = self.step(now, Event::Asked);
            self.act(action);
        }
        for (released, replies) in self.waiting.let_go() {
            self.files.start(released.start, released.outcome, self.in_force.clone(), replies);
        }
        let told = self.health.handoff.announced + self.health.handoff.ended;
        let counters = self.waiting.handoff.counters();
        if counters.announced + counters.ended != told && now - self.health.time > SELDOM {
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
        let now = Utc::now();
        let action = self.step(now, event);
        if let Some(fresh_in) = fresh_in {
            self.step.look_by(now + delta(fresh_in));
        }
        self.act(action);
        if let Some(due) = self.step.due() {
            self.health.next_pass = Some(due);
            self.write_health();
        }
    }

    /// A look because somebody wants one: at once, unless the last one began just now. However often
    /// it is wanted, Slurm is asked once in [`AGAIN`].
    fn look_soon(&mut self) -> Option<Event> {
        let (now, soonest) = (Utc::now(), self.looked_at + AGAIN);
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
                let handoff = self.waiting.handoff.counters();
                let _ = reply.send(Health { handoff, ..self.health.clone() });
            }
            Command::View(reply) => {
                let _ = reply.send(self.sight.as_ref().map(|sight| Arc::clone(&sight.view)));
            }
            Command::Start(said, reply) => self.waiting.announce(Utc::now(), said, reply),
            Command::End(job, reply) => {
                self.waiting.ended(Utc::now(), &job);
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

    fn act(&mut self, action: Action) {
        match action {
            Action::Wait => {}
            Action::Look => {
                if let Some(mut looker) = self.looker.take() {
                    self.looked_at = Utc::now();
                    self.looking = Some(Box::pin(async move {
                        let result = looker.look(Utc::now()).await;
                        (looker, result)
                    }));
                }
            }
            Action::Keep(wanted) => {
                debug!(waiting = wanted.waiting, "nothing changed");
                self.succeeded(wanted.unknown_nodes, wanted.waiting);
                self.waiting.handoff.kept(Utc::now());
            }
            Action::Refrain(_) => {
                debug!("the same failed not long ago");
                self.waiting.handoff.failed(Utc::now());
            }
            Action::Route(view) => {
                let (store, keep) = (self.store.clone(), self.settings.state.keep_epochs);
                let route = tokio::task::spawn_blocking(move || pass(&store, keep, &view));
                self.routing = Some(Box::pin(async move {
                    route.await.unwrap_or_else(|error| Err(PassError::Aborted(error.to_string())))
                }));
            }
        }
    }

    fn looked(&mut self, result: Result<Sight, LookError>, listener: Listener<'_>) -> Event {
        match result {
            Ok(sight) => {
                if !sight.unknown_storage.is_empty() {
                    warn!(nodes = ?sight.unknown_storage, "storage nodes are not in the fabric");
                }
                if self.is_held() {
                    self.succeeded(Vec::new(), 0);
                    return Event::Held;
                }
                let jobs = self.waiting.handoff.merge(Utc::now(), &sight.view);
                let known = self.waiting.handoff.jobs().chain(jobs.jobs.iter().map(|j| &j.id));
                self.files.sweep(known.cloned().collect(), jobs.time);
                let view = Arc::new(View { jobs, ..(*sight.view).clone() });
                self.sight = Some(Sight { view: Arc::clone(&view), ..sight });
                Event::Seen(view)
            }
            Err(error) => {
                self.failed(error.stage(), &error, listener);
                Event::LookFailed
            }
        }
    }

    /// Whether an administrator holds what is in force. A hold that cannot be read is one.
    fn is_held(&mut self) -> bool {
        let held = match self.store.hold() {
            Ok(held) => held,
            Err(error) => {
                warn!("{error}");
                return true;
            }
        };
        if held.is_some() != self.health.held.is_some() {
            info!(held = held.is_some(), "an administrator's hold");
        }
        self.health.held = held;
        self.waiting.handoff.hold(Utc::now(), self.health.held.is_some());
        self.health.held.is_some()
    }

    fn routed(&mut self, result: Result<Passed, PassError>, listener: Listener<'_>) -> Event {
        match (result, &self.sight) {
            (Ok(passed), Some(sight)) => {
                let fabric = sight.view.fabric.fingerprint();
                let sight_view = Arc::clone(&sight.view);
                for warning in &passed.warnings {
                    warn!("{warning}");
                }
                let found = passed.in_force.filter(|_| passed.epoch.is_none());
                let is_new = passed.epoch.is_some();
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
                if let Some(((epoch, _), tables)) = self.published.zip(passed.tables) {
                    let view = &sight_view;
                    let (fabric, nodes) = (Arc::clone(&view.fabric), Arc::clone(&view.nodes));
                    let (budget, layer_per_job) = (view.policy.budget, view.policy.layer_per_job);
                    self.in_force =
                        Some(Arc::new(InForce { epoch, fabric, nodes, tables, budget, layer_per_job }));
                }
                if let Some((epoch, _)) = self.published {
                    let watched = self.settings.opensm.is_some();
                    let handoff = &mut self.waiting.handoff;
                    match is_new {
                        true => handoff.published(Utc::now(), epoch, &passed.demand, watched),
                        false => handoff.found(Utc::now(), epoch, &passed.demand, watched),
                    }
                }
                self.succeeded(passed.unknown_nodes, passed.waiting);
                Event::InForce(fabric, passed.demand)
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

    fn published(&mut self, line: EpochLine, listener: Listener<'_>) {
        let _span = info_span!("epoch", number = line.epoch).entered();
        info!(reason = ?line.reason, jobs = line.jobs, multi_switch = line.multi_switch, "published");
        self.health.published += 1;
        self.health.epoch = Some(line.epoch);
        self.health.acknowledged = None;
        self.health.unacknowledged = None;
        self.published = Some((line.epoch, line.time));
        self.figures = Some((line.reason, line.before, line.after));
        listener(&Note::Epoch(Box::new(line)));
        self.await_acknowledgement();
    }

    /// Begins to wait for OpenSM; gives up waiting for an earlier epoch.
    fn await_acknowledgement(&mut self) {
        if let (Some(opensm), Some((epoch, renamed))) = (&self.settings.opensm, self.published) {
            self.acknowledging = Some(Box::pin(acknowledgement(opensm.clone(), epoch, renamed)));
        }
    }

    fn answered(&mut self, answer: Answer, listener: Listener<'_>) {
        match answer {
            Ok(acknowledged) => {
                info!(
                    epoch = acknowledged.epoch,
                    ms = acknowledged.milliseconds,
                    "OpenSM has the epoch in force"
                );
                self.health.acknowledged = Some(acknowledged);
                self.health.unacknowledged = None;
                self.waiting.handoff.acknowledged(Utc::now(), acknowledged.epoch);
                listener(&Note::Acknowledged(acknowledged));
            }
            Err(failure) => {
                // Said once, tried again at each pass.
                if self.health.unacknowledged.is_none() {
                    error!("{}", failure.message);
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

    fn succeeded(&mut self, unknown_nodes: Vec<NodeName>, waiting: usize) {
        if !unknown_nodes.is_empty() && unknown_nodes != self.health.unknown_nodes {
            warn!(nodes = ?unknown_nodes, "nodes of jobs are not in the fabric");
        }
        self.health.unknown_nodes = unknown_nodes;
        self.health.waiting_jobs = waiting;
        self.health.succeeded(Utc::now());
        self.remember();
        if self.health.unacknowledged.is_some() && self.acknowledging.is_none() {
            self.await_acknowledgement();
        }
    }

    fn failed(&mut self, stage: Stage, error: &(dyn std::error::Error + 'static), listener: Listener<'_>) {
        let message = chain(error);
        error!(stage = stage.name(), "{message}");
        let failure = Failure { time: Utc::now(), stage, message };
        self.health.failed(failure.clone());
        self.waiting.handoff.failed(failure.time);
        listener(&Note::Failed(failure));
    }

    fn write_health(&mut self) {
        self.health.time = Utc::now();
        self.health.handoff = self.waiting.handoff.counters();
        self.systemd.status(self.health.line(self.health.time));
        if let Err(error) = self.health.write(&self.settings.state.directory) {
            warn!("{error}");
        }
    }

    /// Kills a running `squeue`, gives a computation the time of the settings.
    async fn stop(&mut self, listener: Listener<'_>) {
        self.looking = None;
        self.servers.abort_all();
        if let Some(api) = &self.settings.api {
            // What cannot be removed is replaced at the next start.
            let _ = std::fs::remove_file(&api.socket);
        }
        if self.routing.is_some() {
            let bound = self.settings.service.stop_deadline;
            match tokio::time::timeout(bound, finished(&mut self.routing)).await {
                Ok(result) => drop(self.routed(result, listener)),
                Err(_) => warn!("a computation is abandoned"),
            }
        }
        self.health.serving = false;
        self.health.next_pass = None;
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
        self.health.next_pass = None;
        self.write_health();
        Ok(self.health.failing)
    }
}

/// The health file is not written more often for what prologs say.
const SELDOM: TimeDelta = TimeDelta::seconds(1);

/// Opens the sockets of the settings.
pub(super) fn listen(
    settings: &Settings,
    store: &EpochStore,
    handle: &Handle,
    servers: &mut tokio::task::JoinSet<()>,
) -> Result<(), ServeError> {
    if let Some(api) = &settings.api {
        let listener = api::listen::bind(&api.socket)?;
        let rule = api::peer::Rule::new(api);
        let router = api::router(Api {
            handle: handle.clone(),
            store: store.clone(),
            settings: Arc::new(api.clone()),
            spool: settings.spool.clone(),
            workers: Arc::new(tokio::sync::Semaphore::new(api::WORKERS)),
        });
        if let Some(tcp) = &api.tcp {
            let (listener, tls) = api::network::bind(tcp)?;
            info!(address = %tcp.address, tls = tls.is_some(), "listening");
            let tokens = tcp.token_file.clone();
            servers.spawn(api::network::serve_tcp(listener, tls, router.clone(), tokens));
        }
        servers.spawn(api::listen::serve_unix(listener, router, rule));
    }
    Ok(())
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
