//! `squeue --json` and slurmrestd's `/jobs`, which are the same text: openapi v0.0.36 to v0.0.38
//! (Slurm 20.11 to 22.05) and the newer data parsers.
//!
//! What differs between versions: `job_state` is a word or a list of words; a number is a number
//! or `{"set": …, "infinite": …, "number": …}`; `job_resources.nodes` is a host list or an object.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::{JobsError, json, owning_state};
use crate::model::{Job, JobId, JobMap, JobState};
use crate::observe::hostlist;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    errors: Vec<Complaint>,
    jobs: Vec<Listed>,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(untagged)]
enum Number {
    Plain(i64),
    Wrapped {
        #[serde(default)]
        set: Option<bool>,
        #[serde(default)]
        infinite: bool,
        number: i64,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum States {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ResourceNodes {
    Hosts(String),
    /// Slurm 24.05 and later.
    Object {
        #[serde(default)]
        list: String,
    },
}

#[derive(Deserialize)]
struct Resources {
    nodes: Option<ResourceNodes>,
}

/// A job as written. Unknown keys are skipped: there are a hundred.
#[derive(Deserialize)]
struct Written {
    job_id: u64,
    job_state: States,
    #[serde(default)]
    nodes: Option<String>,
    #[serde(default)]
    job_resources: Option<Resources>,
    #[serde(default)]
    start_time: Option<Number>,
    #[serde(default)]
    end_time: Option<Number>,
    #[serde(default)]
    time_limit: Option<Number>,
}

/// A job that owns nodes, or one that does not. Converted inside the JSON reader, so that what is
/// wrong with it is reported with its line.
#[derive(Deserialize)]
#[serde(try_from = "Written")]
struct Listed(Option<Job>);

impl Number {
    /// `None` if not set, infinite, or zero (which Slurm uses for "no time").
    fn value(self) -> Option<i64> {
        let number = match self {
            Self::Plain(number) => number,
            Self::Wrapped { set, infinite, number } if set != Some(false) && !infinite => number,
            Self::Wrapped { .. } => return None,
        };
        (number != 0).then_some(number)
    }
    fn time(self) -> Option<DateTime<Utc>> {
        self.value().and_then(|seconds| DateTime::from_timestamp(seconds, 0))
    }
}

impl States {
    fn owning(&self) -> Option<JobState> {
        match self {
            Self::One(word) => owning_state(&[word.as_str()]),
            Self::Several(words) => owning_state(&words.iter().map(String::as_str).collect::<Vec<_>>()),
        }
    }
}

impl Written {
    /// The host list, wherever this version writes it.
    fn hosts(&self) -> &str {
        let resources = self.job_resources.as_ref().and_then(|r| r.nodes.as_ref());
        match (self.nodes.as_deref(), resources) {
            (Some(nodes), _) if !nodes.is_empty() => nodes,
            (_, Some(ResourceNodes::Hosts(nodes) | ResourceNodes::Object { list: nodes })) => nodes,
            _ => "",
        }
    }
}

impl TryFrom<Written> for Listed {
    type Error = String;
    fn try_from(written: Written) -> Result<Self, String> {
        let Some(state) = written.job_state.owning() else { return Ok(Self(None)) };
        let hosts = written.hosts();
        if hosts.is_empty() {
            return Ok(Self(None));
        }
        let explain = |e: &dyn std::fmt::Display| format!("job {}: {e}", written.job_id);
        let id = JobId::new(written.job_id.to_string()).map_err(|e| explain(&e))?;
        let nodes = hostlist::expand(hosts).map_err(|e| explain(&e))?;
        // Without a limit, Slurm gives an end in a year.
        let limited = written.time_limit.is_some_and(|limit| limit.value().is_some());
        let end = written.end_time.filter(|_| limited).and_then(Number::time);
        let start = written.start_time.and_then(Number::time);
        Ok(Self(Some(Job::new(id, state, nodes, start).ending(end))))
    }
}

/// Reads Slurm's answer. `now` is its time if it has none of its own.
pub(super) fn parse(text: &str, name: &str, now: DateTime<Utc>) -> Result<JobMap, JobsError> {
    let answer: Answer = json(text, name)?;
    if let Some(complaint) = answer.errors.first() {
        let words: Vec<&str> =
            [&complaint.description, &complaint.error].into_iter().filter_map(|w| w.as_deref()).collect();
        return Err(JobsError::Slurm { name: name.to_string(), message: words.join(": ") });
    }
    let jobs = answer.jobs.into_iter().filter_map(|listed| listed.0).collect();
    Ok(JobMap::new(now, jobs))
}
