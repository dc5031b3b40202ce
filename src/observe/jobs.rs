//! `--jobs`: squeue or slurmrestd JSON, `flux jobs --json`, `qstat -t -f -F json`, a snapshot of ours, or lines `ID HOSTLIST [PATTERN]`; recognised by
//! content. Hints in comments are read from JSON alone: `squeue -o` prints a comment as it is, so that one with
//! a new line in it would be a job of its own.

mod flux;
mod pbs;
pub(super) mod slurm_json;

use std::collections::BTreeSet;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::hostlist::{self, Budget};
use super::{regular, without_mark};
use crate::model::{Component, Job, JobId, JobMap, JobState, Mix, Submission, Submitted, plain};

/// Why there are no jobs. `name` is a path, a command, or `standard input`.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// It cannot be read.
    #[error("{name}: {error}")]
    Read {
        /// Path.
        name: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{name}:{line}: {message}")]
    Line {
        /// Path or command.
        name: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A job is there twice in JSON, whose lines nobody counts.
    #[error("{name}: job {id} is there twice")]
    Twice {
        /// Path or command.
        name: String,
        /// The job.
        id: JobId,
    },
    /// Slurm answers, but with an error. `squeue --json` exits 0 then, without jobs.
    #[error("{name}: Slurm reports: {message}")]
    Slurm {
        /// Path or command.
        name: String,
        /// Slurm's words.
        message: String,
    },
}

/// Loads jobs from a file, or from standard input for `-`.
///
/// Text without a time of its own was taken now. Only jobs that own nodes (running, suspended,
/// configuring, completing) are kept.
///
/// # Errors
/// With file and line.
pub fn load(source: &str) -> Result<JobMap, JobsError> {
    let (name, bytes) = match source {
        "-" => ("standard input", regular::read_stdin()),
        path => (path, regular::read_named(Path::new(path))),
    };
    let bytes = bytes.map_err(|error| JobsError::Read { name: name.to_string(), error })?;
    // Names of jobs are what users say, in any encoding.
    parse(&String::from_utf8_lossy(&bytes), name, Utc::now())
}

/// Reads any of the formats. `name` is for messages, `now` is the time of a text that has none.
///
/// # Errors
/// With `name` and line; a job that is there twice is named.
pub fn parse(text: &str, name: &str, now: DateTime<Utc>) -> Result<JobMap, JobsError> {
    parse_within(text, name, now, Budget::default())
}

/// The same for an answer that is to be JSON: nothing at all is no list without jobs there.
///
/// # Errors
/// As [`parse`].
pub fn answer(text: &str, name: &str, now: DateTime<Utc>) -> Result<JobMap, JobsError> {
    if !without_mark(text).trim_start().starts_with('{') {
        json::<IgnoredAny>(text, name)?;
    }
    parse(text, name, now)
}

/// As [`parse`], for a text whose host lists stand for no more than the budget allows.
///
/// # Errors
/// As [`parse`].
pub fn parse_within(text: &str, name: &str, now: DateTime<Utc>, budget: Budget) -> Result<JobMap, JobsError> {
    once(any(text, name, now, budget)?, name)
}

/// Refuses a map that has a job twice: which of them counts would be a guess.
fn once(map: JobMap, name: &str) -> Result<JobMap, JobsError> {
    // Sorted by id.
    match map.jobs.windows(2).find(|pair| pair[0].id == pair[1].id) {
        None => Ok(map),
        Some(pair) => Err(JobsError::Twice { name: name.to_string(), id: pair[0].id.clone() }),
    }
}

fn any(text: &str, name: &str, now: DateTime<Utc>, budget: Budget) -> Result<JobMap, JobsError> {
    let text = without_mark(text);
    if !text.trim_start().starts_with('{') {
        return lines(text, name, now, budget);
    }
    // It may be no JSON.
    if pbs::is_printed(text) {
        return pbs::parse(text, name, now, budget);
    }
    /// What tells the formats apart.
    #[derive(Deserialize)]
    struct Kind {
        time: Option<IgnoredAny>,
        pbs_version: Option<IgnoredAny>,
        jobs: Option<Vec<Probe>>,
    }
    /// What only jobs of Flux have.
    #[derive(Deserialize)]
    struct Probe {
        t_submit: Option<IgnoredAny>,
    }
    let kind: Kind = json(text, name)?;
    if kind.pbs_version.is_some() {
        return pbs::parse(text, name, now, budget);
    }
    if kind.jobs.iter().flatten().any(|job| job.t_submit.is_some()) {
        return flux::parse(text, name, now, budget);
    }
    if kind.time.is_some() {
        let map: JobMap = json(text, name)?;
        within(&map, budget).map_err(|message| JobsError::Line {
            name: name.to_string(),
            line: 1,
            message,
        })?;
        let jobs = map.jobs.into_iter().map(|j| {
            let job = Job::new(j.id, j.state, j.nodes, j.start).ending(j.end).part_of(j.component);
            Job { guessed: j.guessed && j.mix.is_some(), mix: j.mix, ..job }
        });
        return Ok(JobMap::new(map.time, jobs.collect()));
    }
    slurm_json::parse(text, name, now, budget)
}

/// Whether the lists of a snapshot, which are written out, are within the budget.
fn within(map: &JobMap, budget: Budget) -> Result<(), String> {
    let all: usize = map.jobs.iter().map(|job| job.nodes.len()).sum();
    let most = budget.per_list;
    match map.jobs.iter().find(|job| job.nodes.len() > most) {
        Some(job) => Err(format!("job {} has more than the {most} nodes that are possible here", job.id)),
        None if all > budget.nodes => {
            Err(format!("the jobs have more than the {} nodes that are possible here", budget.nodes))
        }
        None => Ok(()),
    }
}

/// Deserialises with the line in the error.
fn json<'a, T: Deserialize<'a>>(text: &'a str, name: &str) -> Result<T, JobsError> {
    serde_json::from_str(text).map_err(|error| wrong(name, &error))
}

/// What is wrong with a job of a list, whose lines nobody counts.
fn listed(name: &str, job: &str, message: &str) -> JobsError {
    JobsError::Line { name: name.to_string(), line: 1, message: format!("job {job}: {message}") }
}

/// What the JSON reader refuses, with the line where it belongs.
fn wrong(name: &str, error: &serde_json::Error) -> JobsError {
    JobsError::Line { name: name.to_string(), line: error.line(), message: plain(&error.to_string()) }
}

/// `ID HOSTLIST [PATTERN]` lines; `#` begins a comment.
fn lines(text: &str, name: &str, now: DateTime<Utc>, mut budget: Budget) -> Result<JobMap, JobsError> {
    let (mut jobs, mut seen) = (Vec::new(), BTreeSet::new());
    for (line, content) in text.lines().enumerate() {
        let content = content.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let wrong = |message: String| JobsError::Line { name: name.to_string(), line: line + 1, message };
        let mut words = content.split_whitespace();
        let (Some(id), Some(list), mix, None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(wrong(if content.starts_with("JOBID ") {
                "this is what `squeue` prints for people; give what `squeue --json` prints".to_string()
            } else {
                format!("expected `ID HOSTLIST` or `ID HOSTLIST PATTERN`, found {content:?}")
            }));
        };
        let mix = mix.map(str::parse::<Mix>).transpose();
        let mix = mix.map_err(|e| wrong(format!("{e}; a line is `ID HOSTLIST` or `ID HOSTLIST PATTERN`")))?;
        let id = new_id(id, &mut seen).map_err(wrong)?;
        let nodes = hostlist::expand_within(list, &mut budget).map_err(|e| wrong(e.to_string()))?;
        jobs.push(Job::new(id, JobState::Running, nodes, None).exchanging(mix));
    }
    Ok(JobMap::new(now, jobs))
}

/// `squeue -o '%A|%T|%N|%S|%e|%i|%u|%P'` with times as seconds since 1970; the last fields may be left out. Names of jobs
/// are not asked for: users choose them, and may have put new lines there.
///
/// # Errors
/// With `name` and line.
pub fn squeue_lines(text: &str, name: &str, now: DateTime<Utc>) -> Result<JobMap, JobsError> {
    let (mut jobs, mut seen, mut budget) = (Vec::new(), BTreeSet::new(), Budget::default());
    for (line, content) in text.lines().enumerate().filter(|(_, content)| !content.is_empty()) {
        let wrong = |message: String| JobsError::Line { name: name.to_string(), line: line + 1, message };
        let fields: Vec<&str> = content.split('|').collect();
        let [id, state, nodes, start, ref rest @ ..] = fields[..] else {
            return Err(wrong(format!("expected `{SQUEUE_LINE}`, found {content:?}")));
        };
        let (end, shown, user, partition) = match *rest {
            [] => ("", "", "", ""),
            [end] => (end, "", "", ""),
            [end, shown] => (end, shown, "", ""),
            [end, shown, user, partition] => (end, shown, user, partition),
            _ => return Err(wrong(format!("expected `{SQUEUE_LINE}`, found {content:?}"))),
        };
        let Some(state) = owning_state(&[state]) else { continue };
        if nodes.is_empty() {
            continue;
        }
        let id = new_id(id, &mut seen).map_err(wrong)?;
        let nodes = hostlist::expand_within(nodes, &mut budget).map_err(|e| wrong(e.to_string()))?;
        let time = |text: &str| match text {
            "N/A" | "NONE" | "Unknown" | "" => Ok(None),
            seconds => seconds
                .parse()
                .ok()
                .and_then(|s| DateTime::from_timestamp(s, 0))
                .map(Some)
                .ok_or_else(|| wrong(format!("{seconds:?} is not a time in seconds"))),
        };
        let job = Job::new(id, state, nodes, time(start)?).ending(time(end)?);
        let submitted = submitted_in_part(user, partition);
        jobs.push(Job { submitted, ..job.part_of(component(shown).map_err(wrong)?) });
    }
    Ok(JobMap::new(now, jobs))
}

/// The id on a line; none of the lines before may have it.
fn new_id(text: &str, seen: &mut BTreeSet<JobId>) -> Result<JobId, String> {
    let id = JobId::new(text).map_err(|e| e.to_string())?;
    match seen.insert(id.clone()) {
        true => Ok(id),
        false => Err(format!("job {id} is there twice")),
    }
}

/// A line of `squeue`.
const SQUEUE_LINE: &str = "ID|STATE|NODES|START|END|SHOWN|USER|PARTITION";

/// Who submitted a job, as far as a line says it.
fn submitted_in_part(user: &str, partition: &str) -> Submitted {
    if user.is_empty() {
        return Submitted::Unknown;
    }
    let (user, partition) = (user.to_string(), partition.to_string());
    Submitted::InPart(Box::new(Submission { user, partition, ..Submission::default() }))
}

/// What `100+2` says: component 2 of heterogeneous job 100. Other ids are of no such job.
fn component(shown: &str) -> Result<Option<Component>, String> {
    let Some((of, offset)) = shown.split_once('+') else { return Ok(None) };
    let of = JobId::new(of).map_err(|e| e.to_string())?;
    let offset = offset.parse().map_err(|_| format!("{shown:?} is no component of a heterogeneous job"))?;
    Ok(Some(Component { of, offset }))
}

/// The state among Slurm's base state and flags in which the job owns nodes, if it does.
///
/// Old versions say one word (`COMPLETING`), new ones a base state and flags
/// (`RUNNING`, `CONFIGURING`).
fn owning_state(words: &[&str]) -> Option<JobState> {
    let has = |word| words.contains(&word);
    if has("COMPLETING") {
        Some(JobState::Completing)
    } else if has("CONFIGURING") {
        Some(JobState::Configuring)
    } else if has("SUSPENDED") || has("STOPPED") {
        Some(JobState::Suspended)
    } else if ["RUNNING", "SIGNALING", "RESIZING"].iter().any(|word| has(word)) {
        // Old versions say what is done with a job that runs in place of that it runs.
        Some(JobState::Running)
    } else {
        None
    }
}
