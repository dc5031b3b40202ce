//! `flux jobs -A -c 0 -f running --json`: `{"jobs": [{"id", "state", "nodelist", "t_run", "expiration", …}]}`. A job
//! owns its nodes from `RUN` to `CLEANUP`; times are seconds since 1970.
//!
//! Jobs that wait stand before those that run, and without `-c 0` there are a thousand at most: of a full list that
//! does not reach those that are over, nobody knows what runs.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::{JobsError, json, listed};
use crate::model::{Job, JobId, JobMap, JobState};
use crate::observe::hostlist::{self, Budget};

#[derive(Deserialize)]
struct FluxJobs {
    jobs: Vec<Written>,
}

/// As many as `flux jobs` prints at most where nobody says another number.
const USUAL_LIMIT: usize = 1000;

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
    if answer.jobs.len() == USUAL_LIMIT && answer.jobs.iter().all(|job| job.state != "INACTIVE") {
        let message = format!(
            "{USUAL_LIMIT} jobs, which is all that `flux jobs` prints without -c 0: those that run may be missing"
        );
        return Err(JobsError::Line { name: name.to_string(), line: 1, message });
    }
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
