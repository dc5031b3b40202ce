//! Which nodes Slurm calls idle, asked once in a while for all who want to know.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tracing::warn;

use super::Api;
use super::answer::ApiError;
use crate::config::Placement;
use crate::model::NodeName;
use crate::service::chain;
use crate::service::command::Command;
use crate::service::placing::control::Control;

/// How long what Slurm said counts, or that it said nothing.
const FRESH: Duration = Duration::from_secs(3);

/// The part of the time for an answer that Slurm may take.
const PART: u32 = 3;

/// What Slurm said last. Who asks meanwhile waits for the same answer.
#[derive(Debug, Default)]
pub struct IdleNodes(Mutex<Option<Told>>);

#[derive(Debug)]
struct Told {
    settings: Placement,
    at: Instant,
    nodes: Option<Vec<NodeName>>,
}

impl IdleNodes {
    /// The idle nodes by name, each once; `None` if Slurm does not say.
    async fn ask(&self, settings: Placement) -> Option<Vec<NodeName>> {
        let mut told = self.0.lock().await;
        if let Some(told) =
            told.as_ref().filter(|told| told.settings == settings && told.at.elapsed() < FRESH)
        {
            return told.nodes.clone();
        }
        let found = Control::new(settings.clone()).idle().await;
        let found = found.inspect_err(|e| warn!("idle nodes are not known: {}", chain(e))).ok();
        let nodes = found.map(|idle| {
            let mut nodes: Vec<NodeName> = idle.into_values().flatten().map(|(node, _)| node).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        });
        *told = Some(Told { settings, at: Instant::now(), nodes: nodes.clone() });
        nodes
    }
}

impl Api {
    /// The nodes that Slurm calls idle; `None` if the jobs are not Slurm's, or it does not say.
    pub(super) async fn idle_nodes(&self) -> Result<Option<Vec<NodeName>>, ApiError> {
        let Some(placement) = self.handle.ask(Command::Slurm).await? else { return Ok(None) };
        let command_deadline = placement.command_deadline.min(self.settings.deadline / PART);
        Ok(self.idle.ask(Placement { command_deadline, ..placement }).await)
    }
}
