//! How the service fares: `health.json` in the state directory, written after each pass.

mod delivery;
mod life;
mod place;
mod state;
mod store;
#[cfg(test)]
mod tests;
pub mod trouble_log;

use schemars::JsonSchema;
use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use tracing::warn;

pub use self::state::{Reader, State};
use super::handoff::Counters;
use crate::model::{JobId, NodeName};
use crate::observe::hostlist;
use crate::pass::worth::Worth;
use crate::publish::Hold;

/// Name of the file in the state directory.
pub const HEALTH_FILE: &str = "health.json";

/// A service that has not begun its next pass so long after it was due hangs.
pub const PATIENCE: TimeDelta = TimeDelta::seconds(120);

/// Where a pass can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Asking Slurm.
    Jobs,
    /// Reading the fabric or its node names.
    Fabric,
    /// Reading what is in force.
    Store,
    /// Computing routes.
    Route,
    /// Checking them.
    Verify,
    /// Writing them down.
    Publish,
    /// OpenSM's acknowledgement.
    Acknowledge,
    /// Reading changed settings.
    Settings,
    /// Recording events.
    Record,
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Failure {
    /// Time of the failure.
    pub time: DateTime<Utc>,
    /// The part of a pass that failed.
    pub stage: Stage,
    /// The whole error chain.
    pub message: String,
}

/// OpenSM's answer to the newest epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Which one OpenSM has programmed.
    pub epoch: u64,
    /// Milliseconds from rename until every switch had answered.
    pub milliseconds: i64,
}

/// What can be wrong. The name is the label of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Passes fail.
    Failing,
    /// OpenSM has not put the newest epoch in force in time.
    Unacknowledged,
    /// OpenSM has put no epoch in force for long, however many were published.
    Lagging,
    /// The plugin in OpenSM is not heard of any more.
    OpensmSilent,
    /// OpenSM has ended.
    OpensmEnded,
    /// OpenSM does not begin to route though it was asked to.
    OpensmDeaf,
    /// OpenSM has not routed yet.
    OpensmNotRouted,
    /// OpenSM routes by another engine.
    OpensmFellBack,
    /// OpenSM's plugin refused an epoch.
    OpensmRefused,
    /// OpenSM has another epoch in force.
    OpensmBehind,
    /// Entries of the tables are dead.
    OpensmLost,
    /// Switches of the epoch are gone.
    OpensmMissing,
    /// OpenSM's plugin has routed around what is gone.
    OpensmRepaired,
    /// Hosts cannot reach each other.
    OpensmStranded,
    /// Switches are unknown.
    OpensmUncovered,
    /// Two OpenSMs use one state directory, or one status file.
    OpensmRival,
    /// The plugin's file cannot be used.
    OpensmStatus,
    /// The file for OpenSM's file engine is not that of the epoch in force.
    LftFile,
    /// The settings file is not in force.
    Settings,
    /// Events are not recorded.
    Unrecorded,
    /// There is hardly space for the next epoch.
    NoSpace,
    /// The clock is behind what was written down.
    Clock,
    /// Nodes of jobs are not in the fabric.
    UnknownNodes,
    /// No cable leads from some nodes to the others.
    Parted,
    /// Jobs of a direct torus run over links that have failed.
    JobsCut,
    /// An administrator holds what is in force.
    Held,
    /// The service does not begin its passes.
    Hangs,
    /// The service was ended.
    Stopped,
}

impl Kind {
    /// As in the metric and in JSON.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|v| v.as_str().map(String::from)).unwrap_or_default()
    }
}

/// Something that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Trouble {
    /// What it is.
    pub kind: Kind,
    /// Since when, as far as it was noticed.
    pub since: DateTime<Utc>,
    /// A sentence.
    pub text: String,
}

/// How a direct torus is served.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TorusHealth {
    /// Its sizes, as `4x2x2`.
    pub sizes: String,
    /// Jobs that run with tables of ours.
    pub jobs: usize,
    /// Largest number of their routes on a link, in one direction.
    pub load_max: u32,
    /// Jobs that failures touched while they ran.
    pub cut: BTreeMap<JobId, Trouble>,
}

/// A change of routes that was not made.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct NotWorth {
    /// When the jobs were seen that it was for.
    pub time: DateTime<Utc>,
    /// What it would have been worth.
    #[serde(flatten)]
    pub worth: Worth,
}

/// The content of `health.json`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Health {
    /// When this was written.
    pub time: DateTime<Utc>,
    /// When the service or `tick` started.
    pub started: DateTime<Utc>,
    /// Process that wrote this.
    pub pid: u32,
    /// False once the service has ended in order, and after a `tick`.
    pub serving: bool,
    /// The next pass is to begin before this; much later than this means that the service hangs.
    pub next_pass: Option<DateTime<Utc>>,
    /// Passes that ended well.
    pub passes: u64,
    /// Epochs published.
    pub published: u64,
    /// The newest epoch published by this process.
    pub epoch: Option<u64>,
    /// When a pass last ended well.
    pub last_success: Option<DateTime<Utc>>,
    /// The failure that the newest pass ended with, until one ends well.
    pub failing: Option<Failure>,
    /// Passes failed in a row.
    pub failures_in_row: u64,
    /// Failures by stage since `started`.
    pub failures: BTreeMap<Stage, u64>,
    /// Nodes of jobs that no terminal matches.
    pub unknown_nodes: Vec<NodeName>,
    /// Multi-switch jobs that are too young to count.
    pub waiting_jobs: usize,
    /// Other routes are due, and running jobs use both LIDs of each port (`opensm.lmc = 1`).
    #[serde(default)]
    pub waits_for_lid: bool,
    /// OpenSM's answer to the newest epoch.
    pub acknowledged: Option<Acknowledged>,
    /// OpenSM has not answered, until it does.
    pub unacknowledged: Option<Failure>,
    /// An administrator holds what is in force.
    #[serde(default)]
    pub held: Option<Hold>,
    /// Jobs that were announced before they started.
    #[serde(default)]
    pub handoff: Counters,
    /// Why the settings file of now is not in force, or not wholly.
    #[serde(default)]
    pub settings_refused: Option<Failure>,
    /// Why events are not recorded.
    #[serde(default)]
    pub unrecorded: Option<Failure>,
    /// What is wrong with OpenSM, as its plugin says.
    #[serde(default)]
    pub opensm: Vec<Trouble>,
    /// What is wrong where the service runs.
    #[serde(default)]
    pub place: Vec<Trouble>,
    /// What is wrong with what was delivered, by the names of [`super::kind::DELIVERIES`].
    #[serde(flatten, deserialize_with = "delivery::read")]
    #[schemars(schema_with = "delivery::schema")]
    pub deliveries: BTreeMap<String, Option<Trouble>>,
    /// What is served, where it is a direct torus.
    #[serde(default)]
    pub torus: Option<TorusHealth>,
    /// The oldest epoch since OpenSM's last acknowledgement was published then.
    #[serde(default)]
    pub unanswered_since: Option<DateTime<Utc>>,
    /// Nodes that no cable joins with others.
    #[serde(default)]
    pub parted: Option<Trouble>,
    /// Nodes of jobs have been unknown since then.
    #[serde(default)]
    pub unknown_since: Option<DateTime<Utc>>,
    /// The newest change for jobs that was not worth its price.
    #[serde(default)]
    pub not_worth: Option<NotWorth>,
    /// How many were not, since `started`.
    #[serde(default)]
    pub not_worth_count: u64,
    /// Who fetches what is published; null before the first look.
    #[serde(default)]
    pub reader: Option<Reader>,
    /// When the epoch was published that OpenSM has not acknowledged.
    #[serde(default)]
    pub waits_for_opensm: Option<DateTime<Utc>>,
    /// When the service was ended in order.
    #[serde(default)]
    pub ended: Option<DateTime<Utc>>,
}

/// A time, for people.
fn at(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

impl Health {
    /// At the start.
    pub fn new(started: DateTime<Utc>, serving: bool) -> Self {
        Self {
            time: started,
            started,
            pid: std::process::id(),
            serving,
            next_pass: None,
            passes: 0,
            published: 0,
            epoch: None,
            last_success: None,
            failing: None,
            failures_in_row: 0,
            failures: BTreeMap::new(),
            unknown_nodes: Vec::new(),
            waiting_jobs: 0,
            waits_for_lid: false,
            acknowledged: None,
            unacknowledged: None,
            held: None,
            handoff: Counters::default(),
            settings_refused: None,
            unrecorded: None,
            opensm: Vec::new(),
            place: Vec::new(),
            deliveries: delivery::nothing_wrong(),
            torus: None,
            unanswered_since: None,
            parted: None,
            unknown_since: None,
            not_worth: None,
            not_worth_count: 0,
            reader: None,
            waits_for_opensm: None,
            ended: None,
        }
    }

    /// A pass ended well.
    pub fn succeeded(&mut self, time: DateTime<Utc>) {
        self.time = time;
        self.passes += 1;
        self.last_success = Some(time);
        self.failing = None;
        self.failures_in_row = 0;
    }

    /// A pass failed.
    pub fn failed(&mut self, failure: Failure) {
        self.time = failure.time;
        self.failures_in_row += 1;
        *self.failures.entry(failure.stage).or_default() += 1;
        self.failing = Some(failure);
    }

    /// What is wrong, one sentence each: see [`Health::found`].
    pub fn troubles(&self, now: DateTime<Utc>, patience: TimeDelta) -> Vec<String> {
        self.found(now, patience).into_iter().map(|trouble| trouble.text).collect()
    }

    /// What is wrong, most important first; nothing if all is well. A service that has not begun its
    /// next pass `patience` after it was due is said to hang. All that tells how the service is asks this:
    /// `status`, the page, the API, metrics, systemd and the log.
    pub fn found(&self, now: DateTime<Utc>, patience: TimeDelta) -> Vec<Trouble> {
        let mut found = Vec::new();
        let mut add = |kind, since, text: String| found.push(Trouble { kind, since, text });
        if let Some(ended) = self.ended {
            add(
                Kind::Stopped,
                ended,
                format!("the service was ended at {}: nobody looks at jobs and cables", at(ended)),
            );
        }
        if let Some(next) = self.next_pass.filter(|next| self.serving && now - *next > patience) {
            let since = (now - self.time).num_seconds();
            let text = format!("the service (process {}) was last heard of {since} s ago", self.pid);
            add(Kind::Hangs, next, text);
        }
        if let Some(failure) = &self.failing {
            let stage = failure.stage.name();
            let times = self.failures_in_row;
            let (time, message) = (at(failure.time), &failure.message);
            let text = match times {
                1 => format!("{stage} failed at {time}: {message}"),
                _ => format!("{stage} failed {times} times in a row, last at {time}: {message}"),
            };
            add(Kind::Failing, self.last_success.unwrap_or(self.started), text);
        }
        if let Some(failure) = self.missed() {
            add(Kind::Unacknowledged, failure.time, failure.message.clone());
        }
        let is_awaited = |told: &&Trouble| told.kind != Kind::Lagging || !self.is_dry();
        found.extend(self.opensm.iter().filter(is_awaited).cloned());
        found.extend(self.deliveries.values().flatten().chain(&self.place).cloned());
        let mut add = |kind, since, text: String| found.push(Trouble { kind, since, text });
        if let Some(failure) = &self.settings_refused {
            let text = format!("the settings file is not in force: {}", failure.message);
            add(Kind::Settings, failure.time, text);
        }
        if let Some(failure) = &self.unrecorded {
            add(Kind::Unrecorded, failure.time, format!("events are not recorded: {}", failure.message));
        }
        if let Some(since) = self.unknown_since.filter(|_| !self.unknown_nodes.is_empty()) {
            let names: Vec<&str> = self.unknown_nodes.iter().take(5).map(|n| n.as_str()).collect();
            let (more, names) = (self.unknown_nodes.len() - names.len(), names.join(", "));
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let see = self.torus.as_ref().map_or("fabric.node_map", |_| "the description of the torus");
            let text = format!("jobs run on nodes that are not in the fabric: {names}{more}; see {see}");
            add(Kind::UnknownNodes, since, text);
        }
        found.extend(self.parted.iter().cloned());
        found.extend(self.torus.iter().flat_map(|torus| torus.cut.values().cloned()));
        let mut add = |kind, since, text: String| found.push(Trouble { kind, since, text });
        if let Some(hold) = &self.held {
            let by = hold.by.as_deref().map(|by| format!(" ({by})")).unwrap_or_default();
            let text = format!("an administrator{by} holds what is in force: `sarouter resume` ends it");
            add(Kind::Held, hold.since, text);
        }
        found
    }

    /// The acknowledgement that did not come in time; `None` in a dry run, in which none is awaited.
    pub fn missed(&self) -> Option<&Failure> {
        self.unacknowledged.as_ref().filter(|_| !self.is_dry())
    }

    /// Notes nodes of jobs that the network does not have, and keeps since when there are some.
    pub fn note_unknown(&mut self, now: DateTime<Utc>, nodes: Vec<NodeName>) {
        if !nodes.is_empty() && nodes != self.unknown_nodes {
            warn!(nodes = %hostlist::fold(&nodes), "nodes of jobs are not in the fabric");
        }
        let since = self.unknown_since.unwrap_or(now);
        self.unknown_since = (!nodes.is_empty()).then_some(since);
        self.unknown_nodes = nodes;
    }

    /// Notes what OpenSM's plugin says, and keeps since when each of it is so.
    pub fn note_opensm(&mut self, now: DateTime<Utc>, said: Vec<(Kind, String)>) {
        let since = |kind: Kind| self.opensm.iter().find(|t| t.kind == kind).map_or(now, |t| t.since);
        self.opensm =
            said.into_iter().map(|(kind, text)| Trouble { kind, since: since(kind), text }).collect();
    }

    /// Notes what is wrong with the delivery of that name, and keeps since when something is.
    pub fn note_delivery(&mut self, now: DateTime<Utc>, name: &str, kind: Kind, said: Option<String>) {
        let before = self.deliveries.get(name).and_then(Option::as_ref);
        let since = before.map_or(now, |trouble| trouble.since);
        self.deliveries.insert(name.into(), said.map(|text| Trouble { kind, since, text }));
    }

    /// One line for a person: the epoch, and what is wrong.
    pub fn line(&self, now: DateTime<Utc>) -> String {
        let epoch = self.epoch.map_or("no epoch of this process".to_string(), |n| format!("epoch {n}"));
        match &self.troubles(now, PATIENCE)[..] {
            [] => format!("{epoch}, {} passes, all well", self.passes),
            troubles => format!("{epoch}, {}", troubles.join("; ")),
        }
    }
}

impl Stage {
    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jobs => "asking for jobs",
            Self::Fabric => "reading the fabric",
            Self::Store => "reading the epoch in force",
            Self::Route => "routing",
            Self::Verify => "verification",
            Self::Publish => "publication",
            Self::Acknowledge => "OpenSM's acknowledgement",
            Self::Settings => "reading the settings",
            Self::Record => "recording events",
        }
    }
}
