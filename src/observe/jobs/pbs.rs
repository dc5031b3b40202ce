//! `qstat -t -f -F json` of OpenPBS: `{"timestamp", "pbs_version", "Jobs": {"17.server": {"job_state", "exec_host", …}}}`.
//! Times of jobs have no time zone there and are not read.
//!
//! OpenPBS 23.06 prints what a user says as it is: with `qsub -N nan`, or a backslash in a variable, its answer is no
//! JSON any more. So it is read by its lines, of which each holds one attribute, and what users say is skipped. An
//! answer that a program has laid out anew is read as JSON.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::{JobsError, json, listed};
use crate::model::{Job, JobId, JobMap, JobState, NodeName};
use crate::observe::hostlist::{self, Budget};

#[derive(Deserialize, Default)]
struct PbsJobs {
    #[serde(default)]
    timestamp: Option<i64>,
    /// Missing if there is none.
    #[serde(default, rename = "Jobs")]
    jobs: BTreeMap<String, Written>,
}

/// A job as written. Other keys are skipped.
#[derive(Deserialize, Default)]
struct Written {
    job_state: String,
    /// `n1/0*4+n2/0*4`: host, first slot, slots.
    #[serde(default)]
    exec_host: String,
}

/// Whether a text has the lines of qstat itself.
pub(super) fn is_printed(text: &str) -> bool {
    text.lines().take(4).any(|line| line.starts_with("    \"pbs_version\":\""))
}

/// The key and what follows the colon of a line at this depth, without a comma; `None` of another line.
fn entry(line: &str, depth: usize) -> Option<(&str, &str)> {
    let line = line.strip_prefix(&"                "[..depth * 4])?.strip_prefix('"')?;
    let (key, value) = line.split_once("\":")?;
    Some((key, value.strip_suffix(',').unwrap_or(value)))
}

/// Whether a line ends what begins at this depth.
fn ends(line: &str, depth: usize) -> bool {
    matches!(line.strip_prefix(&"                "[..depth * 4]), Some("}" | "},"))
}

/// Reads the lines of qstat.
fn printed(text: &str, name: &str) -> Result<PbsJobs, JobsError> {
    let (mut answer, mut shown, mut inner) = (PbsJobs::default(), None::<String>, false);
    let (mut in_jobs, mut at, mut ended) = (false, 0, false);
    for line in text.split('\n') {
        at += 1;
        let found = (1..=3).find_map(|depth| Some((depth, entry(line, depth)?)));
        match (found, &shown) {
            (Some((1, ("timestamp", value))), None) => answer.timestamp = value.parse().ok(),
            (Some((1, ("Jobs", "{"))), None) => in_jobs = true,
            (Some((2, (id, "{"))), None) if in_jobs => {
                if answer.jobs.insert(id.to_string(), Written::default()).is_some() {
                    return Err(listed(name, id, "it is there twice"));
                }
                shown = Some(id.to_string());
            }
            (Some((3, (_, "{"))), Some(_)) if !inner => inner = true,
            (Some((3, (key @ ("job_state" | "exec_host"), value))), Some(id)) if !inner => {
                let value = value.trim_matches('"').to_string();
                let job = answer.jobs.get_mut(id).expect("inserted above");
                if key == "job_state" { job.job_state = value } else { job.exec_host = value }
            }
            (None, Some(_)) if inner && ends(line, 3) => inner = false,
            (None, Some(_)) if !inner && ends(line, 2) => shown = None,
            (None, None) if in_jobs && ends(line, 1) => in_jobs = false,
            (None, None) if line == "}" => ended = true,
            // What users say, and what nobody asks for.
            _ => {}
        }
    }
    if ended && shown.is_none() && !in_jobs {
        return Ok(answer);
    }
    Err(JobsError::Line { name: name.to_string(), line: at, message: "the text ends too soon".to_string() })
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

/// Array jobs whose tasks run must have them in the answer.
fn has_tasks(jobs: &BTreeMap<String, Written>, array: &str) -> bool {
    let Some((number, server)) = array.split_once("[]") else { return true };
    let task = |id: &String| {
        let index = id.strip_prefix(number).and_then(|id| id.strip_prefix('['));
        index.is_some_and(|index| !index.starts_with(']') && index.ends_with(server))
    };
    jobs.keys().any(task)
}

/// Reads the answer.
pub(super) fn parse(
    text: &str,
    name: &str,
    now: DateTime<Utc>,
    mut budget: Budget,
) -> Result<JobMap, JobsError> {
    let answer: PbsJobs = if is_printed(text) { printed(text, name)? } else { json(text, name)? };
    let mut jobs = Vec::new();
    for (shown, job) in &answer.jobs {
        let wrong = |message: String| listed(name, shown, &message);
        let state = match job.job_state.as_str() {
            "R" => JobState::Running,
            "E" => JobState::Completing,
            "S" | "U" => JobState::Suspended,
            "B" if !has_tasks(&answer.jobs, shown) => {
                return Err(wrong(
                    "the tasks of the array are missing; `qstat -t -f -F json` has them".into(),
                ));
            }
            _ => continue,
        };
        if job.exec_host.is_empty() {
            continue;
        }
        let id = JobId::new(shown.clone()).map_err(|e| wrong(e.to_string()))?;
        let nodes = nodes(&job.exec_host, &mut budget).map_err(wrong)?;
        jobs.push(Job::new(id, state, nodes, None));
    }
    let time = answer.timestamp.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    Ok(JobMap::new(time.unwrap_or(now), jobs))
}
