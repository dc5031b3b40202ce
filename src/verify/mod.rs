//! Tables to verdict. Rebuilds everything from the tables alone: it never imports `route` and does
//! not know which engine ran.

pub mod angara;
mod cycles;
mod finding;
mod jobs;
mod layers;
mod reach;
mod transition;
pub(crate) mod trees;

use rayon::prelude::*;
use serde::Serialize;

use self::cycles::{Dependencies, Turns};
pub use self::finding::{CycleStep, DestinationName, Finding, SwitchName};
use self::finding::{Findings, Kind};
pub use self::jobs::{is_safe_with, layers_of_group, safe_layers};
use self::layers::Layers;
pub(crate) use self::reach::parts;
pub use self::transition::{Transition, transition};
use self::trees::Trees;
use crate::model::{DestId, Fabric, Group, LayerBudget, Tables};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the tables may be used.
    pub accepted: bool,
    /// Why not (at most ten per kind), in a fixed order.
    pub findings: Vec<Finding>,
    /// How many findings there were before the list was cut.
    pub findings_total: u64,
    /// Ordered pairs of hosts in different parts of a fabric that is not connected: listed, not a fault.
    pub unreachable_pairs: u64,
}

/// A value whose tables the checker accepted. Only this module can make one.
#[derive(Debug, Clone)]
pub struct Verified<T> {
    value: T,
}

impl<T> Verified<T> {
    /// The accepted value.
    pub fn get(&self) -> &T {
        &self.value
    }
    /// The accepted value.
    pub fn into_inner(self) -> T {
        self.value
    }
}

/// What is checked beyond what is always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checks {
    /// Connection managers answer on the layer on which they were called: also count each route
    /// from b to a in the layers of the routes from a's switch to b's.
    pub reverse_on_same_layer: bool,
    /// Judge only routes to terminals. Some subnet managers leave the management ports of switches
    /// out of their promises: no route to them at all, or one on layer 0 outside of any proof.
    pub hosts_only: bool,
}

/// Destinations that one task handles, at least, before its results are merged.
const TASK: usize = 64;

/// Destinations shared out to tasks, about four per thread.
fn tasks(dests: &[DestId]) -> rayon::slice::Chunks<'_, DestId> {
    dests.par_chunks(TASK.max(dests.len().div_ceil(4 * rayon::current_num_threads())))
}

/// Judges tables.
///
/// Every switch must have, for every destination that the fabric connects it to, a live port
/// (between two switches without terminals it may say that it has none: nobody's route is there);
/// the
/// ports of a destination must form an in-tree that ends at its own port; each route from a switch
/// with terminals must have a layer below the budget; and in each layer the channel dependency
/// graph of those routes (the layers' routes that start where terminals are) must be acyclic,
/// which is sufficient against deadlock (Dally and Seitz 1987; thesis chapter 3).
///
/// O(destinations × switches + layers × turns), a turn being a channel into a switch and one out
/// of it. Uses all threads; the verdict does not depend on their number.
pub fn judge(fabric: &Fabric, tables: &Tables, budget: LayerBudget) -> Verdict {
    judge_with(fabric, tables, budget, Checks::default())
}

/// Like [`judge`], with optional checks.
pub fn judge_with(fabric: &Fabric, tables: &Tables, budget: LayerBudget, checks: Checks) -> Verdict {
    judge_all(fabric, std::slice::from_ref(tables), budget, checks)
}

/// Like [`judge_with`], for tables that are in force together: a subnet manager may give hosts of
/// one switch different layers. Ports agree then, and each element has the layers of other hosts.
/// No cycle may come from all of them together.
pub fn judge_all(fabric: &Fabric, tables: &[Tables], budget: LayerBudget, checks: Checks) -> Verdict {
    let mut findings = Findings::default();
    if let Some(other) = tables.iter().find(|t| t.fabric() != fabric.fingerprint()) {
        findings.add(Kind::WrongFabric, || Finding::WrongFabric {
            fabric: fabric.fingerprint().to_string(),
            tables: other.fabric().to_string(),
        });
        return verdict(findings, 0);
    }
    let parts = reach::parts(fabric);
    let trees: Vec<Trees<'_>> = tables.iter().map(|t| Trees::new(fabric, t)).collect();
    let turns = Turns::new(fabric);
    let layers: Vec<Layers<'_>> = trees.iter().map(|t| Layers::new(t, &turns, budget, checks)).collect();
    let mut dependencies = turns.none();
    for (trees, layers) in trees.iter().zip(&layers) {
        let (found, own) = sweep(trees, layers, &turns, &parts, checks);
        findings = findings.then(found);
        dependencies = dependencies.and(&own);
    }
    layers::cycles(&layers, &turns, &dependencies, &mut findings);
    verdict(findings, reach::unreachable_pairs(fabric, &parts))
}

fn verdict(findings: Findings, unreachable_pairs: u64) -> Verdict {
    let (findings, findings_total) = findings.finish();
    Verdict { accepted: findings_total == 0, findings, findings_total, unreachable_pairs }
}

/// Checks every destination and collects the dependencies of all routes.
fn sweep(
    trees: &Trees<'_>,
    layers: &Layers<'_>,
    turns: &Turns<'_>,
    parts: &[u32],
    checks: Checks,
) -> (Findings, Dependencies) {
    let nothing = || (Findings::default(), turns.none());
    let dests: Vec<_> = trees.fabric.dest_ids().collect();
    let partial = tasks(&dests).map(|dests| {
        let (mut findings, mut dependencies) = nothing();
        let (mut tree, mut subtree) = (trees.room(), vec![0; parts.len()]);
        for d in dests {
            if checks.hosts_only && trees.fabric.dest_terminal(*d).is_none() {
                continue;
            }
            trees.trace(*d, &mut tree);
            reach::check(trees, *d, &tree, parts, &mut findings);
            layers.check(*d, &tree, &mut subtree, &mut dependencies, &mut findings);
        }
        (findings, dependencies)
    });
    partial.reduce(nothing, |(f1, d1), (f2, d2)| (f1.then(f2), d1.and(&d2)))
}

/// Like [`judge_with`]; also, all routes inside each of these groups must be on one layer.
pub fn judge_jobs(
    fabric: &Fabric,
    tables: &Tables,
    budget: LayerBudget,
    checks: Checks,
    groups: &[Group],
) -> Verdict {
    let all = judge_with(fabric, tables, budget, checks);
    if tables.fabric() != fabric.fingerprint() {
        return all;
    }
    let mut findings = Findings::default();
    jobs::check(fabric, tables, groups, &mut findings);
    let own = verdict(findings, 0);
    Verdict {
        accepted: all.accepted && own.accepted,
        findings: [all.findings, own.findings].concat(),
        findings_total: all.findings_total + own.findings_total,
        unreachable_pairs: all.unreachable_pairs,
    }
}

/// Judges what carries tables and, if accepted, marks it as such.
///
/// # Errors
/// The verdict, if rejected.
pub fn accept<T: AsRef<Tables>>(
    fabric: &Fabric,
    value: T,
    budget: LayerBudget,
) -> Result<Verified<T>, Verdict> {
    accept_jobs(fabric, value, budget, &[])
}

/// Like [`accept`]; also, all routes inside each of these groups must be on one layer.
///
/// # Errors
/// The verdict, if rejected.
pub fn accept_jobs<T: AsRef<Tables>>(
    fabric: &Fabric,
    value: T,
    budget: LayerBudget,
    groups: &[Group],
) -> Result<Verified<T>, Verdict> {
    let verdict = judge_jobs(fabric, value.as_ref(), budget, Checks::default(), groups);
    if verdict.accepted { Ok(Verified { value }) } else { Err(verdict) }
}
