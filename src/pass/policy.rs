//! What an administrator decided, as a pass asks for it.

use std::sync::Arc;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use super::worth::Price;
use crate::model::{LayerBudget, Promise, Storage};

/// What an administrator decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Name of the routing engine.
    pub engine: String,
    /// Engines that take its place, in turn, where it makes nothing that may be published.
    pub then: Vec<String>,
    /// Virtual layers the fabric has for us.
    pub budget: LayerBudget,
    /// Jobs younger than this wait: most very short jobs never cause an epoch.
    pub min_job_age: TimeDelta,
    /// All routes inside one job on one layer.
    pub layer_per_job: bool,
    /// What must be proved of every epoch.
    pub promise: Promise,
    /// Storage servers.
    pub storage: Storage,
    /// What a change for jobs alone must be worth.
    pub price: Price,
    /// Where a port's two LIDs have routes of their own: which of them jobs use that run, by [`LidSet::offset`](crate::model::LidSet::offset).
    pub lids_in_use: Option<[bool; 2]>,
    /// Whether hosts that a loss has cut off may wait for the second of two steps, because it follows as soon as OpenSM has
    /// the first one, and nobody else routes until then.
    pub may_wait: bool,
    /// What OpenSM's plugin has changed of the epoch in force.
    pub repair: Option<Arc<Repair>>,
    /// What OpenSM has in the switches, where that is not the newest epoch.
    pub in_switches: Option<InSwitches>,
    /// Engine without jobs that is compared with; `None`: the best of those that everybody has.
    pub baseline: Option<String>,
}

impl Policy {
    /// Every difference is published, whatever it is worth and however young its jobs are; nobody waits, and all LIDs of a
    /// port have the same routes.
    pub fn new(engine: impl Into<String>, budget: LayerBudget, promise: Promise) -> Self {
        Self {
            engine: engine.into(),
            then: Vec::new(),
            budget,
            min_job_age: TimeDelta::zero(),
            layer_per_job: false,
            promise,
            storage: Storage::default(),
            price: Price::NONE,
            lids_in_use: None,
            may_wait: false,
            repair: None,
            in_switches: None,
            baseline: None,
        }
    }

    /// Whether OpenSM's plugin has changed the newest epoch, and not one before it.
    pub fn repairs_newest(&self) -> bool {
        let older = self.in_switches.map(|found| found.epoch);
        self.repair.as_ref().is_some_and(|repair| Some(repair.epoch) != older)
    }
}

/// An epoch other than the newest that OpenSM has in the switches: it has not taken the newest one yet, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InSwitches {
    /// Its number.
    pub epoch: u64,
    /// Whether OpenSM refused the newest one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// Entries of an epoch that OpenSM's plugin has replaced by others, because cables or switches are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// Number of the epoch.
    pub epoch: u64,
    /// Its set of routes, switch and destination, by their numbers in the hand-off, and the port.
    pub entries: Vec<[u32; 4]>,
}
