//! `flux jobs -A --json`: `{"jobs": [{"id", "state", "nodelist", "t_run", "expiration", …}]}`, by the documentation
//! of flux-jobs(1). A job owns its nodes from `RUN` to `CLEANUP`; times are seconds since 1970.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::{JobsError, json, listed};
use crate::model::{Job, JobId, JobMap, JobState};
use crate::observe::hostlist::{self, Budget};

#[derive(Deserialize)]
struct FluxJobs {
    jobs: Vec<Written>,
}

/// A job as written. Other keys are skipped.
#[derive(Deserialize)]
struct Written {
    id: u64,
    state: String,
    #[serde(default)]
    nodelist: String,
    /// 0 before it runs.
    #[serde(default)]
    t_run: f64,
    /// 0 without a limit.
    #[serde(default)]
    expiration: f64,
}

fn time(seconds: f64) -> Option<DateTime<Utc>> {
    (seconds > 0.0).then(|| DateTime::from_timestamp(seconds as i64, 0)).flatten()
}

/// Reads the answer, which has no time of its own.
pub(super) fn parse(
    text: &str,
    name: &str,
    now: DateTime<Utc>,
    mut budget: Budget,
) -> Result<JobMap, JobsError> {
    let answer: FluxJobs = json(text, name)?;
    let mut jobs = Vec::new();
    for job in answer.jobs {
        let state = match job.state.as_str() {
            "RUN" => JobState::Running,
            "CLEANUP" => JobState::Completing,
            _ => continue,
        };
        if job.nodelist.is_empty() {
            continue;
        }
        let wrong = |message: String| listed(name, &job.id.to_string(), &message);
        let id = JobId::new(job.id.to_string()).map_err(|e| wrong(e.to_string()))?;
        let nodes = hostlist::expand_within(&job.nodelist, &mut budget).map_err(|e| wrong(e.to_string()))?;
        jobs.push(Job::new(id, state, nodes, time(job.t_run)).ending(time(job.expiration)));
    }
    Ok(JobMap::new(now, jobs))
}
