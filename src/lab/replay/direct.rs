//! Job history on a direct torus: each job is routed when it starts, around those that run, by the pass of the
//! service, and its tables stay until its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use super::trace::{Content, Trace, TraceError, TraceJob};
use crate::measure::angara::{channel_loads, per_job};
use crate::measure::mean_of_kept;
use crate::model::{JobId, Torus, TorusJob, Transit};
use crate::pass::torus::{PlanError, Site, plan};
use crate::route::angara::{Limits, TorusEngine};

/// What an engine did for the jobs of a trace.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct DirectSummary {
    /// Name as `sarouter engines` lists it.
    pub engine: String,
    /// Jobs that got tables.
    pub routed: usize,
    /// Jobs that got none, and why.
    pub refused: BTreeMap<JobId, String>,
    /// Geometric mean of the slow-downs of the jobs that run, mean over the time in which jobs ran; 1 of none.
    pub slowdown_mean: f64,
    /// Routes on the fullest link, mean over the time in which jobs ran.
    pub max_mean: f64,
    /// The most routes that a link ever had.
    pub max_worst: u64,
    /// Routes of a job's own on its fullest link, mean over jobs.
    pub own_mean: f64,
    /// Routes of all jobs on the fullest link that a job uses when it starts, mean over jobs.
    pub busiest_mean: f64,
    /// Seconds of all computations together, judging included.
    pub seconds: f64,
}

/// Jobs of a trace on the nodes of a torus.
#[derive(Debug)]
pub struct DirectHistory {
    /// By time, ends before starts: when, and the number of the job.
    events: Vec<(i64, bool, usize)>,
    jobs: Vec<TorusJob>,
    /// Jobs with a node that the torus does not have.
    pub strangers: Vec<JobId>,
}

impl DirectHistory {
    /// Takes the jobs of a trace that have two nodes or more and took some time.
    ///
    /// # Errors
    /// If the trace does not say on which nodes jobs ran.
    pub fn new(trace: &Trace, torus: &Torus) -> Result<Self, TraceError> {
        let wrong = || TraceError::Format {
            name: trace.name.clone(),
            message: "on a direct torus jobs run where the trace says: a trace with node lists is wanted"
                .into(),
        };
        let Content::Jobs(ran) = &trace.content else { return Err(wrong()) };
        let mut history = Self { events: Vec::new(), jobs: Vec::new(), strangers: Vec::new() };
        for TraceJob { id, start, end, nodes, .. } in ran {
            let names = nodes.as_ref().ok_or_else(wrong)?;
            let nodes: Option<Vec<_>> = names.iter().map(|name| torus.node_named(name)).collect();
            let number = history.jobs.len();
            match nodes {
                None => history.strangers.push(id.clone()),
                // One that took no time is never seen: its end would come before its start.
                Some(nodes) if nodes.len() < 2 || end.is_some_and(|end| end <= *start) => {}
                Some(nodes) => {
                    history.events.push((*start, true, number));
                    history.events.push((end.unwrap_or(i64::MAX), false, number));
                    history.jobs.push(TorusJob::new(Some(id.clone()), nodes));
                }
            }
        }
        history.events.sort_unstable();
        Ok(history)
    }

    /// Jobs that are routed.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Lets an engine route each job when it starts; `each` is called with every start. O(jobs × engine).
    pub fn replay(
        &self,
        torus: &Torus,
        transit: Transit,
        engine: &dyn TorusEngine,
        each: &dyn Fn(),
    ) -> DirectSummary {
        let site = Site { torus: torus.clone(), steady: torus.clone(), transit };
        let mut run =
            Run { site, running: BTreeMap::new(), time: 0.0, weighted: [0.0; 2], own: 0, busiest: 0 };
        let mut summary = DirectSummary {
            engine: engine.name().to_string(),
            routed: 0,
            refused: BTreeMap::new(),
            slowdown_mean: 1.0,
            max_mean: 0.0,
            max_worst: 0,
            own_mean: 0.0,
            busiest_mean: 0.0,
            seconds: 0.0,
        };
        let mut last = (0, 0, 1.0);
        for (time, starts, number) in &self.events {
            run.passed(last, *time);
            match starts {
                false => drop(run.running.remove(number)),
                true => {
                    let begun = Instant::now();
                    let done = run.start(*number, &self.jobs[*number], engine);
                    summary.seconds += begun.elapsed().as_secs_f64();
                    match (done, self.jobs[*number].id.clone()) {
                        (Ok(()), _) => summary.routed += 1,
                        (Err(why), Some(id)) => drop(summary.refused.insert(id, why)),
                        (Err(_), None) => {}
                    }
                    each();
                }
            }
            last = (*time, run.max(), run.slowdown());
            summary.max_worst = summary.max_worst.max(last.1);
        }
        let jobs = summary.routed.max(1) as f64;
        if run.time > 0.0 {
            [summary.max_mean, summary.slowdown_mean] = run.weighted.map(|sum| sum / run.time);
        }
        (summary.own_mean, summary.busiest_mean) = (run.own as f64 / jobs, run.busiest as f64 / jobs);
        summary
    }
}

/// The jobs that run, by number, each with its routes.
struct Run {
    site: Site,
    running: BTreeMap<usize, TorusJob>,
    /// Seconds with jobs, and the same times the load of the fullest link, and times the slow-down.
    time: f64,
    weighted: [f64; 2],
    /// Sums over jobs.
    own: u64,
    busiest: u64,
}

impl Run {
    /// Time went by since an event, after which the fullest link had so many routes, and jobs a slow-down.
    fn passed(&mut self, (since, max, slowdown): (i64, u64, f64), now: i64) {
        if !self.running.is_empty() && now < i64::MAX {
            let seconds = now.saturating_sub(since) as f64;
            self.time += seconds;
            self.weighted[0] += seconds * max as f64;
            self.weighted[1] += seconds * slowdown;
        }
    }

    fn max(&self) -> u64 {
        let loads = channel_loads(&self.site.torus, self.running.values().filter_map(TorusJob::kept));
        loads.into_iter().max().unwrap_or(0).into()
    }

    fn slowdown(&self) -> f64 {
        mean_of_kept(&self.site.torus, self.running.values())
    }

    fn start(&mut self, number: usize, job: &TorusJob, engine: &dyn TorusEngine) -> Result<(), String> {
        let running: Vec<TorusJob> = self.running.values().cloned().collect();
        let starting = std::slice::from_ref(job);
        let plan = plan(&self.site, &running, starting, engine, &Limits::default());
        let plan = plan.map_err(|error: PlanError| error.to_string())?;
        if let Some((_, why)) = plan.refused.into_iter().next() {
            return Err(why);
        }
        let tables = plan.tables.get();
        let figures = per_job(&self.site.torus, &tables.routes);
        let (routes, (own, busiest)) = match (tables.routes.last(), figures.last()) {
            (Some(routes), Some(figures)) => (routes.clone(), figures),
            _ => return Err("no routes".into()),
        };
        self.own += own.max;
        self.busiest += busiest;
        self.running.insert(number, job.clone().keeping(Arc::new(routes)));
        Ok(())
    }
}
