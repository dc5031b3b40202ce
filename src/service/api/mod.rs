//! HTTP on a unix socket: what the service knows and what it can be told. JSON in, JSON out.
//!
//! | path | who | answer |
//! |---|---|---|
//! | `GET /v1/openapi.json` | readers | all of this for programs, with schemas: [`openapi`] |
//! | `GET /v1/health` | readers | [`super::health::Health`] and what is wrong in words |
//! | `GET /` | everybody | the web page |
//! | `GET /v1/fabric` | readers | [`picture::FabricAnswer`]: switches, cables, where to draw them |
//! | `GET /v1/epochs?limit=N&before=EPOCH` | readers | [`picture::EpochsAnswer`] |
//! | `GET /v1/load?epoch=N&job=ID&against=WHAT` | readers | [`picture::LoadAnswer`]: per channel, now and before |
//! | `GET /v1/jobs?epoch=N&against=WHAT` | readers | [`served::JobsAnswer`]: what the tables give each job |
//! | `GET /v1/submissions` | writers, and readers if `api.show_users` | [`submissions::SubmissionsAnswer`] |
//! | `GET /v1/find?what=TEXT` | readers | switches, adapters and cables by name, LID, GUID, `SWITCH:PORT` |
//! | `GET /v1/nodes/NODE` | readers | its terminals, switches and jobs |
//! | `GET /v1/jobs/ID/nodes/NODE/table` | readers | on a direct torus: the node's table, as text |
//! | `GET /v1/snapshots[?last=N]` | readers | a line for each good look |
//! | `GET /v1/epochs/N` | readers | `plan.json` and `report.json`; `N` may be `current` |
//! | `GET /v1/epochs/N/switches/GUID` | readers | the switch's port and layer per destination |
//! | `GET /v1/follow` | readers | [`follow::Followed`]: what a standby should have in force |
//! | `GET /v1/epochs/N/files` | readers | [`follow::EpochFiles`]: their names, lengths and checksums |
//! | `GET /v1/epochs/N/files/NAME?from=BYTE` | readers | the file from there on, 8 MiB at most |
//! | `POST /v1/plan` | readers | a dry run for the jobs of now, `{"jobs": TEXT}` or `{"spool_file": NAME}` |
//! | `GET /v1/engines` | readers | `EnginesAnswer`: engines that can be tried |
//! | `POST /v1/engines/NAME` | readers | `TriedAnswer`: its tables beside those in force; jobs as for a dry run |
//! | `GET /v1/place?nodes=N&pattern=P` | readers | `PlacedAnswer`: nodes that would suit a job |
//! | `GET /metrics` | readers | Prometheus |
//! | `POST /v1/look` | writers | the service looks at once |
//! | `POST /v1/hold` | writers | `{"reason": TEXT}`: what is in force stays |
//! | `POST /v1/resume` | writers | a hold ends |
//! | `POST /v1/epochs/N/rollback` | writers | `{"hold": true}`: an earlier epoch of the same fabric is in force again |
//! | `GET /v1/jobs/ID/environment` | readers | what the job was told: `SAROUTER_SL` … |
//! | `POST /v1/jobs/ID/start` | writers | [`jobs::StartAnswer`]: may this job start? |
//! | `POST /v1/jobs/ID/end` | writers | `{}` |
//!
//! On a direct torus nodes stand in the place of switches and changes of tables in that of epochs: what is
//! asked of the tables is answered for those of now (`direct`).
//!
//! Where the settings have several `[[fabric]]`, all this is below `/fabrics/NAME/`, and [`several`] is in its place.
//!
//! Errors are `{"error": "…"}` with a fitting status. To add a path: make [`routes::Routes`] of it in a file
//! of its own and merge them in `paths`, [`routes::Routes::for_administrators`] if it changes anything and
//! [`with_deadline`] unless it waits on purpose. What they are told with is the document for programs.

mod against;
pub mod answer;
mod by_hand;
mod cluster;
pub mod connection_limit;
mod direct;
mod epochs;
mod find;
pub mod follow;
pub mod heavy;
pub mod idle;
pub mod jobs;
pub mod listen;
mod metrics;
pub mod network;
pub mod openapi;
mod page;
pub mod peer;
pub mod picture;
mod rate_limit;
mod refusal;
pub mod routes;
pub mod served;
pub mod servers;
pub mod several;
pub mod state;
pub mod submissions;
mod threads;
pub mod unauthenticated;
mod what_if;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Semaphore;

use self::answer::ApiError;
use self::heavy::Places;
use self::idle::IdleNodes;
use self::routes::{Operation, Routes};
use super::command::{Command, Handle, Seen};
use crate::config;
use crate::publish::EpochStore;

/// What every handler has. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api {
    /// The loop.
    pub handle: Handle,
    /// The epochs, for reading.
    pub store: EpochStore,
    /// How requests are bounded.
    pub settings: Arc<config::Api>,
    /// The spool, if there is one.
    pub spool: Option<PathBuf>,
    /// Places for questions that take a processor.
    pub places: Arc<Places>,
    /// Places for reading the store.
    pub reading: Arc<Semaphore>,
    /// Places for what administrators do by hand: whoever may only ask takes none of them.
    pub by_hand: Arc<Semaphore>,
    /// What Slurm said of its nodes.
    pub idle: Arc<IdleNodes>,
}

/// Requests that read the store at one time; others wait.
pub const READING: usize = 4;

impl Api {
    /// What was seen in the newest good look.
    async fn seen(&self) -> Result<Seen, ApiError> {
        let seen = self.handle.ask(Command::Seen).await?;
        seen.ok_or_else(|| {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "nothing has been seen yet: see /v1/health")
        })
    }

    /// Reads an answer from the store beside the loop, which waits for no disk.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.within(&self.reading, read).await
    }

    /// The same in one of these places.
    async fn within<T: Send + 'static>(
        &self,
        places: &Arc<Semaphore>,
        read: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = Arc::clone(places).acquire_owned().await.map_err(|e| ApiError::failed(&e))?;
        let api = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let answer = read(&api);
            drop(permit);
            answer
        });
        done.await.unwrap_or_else(|e| Err(ApiError::failed(&e)))
    }
}

/// All paths.
pub fn router(api: Api) -> Router {
    paths(api.settings.deadline)
        .router
        .fallback(|| async { ApiError::new(StatusCode::NOT_FOUND, "no such path") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path has another method")
        })
        .layer(middleware::from_fn(page::own_pages_only))
        .layer(middleware::map_response(answer::in_json))
        .layer(DefaultBodyLimit::max(api.settings.body_limit))
        .layer(middleware::from_fn(rate_limit::in_turn))
        .with_state(api)
}

/// All paths, with what is told of them.
fn paths(deadline: Duration) -> Routes<Api> {
    let read = openapi::read(false)
        .merge(state::read())
        .merge(jobs::read())
        .merge(submissions::read())
        .merge(picture::read())
        .merge(cluster::read())
        .merge(find::read())
        .merge(what_if::read())
        .merge(epochs::read())
        .merge(follow::read())
        .merge(metrics::read())
        .for_readers();
    let write = state::write().merge(by_hand::write()).for_administrators();
    // These wait on purpose, and not for long.
    let waiting = jobs::write().for_administrators();
    let waiting = waiting.wrapped(|router| with_deadline(router, deadline + jobs::ROUND));
    let short = read.merge(write).wrapped(|router| with_deadline(router, deadline));
    short.merge(waiting).merge(page::routes())
}

/// What is told of all paths.
fn told() -> Vec<Operation> {
    paths(Duration::ZERO).told
}

/// Done, and there is nothing to say of it.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct Done {}

/// Ends a handler that takes longer than this with 504.
pub fn with_deadline<S: Clone + Send + Sync + 'static>(router: Router<S>, deadline: Duration) -> Router<S> {
    router.layer(middleware::from_fn(move |request: Request, next: Next| async move {
        match tokio::time::timeout(deadline, next.run(request)).await {
            Ok(response) => response,
            Err(_) => {
                let message = format!("no answer within {} s", deadline.as_secs_f64());
                ApiError::new(StatusCode::GATEWAY_TIMEOUT, message).into_response()
            }
        }
    }))
}

/// For handlers: `State<Api>` without the noise.
pub(super) type Ask = State<Api>;

/// JSON that was written elsewhere.
pub(super) fn written(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// A JSON answer.
pub(super) fn json(value: impl serde::Serialize) -> Response {
    Json(value).into_response()
}
