//! Who may ask a heavy question now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::service::api::answer::ApiError;
use crate::service::api::peer::{Access, Caller};

/// Questions that are answered at one time for those who may only read.
const READERS: usize = 2;
/// The same for those who may write: readers cannot take these.
const WRITERS: usize = 1;
/// Questions of one user that may wait. More are refused.
const WAITING: usize = 8;

/// One question of each user at a time, few in all. Everybody waits in the order of asking.
#[derive(Debug)]
pub struct Places {
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    users: Arc<Mutex<BTreeMap<String, User>>>,
}

/// What a user asks at the moment.
#[derive(Debug)]
struct User {
    turn: Arc<Semaphore>,
    questions: usize,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub struct Place {
    _place: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _question: Counted,
}

/// A question that is counted for its user as long as it lives.
#[derive(Debug)]
struct Counted {
    user: String,
    users: Arc<Mutex<BTreeMap<String, User>>>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = users.get_mut(&self.user) {
            user.questions -= 1;
            if user.questions == 0 {
                users.remove(&self.user);
            }
        }
    }
}

impl Default for Places {
    fn default() -> Self {
        Self {
            readers: Arc::new(Semaphore::new(READERS)),
            writers: Arc::new(Semaphore::new(WRITERS)),
            users: Arc::default(),
        }
    }
}

impl Places {
    /// Waits for a place; whoever gives up waiting is forgotten.
    ///
    /// # Errors
    /// If too many questions of this user wait already.
    pub async fn enter(&self, caller: &Caller) -> Result<Place, ApiError> {
        let (question, turn) = self.count(caller)?;
        let closed = |_| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the service is stopping");
        let own = turn.acquire_owned().await.map_err(closed)?;
        let places = if caller.access == Access::Write { &self.writers } else { &self.readers };
        let place = Arc::clone(places).acquire_owned().await.map_err(closed)?;
        Ok(Place { _place: place, _own: own, _question: question })
    }

    fn count(&self, caller: &Caller) -> Result<(Counted, Arc<Semaphore>), ApiError> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || User { turn: Arc::new(Semaphore::new(1)), questions: 0 };
        let user = users.entry(caller.user.clone()).or_insert_with(fresh);
        if user.questions > WAITING {
            let message = format!("{WAITING} questions of {} wait already", caller.user);
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        user.questions += 1;
        let question = Counted { user: caller.user.clone(), users: Arc::clone(&self.users) };
        Ok((question, Arc::clone(&user.turn)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(user: &str, access: Access) -> Caller {
        Caller { name: user.into(), user: user.into(), access, on_network: false }
    }

    /// What is there without waiting.
    async fn now(places: &Places, user: &str, access: Access) -> Option<Place> {
        let caller = caller(user, access);
        let entered = std::pin::pin!(places.enter(&caller));
        match futures_now(entered).await {
            Some(Ok(place)) => Some(place),
            Some(Err(_)) => panic!("{user} is refused"),
            None => None,
        }
    }

    /// Polls once.
    async fn futures_now<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut future = Some(future);
        std::future::poll_fn(|context| {
            let polled = future.take().map(|f| f.poll(context));
            std::task::Poll::Ready(match polled {
                Some(std::task::Poll::Ready(output)) => Some(output),
                _ => None,
            })
        })
        .await
    }

    #[test]
    fn a_user_has_one_place_and_readers_leave_one_to_administrators() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let places = Places::default();
            let first = now(&places, "uid 1", Access::Read).await.unwrap();
            assert!(now(&places, "uid 1", Access::Read).await.is_none(), "a second of the same user");
            let second = now(&places, "uid 2", Access::Read).await.unwrap();
            assert!(now(&places, "uid 3", Access::Read).await.is_none(), "all are taken");
            assert!(now(&places, "uid 0", Access::Write).await.is_some(), "but not the administrators'");
            drop(first);
            assert!(now(&places, "uid 3", Access::Read).await.is_some());
            drop(second);
            assert!(places.users.lock().unwrap().is_empty(), "nobody is remembered");
        });
    }

    #[test]
    fn too_many_questions_of_one_user_are_refused_and_nobody_elses() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let places = Places::default();
            let greedy = caller("uid 1", Access::Read);
            let mut waiting: Vec<_> = (0..=WAITING).map(|_| Box::pin(places.enter(&greedy))).collect();
            let mut inside = Vec::new();
            for question in &mut waiting {
                inside.extend(futures_now(question.as_mut()).await);
            }
            assert_eq!(inside.len(), 1);
            assert!(places.enter(&greedy).await.is_err());
            assert!(now(&places, "uid 2", Access::Read).await.is_some());
            drop((waiting, inside));
            assert!(now(&places, "uid 1", Access::Read).await.is_some());
        });
    }
}
