//! How the service is, and a look at once.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use chrono::Utc;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::peer::{Caller, audit};
use super::{Api, Ask, json};
use crate::service::command::Command;
use crate::service::health::{Health, PATIENCE};

pub(super) fn read() -> Router<Api> {
    Router::new().route("/v1/health", get(health))
}

pub(super) fn write() -> Router<Api> {
    Router::new().route("/v1/look", post(look))
}

/// The answer of `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HealthAnswer {
    /// Whether nothing is wrong.
    pub healthy: bool,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
    /// The details.
    #[serde(flatten)]
    pub health: Health,
}

async fn health(State(api): Ask) -> Result<Response, ApiError> {
    let health = api.handle.ask(Command::Health).await?;
    let problems = health.troubles(Utc::now(), PATIENCE);
    Ok(json(HealthAnswer { healthy: problems.is_empty(), problems, health }))
}

async fn look(State(api): Ask, Extension(caller): Extension<Caller>) -> Result<Response, ApiError> {
    audit(&caller, format_args!("look"));
    api.handle.ask(Command::Look).await?;
    Ok(json(serde_json::json!({})))
}
