//! `GET /metrics`: Prometheus' text format.

use std::fmt::{Display, Write};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};

use super::answer::ApiError;
use super::routes::{Operation, Routes};
use super::{Api, Ask};
use crate::model::JobMap;
use crate::pass::step::View;
use crate::publish::{EpochNumber, EpochStore, HistoryRow, Page};
use crate::service::command::{Command, Handle, Seen};
use crate::service::health::{Health, PATIENCE};
use crate::service::kind::direct::Direct;

pub(super) fn read() -> Routes<Api> {
    Routes::new().get(told(), metrics)
}

pub(super) fn told() -> Operation {
    Operation::new("/metrics", "For Prometheus").answers_as("text/plain")
}

async fn metrics(State(api): Ask) -> Result<Response, ApiError> {
    let mut text = Text::default();
    of_fabric(&mut text, &api.handle, &api.store).await?;
    Ok(answer(text))
}

/// The same of several fabrics, with the label `fabric`.
pub(super) async fn of_several(
    fabrics: impl Iterator<Item = (&str, &Handle, &EpochStore)>,
) -> Result<Response, ApiError> {
    let mut text = Text::default();
    for (name, handle, store) in fabrics {
        text.fabric = Some(name.to_string());
        of_fabric(&mut text, handle, store).await?;
    }
    text.fabric = None;
    Ok(answer(text))
}

fn answer(mut text: Text) -> Response {
    of_process(&mut text);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.whole()).into_response()
}

async fn of_fabric(text: &mut Text, handle: &Handle, store: &EpochStore) -> Result<(), ApiError> {
    let health = handle.ask(Command::Health).await?;
    let seen = handle.ask(Command::Seen).await?;
    let change = match &seen {
        Some(Seen::Direct(seen)) => Some(seen.newest.as_ref().map(|newest| newest.epoch)),
        _ => None,
    };
    let store = store.clone();
    // It waits for a disk.
    let row = tokio::task::spawn_blocking(move || in_force(&store, change));
    of_health(text, &health, Utc::now());
    of_handoff(text, &health);
    of_worth(text, row.await.ok().flatten().as_ref());
    match seen {
        Some(Seen::Switched(view)) => of_view(text, &view),
        Some(Seen::Direct(seen)) => of_direct(text, &seen, &health),
        None => {}
    }
    Ok(())
}

/// Samples under their headings.
#[derive(Default)]
struct Text {
    /// By name in the order of their first samples; those of all fabrics stand together.
    families: Vec<(String, String)>,
    /// Whose samples come now.
    fabric: Option<String>,
}

impl Text {
    fn family<'a, V: Display>(
        &mut self,
        kind: &str,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        let known = self.families.iter().position(|(known, _)| known == name);
        let at = known.unwrap_or_else(|| {
            let heading = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            self.families.push((name.to_string(), heading));
            self.families.len() - 1
        });
        let text = &mut self.families[at].1;
        for (labels, value) in samples {
            let labels = match (&self.fabric, labels.strip_prefix('{')) {
                (None, _) => labels.to_string(),
                (Some(fabric), None) => format!("{{fabric=\"{fabric}\"}}"),
                (Some(fabric), Some(others)) => format!("{{fabric=\"{fabric}\",{others}"),
            };
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    fn whole(&self) -> String {
        self.families.iter().map(|(_, text)| text.as_str()).collect()
    }
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family("gauge", name, help, [("", value)]);
    }
    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family("counter", name, help, [("", value)]);
    }
    /// A gauge that may have no value yet.
    fn known(&mut self, name: &str, help: &str, value: Option<impl Display>) {
        self.family("gauge", name, help, value.map(|value| ("", value)));
    }
}

fn seconds(time: DateTime<Utc>) -> f64 {
    time.timestamp_millis() as f64 / 1000.0
}

fn of_health(text: &mut Text, health: &Health, now: DateTime<Utc>) {
    let found = health.found(now, PATIENCE);
    text.gauge("sarouter_healthy", "1 if nothing is wrong.", u8::from(found.is_empty()));
    let since: Vec<(String, f64)> =
        found.iter().map(|t| (format!("{{kind=\"{}\"}}", t.kind.name()), seconds(t.since))).collect();
    let since = since.iter().map(|(labels, time)| (labels.as_str(), *time));
    text.family("gauge", "sarouter_trouble_since_seconds", "What is wrong, and since when.", since);
    text.gauge("sarouter_start_time_seconds", "When the service started.", seconds(health.started));
    text.counter("sarouter_passes_total", "Passes that ended well.", health.passes);
    text.known(
        "sarouter_last_success_timestamp_seconds",
        "When a pass last ended well.",
        health.last_success.map(seconds),
    );
    text.gauge("sarouter_failures_in_row", "Passes failed in a row.", health.failures_in_row);
    let failures: Vec<(String, u64)> = health
        .failures
        .iter()
        .map(|(stage, count)| {
            let name = serde_json::to_value(stage).unwrap_or_default();
            (format!("{{stage={name}}}"), *count)
        })
        .collect();
    let samples = failures.iter().map(|(labels, count)| (labels.as_str(), *count));
    text.family("counter", "sarouter_failures_total", "Failures by stage.", samples);
    text.counter("sarouter_epochs_published_total", "Epochs published by this process.", health.published);
    text.known("sarouter_epoch", "Newest epoch of this process.", health.epoch);
    let delay = health.acknowledged.map(|a| a.milliseconds as f64 / 1000.0);
    text.known("sarouter_opensm_acknowledge_seconds", "From rename until every switch had answered.", delay);
    let missing = u8::from(health.missed().is_some());
    text.gauge("sarouter_opensm_unacknowledged", "1 while OpenSM has not answered in time.", missing);
    let refused = u8::from(health.settings_refused.is_some());
    text.gauge("sarouter_settings_refused", "1 while the settings file is not in force.", refused);
    let held = u8::from(health.held.is_some());
    text.gauge("sarouter_held", "1 while an administrator holds what is in force.", held);
    text.gauge(
        "sarouter_unknown_nodes",
        "Nodes of jobs that no terminal matches.",
        health.unknown_nodes.len(),
    );
    text.gauge("sarouter_jobs_waiting_for_age", "Multi-switch jobs that are too young.", health.waiting_jobs);
}

fn of_handoff(text: &mut Text, health: &Health) {
    let help = "Changes of routes for jobs that were not worth their price.";
    text.counter("sarouter_not_worth_total", help, health.not_worth_count);
    let counters = &health.handoff;
    text.counter("sarouter_handoff_announced_total", "Jobs announced by prologs.", counters.announced);
    text.counter("sarouter_handoff_ended_total", "Ends told by epilogs.", counters.ended);
    text.gauge("sarouter_handoff_waiting", "Jobs that wait for their routes.", counters.waiting);
    let waited = counters.waited_ms as f64 / 1000.0;
    text.counter("sarouter_handoff_wait_seconds_total", "Time waited, all starts together.", waited);
    let started: Vec<(String, u64)> = counters
        .started
        .iter()
        .map(|(why, count)| (format!("{{reason={}}}", serde_json::to_value(why).unwrap_or_default()), *count))
        .collect();
    let samples = started.iter().map(|(labels, count)| (labels.as_str(), *count));
    text.family("counter", "sarouter_handoff_started_total", "Jobs let go, by reason.", samples);
}

/// The line of the history of what is in force: after a step back it is not the newest. `change` is the newest one of a
/// direct torus.
fn in_force(store: &EpochStore, change: Option<Option<EpochNumber>>) -> Option<HistoryRow> {
    const BACK: usize = 100;
    let current = match change {
        Some(change) => change?,
        None => store.current().ok()??,
    };
    let page = store.history_page(Page { before: None, limit: Some(BACK) }).ok()?;
    page.rows.into_iter().find(|row| row.epoch == current)
}

/// What the tables in force are worth, for the jobs that they were made for.
fn of_worth(text: &mut Text, row: Option<&HistoryRow>) {
    let Some(row) = row else { return };
    let tables = |name: &str| format!("{{tables=\"{name}\"}}");
    let slow = [
        (tables("now"), row.slowdown_after),
        (tables("before"), row.slowdown_before),
        (tables("without_jobs"), row.slowdown_oblivious),
        (tables("bound"), row.slowdown_after.map(|_| 1.0)),
    ];
    let known = slow.iter().filter_map(|(labels, value)| Some((labels.as_str(), (*value)?)));
    text.family(
        "gauge",
        "sarouter_slowdown",
        "Predicted slow-down of the jobs that the tables in force were made for, geometric mean, by tables.",
        known,
    );
    let loads = [
        (tables("now"), Some(row.effective_max_after)),
        (tables("before"), row.effective_max_before),
        (tables("bound"), row.effective_bound),
    ];
    let known = loads.iter().filter_map(|(labels, value)| Some((labels.as_str(), (*value)?)));
    text.family(
        "gauge",
        "sarouter_largest_load",
        "Routes inside these jobs on the fullest channel, by tables.",
        known,
    );
    text.known(
        "sarouter_gain_node_hours",
        "What running jobs save by the epoch in force, as predicted.",
        row.gain,
    );
    text.known("sarouter_price_node_hours", "What it had to save, where it was asked.", row.price);
    text.gauge("sarouter_dark_fiber_ratio", "Share of channels that no job uses.", row.dark_fiber);
    text.gauge("sarouter_layers", "Virtual layers in use.", row.layers);
    text.gauge(
        "sarouter_compute_seconds",
        "Time that computing what is in force took.",
        row.milliseconds / 1000.0,
    );
}

fn of_view(text: &mut Text, view: &View) {
    let placed = view.nodes.place(&view.jobs).jobs;
    let multi = placed.iter().filter(|job| job.ranks.is_multi_switch(&view.fabric)).count();
    of_jobs(text, Some(&view.jobs));
    text.gauge("sarouter_jobs_multi_switch", "Jobs on at least two switches.", multi);
    text.gauge("sarouter_fabric_switches", "Switches of the fabric.", view.fabric.switches().len());
    of_cables(text, view.fabric.channels().len() / 2);
}

fn of_jobs(text: &mut Text, jobs: Option<&JobMap>) {
    text.known("sarouter_jobs", "Jobs that own nodes.", jobs.map(|jobs| jobs.jobs.len()));
    let time = jobs.map(|jobs| seconds(jobs.time));
    text.known("sarouter_snapshot_timestamp_seconds", "When jobs were last seen.", time);
}

fn of_cables(text: &mut Text, cables: usize) {
    text.gauge("sarouter_fabric_cables", "Cables between switches, or links of a direct torus.", cables);
}

fn of_direct(text: &mut Text, seen: &Direct, health: &Health) {
    of_jobs(text, seen.jobs.as_deref());
    text.gauge("sarouter_jobs_with_tables", "Jobs of a direct torus that have tables.", seen.running.len());
    let torus = &seen.torus;
    let exits: u32 = torus.nodes().map(|node| torus.exits(node).count_ones()).sum();
    of_cables(text, exits as usize / 2);
    text.gauge("sarouter_fabric_nodes", "Nodes of a direct torus that work.", torus.healthy_nodes().len());
    let max = health.torus.as_ref().map(|torus| torus.load_max);
    text.known("sarouter_load_max", "Routes of jobs on the fullest link of a direct torus.", max);
}

/// Under the names that all programs use.
fn of_process(text: &mut Text) {
    const PAGE: u64 = 4096;
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.and_then(|t| t.split(' ').nth(1)?.parse::<u64>().ok()).map(|n| n * PAGE);
    text.known("process_resident_memory_bytes", "Resident memory size in bytes.", resident);
    let files = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    text.known("process_open_fds", "Number of open file descriptors.", files);
    let cpu = crate::report::cost::cpu_seconds();
    text.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu);
}
