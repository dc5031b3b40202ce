//! How the service is, and a look at once.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::peer::{Caller, audit};
use super::routes::{Operation, Routes};
use super::{Api, Ask, Done, json};
use crate::service::command::Command;
use crate::service::health::{Health, PATIENCE, State as Word, Trouble};

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
    /// How it is, in one word.
    #[serde(default)]
    pub state: Word,
    /// The same as `problems`, with what helps.
    #[serde(default)]
    pub troubles: Vec<Told>,
    /// The details.
    #[serde(flatten)]
    pub health: Health,
}

/// Something that is wrong, and what helps.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Told {
    /// What it is.
    #[serde(flatten)]
    pub trouble: Trouble,
    /// The command that helps, or says more: see `docs/OPERATE.md`.
    pub remedy: String,
}

impl HealthAnswer {
    /// What is wrong now, and what helps.
    pub(super) fn of(health: Health, now: DateTime<Utc>) -> Self {
        let found = health.found(now, PATIENCE);
        let problems: Vec<String> = found.iter().map(|trouble| trouble.text.clone()).collect();
        let told = |trouble: Trouble| Told { remedy: trouble.kind.remedy().to_string(), trouble };
        let troubles = found.into_iter().map(told).collect();
        Self { healthy: problems.is_empty(), problems, state: health.state(), troubles, health }
    }
}

async fn health(State(api): Ask) -> Result<Response, ApiError> {
    let health = api.handle.ask(Command::Health).await?;
    Ok(json(HealthAnswer::of(health, Utc::now())))
}

async fn look(State(api): Ask, Extension(caller): Extension<Caller>) -> Result<Response, ApiError> {
    audit(&caller, format_args!("look"));
    api.handle.ask(Command::Look).await?;
    Ok(json(Done {}))
}
