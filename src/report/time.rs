//! Predicted times of jobs, for `report.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::{Time, of_routes, or_endless, slowdowns};
use crate::model::{Demand, Fabric, Group, JobId, PlacedJob, Routes, Tables, Torus, TorusJob, TorusTables};

/// A job's predicted time.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct JobTime {
    /// The job.
    pub id: JobId,
    /// What it is taken to exchange.
    pub pattern: String,
    /// Its time beside what its terminals' own cables need, all jobs at work.
    #[serde(deserialize_with = "or_endless")]
    #[schemars(with = "Option<f64>")]
    pub slowdown: f64,
    /// The same without the other jobs.
    #[serde(deserialize_with = "or_endless")]
    #[schemars(with = "Option<f64>")]
    pub alone: f64,
}

/// Slow-down over jobs and of each of them.
#[derive(Debug, Clone, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
pub struct JobTimes {
    /// Over all jobs.
    #[serde(flatten)]
    pub all: Time,
    /// Geometric mean over jobs with the best engine that knows no jobs; `None` where nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oblivious: Option<f64>,
    /// By job, in the order of ids as given; those on one switch are not there. Empty where nobody asked.
    #[serde(default)]
    pub jobs: Vec<JobTime>,
}

impl JobTimes {
    /// Of all jobs that the demand serves, and of each of them. O(twice that of [`slowdowns`] + jobs²).
    pub fn with_jobs(fabric: &Fabric, tables: &Tables, demand: &Demand, placed: &[PlacedJob]) -> Self {
        let together = slowdowns(fabric, tables, demand);
        let of = |job: &PlacedJob| {
            let wanted = job.ranks.group();
            let is_it = |g: &&Group| (&g.ranks, &g.mix) == (&wanted.ranks, &wanted.mix);
            let at = demand.groups.iter().position(|g| is_it(&g))?;
            let group = &demand.groups[at];
            let lonely = Demand::new(vec![group.clone()], Vec::new());
            let alone = slowdowns(fabric, tables, &lonely)[0];
            Some(JobTime {
                id: job.id.clone(),
                pattern: group.mix.to_string(),
                slowdown: together[at],
                alone,
            })
        };
        Self { all: Time::of(&together), oblivious: None, jobs: placed.iter().filter_map(of).collect() }
    }
    /// Of the jobs of a direct torus. A table of the whole torus is a job without a name.
    /// O(twice that of [`of_routes`] + jobs²).
    pub fn on_torus(torus: &Torus, tables: &TorusTables) -> Self {
        let jobs = || tables.demand.jobs.iter().zip(&tables.routes);
        let together = of_routes(torus, jobs());
        let of = |((job, routes), slowdown): ((&TorusJob, &Routes), &f64)| {
            let (id, pattern, slowdown) = (job.id.clone()?, job.mix.to_string(), *slowdown);
            let alone = if together.len() == 1 { slowdown } else { of_routes(torus, [(job, routes)])[0] };
            Some(JobTime { id, pattern, slowdown, alone })
        };
        Self {
            all: Time::of(&together),
            oblivious: None,
            jobs: jobs().zip(&together).filter_map(of).collect(),
        }
    }
}
