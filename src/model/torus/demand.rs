//! Which jobs run on a direct torus, and over which nodes their routes may lead.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Routes, Torus, TorusError};
use crate::model::{JobId, Mix, NodeId, Traffic, without_repetition};

/// Which nodes may forward a job's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transit {
    /// Only nodes of the job.
    #[default]
    Job,
    /// Any healthy node.
    Any,
}

/// One job and its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorusJob {
    /// The batch system's id; `None` for a table of the whole torus.
    pub id: Option<JobId>,
    nodes: Vec<NodeId>,
    ranks: Vec<NodeId>,
    /// What its ranks exchange.
    pub mix: Mix,
    /// Whether that is a guess by a rule of the site.
    pub guessed: bool,
    kept: Option<Arc<Routes>>,
}

impl TorusJob {
    /// A job with the default mix on nodes in rank order; repetitions are left out.
    pub fn new(id: Option<JobId>, ranks: Vec<NodeId>) -> Self {
        let ranks = without_repetition(ranks);
        let mut nodes = ranks.clone();
        nodes.sort_unstable();
        Self { id, nodes, ranks, mix: Mix::default(), guessed: false, kept: None }
    }
    /// The same job with what its ranks exchange, if that is known.
    #[must_use]
    pub fn exchanging(self, mix: Option<Mix>) -> Self {
        Self { mix: mix.unwrap_or_default(), ..self }
    }
    /// The same job with what it is taken to exchange, if anything is known.
    #[must_use]
    pub fn told(self, traffic: Option<Traffic>) -> Self {
        let guessed = traffic.as_ref().is_some_and(|traffic| traffic.guessed);
        Self { guessed, ..self.exchanging(traffic.map(|traffic| traffic.mix)) }
    }
    /// The same job with routes of its nodes that stay, because it runs with them. A pair without one gets a
    /// route from the engine. Routes of other nodes are not taken.
    #[must_use]
    pub fn keeping(self, routes: Arc<Routes>) -> Self {
        Self { kept: Some(routes).filter(|r| r.nodes() == self.nodes), ..self }
    }
    /// Routes that stay.
    pub fn kept(&self) -> Option<&Routes> {
        self.kept.as_deref()
    }
    /// Its nodes, ascending.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }
    /// Its nodes in rank order.
    pub fn ranks(&self) -> &[NodeId] {
        &self.ranks
    }
}

/// All that routing learns of the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorusDemand {
    /// The running jobs.
    pub jobs: Vec<TorusJob>,
    /// Transit rule of all jobs.
    pub transit: Transit,
}

impl TorusDemand {
    /// One job on all healthy nodes.
    pub fn whole(torus: &Torus) -> Self {
        Self { jobs: vec![TorusJob::new(None, torus.healthy_nodes())], transit: Transit::Any }
    }
    /// Refuses jobs on failed nodes.
    ///
    /// # Errors
    /// [`TorusError::JobOnFailedNode`] with the first such node.
    pub fn check(&self, torus: &Torus) -> Result<(), TorusError> {
        for job in &self.jobs {
            if let Some(node) = job.nodes.iter().find(|n| !torus.is_healthy(**n)) {
                let job = job.id.as_ref().map_or_else(|| "-".to_string(), |id| id.to_string());
                return Err(TorusError::JobOnFailedNode { job, node: torus.name(*node).to_string() });
            }
        }
        Ok(())
    }
    /// By node: bit `d` is set where a route may leave in direction `d` (nodes of `job`, or of any
    /// job if `None`). O(nodes × directions + sum of job sizes).
    pub fn usable(&self, torus: &Torus, job: Option<usize>) -> Vec<u8> {
        if self.transit == Transit::Any {
            return torus.nodes().map(|n| torus.exits(n)).collect();
        }
        let mut exits = vec![0; torus.len()];
        let mut member = vec![usize::MAX; torus.len()];
        for (number, jobs) in self.jobs.iter().enumerate().filter(|(j, _)| job.is_none_or(|only| only == *j))
        {
            jobs.nodes.iter().for_each(|n| member[n.index()] = number);
            for node in &jobs.nodes {
                for direction in super::Direction::all() {
                    let to = torus.neighbour(*node, direction);
                    if to.is_some_and(|to| member[to.index()] == number) {
                        exits[node.index()] |= direction.bit();
                    }
                }
            }
        }
        exits
    }
}
