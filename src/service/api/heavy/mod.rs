//! Questions that take a processor and memory: dry runs and pictures.
//!
//! Each is answered by a process of its own, this program once more (`sarouter answer`), of lower
//! priority and with its own bounds of memory and time. It is killed when its asker is gone, unless that was by the
//! deadline and the answer is kept (`computed`). So what readers ask costs the routing pass, the prologs and the health
//! file nothing that matters, and nothing that a question runs into ends the service.

pub mod child;
mod computed;
mod places;

use std::process::Stdio;

use axum::body::Bytes;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tracing::warn;

use self::child::Head;
pub(super) use self::computed::Computed;
pub use self::places::Places;
use super::Api;
use super::against::Against;
use super::answer::{Answered, ApiError};
use super::what_if::WantedNodes;
use crate::model::{Guid, JobId};
use crate::publish::EpochNumber;
use crate::service::command::Seen;
use crate::service::kind::direct::Terms;
use crate::service::record::whole;

/// The hidden command that answers.
pub const COMMAND: &str = "answer";

/// No answer is longer.
const ANSWER_LIMIT: u64 = 256 << 20;

/// This program as it runs, even if another was installed meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// The fabric, drawn.
    Fabric,
    /// The load of its channels.
    Load {
        /// Under this epoch.
        epoch: EpochNumber,
        /// Of this job alone.
        job: Option<JobId>,
        /// Compared with these too.
        against: Option<Against>,
    },
    /// What the jobs get.
    Jobs {
        /// From this epoch.
        epoch: Option<EpochNumber>,
        /// Compared with these too.
        against: Option<Against>,
    },
    /// The table of a switch.
    Switch {
        /// Of this epoch.
        epoch: EpochNumber,
        /// The switch.
        guid: Guid,
    },
    /// A dry run; the request's body says for which jobs.
    Plan,
    /// Another engine's tables; the request's body says for which jobs.
    Engine(String),
    /// Nodes for a job; the body has the names of those that Slurm calls idle, or null.
    Place(WantedNodes),
    /// The same on a direct torus.
    DirectPlan(Terms),
}

impl Api {
    /// Has a question answered; the caller has a place, see [`Places`].
    pub(super) async fn heavy(&self, question: Question, seen: Seen, body: Bytes) -> Result<Bytes, ApiError> {
        let head = Head {
            question,
            state: self.store.path().to_path_buf(),
            spool: self.spool.clone(),
            body: body.len(),
            body_limit: self.settings.body_limit as u64,
            nodes: match &seen {
                Seen::Switched(view) => view.nodes.names().count(),
                Seen::Direct(seen) => seen.torus.len(),
            },
            memory: self.settings.question_memory,
            seconds: self.settings.deadline.as_secs() + 1,
        };
        let asked = tokio::task::spawn_blocking(move || {
            let mut asked = serde_json::to_vec(&head)?;
            asked.push(b'\n');
            asked.extend_from_slice(&body);
            match &seen {
                Seen::Switched(view) => whole::write(view, &mut asked)?,
                Seen::Direct(seen) => serde_json::to_writer(&mut asked, &seen.jobs.as_deref())?,
            }
            Ok::<_, std::io::Error>(asked)
        });
        let asked = asked.await.map_err(|e| ApiError::failed(&e))?.map_err(|e| ApiError::failed(&e))?;
        let child = Command::new(PROGRAM)
            .arg(COMMAND)
            // One thread, one heap: what is bounded is used for the answer.
            .env("RAYON_NUM_THREADS", "1")
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| ApiError::failed(&e))?;
        converse(child, &asked).await
    }
}

/// Asks a child and reads what it says. When this is dropped, the child is killed.
async fn converse(mut child: Child, asked: &[u8]) -> Result<Bytes, ApiError> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let tell = async {
        // A child that has heard enough closes the pipe.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(asked).await;
        }
    };
    let hear = async {
        let mut said = Vec::new();
        match stdout {
            Some(stdout) => stdout.take(ANSWER_LIMIT).read_to_end(&mut said).await.map(|_| said),
            None => Ok(said),
        }
    };
    let (said, ()) = tokio::join!(hear, tell);
    let said = said.map_err(|e| ApiError::failed(&e))?;
    let status = child.wait().await.map_err(|e| ApiError::failed(&e))?;
    let head = said.iter().position(|b| *b == b'\n').unwrap_or(0);
    match serde_json::from_slice::<Answered>(&said[..head]) {
        Ok(Answered { status: 200, .. }) if status.success() => Ok(Bytes::from(said).slice(head + 1..)),
        Ok(Answered { status, error }) if status != 200 => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Err(ApiError::new(status, error))
        }
        _ => {
            warn!(%status, "a question was not answered: it took more memory or time than there is for it");
            let message = "the answer takes more memory or time than the settings give it";
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message))
        }
    }
}
