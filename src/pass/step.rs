//! Event to step: when to look, when to route. No clock, no I/O: time comes in with the event.
//!
//! ```text
//!            due or asked              seen, other demand than in force
//!   idle ──────────────────> looking ───────────────────────────────────> routing
//!    ^  <── look failed ────────┘  └── seen, nothing new ──> idle            │
//!    └──────────── kept, published, or route failed ─────────────────────────┘
//! ```
//!
//! While a look or a computation is under way, further requests are remembered as one: a burst
//! causes one more look, and what that sees decides.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{Demand, Fabric, Fingerprint, JobMap, NodeMap};
use crate::pass::baseline::Oblivious;
use crate::pass::plan::{self, Policy, Wanted};

/// The rhythm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// From one look to the next.
    pub interval: TimeDelta,
    /// Longest pause after repeated failures; the interval if that is longer.
    pub backoff_max: TimeDelta,
}

/// All that was seen in one look.
#[derive(Debug, Clone)]
pub struct View {
    /// Switches, hosts and cables as they are now.
    pub fabric: Arc<Fabric>,
    /// Which hosts are whose adapters.
    pub nodes: Arc<NodeMap>,
    /// All that run now, with their nodes.
    pub jobs: JobMap,
    /// What the administrator decided, for this fabric.
    pub policy: Policy,
    /// The fabric's tables that know no jobs, to compare with.
    pub oblivious: Oblivious,
}

impl View {
    /// Of a fabric that has not been looked at before.
    pub fn new(fabric: Arc<Fabric>, nodes: Arc<NodeMap>, jobs: JobMap, policy: Policy) -> Self {
        Self { fabric, nodes, jobs, policy, oblivious: Oblivious::default() }
    }
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// Time has passed.
    Tick,
    /// Somebody wants a look at once.
    Asked,
    /// A look succeeded.
    Seen(Arc<View>),
    /// A look failed.
    LookFailed,
    /// An administrator holds what is in force: nothing is to be done until the next look.
    Held,
    /// What is in force is not what was put there: an administrator chose another epoch, or it is gone.
    Replaced,
    /// The computation ended: routes for this fabric and demand are in force, or others are not worth the change. After
    /// a pause they may be.
    InForce(Fingerprint, Demand, Option<TimeDelta>),
    /// The computation ended: the first of two steps is in force, and the second is due.
    Halfway,
    /// The computation or its publication failed.
    RouteFailed,
}

/// What to do now.
#[derive(Debug, Clone)]
pub enum Action {
    /// Nothing before the next event or [`Step::due`].
    Wait,
    /// Look at Slurm and the fabric; answer with `Seen` or `LookFailed`.
    Look,
    /// What is in force serves what was seen.
    Keep(Wanted),
    /// The same failed not long ago.
    Refrain(Wanted),
    /// Compute, check and publish; answer with `InForce` or `RouteFailed`.
    Route(Arc<View>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Idle,
    Looking,
    Routing(Fingerprint, Demand),
}

/// The service's memory between events.
#[derive(Debug, Clone)]
pub struct Step {
    rhythm: Rhythm,
    phase: Phase,
    /// When to look next.
    next: DateTime<Utc>,
    /// Somebody wants it by then.
    by: Option<DateTime<Utc>>,
    /// A look was asked for while busy.
    asked: bool,
    in_force: Option<(Fingerprint, Demand)>,
    /// When the same demand is to be judged again.
    anew: Option<DateTime<Utc>>,
    /// What could not be routed, and when to try it again.
    refused: Option<(Fingerprint, Demand, DateTime<Utc>)>,
    look_failures: u32,
    route_failures: u32,
}

impl Step {
    /// A service that starts now and does not yet know what is in force.
    pub fn new(rhythm: Rhythm, now: DateTime<Utc>) -> Self {
        Self {
            rhythm,
            phase: Phase::Idle,
            next: now,
            by: None,
            asked: false,
            in_force: None,
            anew: None,
            refused: None,
            look_failures: 0,
            route_failures: 0,
        }
    }

    /// When the next `Tick` is wanted; `None` while busy.
    pub fn due(&self) -> Option<DateTime<Utc>> {
        (self.phase == Phase::Idle).then(|| self.next_look())
    }

    /// With another rhythm, and without memory of what is in force: new settings may want another
    /// engine for the same jobs.
    pub fn resume(&mut self, rhythm: Rhythm) {
        self.rhythm = rhythm;
        self.in_force = None;
        self.refused = None;
    }

    /// The next look comes at this time at the latest, or as soon after it as the present work is
    /// done.
    pub fn look_by(&mut self, time: DateTime<Utc>) {
        self.by = Some(self.by.map_or(time, |by| by.min(time)));
    }

    /// When the next look is due.
    fn next_look(&self) -> DateTime<Utc> {
        self.by.map_or(self.next, |by| by.min(self.next))
    }

    /// Takes an event. O(size of what was seen).
    pub fn handle(&mut self, now: DateTime<Utc>, event: Event) -> Action {
        match event {
            Event::Tick => self.look_if_due(now),
            Event::Asked => {
                self.asked = true;
                self.look_if_due(now)
            }
            Event::Seen(view) => self.seen(now, view),
            Event::LookFailed => {
                self.look_failures += 1;
                let pause = self.backoff(self.look_failures);
                self.rest(now + pause, now)
            }
            Event::Held => {
                // Whatever was put in force by hand is found out when the hold is over.
                self.in_force = None;
                self.refused = None;
                self.rest(now + self.rhythm.interval, now)
            }
            Event::Replaced => {
                self.in_force = None;
                self.refused = None;
                Action::Wait
            }
            Event::InForce(fabric, demand, pause) => {
                self.in_force = Some((fabric, demand));
                self.anew = pause.map(|pause| now + pause);
                self.refused = None;
                self.route_failures = 0;
                self.rest(self.next, now)
            }
            Event::Halfway => {
                self.in_force = None;
                self.refused = None;
                self.route_failures = 0;
                self.rest(self.next, now)
            }
            Event::RouteFailed => {
                self.route_failures += 1;
                let again = now + self.backoff(self.route_failures);
                if let Phase::Routing(fabric, demand) = &self.phase {
                    self.refused = Some((*fabric, demand.clone(), again));
                }
                self.rest(self.next.min(again), now)
            }
        }
    }

    fn look_if_due(&mut self, now: DateTime<Utc>) -> Action {
        if self.phase != Phase::Idle || (now < self.next_look() && !self.asked) {
            return Action::Wait;
        }
        self.asked = false;
        self.by = None;
        self.phase = Phase::Looking;
        Action::Look
    }

    /// Back to idle until `next`, or to another look if one was asked for meanwhile.
    fn rest(&mut self, next: DateTime<Utc>, now: DateTime<Utc>) -> Action {
        self.phase = Phase::Idle;
        self.next = next;
        if self.asked { self.look_if_due(now) } else { Action::Wait }
    }

    fn seen(&mut self, now: DateTime<Utc>, view: Arc<View>) -> Action {
        self.look_failures = 0;
        let known = self.in_force.as_ref().map(|(_, demand)| demand);
        let wanted = plan::wanted(&view.fabric, &view.nodes, &view.jobs, known, &view.policy);
        let fabric = view.fabric.fingerprint();
        self.next = now + self.rhythm.interval;
        if let Some(ripe) = wanted.ripe {
            // A young job must be looked at again when it is old enough, even if nothing else
            // happens. Never in the past: Slurm's clock may differ from ours.
            let pause = (ripe - view.jobs.time).max(SOONEST);
            self.next = self.next.min(now + pause);
        }
        let same = |(f, d): &(Fingerprint, Demand)| *f == fabric && *d == wanted.demand;
        // What OpenSM's plugin has repaired and cannot undo by itself, the next epoch ends.
        let is_to_judge = self.anew.is_some_and(|anew| anew <= now) || view.policy.repairs_newest();
        if self.in_force.as_ref().is_some_and(same) && !is_to_judge {
            self.next = self.anew.map_or(self.next, |anew| self.next.min(anew));
            self.refused = None;
            self.phase = Phase::Idle;
            return Action::Keep(wanted);
        }
        if let Some((f, d, again)) = &self.refused {
            if *f == fabric && *d == wanted.demand && now < *again {
                self.next = self.next.min(*again);
                self.phase = Phase::Idle;
                return Action::Refrain(wanted);
            }
        }
        self.phase = Phase::Routing(fabric, wanted.demand);
        Action::Route(view)
    }

    /// The pause after so many failures in a row: the interval, doubled each time, up to the bound.
    fn backoff(&self, failures: u32) -> TimeDelta {
        let bound = self.rhythm.backoff_max.max(self.rhythm.interval);
        let doublings = failures.saturating_sub(1).min(16);
        (self.rhythm.interval * (1 << doublings)).min(bound)
    }
}

/// The shortest pause between two looks at the same young job.
const SOONEST: TimeDelta = TimeDelta::milliseconds(100);
