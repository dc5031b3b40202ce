//! What administrators do by hand to what is in force: the commands `hold`, `resume` and `rollback`, for the page.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::epochs::{epoch, number};
use super::peer::{Caller, audit};
use super::routes::{Operation, Routes};
use super::{Api, Ask, json};
use crate::publish::{EpochNumber, Hold, StoreError, Writer};
use crate::service::accounts;
use crate::service::command::{Command, Seen};

pub(super) fn write() -> Routes<Api> {
    let told_hold = Operation::new("/v1/hold", "What is in force stays until a resume");
    let told_resume = Operation::new("/v1/resume", "A hold ends: the next pass publishes what is due");
    let told_back = Operation::new("/v1/epochs/{epoch}/rollback", "An earlier epoch comes into force again");
    let told_back = told_back.takes::<RollbackRequest>().answers::<RollbackAnswer>();
    Routes::new()
        .post(told_hold.takes::<HoldRequest>().answers::<Hold>().refuses(&[400, 415, 422]), hold)
        .post(told_resume.answers::<ResumeAnswer>(), resume)
        .post(told_back.refuses(&[400, 404, 409, 415, 422]), rollback)
}

/// A hold that is wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct HoldRequest {
    /// Why, for whoever asks.
    reason: String,
}

/// What came of a resume.
#[derive(Debug, Serialize, JsonSchema)]
struct ResumeAnswer {
    /// Whether there was a hold to end.
    was_held: bool,
}

/// How to go back.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RollbackRequest {
    /// Publish nothing else until a resume.
    hold: bool,
}

/// An earlier epoch is in force.
#[derive(Debug, Serialize, JsonSchema)]
struct RollbackAnswer {
    /// The epoch in force before.
    from: Option<EpochNumber>,
    /// The epoch in force now.
    to: EpochNumber,
    /// Whether it stays until a resume.
    held: bool,
}

/// Bytes of a reason; a sentence is shorter.
const REASON: usize = 1000;

/// Writes to the store. Whoever writes just now is waited for, for a while.
async fn written<T: Send + 'static>(
    api: &Api,
    write: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = api.read(move |api| {
        let mut writer = api.store.lock().map_err(|e| ApiError::failed(&e))?;
        write(&mut writer).map_err(|e| ApiError::failed(&e))
    });
    let done = done.await?;
    api.handle.ask(Command::Look).await?;
    Ok(done)
}

/// Who it is, as people know them.
async fn who(caller: &Caller) -> String {
    let uid = caller.user.strip_prefix("uid ").and_then(|uid| uid.parse().ok());
    match uid.filter(|_| !caller.on_network) {
        Some(uid) => tokio::task::spawn_blocking(move || accounts::name(uid)).await,
        None => Ok(caller.name.clone()),
    }
    .unwrap_or_else(|_| caller.name.clone())
}

async fn hold(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    Json(HoldRequest { reason }): Json<HoldRequest>,
) -> Result<Response, ApiError> {
    if reason.len() > REASON || reason.chars().any(char::is_control) {
        return Err(ApiError::bad(format!("the reason must be a line of at most {REASON} bytes")));
    }
    audit(&caller, format_args!("hold: {reason:?}"));
    let by = who(&caller).await;
    Ok(json(written(&api, move |writer| writer.hold_by_hand(reason, by)).await?))
}

async fn resume(State(api): Ask, Extension(caller): Extension<Caller>) -> Result<Response, ApiError> {
    audit(&caller, format_args!("resume"));
    let by = who(&caller).await;
    let was_held = written(&api, move |writer| writer.resume_by_hand(by)).await?;
    Ok(json(ResumeAnswer { was_held }))
}

/// The epoch was proved when it was published. That holds on the same fabric alone, so on no other it comes back.
async fn rollback(
    State(api): Ask,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Json(RollbackRequest { hold: held }): Json<RollbackRequest>,
) -> Result<Response, ApiError> {
    let conflict = |why: String| ApiError::new(StatusCode::CONFLICT, why);
    let Seen::Switched(view) = api.seen().await? else {
        let why = "on a direct torus tables belong to jobs: there is nothing to go back to; a hold keeps what is there";
        return Err(conflict(why.to_string()));
    };
    let to = number(&api, &name)?;
    let made_for = api.read(move |api| Ok(epoch(&api.store, to)?.plan().fabric)).await?;
    if made_for != view.fabric.fingerprint() {
        return Err(conflict(format!("epoch {to} was made for another fabric than that of now")));
    }
    audit(&caller, format_args!("rollback to epoch {to}{}", if held { ", held" } else { "" }));
    let by = who(&caller).await;
    let back = move |writer: &mut Writer| {
        let from = writer.store().current().unwrap_or(None);
        writer.rollback_by_hand(to, &by, held)?;
        Ok(from)
    };
    let from = written(&api, back).await?;
    Ok(json(RollbackAnswer { from, to, held }))
}
