//! Chooses nodes for tagged jobs while they wait, in a thread of its own beside the service's loop.
//!
//! Two ways, one brain ([`crate::placement`]):
//! - [`hold`]: jobs are held as administrator, given `ReqNodeList`, released. Any Slurm.
//! - [`select`]: a plugin inside slurmctld asks for sets that were chosen before it asks.
//!
//! Routing is never why a job does not start: whatever fails here, jobs are let go.

mod boards;
pub mod control;
pub mod hold;
pub mod ledger;
mod said;
pub mod select;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::watch;
use tracing::{error, info, warn};

use self::boards::Boards;
use self::control::Control;
use self::hold::{Act, Advice, Holds, Look, Rules};
use self::said::Said;
use self::select::{Answers, Server};
use super::chain;
use crate::config::{Placement, Settings};
use crate::model::{JobId, JobMap, Mix, NodeName, TrafficRules};
use crate::observe::pending::Wants;
use crate::observe::slurm::{Squeue, SqueueFormat};
use crate::observe::source::{JobSource, PollError};
use crate::pass::step::View;
use crate::placement::{self, Board, Insist, Predicted, Question, Running, Switched};

/// Looks that may follow each other without a pause, as long as something was done.
const AT_ONCE: u32 = 3;

/// The thread and its socket. Ends, and lets all held jobs go, when dropped.
#[derive(Default)]
pub struct Placing {
    answers: Arc<Answers>,
    /// Tells the thread its settings; it ends when this is dropped.
    orders: Option<watch::Sender<Orders>>,
    thread: Option<JoinHandle<()>>,
    /// Ends before the thread.
    server: Option<Server>,
}

/// What the thread goes by.
#[derive(Clone)]
struct Orders {
    settings: Settings,
    /// All fabrics on which sets are judged.
    fabrics: Vec<Settings>,
}

impl Placing {
    /// Does from now on what the settings ask for. With `hold` off there may still be jobs that an
    /// earlier service, or earlier settings, held: they are let go. Sets are judged on all of `others` too, the
    /// fabrics of the service; none of one fabric.
    ///
    /// # Errors
    /// If the socket or the thread cannot be had. Nothing has changed then.
    pub fn follow(&mut self, settings: &Settings, others: &[Settings]) -> std::io::Result<()> {
        let wanted = settings.placement.select_socket.as_deref();
        let stays = self.server.as_ref().is_some_and(|server| Some(server.path()) == wanted);
        let server = match wanted.filter(|_| !stays) {
            Some(path) => Some(Server::start(path, Arc::clone(&self.answers))?),
            None => None,
        };
        let fabrics = if others.is_empty() { vec![settings.clone()] } else { others.to_vec() };
        let new = Orders { settings: settings.clone(), fabrics };
        match &self.orders {
            Some(orders) => drop(orders.send_replace(new)),
            None if wants_thread(settings) => self.start(new)?,
            None => {}
        }
        if !stays {
            self.server = server;
        }
        Ok(())
    }

    /// Listens again where somebody removed the socket.
    pub fn reopen(&mut self) {
        let Some(lost) = self.server.take_if(|server| !server.path().exists()) else { return };
        match Server::start(lost.path(), Arc::clone(&self.answers)) {
            Ok(server) => {
                warn!("somebody removed {}: it is opened again", server.path().display());
                self.server = Some(server);
                lost.leave();
            }
            // Its directory may be gone too, and come again.
            Err(_) => self.server = Some(lost),
        }
    }

    fn start(&mut self, new: Orders) -> std::io::Result<()> {
        let mut worker = Worker::new(&new, Arc::clone(&self.answers));
        let (orders, told) = watch::channel(new);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = move || runtime.block_on(worker.run(told));
        self.thread = Some(std::thread::Builder::new().name("placing".into()).spawn(work)?);
        self.orders = Some(orders);
        Ok(())
    }
}

/// Whether these settings choose nodes, or let go whom earlier ones held.
pub(super) fn wants_thread(settings: &Settings) -> bool {
    let placement = &settings.placement;
    let left = settings.state.directory.join(ledger::LEDGER_FILE).exists();
    placement.hold || placement.select_socket.is_some() || left
}

impl Drop for Placing {
    fn drop(&mut self) {
        drop(self.server.take());
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// Returns when nobody has orders any more.
async fn ended(orders: &watch::Receiver<Orders>) {
    let mut orders = orders.clone();
    while orders.changed().await.is_ok() {}
}

struct Worker {
    state: PathBuf,
    settings: Placement,
    traffic: TrafficRules,
    boards: Boards,
    squeue: Squeue,
    control: Control,
    answers: Arc<Answers>,
    holds: Holds,
    /// The newest look failed: said once.
    failing: bool,
    said: Said,
}

impl Worker {
    fn new(orders: &Orders, answers: Arc<Answers>) -> Self {
        let settings = &orders.settings;
        let state = settings.state.directory.clone();
        let holds = ledger::read(&state).unwrap_or_else(|e| {
            // Who is held is not known any more. Tagged jobs that an administrator holds would be
            // let go by hand; nothing is held again.
            error!("{e}: jobs that were held may have to be released by hand");
            Holds::default()
        });
        if !holds.records.is_empty() {
            info!(jobs = holds.records.len(), "jobs that an earlier service held");
        }
        Self {
            state,
            settings: settings.placement.clone(),
            traffic: settings.traffic.clone(),
            boards: Boards::of(&orders.fabrics),
            squeue: squeue(settings),
            control: Control::new(settings.placement.clone()),
            answers,
            holds,
            failing: false,
            said: Said::default(),
        }
    }

    fn follow(&mut self, Orders { settings, fabrics }: &Orders) {
        self.settings = settings.placement.clone();
        self.traffic = settings.traffic.clone();
        self.squeue = squeue(settings);
        self.control = Control::new(settings.placement.clone());
        self.boards.follow(fabrics);
    }

    async fn run(&mut self, mut orders: watch::Receiver<Orders>) {
        let mut in_a_row = 0;
        loop {
            if orders.has_changed().unwrap_or(false) {
                let new = orders.borrow_and_update().clone();
                self.follow(&new);
            }
            if self.is_idle() {
                match orders.changed().await {
                    Ok(()) => orders.mark_changed(),
                    Err(_) => break,
                }
                continue;
            }
            // What a pass decided is done before other settings count; only the end breaks it off.
            let did = tokio::select! {
                biased;
                () = ended(&orders) => break,
                did = self.pass() => did,
            };
            in_a_row = if did { in_a_row + 1 } else { 0 };
            if in_a_row < AT_ONCE && did {
                continue;
            }
            in_a_row = 0;
            let pause = tokio::time::sleep(self.settings.interval);
            tokio::select! {
                biased;
                changed = orders.changed() => match changed {
                    Ok(()) => orders.mark_changed(),
                    Err(_) => break,
                },
                () = pause => {}
            }
        }
        let bound = orders.borrow().settings.service.stop_deadline;
        let acts = self.holds.close(None);
        if tokio::time::timeout(bound, self.act(&acts)).await.is_err() {
            warn!("not all held jobs were let go in time: run sarouter release-held");
        }
    }

    /// Whether the settings ask for nothing and nobody is held: Slurm is then left in peace.
    fn is_idle(&self) -> bool {
        !self.settings.hold && self.settings.select_socket.is_none() && self.holds.records.is_empty()
    }

    /// Looks, decides, acts; whether anything was done.
    async fn pass(&mut self) -> bool {
        let ours = self.holds.records.keys().cloned().collect();
        let mut look = match self.control.look(&ours, &mut self.said).await {
            Ok(look) => look,
            Err(e) => {
                if !std::mem::replace(&mut self.failing, true) {
                    warn!("placement sees nothing: {}", chain(&e));
                }
                self.answers.forget();
                return false;
            }
        };
        self.failing = false;
        look.jobs.iter_mut().for_each(|job| job.guess(&self.traffic));
        let tagged = look.jobs.iter().any(|j| hold::tag(&j.admin_comment).is_some());
        if !tagged && self.holds.records.is_empty() && self.settings.select_socket.is_none() {
            return false;
        }
        let running = self.running().await;
        if self.settings.select_socket.is_some() {
            if let (Some(board), Some((_, traffic))) = (self.boards.board(), &running) {
                self.answers.prepare((board, traffic), &look, self.settings.isolated, Utc::now());
            }
        }
        self.hold(&look, running.as_ref().map(|(_, traffic)| traffic), Utc::now()).await
    }

    async fn hold(&mut self, look: &Look, traffic: Option<&Running>, now: DateTime<Utc>) -> bool {
        let delta = |d: Duration| TimeDelta::from_std(d).unwrap_or(TimeDelta::MAX);
        let most = if self.settings.hold { self.settings.max_held } else { 0 };
        let rules =
            Rules { deadline: delta(self.settings.deadline), start: delta(self.settings.start), most };
        let (before, isolated) = (self.holds.clone(), self.settings.isolated);
        let board = self.boards.board();
        let mut acts =
            self.holds.step(now, look, &rules, |wants, insist, candidates| match (board, traffic) {
                (Some(board), Some(traffic)) => {
                    advise((board, traffic), wants, (insist, isolated), candidates)
                }
                // Neither fabric nor jobs: the batch system knows better.
                _ => Advice::Any,
            });
        if self.holds != before {
            if let Err(e) = ledger::write(&self.state, &self.holds) {
                // Nobody is held whose deadline is not on the disk.
                error!("{}", chain(&e));
                acts.retain(|act| !matches!(act, Act::Hold(_)));
                self.holds.records.retain(|id, _| before.records.contains_key(id));
            }
        }
        self.act(&acts).await;
        !acts.is_empty()
    }

    async fn act(&self, acts: &[Act]) {
        for act in acts {
            if let Err(e) = self.control.act(act).await {
                warn!(act = %act, "{}", chain(&e));
            }
        }
    }

    /// The running jobs on the fabric of now; `None` if either is not to be had.
    async fn running(&mut self) -> Option<(JobMap, Running)> {
        self.boards.look().await;
        let jobs = match self.squeue.poll(Utc::now()).await {
            Ok(jobs) => jobs,
            Err(e) => {
                self.said.say(format!("placement without running jobs: {}", chain(&e)));
                return None;
            }
        };
        let board = self.boards.board()?;
        let nodes: Vec<Vec<u32>> = jobs.jobs.iter().map(|job| board.numbers(&job.nodes)).collect();
        let traffic = board.running(&nodes);
        Some((jobs, traffic))
    }
}

fn squeue(settings: &Settings) -> Squeue {
    let slurm = &settings.slurm;
    Squeue::new(&slurm.squeue, SqueueFormat::Text, slurm.deadline, slurm.output_limit)
}

/// What the brain says of a job, in the words of [`hold`].
fn advise(
    (board, traffic): (&Board, &Running),
    wants: &Wants,
    (insist, isolated): (Insist, bool),
    candidates: &[NodeName],
) -> Advice {
    let numbers = board.numbers(candidates);
    let question =
        Question { nodes: wants.nodes, candidates: &numbers, insist, mix: wants.mix.as_ref(), isolated };
    match board.choose(traffic, question) {
        placement::Recommendation::Chosen(choice) => {
            let (usual, slowdown) = (choice.usual.map(|u| u.max), choice.predicted.slowdown);
            let usual_slowdown = choice.usual.and_then(|u| u.slowdown);
            let (predicted, gain) = (choice.predicted.max, choice.gain());
            info!(predicted, usual, gain, slowdown, usual_slowdown, "chose nodes");
            Advice::Nodes(choice.nodes.iter().map(|n| board.names()[*n as usize].clone()).collect())
        }
        placement::Recommendation::Any(_) => Advice::Any,
        placement::Recommendation::No(_) => Advice::Wait,
    }
}

/// Lets go of the jobs of a service that is not there: those whose deadline has passed, or all.
/// Returns how many. The service, if there is one after all, finds them released.
///
/// # Errors
/// If it is not known who is held, or, when all were tried, what Slurm said of the first that it refused.
pub fn release(settings: &Settings, all: bool) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let holds = ledger::read(&settings.state.directory)?;
    let acts = holds.close((!all).then(Utc::now));
    if acts.is_empty() {
        return Ok(0);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let control = Control::new(settings.placement.clone());
    runtime.block_on(async {
        // A job that started meanwhile is none of ours any more.
        let ours = holds.records.keys().cloned().collect();
        let Look { jobs: pending, unknown, .. } = control.look(&ours, &mut Said::default()).await?;
        let (mut released, mut failed) = (0, None);
        for act in &acts {
            let Act::Free(id, _) = act else { continue };
            let waits = pending.iter().any(|j| j.id == *id && hold::tag(&j.admin_comment).is_some());
            if !waits && !unknown.contains(id) {
                continue;
            }
            // One that is unknown may have ended: the others are let go all the same.
            match control.act(act).await {
                Ok(()) => released += 1,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(released), |error| Err(error.into()))
    })
}

/// What placement would do for a tagged job that waits.
#[derive(Debug, Clone, schemars::JsonSchema, serde::Serialize)]
pub struct Outlook {
    /// Number by which Slurm knows it.
    pub job: JobId,
    /// Nodes it wants.
    pub wants: usize,
    /// The nodes it would get now; null if there is nothing to recommend.
    pub nodes: Option<Vec<NodeName>>,
    /// What it exchanges, as it says or as a rule guesses; null: everybody with everybody.
    pub traffic: Option<Mix>,
    /// What is predicted for them.
    pub predicted: Option<Predicted>,
    /// The same for the batch system's own choice.
    pub usual: Option<Predicted>,
}

/// What placement would do now for the tagged jobs that wait, each beside those before it; `others` are all fabrics of
/// the service.
///
/// # Errors
/// If Slurm does not answer or is not understood.
pub async fn outlook(
    settings: &Settings,
    others: &[Settings],
    view: &View,
) -> Result<Vec<Outlook>, PollError> {
    let control = Control::new(settings.placement.clone());
    let mut look = control.look(&BTreeSet::new(), &mut Said::default()).await?;
    look.jobs.iter_mut().for_each(|job| job.guess(&settings.traffic));
    look.jobs.retain(|j| hold::tag(&j.admin_comment).is_some() && j.wants.nodes > 1 && j.required.is_empty());
    if look.jobs.is_empty() {
        return Ok(Vec::new());
    }
    let mut boards = Boards::of(others);
    if others.len() > 1 {
        boards.look().await;
    }
    let here = Board::Switched(Switched::new(&view.fabric, &view.nodes));
    let board = boards.board().unwrap_or(&here);
    let mut running: Vec<Vec<u32>> = view.jobs.jobs.iter().map(|j| board.numbers(&j.nodes)).collect();
    let mut found = Vec::new();
    for job in &look.jobs {
        let taken: BTreeSet<u32> = running.iter().flatten().copied().collect();
        let mut candidates = board.numbers(&job.wants.candidates(&look.idle).unwrap_or_default());
        candidates.retain(|n| !taken.contains(n));
        let (nodes, mix) = (job.wants.nodes, job.wants.mix.as_ref());
        let (insist, isolated) = (Insist::Require, settings.placement.isolated);
        let question = Question { nodes, candidates: &candidates, insist, mix, isolated };
        let mut outlook = Outlook {
            job: job.id.clone(),
            wants: job.wants.nodes,
            nodes: None,
            traffic: job.wants.mix.clone(),
            predicted: None,
            usual: None,
        };
        if let placement::Recommendation::Chosen(choice) = board.choose(&board.running(&running), question) {
            outlook.nodes = Some(choice.nodes.iter().map(|n| board.names()[*n as usize].clone()).collect());
            outlook.predicted = Some(choice.predicted);
            outlook.usual = choice.usual;
            running.push(choice.nodes);
        }
        found.push(outlook);
    }
    Ok(found)
}
