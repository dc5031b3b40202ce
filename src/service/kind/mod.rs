//! Kinds of network: what is looked at, what is computed and what is delivered. The loop of [`super::run`] and
//! all that is common know a kind by `Kind` alone.

pub mod direct;
pub(super) mod switched;

use std::path::Path;

use chrono::{DateTime, Utc};

pub use self::switched::delivery::{DELIVERIES, DeliveryRow};
use super::command::{Reply, Seen};
use super::handoff::{Outcome, Released};
use super::health::Health;
use super::look::LookError;
use super::record::Standing;
use super::run::{Listener, Service};
use crate::config::{HandOff, Settings};
use crate::model::JobId;
use crate::observe::source::JobSource;
use crate::publish::EpochStore;
use crate::route::RouteError;
use crate::route::angara::TorusRouteError;

/// Why a kind cannot be served with some settings.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// They name an engine that does not exist.
    #[error(transparent)]
    Engine(#[from] RouteError),
    /// They name an engine that does not exist for a direct torus.
    #[error(transparent)]
    TorusEngine(#[from] TorusRouteError),
    /// They name no fabric.
    #[error(transparent)]
    Look(#[from] LookError),
}

/// A kind of network, with what its service remembers.
pub(super) trait Kind: Sized {
    /// What new settings need before anything changes.
    type Ready;
    /// What ends beside the loop.
    type Done;

    /// `jobs` is asked for the jobs.
    fn ready(settings: &Settings, jobs: Box<dyn JobSource>) -> Result<Self::Ready, NotReady>;

    /// At the start: `root` holds the directories of jobs.
    fn new(ready: Self::Ready, settings: &Settings, store: &EpochStore, root: &Path) -> Self;

    /// At the start, when all that is common is there; `before` is the health of the process before this one.
    fn begin(service: &mut Service<Self>, before: Option<&Health>);

    /// Goes by new settings, which are in force.
    fn follow(service: &mut Service<Self>, ready: Self::Ready);

    /// Which jobs wait, and how long.
    fn rules(settings: &Settings) -> HandOff {
        settings.handoff.clone()
    }

    /// For the log: the torus, the engine.
    fn names(settings: &Settings) -> (Option<&str>, Option<&str>);

    /// What a new file of the recording says of what is in force, where that is no epoch.
    fn standing(_: &Service<Self>) -> Option<Standing> {
        None
    }

    /// When something is to be done next.
    fn due(&self) -> Option<DateTime<Utc>>;

    /// Looks not later than this.
    fn look_by(&mut self, time: DateTime<Utc>);

    /// Waits until something ends that runs beside the loop. Can be dropped and called again without losing it.
    async fn finished(&mut self) -> Self::Done;

    /// Whether something of a pass runs beside the loop.
    fn is_busy(&self) -> bool;

    /// Before what woke the loop is handled.
    fn woken(_: &mut Service<Self>) {}

    /// Somebody wants a look now.
    fn look(service: &mut Service<Self>);

    /// Time has passed.
    fn tick(_: &mut Service<Self>) {}

    /// Something has ended beside the loop.
    fn done(service: &mut Service<Self>, done: Self::Done, listener: Listener<'_>);

    /// After what woke the loop: begins what is due.
    fn attend(service: &mut Service<Self>);

    /// A job may start: tells it what it needs to know, and those who wait for it.
    fn start(service: &mut Service<Self>, released: Released, replies: Vec<Reply<Outcome>>);

    /// An epilog says that a job is over.
    fn ended(service: &mut Service<Self>, job: JobId);

    /// For those who ask.
    fn seen(service: &Service<Self>) -> Option<Seen>;

    /// Looks at what may be wrong outside. Files are few and small.
    fn look_around(service: &mut Service<Self>);

    /// Gives what runs beside the loop the time of the settings.
    async fn end(service: &mut Service<Self>, listener: Listener<'_>);
}
