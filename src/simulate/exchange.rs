//! How long the exchanges of jobs take in the packet simulator, all at once.

use super::traffic::jobs::Jobs;
use super::traffic::script::Script;
use super::{AnyRouter, Ended, Net, Router, Settings, TableRouter, run};
use crate::model::{Fabric, Group, Pattern, Tables};

/// Geometric mean over the jobs of the time until a job's last byte has arrived, ns; `None` after a deadlock. The
/// largest message of the pattern has so many bytes.
///
/// # Errors
/// If the tables cannot be simulated.
pub fn with_tables(
    (fabric, net): (&Fabric, &Net),
    tables: &Tables,
    groups: &[Group],
    pattern: Pattern,
    bytes: u32,
) -> Result<Option<f64>, String> {
    let router = TableRouter::new(fabric, net, tables).map_err(|e| e.to_string())?;
    with_router(net, &AnyRouter::Table(router), groups, pattern, bytes)
}

/// The same where each job has a pattern of its own.
///
/// # Errors
/// If the tables cannot be simulated.
pub fn of_each(
    (fabric, net): (&Fabric, &Net),
    tables: &Tables,
    groups: &[Group],
    pattern: impl Fn(&Group) -> Pattern,
    bytes: u32,
) -> Result<Option<f64>, String> {
    let router = TableRouter::new(fabric, net, tables).map_err(|e| e.to_string())?;
    let script = |g: &Group| {
        let members: Vec<u32> = g.ranks.iter().map(|t| t.index() as u32).collect();
        Script::among((&members, g.adapters), net.terminals(), pattern(g), bytes, 1)
    };
    simulated(net, &router, groups.iter().map(script).collect())
}

/// The same by any router.
///
/// # Errors
/// If the jobs cannot be simulated.
pub fn with_router(
    net: &Net,
    router: &AnyRouter<'_>,
    groups: &[Group],
    pattern: Pattern,
    bytes: u32,
) -> Result<Option<f64>, String> {
    let script = |g: &Group| {
        let members: Vec<u32> = g.ranks.iter().map(|t| t.index() as u32).collect();
        Script::exchange(&members, net.terminals(), pattern, bytes, 1)
    };
    simulated(net, router, groups.iter().map(script).collect())
}

fn simulated<R: Router>(net: &Net, router: &R, scripts: Vec<Script>) -> Result<Option<f64>, String> {
    let jobs = Jobs::new(scripts, net.terminals());
    let (outcome, finished) = run::jobs(net, Settings::qdr(), router, jobs, 1)?;
    let times: Option<Vec<f64>> = finished.into_iter().collect();
    Ok(times.filter(|_| outcome.ended == Ended::Finished).map(geometric))
}

/// The geometric mean; 1 of nothing.
pub fn geometric(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut n) = (0.0, 0);
    for value in values {
        sum += value.ln();
        n += 1;
    }
    (sum / f64::from(n.max(1))).exp()
}
