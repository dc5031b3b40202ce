//! `squeue --json` and slurmrestd's `/jobs`, which are the same text: openapi v0.0.36 to v0.0.38
//! (Slurm 20.11 to 22.05) and the newer data parsers.
//!
//! What differs between versions: `job_state` is a word or a list of words; a number is a number
//! or `{"set": …, "infinite": …, "number": …}`; `job_resources.nodes` is a host list or an object.

use std::borrow::Cow;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{JobsError, owning_state, wrong};
use crate::model::{
    Component, Job, JobId, JobMap, JobState, Mix, Submission, Submitted, executable, hint, shown,
};
use crate::observe::hostlist::{self, Budget};

/// The answer as a whole.
struct SlurmJobs<'a>(&'a mut Budget);

impl<'de> DeserializeSeed<'de> for SlurmJobs<'_> {
    type Value = (Vec<Complaint>, Vec<Job>);
    fn deserialize<D: Deserializer<'de>>(self, answer: D) -> Result<Self::Value, D::Error> {
        answer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SlurmJobs<'_> {
    type Value = (Vec<Complaint>, Vec<Job>);
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slurm's answer")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut answer: A) -> Result<Self::Value, A::Error> {
        let (mut errors, mut jobs) = (Vec::new(), None);
        while let Some(key) = answer.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "errors" => errors = answer.next_value()?,
                "jobs" if jobs.is_some() => return Err(A::Error::duplicate_field("jobs")),
                "jobs" => jobs = Some(answer.next_value_seed(Owners(&mut *self.0))?),
                _ => drop(answer.next_value::<IgnoredAny>()?),
            }
        }
        Ok((errors, jobs.ok_or_else(|| A::Error::missing_field("jobs"))?))
    }
}

/// What is wrong where Slurm asks slurmdbd for an answer about jobs.
const NEEDS_ACCOUNTING: &str =
    "this version prints jobs as JSON only where it has slurmdbd; use squeue_format = \"text\"";

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(untagged, expecting = "a number or time is neither a whole number nor {set, infinite, number}")]
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

/// A state as this version writes it: a word, or a list of words.
#[derive(Deserialize)]
#[serde(untagged, expecting = "job_state is neither a word nor a list of words")]
pub(in crate::observe) enum States {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "job_resources.nodes is neither a host list nor an object with one")]
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

/// The user's comment.
#[derive(Deserialize)]
#[serde(untagged)]
enum Comment {
    Text(String),
    /// Slurm 23.02 and later.
    Object {
        #[serde(default)]
        job: String,
    },
    /// Nothing that a hint could be in.
    Other(IgnoredAny),
}

impl Comment {
    /// What the job says that it exchanges. A pattern that is not understood says nothing: submission refuses it.
    fn mix(&self) -> Option<Mix> {
        match self {
            Self::Text(text) | Self::Object { job: text } => hint(text).ok().flatten(),
            Self::Other(_) => None,
        }
    }
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
    #[serde(default)]
    het_job_id: Option<Number>,
    #[serde(default)]
    het_job_offset: Option<Number>,
    #[serde(default)]
    comment: Option<Comment>,
    #[serde(default)]
    account: Word,
    #[serde(default)]
    partition: Word,
    #[serde(default)]
    user_name: Word,
    #[serde(default)]
    name: Word,
    #[serde(default)]
    command: Word,
}

/// A text; what is none is empty.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Other(IgnoredAny),
}

impl Default for Word {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Word {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Other(_) => String::new(),
        }
    }
}

/// Reads the list of jobs one by one, so that what is wrong is reported with its line, and so that
/// all host lists share one budget.
struct Owners<'a>(&'a mut Budget);

impl<'de> DeserializeSeed<'de> for Owners<'_> {
    type Value = Vec<Job>;
    fn deserialize<D: Deserializer<'de>>(self, jobs: D) -> Result<Vec<Job>, D::Error> {
        jobs.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Owners<'_> {
    type Value = Vec<Job>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of jobs")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Job>, A::Error> {
        let mut jobs = Vec::new();
        while let Some(written) = list.next_element::<Written>()? {
            jobs.extend(written.owner(self.0).map_err(A::Error::custom)?);
        }
        Ok(jobs)
    }
}

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
    /// Its words.
    pub(in crate::observe) fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Several(words) => words,
        }
    }

    fn owning(&self) -> Option<JobState> {
        owning_state(&self.words().iter().map(String::as_str).collect::<Vec<_>>())
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

    /// The job, if it owns nodes.
    fn owner(self, budget: &mut Budget) -> Result<Option<Job>, String> {
        let Some(state) = self.job_state.owning() else { return Ok(None) };
        let hosts = self.hosts();
        if hosts.is_empty() {
            return Ok(None);
        }
        let explain = |e: &dyn fmt::Display| format!("job {}: {e}", self.job_id);
        let id = JobId::new(self.job_id.to_string()).map_err(|e| explain(&e))?;
        let nodes = hostlist::expand_within(hosts, budget).map_err(|e| explain(&e))?;
        // Without a limit, Slurm gives an end in a year.
        let limited = self.time_limit.is_some_and(|limit| limit.value().is_some());
        let end = self.end_time.filter(|_| limited).and_then(Number::time);
        let start = self.start_time.and_then(Number::time);
        let component = match self.het_job_id.and_then(Number::value) {
            None => None,
            Some(of) => {
                let offset = self.het_job_offset.and_then(Number::value).unwrap_or(0);
                let offset = u32::try_from(offset).map_err(|e| explain(&e))?;
                Some(Component { of: JobId::new(of.to_string()).map_err(|e| explain(&e))?, offset })
            }
        };
        let mix = self.comment.as_ref().and_then(Comment::mix);
        let mut job = Job::new(id, state, nodes, start).ending(end).part_of(component).exchanging(mix);
        job.submitted = Submitted::Known(Box::new(Submission {
            account: self.account.text(),
            partition: self.partition.text(),
            user: self.user_name.text(),
            name: self.name.text(),
            executable: executable(&self.command.text()).to_string(),
        }));
        Ok(Some(job))
    }
}

/// Reads Slurm's answer. `now` is its time if it has none of its own.
pub(super) fn parse(
    text: &str,
    name: &str,
    now: DateTime<Utc>,
    mut budget: Budget,
) -> Result<JobMap, JobsError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let answer = SlurmJobs(&mut budget).deserialize(&mut reader);
    let answer = answer.and_then(|answer| reader.end().map(|()| answer));
    let (errors, jobs) = answer.map_err(|error| wrong(name, &error))?;
    if let Some(complaint) = errors.first() {
        let mut words: Vec<&str> =
            [&complaint.description, &complaint.error].into_iter().filter_map(|w| w.as_deref()).collect();
        // Its words are the address of a function. It has listed the first job, and no other.
        if complaint.source.as_deref().is_some_and(|source| source.starts_with("slurmdb_")) {
            words = vec![NEEDS_ACCOUNTING];
        }
        return Err(JobsError::Slurm {
            name: name.to_string(),
            message: shown(&words.join(": ")).into_owned(),
        });
    }
    Ok(JobMap::new(now, jobs))
}
