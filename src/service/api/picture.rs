//! What the web page draws: the fabric, the load of its channels, the jobs, the epochs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::against::{self, Against, Compared};
use super::answer::ApiError;
use super::heavy::{Computed, Question};
use super::peer::{Access, Caller};
use super::routes::{Operation, Routes};
use super::served::JobsAnswer;
use super::{Api, Ask, direct, json, submissions};
use crate::measure::{effective_loads, least_load};
use crate::model::{Group, JobId, JobMap, PlacedJob};
use crate::pass::plan::Reason;
use crate::pass::step::View;
use crate::publish::{Act, Epoch, EpochNumber, EpochStore, HistoryRow, Page};
use crate::report::layout::{self, layout};
use crate::service::command::{Command, Seen};
use crate::service::kind::direct::{Direct, TorusBaseline};
use crate::service::zone::Zone;

pub(super) fn read() -> Routes<Api> {
    let told_fabric = Operation::new("/v1/fabric", "Switches and cables, and where to draw them");
    let told_epochs = Operation::new("/v1/epochs", "The newest epochs, ascending, and what was done by hand");
    let told_jobs = Operation::new("/v1/jobs", "What an epoch's tables give each job");
    let told_load = Operation::new("/v1/load", "Routes inside jobs over each channel, now and before");
    Routes::new()
        .get(told_fabric.answers::<FabricAnswer>().refuses(&[429]), fabric)
        .get(told_epochs.query::<Newest>().answers::<EpochsAnswer>().refuses(&[400]), epochs)
        .get(told_jobs.query::<OfEpoch>().answers::<JobsAnswer>().refuses(&[400, 404, 429]), jobs)
        .get(told_load.query::<Asked>().answers::<LoadAnswer>().refuses(&[400, 404, 429]), load)
        .wrapped(|router| router.layer(Extension(Arc::new(Computed::default()))))
}

/// The answer of `GET /v1/fabric`: the fabric of the newest look, and where to draw its switches.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FabricAnswer {
    /// Changes with the fabric.
    pub fingerprint: String,
    /// A direct torus: what is a switch here is a node, and tables belong to jobs.
    pub direct: bool,
    /// What the places follow.
    pub layout: layout::Kind,
    /// Width over height that suits it.
    pub aspect: f64,
    /// Descriptions, by switch.
    pub names: Vec<String>,
    /// Hosts attached, by switch.
    pub hosts: Vec<usize>,
    /// Places in a unit square, y downwards, by switch.
    pub places: Vec<[f64; 2]>,
    /// Pairs of switches, by cable. Cable `i` is channel `2i` from the first to the second, and
    /// channel `2i + 1` back.
    pub cables: Vec<[usize; 2]>,
    /// The ports of both ends, by cable; on a direct torus, directions.
    pub ports: Vec<[String; 2]>,
    /// Cables that close a ring of a torus, ascending.
    pub wraps: Vec<usize>,
}

impl FabricAnswer {
    pub(super) fn of(view: &View) -> Self {
        let fabric = &view.fabric;
        Self {
            fingerprint: fabric.fingerprint().to_string(),
            names: fabric.switches().iter().map(|s| s.description.clone()).collect(),
            hosts: fabric.switch_ids().map(|s| fabric.host_count(s)).collect(),
            cables: fabric.channels().iter().step_by(2).map(|c| [c.from.index(), c.to.index()]).collect(),
            ports: fabric
                .channels()
                .iter()
                .step_by(2)
                .map(|c| [c.from_port, c.to_port].map(|port| port.to_string()))
                .collect(),
            ..Self::drawn(&layout(fabric))
        }
    }

    /// Places, and nothing at them yet.
    pub(super) fn drawn(drawn: &layout::Layout) -> Self {
        let round = |v: f64| (v * 1e5).round() / 1e5;
        Self {
            fingerprint: String::new(),
            direct: false,
            layout: drawn.kind,
            aspect: drawn.aspect,
            names: Vec::new(),
            hosts: Vec::new(),
            places: drawn.places.iter().map(|p| p.map(round)).collect(),
            cables: Vec::new(),
            ports: Vec::new(),
            wraps: (0..drawn.wraps.len()).filter(|i| drawn.wraps[*i]).collect(),
        }
    }
}

/// The answer of `GET /v1/epochs?limit=N&before=EPOCH`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct EpochsAnswer {
    /// The epoch in force.
    pub current: Option<EpochNumber>,
    /// Fingerprint of the fabric of the newest look.
    pub fabric: Option<String>,
    /// The newest, ascending.
    pub epochs: Vec<HistoryRow>,
    /// What administrators did by hand, and who, oldest first.
    pub acts: Vec<Act>,
    /// What could not be read.
    pub notes: Vec<String>,
    /// Whether whoever asks may change something: look, hold, resume, go back.
    pub may_change: bool,
    /// Whether whoever asks is answered by `/v1/submissions`.
    pub sees_users: bool,
    /// The time zone of the service's machine.
    pub zone: Zone,
}

/// The answer of `GET /v1/load?epoch=N&job=ID&against=WHAT`: routes inside the jobs, or inside one of
/// them, over each channel. For the epoch in force, the jobs of the newest look; for another, those it was made for.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct LoadAnswer {
    /// Whose tables are shown.
    pub epoch: EpochNumber,
    /// When it was published.
    pub created: DateTime<Utc>,
    /// Why new routes were due.
    pub reason: Reason,
    /// Name of who made them.
    pub engine: String,
    /// It was made for another fabric than the one of now: channels it does not know carry nothing.
    pub other_fabric: bool,
    /// With the epoch's tables, by channel.
    pub now: Vec<u64>,
    /// With the tables before it, by channel; `None` if there were none or they are gone.
    pub before: Option<Vec<u64>>,
    /// No tables can have a smaller largest load; `None` where it is not known: for one job of a direct torus, and for an
    /// epoch of another fabric.
    pub bound: Option<u64>,
    /// The tables that were chosen to compare with; left out where none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Compared>,
    /// With those, by channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Vec<u64>>,
}

async fn fabric(
    State(api): Ask,
    Extension(computed): Extension<Arc<Computed>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ApiError> {
    let view = match api.seen().await? {
        Seen::Switched(view) => view,
        Seen::Direct(seen) => return api.read(move |_| Ok(json(FabricAnswer::of_torus(&seen.torus)))).await,
    };
    let key = (view.fabric.fingerprint().to_string(), Question::Fabric);
    computed.get(api.clone(), &caller, key, view).await
}

/// Which epochs.
#[derive(Debug, Deserialize, JsonSchema)]
struct Newest {
    /// At most so many; 500 unless told.
    limit: Option<usize>,
    /// Only those before this one.
    before: Option<String>,
}

/// What `GET /v1/jobs` takes, for the document: it reads [`Asked`].
#[derive(JsonSchema)]
struct OfEpoch {
    /// An epoch; that in force unless told.
    #[allow(dead_code)]
    epoch: Option<String>,
    /// Compared with `fabric`, `opensm` or an epoch; see `/v1/load`.
    #[allow(dead_code)]
    against: Option<String>,
}

async fn epochs(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    Query(newest): Query<Newest>,
) -> Result<Response, ApiError> {
    const USUAL: usize = 500;
    const MOST: usize = 10_000;
    let before = newest.before.map(|n| n.parse()).transpose().map_err(|e: String| ApiError::bad(e))?;
    let page = Page { before, limit: Some(newest.limit.unwrap_or(USUAL).min(MOST)) };
    let may_change = caller.access == Access::Write;
    let sees_users = submissions::sees_users(&api, &caller);
    let seen = api.handle.ask(Command::Seen).await?;
    let read = move |api: &Api| {
        let failed = |e| ApiError::failed(&e);
        let history = api.store.history_page(page).map_err(failed)?;
        let current = match &seen {
            Some(Seen::Direct(seen)) => seen.newest.as_ref().map(|newest| newest.epoch),
            _ => api.store.current().map_err(failed)?,
        };
        let fabric = seen.map(|seen| match seen {
            Seen::Switched(view) => view.fabric.fingerprint().to_string(),
            Seen::Direct(seen) => seen.torus.fingerprint().to_string(),
        });
        let acts = api.store.acts().map_err(failed)?;
        let (epochs, notes) = (history.rows, history.notes);
        let zone = Zone::here();
        Ok(json(EpochsAnswer { current, fabric, epochs, acts, notes, may_change, sees_users, zone }))
    };
    api.read(read).await
}

/// What is to be measured.
#[derive(Debug, Deserialize, JsonSchema)]
struct Asked {
    /// An epoch; that in force unless told.
    epoch: Option<String>,
    /// Of this job alone.
    job: Option<String>,
    /// Compared with the tables `before`, which is told always, those before the change of `fabric`, those of
    /// `opensm` (the best of its engines), or those of an epoch.
    against: Option<String>,
}

impl Asked {
    /// The epoch asked for.
    fn number(&self) -> Result<Option<EpochNumber>, ApiError> {
        self.epoch.as_ref().map(|number| number.parse().map_err(|e: String| ApiError::bad(e))).transpose()
    }

    /// The epoch asked for, else the one in force.
    fn epoch(&self, store: &EpochStore) -> Result<Option<EpochNumber>, ApiError> {
        match self.number()? {
            None => store.current().map_err(|e| ApiError::failed(&e)),
            number => Ok(number),
        }
    }
}

pub(super) fn stored(store: &EpochStore, number: EpochNumber) -> Result<Epoch, ApiError> {
    if !store.epoch_path(number).is_dir() {
        return Err(ApiError::missing(format!("there is no epoch {number}, or no longer")));
    }
    store.epoch(number).map_err(|e| ApiError::failed(&e))
}

/// The epoch before, if it is still there.
pub(super) fn before(store: &EpochStore, epoch: &Epoch) -> Option<Epoch> {
    epoch.plan().previous.and_then(|number| store.epoch(number).ok())
}

/// What is told of a direct torus, where there are no tables but those before to compare with.
async fn of_torus<T: Serialize>(
    api: &Api,
    computed: Arc<Computed>,
    seen: Arc<Direct>,
    against: Option<Against>,
    tell: impl FnOnce(&Direct, Option<&TorusBaseline>) -> Result<T, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    direct::only_before(against)?;
    api.read(move |_| Ok(json(tell(&seen, computed.torus.of(&seen).as_deref())?))).await
}

async fn load(
    State(api): Ask,
    Extension(computed): Extension<Arc<Computed>>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<Asked>,
) -> Result<Response, ApiError> {
    let seen = api.seen().await?;
    let job = asked.job.clone().map(JobId::new).transpose().map_err(ApiError::bad)?;
    let against = against::asked(asked.against.as_deref())?;
    let view = match seen {
        Seen::Switched(view) => view,
        Seen::Direct(seen) => {
            let number = asked.number()?;
            let tell = move |seen: &Direct, baseline: Option<&TorusBaseline>| {
                direct::load(seen, number, job.as_ref(), baseline)
            };
            return of_torus(&api, computed, seen, against, tell).await;
        }
    };
    let nothing = || ApiError::missing("nothing is published");
    let epoch = asked.epoch(&api.store)?.ok_or_else(nothing)?;
    // A job's nodes are those of the look, and so are the jobs of the epoch in force.
    let is_of_now = job.is_some() || api.store.current().is_ok_and(|current| current == Some(epoch));
    let look = match is_of_now {
        true => format!("{} {:x}", view.fabric.fingerprint(), jobs_hash(&view.jobs)),
        false => view.fabric.fingerprint().to_string(),
    };
    computed.get(api.clone(), &caller, (look, Question::Load { epoch, job, against }), view).await
}

/// The load under an epoch's tables, of all jobs or of one: those of now for the epoch in force, else its own.
pub(super) fn measured(
    store: &EpochStore,
    view: &View,
    number: EpochNumber,
    job: Option<&JobId>,
    against: Option<Against>,
) -> Result<LoadAnswer, ApiError> {
    let epoch = stored(store, number)?;
    let fabric = &view.fabric;
    let plan = epoch.plan();
    let jobs = jobs_of(view, &epoch, store);
    let are_its_own = jobs_hash(&jobs) == jobs_hash(&plan.jobs);
    let all = match are_its_own {
        true => plan.demand.on(fabric).groups,
        false => multi_switch(view, &jobs),
    };
    let groups = match job {
        None => all.clone(),
        Some(id) => {
            let is_it = |job: &PlacedJob| job.id == *id || job.parts.iter().any(|i| jobs.jobs[*i].id == *id);
            let placed = view.nodes.place(&jobs).jobs.into_iter().find(is_it);
            let missing = || ApiError::missing(format!("there is no job {id} in this epoch"));
            vec![placed.ok_or_else(missing)?.ranks.group()]
        }
    };
    let loads = |epoch: &Epoch| {
        let tables = epoch.tables(fabric).map_err(|e| ApiError::failed(&e))?;
        Ok::<_, ApiError>(effective_loads(fabric, &tables, &groups))
    };
    let other_fabric = plan.fabric != fabric.fingerprint();
    let bound = match job {
        _ if other_fabric => None,
        // That of its own jobs was computed with the epoch.
        None if are_its_own => Some(plan.after.effective.lower_bound),
        _ => Some(least_load(fabric, &groups)),
    };
    let compared = match against {
        Some(against) => {
            let (told, tables) = against::tables(store, &epoch, against, view, &all)?;
            Some((told, effective_loads(fabric, &tables, &groups)))
        }
        None => None,
    };
    let (against, beside) = compared.unzip();
    Ok(LoadAnswer {
        epoch: number,
        created: plan.created,
        reason: plan.reason,
        engine: plan.engine.clone(),
        other_fabric,
        now: loads(&epoch)?,
        before: before(store, &epoch).and_then(|epoch| loads(&epoch).ok()),
        bound,
        against,
        beside,
    })
}

/// Those of now for the epoch in force, else those the epoch was made for.
pub(super) fn jobs_of(view: &View, epoch: &Epoch, store: &EpochStore) -> JobMap {
    match store.current() {
        Ok(Some(current)) if current == epoch.number() => view.jobs.clone(),
        _ => epoch.plan().jobs.clone(),
    }
}

/// Tells jobs on the same nodes from others.
fn jobs_hash(jobs: &JobMap) -> u64 {
    let mut hash = DefaultHasher::new();
    jobs.jobs.iter().for_each(|job| (&job.id, &job.nodes).hash(&mut hash));
    hash.finish()
}

/// Jobs on several switches. O(nodes of jobs).
fn multi_switch(view: &View, jobs: &JobMap) -> Vec<Group> {
    let placed = view.nodes.place(jobs).jobs.into_iter();
    placed.filter(|job| job.ranks.is_multi_switch(&view.fabric)).map(|job| job.ranks.group()).collect()
}

async fn jobs(
    State(api): Ask,
    Extension(computed): Extension<Arc<Computed>>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<Asked>,
) -> Result<Response, ApiError> {
    let against = against::asked(asked.against.as_deref())?;
    let view = match api.seen().await? {
        Seen::Switched(view) => view,
        Seen::Direct(seen) => {
            let number = asked.number()?;
            let tell =
                move |seen: &Direct, baseline: Option<&TorusBaseline>| direct::jobs(seen, number, baseline);
            return of_torus(&api, computed, seen, against, tell).await;
        }
    };
    let epoch = asked.epoch(&api.store)?;
    computed.get(api.clone(), &caller, (name(&view), Question::Jobs { epoch, against }), view).await
}

/// What tells a look from others.
fn name(view: &View) -> String {
    format!("{} {}", view.fabric.fingerprint(), view.jobs.time.to_rfc3339())
}
