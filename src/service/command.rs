//! How others talk to the loop of [`super::run`]: a bounded queue of commands, each with its reply.
//!
//! The loop owns the truth. Whoever serves requests (HTTP, a plugin's socket) holds a [`Handle`],
//! asks, and gets a copy; nothing is shared and nothing is locked.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::handoff::{Announcement, Outcome};
use super::health::Health;
use super::kind::direct::Direct;
use crate::config::{Placement, Rest};
use crate::model::JobId;
use crate::pass::step::View;

/// Commands that may wait for the loop. More are refused at once.
const WAITING: usize = 256;
/// The same for commands about jobs that start or end; more wait to be put there, and none is refused.
const JOBS: usize = 1024;

/// Where the loop's answer goes. A reply to somebody who is gone is dropped.
pub type Reply<T> = oneshot::Sender<T>;

/// How Slurm is asked about nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AboutNodes {
    /// By its commands.
    pub commands: Placement,
    /// By its HTTP interface, where that is the source of jobs, with the longest answer in bytes.
    pub rest: Option<(Rest, u64)>,
}

/// What the loop can be asked. It answers each between two of its own events.
#[derive(Debug)]
pub enum Command {
    /// How is it?
    Health(Reply<Health>),
    /// Look at Slurm and the fabric at once. The answer comes before the look.
    Look(Reply<()>),
    /// What was seen in the newest good look; `None` before the first.
    Seen(Reply<Option<Seen>>),
    /// How is Slurm asked about nodes? `None` if the jobs come from elsewhere.
    Slurm(Reply<Option<AboutNodes>>),
    /// A job is about to start. The answer comes when it may.
    Start(Box<Announcement>, Reply<Outcome>),
    /// A job is over.
    End(JobId, Reply<()>),
}

/// What is served, by the kind of network. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Seen {
    /// Switches: the newest good look.
    Switched(Arc<View>),
    /// A direct torus: as it is now.
    Direct(Arc<Direct>),
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
pub struct Handle {
    questions: mpsc::Sender<Command>,
    jobs: mpsc::Sender<Command>,
}

/// The end of the queue that the loop reads.
#[derive(Debug)]
pub struct Commands {
    questions: mpsc::Receiver<Command>,
    jobs: mpsc::Receiver<Command>,
}

impl Commands {
    /// The next command, those about jobs first; `None` once nobody can ask any more.
    pub async fn recv(&mut self) -> Option<Command> {
        tokio::select! {
            biased;
            Some(command) = self.jobs.recv() => Some(command),
            Some(command) = self.questions.recv() => Some(command),
            else => None,
        }
    }
}

impl Handle {
    /// A queue: the handle, and the end that the loop reads.
    pub fn new() -> (Self, Commands) {
        let (questions, asked) = mpsc::channel(WAITING);
        let (jobs, announced) = mpsc::channel(JOBS);
        (Self { questions, jobs }, Commands { questions: asked, jobs: announced })
    }

    /// For a prolog or epilog: waits for a place in the queue instead of being refused, then for the
    /// answer; the caller bounds the time.
    ///
    /// # Errors
    /// If the loop has ended.
    pub async fn ask_for_job<T>(&self, make: impl FnOnce(Reply<T>) -> Command) -> Result<T, AskError> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(make(reply)).await.map_err(|_| AskError::Stopping)?;
        answer.await.map_err(|_| AskError::Stopping)
    }

    /// Asks and waits for the answer; the caller bounds the time. `make` wraps the reply:
    /// `handle.ask(Command::Health)`.
    ///
    /// # Errors
    /// If the queue is full or the loop has ended.
    pub async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> Command) -> Result<T, AskError> {
        let (reply, answer) = oneshot::channel();
        self.questions.try_send(make(reply)).map_err(|e| match e {
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
                handle.questions.try_send(Command::Look(reply)).unwrap();
            }
            assert_eq!(handle.ask(Command::Look).await, Err(AskError::Busy));
            // A prolog is not refused, and comes first.
            let (reply, _) = oneshot::channel();
            handle.jobs.try_send(Command::End(JobId::new("7").unwrap(), reply)).unwrap();
            assert!(matches!(commands.recv().await, Some(Command::End(..))));
            assert!(matches!(commands.recv().await, Some(Command::Look(_))));
            drop(commands);
            assert_eq!(handle.ask(Command::Look).await, Err(AskError::Stopping));
        });
    }
}
