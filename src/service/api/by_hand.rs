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
use crate::publish::{EpochNumber, Hold, StoreError, Writer, may_be_reason};
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

/// Writes to the store, and to the log what was done. Whoever writes just now is waited for, for a while.
async fn written<T: Send + 'static>(
    api: &Api,
    caller: &Caller,
    what: String,
    write: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    let caller = caller.clone();
    let done = api.within(&api.by_hand, move |api| {
        let mut writer = api.store.lock().map_err(|e| ApiError::failed(&e))?;
        let done = write(&mut writer).map_err(|e| ApiError::failed(&e))?;
        // Here, where it is known that it was done, though nobody may wait for the answer any more.
        audit(&caller, format_args!("{what}"));
        Ok(done)
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
    may_be_reason(&reason).map_err(ApiError::bad)?;
    let what = format!("hold: {reason:?}");
    let by = who(&caller).await;
    Ok(json(written(&api, &caller, what, move |writer| writer.hold_by_hand(reason, by)).await?))
}

async fn resume(State(api): Ask, Extension(caller): Extension<Caller>) -> Result<Response, ApiError> {
    let by = who(&caller).await;
    let resume = move |writer: &mut Writer| writer.resume_by_hand(by);
    let was_held = written(&api, &caller, "resume".to_string(), resume).await?;
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
    let made_for = api.within(&api.by_hand, move |api| Ok(epoch(&api.store, to)?.plan().fabric)).await?;
    if made_for != view.fabric.fingerprint() {
        return Err(conflict(format!("epoch {to} was made for another fabric than that of now")));
    }
    let what = format!("rollback to epoch {to}{}", if held { ", held" } else { "" });
    let by = who(&caller).await;
    let back = move |writer: &mut Writer| {
        let from = writer.store().current().unwrap_or(None);
        writer.rollback_by_hand(to, &by, held)?;
        Ok(from)
    };
    let from = written(&api, &caller, what, back).await?;
    Ok(json(RollbackAnswer { from, to, held }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::config::Site;
    use crate::publish::EpochStore;
    use crate::service::api::READING;
    use crate::service::api::peer::Access;
    use crate::service::command::Handle;

    #[test]
    fn readers_who_take_every_place_keep_no_administrator_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let (handle, mut commands) = Handle::new();
        let settings = Site::parse("", &dir.path().join("sarouter.toml")).unwrap().api.unwrap();
        let api = Api {
            handle,
            store: EpochStore::open(dir.path()).unwrap(),
            settings: Arc::new(settings),
            spool: None,
            places: Arc::default(),
            // All are taken, for ever.
            reading: Arc::new(Semaphore::new(0)),
            by_hand: Arc::new(Semaphore::new(READING)),
            idle: Arc::default(),
        };
        let name = "10.0.0.7".to_string();
        let caller = Caller { user: name.clone(), name, access: Access::Write, on_network: true };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let request = Json(HoldRequest { reason: "row 3".to_string() });
            let asked = tokio::spawn(hold(State(api.clone()), Extension(caller), request));
            let Some(Command::Look(reply)) = commands.recv().await else { panic!("another command") };
            reply.send(()).unwrap();
            assert!(asked.await.unwrap().is_ok());
        });
        assert!(api.store.hold().unwrap().is_some());
    }
}
