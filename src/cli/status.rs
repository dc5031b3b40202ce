//! `sarouter status`: what is in force, and whether all is well.

use std::fmt::Write;
use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;

use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::hold::held;
use super::state::{StateArgs, percent, print_each};
use super::{Answer, Context, Failure, trial};
use crate::model::FileError;
use crate::model::{FabricDifference, Promise};
use crate::pass::plan::PassedOver;
use crate::publish::opensm::{PluginStatus, STATUS_FILE, StatusError, Trouble};
use crate::publish::{Epoch, EpochStore, Hold, read_trial};
use crate::service::follow::Following;
use crate::service::health::{Health, Kind, NotWorth, PATIENCE, TorusHealth, Trouble as Told};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit 1 if something is wrong, so a monitoring system can call this.\n\n\
                        Example: sarouter status --format json")]
pub struct Args {
    #[command(flatten)]
    state: StateArgs,
    /// Status file of the OpenSM plugin [default: opensm-status*.json in the state directory, if there]
    #[arg(long, value_name = "FILE")]
    opensm_status: Option<PathBuf>,
    /// Seconds that OpenSM may take from publication to the new epoch in force
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    opensm_limit: u32,
    /// Say it again and again, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    watch: Option<u32>,
}

/// What is printed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Status {
    pub(super) healthy: bool,
    pub(super) problems: Vec<String>,
    state: PathBuf,
    /// When `current` was last switched.
    in_force_since: Option<DateTime<Utc>>,
    epoch: Option<InForce>,
    opensm: Option<Value>,
    #[schemars(with = "Option<Health>")]
    service: Option<Value>,
    /// Instead of epochs, on a direct torus.
    torus: Option<TorusHealth>,
    /// What is in force stays until `sarouter resume`.
    held: Option<Hold>,
    /// Which day of a trial it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<String>,
    /// The service that is copied here, if none runs here.
    #[serde(skip_serializing_if = "Option::is_none")]
    follows: Option<Following>,
}

/// The epoch in force.
#[derive(Debug, JsonSchema, Serialize)]
struct InForce {
    number: u64,
    published: DateTime<Utc>,
    reason: String,
    /// What is other in the fabric than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<FabricDifference>,
    engine: String,
    /// Engines that were to route before it.
    passed_over: Vec<PassedOver>,
    /// What the checker proved of it.
    promise: Promise,
    fabric: String,
    layers_used: u8,
    layer_budget: u8,
    running_jobs: usize,
    multi_switch_jobs: usize,
    slowdown_mean: f64,
    slowdown_max: f64,
    /// With tables that know no jobs; null where it was not measured.
    slowdown_oblivious: Option<f64>,
    effective_max: u64,
    dark_fiber: f64,
}

/// What the status depends on beside the store.
pub(super) struct Watch {
    /// The plugin's file; `None` looks in the state directory and does not miss it.
    pub(super) opensm_status: Option<PathBuf>,
    pub(super) opensm_limit: TimeDelta,
    pub(super) now: DateTime<Utc>,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let limit = TimeDelta::seconds(args.opensm_limit.into());
    let stores = args.state.stores(context)?;
    if let (Some(_), [_, _, ..]) = (&args.opensm_status, &stores[..]) {
        return Err("--opensm-status is of one fabric: say which by --fabric-name".into());
    }
    let mut watch = Watch { opensm_status: args.opensm_status, opensm_limit: limit, now: Utc::now() };
    let clears = args.watch.is_some() && std::io::stdout().is_terminal();
    loop {
        watch.now = Utc::now();
        let all: Vec<(Option<String>, Status)> =
            stores.iter().map(|(name, store)| (name.clone(), Status::read(store, &watch))).collect();
        if clears {
            print!("{CLEAR}");
        }
        print_each(&all, |i| all[i].1.text(), context)?;
        match args.watch {
            Some(seconds) => std::thread::sleep(std::time::Duration::from_secs(seconds.into())),
            None => return Ok(if all.iter().all(|(_, s)| s.healthy) { Answer::Yes } else { Answer::No }),
        }
    }
}

/// Empties a terminal and begins at its top.
const CLEAR: &str = "\x1b[H\x1b[2J";

impl Status {
    pub(super) fn read(store: &EpochStore, watch: &Watch) -> Self {
        let mut problems = Vec::new();
        let mut health = Health::read(store.path());
        let torus = health.as_ref().ok().and_then(|health| health.as_ref()?.torus.clone());
        let epoch = match store.current().and_then(|n| n.map(|n| store.epoch(n)).transpose()) {
            Ok(Some(epoch)) => Some(epoch),
            Ok(None) => {
                problems.extend(torus.is_none().then(|| "no epoch has been published".to_string()));
                None
            }
            Err(e) => {
                problems.push(format!("the epoch in force cannot be used: {}", super::chain(&e)));
                None
            }
        };
        let since = fs::symlink_metadata(store.current_path()).and_then(|link| link.modified()).ok();
        let since = since.map(DateTime::<Utc>::from);
        let opensm = opensm(store, watch, since, &mut problems);
        let held = store.hold().unwrap_or_else(|e| {
            problems.push(super::chain(&e));
            None
        });
        let trial = read_trial(store.path()).unwrap_or_else(|e| {
            problems.push(super::chain(&e));
            None
        });
        // A hold is there at once; the service notes it when it wakes.
        if let Ok(Some(health)) = &mut health {
            health.held.clone_from(&held);
        }
        let follows = follows(store, &health, watch.now, &mut problems);
        let service = service(store, health, watch.now, &mut problems);
        Self {
            healthy: problems.is_empty(),
            problems,
            state: store.path().to_path_buf(),
            in_force_since: since,
            epoch: epoch.as_ref().map(InForce::of),
            opensm,
            service,
            torus,
            held,
            trial: trial.and_then(|trial| trial::today(&trial, watch.now)),
            follows,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut out = if self.healthy { "healthy".to_string() } else { "NOT healthy".to_string() };
        for problem in &self.problems {
            let _ = write!(out, "\n  - {problem}");
        }
        let _ = write!(out, "\nstate       {}", self.state.display());
        if let Some(epoch) = &self.epoch {
            out.push_str(&epoch.text());
        }
        if let Some(TorusHealth { sizes, jobs, load_max, .. }) = &self.torus {
            let _ = write!(out, "\ntorus       {sizes}\njobs        {jobs} with tables");
            let _ = write!(out, ", at most {load_max} of their routes on a link");
        }
        if let Some(hold) = &self.held {
            let _ = write!(out, "\nHELD        {}; `sarouter resume` ends it", held(hold));
        }
        if let Some(trial) = &self.trial {
            let _ = write!(out, "\ntrial       {trial}");
        }
        if let Some(Following { place, agreed, .. }) = &self.follows {
            let last = agreed.map_or("never".to_string(), |at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string());
            let _ = write!(out, "\nfollows     {place}, last as it is there {last}");
        }
        if let Some(opensm) = &self.opensm {
            let number = |key: &str| opensm[key].as_u64().map_or("none".to_string(), |n| n.to_string());
            let (generation, lost) = (number("generation"), number("lost_entries"));
            let _ = write!(out, "\nOpenSM      epoch {generation} in force, {lost} lost entries");
        }
        if let Some(service) = &self.service {
            if service["reader"] == "nobody" {
                out.push_str("\ndry run     nobody fetches the epochs: nothing changes on the fabric");
            }
            let last = service["last_success"].as_str().unwrap_or("never");
            let _ = write!(out, "\nservice     last good pass {last}");
            out.push_str(&handoff(&service["handoff"]));
            out.push_str(&not_worth(service));
        }
        out
    }
}

impl InForce {
    fn of(epoch: &Epoch) -> Self {
        let (plan, report) = (epoch.plan(), epoch.report());
        Self {
            number: plan.epoch.get(),
            published: plan.created,
            reason: plan.reason.words().to_string(),
            difference: plan.difference.clone(),
            engine: plan.engine.clone(),
            passed_over: plan.passed_over.clone(),
            promise: plan.promise,
            fabric: plan.fabric.to_string(),
            layers_used: report.layers.used,
            layer_budget: report.layers.budget,
            running_jobs: report.jobs.running,
            multi_switch_jobs: report.jobs.multi_switch,
            slowdown_mean: plan.after.time.slowdown_mean,
            slowdown_max: plan.after.time.slowdown_max,
            slowdown_oblivious: report.time.oblivious,
            effective_max: plan.after.effective.max,
            dark_fiber: plan.after.effective.dark_fiber,
        }
    }

    fn text(&self) -> String {
        let without =
            self.slowdown_oblivious.map_or(String::new(), |slow| format!("; without jobs {slow:.3}"));
        let mut out = format!(
            "\nepoch       {}, published {}, {}\nroutes      {}, {} of {} layers, proved for {}\n\
             jobs        {}, on more than one switch {}\n\
             slow-down   mean {:.3}, worst {:.3}{without}\neffective   max EFI {}, dark fiber {}",
            self.number,
            self.published.format("%Y-%m-%dT%H:%M:%SZ"),
            self.reason,
            self.engine,
            self.layers_used,
            self.layer_budget,
            self.promise,
            self.running_jobs,
            self.multi_switch_jobs,
            self.slowdown_mean,
            self.slowdown_max,
            self.effective_max,
            percent(self.dark_fiber)
        );
        if let Some(difference) = &self.difference {
            let _ = write!(out, "\nfabric      {difference}");
        }
        for PassedOver { engine, reason } in &self.passed_over {
            let _ = write!(out, "\npassed over {engine}: {reason}");
        }
        out
    }
}

/// Looks at the plugin's status file, as it is; adds what is wrong.
fn opensm(
    store: &EpochStore,
    watch: &Watch,
    since: Option<DateTime<Utc>>,
    problems: &mut Vec<String>,
) -> Option<Value> {
    let path = watch.opensm_status.clone().unwrap_or_else(|| store.path().join(STATUS_FILE));
    let status = match PluginStatus::read(&path) {
        Ok(status) => status,
        Err(StatusError::Missing(_)) if watch.opensm_status.is_none() => return None,
        Err(e) => {
            problems.push(super::chain(&e));
            return None;
        }
    };
    let current = store.current().ok().flatten().map(|n| n.get());
    let mut troubles = status.troubles(current, watch.now);
    if since.is_some_and(|since| watch.now - since <= watch.opensm_limit) {
        troubles.retain(|t| !matches!(t, Trouble::Behind { .. }));
    }
    problems.extend(troubles.iter().map(Trouble::to_string));
    fs::read(&status.file).ok().and_then(|text| serde_json::from_slice(&text).ok())
}

/// Jobs announced before their start, if there were any.
fn handoff(counters: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let Some(started) = counters["started"].as_object().filter(|s| !s.is_empty()) else {
        return String::new();
    };
    let reasons: Vec<String> =
        started.iter().map(|(why, n)| format!("{} {}", number(n), why.replace('_', " "))).collect();
    let waiting = number(&counters["waiting"]);
    format!("\nhand-off    {} wait; started: {}", waiting, reasons.join(", "))
}

/// Changes of routes that were not made, if there were any.
fn not_worth(service: &Value) -> String {
    let count = service["not_worth_count"].as_u64().unwrap_or(0);
    let newest = serde_json::from_value::<Option<NotWorth>>(service["not_worth"].clone()).ok().flatten();
    let Some(newest) = newest.filter(|_| count > 0) else { return String::new() };
    format!("\nnot worth   {count} changes for jobs; the newest {}", newest.worth)
}

/// Looks at what `follow` wrote; adds what is wrong.
fn follows(
    store: &EpochStore,
    health: &Result<Option<Health>, FileError>,
    now: DateTime<Utc>,
    problems: &mut Vec<String>,
) -> Option<Following> {
    if matches!(health, Ok(Some(health)) if health.serving) {
        return None;
    }
    let found = Following::read(store).unwrap_or_else(|e| {
        problems.push(super::chain(&e));
        None
    })?;
    problems.extend(found.wrong(now).map(|trouble| format!("following {}: {trouble}", found.place)));
    Some(found)
}

/// Looks at what the service wrote of itself; adds what is wrong.
fn service(
    store: &EpochStore,
    health: Result<Option<Health>, FileError>,
    now: DateTime<Utc>,
    problems: &mut Vec<String>,
) -> Option<Value> {
    match health {
        Ok(health) => {
            problems.extend(Health::unsaid(store, health.as_ref(), now).map(|trouble| trouble.text));
            let health = health?;
            // What the plugin says of OpenSM is read afresh: see above. Only the service knows of epochs before.
            let is_known = |t: &Told| t.kind != Kind::Lagging && health.opensm.contains(t);
            let found = health.found(now, PATIENCE).into_iter();
            problems.extend(found.filter(|t| !is_known(t)).map(|t| t.text));
            serde_json::to_value(health).ok()
        }
        Err(error) => {
            problems.push(super::chain(&error));
            None
        }
    }
}
