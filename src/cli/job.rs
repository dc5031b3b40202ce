//! `sarouter job`: what a job's owner wants to know of its routes.

mod list;

use std::collections::BTreeMap;
use std::fmt::Write;

use chrono::Utc;
use serde::Serialize;
use serde_json::Value;

use super::common::less_now;
use super::state::{print_each, service};
use super::{Answer, Context, Failure};
use crate::model::JobId;
use crate::service::api::state::HealthAnswer;
use crate::service::client::{Client, ClientError};
use crate::service::handoff::Waits;
use crate::service::kind::direct;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Asks the service; nothing is changed. Exit 1 if the service has seen no such job.\n\n\
                        Examples:\n  sarouter job 17\n  sarouter job\n\nWithout an id: all jobs, those first that gain least, and those that wait for routes."
)]
pub struct Args {
    /// Job; all of them if there is no $SLURM_JOB_ID either
    #[arg(value_name = "ID")]
    job: Option<JobId>,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Told {
    /// The epoch in force.
    epoch: Option<u64>,
    /// As `GET /v1/jobs` has it.
    job: Value,
    /// The best engine that knows no jobs, over all of them.
    baseline: Option<String>,
    /// The order of its ranks, if it asked for one.
    order: Option<Value>,
    /// What the job was told at its start.
    environment: BTreeMap<String, String>,
    /// Whether it is on a direct torus.
    #[serde(skip)]
    on_torus: bool,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let from_slurm = || JobId::new(std::env::var("SLURM_JOB_ID").ok()?).ok();
    let id = args.job.or_else(from_slurm);
    let (client, fabrics) = service(context)?;
    let (mut told, mut lists, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for (settings, place) in fabrics {
        let name = settings.name.clone();
        let mut all: Value = client.wait(client.get(&format!("{place}/v1/jobs")))?;
        let jobs = all["jobs"].as_array_mut().map(std::mem::take).unwrap_or_default();
        match &id {
            None => {
                lists.push((name, jobs));
                waits.push(waiting(&client, &place)?);
            }
            Some(id) => {
                let job = jobs.into_iter().find(|job| job["id"] == id.as_str());
                let found = job.map(|job| Told::of(&client, &place, id, &all, job)).transpose()?;
                let on_torus = direct::source(&settings).is_some();
                told.extend(found.map(|found| (name, Told { on_torus, ..found })));
            }
        }
    }
    let Some(id) = id else { return print_all(&lists, &waits, context) };
    if told.is_empty() {
        return context
            .no(&format!("the service has seen no job {id}: it may be over, or not be placed yet"));
    }
    print_each(&told, |i| told[i].1.text(), context)?;
    Ok(Answer::Yes)
}

/// Jobs that wait for their routes before they start.
fn waiting(client: &Client, place: &str) -> Result<Vec<Waits>, Failure> {
    let health: HealthAnswer = client.wait(client.get(&format!("{place}/v1/health")))?;
    Ok(health.health.handoff.waiting_jobs)
}

/// The jobs of each fabric, and those that wait.
fn print_all(
    lists: &[(Option<String>, Vec<Value>)],
    waits: &[Vec<Waits>],
    context: &Context,
) -> Result<Answer, Failure> {
    if lists.iter().all(|(_, jobs)| jobs.is_empty()) && waits.iter().all(Vec::is_empty) {
        return context.no("the service has seen no job");
    }
    let text = |i: usize| list::text(&lists[i].1) + &list::waiting(&waits[i], Utc::now());
    print_each(lists, text, context)?;
    Ok(Answer::Yes)
}

impl Told {
    /// What the service says of a job that it has seen; below this place, of one of several fabrics.
    fn of(client: &Client, place: &str, id: &JobId, all: &Value, job: Value) -> Result<Self, Failure> {
        let environment = match client.wait(client.get(&format!("{place}/v1/jobs/{id}/environment"))) {
            Err(ClientError::Refused { status: 404, .. }) => BTreeMap::new(),
            told => told?,
        };
        let order = match client.wait(client.get(&format!("{place}/v1/jobs/{id}/order"))) {
            Err(ClientError::Refused { status: 404, .. }) => None,
            order => Some(order?),
        };
        let baseline = all["baseline"]["engine"].as_str().map(str::to_string);
        Ok(Self { epoch: all["epoch"].as_u64(), job, baseline, order, environment, on_torus: false })
    }
}

impl Told {
    /// What it is taken to exchange, and who says so.
    fn pattern(&self) -> String {
        let word = |key: &str| self.job[key].as_str().unwrap_or_default();
        match word("pattern_from") {
            "job" => format!("{}, as the job says", word("pattern")),
            "rule" => format!("{}, as a rule of traffic.rules guesses", word("pattern")),
            _ => {
                "not known, so the default mix: sbatch --traffic=PATTERN says it (`sarouter patterns`)".into()
            }
        }
    }

    /// Why no time is predicted for it.
    fn without_time(&self) -> &'static str {
        match self.job["switches"].as_u64() {
            Some(0 | 1) if self.on_torus => "it has one node, and needs none",
            _ if self.on_torus => "none: its start was not announced, or it started without",
            Some(0 | 1) => "all its nodes are under one switch: routes do not matter",
            _ => "some of its nodes cannot reach others: no cable leads there",
        }
    }

    fn text(&self) -> String {
        let job = &self.job;
        let word = |key: &str| job[key].as_str().unwrap_or_default();
        let mut out = format!(
            "job         {}, {}, {} nodes under {} switches: {}",
            word("id"),
            word("state").to_lowercase(),
            job["node_count"],
            job["switches"],
            word("nodes")
        );
        let mut line = |name: &str, text: String| {
            let _ = write!(out, "\n{name:12}{text}");
        };
        line("pattern", self.pattern());
        let slow = |gets: &Value| gets["slowdown"].as_f64();
        match (slow(&job["now"]), self.epoch) {
            (None, _) if self.on_torus => line("routes", self.without_time().into()),
            (None, Some(_)) => line("routes", self.without_time().into()),
            (None, None) => line("routes", "no epoch is in force: those of OpenSM".into()),
            (Some(now), epoch) => {
                let epoch = epoch.map_or(String::new(), |n| format!(" (epoch {n})"));
                line("exchange", format!("takes {now:.2} times what its nodes' own cables need{epoch}"));
                if let Some(before) = slow(&job["before"]) {
                    line("", format!("{before:.2} with the routes before"));
                }
                if let (Some(without), Some(engine)) = (job["baseline"].as_f64(), &self.baseline) {
                    let words = less_now(without, now, 0);
                    line("", format!("{without:.2} with {engine}, which knows no jobs: {words}"));
                }
                let gets = &job["now"];
                let (links, own, all) = (&gets["links"], &gets["max"], &gets["busiest"]);
                line(
                    "channels",
                    format!("{links}, with at most {own} of its own routes on one, and {all} of all jobs"),
                );
            }
        }
        match &self.order {
            Some(order) => {
                let nodes = order["nodes"].as_array().into_iter().flatten().filter_map(Value::as_str);
                line("ranks", format!("in the order {}", nodes.collect::<Vec<_>>().join(",")));
                let [list, ordered] = ["list", "ordered"].map(|key| order[key].as_f64().unwrap_or_default());
                line("", format!("predicted {ordered:.2} in it, {list:.2} in the order of Slurm's list"));
            }
            None if job["now"].is_null() => {}
            None => {
                line("ranks", format!("sarouter order --job {} finds the best order for them", word("id")))
            }
        }
        self.environment.iter().for_each(|(name, value)| line("told", format!("{name}={value}")));
        out
    }
}
