//! Who submitted the jobs that run. The service knows it from the newest look, in memory alone; nothing of it is written
//! anywhere. Slurm's `PrivateData` may hide it from users, so it is not for everybody who may ask.

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::ApiError;
use super::peer::{Access, Caller};
use super::routes::{Operation, Routes};
use super::{Api, Ask, json, refusal};
use crate::model::{JobId, JobMap, shown};
use crate::service::command::Seen;

const WHAT: &str =
    "User, name and partition of each job that runs; to readers only if api.show_users says so";

pub(super) fn read() -> Routes<Api> {
    let told = Operation::new("/v1/submissions", WHAT);
    Routes::new().get(told.answers::<SubmissionsAnswer>(), submissions)
}

/// The answer of `GET /v1/submissions`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SubmissionsAnswer {
    /// When the source of jobs was asked; `None`: not yet.
    pub time: Option<DateTime<Utc>>,
    /// By id: those of which the source says who submitted them.
    pub jobs: Vec<SubmissionAnswer>,
}

/// Who submitted a job. What the source does not say is empty.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SubmissionAnswer {
    /// Slurm's id.
    pub job: JobId,
    /// Name of the user.
    pub user: String,
    /// Name of the job.
    pub name: String,
    /// Where such jobs are submitted to.
    pub partition: String,
}

impl SubmissionsAnswer {
    fn of(jobs: Option<&JobMap>) -> Self {
        let all = jobs.iter().flat_map(|map| &map.jobs).filter_map(|job| {
            let said = job.submitted.said()?;
            let [user, name, partition] =
                [&said.user, &said.name, &said.partition].map(|text| shown(text).into_owned());
            Some(SubmissionAnswer { job: job.id.clone(), user, name, partition })
        });
        Self { time: jobs.map(|map| map.time), jobs: all.collect() }
    }
}

/// Whether somebody is told who submitted which job.
pub(super) fn sees_users(api: &Api, caller: &Caller) -> bool {
    caller.access == Access::Write || api.settings.show_users
}

async fn submissions(State(api): Ask, Extension(caller): Extension<Caller>) -> Result<Response, ApiError> {
    if !sees_users(&api, &caller) {
        let why =
            "may not see whose jobs run here: api.show_users = true in the settings lets readers see it";
        refusal::log(&caller.name, &Method::GET, "/v1/submissions", why);
        return Err(ApiError::new(StatusCode::FORBIDDEN, format!("{} {why}", caller.name)));
    }
    Ok(json(match api.seen().await? {
        Seen::Switched(view) => SubmissionsAnswer::of(Some(&view.jobs)),
        Seen::Direct(seen) => SubmissionsAnswer::of(seen.jobs.as_deref()),
    }))
}
