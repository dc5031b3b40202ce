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
use serde::{Deserialize, Serialize};

use super::history::{History, Window};
use super::series::{Cost, Row};
use crate::measure::{self, Effective};
use crate::model::{Demand, Fabric, JobMap, LayerBudget, NodeMap, Promise, Tables};
use crate::pass::plan::{Plan, Policy, Published, wanted};
use crate::pass::step::View;
use crate::pass::worth::{Price, Running};
use crate::route;
use crate::service::pass::{Checked, PassError, decide};

/// What is to be replayed.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where.
    pub fabric: Arc<Fabric>,
    /// Its nodes.
    pub nodes: Arc<NodeMap>,
    /// Engines as named: `NAME`; `NAME:static` for one that is asked once, for everybody; `NAME:gain=SECONDS` for
    /// one that asks more of a change than `price` does.
    pub engines: Vec<String>,
    /// Names and tables of others, such as those in force at a site; they stay as they are, and
    /// need not pass the checker.
    pub given: Vec<(String, Arc<Tables>)>,
    /// Virtual layers.
    pub budget: LayerBudget,
    /// All routes inside one job on one layer.
    pub layer_per_job: bool,
    /// What a change for jobs alone must be worth.
    pub price: Price,
    /// First snapshot, seconds since 1970.
    pub from: i64,
    /// Seconds between snapshots.
    pub every: i64,
    /// Number of snapshots.
    pub samples: usize,
    /// Snapshots per chunk.
    pub chunk: usize,
}

/// A chunk's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Index of the history.
    pub history: usize,
    /// First snapshot.
    pub first: usize,
    /// The one after the last.
    pub end: usize,
}

impl Setup {
    /// All chunks: placement by placement, in the order of time.
    pub fn chunks(&self, histories: usize) -> Vec<Chunk> {
        let of = |history| {
            let firsts = (0..self.samples).step_by(self.chunk.max(1));
            firsts.map(move |first| Chunk {
                history,
                first,
                end: (first + self.chunk.max(1)).min(self.samples),
            })
        };
        (0..histories).flat_map(of).collect()
    }

    fn time(&self, sample: usize) -> i64 {
        self.from + sample as i64 * self.every
    }

    fn policy(&self, engine: &str) -> Policy {
        Policy {
            engine: engine.to_string(),
            then: Vec::new(),
            budget: self.budget,
            // A snapshot stands for the whole time until the next one.
            min_job_age: TimeDelta::zero(),
            layer_per_job: self.layer_per_job,
            promise: Promise::TOLD,
            storage: Vec::new(),
            price: self.price,
        }
    }
}

/// The moment at which job-aware routes gained most over the first static engine: what is worth a
/// picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// As in [`Row`].
    pub placement: String,
    /// As in [`Row`].
    pub time: DateTime<Utc>,
    /// Largest effective EFI of the first static engine less that of the first job-aware one.
    pub gain: i64,
    /// Terminals of the largest job.
    pub largest_job: usize,
    /// Leaf switches it is on.
    pub largest_job_leaves: usize,
    /// Loads by channel, engine by engine.
    pub loads: Vec<Loads>,
}

/// What an engine put on the channels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loads {
    /// The engine.
    pub engine: String,
    /// Routes inside jobs, by channel.
    pub all: Vec<u64>,
    /// Routes inside the largest job, by channel.
    pub largest_job: Vec<u64>,
}

/// The better of two moments; the first if they gain the same.
pub fn better(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    match (a, b) {
        (Some(a), Some(b)) if b.gain > a.gain => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// What chunks gave.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// By chunk, snapshot, engine.
    pub rows: Vec<Row>,
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
    /// Figures of what is in force for `demand`, and node-hours that its jobs lose in an hour.
    known: Option<(Demand, Effective, f64)>,
}

/// Engines that can route the fabric at all, with their tables if they are asked once.
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
    /// Unknown names, and tables that the checker rejects.
    pub fn new(setup: &Setup) -> Result<Self, PassError> {
        let given = setup.given.iter().map(|(name, tables)| {
            let in_force = published(name.clone(), Demand::oblivious(), Arc::clone(tables), None);
            (name.clone(), None, Some(in_force))
        });
        let (mut ready, mut refused) = (given.collect::<Vec<_>>(), Vec::new());
        for name in &setup.engines {
            let (plain, how) = name.split_once(':').unwrap_or((name, ""));
            let mut policy = setup.policy(plain);
            match how.strip_prefix("gain=").map(str::parse::<u32>) {
                Some(Ok(seconds)) => policy.price.min_gain = TimeDelta::seconds(seconds.into()),
                None if how.is_empty() || how == "static" => {}
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
    View { fabric: Arc::clone(&setup.fabric), nodes: Arc::clone(&setup.nodes), jobs, policy }
}

fn published(engine: String, demand: Demand, tables: Arc<Tables>, since: Option<DateTime<Utc>>) -> Published {
    Published {
        fabric: tables.fabric(),
        engine,
        since,
        demand,
        tables,
        told: Vec::new(),
        promise: Promise::TOLD,
        lanes: None,
    }
}

fn planned(plan: Plan) -> Published {
    published(plan.engine, plan.demand, Arc::new(plan.tables), Some(plan.jobs.time))
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
        if is_counted {
            results.moment = moment(setup, results.moment.take(), &runners, &snapshot, &rows);
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
}

impl Runner {
    fn step(
        &mut self,
        setup: &Setup,
        snapshot: &Snapshot,
        placement: &str,
        refusals: &mut Vec<(String, String)>,
    ) -> Result<(Row, Option<Cost>), PassError> {
        let mut row = Row {
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
        let is_known = self.known.as_ref().is_some_and(|(demand, ..)| *demand == snapshot.demand);
        if !is_known {
            let tables = self.in_force.as_ref().map(|p| Arc::clone(&p.tables));
            self.known = tables.map(|tables| {
                let effective = measure::effective(&setup.fabric, &tables, &snapshot.demand);
                let lost = snapshot.running.lost(&setup.fabric, &tables, setup.price);
                (snapshot.demand.clone(), effective, lost)
            });
        }
        if let Some((_, effective, lost)) = &self.known {
            row.set(effective);
            row.lost_node_hours = lost * setup.every as f64 / 3600.0;
        }
        Ok((row, cost))
    }

    /// Puts new routes in force.
    fn adopt(&mut self, setup: &Setup, checked: Checked, row: &mut Row) -> Cost {
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

/// The moment of this snapshot if it gains more than the best so far.
fn moment(
    setup: &Setup,
    best: Option<Moment>,
    runners: &[Runner],
    snapshot: &Snapshot,
    rows: &[Row],
) -> Option<Moment> {
    let theirs = runners.iter().position(|r| r.policy.is_none());
    let ours = runners.iter().position(|r| r.policy.is_some());
    let max = |i: Option<usize>| i.map_or(0, |i| rows[i].max_effective as i64);
    // Without one of the kinds, where there is most to see.
    let gain = if theirs.and(ours).is_some() { max(theirs) - max(ours) } else { max(theirs.or(ours)) };
    // Groups are sorted by size.
    let Some((largest, first)) = snapshot.demand.groups.first().zip(rows.first()) else { return best };
    if best.as_ref().is_some_and(|b| b.gain >= gain) {
        return best;
    }
    let loads = runners.iter().filter_map(|r| {
        let tables = r.tables()?;
        let all = measure::effective_loads(&setup.fabric, tables, &snapshot.demand.groups);
        let largest_job = measure::effective_loads(&setup.fabric, tables, std::slice::from_ref(largest));
        Some(Loads { engine: r.name.clone(), all, largest_job })
    });
    let mut leaves: Vec<_> = largest.terminals.iter().map(|t| setup.fabric.terminal(*t).switch).collect();
    leaves.sort_unstable();
    leaves.dedup();
    Some(Moment {
        placement: first.placement.clone(),
        time: snapshot.jobs.time,
        gain,
        largest_job: largest.terminals.len(),
        largest_job_leaves: leaves.len(),
        loads: loads.collect(),
    })
}
