//! What stands in a recording, line by line.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::direct::{SiteText, StartLine};
use crate::model::{
    Fabric, FabricDifference, Guid, Job, JobId, LayerBudget, NodeName, Promise, Rails, Storage, TerminalId,
};
use crate::observe::ibnetdiscover::to_ibnetdiscover;
use crate::pass::plan::{InSwitches, Policy, Repair};
use crate::pass::step::View;
use crate::pass::worth::Price;
use crate::publish::{EpochNumber, EpochStore};
use crate::report::{Compute, Report};

/// An epoch that was made, with what came from the clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Its number.
    pub epoch: EpochNumber,
    /// What was in force before.
    pub previous: Option<EpochNumber>,
    /// When it was made.
    pub created: DateTime<Utc>,
    /// What it cost.
    pub compute: Compute,
    /// What it says that is other in the fabric: names of what is gone came from outside, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<FabricDifference>,
    /// SHA-256 of its `SHA256SUMS`, and so of all its files.
    pub digest: String,
}

/// What an administrator decided, by GUID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLine {
    engine: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    then: Vec<String>,
    layers: LayerBudget,
    min_job_age_ms: i64,
    layer_per_job: bool,
    #[serde(default = "Promise::told")]
    promise: Promise,
    pub(super) storage: Vec<Guid>,
    /// Of reads and writes; left out where both are 1.
    #[serde(default = "Storage::even", skip_serializing_if = "Storage::is_even")]
    storage_weights: [u32; 2],
    /// See [`crate::model::NodeMap::rails`]; left out where all adapters exchange.
    #[serde(default, skip_serializing_if = "is_all")]
    pub(super) rails: Rails,
    #[serde(default)]
    min_gain_ms: i64,
    #[serde(default)]
    min_pause_ms: i64,
    #[serde(default)]
    communication_percent: u8,
    #[serde(default)]
    epochs_per_day: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lids_in_use: Option<[bool; 2]>,
    #[serde(default, skip_serializing_if = "is_false")]
    may_wait: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repair: Option<Repair>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) in_switches: Option<InSwitches>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    baseline: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_all(rails: &Rails) -> bool {
    *rails == Rails::All
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Line {
    /// A process or a file begins, or settings changed: nothing before it is remembered.
    Begin {
        /// Version of the lines.
        format: u32,
        /// Time of the event.
        time: DateTime<Utc>,
        /// The pause between looks, milliseconds.
        interval_ms: i64,
        /// The longest pause, milliseconds.
        backoff_max_ms: i64,
        /// Whether this is only a new file: the memory of what is in force goes on.
        goes_on: bool,
        /// What is in force.
        in_force: Option<Made>,
    },
    /// The fabric is another than before.
    Fabric {
        /// As `ibnetdiscover` prints it.
        text: String,
        /// Port GUIDs of each node.
        nodes: BTreeMap<NodeName, Vec<Guid>>,
    },
    /// The policy is another than before.
    Policy(PolicyLine),
    /// A look succeeded.
    Seen {
        /// When it was handled.
        time: DateTime<Utc>,
        /// When the jobs were asked for.
        snapshot: DateTime<Utc>,
        /// Whether `jobs` are all; otherwise those that are new or different.
        whole: bool,
        /// Jobs.
        jobs: Vec<Job>,
        /// Jobs that are gone.
        ended: Vec<JobId>,
    },
    /// Routes were computed; `made` is the epoch if one was due.
    InForce {
        /// Time of the event.
        time: DateTime<Utc>,
        /// The epoch.
        made: Option<Made>,
    },
    /// The computation failed.
    RouteFailed {
        /// Time of the event.
        time: DateTime<Utc>,
    },
    /// A look failed.
    LookFailed {
        /// Time of the event.
        time: DateTime<Utc>,
    },
    /// An administrator holds what is in force.
    Held {
        /// Time of the event.
        time: DateTime<Utc>,
    },
    /// What is in force is another epoch than was put there.
    Replaced {
        /// Time of the event.
        time: DateTime<Utc>,
    },
    /// Somebody wants a look.
    Asked {
        /// Time of the event.
        time: DateTime<Utc>,
    },
    /// Time for a look.
    Tick {
        /// Time of the event.
        time: DateTime<Utc>,
    },
    /// On a direct torus, what a file or process begins with.
    Standing {
        /// The torus.
        site: SiteText,
        /// Jobs that have tables, with the digest of each job's directory.
        jobs: BTreeMap<JobId, String>,
    },
    /// On a direct torus, tables are computed.
    Compute {
        /// Time of the event.
        time: DateTime<Utc>,
        /// Engines, tried in turn.
        engines: Vec<String>,
        /// Jobs that start; nobody does where links may have failed.
        starts: Vec<StartLine>,
    },
    /// A computation read a torus that is another than before.
    Torus {
        /// A spec, or the content of a description.
        text: String,
    },
    /// A computation came to its end, and tables were written.
    Tables {
        /// Time of the event.
        time: DateTime<Utc>,
        /// How often engines had asked whether to go on when they were not to; null if they came to their end.
        searched: Option<u32>,
        /// Jobs whose tables were written, with the digest of each job's directory.
        made: BTreeMap<JobId, String>,
    },
    /// Jobs with tables are over.
    Over {
        /// Time of the event.
        time: DateTime<Utc>,
        /// The jobs.
        jobs: Vec<JobId>,
    },
}

impl Line {
    /// The fabric of a look.
    pub(super) fn fabric(view: &View) -> Self {
        let names = view.nodes.names();
        let nodes = names.map(|n| (n.clone(), guids(view, view.nodes.terminals(n)))).collect();
        Self::Fabric { text: to_ibnetdiscover(&view.fabric), nodes }
    }
}

impl Made {
    /// Of a stored epoch; `None` if it cannot be read.
    pub fn of(store: &EpochStore, epoch: EpochNumber) -> Option<Self> {
        #[derive(Deserialize)]
        struct Plan {
            created: DateTime<Utc>,
            previous: Option<EpochNumber>,
            difference: Option<FabricDifference>,
        }
        let directory = store.epoch_path(epoch);
        let plan: Plan = serde_json::from_slice(&fs::read(directory.join("plan.json")).ok()?).ok()?;
        let report: Report = serde_json::from_slice(&fs::read(directory.join("report.json")).ok()?).ok()?;
        let sums = fs::read(directory.join("SHA256SUMS")).ok()?;
        let digest = Sha256::digest(sums).iter().map(|b| format!("{b:02x}")).collect();
        let Plan { created, previous, difference } = plan;
        Some(Self { epoch, previous, created, compute: report.compute, difference, digest })
    }

    /// Of the epoch in force.
    pub fn current(store: &EpochStore) -> Option<Self> {
        Self::of(store, store.current().ok()??)
    }
}

fn guids(view: &View, terminals: &[TerminalId]) -> Vec<Guid> {
    terminals.iter().map(|t| view.fabric.terminal(*t).port_guid).collect()
}

impl PolicyLine {
    pub(super) fn of(view: &View) -> Self {
        // Named one by one: a new field must not be forgotten here.
        let Policy {
            engine,
            then,
            budget,
            min_job_age,
            layer_per_job,
            promise,
            storage,
            price,
            lids_in_use,
            may_wait,
            repair,
            in_switches,
            baseline,
        } = &view.policy;
        Self {
            engine: engine.clone(),
            then: then.clone(),
            layers: *budget,
            min_job_age_ms: min_job_age.num_milliseconds(),
            layer_per_job: *layer_per_job,
            promise: *promise,
            storage: guids(view, &storage.servers),
            storage_weights: [storage.reads, storage.writes],
            rails: view.nodes.rails(),
            min_gain_ms: price.min_gain.num_milliseconds(),
            min_pause_ms: price.min_pause.num_milliseconds(),
            communication_percent: price.communication,
            epochs_per_day: price.epochs_per_day,
            lids_in_use: *lids_in_use,
            may_wait: *may_wait,
            repair: repair.as_deref().cloned(),
            in_switches: *in_switches,
            baseline: baseline.clone(),
        }
    }

    /// What was decided, on the fabric of the recording.
    pub(super) fn on(self, fabric: &Fabric) -> Policy {
        let milliseconds = |ms| TimeDelta::try_milliseconds(ms).unwrap_or(TimeDelta::MAX);
        Policy {
            engine: self.engine,
            then: self.then,
            budget: self.layers,
            min_job_age: milliseconds(self.min_job_age_ms),
            layer_per_job: self.layer_per_job,
            promise: self.promise,
            storage: Storage::new(terminals(fabric, &self.storage))
                .weighing(self.storage_weights[0], self.storage_weights[1]),
            price: Price {
                min_gain: milliseconds(self.min_gain_ms),
                min_pause: milliseconds(self.min_pause_ms),
                communication: self.communication_percent,
                epochs_per_day: self.epochs_per_day,
            },
            lids_in_use: self.lids_in_use,
            may_wait: self.may_wait,
            repair: self.repair.clone().map(Arc::new),
            in_switches: self.in_switches,
            baseline: self.baseline,
        }
    }
}

/// The terminals with these port GUIDs; those that the fabric does not have are left out.
pub(super) fn terminals(fabric: &Fabric, guids: &[Guid]) -> Vec<TerminalId> {
    let find = |g: &Guid| fabric.terminals().binary_search_by_key(g, |t| t.port_guid).ok();
    guids.iter().filter_map(find).map(TerminalId::at).collect()
}
