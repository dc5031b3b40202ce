//! Hand-off before the job: which starting jobs wait for routes of their own, and until when. No
//! clock, no I/O: time comes in with the event.
//!
//! ```text
//!  announced ──> new ──────────> covered ──────────────> published ─────────────> starts
//!     │           │  a look saw it      its epoch is on the disk   OpenSM acknowledged it
//!     │           │  (the jobs of now                                              ^
//!     │           │   and this one)                                                │
//!     └───────────┴── nothing to wait for, or the deadline has passed ─────────────┘
//! ```
//!
//! A start is known by job, restart count and nodes: a batch system that restarts announces a job
//! again, perhaps on other nodes, and never says that the first start came to nothing. So a
//! repetition joins the first announcement, another start of the job replaces it, and a start that
//! the batch system does not know any more is forgotten. Jobs never wait for each other: all that
//! are new when a look sees the cluster share one computation.

mod outcome;
mod passes;
mod start;
#[cfg(test)]
mod tests;
mod traffic;

use schemars::JsonSchema;
use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

pub use self::outcome::Outcome;
pub use self::start::{Announcement, StartId};
use self::traffic::Told;
use super::parts::Parts;
use crate::model::{Demand, Fabric, JobId, NodeMap, Traffic};

/// What an administrator decided of the hand-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The longest a job may wait.
    pub deadline: TimeDelta,
    /// Jobs on fewer nodes join the next pass.
    pub min_nodes: usize,
    /// Jobs with a shorter time limit join the next pass.
    pub min_length: TimeDelta,
    /// At most one computation for starting jobs in this time.
    pub reroute_interval: TimeDelta,
    /// Jobs that wait at one time; further ones start at once.
    pub max_pending: usize,
    /// The longest a job may wait while passes fail.
    pub away: TimeDelta,
}

/// The answer to an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartOrWait {
    /// Not yet.
    Wait,
    /// Go.
    Start(Outcome),
}

/// A start that was let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// Which.
    pub start: StartId,
    /// Why it may start.
    pub outcome: Outcome,
    /// How long it waited.
    pub waited: TimeDelta,
}

/// What happened since the service started.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Announcements, repetitions included.
    pub announced: u64,
    /// Announcements of a start that was known.
    pub repeated: u64,
    /// Announcements of a job that was known with other nodes or another restart count.
    pub changed: u64,
    /// Ends announced.
    pub ended: u64,
    /// Ends of jobs whose start was not known.
    pub ended_unknown: u64,
    /// Starts whose end was never announced.
    pub unended: u64,
    /// Starts by reason.
    pub started: BTreeMap<Outcome, u64>,
    /// Milliseconds waited, all starts together.
    pub waited_ms: u64,
    /// Jobs that wait now.
    pub waiting: usize,
    /// Which, those first that have waited longest; at most 64.
    pub waiting_jobs: Vec<Waits>,
}

/// Jobs that wait which are named.
const NAMED_WAITING: usize = 64;

/// A job that waits for its routes.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Waits {
    /// Which.
    pub job: JobId,
    /// How many nodes it has.
    pub nodes: usize,
    /// Since when.
    pub since: DateTime<Utc>,
    /// When it starts whatever is then in force.
    pub deadline: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Covered,
    /// In this epoch, which OpenSM has not acknowledged.
    Published(u64),
    /// Started then, for that reason.
    Started(DateTime<Utc>, Outcome),
}

#[derive(Debug, Clone)]
struct Start {
    id: StartId,
    announced: DateTime<Utc>,
    deadline: DateTime<Utc>,
    /// The batch system has listed it with these nodes.
    listed: bool,
    phase: Phase,
}

impl Start {
    /// The batch system has said nothing of it.
    fn new(id: StartId, announced: DateTime<Utc>, deadline: DateTime<Utc>, phase: Phase) -> Self {
        Self { id, announced, deadline, listed: false, phase }
    }

    fn is_pending(&self) -> bool {
        !matches!(self.phase, Phase::Started(..))
    }
}

/// What is in force.
#[derive(Debug, Clone)]
struct InForce {
    epoch: u64,
    demand: Demand,
    acknowledged: bool,
}

/// After a failure, the next computation for starting jobs begins this much later.
const RETRY: TimeDelta = TimeDelta::seconds(1);

/// A batch system that does not list a started job so much later does not know it.
const UNLISTED: TimeDelta = TimeDelta::seconds(5);

/// Starts remembered after they were let go, as a multiple of the most that may wait.
const REMEMBERED: usize = 16;

/// The hand-off's memory between events.
#[derive(Debug, Clone)]
pub struct HandOff {
    rules: Rules,
    /// The newest start of each job.
    starts: BTreeMap<JobId, Start>,
    /// What jobs said at their start that they exchange, or what was guessed then.
    told: Told,
    site: Option<(Arc<Fabric>, Arc<NodeMap>)>,
    parts: Parts,
    in_force: Option<InForce>,
    /// What was in force is not any more, without a pass.
    is_replaced: bool,
    /// No computation for starting jobs begins before.
    not_before: DateTime<Utc>,
    /// Whether the last pass failed.
    failing: bool,
    /// A look was asked for and has not come.
    asked: bool,
    /// A pass is under way that may not know of the newest starts.
    under_way: bool,
    held: bool,
    /// OpenSM is gone, and jobs need not wait for it.
    gone: bool,
    released: Vec<Released>,
    counters: Counters,
}

impl HandOff {
    /// Nobody waits.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            starts: BTreeMap::new(),
            told: Told::default(),
            site: None,
            parts: Parts::default(),
            in_force: None,
            is_replaced: false,
            not_before: DateTime::<Utc>::MIN_UTC,
            failing: false,
            asked: false,
            under_way: false,
            held: false,
            gone: false,
            released: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Other rules from now on.
    pub fn follow(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// What jobs that run said at their start, as it was kept; they count as announced now.
    pub fn remember_traffic(&mut self, now: DateTime<Utc>, said: BTreeMap<JobId, Traffic>) {
        said.into_iter().for_each(|(job, traffic)| self.told.said(now, &job, Some(&traffic)));
    }

    /// Counts.
    pub fn counters(&self) -> Counters {
        Counters { waiting: self.waiting(), waiting_jobs: self.waiting_jobs(), ..self.counters.clone() }
    }

    /// Which jobs wait, those first that have waited longest.
    fn waiting_jobs(&self) -> Vec<Waits> {
        let waits = |s: &Start| Waits {
            job: s.id.job.clone(),
            nodes: s.id.nodes.len(),
            since: s.announced,
            deadline: s.deadline,
        };
        let mut all: Vec<Waits> = self.starts.values().filter(|s| s.is_pending()).map(waits).collect();
        all.sort_by(|a, b| (a.since, &a.job).cmp(&(b.since, &b.job)));
        all.truncate(NAMED_WAITING);
        all
    }

    /// How many jobs wait.
    pub fn waiting(&self) -> usize {
        self.starts.values().filter(|s| s.is_pending()).count()
    }

    /// Whether a job waits for OpenSM's acknowledgement.
    pub fn awaits_acknowledgement(&self) -> bool {
        self.starts.values().any(|s| matches!(s.phase, Phase::Published(_)))
    }

    /// Jobs whose starts are remembered.
    pub fn jobs(&self) -> impl Iterator<Item = &JobId> {
        self.starts.keys()
    }

    /// Whether a start of this job waits.
    pub fn is_starting(&self, job: &JobId) -> bool {
        self.starts.get(job).is_some_and(Start::is_pending)
    }

    /// Whether this very start waits.
    pub fn is_waiting(&self, id: &StartId) -> bool {
        self.starts.get(&id.job).is_some_and(|s| s.is_pending() && s.id == *id)
    }

    /// Direct torus: the starts that nobody has begun to serve; they count as begun now.
    pub fn take_new(&mut self) -> Vec<StartId> {
        let new = self.starts.values_mut().filter(|s| s.phase == Phase::New);
        new.map(|s| {
            s.phase = Phase::Covered;
            s.id.clone()
        })
        .collect()
    }

    /// Direct torus: this start has its tables, or cannot have any.
    pub fn served(&mut self, now: DateTime<Utc>, id: &StartId, outcome: Outcome) {
        self.start_all(now, |s| (s.id == *id).then_some(outcome));
    }

    /// Those let go since the last call.
    pub fn take_released(&mut self) -> Vec<Released> {
        std::mem::take(&mut self.released)
    }

    /// A prolog announces a start. O(nodes of the job + jobs known).
    pub fn announce(&mut self, now: DateTime<Utc>, said: Announcement) -> StartOrWait {
        self.counters.announced += 1;
        let Announcement { start: id, length, patience, .. } = said;
        self.told.said(now, &id.job, id.traffic.as_ref());
        let most = if self.failing { self.rules.away.min(self.rules.deadline) } else { self.rules.deadline };
        let deadline = now + patience.clamp(TimeDelta::zero(), most);
        match self.starts.get_mut(&id.job) {
            Some(known) if known.id == id => {
                self.counters.repeated += 1;
                match known.phase {
                    Phase::Started(_, Outcome::Gone) => drop(self.starts.remove(&id.job)),
                    Phase::Started(_, outcome) => return StartOrWait::Start(outcome),
                    _ => {
                        known.id.traffic = id.traffic;
                        known.id.is_component |= id.is_component;
                        known.deadline = known.deadline.min(deadline);
                        return StartOrWait::Wait;
                    }
                }
            }
            // A straggler of an earlier start.
            Some(known) if known.is_pending() && id.restart < known.id.restart => {
                return self.at_once(Outcome::Superseded);
            }
            Some(_) => {
                self.counters.changed += 1;
                self.start_job(now, &id.job, Outcome::Superseded);
                self.starts.remove(&id.job);
            }
            None => {}
        }
        match self.needs_nothing(&id) {
            // The epoch to come may lack it.
            Some(Outcome::InForce) if self.under_way => {}
            Some(outcome) => {
                if outcome == Outcome::InForce {
                    // Remembered, so that the next epoch serves it too.
                    let phase = Phase::Started(now, outcome);
                    self.remember(Start::new(id, now, deadline, phase));
                }
                return self.at_once(outcome);
            }
            None => {}
        }
        if !self.is_worth(&id, length) || self.not_before.max(now) >= deadline {
            return self.at_once(Outcome::NextPass);
        }
        if self.waiting() >= self.rules.max_pending {
            return self.at_once(Outcome::Full);
        }
        self.remember(Start::new(id, now, deadline, Phase::New));
        StartOrWait::Wait
    }

    fn remember(&mut self, start: Start) {
        self.starts.insert(start.id.job.clone(), start);
        self.trim();
    }

    /// Forgets what is in force if the disk has another epoch, or none.
    pub fn confirm(&mut self, on_disk: Option<u64>) {
        if self.in_force.as_ref().is_some_and(|known| Some(known.epoch) != on_disk) {
            self.in_force = None;
            self.is_replaced = true;
        }
    }

    /// Whether what was in force has been replaced since this was asked.
    pub fn take_replaced(&mut self) -> bool {
        std::mem::take(&mut self.is_replaced)
    }

    /// Counts a start that does not wait.
    fn at_once(&mut self, outcome: Outcome) -> StartOrWait {
        *self.counters.started.entry(outcome).or_default() += 1;
        StartOrWait::Start(outcome)
    }

    /// An epilog announces the end of a job.
    pub fn ended(&mut self, now: DateTime<Utc>, job: &JobId) {
        self.counters.ended += 1;
        self.start_job(now, job, Outcome::Gone);
        self.told.ended(job);
        if self.starts.remove(job).is_none() {
            self.counters.ended_unknown += 1;
        }
    }

    /// Time has passed: lets go whose deadline has come, or who would wait in vain.
    pub fn tick(&mut self, now: DateTime<Utc>) {
        let not_before = self.not_before;
        self.start_all(now, |start| {
            if start.deadline <= now {
                return Some(Outcome::Deadline);
            }
            // No computation begins before its deadline.
            (start.phase == Phase::New && not_before >= start.deadline).then_some(Outcome::Deadline)
        });
    }

    /// When [`HandOff::tick`] or [`HandOff::wants_look`] may next say something new, if nothing
    /// else happens. `idle`: no look or computation is under way.
    pub fn due(&self, idle: bool) -> Option<DateTime<Utc>> {
        let pending = || self.starts.values().filter(|s| s.is_pending());
        let deadline = pending().map(|s| s.deadline).min();
        let look =
            (idle && !self.asked && pending().any(|s| s.phase == Phase::New)).then_some(self.not_before);
        deadline.into_iter().chain(look).min()
    }

    /// Whether the cluster should be looked at now for the sake of starting jobs. To be asked while
    /// no look or computation is under way; says so once until [`HandOff::merge`] or
    /// [`HandOff::failed`].
    pub fn wants_look(&mut self, now: DateTime<Utc>) -> bool {
        let wants =
            !self.asked && now >= self.not_before && self.starts.values().any(|s| s.phase == Phase::New);
        self.asked |= wants;
        wants
    }

    /// An administrator holds the routes as they are, or does so no more: nobody waits meanwhile.
    pub fn hold(&mut self, now: DateTime<Utc>, held: bool) {
        self.held = held;
        if held {
            self.asked = false;
            self.start_all(now, |_| Some(Outcome::Held));
        }
    }

    /// OpenSM is gone, or is there again: nobody waits meanwhile for what it would put in force. For one of
    /// several fabrics: the others go on.
    pub fn opensm_gone(&mut self, now: DateTime<Utc>, gone: bool) {
        self.gone = gone;
        if gone {
            self.start_all(now, |_| Some(Outcome::OpensmGone));
        }
    }

    /// Lets pending starts go for which a reason is given.
    fn start_all(&mut self, now: DateTime<Utc>, why: impl Fn(&Start) -> Option<Outcome>) {
        let jobs: Vec<(JobId, Outcome)> = self
            .starts
            .values()
            .filter(|s| s.is_pending())
            .filter_map(|s| Some((s.id.job.clone(), why(s)?)))
            .collect();
        for (job, outcome) in jobs {
            self.start_job(now, &job, outcome);
        }
    }

    /// Lets a job go if it waits.
    fn start_job(&mut self, now: DateTime<Utc>, job: &JobId, outcome: Outcome) {
        let Some(start) = self.starts.get_mut(job).filter(|s| s.is_pending()) else { return };
        start.phase = Phase::Started(now, outcome);
        let waited = (now - start.announced).max(TimeDelta::zero());
        self.released.push(Released { start: start.id.clone(), outcome, waited });
        *self.counters.started.entry(outcome).or_default() += 1;
        self.counters.waited_ms += waited.num_milliseconds().unsigned_abs();
    }
}
