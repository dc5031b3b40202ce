//! Answers of heavy questions that are kept: whoever asks for the same finds them, also if they came too late for who
//! asked first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::sync::oneshot;

use super::Question;
use crate::pass::step::View;
use crate::service::api::answer::ApiError;
use crate::service::api::peer::Caller;
use crate::service::api::{Api, written};
use crate::service::command::Seen;
use crate::service::kind::direct::Kept;

/// What an answer depends on: the look, the question.
pub(in crate::service::api) type Key = (String, Question);

/// The last answers: who asks for the same finds it here.
#[derive(Debug, Default)]
pub(in crate::service::api) struct Computed {
    answers: Mutex<VecDeque<(Key, Bytes)>>,
    /// The same of a direct torus.
    pub torus: Kept,
}

/// So many are kept.
const KEPT: usize = 12;
/// Of the deadline: whoever leaves after so much of it did not wish to.
const LATE: f64 = 0.9;
/// So many deadlines a late answer is still waited for, so that whoever asks again finds it. What it may compute is
/// bounded as for any other.
const LONGER: u32 = 12;
/// Bytes that they take together.
const KEPT_BYTES: usize = 64 << 20;

impl Computed {
    fn known(&self, key: &Key) -> Option<Bytes> {
        let kept = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == key).map(|(_, body)| body.clone())
    }

    fn keep(&self, key: Key, body: Bytes) {
        let mut kept = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| *known != key);
        kept.push_front((key, body));
        let mut bytes = 0;
        let fits = kept.iter().take(KEPT).take_while(|(_, body)| {
            bytes += body.len();
            bytes <= KEPT_BYTES
        });
        let fits = fits.count();
        kept.truncate(fits);
    }

    /// Answers, with what is known or as it is computed.
    ///
    /// # Errors
    /// If too many questions of this user wait, or this one cannot be answered.
    pub async fn get(
        self: Arc<Self>,
        api: Api,
        caller: &Caller,
        key: Key,
        view: Arc<View>,
    ) -> Result<Response, ApiError> {
        let begun = Instant::now();
        if let Some(body) = self.known(&key) {
            return Ok(written(body));
        }
        let place = api.places.enter(caller).await?;
        // Somebody may have asked for it meanwhile.
        if let Some(body) = self.known(&key) {
            return Ok(written(body));
        }
        // Closed when this is dropped: by the deadline, or as nobody listens any more.
        let (_asker, mut asker) = oneshot::channel::<()>();
        let deadline = api.settings.deadline;
        let computing = tokio::spawn(async move {
            let _place = place;
            let left = async {
                let _ = (&mut asker).await;
                if begun.elapsed() >= deadline.mul_f64(LATE) {
                    tokio::time::sleep(deadline * LONGER).await;
                }
            };
            tokio::select! {
                body = api.heavy(key.1.clone(), Seen::Switched(view), Bytes::new()) => {
                    let body = body?;
                    self.keep(key, body.clone());
                    Ok(body)
                }
                () = left => Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "whoever asked is gone")),
            }
        });
        Ok(written(computing.await.map_err(|e| ApiError::failed(&e))??))
    }
}
