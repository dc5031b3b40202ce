//! What follows a look: decide, check, publish. A dry run is the same without the last.

mod accepted;
mod before;
mod line;
mod remembered;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use self::accepted::accepted;
use self::before::in_force;
pub use self::before::{Again, difference, published};
pub use self::line::EpochLine;
use self::line::line;
pub use self::remembered::Remembered;
use super::chain;
use super::health::Stage;
use super::record::Made;
use crate::model::{Demand, Group, Layer, NodeName, Promise, SplitLids, Tables};
use crate::pass::plan::{self, Decision, PassedOver, Plan, Policy, Published, Reason};
use crate::pass::step::{Event, View};
use crate::pass::worth::Worth;
use crate::publish::{EpochStore, Hold, StoreError, Writer};
use crate::report::cost::{cpu_seconds, peak_rss_bytes};
use crate::report::{Compute, JobsSummary, Layers, Report, VerdictSummary};
use crate::route::RouteError;
use crate::verify::{self, Verdict, Verified};

/// Why a pass made no epoch though one was due.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(StoreError),
    /// An administrator holds what is in force.
    #[error("what is in force is held since {}: {}", .0.since, .0.reason)]
    Held(Hold),
    /// The engine made no tables.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The checker refused the tables: a bug in the engine.
    #[error("the tables of {engine} were rejected: {}", findings(verdict))]
    Rejected {
        /// The engine.
        engine: String,
        /// What the checker found.
        verdict: Verdict,
    },
    /// Jobs that run use the service level they were told, and the new tables are not safe with it.
    #[error("the tables of {0} are not safe for jobs that run with the service level they were told")]
    Told(String),
    /// The epoch could not be written.
    #[error(transparent)]
    Publish(StoreError),
    /// A bug: the computation panicked.
    #[error("the computation was aborted: {0}")]
    Aborted(String),
}

impl PassError {
    /// Where a pass failed with this.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Store(_) | Self::Held(_) => Stage::Store,
            Self::Route(_) | Self::Aborted(_) => Stage::Route,
            Self::Rejected { .. } | Self::Told(_) => Stage::Verify,
            Self::Publish(_) => Stage::Publish,
        }
    }
}

/// The first findings, as JSON: names of devices and layers included.
fn findings(verdict: &Verdict) -> String {
    const QUOTED: usize = 3;
    let quoted: Vec<String> =
        verdict.findings.iter().take(QUOTED).filter_map(|f| serde_json::to_string(f).ok()).collect();
    let more = if verdict.findings.len() > QUOTED { ", …" } else { "" };
    format!("{}{more}", quoted.join(", "))
}

/// What the decision was.
#[derive(Debug)]
pub struct Decided {
    /// Checked tables, if new ones are due.
    pub plan: Option<Checked>,
    /// Why other jobs get no routes of their own.
    pub not_worth: Option<Worth>,
    /// What the routes in force are to serve, now or once the plan is published.
    pub demand: Demand,
    /// Nodes of jobs that no terminal matches.
    pub unknown_nodes: Vec<NodeName>,
    /// Multi-switch jobs that are too young to count.
    pub waiting: usize,
    /// See [`plan::Outcome::waits_for_lid`].
    pub waits_for_lid: bool,
}

/// New tables that the checker accepted.
#[derive(Debug)]
pub struct Checked {
    /// What may be published.
    pub plan: Verified<Plan>,
    /// What it is worth.
    pub report: Report,
    /// Time of the decision, engine and measures included.
    pub routing: Duration,
    /// Time of the checker.
    pub verifying: Duration,
}

impl Checked {
    /// Adds what the computation cost and what tables without jobs would give; returns when it was made.
    fn complete(&mut self, view: &View, again: Option<Again>) -> DateTime<Utc> {
        let again = again.map(|again| (again.created, again.compute));
        let (created, compute) = again.unwrap_or((Utc::now(), self.report.compute));
        self.report.compute = compute;
        let named = view.policy.baseline.as_deref();
        let baseline =
            view.oblivious.baseline(&view.fabric, &self.plan.get().demand.groups, named, view.policy.budget);
        self.report.time.oblivious = baseline.map(|baseline| baseline.time.slowdown_mean);
        created
    }
}

/// Decides and checks. Where an engine makes nothing that may be published, the next one is asked.
///
/// # Errors
/// Those of the last engine.
pub fn decide(view: &View, published: Option<&Published>) -> Result<Decided, PassError> {
    let mut passed_over: Vec<PassedOver> = Vec::new();
    let engines = std::iter::once(&view.policy.engine).chain(&view.policy.then);
    let mut engines = engines.peekable();
    while let Some(engine) = engines.next() {
        let policy = Policy { engine: engine.clone(), ..view.policy.clone() };
        let view = View { policy, ..view.clone() };
        match decide_by(&view, published, &passed_over) {
            Err(error @ (PassError::Route(_) | PassError::Rejected { .. })) if engines.peek().is_some() => {
                passed_over.push(PassedOver { engine: engine.clone(), reason: chain(&error) });
            }
            done => return done,
        }
    }
    unreachable!("the last engine's answer is the answer")
}

fn decide_by(
    view: &View,
    published: Option<&Published>,
    passed_over: &[PassedOver],
) -> Result<Decided, PassError> {
    let (begun, cpu_before) = (Instant::now(), cpu_seconds());
    let outcome = plan::plan(&view.fabric, &view.nodes, &view.jobs, published, &view.policy)?;
    let routing = begun.elapsed();
    let cpu = cpu_seconds() - cpu_before;
    let mut not_worth = None;
    let plan = match outcome.decision {
        Decision::Keep => None,
        Decision::NotWorth(worth) => {
            not_worth = Some(worth);
            None
        }
        Decision::Publish(plan) => {
            let begun = Instant::now();
            let plan = Plan { passed_over: passed_over.to_vec(), ..*plan };
            let plan = accepted(view, plan, published)?;
            Some(checked(view, plan, routing, begun.elapsed(), cpu))
        }
    };
    Ok(Decided {
        plan,
        not_worth,
        demand: outcome.demand,
        unknown_nodes: outcome.unknown_nodes,
        waiting: outcome.waiting,
        waits_for_lid: outcome.waits_for_lid,
    })
}

fn checked(
    view: &View,
    plan: Verified<Plan>,
    routing: Duration,
    verifying: Duration,
    cpu_seconds: f64,
) -> Checked {
    let (engine, budget) = (plan.get().engine.clone(), plan.get().budget);
    let jobs = JobsSummary { running: view.jobs.jobs.len(), multi_switch: plan.get().demand.groups.len() };
    let after = plan.get().after;
    let layers = Layers { budget: budget.get(), used: after.layers_used };
    let verdict = VerdictSummary { accepted: true, findings: Vec::new() };
    let mut report = Report::new(&engine, &view.fabric, jobs, layers, verdict, after);
    // Microseconds: a number that is read back exactly.
    let short = |seconds: f64| (seconds * 1e6).round() / 1e6;
    let (cpu_seconds, wall_seconds) = (short(cpu_seconds), short(routing.as_secs_f64()));
    report.compute = Compute { cpu_seconds, wall_seconds, peak_rss_bytes: peak_rss_bytes() };
    Checked { plan, report, routing, verifying }
}

/// A pass that ended well.
#[derive(Debug)]
pub struct Passed {
    /// The new epoch, if one was due.
    pub epoch: Option<EpochLine>,
    /// The same for the recording.
    pub made: Option<Made>,
    /// What need not be looked at again: what the routes in force serve, or would gain too little by others.
    pub demand: Demand,
    /// What the routes in force were made for.
    pub served: Demand,
    /// Why other jobs get no routes of their own.
    pub not_worth: Option<Worth>,
    /// Nodes of jobs that no terminal matches.
    pub unknown_nodes: Vec<NodeName>,
    /// Multi-switch jobs that are too young to count.
    pub waiting: usize,
    /// What is in force now, and since when; `None` if nothing was ever published.
    pub in_force: Option<(u64, DateTime<Utc>)>,
    /// Those of the epoch in force; `None` before the first.
    pub tables: Option<Arc<Tables>>,
    /// Those of the other LIDs, where these have routes of their own.
    pub lids: Option<SplitLids>,
    /// See [`plan::Outcome::waits_for_lid`].
    pub waits_for_lid: bool,
    /// What did not go well and yet did not matter.
    pub warnings: Vec<String>,
    /// What is in force, for the next pass.
    pub remembered: Option<Remembered>,
}

impl Passed {
    /// What it is for the service's memory, after a pass with this view.
    pub fn event(self, view: &View) -> Event {
        event(self.epoch.is_some_and(|epoch| epoch.halfway), self.demand, self.not_worth, view)
    }
}

/// What a pass for a demand means for the next step, and how long other routes that are not worth the change are sure to
/// stay so.
pub fn event(is_halfway: bool, demand: Demand, not_worth: Option<Worth>, view: &View) -> Event {
    if is_halfway {
        return Event::Halfway;
    }
    let pause = not_worth.and_then(|worth| worth.again).map(|again| again - view.jobs.time);
    Event::InForce(view.fabric.fingerprint(), demand, pause)
}

/// Decides, checks and publishes, under the store's lock. `keep` epochs stay. What is in force is read from the store,
/// unless it is what an earlier pass has left.
///
/// A damaged epoch in force is replaced as if there were none.
///
/// # Errors
/// The epoch in force stays.
pub fn pass(
    store: &EpochStore,
    keep: usize,
    view: &View,
    remembered: Option<Remembered>,
) -> Result<Passed, PassError> {
    pass_as(store, keep, view, remembered, None)
}

/// As [`pass`]; an epoch may repeat an earlier one.
///
/// # Errors
/// The epoch in force stays.
pub fn pass_as(
    store: &EpochStore,
    keep: usize,
    view: &View,
    remembered: Option<Remembered>,
    again: Option<Again>,
) -> Result<Passed, PassError> {
    let mut warnings: Vec<String> = Vec::new();
    let in_switches = view.policy.in_switches.map(|found| found.epoch);
    let mut writer = store.lock().map_err(PassError::Store)?.keeping(in_switches);
    if let Some(hold) = store.hold().map_err(PassError::Store)? {
        return Err(PassError::Held(hold));
    }
    let (published, told, mut remembered) =
        in_force(store, view, (remembered, again.as_ref()), &mut warnings);
    let view = &*provable(store, view, published.as_ref());
    let decided = decide(view, published.as_ref())?;
    if let Some(checked) = &decided.plan {
        warn_of(view, checked.plan.get(), &told, &mut warnings)?;
    }
    let of = |p: &Published| (Some(Arc::clone(&p.tables)), p.demand.clone(), p.lids.clone());
    let (mut tables, mut served, mut lids) = published.as_ref().map(of).unwrap_or_default();
    let (epoch, made) = match decided.plan {
        None => (None, None),
        Some(mut checked) => {
            let begun = Instant::now();
            let created = checked.complete(view, again);
            let put = writer.publish(&view.fabric, &checked.plan, &checked.report, created);
            let epoch = put.map_err(PassError::Publish)?;
            let publishing = begun.elapsed();
            delete_old(&mut writer, keep, &mut warnings);
            let made = Made::of(store, epoch);
            remembered = Remembered::new(store, epoch, &view.fabric, &checked.plan, created);
            let time = switched_at(store).unwrap_or(created);
            let line = line(view, published.as_ref(), &checked, epoch, time, publishing);
            let plan = checked.plan.into_inner();
            (tables, served, lids) = (Some(plan.tables), plan.demand, plan.lids);
            (Some(line), made)
        }
    };
    let in_force = store.current().ok().flatten().map(|epoch| epoch.get()).zip(switched_at(store));
    // When the pause is over the same jobs may be worth a change.
    let is_later = decided.waits_for_lid || decided.not_worth.is_some_and(|worth| worth.not_before.is_some());
    let demand = if is_later { served.clone() } else { decided.demand };
    Ok(Passed {
        epoch,
        made,
        demand,
        served,
        not_worth: decided.not_worth,
        unknown_nodes: decided.unknown_nodes,
        waiting: decided.waiting,
        in_force,
        tables,
        lids,
        waits_for_lid: decided.waits_for_lid,
        warnings,
        remembered,
    })
}

/// The view with what can be proved: of a change from what nobody can read nothing is.
fn provable<'a>(store: &EpochStore, view: &'a View, published: Option<&Published>) -> Cow<'a, View> {
    if published.is_some() || matches!(store.current(), Ok(None)) {
        return Cow::Borrowed(view);
    }
    let promise = Promise { mixed: false, ..view.policy.promise };
    Cow::Owned(View { policy: Policy { promise, ..view.policy.clone() }, ..view.clone() })
}

/// Deletes epochs that are not kept.
fn delete_old(writer: &mut Writer, keep: usize, warnings: &mut Vec<String>) {
    if let Err(error) = writer.collect_garbage(keep) {
        warnings.push(format!("old epochs cannot be deleted: {error}"));
    }
}

/// What is said of a plan beside what it is.
///
/// # Errors
/// [`PassError::Told`] if it is not safe with the service levels that were `told` to jobs that run.
fn warn_of(
    view: &View,
    plan: &Plan,
    told: &[(Group, Layer)],
    warnings: &mut Vec<String>,
) -> Result<(), PassError> {
    for PassedOver { engine, reason } in &plan.passed_over {
        warnings.push(format!("{} routes, because {engine} does not: {reason}", plan.engine));
    }
    if !verify::is_safe_with(&view.fabric, &plan.tables, plan.budget, told) {
        // Where the fabric is another, the old routes are no choice.
        if plan.reason != Reason::FabricChanged {
            return Err(PassError::Told(plan.engine.clone()));
        }
        warnings.push("jobs that run use a service level that is not safe any more".to_string());
    }
    Ok(())
}

/// When `current` was renamed into place: a rename changes the link's status, nothing else does.
fn switched_at(store: &EpochStore) -> Option<DateTime<Utc>> {
    use std::os::unix::fs::MetadataExt;
    let link = std::fs::symlink_metadata(store.current_path()).ok()?;
    DateTime::from_timestamp(link.ctime(), u32::try_from(link.ctime_nsec()).ok()?)
}

/// For people: to a tenth.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

#[cfg(test)]
mod tests;
