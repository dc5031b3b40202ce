//! `sarouter explain EPOCH`: why it was published, and what it gained.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use super::common::{less_now, wrapped};
use super::show::Which;
use super::state::StateArgs;
use super::{Answer, Context, Failure, history};
use crate::measure::Time;
use crate::model::{FabricDifference, JobId, Promise};
use crate::pass::worth::Worth;
use crate::publish::{Epoch, EpochNumber, EpochStore};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sarouter explain current --state /var/lib/sarouter")]
pub struct Args {
    /// Number of an epoch, `current`, or a time at which it was in force: 14:05, 2026-12-01T14:05 (UTC)
    #[arg(value_name = "EPOCH")]
    epoch: Which,
    #[command(flatten)]
    state: StateArgs,
}

/// What is printed.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Explained {
    epoch: EpochNumber,
    published: String,
    reason: String,
    /// What is other in the fabric than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<FabricDifference>,
    engine: String,
    promise: Promise,
    /// The epoch before.
    previous: Option<EpochNumber>,
    /// Jobs that it does not have, and those of it that are over or elsewhere; `None` if it is gone.
    came: Option<Vec<Came>>,
    went: Option<Vec<JobId>>,
    /// Slow-down of the jobs with the routes before, and with these.
    before: Option<Time>,
    after: Time,
    /// Mean slow-down with the best engine that knows no jobs; `None` where it was not measured.
    oblivious: Option<f64>,
    /// Routes inside jobs on the fullest channel, before and after.
    largest_before: Option<u64>,
    largest_after: u64,
    /// What the change had to be worth, where that was the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    worth: Option<Worth>,
    /// Milliseconds that engine, checker and figures took.
    computed_ms: f64,
}

/// A job that was not there before.
#[derive(Debug, JsonSchema, Serialize)]
struct Came {
    job: JobId,
    nodes: usize,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let store = args.state.existing(context)?;
    if history::is_of_a_torus(&store) {
        return history::Table::of_change(&store, args.epoch.change(&store)?)?.print(context, false);
    }
    let explained = Explained::read(&store, args.epoch)?;
    context.print(&explained, || explained.text())?;
    Ok(Answer::Yes)
}

impl Explained {
    fn read(store: &EpochStore, which: Which) -> Result<Self, Failure> {
        let epoch = store.epoch(which.of(store)?)?;
        let plan = epoch.plan();
        let before = plan.previous.and_then(|number| store.epoch(number).ok());
        // The first one has no jobs before it.
        let is_known = before.is_some() || plan.previous.is_none();
        let nodes = |epoch: &Epoch| -> BTreeMap<JobId, _> {
            epoch.plan().jobs.jobs.iter().map(|job| (job.id.clone(), job.nodes.clone())).collect()
        };
        let (old, new) = (before.as_ref().map(nodes).unwrap_or_default(), nodes(&epoch));
        let came = new.iter().filter(|(id, nodes)| old.get(id) != Some(nodes));
        let came = came.map(|(id, nodes)| Came { job: id.clone(), nodes: nodes.len() }).collect();
        let went = old.iter().filter(|(id, nodes)| new.get(id) != Some(nodes)).map(|(id, _)| id.clone());
        Ok(Self {
            epoch: plan.epoch,
            published: plan.created.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
            reason: plan.reason.words().to_string(),
            difference: plan.difference.clone(),
            engine: plan.engine.clone(),
            promise: plan.promise,
            previous: plan.previous,
            came: is_known.then_some(came),
            went: is_known.then(|| went.collect()),
            before: plan.before.map(|figures| figures.time),
            after: plan.after.time,
            oblivious: epoch.report().time.oblivious,
            largest_before: plan.before.map(|figures| figures.effective.max),
            largest_after: plan.after.effective.max,
            worth: plan.worth,
            computed_ms: epoch.report().compute.wall_seconds * 1000.0,
        })
    }

    fn text(&self) -> String {
        let Self { epoch, published, reason, engine, promise, computed_ms, .. } = self;
        let mut out = format!("epoch {epoch}, published at {published}: {reason}");
        let mut line = |name: &str, text: String| {
            let _ = write!(out, "\n{name:12}{text}");
        };
        if let Some(difference) = &self.difference {
            line("fabric", difference.to_string());
        }
        match (&self.came, &self.went) {
            (Some(came), Some(went)) => {
                let came: Vec<String> =
                    came.iter().map(|c| format!("{} ({} nodes)", c.job, c.nodes)).collect();
                let went: Vec<&str> = went.iter().map(JobId::as_str).collect();
                let came: Vec<&str> = came.iter().map(String::as_str).collect();
                line("jobs came", listed(&came));
                line("jobs went", listed(&went));
            }
            _ => line("jobs", "what ran before is not known: the epoch before is gone".to_string()),
        }
        let now = self.after.slowdown_mean;
        line("exchange", format!("jobs' exchanges take {now:.3} times what their own cables need"));
        if let Some(oblivious) = self.oblivious {
            let words = less_now(oblivious, now, 1);
            line("", format!("{oblivious:.3} with the best engine that knows no jobs: {words}"));
        }
        if let (Some(before), Some(largest)) = (self.before, self.largest_before) {
            let before = before.slowdown_mean;
            let words = less_now(before, now, 1);
            line("", format!("{before:.3} with the routes before: {words}"));
            line(
                "fullest",
                format!("{largest} routes inside jobs on a channel before, {} now", self.largest_after),
            );
        }
        if let Some(worth) = &self.worth {
            line("gain", worth.to_string());
        }
        line("made by", format!("{engine} in {computed_ms:.1} ms, proved for {promise}"));
        out
    }
}

/// Jobs that are named; a list that no screen holds tells how many more there are.
fn listed(jobs: &[&str]) -> String {
    const NAMED: usize = 40;
    let (named, more) = jobs.split_at(jobs.len().min(NAMED));
    let mut text = named.join(", ");
    if !more.is_empty() {
        text.push_str(&format!(", {} more (--format json has all)", more.len()));
    }
    if text.is_empty() { "none".to_string() } else { wrapped(&text, 12) }
}
