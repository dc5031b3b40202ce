//! `sarouter trial`: days with routes for jobs and days without, and what they tell.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Days, Local, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::common::print;
use super::hold::tell_service;
use super::state::StateArgs;
use super::{Answer, Context, Failure, Format};
use crate::lab::trial::sacct::{FIELDS, Runs};
use crate::lab::trial::{Difference, LEAST_PAIRS, difference, pairs};
use crate::observe::without_mark;
use crate::pass::trial::Trial;
use crate::publish::{EpochStore, read_trial};
use crate::route::{self, EngineOptions};
use crate::service::kind::direct;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sarouter trial --days 14
  TZ=UTC sacct -aXP -S 2026-12-01 \\
      -o JobID,User,NNodes,State,Start,End,JobName > jobs.sacct
  sarouter trial --report jobs.sacct

A trial begins tomorrow at midnight. For each weekday, half of the days, drawn at random, have routes for jobs. On
the other days the service routes with an engine that knows no jobs. The report compares run times of jobs of one
user, name and number of nodes, and says how sure that is. Without an option: the days. Exit 1 if there is no trial.")]
#[group(multiple = false)]
pub struct Args {
    #[command(flatten)]
    begin: Begin,
    /// End the trial: every day is with routes for jobs again
    #[arg(long, conflicts_with_all = ["days", "report"])]
    end: bool,
    /// Run times of the trial's jobs, as `sacct` prints them
    #[arg(long, value_name = "FILE", conflicts_with = "days")]
    report: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Debug, clap::Args)]
#[group(multiple = true)]
struct Begin {
    /// Begin a trial of so many days: 14, 28, …
    #[arg(long, value_name = "N")]
    days: Option<usize>,
    /// Its first day [default: tomorrow]
    #[arg(long, value_name = "DATE", requires = "days")]
    from: Option<NaiveDate>,
    /// Engine of the days without: one that knows no jobs, best what the site ran before [default: routing.baseline of the
    /// settings, else updown]
    #[arg(long, value_name = "NAME", requires = "days")]
    without: Option<String>,
    /// Seed of the draw [default: the first day, counted from 1970]
    #[arg(long, value_name = "N", requires = "days")]
    seed: Option<u64>,
}

/// What the run times say.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Found {
    /// Jobs of several nodes.
    several: Option<Difference>,
    /// Jobs of one node, for which routes cannot matter: how far chance goes.
    one: Option<Difference>,
    /// Jobs that were not complete, that began so late that such jobs run over midnight, or outside of the trial.
    left_out: usize,
    /// Lines of the dump that are none of a job.
    unreadable: usize,
}

/// What is said of a trial that is to end.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Ended {
    /// Whether there was one.
    was_there: bool,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let store = args.state.store(context)?;
    if args.end {
        let was_there = store.lock()?.end_trial()?;
        tell_service(context);
        match context.format {
            Format::Json => print(&serde_json::to_string(&Ended { was_there })?)?,
            Format::Text => print(if was_there { "the trial is over" } else { "there was no trial" })?,
        }
        return Ok(if was_there { Answer::Yes } else { Answer::No });
    }
    if let Some(days) = args.begin.days {
        let settings = context.settings_or_default()?;
        let trial = args.begin.draw(days, settings.routing.baseline.as_deref())?;
        if let Some(there) = read_trial(store.path())?.filter(|trial| trial.until > Utc::now()) {
            let until = there.until.with_timezone(&Local).format("%Y-%m-%d");
            let why = "a new draw would forget which days had routes";
            return Err(
                format!("a trial is there until {until}: {why}; `sarouter trial --end` ends it").into()
            );
        }
        if direct::source(&settings).is_some() {
            return Err(
                "on a direct torus each job has tables of its own: a trial needs a switched fabric".into()
            );
        }
        let (engine, without) = (&settings.routing.engine, &trial.without);
        if engine == without || settings.routing.then.contains(without) {
            return Err(
                format!("{without} is one of the settings' own engines: choose another --without").into()
            );
        }
        store.lock()?.begin_trial(&trial)?;
        tell_service(context);
    }
    let Some(trial) = read_trial(store.path())? else {
        context.print(&(), || "there is no trial: sarouter trial --days 14 begins one".into())?;
        return Ok(Answer::No);
    };
    match &args.report {
        Some(path) => report(path, &trial, context),
        None => show(&store, &trial, context),
    }
}

/// Engine of the days without, where nobody says.
const USUAL: &str = "updown";

/// Ten years.
const MOST_DAYS: usize = 3654;

impl Begin {
    fn draw(&self, days: usize, baseline: Option<&str>) -> Result<Trial, Failure> {
        if days > MOST_DAYS {
            return Err(format!("--days: at most {MOST_DAYS}").into());
        }
        let without = self.without.as_deref().or(baseline).unwrap_or(USUAL);
        route::engine(without, &EngineOptions::default())?;
        if route::serves_jobs(without) {
            return Err(format!("--without {without}: that engine knows jobs").into());
        }
        let first = self.from.unwrap_or_else(|| (Local::now() + TimeDelta::days(1)).date_naive());
        let now = Utc::now();
        if midnight(first) > now + TimeDelta::days(MOST_DAYS as i64) {
            return Err("--from: more than ten years ahead".into());
        }
        if midnight(first + Days::new(days as u64)) <= now {
            return Err("--from: the trial would be over already".into());
        }
        let midnights: Vec<DateTime<Utc>> =
            (0..=days as u64).map(|d| midnight(first + Days::new(d))).collect();
        let seed =
            self.seed.unwrap_or_else(|| first.signed_duration_since(NaiveDate::default()).num_days() as u64);
        let drawn = Trial::draw(&midnights, without, seed);
        drawn.ok_or_else(|| {
            "--days: whole pairs of weeks, such as 14 or 28, so that weekdays are alike".into()
        })
    }
}

/// When a day begins here; where clocks go forward at midnight, an hour later.
fn midnight(day: NaiveDate) -> DateTime<Utc> {
    let naive = day.and_time(NaiveTime::MIN);
    let here = Local.from_local_datetime(&naive).earliest();
    here.map_or_else(|| naive.and_utc(), |here| here.with_timezone(&Utc))
}

fn show(store: &EpochStore, trial: &Trial, context: &Context) -> Result<Answer, Failure> {
    context.print(trial, || text(store, trial))?;
    Ok(Answer::Yes)
}

fn text(store: &EpochStore, trial: &Trial) -> String {
    let now = trial.day(Utc::now());
    let Trial { without, seed, days, .. } = trial;
    let mut out =
        format!("{} days, half of them with {without}, which knows no jobs (seed {seed})", days.len());
    for (i, day) in days.iter().enumerate() {
        let words = if day.with { "with routes for jobs" } else { "without" };
        let today = if now == Some(i) { "  <- now" } else { "" };
        let _ = write!(out, "\n{}  {words}{today}", day.from.with_timezone(&Local).format("%a %Y-%m-%d"));
    }
    let path = store.path().display();
    let _ = write!(out, "\n`sarouter trial --end` ends it; it is in {path}");
    out
}

/// For `status`.
pub(super) fn today(trial: &Trial, now: DateTime<Utc>) -> Option<String> {
    let day = trial.day(now)?;
    let kind = match trial.engine(now) {
        Some(engine) => format!("without routes for jobs ({engine})"),
        None => "with routes for jobs".to_string(),
    };
    Some(format!("day {} of {}, {kind}", day + 1, trial.days.len()))
}

fn report(path: &Path, trial: &Trial, context: &Context) -> Result<Answer, Failure> {
    let named = |e: String| format!("{}: {e}", path.display());
    let bytes = std::fs::read(path).map_err(|e| named(e.to_string()))?;
    let runs = Runs::read(without_mark(&String::from_utf8_lossy(&bytes)), trial).map_err(named)?;
    let found = Found {
        several: difference(trial, &runs.several),
        one: difference(trial, &runs.one),
        left_out: runs.left_out,
        unreadable: runs.unreadable,
    };
    context.print(&found, || found.text(&runs) + &found.unread())?;
    Ok(if found.several.is_some() { Answer::Yes } else { Answer::No })
}

/// Why nothing can be said, if it is for too few days with jobs.
fn too_few_days(runs: &Runs) -> String {
    match pairs(&runs.several) {
        pairs if (1..LEAST_PAIRS).contains(&pairs) => format!(
            "Days are drawn in pairs of one weekday, and jobs ran on {pairs} pairs: 95 % confidence needs \
             {LEAST_PAIRS}. A site that rests at weekends needs 28 days. "
        ),
        _ => String::new(),
    }
}

impl Found {
    /// What of the dump says nothing, if anything.
    fn unread(&self) -> String {
        match self.unreadable {
            0 => String::new(),
            n => format!("\n{n} lines of the dump are none of a job, as after a new line in a job's name."),
        }
    }

    fn text(&self, runs: &Runs) -> String {
        let Some(d) = &self.several else {
            let (kinds, jobs) = runs.sizes();
            return format!(
                "Nothing can be said: of {jobs} jobs on several nodes ({kinds} kinds by user, name and nodes) none or too \
                 few ran both on days with and on days without. {} others were not complete, could run over midnight, \
                 or were outside of the trial. {}The dump must have {FIELDS}.",
                self.left_out,
                too_few_days(runs)
            );
        };
        let Difference { jobs, kinds, less_percent, from_percent, to_percent } = d;
        let verdict = if *from_percent > 0.0 {
            format!("Jobs took {less_percent:.1} % less time with routes for them.")
        } else if *to_percent < 0.0 {
            format!("Jobs took {:.1} % more time with routes for them.", -less_percent)
        } else {
            "No difference was found.".to_string()
        };
        let mut out = format!(
            "{verdict} With 95 % confidence between {from_percent:.1} and {to_percent:.1} % less: {jobs} jobs on several \
             nodes, {kinds} kinds that ran on days with and without."
        );
        if let Some(Difference { jobs, from_percent, to_percent, .. }) = &self.one {
            let _ = write!(
                out,
                "\nFor comparison {jobs} jobs on one node, for which routes cannot matter: between \
                 {from_percent:.1} and {to_percent:.1} % less."
            );
        }
        let _ = write!(
            out,
            "\n{} jobs were left out: not complete, begun so late that such jobs run over midnight, or outside of the trial.",
            self.left_out
        );
        out
    }
}
