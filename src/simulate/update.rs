//! Network updates in which programs take part, in traffic: the property-preserving one of the thesis
//! (section 5.2.3), beside stopping all traffic, and beside doing nothing.
//!
//! The manager is [`crate::pass::update`]'s machine. Notices reach each program at a time of its own during
//! [`Plan::every_ns`]; confirmations reach the manager within a sample's time; switches are written in random
//! order, at random times during [`Plan::every_ns`]. An update is followed by as long a rest.
//! Programs keep all connections, and their SLs: those who take part until they come back to base LIDs, others
//! for the whole run. Not modelled: the notices' packets, and programs that begin, end or do not answer, all of
//! which the machine handles.

use schemars::JsonSchema;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::changes::{self, Changes, Epoch, Plan};
use super::deadlock::Wait;
use super::engine::{Ended, Simulator, WAKE};
use super::live::LiveRouter;
use super::net::Net;
use super::parts::Due;
use super::run::{Measured, Outcome, per_message};
use super::settings::Settings;
use super::traffic::calls::{Calling, Calls};
use super::traffic::endpoints::Leaving;
use crate::model::rng::Rng;
use crate::model::{Fabric, SwitchId, Tables};
use crate::pass::update::{Action, Event, Lids, Manager, Phase};

/// What programs do while tables change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// They know of nothing.
    Plain,
    /// They send nothing until all switches are written.
    StopAndDrain,
    /// They go to high LIDs and come back: the thesis' five phases.
    PropertyPreserving,
}

impl How {
    const ALL: [Self; 3] = [Self::Plain, Self::StopAndDrain, Self::PropertyPreserving];
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::StopAndDrain => "stop-and-drain",
            Self::PropertyPreserving => "property-preserving",
        })
    }
}

impl FromStr for How {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let how = Self::ALL.into_iter().find(|how| how.to_string() == text);
        how.ok_or_else(|| format!("{text:?}: plain, stop-and-drain or property-preserving"))
    }
}

/// What was sent while, as the thesis' Figure 5.13 shows it.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Update {
    /// What programs did.
    pub how: How,
    /// Phases that took time, in the order of an update.
    pub phases: Vec<InPhase>,
    /// Throughput over time.
    pub series: Vec<Sample>,
}

/// All times of one phase together.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct InPhase {
    /// Which.
    pub phase: Phase,
    /// Mean duration.
    pub mean_ns: f64,
    /// Payload that arrived meanwhile, Gbyte/s.
    pub throughput: f64,
}

/// Payload that arrived since the sample before, Gbyte/s.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct Sample {
    /// Its end.
    pub time_ns: f64,
    /// The update's phase at its beginning.
    pub phase: Phase,
    /// At base LIDs.
    pub base: f64,
    /// At high LIDs.
    pub high: f64,
}

/// Samples in the time between two updates.
const SAMPLES: u64 = 20;

/// What is going to happen.
#[derive(Debug, Clone, Copy)]
enum Todo {
    Routes,
    Notice { who: u32, round: u64, lids: Lids },
    Write(changes::Write),
    Written,
    Sample,
}

struct Run<'a, 'b> {
    fabric: &'a Fabric,
    plan: &'b Plan,
    simulator: changes::Flying<'a>,
    manager: Manager,
    /// By tick, and in the order in which they were put there.
    agenda: BTreeMap<(u64, u64), Todo>,
    put: u64,
    interval: u64,
    rng: Rng,
    /// Of each program's last notice.
    rounds: Vec<u64>,
    force: Tables,
    next: Option<Tables>,
    changes: Changes,
    watch: Watch,
}

/// Begins with the tables of epoch 0 and asks for those of each epoch in turn, as [`changes::run`] does; `high`
/// are the routes to high LIDs, which stay, on a layer of their own. At the end all packets arrive. The outcome's
/// rates are those until then.
///
/// # Errors
/// See [`Simulator::new`]; a random arbiter; a cable that dies; programs of [`Plan`] that do not ask for their SL,
/// and answers; what `epochs` says.
pub fn run<E: From<String>>(
    fabric: &Fabric,
    net: &Net,
    settings: Settings,
    (plan, how, high): (&Plan, How, &Tables),
    mut epochs: impl FnMut(u32) -> Result<Epoch, E>,
) -> Result<Outcome, E> {
    if settings.random_arbiter {
        return Err("tables cannot change under a random arbiter: use other hardware".to_string().into());
    }
    if plan.untold > 0.0 || plan.answers > 0.0 {
        return Err("all programs ask for their SLs, and both ends of a connection: no answers"
            .to_string()
            .into());
    }
    let per_message = per_message(&settings, plan.bytes);
    let force = epochs(0)?.tables;
    let router = LiveRouter::new(fabric, net, plan.vls, &force).with_high_lids(high);
    let leaving = match how {
        How::Plain => Leaving::Stay,
        How::StopAndDrain => Leaving::Stop,
        How::PropertyPreserving => Leaving::Migrate { sl: high.layers_used().saturating_sub(1) },
    };
    let calling = Calling { leaving, keeps: true, ..plan.calling(per_message, settings.source_queue) };
    let mut calls = Calls::new(calling, &net.home, net.switches());
    calls.tell(&force);
    let simulator = Simulator::new(net, settings, &router, calls, plan.seed.wrapping_add(1))?;
    let interval = ((plan.every_ns / settings.nanoseconds(1)).round() as u64).max(SAMPLES);
    let mut run = Run {
        fabric,
        plan,
        simulator,
        manager: Manager::default(),
        agenda: BTreeMap::new(),
        put: 0,
        interval,
        rng: Rng::new(plan.seed.wrapping_add(2)),
        rounds: vec![0; plan.members.len()],
        force,
        next: None,
        changes: Changes::default(),
        watch: Watch::default(),
    };
    if how != How::Plain {
        (0..plan.members.len() as u32).for_each(|who| _ = run.manager.handle(Event::Subscribe(who)));
    }
    let circle = run.through(&mut epochs)?;
    Ok(run.outcome(how, per_message, circle))
}

impl Run<'_, '_> {
    fn put(&mut self, time: u64, todo: Todo) {
        self.put += 1;
        self.agenda.insert((time, self.put), todo);
    }

    /// From the first rest to the last; the circle of packets that wait for each other, if there is one.
    fn through<E: From<String>>(
        &mut self,
        epochs: &mut impl FnMut(u32) -> Result<Epoch, E>,
    ) -> Result<Vec<Wait>, E> {
        self.put(self.interval, Todo::Routes);
        self.put(self.interval / SAMPLES, Todo::Sample);
        while let Some(((time, _), todo)) = self.agenda.pop_first() {
            if self.advance(time) == Ended::Deadlock {
                return Ok(self.simulator.wait_cycle());
            }
            match todo {
                Todo::Routes if self.changes.made == self.plan.changes => return Ok(Vec::new()),
                Todo::Routes => {
                    self.changes.made += 1;
                    let epoch = epochs(self.changes.made)?;
                    if epoch.dies.is_some() {
                        return Err("no cable may die during an update of this kind".to_string().into());
                    }
                    self.next = Some(epoch.tables);
                    self.tell_manager(Event::Routes);
                }
                Todo::Notice { who, round, lids } => {
                    self.rounds[who as usize] = round;
                    let Simulator { traffic, due: Due { wake, .. }, .. } = &mut self.simulator;
                    traffic.notify(who, lids == Lids::High, wake);
                }
                Todo::Write(write) => self.write(write),
                Todo::Written => {
                    self.force = self.next.take().unwrap_or_else(|| self.force.clone());
                    self.tell_manager(Event::Written);
                }
                Todo::Sample => {
                    self.sample();
                    self.put(time + self.interval / SAMPLES, Todo::Sample);
                    let circle = self.circle();
                    if !circle.is_empty() {
                        return Ok(circle);
                    }
                }
            }
            for who in self.simulator.traffic.confirmed() {
                self.tell_manager(Event::Confirm { who, round: self.rounds[who as usize] });
            }
        }
        Ok(Vec::new())
    }

    /// Simulates up to a tick, also where nobody sends.
    fn advance(&mut self, time: u64) -> Ended {
        if time <= self.simulator.now() {
            return Ended::Time;
        }
        self.simulator.idle_at(time + 1, WAKE, 0, 0);
        self.simulator.run(time)
    }

    fn tell_manager(&mut self, event: Event) {
        let before = self.manager.phase();
        let now = self.simulator.now();
        for action in self.manager.handle(event) {
            match action {
                Action::Begin { .. } => {}
                Action::Notice { round, lids } => {
                    let all: Vec<u32> = self.manager.subscribers().collect();
                    for who in all {
                        let at = now + self.rng.below(self.interval as usize) as u64;
                        self.put(at, Todo::Notice { who, round, lids });
                    }
                }
                Action::Write => self.begin_to_write(),
            }
        }
        let phase = self.manager.phase();
        if phase != before {
            self.watch.entered(before, now);
        }
        if phase == Phase::Rest && before != Phase::Rest {
            self.put(now + self.interval, Todo::Routes);
        }
    }

    fn begin_to_write(&mut self) {
        let Some(next) = self.next.take() else { return };
        let now = self.simulator.now();
        self.simulator.traffic.tell(&next);
        let epoch = Epoch { tables: next, dies: None, waits: false };
        for (at, write) in changes::writes(self.fabric, &self.force, &epoch, self.interval, &mut self.rng) {
            self.put(now + at, Todo::Write(write));
        }
        self.put(now + self.interval, Todo::Written);
        self.next = Some(epoch.tables);
    }

    fn write(&mut self, write: changes::Write) {
        let (Some(next), router) = (&self.next, self.simulator.router) else { return };
        let forwarding = |s: SwitchId| router.write_forwarding(s, next) as u64;
        match write {
            changes::Write::Forwarding(s) => self.changes.entries += forwarding(s),
            changes::Write::Lanes(s) => self.changes.sl2vl_entries += router.write_lanes(s, next) as u64,
            changes::Write::Death(..) => {}
        }
    }

    fn sample(&mut self) {
        let per_tick = self.simulator.settings.nanoseconds(1);
        self.watch.sample(self.simulator.now(), per_tick, self.manager.phase(), self.simulator.traffic.bytes);
    }

    /// A standing circle, looked for about four times in the time between two updates.
    fn circle(&self) -> Vec<Wait> {
        let is_due = self.watch.series.len() as u64 % (SAMPLES / 4) == 0;
        if is_due { self.simulator.standing_cycle() } else { Vec::new() }
    }

    fn outcome(mut self, how: How, per_message: f64, circle: Vec<Wait>) -> Outcome {
        let plan = self.plan;
        let full = f64::from(plan.bytes) / per_message;
        let measured = Measured { from: 0, full, offered: plan.offered, reached: true };
        let ended = if circle.is_empty() { Ended::Time } else { Ended::Deadlock };
        let mut outcome = self.simulator.measured(ended, &plan.members, measured);
        let mut circle = circle;
        if circle.is_empty() {
            (outcome.ended, circle) = changes::run_out(&mut self.simulator);
        } else {
            self.changes.deadlock_in = Some(self.changes.made);
        }
        if !circle.is_empty() {
            outcome.deadlock = self.simulator.named(circle);
        }
        self.changes.counts = self.simulator.traffic.counts;
        outcome.changes = Some(self.changes);
        let per_tick = self.simulator.settings.nanoseconds(1);
        outcome.update = Some(Update { how, phases: self.watch.phases(per_tick), series: self.watch.series });
        outcome
    }
}

/// Counts what arrives, by time and by phase.
#[derive(Default)]
struct Watch {
    series: Vec<Sample>,
    /// What had arrived at the last sample, when that was, and the phase then.
    last: Option<(u64, Phase, [u64; 2])>,
    /// When the phase began.
    since: u64,
    /// Times that each phase was gone through, and ticks in it.
    spans: [(u64, u64); PHASES.len()],
}

/// In the order of an update.
const PHASES: [Phase; 4] = [Phase::Rest, Phase::Unpath, Phase::Write, Phase::Repath];

impl Watch {
    /// Another phase begins; `before` is over.
    fn entered(&mut self, before: Phase, now: u64) {
        let span = &mut self.spans[PHASES.iter().position(|p| *p == before).unwrap_or(0)];
        *span = (span.0 + 1, span.1 + now - self.since);
        self.since = now;
    }

    fn sample(&mut self, now: u64, per_tick: f64, phase: Phase, bytes: [u64; 2]) {
        let (then, before, had) = self.last.replace((now, phase, bytes)).unwrap_or((0, Phase::Rest, [0; 2]));
        let ns = (now - then) as f64 * per_tick;
        let [base, high] = [0, 1].map(|lid| (bytes[lid] - had[lid]) as f64 / ns.max(f64::MIN_POSITIVE));
        self.series.push(Sample { time_ns: now as f64 * per_tick, phase: before, base, high });
    }

    fn phases(&self, per_tick: f64) -> Vec<InPhase> {
        let spans = PHASES.into_iter().zip(self.spans).filter(|(_, (times, ticks))| *times > 0 && *ticks > 0);
        let figures = spans.map(|(phase, (times, ticks))| {
            let all: Vec<f64> =
                self.series.iter().filter(|s| s.phase == phase).map(|s| s.base + s.high).collect();
            let throughput = all.iter().sum::<f64>() / all.len().max(1) as f64;
            InPhase { phase, mean_ns: ticks as f64 * per_tick / times as f64, throughput }
        });
        figures.collect()
    }
}
