//! Switches: looks at jobs and fabric, one epoch for all jobs, OpenSM or a file that brings it to the switches.

pub(in crate::service) mod delivery;
mod events;
mod files;
mod outcome;

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::JoinHandle;
use tracing::warn;

use self::delivery::Deliveries;
use self::files::{InForce, JobFiles};
use super::{Kind, NotReady};
use crate::config::Settings;
use crate::model::{Fingerprint, JobId};
use crate::observe::source::JobSource;
use crate::pass::step::{Event, Step};
use crate::publish::EpochStore;
use crate::route::{self, EngineOptions};
use crate::service::clock::steady;
use crate::service::command::{Reply, Seen};
use crate::service::handoff::{Outcome, Released};
use crate::service::health::{Acknowledged, Failure, Health};
use crate::service::lids::Lids;
use crate::service::look::{LookError, Looker, Sight};
use crate::service::pass::{PassError, Passed, Remembered};
use crate::service::record::Made;
use crate::service::run::reload::rhythm;
use crate::service::run::{Listener, Service, Task, finished};

type Acknowledgement = Result<Acknowledged, Failure>;

/// What the service of a switched fabric remembers.
pub(in crate::service) struct SwitchedKind {
    step: Step,
    /// The epoch behind the next event, for the recording.
    made: Option<Made>,
    /// Its figures, for the history.
    figures: Option<outcome::EpochFigures>,
    /// The writer of the history.
    remembering: Option<JoinHandle<()>>,
    /// Not here while it looks.
    looker: Option<Looker>,
    /// For new settings: takes the place of one that looks.
    next_looker: Option<Looker>,
    looking: Option<Task<(Looker, Result<Sight, LookError>)>>,
    routing: Option<Task<Result<Passed, PassError>>>,
    acknowledging: Option<Task<Acknowledgement>>,
    deliveries: Deliveries,
    /// The look behind the decision.
    sight: Option<Sight>,
    /// The fabric of an epoch that is the first of two steps, until the second is made.
    halfway: Option<Fingerprint>,
    /// The epoch in force, and when it came into force on the disk.
    published: Option<(u64, DateTime<Utc>)>,
    /// What jobs are told of the epoch in force.
    in_force: Option<Arc<InForce>>,
    /// What is in force, for the next pass.
    remembered: Option<Remembered>,
    /// Which of a port's two LIDs jobs use.
    lids: Lids,
    files: JobFiles,
}

/// What ended beside the loop.
pub(in crate::service) enum Done {
    Looked(Box<(Looker, Result<Sight, LookError>)>),
    Routed(Box<Result<Passed, PassError>>),
    Answered(Acknowledgement),
    Delivered,
}

impl Kind for SwitchedKind {
    type Ready = Looker;
    type Done = Done;

    fn ready(settings: &Settings, jobs: Box<dyn JobSource>) -> Result<Looker, NotReady> {
        for engine in settings.routing.engines() {
            route::engine(engine, &EngineOptions::default())?;
        }
        Ok(Looker::new(settings.clone())?.with_jobs(jobs))
    }

    fn new(looker: Looker, settings: &Settings, _: &EpochStore, root: &Path) -> Self {
        Self {
            step: Step::new(rhythm(settings), steady()),
            made: None,
            figures: None,
            remembering: None,
            looker: Some(looker),
            next_looker: None,
            looking: None,
            routing: None,
            acknowledging: None,
            deliveries: Deliveries::new(),
            sight: None,
            halfway: None,
            published: None,
            in_force: None,
            remembered: None,
            lids: Lids::load(root),
            files: JobFiles::new(root.to_path_buf()),
        }
    }

    fn begin(service: &mut Service<Self>, _: Option<&Health>) {
        service.waiting.remember_traffic(&service.jobs_root);
    }

    fn follow(service: &mut Service<Self>, looker: Looker) {
        let kind = &mut service.kind;
        match kind.looker {
            Some(_) => kind.looker = Some(looker),
            None => kind.next_looker = Some(looker),
        }
        kind.step.resume(rhythm(&service.settings));
    }

    fn names(settings: &Settings) -> (Option<&str>, Option<&str>) {
        (None, Some(&settings.routing.engine))
    }

    fn due(&self) -> Option<DateTime<Utc>> {
        self.step.due()
    }

    fn look_by(&mut self, time: DateTime<Utc>) {
        self.step.look_by(time);
    }

    async fn finished(&mut self) -> Done {
        tokio::select! {
            biased;
            answer = finished(&mut self.acknowledging) => Done::Answered(answer),
            looked = finished(&mut self.looking) => Done::Looked(Box::new(looked)),
            result = finished(&mut self.routing) => Done::Routed(Box::new(result)),
            () = self.deliveries.ended() => Done::Delivered,
        }
    }

    fn is_busy(&self) -> bool {
        self.looking.is_some()
            || self.routing.is_some()
            || self.acknowledging.is_some()
            || self.deliveries.is_busy()
    }

    fn look(service: &mut Service<Self>) {
        service.event(Event::Asked);
    }

    fn tick(service: &mut Service<Self>) {
        service.event(Event::Tick);
    }

    fn done(service: &mut Service<Self>, done: Done, listener: Listener<'_>) {
        match done {
            Done::Answered(answer) => service.answered(answer, listener),
            Done::Delivered => service.write_health(),
            Done::Looked(looked) => service.came(*looked, listener),
            Done::Routed(result) => {
                let event = service.routed(*result, listener);
                service.event(event);
            }
        }
    }

    fn attend(service: &mut Service<Self>) {
        let now = steady();
        if service.kind.step.due().is_some() && service.waiting.handoff.wants_look(now) {
            let action = service.step(now, Event::Asked);
            service.act(action);
        }
    }

    fn start(service: &mut Service<Self>, released: Released, replies: Vec<Reply<Outcome>>) {
        let lids = service.lids_for(&released);
        let in_force = service.kind.in_force.clone();
        service.kind.files.start(released.start, released.outcome, in_force, lids, replies);
    }

    fn ended(service: &mut Service<Self>, job: JobId) {
        service.kind.lids.ended(&job);
        service.kind.files.end(job);
    }

    fn seen(service: &Service<Self>) -> Option<Seen> {
        service.kind.sight.as_ref().map(|sight| Seen::Switched(Arc::clone(&sight.view)))
    }

    fn look_around(service: &mut Service<Self>) {
        service.look_outside();
    }

    /// Kills a running `squeue`, gives a computation the time of the settings.
    async fn end(service: &mut Service<Self>, listener: Listener<'_>) {
        service.kind.looking = None;
        if service.kind.routing.is_some() {
            let bound = service.settings.service.stop_deadline;
            match tokio::time::timeout(bound, finished(&mut service.kind.routing)).await {
                Ok(result) => drop(service.routed(result, listener)),
                Err(_) => warn!("a computation is abandoned"),
            }
        }
    }
}
