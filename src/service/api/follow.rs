//! The epochs as files, for a standby: see [`crate::service::follow`].

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::epochs::number;
use super::routes::{Operation, Routes};
use super::{Api, Ask, json};
use crate::publish::{EpochFile, EpochNumber, Hold, Identity, StoreError};
use crate::service::command::{Command, Seen};

/// Bytes of one answer with a part of a file.
pub const PART: u64 = 8 << 20;

pub(super) fn read() -> Routes<Api> {
    let told_follow = Operation::new("/v1/follow", "What a standby should have in force");
    let what = "The files of an epoch: names, lengths, checksums";
    let told_files = Operation::new("/v1/epochs/{epoch}/files", what);
    let what = "A file from a byte on, 8 MiB at most";
    let told_part = Operation::new("/v1/epochs/{epoch}/files/{name}", what).query::<From>();
    Routes::new()
        .get(told_follow.answers::<Followed>().refuses(&[404]), followed)
        .get(told_files.answers::<EpochFiles>().refuses(&[400, 404]), files)
        .get(told_part.answers_as("application/octet-stream").refuses(&[400, 404]), part)
}

/// What a standby should have in force.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Followed {
    /// Who publishes.
    pub service: Identity,
    /// The epoch in force; `None` before the first.
    pub current: Option<EpochNumber>,
    /// The newest that is stored; not that in force after a rollback.
    pub newest: Option<EpochNumber>,
    /// An administrator's hold.
    pub hold: Option<Hold>,
}

/// The files of an epoch.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct EpochFiles {
    /// Which epoch.
    pub epoch: EpochNumber,
    /// Names and lengths, the checksums last.
    pub files: Vec<EpochFile>,
    /// `SHA256SUMS`: equal for equal epochs.
    pub sums: String,
}

/// A direct torus has no epochs to copy.
async fn switched(api: &Api) -> Result<(), ApiError> {
    match api.handle.ask(Command::Seen).await? {
        Some(Seen::Direct(_)) => Err(ApiError::missing(
            "on a direct torus tables belong to jobs and are on their nodes: there is nothing to follow",
        )),
        _ => Ok(()),
    }
}

fn failed(error: StoreError) -> ApiError {
    match error {
        StoreError::NoSuchEpoch { .. } => ApiError::missing(&error),
        error => ApiError::failed(&error),
    }
}

async fn followed(State(api): Ask) -> Result<Response, ApiError> {
    switched(&api).await?;
    let read = |api: &Api| {
        let store = &api.store;
        let service = store.identity().map_err(failed)?;
        let service = service.ok_or_else(|| ApiError::missing("the state directory has no service.id"))?;
        let current = store.current().map_err(failed)?;
        let newest = store.epochs().map_err(failed)?.last().copied();
        Ok(json(Followed { service, current, newest, hold: store.hold().map_err(failed)? }))
    };
    api.read(read).await
}

async fn files(State(api): Ask, Path(name): Path<String>) -> Result<Response, ApiError> {
    switched(&api).await?;
    let epoch = number(&api, &name)?;
    let read = move |api: &Api| {
        let files = api.store.files(epoch).map_err(failed)?;
        let gone = || ApiError::missing(format!("epoch {epoch} is gone"));
        let sums = api.store.sums(epoch).map_err(failed)?.ok_or_else(gone)?;
        Ok(json(EpochFiles { epoch, files, sums }))
    };
    api.read(read).await
}

#[derive(Deserialize, JsonSchema)]
struct From {
    /// The first byte.
    from: Option<u64>,
}

async fn part(
    State(api): Ask,
    Path((epoch, name)): Path<(String, String)>,
    Query(range): Query<From>,
) -> Result<Response, ApiError> {
    let epoch = number(&api, &epoch)?;
    let read = move |api: &Api| {
        // Only a name that an epoch has leads to a file.
        let files = api.store.files(epoch).map_err(failed)?;
        let file = files.into_iter().find(|file| file.name == name);
        let file = file.ok_or_else(|| ApiError::missing(format!("an epoch has no file {name:?}")))?;
        let path = api.store.epoch_path(epoch).join(&file.name);
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|mut from| {
                from.seek(SeekFrom::Start(range.from.unwrap_or(0)))?;
                from.take(PART).read_to_end(&mut bytes)
            })
            .map_err(|e| ApiError::missing(format!("{}: {e}", path.display())))?;
        Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
    };
    api.read(read).await
}
