//! What the jobs of a direct torus would have by the baseline, the weights of the paper alone, and how small the largest
//! load could be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::dry_run::of_jobs;
use super::seen::Direct;
use crate::measure::Time;
use crate::measure::angara::lower_bound;
use crate::model::{JobId, Routes, TorusDemand, TorusJob};
use crate::pass::baseline::Baseline;
use crate::route::angara::{Limits, engine};

/// Algorithms 3 and 4 of the paper: the best of its engines that needs no search.
const ENGINE: &str = "angara-sssp";
/// Ordered pairs of nodes of the jobs, at most: what is computed while somebody waits takes some tenths of a second.
const MOST_PAIRS: usize = 40_000;

/// The jobs that have tables, as the baseline would route them together.
#[derive(Debug, Clone, PartialEq)]
pub struct TorusBaseline {
    /// Over all of them.
    pub all: Baseline,
    /// Slow-down by job, where it is known.
    pub slowdowns: BTreeMap<JobId, f64>,
    /// No tables of these jobs have a smaller largest load; `None` where nothing is known.
    pub bound: Option<u64>,
}

impl TorusBaseline {
    /// `None` without jobs, of more pairs than are computed, and where not all jobs can be routed. As the engine and
    /// [`lower_bound`].
    pub fn of(seen: &Direct) -> Option<Self> {
        let afresh = |(id, job): (&JobId, &TorusJob)| {
            TorusJob::new(Some(id.clone()), job.ranks().to_vec()).exchanging(Some(job.mix.clone()))
        };
        let jobs: Vec<TorusJob> = seen.running.iter().map(afresh).collect();
        let pairs: usize = jobs.iter().map(|job| job.nodes().len() * job.nodes().len()).sum();
        if jobs.is_empty() || pairs > MOST_PAIRS {
            return None;
        }
        let torus = &seen.torus;
        let demand = TorusDemand { jobs, transit: seen.transit? };
        let tables = engine(ENGINE).ok()?.route(torus, &demand, &Limits::default()).ok()?;
        let routed: Vec<(&TorusJob, &Routes)> = demand.jobs.iter().zip(&tables.routes).collect();
        let slowdowns: Vec<Option<f64>> = of_jobs(torus, &routed).iter().map(|gets| gets.slowdown).collect();
        let time = Time::of_known(slowdowns.iter().copied())?;
        let named = seen.running.keys().zip(slowdowns);
        Some(Self {
            all: Baseline { engine: ENGINE, named: false, time, slowdowns: Vec::new() },
            slowdowns: named.filter_map(|(id, slowdown)| Some((id.clone(), slowdown?))).collect(),
            bound: Some(u64::from(lower_bound(torus, &demand))).filter(|bound| *bound > 0),
        })
    }
}

/// Made once for the jobs that have tables, not for each who asks.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Option<(String, Option<Arc<TorusBaseline>>)>>);

impl Kept {
    /// The baseline of what is seen. Who asks meanwhile waits for the same answer.
    pub fn of(&self, seen: &Direct) -> Option<Arc<TorusBaseline>> {
        let ids: Vec<&str> = seen.running.keys().map(JobId::as_str).collect();
        let key = format!("{} {}", seen.torus.fingerprint(), ids.join(" "));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((known, found)) if *known == key => found.clone(),
            _ => {
                let found = TorusBaseline::of(seen).map(Arc::new);
                *kept = Some((key, found.clone()));
                found
            }
        }
    }
}
