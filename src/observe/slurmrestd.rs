//! Slurm's HTTP interface as the source of jobs, and of what it says of nodes.
//!
//! A query for all jobs is expensive (10 MB for 2,000 jobs, as Slurm lists every core), so it is
//! made at most once per interval. Most looks end with `304 Not Modified` or, from v0.0.40 on, with no
//! jobs and the time 0, which is what `update_time` is for: slurmctld answers so if nothing changed
//! *before* that second of its own clock. Our clock may be another, so the time is always one that
//! Slurm has told: `last_update` of the answer (v0.0.39 on), or the clock of the controller, asked
//! *before* the jobs.

mod error;
mod nodes;
mod token;
mod version;

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use tracing::debug;

pub use self::error::RestError;
use self::token::expiry;
use super::jobs::{self, JobsError};
use super::secret;
use super::source::{JobSource, JobSourceRow, Poll, PollError};
use crate::config::{Rest, RestUrl};
use crate::model::{JobMap, shown_lines};

/// Value of `slurm.source`.
pub const NAME: &str = "slurmrestd";

/// Slurm's HTTP interface.
pub(super) const SOURCE: JobSourceRow = JobSourceRow {
    name: NAME,
    what: "Slurm's HTTP interface",
    settings: "slurmrestd.url",
    make: |settings| {
        let (rest, slurm) = (settings.rest.clone()?, &settings.slurm);
        let pause = settings.service.interval;
        Some(Box::new(Slurmrestd::new(rest, slurm.deadline, slurm.output_limit, pause)))
    },
    is_slurm: true,
    unseen: |_| None,
};

/// What was asked so far, for tests and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queries {
    /// Answers with all jobs.
    pub full: u64,
    /// Answers `304 Not Modified`.
    pub unchanged: u64,
}

/// slurmrestd at an address.
#[derive(Debug)]
pub struct Slurmrestd {
    settings: Rest,
    client: Option<Client>,
    deadline: Duration,
    output_limit: u64,
    /// Between two full queries.
    pause: Duration,
    /// Such as `v0.0.38`; `None` until discovered.
    version: Option<String>,
    /// Older ones that it offers, the newest last.
    older: Vec<String>,
    /// What stands before seconds since 1970.
    seconds: &'static str,
    /// Whether its answers have `last_update`.
    tells_clock: bool,
    known: Option<Known>,
    asked: Queries,
}

/// The newest full answer.
#[derive(Debug)]
struct Known {
    jobs: JobMap,
    /// For `update_time`: a time of Slurm's clock; `None` if it told none.
    update_time: Option<i64>,
    /// When it was asked for.
    at: Instant,
}

/// Slurm's clock, wherever the answer has it.
#[derive(Deserialize)]
struct Clock {
    #[serde(default)]
    last_update: Option<Seconds>,
    #[serde(default)]
    statistics: Option<Statistics>,
}

#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    req_time: Option<Seconds>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "req_time is neither a whole number nor {number}")]
enum Seconds {
    Plain(i64),
    Wrapped { number: i64 },
}

impl Seconds {
    fn value(&self) -> Option<i64> {
        let (Self::Plain(number) | Self::Wrapped { number }) = self;
        (*number > 0).then_some(*number)
    }
}

impl Slurmrestd {
    /// Each look takes at most `deadline`; an answer longer than `output_limit` bytes is refused; all
    /// jobs are asked for at most once per `pause`. Touches nothing yet.
    pub fn new(settings: Rest, deadline: Duration, output_limit: u64, pause: Duration) -> Self {
        Self {
            settings,
            client: None,
            deadline,
            output_limit,
            pause,
            version: None,
            older: Vec::new(),
            seconds: "",
            tells_clock: false,
            known: None,
            asked: Queries::default(),
        }
    }

    /// What was asked so far.
    pub fn queries(&self) -> Queries {
        self.asked
    }

    /// Asks in the newest version that can be used.
    async fn ask(&mut self, now: DateTime<Utc>) -> Result<JobMap, PollError> {
        loop {
            match self.ask_once(now).await {
                Err(error) if self.goes_back(&error) => {}
                // Slurm 23.11 reads a number as a date.
                Err(error) if self.seconds.is_empty() && RestError::refused_for(&error, "timestamp") => {
                    self.seconds = "uts";
                }
                answer => return answer,
            }
        }
    }

    async fn ask_once(&mut self, now: DateTime<Utc>) -> Result<JobMap, PollError> {
        let soon = self.fresh_in().is_some();
        if let Some(known) = self.known.as_ref().filter(|_| soon) {
            debug!("slurmrestd was asked for all jobs not long ago");
            return Ok(JobMap { time: now, as_of: Some(known.jobs.time), ..known.jobs.clone() });
        }
        let client = self.client()?;
        let version = self.version(&client).await?;
        let at = Instant::now();
        let since = self.known.as_ref().and_then(|k| k.update_time);
        // Before the jobs: what changes in between is then asked for again.
        let clock = match self.tells_clock {
            false => self.controller_clock(&client, &version).await,
            true => None,
        };
        let query = since.map_or(String::new(), |t| format!("?update_time={}{t}", self.seconds));
        let path = format!("/slurm/{version}/jobs{query}");
        let response = self.get(&client, &path).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            if let Some(jobs) = self.unchanged(now) {
                return Ok(jobs);
            }
        }
        self.note_version(&response);
        let text = self.text(response, &path).await?;
        let update = last_update(&text);
        if since.is_some() && is_unchanged(update.as_ref()) {
            if let Some(jobs) = self.unchanged(now) {
                return Ok(jobs);
            }
        }
        self.asked.full += 1;
        let told = update.and_then(|update| update.value());
        self.tells_clock = told.is_some();
        let jobs = beside(move || jobs::answer(&text, NAME, now)).await?;
        self.known = Some(Known { jobs: jobs.clone(), update_time: told.or(clock), at });
        Ok(jobs)
    }

    /// The jobs as they were, which are those of now.
    fn unchanged(&mut self, now: DateTime<Utc>) -> Option<JobMap> {
        self.asked.unchanged += 1;
        let known = self.known.as_mut()?;
        known.jobs.time = now;
        Some(known.jobs.clone())
    }

    fn client(&mut self) -> Result<Client, RestError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let mut builder = Client::builder()
            .timeout(self.deadline)
            .connect_timeout(self.deadline)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        if let RestUrl::Unix(path) = &self.settings.url {
            builder = builder.unix_socket(path.clone());
        }
        let client = builder.build().map_err(RestError::Client)?;
        Ok(self.client.insert(client).clone())
    }

    /// What the controller's clock says; `None` if it does not say it.
    async fn controller_clock(&self, client: &Client, version: &str) -> Option<i64> {
        let path = format!("/slurm/{version}/diag");
        let response = self.get(client, &path).await.ok()?;
        let text = self.text(response, &path).await.ok()?;
        let clock: Clock = serde_json::from_str(&text).ok()?;
        clock.statistics?.req_time?.value()
    }

    async fn get(&self, client: &Client, path: &str) -> Result<Response, RestError> {
        let base = match &self.settings.url {
            RestUrl::Tcp(url) => url.as_str(),
            RestUrl::Unix(_) => "http://localhost",
        };
        let mut request = client.get(format!("{base}{path}"));
        if let Some(user) = &self.settings.user {
            request = request.header("X-SLURM-USER-NAME", user);
        }
        if let Some(token) = self.token()? {
            request = request.header("X-SLURM-USER-TOKEN", token);
        }
        request.send().await.map_err(|source| RestError::Exchange { path: path.to_string(), source })
    }

    /// The token of now: its file may have been replaced.
    fn token(&self) -> Result<Option<String>, RestError> {
        let Some(file) = &self.settings.token_file else { return Ok(None) };
        let text = secret::read(file)?;
        let token = text.trim();
        let token = token.strip_prefix("SLURM_JWT=").unwrap_or(token);
        if token.is_empty() || token.chars().any(|c| !c.is_ascii_graphic()) {
            return Err(RestError::NoToken);
        }
        Ok(Some(token.to_string()))
    }

    /// The body of a good answer.
    async fn text(&self, mut response: Response, path: &str) -> Result<String, RestError> {
        let status = response.status();
        let mut bytes = Vec::new();
        let failed = |source| RestError::Exchange { path: path.to_string(), source };
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > self.output_limit {
                return Err(RestError::TooMuch { path: path.to_string(), limit: self.output_limit });
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if !status.is_success() {
            let mut message = complaint(&text);
            // Slurm itself says no more than "Unspecified error".
            if let Some(at) =
                self.token().ok().flatten().and_then(|t| expiry(&t)).filter(|at| *at <= Utc::now())
            {
                message = format!("the token expired at {}: {message}", at.to_rfc3339());
            }
            return Err(RestError::Refused { path: path.to_string(), status, message });
        }
        Ok(text)
    }
}

impl JobSource for Slurmrestd {
    fn fresh_in(&self) -> Option<Duration> {
        let left = self.pause.checked_sub(self.known.as_ref()?.at.elapsed())?;
        (!left.is_zero()).then_some(left)
    }

    fn poll(&mut self, now: DateTime<Utc>) -> Poll<'_> {
        Box::pin(async move {
            let deadline = self.deadline;
            in_time(deadline, self.ask(now)).await
        })
    }
}

/// What answers within the deadline.
async fn in_time<T>(
    deadline: Duration,
    answer: impl Future<Output = Result<T, PollError>>,
) -> Result<T, PollError> {
    let late = || RestError::Refused {
        path: "/slurm".to_string(),
        status: StatusCode::GATEWAY_TIMEOUT,
        message: format!("no answer within {} s", deadline.as_secs_f64()),
    };
    tokio::time::timeout(deadline, answer).await.unwrap_or_else(|_| Err(late().into()))
}

/// Reads a long answer beside the loop.
async fn beside<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, JobsError> + Send + 'static,
) -> Result<T, JobsError> {
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| {
        let message = error.to_string();
        Err(JobsError::Line { name: NAME.into(), line: 0, message })
    })
}

/// `last_update` of an answer.
fn last_update(text: &str) -> Option<Seconds> {
    serde_json::from_str::<Clock>(text).ok()?.last_update
}

/// Whether an answer without jobs says that nothing has changed: its time is 0 then. Versions from v0.0.40 on say it so,
/// with status 200, and it is no empty cluster.
fn is_unchanged(update: Option<&Seconds>) -> bool {
    update.is_some_and(|update| update.value().is_none())
}

/// Slurm's words in an answer, or its beginning.
fn complaint(text: &str) -> String {
    #[derive(Deserialize)]
    struct SlurmErrors {
        errors: Vec<Complaint>,
    }
    #[derive(Deserialize)]
    struct Complaint {
        #[serde(default)]
        error: Option<String>,
        #[serde(default)]
        description: Option<String>,
    }
    const QUOTED: usize = 300;
    let answer = serde_json::from_str::<SlurmErrors>(text).ok();
    let words: String = match answer.and_then(|a| a.errors.into_iter().next()) {
        Some(Complaint { error, description }) => {
            [description, error].into_iter().flatten().collect::<Vec<_>>().join(": ")
        }
        None => text.trim().chars().take(QUOTED).collect(),
    };
    shown_lines(&words).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurms_clock_is_read_where_each_version_has_it() {
        let told = |text| last_update(text).and_then(|update| update.value());
        let is_unchanged = |text| is_unchanged(last_update(text).as_ref());
        assert_eq!(
            told(r#"{"last_update": {"set": true, "number": 1700000000}, "jobs": []}"#),
            Some(1_700_000_000)
        );
        assert_eq!(told(r#"{"last_update": 17, "jobs": []}"#), Some(17));
        assert_eq!(told(r#"{"jobs": []}"#), None);
        // As Slurm 25.11 says that nothing has changed.
        let same = r#"{"jobs":[],"last_backfill":{"set":true,"infinite":false,"number":0},"last_update":{"set":true,"infinite":false,"number":0},"errors":[],"warnings":[{"description":"No job changes since update_time[1795649449]=2026-11-25T23:30:49","source":"op_handler_jobs"}]}"#;
        assert!(is_unchanged(same) && told(same).is_none());
        let empty = r#"{"jobs": [], "last_update": {"set": true, "number": 1700000000}}"#;
        assert!(!is_unchanged(empty) && !is_unchanged(r#"{"jobs": []}"#));
    }
}
