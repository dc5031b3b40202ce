//! What the service of a direct torus shows to those who ask.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::dry_run::Terms;
use super::work::Running;
use crate::model::{JobMap, Torus, Transit};
use crate::pass::plan::Reason;
use crate::publish::EpochNumber;

/// The torus of now, its jobs, their tables. Cheap to make: jobs and routes are shared.
#[derive(Debug, Clone)]
pub struct Direct {
    /// Its nodes and links as they are now.
    pub torus: Arc<Torus>,
    /// Nodes that may forward a job's packets; `None` before the first computation.
    pub transit: Option<Transit>,
    /// Jobs of the newest good look; `None` before the first.
    pub jobs: Option<Arc<JobMap>>,
    /// Jobs that have tables, each with its routes.
    pub running: Running,
    /// The newest change of tables, if there was one.
    pub newest: Option<Newest>,
    /// What a dry run goes by.
    pub terms: Terms,
}

/// The newest change of tables.
#[derive(Debug, Clone)]
pub struct Newest {
    /// Its number.
    pub epoch: EpochNumber,
    /// Time of the change.
    pub time: DateTime<Utc>,
    /// Why new routes were due.
    pub reason: Reason,
    /// Engine of the tables.
    pub engine: String,
    /// Tables before it; `None` if they are not known any more.
    pub before: Option<Running>,
}
