//! How much of the service's time one of those who may only ask gets, and one address of the network: so many
//! requests in a second, and so many at one time. More wait for their turn; none is refused.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Between two requests of one user, in the long run.
const PACE: Duration = Duration::from_millis(10);
/// Requests that may come at once.
const BURST: u32 = 100;
/// Requests of one user that are answered at one time. A long answer counts until it is on its way, so that whoever
/// does not read costs no more memory than these.
const AT_ONCE: usize = 8;
/// Longer answers are held in parts of this size.
const PART: usize = 64 << 10;
/// Users remembered before those that have not asked lately are forgotten.
const KNOWN: usize = 1024;

/// All users. Cheap to clone: all are one.
#[derive(Debug, Clone, Default)]
pub struct RateLimits(Arc<Mutex<BTreeMap<String, Arc<RateLimit>>>>);

/// That of one user.
#[derive(Debug)]
pub struct RateLimit {
    /// When the next request would be due if all came at their pace.
    due: Mutex<Option<Instant>>,
    turns: Arc<Semaphore>,
}

impl RateLimits {
    /// A user's share, which is one for all connections.
    pub fn of(&self, user: &str) -> Arc<RateLimit> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            let now = Instant::now();
            known.retain(|_, share| Arc::strong_count(share) > 1 || share.is_behind(now));
        }
        let fresh = || RateLimit { due: Mutex::default(), turns: Arc::new(Semaphore::new(AT_ONCE)) };
        Arc::clone(known.entry(user.to_string()).or_insert_with(|| Arc::new(fresh())))
    }
}

impl RateLimit {
    /// Whether requests came faster than their pace, so that the next one may have to wait.
    fn is_behind(&self, now: Instant) -> bool {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|due| due > now)
    }

    /// How long a request that comes now has to wait.
    fn pause(&self, now: Instant) -> Duration {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let next = due.map_or(now, |due| due.max(now)) + PACE;
        *due = Some(next);
        next.saturating_duration_since(now).saturating_sub(PACE * BURST)
    }

    /// Waits for a turn. Whoever gives up waiting has no turn.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        tokio::time::sleep(self.pause(Instant::now())).await;
        turn
    }

    /// Answers a request when it is the user's turn.
    pub async fn answer(self: Arc<Self>, request: Request, next: Next) -> Response {
        let turn = self.turn().await;
        let response = next.run(request).await;
        response.map(|body| match body.size_hint().exact() {
            Some(length) if length <= PART as u64 => body,
            _ => Body::new(Held { body, rest: Bytes::new(), _turn: turn }),
        })
    }
}

/// Whoever has a share on a connection is answered in turn, once for each request.
pub async fn in_turn(mut request: Request, next: Next) -> Response {
    match request.extensions_mut().remove::<Arc<RateLimit>>() {
        Some(share) => share.answer(request, next).await,
        None => next.run(request).await,
    }
}

/// A long answer, given away in small copies: what was handed on does not keep the whole.
struct Held {
    body: Body,
    rest: Bytes,
    _turn: Option<OwnedSemaphorePermit>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            let frame = std::pin::pin!(self.body.frame()).as_mut().poll(context);
            match frame {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let length = self.rest.len().min(PART);
        let part = Bytes::copy_from_slice(&self.rest.split_to(length));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        // From below neither bound may pass the other.
        let mut hint = SizeHint::new();
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(body.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_too_fast_waits_and_nobody_else() {
        let limits = RateLimits::default();
        let (one, now) = (limits.of("uid 1"), Instant::now());
        let pauses: Vec<Duration> = (0..BURST + 3).map(|_| one.pause(now)).collect();
        assert!(pauses[..BURST as usize].iter().all(Duration::is_zero));
        assert_eq!(pauses[BURST as usize..], [PACE, PACE * 2, PACE * 3]);
        // A new connection is the same user.
        assert_eq!(limits.of("uid 1").pause(now), PACE * 4);
        assert!(limits.of("uid 2").pause(now).is_zero());
        // After a while it is as before.
        assert!(one.pause(now + PACE * (BURST + 10)).is_zero());
    }

    #[test]
    fn users_who_have_not_asked_lately_are_forgotten() {
        let limits = RateLimits::default();
        let now = Instant::now();
        for address in 0..5000 {
            let share = limits.of(&format!("10.0.0.{address}"));
            if address == 7 {
                share.pause(now + Duration::from_secs(1000));
            }
        }
        let known = limits.0.lock().unwrap();
        assert!(known.len() <= KNOWN && known.contains_key("10.0.0.7"), "{}", known.len());
    }

    #[test]
    fn a_long_answer_keeps_its_turn_until_it_is_on_its_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let turns = Arc::new(Semaphore::new(1));
            let turn = Arc::clone(&turns).acquire_owned().await.ok();
            let bytes: Vec<u8> = (0..3 * PART + 5).map(|i| (i % 251) as u8).collect();
            let mut body = Body::new(Held { body: bytes.clone().into(), rest: Bytes::new(), _turn: turn });
            assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
            let mut got = Vec::new();
            while let Some(frame) = body.frame().await {
                assert_eq!(turns.available_permits(), 0);
                let data = frame.unwrap().into_data().unwrap();
                assert!(data.len() <= PART);
                got.extend_from_slice(&data);
                assert_eq!(body.size_hint().exact(), Some((bytes.len() - got.len()) as u64));
            }
            assert_eq!(got, bytes);
            drop(body);
            assert_eq!(turns.available_permits(), 1);
        });
    }
}
