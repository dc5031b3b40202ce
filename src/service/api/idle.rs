//! Which nodes Slurm calls idle, asked once in a while for all who want to know.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tracing::warn;

use super::Api;
use super::answer::ApiError;
use crate::config::Placement;
use crate::model::NodeName;
use crate::observe::slurmrestd::Slurmrestd;
use crate::observe::source::PollError;
use crate::service::chain;
use crate::service::command::{AboutNodes, Command};
use crate::service::placing::control::Control;

/// How long what Slurm said counts, or that it said nothing.
const FRESH: Duration = Duration::from_secs(3);

/// The part of the time for an answer that Slurm may take, by each way of asking.
const PART: u32 = 3;

/// What Slurm said last. Who asks meanwhile waits for the same answer.
#[derive(Debug, Default)]
pub struct IdleNodes(Mutex<Option<Asked>>);

#[derive(Debug)]
struct Asked {
    about: AboutNodes,
    /// It remembers which version it is.
    rest: Option<Slurmrestd>,
    told: Option<(Instant, Option<Vec<NodeName>>)>,
}

impl Asked {
    fn new(about: AboutNodes) -> Self {
        let (deadline, rest) = (about.commands.command_deadline, about.rest.clone());
        let rest = rest.map(|(rest, limit)| Slurmrestd::new(rest, deadline, limit, Duration::ZERO));
        Self { about, rest, told: None }
    }

    /// Slurm's HTTP interface is asked first, where it is the source of jobs.
    async fn ask(&mut self) -> Option<Vec<NodeName>> {
        let unknown = |error: &PollError| warn!("idle nodes are not known: {}", chain(error));
        if let Some(rest) = &mut self.rest {
            if let Ok(nodes) = rest.idle().await.inspect_err(unknown) {
                return Some(nodes);
            }
        }
        let found = Control::new(self.about.commands.clone()).idle().await.inspect_err(unknown).ok();
        found.map(|idle| {
            let mut nodes: Vec<NodeName> = idle.into_values().flatten().map(|(node, _)| node).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        })
    }
}

impl IdleNodes {
    /// The idle nodes by name, each once; `None` if Slurm does not say.
    async fn ask(&self, about: AboutNodes) -> Option<Vec<NodeName>> {
        let mut asked = self.0.lock().await;
        let asked = match &mut *asked {
            Some(asked) if asked.about == about => asked,
            other => other.insert(Asked::new(about)),
        };
        if let Some((_, nodes)) = asked.told.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return nodes.clone();
        }
        let nodes = asked.ask().await;
        asked.told = Some((Instant::now(), nodes.clone()));
        nodes
    }
}

impl Api {
    /// The nodes that Slurm calls idle; `None` if the jobs are not Slurm's, or it does not say.
    pub(super) async fn idle_nodes(&self) -> Result<Option<Vec<NodeName>>, ApiError> {
        let Some(AboutNodes { commands, rest }) = self.handle.ask(Command::Slurm).await? else {
            return Ok(None);
        };
        let command_deadline = commands.command_deadline.min(self.settings.deadline / PART);
        let commands = Placement { command_deadline, ..commands };
        Ok(self.idle.ask(AboutNodes { commands, rest }).await)
    }
}
