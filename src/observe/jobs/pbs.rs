//! `qstat -f -F json` of OpenPBS and PBS Professional: `{"timestamp", "pbs_version", "Jobs": {"17.server":
//! {"job_state", "exec_host", …}}}`, by qstat(1B) and the design of that option. Times of jobs have no time zone there and
//! are not read.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::{JobsError, json, listed};
use crate::model::{Job, JobId, JobMap, JobState, NodeName};
use crate::observe::hostlist::{self, Budget};

#[derive(Deserialize)]
struct PbsJobs {
    #[serde(default)]
    timestamp: Option<i64>,
    /// Missing if there is none.
    #[serde(default, rename = "Jobs")]
    jobs: BTreeMap<String, Written>,
}

/// A job as written. Other keys are skipped.
#[derive(Deserialize)]
struct Written {
    job_state: String,
    /// `n1/0*4+n2/0*4`: host, first slot, slots.
    #[serde(default)]
    exec_host: String,
}

/// The nodes of a job in the order of its ranks, each once.
fn nodes(exec_host: &str, budget: &mut Budget) -> Result<Vec<NodeName>, String> {
    let (mut nodes, mut seen) = (Vec::new(), BTreeSet::new());
    for place in exec_host.split('+') {
        let host = place.split('/').next().unwrap_or_default();
        // A name, no list.
        if NodeName::new(host).is_err() || host.contains(['[', ',']) {
            return Err(format!("{host:?} is not the name of a host"));
        }
        if seen.insert(host) {
            nodes.extend(hostlist::expand_within(host, budget).map_err(|e| e.to_string())?);
        }
    }
    Ok(nodes)
}

/// Reads the answer.
pub(super) fn parse(
    text: &str,
    name: &str,
    now: DateTime<Utc>,
    mut budget: Budget,
) -> Result<JobMap, JobsError> {
    let answer: PbsJobs = json(text, name)?;
    let mut jobs = Vec::new();
    for (shown, job) in answer.jobs {
        let state = match job.job_state.as_str() {
            "R" => JobState::Running,
            "E" => JobState::Completing,
            "S" | "U" => JobState::Suspended,
            _ => continue,
        };
        if job.exec_host.is_empty() {
            continue;
        }
        let wrong = |message: String| listed(name, &shown, &message);
        let id = JobId::new(shown.clone()).map_err(|e| wrong(e.to_string()))?;
        let nodes = nodes(&job.exec_host, &mut budget).map_err(wrong)?;
        jobs.push(Job::new(id, state, nodes, None));
    }
    let time = answer.timestamp.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    Ok(JobMap::new(time.unwrap_or(now), jobs))
}
