//! One epoch, its tables by switch, and the looks of the past.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::direct::ChangeAnswer;
use super::heavy::Question;
use super::peer::Caller;
use super::routes::{Operation, Routes};
use super::{Api, Ask, direct, json, written};
use crate::model::{Fabric, Guid, Tables};
use crate::pass::step::View;
use crate::publish::{Epoch, EpochNumber, EpochStore, Page, PlanRecord, Snapshot, StoreError};
use crate::report::Report;
use crate::service::command::{Command, Seen};
use crate::service::kind::direct::Direct;

pub(super) fn read() -> Routes<Api> {
    let told_one =
        Operation::new("/v1/epochs/{epoch}", "An epoch: plan.json and report.json; a change of a torus");
    let what = "Port and layer of a switch for each destination";
    let told_table = Operation::new("/v1/epochs/{epoch}/switches/{guid}", what);
    let told_looks = Operation::new("/v1/snapshots", "A line for each good look, oldest first");
    Routes::new()
        .get(told_one.answers::<EpochAnswer<'_>>().answers::<ChangeAnswer>().refuses(&[400, 404]), one)
        .get(told_table.answers::<SwitchAnswer>().refuses(&[400, 404, 429]), switch_table)
        .get(told_looks.query::<Range>().answers::<SnapshotsAnswer>().refuses(&[400]), snapshots)
}

/// An epoch.
#[derive(Debug, Serialize, JsonSchema)]
struct EpochAnswer<'a> {
    /// Whether it is the current one.
    in_force: bool,
    /// What was decided, and for whom.
    plan: &'a PlanRecord,
    /// What it is worth.
    report: &'a Report,
}

/// Looks of the past.
#[derive(Debug, Serialize, JsonSchema)]
struct SnapshotsAnswer {
    /// Oldest first.
    snapshots: Vec<Snapshot>,
}

/// The table of a switch.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SwitchAnswer {
    /// Of which epoch.
    epoch: EpochNumber,
    /// The switch.
    guid: Guid,
    /// What it is called.
    description: String,
    /// What the four of each entry are.
    columns: [&'static str; 4],
    /// GUID and LID of each destination, port (null: none) and layer (null: none).
    entries: Vec<(Guid, u16, Option<u8>, Option<u8>)>,
}

/// The epoch that a path names: a number, or `current`.
pub(super) fn number(api: &Api, name: &str) -> Result<EpochNumber, ApiError> {
    match name {
        "current" => match api.store.current() {
            Ok(Some(number)) => Ok(number),
            Ok(None) => Err(ApiError::missing("no epoch has been published")),
            Err(error) => Err(ApiError::failed(&error)),
        },
        name => name.parse().map_err(ApiError::bad),
    }
}

pub(super) fn epoch(store: &EpochStore, number: EpochNumber) -> Result<Epoch, ApiError> {
    store.epoch(number).map_err(|error| match error {
        StoreError::NoSuchEpoch { .. } => ApiError::missing(&error),
        error => ApiError::failed(&error),
    })
}

#[derive(Deserialize, JsonSchema)]
struct Range {
    /// At most so many, the newest; 1,000 unless told.
    last: Option<usize>,
}

/// Looks, oldest first: the 1,000 newest unless told.
async fn snapshots(State(api): Ask, Query(range): Query<Range>) -> Result<Response, ApiError> {
    const USUAL: usize = 1000;
    const MOST: usize = 100_000;
    let last = range.last.unwrap_or(USUAL).min(MOST);
    let read = move |api: &Api| {
        let snapshots = api.store.snapshots(last).map_err(|e| ApiError::failed(&e))?;
        // Written here, beside whoever else is served: there may be many.
        Ok(json(SnapshotsAnswer { snapshots }))
    };
    api.read(read).await
}

async fn one(State(api): Ask, Path(name): Path<String>) -> Result<Response, ApiError> {
    if let Some(Seen::Direct(seen)) = api.handle.ask(Command::Seen).await? {
        return change(&api, &name, seen).await;
    }
    let number = number(&api, &name)?;
    let read = move |api: &Api| {
        let epoch = epoch(&api.store, number)?;
        let in_force = api.store.current().is_ok_and(|current| current == Some(number));
        Ok(json(EpochAnswer { in_force, plan: epoch.plan(), report: epoch.report() }))
    };
    api.read(read).await
}

/// A change of a direct torus's tables: a number, or `current`.
async fn change(api: &Api, name: &str, seen: Arc<Direct>) -> Result<Response, ApiError> {
    let number = match (name, &seen.newest) {
        ("current", None) => return Err(ApiError::missing("no job has got tables yet")),
        ("current", Some(newest)) => newest.epoch,
        (name, _) => name.parse().map_err(ApiError::bad)?,
    };
    let page = Page { before: Some(EpochNumber::after(Some(number))), limit: Some(1) };
    api.read(move |api| {
        let history = api.store.history_page(page).map_err(|e| ApiError::failed(&e))?;
        Ok(json(direct::change(&history.rows, number, &seen)?))
    })
    .await
}

/// The view of now, whose fabric must be the one that the epoch was made for.
fn same_fabric(view: &View, epoch: &Epoch) -> Result<(), ApiError> {
    if epoch.plan().fabric == view.fabric.fingerprint() {
        return Ok(());
    }
    Err(ApiError::missing(format!("epoch {} was made for another fabric than that of now", epoch.number())))
}

fn tables(epoch: &Epoch, fabric: &Fabric) -> Result<Tables, ApiError> {
    epoch.tables(fabric).map_err(|e| ApiError::failed(&e))
}

async fn switch_table(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    Path((name, guid)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let Seen::Switched(view) = api.seen().await? else {
        let instead = "a direct torus has no switches: see /v1/jobs/ID/nodes/NODE/table";
        return Err(ApiError::missing(instead));
    };
    let epoch = number(&api, &name)?;
    let guid = guid.parse().map_err(ApiError::bad)?;
    let _place = api.places.enter(&caller).await?;
    Ok(written(api.heavy(Question::Switch { epoch, guid }, Seen::Switched(view), Bytes::new()).await?))
}

/// Port and layer of a switch for each destination.
pub(super) fn entries(
    store: &EpochStore,
    view: &View,
    number: EpochNumber,
    guid: Guid,
) -> Result<SwitchAnswer, ApiError> {
    let found = view.fabric.switch_by_guid(guid);
    let switch = found.ok_or_else(|| ApiError::missing(format!("no switch has GUID {guid}")))?;
    let epoch = epoch(store, number)?;
    same_fabric(view, &epoch)?;
    let (fabric, tables) = (&view.fabric, tables(&epoch, &view.fabric)?);
    let entries = fabric
        .dest_ids()
        .map(|d| {
            let port = tables.port(switch, d).map(|p| p.get());
            let layer = tables.layer(switch, d).map(|l| l.get());
            (fabric.dest_guid(d), fabric.lid(d).get(), port, layer)
        })
        .collect();
    let description = fabric.switch(switch).description.clone();
    let columns = ["guid", "lid", "port", "layer"];
    Ok(SwitchAnswer { epoch: number, guid, description, columns, entries })
}
