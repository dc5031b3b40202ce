//! Snapshots through engines.
//!
//! The unit of work is a chunk: consecutive snapshots (a day, unless said otherwise) of one
//! placement. An engine that keeps what need not change depends on what was in force before, so
//! each chunk starts afresh: with fresh routes for the snapshot before its first, which is not
//! counted. Chunks are thus independent, and the results depend neither on the number of threads
//! nor on how chunks are shared out over machines.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};

use super::history::{History, Window};
use super::moment::{Moment, better};
use super::series::{Cost, EngineSnapshot};
use super::setup::{Chunk, Setup, Simulated};
use crate::measure::{self, Effective, Time};
use crate::model::{Demand, JobMap, Tables};
use crate::pass::plan::{Plan, Policy, Published, wanted};
use crate::pass::step::View;
use crate::pass::worth::Running;
use crate::route;
use crate::service::pass::{Checked, PassError, decide};
use crate::simulate::Net;
use crate::simulate::exchange::with_tables;

/// What chunks gave.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// By chunk, snapshot, engine.
    pub rows: Vec<EngineSnapshot>,
    /// Of each reroute.
    pub costs: Vec<Cost>,
    /// See [`Moment`].
    pub moment: Option<Moment>,
    /// Why routes were refused, the first time for each engine.
    pub refusals: Vec<(String, String)>,
}

/// An engine at work.
struct Runner {
    name: String,
    /// `None` for an engine that is asked once.
    policy: Option<Policy>,
    in_force: Option<Published>,
    /// What is in force for a demand.
    known: Option<Known>,
}

/// Figures of tables for a demand.
struct Known {
    demand: Demand,
    /// Of it, the jobs that compute.
    running: Demand,
    effective: Effective,
    time: Time,
    /// Node-hours that its jobs lose in an hour.
    lost: f64,
}

/// Engines that can route the fabric safely, with their tables if they are asked once.
pub struct Engines {
    ready: Vec<(String, Option<Policy>, Option<Published>)>,
    /// Engines that cannot, and why.
    pub refused: Vec<(String, String)>,
}

impl Engines {
    /// Asks the static engines, and checks what they say. Job-aware ones are asked for routes
    /// without jobs, to see whether they can route the fabric.
    ///
    /// # Errors
    /// Unknown names, and whatever else ends a pass.
    pub fn new(setup: &Setup) -> Result<Self, PassError> {
        let given = setup.given.iter().map(|(name, tables)| {
            let nobody = Demand::oblivious();
            let in_force = Published::new(tables.fabric(), name.clone(), nobody, Arc::clone(tables));
            (name.clone(), None, Some(in_force))
        });
        let (mut ready, mut refused) = (given.collect::<Vec<_>>(), Vec::new());
        for name in &setup.engines {
            let (plain, how) = name.split_once(':').unwrap_or((name, ""));
            let mut policy = setup.policy(plain);
            let number = |key: &str| how.strip_prefix(key).map(str::parse::<u32>);
            match (number("gain="), number("epochs=")) {
                (Some(Ok(seconds)), _) => {
                    policy.price.min_gain = TimeDelta::seconds(seconds.into());
                    policy.price.epochs_per_day = 0;
                }
                (_, Some(Ok(epochs))) => {
                    policy.price.epochs_per_day = u16::try_from(epochs).unwrap_or(u16::MAX);
                }
                (None, None) if how.is_empty() || how == "static" => {}
                // Never an engine.
                _ => policy.engine = name.clone(),
            }
            let is_static = how == "static" || !route::serves_jobs(plain);
            let nobody = JobMap::new(DateTime::<Utc>::UNIX_EPOCH, Vec::new());
            match decide(&view(setup, nobody, policy.clone()), None) {
                Ok(decided) => {
                    let plan = decided.plan.map(|checked| planned(checked.plan.into_inner()));
                    let (policy, tables) = if is_static { (None, plan) } else { (Some(policy), None) };
                    ready.push((name.clone(), policy, tables));
                }
                Err(error @ PassError::Route(route::RouteError::UnknownEngine(_))) => return Err(error),
                Err(PassError::Route(error)) => refused.push((name.clone(), error.to_string())),
                Err(PassError::Rejected { verdict, .. }) => {
                    refused.push((name.clone(), format!("its tables were rejected: {}", verdict.in_words())));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self { ready, refused })
    }

    /// Names of those that work, in the order given.
    pub fn names(&self) -> Vec<String> {
        self.ready.iter().map(|(name, ..)| name.clone()).collect()
    }

    /// Whether an engine of ours follows the jobs.
    pub fn job_aware(&self) -> Vec<String> {
        self.ready.iter().filter(|(_, policy, _)| policy.is_some()).map(|(name, ..)| name.clone()).collect()
    }

    fn runners(&self) -> Vec<Runner> {
        let runner = |(name, policy, in_force): &(String, Option<Policy>, Option<Published>)| Runner {
            name: name.clone(),
            policy: policy.clone(),
            in_force: in_force.clone(),
            known: None,
        };
        self.ready.iter().map(runner).collect()
    }
}

fn view(setup: &Setup, jobs: JobMap, policy: Policy) -> View {
    View::new(Arc::clone(&setup.fabric), Arc::clone(&setup.nodes), jobs, policy)
}

fn planned(plan: Plan) -> Published {
    let asked = plan.worth.map(|worth| worth.asked);
    let in_force = Published::new(plan.tables.fabric(), plan.engine, plan.demand, plan.tables);
    Published { since: Some(plan.jobs.time), asked, ..in_force }
}

/// Replays chunks with so many threads; `tick` is told of each snapshot done.
///
/// # Errors
/// The first failure in the order of the chunks: an engine without routes and without any before.
pub fn replay(
    setup: &Setup,
    engines: &Engines,
    histories: &[History],
    chunks: &[Chunk],
    threads: usize,
    tick: &(dyn Fn() + Sync),
) -> Result<Results, PassError> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<Results, PassError>>>> =
        chunks.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((slot, chunk)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            done.get(i).zip(chunks.get(i))
        } {
            let result = one_chunk(setup, engines, &histories[chunk.history], *chunk, tick);
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            // A pool of one thread each: engines and measures never wait for another chunk's work.
            scope.spawn(|| match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
                Ok(pool) => pool.install(work),
                Err(_) => work(),
            });
        }
    });
    let mut all = Results::default();
    for slot in done {
        let result = slot.into_inner().ok().flatten();
        let part =
            result.unwrap_or_else(|| Err(PassError::Aborted("a thread of the replay ended".into())))?;
        all.rows.extend(part.rows);
        all.costs.extend(part.costs);
        all.moment = better(all.moment, part.moment);
        for refusal in part.refusals {
            if !all.refusals.iter().any(|(engine, _)| *engine == refusal.0) {
                all.refusals.push(refusal);
            }
        }
    }
    Ok(all)
}

fn one_chunk(
    setup: &Setup,
    engines: &Engines,
    history: &History,
    chunk: Chunk,
    tick: &(dyn Fn() + Sync),
) -> Result<Results, PassError> {
    let placement = history.nodes.to_string();
    // The snapshot before the first is routed too.
    let begin = chunk.first.saturating_sub(1);
    let window = history.window(setup.time(begin), setup.time(chunk.end.saturating_sub(1)));
    let mut runners = engines.runners();
    let mut results = Results::default();
    for sample in begin..chunk.end {
        let is_counted = sample >= chunk.first;
        let snapshot = Snapshot::new(setup, &window, sample);
        let mut rows = Vec::with_capacity(runners.len());
        for runner in &mut runners {
            if !is_counted && runner.policy.is_none() {
                continue;
            }
            let (row, cost) = runner.step(setup, &snapshot, &placement, &mut results.refusals)?;
            if is_counted {
                rows.push(row);
                results.costs.extend(cost);
            }
        }
        if is_counted && setup.simulated.has(sample, setup.samples) && !snapshot.demand.groups.is_empty() {
            let net = Net::of_fabric(&setup.fabric);
            for (row, runner) in rows.iter_mut().zip(&runners) {
                row.simulated_us = snapshot.simulated(setup, &net, runner)?;
            }
        }
        if is_counted {
            let seen = snapshot.moment(setup, &runners, &rows, results.moment.as_ref());
            results.moment = better(results.moment.take(), seen);
            results.rows.append(&mut rows);
            tick();
        }
    }
    Ok(results)
}

/// The jobs of a moment.
struct Snapshot {
    jobs: JobMap,
    demand: Demand,
    running: Running,
}

impl Snapshot {
    fn new(setup: &Setup, window: &Window<'_>, sample: usize) -> Self {
        let jobs = window.at(setup.time(sample));
        let demand = wanted(&setup.fabric, &setup.nodes, &jobs, None, &setup.policy("")).demand;
        let running = Running::of(&setup.fabric, &setup.nodes, &jobs);
        Self { jobs, demand, running }
    }

    fn measure(&self, setup: &Setup, tables: &Tables) -> Known {
        let slowdowns = self.running.slowdowns(&setup.fabric, tables);
        Known {
            demand: self.demand.clone(),
            running: self.running.demand().clone(),
            effective: measure::effective(&setup.fabric, tables, &self.demand),
            time: Time::of(&slowdowns),
            lost: self.running.lost(&slowdowns, setup.price),
        }
    }

    /// Geometric mean over jobs and patterns of their time in the packet simulator, us; `None` after a deadlock.
    fn simulated(&self, setup: &Setup, net: &Net, runner: &Runner) -> Result<Option<f64>, PassError> {
        let Some(tables) = runner.tables() else { return Ok(None) };
        let Simulated { patterns, bytes, .. } = &setup.simulated;
        let mut logarithms = 0.0;
        for pattern in patterns {
            let groups = &self.demand.groups;
            match with_tables((&setup.fabric, net), tables, groups, *pattern, *bytes) {
                Ok(Some(ns)) => logarithms += (ns / 1000.0).ln(),
                Ok(None) => return Ok(None),
                Err(reason) => return Err(PassError::Aborted(format!("{}: {reason}", runner.name))),
            }
        }
        Ok(Some((logarithms / patterns.len().max(1) as f64).exp()))
    }

    /// Its moment, if it gains more than the best so far.
    fn moment(
        &self,
        setup: &Setup,
        runners: &[Runner],
        rows: &[EngineSnapshot],
        best: Option<&Moment>,
    ) -> Option<Moment> {
        let follows: Vec<bool> = runners.iter().map(|r| r.policy.is_some()).collect();
        let gain = Moment::gain(rows, &follows);
        if best.is_some_and(|b| b.gain >= gain) {
            return None;
        }
        let engines: Vec<_> = runners.iter().filter_map(|r| Some((r.name.as_str(), r.tables()?))).collect();
        Moment::new(&setup.fabric, rows.first()?, gain, &self.demand.groups, &engines)
    }
}

impl Runner {
    fn step(
        &mut self,
        setup: &Setup,
        snapshot: &Snapshot,
        placement: &str,
        refusals: &mut Vec<(String, String)>,
    ) -> Result<(EngineSnapshot, Option<Cost>), PassError> {
        let mut row = EngineSnapshot {
            placement: placement.to_string(),
            time: snapshot.jobs.time,
            engine: self.name.clone(),
            jobs: snapshot.jobs.jobs.len(),
            multi_switch: snapshot.demand.groups.len(),
            max_effective: 0,
            lower_bound: 0,
            max_per_job_mean: 0.0,
            dark_fiber: 0.0,
            links_per_job_mean: 0.0,
            epoch: 0,
            refused: 0,
            routes_changed: None,
            blocks_changed: None,
            lost_node_hours: 0.0,
            slowdown_mean: 1.0,
            slowdown_p95: 1.0,
            simulated_us: None,
        };
        let mut cost = None;
        if let Some(policy) = &self.policy {
            match decide(&view(setup, snapshot.jobs.clone(), policy.clone()), self.in_force.as_ref()) {
                Ok(decided) => {
                    if let Some(checked) = decided.plan {
                        cost = Some(self.adopt(setup, checked, &mut row));
                    }
                }
                Err(error) if self.in_force.is_some() => {
                    row.refused = 1;
                    if !refusals.iter().any(|(engine, _)| *engine == self.name) {
                        refusals.push((self.name.clone(), error.to_string()));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let is_same =
            |known: &Known| known.demand == snapshot.demand && known.running == *snapshot.running.demand();
        if !self.known.as_ref().is_some_and(is_same) {
            self.known = self.tables().map(|tables| snapshot.measure(setup, tables));
        }
        if let Some(known) = &self.known {
            row.set(&known.effective, known.time);
            row.lost_node_hours = known.lost * setup.every as f64 / 3600.0;
        }
        Ok((row, cost))
    }

    /// Puts new routes in force.
    fn adopt(&mut self, setup: &Setup, checked: Checked, row: &mut EngineSnapshot) -> Cost {
        let ms = crate::service::pass::milliseconds;
        let (route_ms, verify_ms) = (ms(checked.routing), ms(checked.verifying));
        let plan = checked.plan.into_inner();
        row.epoch = 1;
        if let Some(before) = &self.in_force {
            let blocks = plan.tables.changed_blocks(&setup.fabric, &before.tables);
            row.blocks_changed = blocks.map(|n| n as u64);
            row.routes_changed = Some(measure::changed_routes(&setup.fabric, &before.tables, &plan.tables));
        }
        self.known = None;
        self.in_force = Some(planned(plan));
        Cost {
            placement: row.placement.clone(),
            time: row.time,
            engine: self.name.clone(),
            route_ms,
            verify_ms,
        }
    }

    fn tables(&self) -> Option<&Tables> {
        self.in_force.as_ref().map(|p| p.tables.as_ref())
    }
}
