//! Asks Slurm which jobs own which nodes.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::child::{BoundedCommand, ChildError};
use super::jobs;
use super::source::{JobSource, JobSourceRow, Poll, PollError};
use crate::config::Slurm;
pub use crate::config::SqueueFormat;
use crate::model::{JobId, JobMap};

/// The command `squeue`.
pub(super) const SOURCE: JobSourceRow = JobSourceRow {
    name: "squeue",
    what: "the command squeue, the default",
    settings: "[slurm.squeue]",
    make: |settings| {
        let Slurm { squeue, format, deadline, output_limit, .. } = &settings.slurm;
        Some(Box::new(Squeue::new(squeue, *format, *deadline, *output_limit)))
    },
    is_slurm: true,
    unseen: |settings| {
        (settings.slurm.format == SqueueFormat::Text).then_some(
            "squeue_format = \"text\" tells of no account, partition, name or executable: rules count for jobs that \
             the prolog announces; with \"json\" for all",
        )
    },
};

/// The states in which a job owns nodes: running, configuring, completing, suspended, stopped, being
/// signalled or resized.
const OWNING: &str = "R,CF,CG,S,ST,SI,RS";

/// The command of one job, as `squeue` prints it, first line: empty if Slurm does not know the job. Of one job alone: a
/// path may have new lines in it, and in a list of jobs these would be jobs of their own.
///
/// # Errors
/// If `squeue` gives no answer within `deadline`.
pub async fn command_of(
    squeue: &str,
    job: &JobId,
    deadline: Duration,
    output_limit: u64,
) -> Result<String, ChildError> {
    let arguments = [squeue, "-a", "--local", "-h", "-j", job.as_str(), "-o", "%o"];
    let argv = arguments.map(String::from).to_vec();
    let text = BoundedCommand { argv, environment: Vec::new(), deadline, output_limit }.output().await?;
    Ok(text.lines().next().unwrap_or("").to_string())
}

/// `squeue` as a child process.
#[derive(Debug, Clone)]
pub struct Squeue {
    command: BoundedCommand,
    format: SqueueFormat,
}

impl Squeue {
    /// `program` is the path of `squeue`; at `deadline` it is killed, as it is after
    /// `output_limit` bytes.
    pub fn new(program: &str, format: SqueueFormat, deadline: Duration, output_limit: u64) -> Self {
        // Partitions that are hidden, or closed to the user who asks, have jobs too; those of other
        // clusters of a federation are not on this fabric.
        let arguments: &[&str] = match format {
            // Slurm 22.05 ignores the filter with --json: the reader filters again.
            SqueueFormat::Json => &["-a", "--local", "--json", "-t", OWNING],
            SqueueFormat::Text => {
                &["-a", "--local", "-h", "-r", "-t", OWNING, "-o", "%A|%T|%N|%S|%e|%i|%u|%P"]
            }
        };
        let argv = std::iter::once(&program).chain(arguments).map(|s| (*s).to_string()).collect();
        // Times as seconds since 1970: independent of time zone and locale.
        let environment = vec![("SLURM_TIME_FORMAT".to_string(), "%s".to_string())];
        Self { command: BoundedCommand { argv, environment, deadline, output_limit }, format }
    }

    /// The same without what users write: their jobs' arguments can be as long as they like.
    fn brief(&self) -> Self {
        let BoundedCommand { deadline, output_limit, environment, .. } = self.command.clone();
        let mut brief = Self::new(self.command.program(), SqueueFormat::Text, deadline, output_limit);
        brief.command.environment = environment;
        brief
    }

    async fn ask(&self, now: DateTime<Utc>) -> Result<JobMap, PollError> {
        let text = self.command.output().await?;
        Ok(match self.format {
            SqueueFormat::Json => jobs::answer(&text, self.command.program(), now)?,
            SqueueFormat::Text => jobs::squeue_lines(&text, self.command.program(), now)?,
        })
    }

    /// Adds a variable to the command's environment, such as `SLURM_CONF`.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.command.environment.push((name.to_string(), value.to_string()));
        self
    }
}

impl JobSource for Squeue {
    fn poll(&mut self, now: DateTime<Utc>) -> Poll<'_> {
        Box::pin(async move {
            match self.ask(now).await {
                Err(PollError::Child(error @ ChildError::TooMuch { .. }))
                    if self.format == SqueueFormat::Json =>
                {
                    tracing::warn!("{error}: asked for less instead, without accounts, names and comments");
                    self.brief().ask(now).await
                }
                answer => answer,
            }
        })
    }
}
