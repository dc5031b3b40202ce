//! A direct torus: tables for each job before it starts, removed when it is over.
//!
//! No epochs and no OpenSM: each job's tables are its own. They are computed around those of the jobs that
//! run, checked together with them, and published as the job's directory; those of jobs that the batch
//! system does not know any more are removed. Where a failed link or node touches a job that runs, the pairs
//! that lost their route get another.

mod baseline;
mod bring;
mod dry_run;
mod history;
mod kept;
mod look;
mod outcome;
mod record;
mod seen;
mod shared;
pub(in crate::service) mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;
use tracing::warn;

pub use self::baseline::{Kept, TorusBaseline};
use self::bring::Bringing;
pub use self::dry_run::{Gets, Predicted, Terms, TorusDryRun, TorusPerJob, dry_run, gets};
use self::history::Chronicle;
use self::kept::kept;
pub use self::seen::{Direct, Newest};
use self::shared::Doubtful;
use self::work::{Computed, Limit, Published, Running, Source, Work, found};
use super::{Kind, NotReady};
use crate::config::{FabricSource, HandOff, Settings};
use crate::model::{JobId, JobMap, NodeName, Torus, without_repetition};
use crate::observe::source::{JobSource, PollError};
use crate::observe::torus_toml;
use crate::pass::torus::Site;
use crate::publish::EpochStore;
use crate::publish::job::{self, JobEnvironment};
use crate::route::angara::{TorusRouteError, named};
use crate::service::chain;
use crate::service::clock::steady;
use crate::service::command::{Reply, Seen};
use crate::service::handoff::{Outcome, Released, StartId};
use crate::service::health::{Health, Reader, Trouble};
use crate::service::look::LookError;
use crate::service::neighbours::Nodes;
use crate::service::record::Standing;
use crate::service::run::waiting::answer;
use crate::service::run::{Listener, Service, delta};

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

/// Why a job has no tables that was let go before they were there.
const TOO_LATE: &str = "no tables at the deadline";

/// What ended beside the loop.
pub(in crate::service) enum Done {
    Computed(Option<Box<Computed>>),
    Published(Published),
    /// The batch system has answered.
    Polled(Box<dyn JobSource>, Result<JobMap, PollError>),
    /// A bug: asking it panicked.
    PollAborted,
    /// The new tables of a job are on its nodes, or why not.
    Brought(JobId, Result<(), String>),
    /// The history was written: the largest load of a channel, if tables changed.
    Remembered(Option<u64>),
    /// A bug: it panicked.
    Aborted,
}

/// What the service of a direct torus remembers. It decides nothing of its own: every job gets tables.
pub(in crate::service) struct DirectKind {
    source: String,
    /// One computation or publication at a time, so that each knows all others' routes.
    working: JoinSet<Done>,
    /// Who starts and is in no computation yet.
    starts: Vec<StartId>,
    /// Who starts on nodes that another job had.
    doubtful: Doubtful,
    /// Who was let go without tables while some are written.
    late: Arc<Mutex<BTreeSet<JobId>>>,
    running: Running,
    /// The tables that a service before this one left were not read: that takes a torus.
    unread: bool,
    /// Of these, jobs that cannot be mended, and what was told of each before.
    lost: BTreeMap<JobId, Option<Trouble>>,
    /// Running jobs that failures touched, and whose new tables are not on the disk: a hold came, or it failed.
    unmended: BTreeSet<JobId>,
    bringing: Bringing,
    /// The torus of the last computation, of an earlier process perhaps; `None` before the first.
    site: Option<Site>,
    /// Nothing was computed by this process.
    is_new: bool,
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
    /// Not here while it asks, nor after it panicked.
    batch: Option<Box<dyn JobSource>>,
    /// For new settings: takes the place of one that asks.
    next_batch: Option<Box<dyn JobSource>>,
    polling: JoinSet<Done>,
    /// By [`steady`]; `None` once a single pass has asked.
    next_poll: Option<DateTime<Utc>>,
    /// Whether an administrator holds the tables.
    held: bool,
}

impl Kind for DirectKind {
    type Ready = (String, Box<dyn JobSource>);
    type Done = Done;

    fn ready(settings: &Settings, jobs: Box<dyn JobSource>) -> Result<Self::Ready, NotReady> {
        engines(settings)?;
        Ok((source(settings).ok_or(LookError::NoFabric)?, jobs))
    }

    fn new(ready: Self::Ready, settings: &Settings, store: &EpochStore, root: &Path) -> Self {
        let (source, batch) = ready;
        let torus = torus_toml::load(&source).ok().map(|source| Arc::new(source.torus));
        let running = torus.as_ref().map(|torus| found(root, torus)).unwrap_or_default();
        let (site, torus_text) = kept(store.path(), torus.as_deref()).unzip();
        Self {
            running,
            unread: torus.is_none(),
            source,
            site,
            is_new: true,
            torus,
            torus_text,
            engine: settings.routing.engine.clone(),
            took: Duration::ZERO,
            chronicle: Chronicle::open(store),
            newest: None,
            jobs: None,
            jobs_well: false,
            torus_well: true,
            look: false,
            starts: Vec::new(),
            doubtful: Doubtful::default(),
            late: Arc::default(),
            lost: BTreeMap::new(),
            unmended: BTreeSet::new(),
            bringing: Bringing::default(),
            working: JoinSet::new(),
            batch: Some(batch),
            next_batch: None,
            polling: JoinSet::new(),
            next_poll: Some(steady()),
            held: false,
        }
    }

    fn begin(service: &mut Service<Self>, before: Option<&Health>) {
        service.tell_neighbours();
        // A single pass asks for the jobs first, so that none is served that is over.
        service.kind.look = service.health.serving;
        // Whom failures touched before is on the nodes still.
        let torus = before.and_then(|before| before.torus.clone()).unwrap_or_default();
        let lost = torus.cut.iter().filter(|(id, told)| told.text.starts_with(&cannot_go_on(id)));
        service.kind.lost = lost.map(|(id, _)| (id.clone(), None)).collect();
        service.health.torus = Some(torus);
        service.go_on();
    }

    fn follow(service: &mut Service<Self>, (source, batch): Self::Ready) {
        let kind = &mut service.kind;
        kind.source = source;
        match kind.batch {
            Some(_) => kind.batch = Some(batch),
            None => kind.next_batch = Some(batch),
        }
    }

    /// Without tables no job can speak, however small and short.
    fn rules(settings: &Settings) -> HandOff {
        let zero = delta(Duration::ZERO);
        HandOff { min_nodes: 1, min_length: zero, reroute_interval: zero, ..settings.handoff.clone() }
    }

    fn names(settings: &Settings) -> (Option<&str>, Option<&str>) {
        match &settings.fabric {
            Some(FabricSource::Source(source)) => (Some(source), None),
            _ => (None, None),
        }
    }

    fn standing(service: &Service<Self>) -> Option<Standing> {
        Some(Standing { root: service.jobs_root.clone(), site: service.kind.site_text() })
    }

    fn due(&self) -> Option<DateTime<Utc>> {
        self.next_poll.into_iter().chain(self.doubtful.due()).min()
    }

    fn look_by(&mut self, time: DateTime<Utc>) {
        self.next_poll = self.next_poll.into_iter().chain([time]).min();
    }

    async fn finished(&mut self) -> Done {
        tokio::select! {
            biased;
            Some(done) = self.working.join_next() => done.unwrap_or(Done::Aborted),
            Some(done) = self.bringing.at_work.join_next() => done.unwrap_or(Done::Aborted),
            Some(done) = self.polling.join_next() => done.unwrap_or(Done::PollAborted),
            load = self.chronicle.written() => Done::Remembered(load),
        }
    }

    fn is_busy(&self) -> bool {
        !self.working.is_empty() || !self.polling.is_empty() || !self.bringing.at_work.is_empty()
    }

    /// An administrator's hold: no table is made or changed.
    fn woken(service: &mut Service<Self>) {
        service.kind.held = service.look_at_hold();
        // One that cannot be read lets nobody go without tables.
        service.waiting.handoff.hold(steady(), service.health.held.is_some());
    }

    fn look(service: &mut Service<Self>) {
        service.kind.look_by(steady());
    }

    fn done(service: &mut Service<Self>, done: Done, _: Listener<'_>) {
        service.came(done);
    }

    fn attend(service: &mut Service<Self>) {
        let new = service.waiting.handoff.take_new();
        if !new.is_empty() {
            // Tables of a former start are for the nodes that the job had then.
            service.forget(|id| new.iter().any(|start| start.job == *id));
        }
        let (kind, handoff) = (&mut service.kind, &mut service.waiting.handoff);
        let is_there = |start: &StartId| !service.beside.neighbours.are_there() || !kind.has_none_of(start);
        let (here, elsewhere): (Vec<_>, Vec<_>) = new.into_iter().partition(is_there);
        elsewhere.iter().for_each(|start| handoff.served(steady(), start, Outcome::OneSwitch));
        if kind.take_up(here, handoff) {
            service.look_soon();
        }
        let (kind, handoff) = (&mut service.kind, &mut service.waiting.handoff);
        kind.wait_no_longer(handoff);
        kind.starts.retain(|start| handoff.is_waiting(start));
        if kind.working.is_empty() && (!kind.starts.is_empty() || (kind.look && !kind.held)) {
            service.compute();
        }
        if service.kind.next_poll.is_some_and(|next| steady() >= next) {
            service.poll();
        }
        service.kind.chronicle.write(service.settings.history.keep);
    }

    fn start(service: &mut Service<Self>, released: Released, replies: Vec<Reply<Outcome>>) {
        service.tell_unrouted(&released);
        answer(replies, released.outcome);
    }

    fn ended(service: &mut Service<Self>, job: JobId) {
        service.forget(|id| *id == job);
        // Nobody waits long for this: a rename, and files of one job.
        service.warn_of(job::remove(&service.jobs_root, &job).err());
    }

    fn seen(service: &Service<Self>) -> Option<Seen> {
        let DirectKind { torus, jobs, running, newest, .. } = &service.kind;
        let (torus, jobs, running, newest) = (torus.clone()?, jobs.clone(), running.clone(), newest.clone());
        let terms = Terms::of(&service.settings).ok()?;
        let transit = service.kind.site.as_ref().map(|site| site.transit);
        Some(Seen::Direct(Arc::new(Direct { torus, transit, jobs, running, newest, terms })))
    }

    fn look_around(service: &mut Service<Self>) {
        service.health.reader = Some(Reader::Nodes);
        let last = service.health.last_success.map(|time| ("the last pass ended", time));
        service.health.look_around(Utc::now(), &service.settings.state.directory, last.as_slice());
    }

    async fn end(service: &mut Service<Self>, _: Listener<'_>) {
        service.kind.chronicle.end(service.settings.history.keep).await;
    }
}

/// How it is told of a job that cannot be mended.
fn cannot_go_on(job: &JobId) -> String {
    format!("job {job} cannot go on")
}

/// The job of the batch system at this place, or all components of the one that it is of.
fn parts(jobs: &JobMap, own: usize) -> Vec<usize> {
    match &jobs.jobs[own].component {
        Some(_) => jobs.whole().into_iter().find(|parts| parts.contains(&own)).unwrap_or_default(),
        None => vec![own],
    }
}

impl DirectKind {
    /// What a prolog does not say of a job that starts, the newest look may have said: what it exchanges, and of a
    /// component the nodes of all.
    fn complete_starts(&mut self) {
        let Self { starts, jobs, torus, .. } = self;
        for start in starts {
            let place = |jobs: &Arc<JobMap>| jobs.jobs.iter().position(|job| job.id == start.job);
            if let Some((jobs, own)) = jobs.as_ref().and_then(|jobs| Some((jobs, place(jobs)?))) {
                let parts = parts(jobs, own);
                start.traffic = start.traffic.take().or_else(|| jobs.traffic(&parts));
                let is_known = parts.len() > 1 && jobs.jobs[own].is_on(&start.nodes);
                let nodes = parts.iter().filter(|_| is_known).flat_map(|part| &jobs.jobs[*part].nodes);
                // Those of others that are not there or have failed are no reason to refuse this one.
                let works = |torus: &Torus, name: &NodeName| {
                    torus.node_named(name).is_some_and(|n| torus.is_healthy(n))
                };
                let is_there = |node: &&NodeName| {
                    torus.as_ref().is_some_and(|torus| works(torus, node)) || start.nodes.contains(node)
                };
                start.whole = without_repetition(nodes.filter(is_there).cloned().collect());
            }
            if start.is_component && start.whole.is_empty() {
                warn!(job = %start.job, "a component of a heterogeneous job: no table has routes to the others");
            }
        }
    }

    /// Whether the job is on no node of the torus.
    fn has_none_of(&self, start: &StartId) -> bool {
        let is_there = |torus: &Arc<Torus>| start.nodes.iter().any(|node| torus.node_named(node).is_some());
        self.torus.as_ref().is_some_and(|torus| !is_there(torus))
    }
}

impl Service<DirectKind> {
    /// A job that starts without tables is told so.
    fn tell_unrouted(&mut self, released: &Released) {
        let why = match released.outcome {
            Outcome::Deadline => TOO_LATE,
            Outcome::Full => "too many jobs wait for tables",
            Outcome::Held => "an administrator holds the routes as they are",
            // Those of a former start on this torus.
            Outcome::OneSwitch => {
                return self.warn_of(job::remove(&self.jobs_root, &released.start.job).err());
            }
            _ => return,
        };
        if let Ok(mut late) = self.kind.late.lock() {
            late.insert(released.start.job.clone());
        }
        self.tell(&released.start.job, why);
    }

    /// Tells a job why it has no tables. What it was told at a former start does not stay: to remove it takes no space.
    fn tell(&self, job: &JobId, why: &str) {
        let environment = JobEnvironment { note: why.to_string(), ..JobEnvironment::default() };
        if let Err(error) = job::publish(&self.jobs_root, job, &environment) {
            warn!("{}", chain(&error));
            self.warn_of(job::remove(&self.jobs_root, job).err());
        }
    }

    /// Tells the other fabrics which nodes are on the torus.
    fn tell_neighbours(&self) {
        if let Some(torus) = &self.kind.torus {
            self.beside.neighbours.seen(self.settings.name.as_ref(), Nodes::Direct(Arc::clone(torus)));
        }
    }

    /// Nodes of jobs that start which another of several fabrics has, and this one has not.
    fn elsewhere(&self) -> BTreeSet<NodeName> {
        let (Some(torus), true) = (&self.kind.torus, self.beside.neighbours.are_there()) else {
            return BTreeSet::new();
        };
        let nodes = self.kind.starts.iter().flat_map(|start| &start.nodes);
        let absent: BTreeSet<NodeName> = nodes.filter(|n| torus.node_named(n).is_none()).cloned().collect();
        let nowhere = self.beside.neighbours.nowhere(absent.iter().cloned().collect());
        absent.into_iter().filter(|node| !nowhere.contains(node)).collect()
    }

    fn compute(&mut self) {
        self.kind.look = false;
        self.kind.complete_starts();
        let elsewhere = self.elsewhere();
        self.record_compute(&elsewhere);
        let work = Work {
            elsewhere,
            source: Source::Named(self.kind.source.clone()),
            engines: engines(&self.settings).unwrap_or_default(),
            site: self.kind.site.clone(),
            again: self.kind.is_new || !self.kind.unmended.is_empty(),
            running: self.kind.running.clone(),
            unread: self.kind.unread.then(|| self.jobs_root.clone()),
            starts: std::mem::take(&mut self.kind.starts),
            // A job that comes meanwhile waits for this computation and for its own.
            limit: Limit::For(self.settings.handoff.deadline / 4),
        };
        self.kind.working.spawn_blocking(move || Done::Computed(work.run().map(Box::new)));
    }

    fn warn_of(&self, error: Option<crate::publish::StoreError>) {
        if let Some(error) = error {
            warn!("{}", chain(&error));
        }
    }
}
