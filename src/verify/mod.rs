//! Tables to verdict. Rebuilds everything from the tables alone: it never imports `route` and does
//! not know which engine ran.

pub mod angara;
mod cycles;
mod finding;
mod layers;
mod reach;
pub(crate) mod trees;

use rayon::prelude::*;
use serde::Serialize;

use self::cycles::Dependencies;
pub use self::finding::{CycleStep, DestinationName, Finding, SwitchName};
use self::finding::{Findings, Kind};
use self::layers::Layers;
use self::trees::Trees;
use crate::model::{Fabric, LayerBudget, Tables};

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
}

/// Destinations that one task handles before its results are merged.
const TASK: usize = 64;

/// Judges tables.
///
/// Every switch must have, for every destination that the fabric connects it to, a live port; the
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
    let mut findings = Findings::default();
    if tables.fabric() != fabric.fingerprint() {
        findings.add(Kind::WrongFabric, || Finding::WrongFabric {
            fabric: fabric.fingerprint().to_string(),
            tables: tables.fabric().to_string(),
        });
        return verdict(findings, 0);
    }
    let parts = reach::parts(fabric);
    let trees = Trees::new(fabric, tables);
    let layers = Layers::new(&trees, budget, checks);
    let (mut findings, dependencies) = sweep(&trees, &layers, &parts);
    layers.cycles(&dependencies, &mut findings);
    verdict(findings, reach::unreachable_pairs(fabric, &parts))
}

fn verdict(findings: Findings, unreachable_pairs: u64) -> Verdict {
    let (findings, findings_total) = findings.finish();
    Verdict { accepted: findings_total == 0, findings, findings_total, unreachable_pairs }
}

/// Checks every destination and collects the dependencies of all routes.
fn sweep(trees: &Trees<'_>, layers: &Layers<'_>, parts: &[u32]) -> (Findings, Dependencies) {
    let nothing = || (Findings::default(), layers.none());
    let dests: Vec<_> = trees.fabric.dest_ids().collect();
    let tasks = dests.par_chunks(TASK.max(dests.len().div_ceil(4 * rayon::current_num_threads())));
    let partial = tasks.map(|dests| {
        let (mut findings, mut dependencies) = nothing();
        let (mut tree, mut subtree) = (trees.room(), vec![0; parts.len()]);
        for d in dests {
            trees.trace(*d, &mut tree);
            reach::check(trees, *d, &tree, parts, &mut findings);
            layers.check(*d, &tree, &mut subtree, &mut dependencies, &mut findings);
        }
        (findings, dependencies)
    });
    partial.reduce(nothing, |(f1, d1), (f2, d2)| (f1.then(f2), d1.and(&d2)))
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
    let verdict = judge(fabric, value.as_ref(), budget);
    if verdict.accepted { Ok(Verified { value }) } else { Err(verdict) }
}
