//! One epoch, its tables by switch, and the looks of the past.

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;

use super::answer::ApiError;
use super::{Api, Ask, json};
use crate::model::{Fabric, Guid, Tables};
use crate::pass::step::View;
use crate::publish::{Epoch, EpochNumber, StoreError};

pub(super) fn read() -> Router<Api> {
    Router::new()
        .route("/v1/epochs/{epoch}", get(one))
        .route("/v1/epochs/{epoch}/switches/{guid}", get(switch_table))
        .route("/v1/snapshots", get(snapshots))
}

/// The epoch that a path names: a number, or `current`.
fn number(api: &Api, name: &str) -> Result<EpochNumber, ApiError> {
    match name {
        "current" => match api.store.current() {
            Ok(Some(number)) => Ok(number),
            Ok(None) => Err(ApiError::missing("no epoch has been published")),
            Err(error) => Err(ApiError::failed(&error)),
        },
        name => name.parse().map_err(ApiError::bad),
    }
}

fn epoch(api: &Api, number: EpochNumber) -> Result<Epoch, ApiError> {
    api.store.epoch(number).map_err(|error| match error {
        StoreError::NoSuchEpoch { .. } => ApiError::missing(&error),
        error => ApiError::failed(&error),
    })
}

#[derive(Deserialize)]
struct Range {
    /// At most so many, the newest.
    last: Option<usize>,
}

/// Looks, oldest first: the 1,000 newest unless told.
async fn snapshots(State(api): Ask, Query(range): Query<Range>) -> Result<Response, ApiError> {
    const USUAL: usize = 1000;
    let last = range.last.unwrap_or(USUAL);
    api.clone()
        .work(move || {
            let found = api.store.snapshots(last).map_err(|e| ApiError::failed(&e))?;
            Ok(json(json!({ "snapshots": found })))
        })
        .await
}

async fn one(State(api): Ask, Path(name): Path<String>) -> Result<Response, ApiError> {
    let number = number(&api, &name)?;
    api.clone()
        .work(move || {
            let epoch = epoch(&api, number)?;
            let in_force = api.store.current().is_ok_and(|current| current == Some(number));
            Ok(json(json!({ "in_force": in_force, "plan": epoch.plan(), "report": epoch.report() })))
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
    Path((name, guid)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let number = number(&api, &name)?;
    let view = api.view().await?;
    api.clone()
        .work(move || {
            let guid: Guid = guid.parse().map_err(ApiError::bad)?;
            let found = view.fabric.switch_by_guid(guid);
            let switch = found.ok_or_else(|| ApiError::missing(format!("no switch has GUID {guid}")))?;
            let epoch = epoch(&api, number)?;
            same_fabric(&view, &epoch)?;
            let (fabric, tables) = (&view.fabric, tables(&epoch, &view.fabric)?);
            let entries: Vec<_> = fabric
                .dest_ids()
                .map(|d| {
                    let port = tables.port(switch, d).map(|p| p.get());
                    let layer = tables.layer(switch, d).map(|l| l.get());
                    (fabric.dest_guid(d), fabric.lid(d).get(), port, layer)
                })
                .collect();
            let description = &fabric.switch(switch).description;
            Ok(json(json!({
                "epoch": number, "guid": guid, "description": description,
                "columns": ["guid", "lid", "port", "layer"], "entries": entries,
            })))
        })
        .await
}
