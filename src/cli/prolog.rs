//! `sarouter prolog` and `sarouter epilog`: what Slurm's controller runs before and after a job.
//!
//! The controller holds a job while its prolog runs, kills it at `PrologEpilogTimeout`, and takes any exit status but
//! 0 for a broken node. A batch job then goes back into the queue, and would do so for ever. So whatever is wrong
//! here, the job starts; only `--strict` lets it go back, and only at the deadline. A job whose user said
//! `--routing=require` goes back into the queue likewise: here it has no node that could suffer, on its nodes it
//! would be too late.

mod door;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, TryFromFloatSecsError};

use serde::Serialize;

use self::door::{Door, ServiceArgs};
use super::common::print;
use super::{Answer, Context, Failure, Format, chain, mistake};
use crate::config::Slurm;
use crate::model::{HintError, JobId, Mix, Submission, executable, hint, pattern_hint};
use crate::observe::slurm::command_of;
use crate::service::api::jobs::{ROUND, StartAnswer, StartRequest};
use crate::service::handoff::Outcome;

/// Arguments of `prolog`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For slurm.conf: PrologSlurmctld, as a script that runs this command. What is not given \
                        comes from the environment that Slurm sets there.\n\n\
                        Exit 0 whatever happens, so that no job is held; with --strict, or for a job submitted with \
                        --routing=require, exit 1 at the deadline: Slurm puts a batch job back into the queue.\n\n\
                        Example: sarouter prolog --job 17 --nodes 'n[1-4]' --timeout 20"
)]
pub struct Args {
    /// Job [default: $SLURM_JOB_ID]
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Its nodes [default: $SLURM_JOB_NODELIST]
    #[arg(long, value_name = "HOSTLIST")]
    nodes: Option<String>,
    /// How often it was started before [default: $SLURM_RESTART_COUNT, or 0]
    #[arg(long, value_name = "N")]
    restart: Option<u32>,
    /// What it exchanges: see `sarouter patterns` [default: what $SLURM_JOB_COMMENT says, or --traffic at its
    /// submission]
    #[arg(long, value_name = "PATTERN")]
    traffic: Option<Mix>,
    /// Put its ranks in order [default: whether --rank-order=fabric was said at its submission]
    #[arg(long)]
    rank_order: bool,
    /// Wait no longer than this [default: handoff.deadline_seconds of the settings]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Exit 1 for a job that is late: at the deadline, without an answer of the service, or without routes
    /// for another reason (docs/JOBS.md). Slurm then requeues it
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Arguments of `epilog`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For slurm.conf: EpilogSlurmctld, as a script that runs this command. Exit 0 whatever \
                        happens.\n\nExample: sarouter epilog --job 17"
)]
pub struct EpilogArgs {
    /// Job [default: $SLURM_JOB_ID]
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Said {
    job: String,
    /// Why the job starts; `None`: the service has given no answer.
    outcome: Option<Outcome>,
    waited_ms: u128,
    /// The same on each of several fabrics, as far as it is known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fabrics: BTreeMap<String, Outcome>,
    /// What the service answered instead.
    trouble: Option<String>,
}

/// Between two attempts to reach a service that is away.
const PAUSE: Duration = Duration::from_millis(100);

/// `squeue` has at most so long to say which program a job runs.
const ASKING: Duration = Duration::from_secs(5);

/// No job waits longer, whatever was typed.
const MOST: Duration = Duration::from_secs(86_400);

/// So much before the end of its patience a prolog wants to be told.
const MARGIN: Duration = Duration::from_millis(250);

/// Waits until the job may start.
pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let strict = args.strict || is_required();
    let waited = job(args.job.as_deref()).and_then(|job| {
        let site = context.site_past_mistakes()?;
        let (settings, door) = (&site.fabrics[0], args.service.door(&site)?);
        let timeout = args.timeout.map_or(Ok(settings.handoff.deadline), patience)?;
        let nodes = args.nodes.clone().or_else(|| variable("SLURM_JOB_NODELIST"));
        let traffic = args.traffic.clone().or_else(traffic);
        let mut submission = submission();
        if traffic.is_none() && settings.traffic.need_executable(&submission) {
            submission.executable = program(&settings.slurm, &job, timeout);
        }
        let request = StartRequest {
            restart: args.restart.or_else(|| number("SLURM_RESTART_COUNT")).unwrap_or(0),
            nodes: nodes.ok_or("which nodes? --nodes, or SLURM_JOB_NODELIST in the environment")?,
            length_seconds: length(),
            patience_seconds: 0.0,
            traffic,
            submission,
            is_component: variable("SLURM_HET_JOB_ID").is_some(),
            rank_order: args.rank_order
                || variable("SPANK_SAROUTER_RANK_ORDER").is_some_and(|word| word == "fabric"),
        };
        // Whoever wants no start without routes waits for the service to its deadline.
        let away = if strict { timeout } else { settings.handoff.away };
        Ok(Prolog { door, job, request, deadline: begun + timeout, away }.wait()?)
    });
    match waited {
        Ok(said) => {
            let starts = !strict || !said.outcome.is_none_or(|o| o.is_late());
            // Nobody reads it: that is no reason for a job not to start.
            if let Err(error) = say(&said, starts, context) {
                eprintln!("sarouter: {error}");
            }
            Ok(if starts { Answer::Yes } else { Answer::No })
        }
        Err(error) if strict => {
            tell(&format!("{}; the job does not start without routes", chain(error.as_ref())), context);
            Ok(Answer::No)
        }
        Err(error) => Ok(complain(error.as_ref(), "; the job starts all the same", context)),
    }
}

/// Seconds that were typed; more than [`MOST`] are as good as those, and could be too many for a clock.
fn patience(seconds: f64) -> Result<Duration, TryFromFloatSecsError> {
    match seconds > MOST.as_secs_f64() {
        true => Ok(MOST),
        false => Duration::try_from_secs_f64(seconds),
    }
}

/// Whether the job's user said `--routing=require`: Slurm tells it by this name.
fn is_required() -> bool {
    variable("SPANK_ROUTING").is_some_and(|word| word == "require")
}

/// Tells the service that the job is over.
pub fn epilog(args: EpilogArgs, context: &Context) -> Result<Answer, Failure> {
    let told = job(args.job.as_deref()).and_then(|job| {
        let site = context.site_past_mistakes()?;
        let (door, path) = (args.service.door(&site)?, format!("/v1/jobs/{job}/end"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let told = door.post::<serde_json::Value>(&path, &(), site.fabrics[0].handoff.away);
        runtime.block_on(told).map(|_| ()).map_err(Failure::from)
    });
    Ok(told.map_or_else(|error| complain(error.as_ref(), "", context), |()| Answer::Yes))
}

/// Says what is wrong, and what comes of it; that is no reason to fail.
fn complain(error: &(dyn std::error::Error + 'static), so: &str, context: &Context) -> Answer {
    tell(&format!("{}{so}", chain(error)), context);
    Answer::Yes
}

/// An error that does not end the command with 2.
fn tell(text: &str, context: &Context) {
    eprintln!("sarouter: {text}");
    if context.format == Format::Json {
        mistake::print(text);
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    variable(name)?.parse().ok()
}

fn job(given: Option<&str>) -> Result<String, Failure> {
    let job = given.map(String::from).or_else(|| variable("SLURM_JOB_ID"));
    let job = job.ok_or("which job? --job, or SLURM_JOB_ID in the environment")?;
    Ok(JobId::new(job)?.to_string())
}

/// Who submitted it, for the rules of the site.
fn submission() -> Submission {
    // Slurm writes "(null)" for none.
    let word = |name| variable(name).filter(|word| word != "(null)").unwrap_or_default();
    Submission {
        account: word("SLURM_JOB_ACCOUNT"),
        partition: word("SLURM_JOB_PARTITION"),
        user: word("SLURM_JOB_USER"),
        name: word("SLURM_JOB_NAME"),
        executable: String::new(),
    }
}

/// Base name of the job's program, of which the environment says nothing: Slurm is asked. Empty if it does not answer
/// within [`ASKING`] and a quarter of the job's patience; the job then meets no rule for programs.
fn program(slurm: &Slurm, job: &str, timeout: Duration) -> String {
    let ask = || -> Result<String, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let deadline = ASKING.min(timeout / 4).min(slurm.deadline);
        let (squeue, job) = (&slurm.squeue, JobId::new(job)?);
        let command = runtime.block_on(command_of(squeue, &job, deadline, slurm.output_limit))?;
        Ok(executable(&command).to_string())
    };
    ask().unwrap_or_else(|error| {
        let why = chain(error.as_ref());
        eprintln!("sarouter: {why}; no rule for executables counts");
        String::new()
    })
}

/// What the job says that it exchanges: in its comment, which can be changed while it waits, or by `--traffic` at
/// its submission, of which Slurm tells by this name. What is wrong is the job's, and says nothing.
fn traffic() -> Option<Mix> {
    let told = |said: Result<Option<Mix>, HintError>| {
        said.unwrap_or_else(|error| {
            eprintln!("{error}; it is not heeded");
            None
        })
    };
    let comment = || told(hint(&variable("SLURM_JOB_COMMENT")?));
    let option = || told(pattern_hint(&variable("SPANK_SAROUTER_TRAFFIC")?).map(Some));
    comment().or_else(option)
}

/// Seconds that the job may run: newer Slurm says so, older does not.
fn length() -> Option<f64> {
    let (start, end): (f64, f64) = (number("SLURM_JOB_START_TIME")?, number("SLURM_JOB_END_TIME")?);
    Some(end - start).filter(|length| *length > 0.0)
}

/// A prolog that waits.
struct Prolog {
    door: Door,
    job: String,
    request: StartRequest,
    deadline: Instant,
    /// A service that has not answered for so long is away.
    away: Duration,
}

impl Prolog {
    fn wait(mut self) -> Result<Said, std::io::Error> {
        let begun = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let path = format!("/v1/jobs/{}/start", self.job);
        // An answer may take a round.
        let quiet = self.away.max(2 * ROUND);
        let (mut heard, mut answered) = (begun, false);
        let (mut trouble, mut known) = (None, BTreeMap::new());
        let outcome = loop {
            let asked = Instant::now();
            let left = self.deadline.saturating_duration_since(asked);
            if left.is_zero() {
                // A service that answered till now has let the deadline pass.
                break (answered && heard.elapsed() < ROUND + self.away).then_some(Outcome::Deadline);
            }
            // The service decides a little before, so that its answer comes in time.
            self.request.patience_seconds = (left - MARGIN.min(left / 10)).as_secs_f64();
            let silent = left.min(quiet.saturating_sub(heard.elapsed())).max(PAUSE);
            match runtime.block_on(self.door.post::<StartAnswer>(&path, &self.request, silent)) {
                Ok(StartAnswer { start, fabrics }) => {
                    (heard, answered, known) = (Instant::now(), true, fabrics);
                    if start.is_some() {
                        break start;
                    }
                }
                Err(error) => {
                    trouble = Some(error.to_string());
                    if error.is_refusal() || heard.elapsed() >= quiet {
                        break None;
                    }
                }
            }
            // Whoever answers at once is not asked more often for it.
            std::thread::sleep(PAUSE.saturating_sub(asked.elapsed()).min(left));
        };
        trouble = trouble.filter(|_| outcome.is_none());
        let waited_ms = begun.elapsed().as_millis();
        Ok(Said { job: self.job, outcome, waited_ms, fabrics: known, trouble })
    }
}

fn say(said: &Said, starts: bool, context: &Context) -> Result<(), Failure> {
    if let Some(trouble) = &said.trouble {
        let so = if starts { "starts on the last verified routes" } else { "does not start without routes" };
        eprintln!("sarouter: {trouble}; the job {so}");
    }
    match context.format {
        Format::Json => print(&serde_json::to_string(said)?),
        Format::Text => {
            // It may have answered that it does not understand.
            let why = said.outcome.map_or("the service gave no answer for it", words);
            let starts = if starts { "starts" } else { "does not start" };
            let each = said.fabrics.iter().map(|(name, outcome)| format!("; {name}: {}", words(*outcome)));
            let each: String = each.collect();
            print(&format!("job {} {starts} after {} ms: {why}{each}", said.job, said.waited_ms))
        }
    }
}

fn words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::InForce => "its routes are in force",
        Outcome::OneSwitch => "it is on one switch",
        Outcome::GoodEnough => "the routes in force serve it: others would gain too little",
        Outcome::NextPass => "the next pass serves it",
        Outcome::Deadline => "at its deadline, on the last verified routes",
        Outcome::Held => "an administrator holds the routes as they are",
        Outcome::Full => "too many jobs wait",
        Outcome::Gone => "the batch system does not know it any more",
        Outcome::Superseded => "another start of it was announced",
        Outcome::Untold => "what it should be told could not be written",
        Outcome::Unrouted => "no tables could be made for it",
        Outcome::Unknown => "nodes of it are not in the fabric",
        Outcome::OpensmGone => "the OpenSM of a fabric is gone: there on the last verified routes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_any_size_fits_a_clock() {
        for (seconds, wanted) in
            [(20.0, Duration::from_secs(20)), (1e19, MOST), (1e300, MOST), (f64::INFINITY, MOST)]
        {
            let patience = patience(seconds).unwrap();
            assert_eq!(patience, wanted);
            assert!(Instant::now().checked_add(patience).is_some());
        }
        assert!(patience(-3.0).is_err() && patience(f64::NAN).is_err());
    }
}
