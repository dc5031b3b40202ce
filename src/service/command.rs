//! How others talk to the loop of [`super::run`]: a bounded queue of commands, each with its reply.
//!
//! The loop owns the truth. Whoever serves requests (HTTP, a plugin's socket) holds a [`Handle`],
//! asks, and gets a copy; nothing is shared and nothing is locked.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::handoff::{Announcement, Outcome};
use super::health::Health;
use crate::model::JobId;
use crate::pass::step::View;

/// Commands that may wait for the loop. More are refused at once.
const WAITING: usize = 256;

/// Where the loop's answer goes. A reply to somebody who is gone is dropped.
pub type Reply<T> = oneshot::Sender<T>;

/// What the loop can be asked. It answers each between two of its own events.
#[derive(Debug)]
pub enum Command {
    /// How is it?
    Health(Reply<Health>),
    /// Look at Slurm and the fabric at once. The answer comes before the look.
    Look(Reply<()>),
    /// What was seen in the newest good look; `None` before the first.
    View(Reply<Option<Arc<View>>>),
    /// A job is about to start. The answer comes when it may.
    Start(Announcement, Reply<Outcome>),
    /// A job is over.
    End(JobId, Reply<()>),
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Too many wait already.
    #[error("the service is busy: {WAITING} requests wait for it")]
    Busy,
    /// It is stopping.
    #[error("the service is stopping")]
    Stopping,
}

/// The right to ask the loop. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle(mpsc::Sender<Command>);

impl Handle {
    /// A queue: the handle, and the end that the loop reads.
    pub fn new() -> (Self, mpsc::Receiver<Command>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Asks and waits for the answer; the caller bounds the time. `make` wraps the reply:
    /// `handle.ask(Command::Health)`.
    ///
    /// # Errors
    /// If the queue is full or the loop has ended.
    pub async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> Command) -> Result<T, AskError> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(make(reply)).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => AskError::Busy,
            mpsc::error::TrySendError::Closed(_) => AskError::Stopping,
        })?;
        answer.await.map_err(|_| AskError::Stopping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_and_a_gone_loop_are_said_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (handle, mut commands) = Handle::new();
            let asked = tokio::spawn({
                let handle = handle.clone();
                async move { handle.ask(Command::Look).await }
            });
            let Some(Command::Look(reply)) = commands.recv().await else { panic!("another command") };
            reply.send(()).unwrap();
            assert_eq!(asked.await.unwrap(), Ok(()));
            for _ in 0..WAITING {
                let (reply, _) = oneshot::channel();
                handle.0.try_send(Command::Look(reply)).unwrap();
            }
            assert_eq!(handle.ask(Command::Look).await, Err(AskError::Busy));
            drop(commands);
            assert_eq!(handle.ask(Command::Look).await, Err(AskError::Stopping));
        });
    }
}
