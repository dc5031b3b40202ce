//! How the service is, and a look at once.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use chrono::Utc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::peer::{Caller, audit};
use super::routes::{Operation, Routes};
use super::{Api, Ask, Done, json};
use crate::service::command::Command;
use crate::service::health::{Health, PATIENCE};

pub(super) fn read() -> Routes<Api> {
    let told = Operation::new("/v1/health", "How the service is, and what is wrong");
    Routes::new().get(told.answers::<HealthAnswer>(), health)
}

pub(super) fn write() -> Routes<Api> {
    let told = Operation::new("/v1/look", "The service looks at jobs and cables at once");
    Routes::new().post(told.answers::<Done>(), look)
}

/// The answer of `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
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
    Ok(json(Done {}))
}
