//! One question to the batch system for all fabrics of a service.
//!
//! Each fabric looks by itself. Who looks first asks, and those who look meanwhile wait for the same answer. When it
//! comes, the others are told, look at once and take it. So Slurm is asked as often as for one fabric, all fabrics
//! know the same jobs at the same time, and none waits for another: only the question is common, and it is bounded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use crate::config::{Rest, Settings, Slurm};
use crate::model::JobMap;
use crate::observe::source::{JobSource, Poll, PollError, job_source};

/// A fabric takes an answer that it has not had if it came no longer than this before its look.
const OF_NOW: TimeDelta = TimeDelta::seconds(1);

/// What the fabrics of one service ask together. Cheap to clone.
#[derive(Clone)]
pub struct Together {
    shared: Arc<Shared>,
    /// In one pass the answer is kept for those who ask when nobody else does any more.
    kept: Option<Arc<Mutex<Vec<Arc<Line>>>>>,
}

struct Shared {
    /// One for each way of asking: two while new settings are followed by some fabrics and not yet by all.
    lines: Mutex<Vec<Weak<Line>>>,
    /// Rung for a fabric when there is an answer that it has not had.
    bells: Vec<Notify>,
    of_now: TimeDelta,
}

impl Together {
    /// For so many fabrics that are served.
    pub fn of(fabrics: usize) -> Self {
        Self::within(fabrics, OF_NOW)
    }

    /// For one pass over so many fabrics, one after the other: they all have one answer, however long each takes.
    pub fn of_one_pass(fabrics: usize) -> Self {
        Self { kept: Some(Arc::default()), ..Self::within(fabrics, TimeDelta::MAX) }
    }

    fn within(fabrics: usize, of_now: TimeDelta) -> Self {
        let bells = (0..fabrics).map(|_| Notify::new()).collect();
        let shared = Shared { lines: Mutex::default(), bells, of_now };
        Self { shared: Arc::new(shared), kept: None }
    }

    /// The place of one of the fabrics, by its number.
    pub fn place(&self, fabric: usize) -> Place {
        Place { together: self.clone(), fabric }
    }

    /// The line of these settings, which is kept as long as somebody asks by it.
    fn line(&self, settings: &Settings) -> Arc<Line> {
        let way = Way::of(settings);
        let mut lines = lock(&self.shared.lines);
        lines.retain(|line| line.strong_count() > 0);
        if let Some(line) = lines.iter().filter_map(Weak::upgrade).find(|line| line.way == way) {
            return line;
        }
        let line = Arc::new(Line {
            way,
            settings: settings.clone(),
            shared: Arc::clone(&self.shared),
            state: Mutex::default(),
            answers: watch::Sender::new(None),
        });
        lines.push(Arc::downgrade(&line));
        self.kept.iter().for_each(|kept| lock(kept).push(Arc::clone(&line)));
        line
    }
}

/// One of the fabrics that ask together.
#[derive(Clone)]
pub struct Place {
    together: Together,
    fabric: usize,
}

impl Place {
    /// Who is asked by this fabric under these settings.
    pub fn source(&self, settings: &Settings) -> Box<dyn JobSource> {
        let line = self.together.line(settings);
        lock(&line.state).seats.entry(self.fabric).or_default().members += 1;
        Box::new(Member { line, fabric: self.fabric })
    }

    /// Waits until another fabric had an answer that may be news here.
    pub async fn told(&self) {
        match self.together.shared.bells.get(self.fabric) {
            Some(bell) => bell.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Whether there is an answer of now that this fabric has not had.
    pub fn has_news(&self) -> bool {
        let lines: Vec<Arc<Line>> =
            lock(&self.together.shared.lines).iter().filter_map(Weak::upgrade).collect();
        lines.iter().any(|line| lock(&line.state).news_for(self.fabric, Utc::now(), line.shared.of_now))
    }
}

/// What decides how the batch system is asked.
#[derive(PartialEq)]
struct Way {
    slurm: Slurm,
    rest: Option<Rest>,
    spool: Option<PathBuf>,
    interval: Duration,
}

impl Way {
    fn of(settings: &Settings) -> Self {
        Self {
            slurm: settings.slurm.clone(),
            rest: settings.rest.clone(),
            spool: settings.spool.clone(),
            interval: settings.service.interval,
        }
    }
}

/// A way of asking, and what came of it.
struct Line {
    way: Way,
    settings: Settings,
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// The newest answer, for those who wait for it.
    answers: watch::Sender<Option<Arc<SharedJobs>>>,
}

#[derive(Default)]
struct State {
    /// Not here while it is asked, and before the first question.
    source: Option<Box<dyn JobSource>>,
    /// The question that is under way.
    asking: Option<AbortHandle>,
    /// The newest question.
    number: u64,
    newest: Option<Arc<SharedJobs>>,
    seats: BTreeMap<usize, Seat>,
}

/// A fabric that asks in this way.
#[derive(Default)]
struct Seat {
    /// Its sources; two while new settings take the place of old ones.
    members: usize,
    /// The newest question whose answer it has, or waits for.
    taken: u64,
}

struct SharedJobs {
    number: u64,
    came: DateTime<Utc>,
    /// The source goes on with it until then.
    fresh_until: Option<Instant>,
    jobs: Result<JobMap, Arc<PollError>>,
}

impl State {
    fn news_for(&self, fabric: usize, now: DateTime<Utc>, of_now: TimeDelta) -> bool {
        let seat = self.seats.get(&fabric);
        let is_new = |answer: &&Arc<SharedJobs>| seat.is_some_and(|seat| seat.taken < answer.number);
        self.newest.as_ref().filter(is_new).is_some_and(|answer| now - answer.came <= of_now)
    }
}

impl Line {
    /// The question whose answer a look of a fabric waits for, which began at `now`. Asks unless there is one.
    fn ask(self: &Arc<Self>, fabric: usize, now: DateTime<Utc>) -> u64 {
        let mut state = lock(&self.state);
        let is_asking = state.asking.as_ref().is_some_and(|task| !task.is_finished());
        if !is_asking && !state.news_for(fabric, now, self.shared.of_now) {
            let source = state.source.take().unwrap_or_else(|| job_source(&self.settings));
            state.number += 1;
            state.asking = Some(self.begin(state.number, source, now));
        }
        let number = state.number;
        state.seats.entry(fabric).or_default().taken = number;
        number
    }

    /// Asks beside all loops: none that gives up breaks it off for the others.
    fn begin(
        self: &Arc<Self>,
        number: u64,
        mut source: Box<dyn JobSource>,
        now: DateTime<Utc>,
    ) -> AbortHandle {
        let mut open = Open { line: Arc::downgrade(self), number, is_open: true };
        let question = async move {
            let jobs = source.poll(now).await;
            open.is_open = false;
            if let Some(line) = open.line.upgrade() {
                line.came(number, Some(source), jobs);
            }
        };
        tokio::spawn(question).abort_handle()
    }

    fn came(&self, number: u64, source: Option<Box<dyn JobSource>>, jobs: Result<JobMap, PollError>) {
        let mut state = lock(&self.state);
        let fresh_in = source.as_ref().and_then(|source| source.fresh_in());
        let fresh_until = fresh_in.map(|fresh_in| Instant::now() + fresh_in);
        let answer = SharedJobs { number, came: Utc::now(), fresh_until, jobs: jobs.map_err(Arc::new) };
        let answer = Arc::new(answer);
        state.source = source;
        state.asking = None;
        state.newest = Some(Arc::clone(&answer));
        self.answers.send_replace(Some(answer));
        let waits = |(fabric, seat): (&usize, &Seat)| (seat.taken < number).then_some(*fabric);
        let bells = state.seats.iter().filter_map(waits).filter_map(|fabric| self.shared.bells.get(fabric));
        bells.for_each(Notify::notify_one);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Nobody waits for it any more: a running `squeue` is killed.
        if let Some(asking) = lock(&self.state).asking.take() {
            asking.abort();
        }
    }
}

/// A question that ends without an answer, by a panic or with its runtime, is told to those who wait.
struct Open {
    line: Weak<Line>,
    number: u64,
    is_open: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(line) = self.line.upgrade().filter(|_| self.is_open) {
            line.came(self.number, None, Err(PollError::Aborted));
        }
    }
}

/// The source of jobs of one of the fabrics.
struct Member {
    line: Arc<Line>,
    fabric: usize,
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = lock(&self.line.state);
        let Some(seat) = state.seats.get_mut(&self.fabric) else { return };
        seat.members -= 1;
        if seat.members == 0 {
            state.seats.remove(&self.fabric);
        }
    }
}

impl JobSource for Member {
    fn poll(&mut self, now: DateTime<Utc>) -> Poll<'_> {
        Box::pin(async move {
            let mut answers = self.line.answers.subscribe();
            let number = self.line.ask(self.fabric, now);
            let has_come =
                |answer: &Option<Arc<SharedJobs>>| answer.as_ref().is_some_and(|a| a.number >= number);
            let answer = answers.wait_for(has_come).await.ok().and_then(|answer| answer.clone());
            match answer.as_ref().map(|answer| &answer.jobs) {
                Some(Ok(jobs)) => Ok(jobs.clone()),
                Some(Err(error)) => Err(PollError::Together(Arc::clone(error))),
                None => Err(PollError::Aborted),
            }
        })
    }

    fn fresh_in(&self) -> Option<Duration> {
        let until = lock(&self.line.state).newest.as_ref()?.fresh_until?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
