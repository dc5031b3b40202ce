//! Tables made anew for other jobs. Those that are made from the tables in force keep the routes of jobs that run, and so
//! they may fall behind what a fresh start finds, and behind engines that know no jobs.

use super::baseline::Baseline;
use super::plan::{Plan, Policy, Published, Reason};
use super::worth::Worth;
use crate::model::{Fabric, JobMap};
use crate::route::graph::{hosts_per_switch, is_indirect};
use crate::route::{self, RouteError};

/// Destinations × switches of trees up to which tables are always made anew beside: it takes a second or less.
const MOST_IN_TREES: usize = 1 << 19;
/// The same of other fabrics, where it takes seconds, if an engine that knows no jobs is ahead.
const MOST: usize = 1 << 16;
/// Without a price, tables made anew are taken if those made from the tables in force are predicted to take more than so
/// many times their time.
const PAYS: f64 = 1.02;

/// What new tables are made from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Those in force, if they are of the same fabric.
    InForce,
    /// Nothing.
    Anew,
}

/// The plan that is made from the tables in force, and where that is due one that is made anew.
///
/// # Errors
/// If the engine makes no tables from those in force.
pub(super) fn both(
    fabric: &Fabric,
    jobs: JobMap,
    published: Option<&Published>,
    policy: &Policy,
    make: impl Fn(JobMap, Start) -> Result<Plan, RouteError>,
) -> Result<(Plan, Option<Plan>), RouteError> {
    let plan = make(jobs, Start::InForce)?;
    let anew = is_due(fabric, published, &plan, policy).then(|| make(plan.jobs.clone(), Start::Anew));
    Ok((plan, anew.and_then(Result::ok)))
}

/// Whether tables are to be made anew beside this plan, which was made from the tables in force. As [`Baseline::of`].
fn is_due(fabric: &Fabric, published: Option<&Published>, plan: &Plan, policy: &Policy) -> bool {
    let is_of_fabric = published.is_some_and(|p| p.fabric == fabric.fingerprint())
        && route::serves_jobs(&policy.engine)
        && !policy.layer_per_job
        && matches!(plan.reason, Reason::JobsChanged | Reason::EngineChanged);
    // Only inside lanes, and among ways of a tree, any tables may follow any others.
    let may_follow = !policy.promise.mixed || route::reads_lanes(&policy.engine);
    // Predictions know no storage.
    let slowdown = plan.after.time.slowdown_mean;
    if !is_of_fabric || !may_follow || slowdown <= 1.0 || !plan.demand.storage.servers.is_empty() {
        return false;
    }
    let entries = fabric.dest_count() * fabric.switches().len();
    if is_indirect(&hosts_per_switch(fabric)) {
        return entries <= MOST_IN_TREES;
    }
    // New tables keep of another engine's what no job uses.
    let is_of_another = published.is_some_and(|p| p.engine != policy.engine);
    let blind = || Baseline::of(fabric, &plan.demand.groups, None, policy.budget);
    entries <= MOST && (is_of_another || blind().is_some_and(|blind| blind.time.slowdown_mean < slowdown))
}

/// The better of a plan that was made from the tables in force and one that was made anew, each with what it is worth. What
/// pays is better than what does not, then what saves more; without a price the plan made anew is if it is clearly predicted
/// to take less time.
pub(super) fn better(kept: (Plan, Option<Worth>), anew: (Plan, Option<Worth>)) -> (Plan, Option<Worth>) {
    let is_better = match (&kept.1, &anew.1) {
        (Some(kept), Some(anew)) => {
            let saves = |worth: &Worth| (worth.is_paid(), worth.gain.unwrap_or(f64::NEG_INFINITY));
            saves(anew) > saves(kept)
        }
        _ => anew.0.after.time.slowdown_mean * PAYS < kept.0.after.time.slowdown_mean,
    };
    if is_better { anew } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::Promise;
    use crate::pass::plan::{Decision, plan};
    use crate::pass::tests::{budget, jobs, nodes, published};

    /// Slow-down of the last of these snapshots, each with one job more, with tables that follow every difference; of
    /// tables made for it alone, and of the best engine that knows no jobs.
    fn followed(spec: &str, all: &[&str], promise: Promise) -> [f64; 3] {
        let fabric = generate(spec).unwrap();
        let (nodes, policy) = (nodes(&fabric), Policy::new("balanced", budget(8), promise));
        let planned = |n: usize, published: Option<&Published>| {
            let outcome = plan(&fabric, &nodes, &jobs(&all[..n]), published, &policy).unwrap();
            let Decision::Publish(plan) = outcome.decision else { panic!("{n} of {all:?}: nothing is due") };
            *plan
        };
        let mut in_force = None;
        let mut last = f64::NAN;
        for n in 1..=all.len() {
            let plan = planned(n, in_force.as_ref());
            last = plan.after.time.slowdown_mean;
            in_force = Some(published(&fabric, &plan, promise));
        }
        let fresh = planned(all.len(), None);
        let blind = Baseline::of(&fabric, &fresh.demand.groups, None, policy.budget).unwrap();
        [last, fresh.after.time.slowdown_mean, blind.time.slowdown_mean]
    }

    #[test]
    fn jobs_that_share_nodes_are_served_as_well_as_by_a_fresh_start() {
        let pairs = (1..=80).map(|i| format!("n[{i},{}]", i + 80)).collect::<Vec<_>>();
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        let safe = "any+mixed".parse().unwrap();
        for (spec, all) in [
            ("fattree:4x4,2", &["n[4,8,12,16]", "n[4,7,12,16]"][..]),
            ("fattree:4x4,2", &["n[3,5,9]", "n[5,10]"]),
            ("fattree:10x18,5", &pairs),
            ("dragonfly:4,2,2,4", &["n[1-8]", "n[9-16]", "n[3-20]", "n[1-32]"]),
        ] {
            let [last, fresh, blind] = followed(spec, all, safe);
            assert!(last <= blind * 1.0001, "{spec}: {last}, without jobs {blind}");
            assert!(last <= fresh * PAYS, "{spec}: {last}, from nothing {fresh}");
        }
    }

    #[test]
    fn another_engine_in_the_settings_is_as_good_as_a_fresh_start() {
        let all = jobs(&["n[1-30]", "n[31-70,100-120]"]);
        for (spec, before) in
            [("fattree:10x18,5", "updown"), ("fattree:10x18,5", "dfsssp"), ("dragonfly:4,2,2,9", "dfsssp")]
        {
            let fabric = generate(spec).unwrap();
            let nodes = nodes(&fabric);
            let planned = |engine: &str, published: Option<&Published>| {
                let policy = Policy::new(engine, budget(8), Promise::TOLD);
                let outcome = plan(&fabric, &nodes, &all, published, &policy).unwrap();
                let Decision::Publish(plan) = outcome.decision else {
                    panic!("{spec}, {engine}: nothing is due")
                };
                *plan
            };
            let old = planned(before, None);
            let changed = planned("balanced", Some(&published(&fabric, &old, Promise::TOLD)));
            let [old, changed, fresh] =
                [old, changed, planned("balanced", None)].map(|plan| plan.after.time.slowdown_mean);
            assert!(
                changed <= fresh * PAYS,
                "{spec}: {changed} after {before} ({old}), from nothing {fresh}"
            );
            assert!(changed < old, "{spec}: {changed}, {before} {old}");
        }
    }
}
