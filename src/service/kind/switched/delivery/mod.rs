//! How an epoch gets from the disk to those who forward: a file for each way, and its row in the table.
//!
//! OpenSM's plugin and the nodes of a direct torus are rows without a [`Delivery`]. The plugin fetches `current` by
//! itself, so nothing is begun here. What ends is its answer. Jobs that wait, the second step of an update and the
//! choice of a LID go by that, so the loop itself has to know it. A torus has no epoch for all jobs: its tables are
//! written, and jobs let go, one job at a time.

mod lft_file;
mod opensm;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use chrono::{DateTime, Utc};

use crate::config::Settings;
use crate::model::Fabric;
use crate::publish::EpochStore;
use crate::service::health::{Health, Kind};
use crate::service::kind::direct;

/// A way of delivery. Its row stands in the file that does it.
pub struct DeliveryRow {
    /// Its name, also in `health.json` if it is begun by the service.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// The setting that switches it on.
    pub setting: &'static str,
    /// Whether the settings switch it on.
    pub is_on: fn(&Settings) -> bool,
    /// What the service does for it, if anything, and the trouble that it may have.
    pub(in crate::service) begun: Option<(Make, Kind)>,
}

type Make = fn() -> Box<dyn Delivery>;

/// All ways of delivery.
pub const DELIVERIES: &[DeliveryRow] = &[opensm::DELIVERY, lft_file::DELIVERY, NODES];

/// Each node forwards by the tables of its own job.
const NODES: DeliveryRow = DeliveryRow {
    name: "nodes",
    what: "direct torus: the job's directory with a table for each node, which the Slurm plugin fetches",
    setting: "fabric.source",
    is_on: |settings| direct::source(settings).is_some(),
    begun: None,
};

/// A way of delivery that the service begins. It remembers what it has delivered, and of which settings.
pub(in crate::service) trait Delivery: Send {
    /// Begins to deliver what is in force, unless the settings do not want it or it was delivered. One that failed
    /// is tried again. Never called while [`Delivery::is_busy`].
    fn begin(&mut self, settings: &Settings, store: &EpochStore, fabric: &Arc<Fabric>);

    /// Whether a delivery is under way beside the loop.
    fn is_busy(&self) -> bool;

    /// Ready when one has ended and is taken in; pending for ever if none is under way.
    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// What is wrong with what was delivered, in a sentence. Never called while [`Delivery::is_busy`].
    fn trouble(&self, settings: &Settings, store: &EpochStore) -> Option<String>;
}

/// The deliveries that the service of a fabric begins.
pub(super) struct Deliveries {
    /// As last seen.
    pub(super) fabric: Option<Arc<Fabric>>,
    all: Vec<(&'static DeliveryRow, Kind, Box<dyn Delivery>)>,
}

impl Deliveries {
    pub(super) fn new() -> Self {
        let all = DELIVERIES.iter().filter_map(|row| row.begun.map(|(make, kind)| (row, kind, make())));
        Self { fabric: None, all: all.collect() }
    }

    /// Begins to deliver what is in force.
    pub(super) fn begin(&mut self, settings: &Settings, store: &EpochStore) {
        let Some(fabric) = &self.fabric else { return };
        let idle = self.all.iter_mut().filter(|(.., delivery)| !delivery.is_busy());
        idle.for_each(|(.., delivery)| delivery.begin(settings, store, fabric));
    }

    pub(super) fn is_busy(&self) -> bool {
        self.all.iter().any(|(.., delivery)| delivery.is_busy())
    }

    /// Waits until one has ended; for ever if none is under way. Can be dropped and called again.
    pub(super) async fn ended(&mut self) {
        poll_fn(|context| {
            let mut polled = self.all.iter_mut().map(|(.., delivery)| delivery.poll_ended(context));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await;
    }

    /// Looks whether all is as it was delivered; what is under way has its time.
    pub(super) fn look(
        &self,
        now: DateTime<Utc>,
        settings: &Settings,
        store: &EpochStore,
        health: &mut Health,
    ) {
        for (row, kind, delivery) in self.all.iter().filter(|(.., delivery)| !delivery.is_busy()) {
            health.note_delivery(now, row.name, *kind, delivery.trouble(settings, store));
        }
    }
}
