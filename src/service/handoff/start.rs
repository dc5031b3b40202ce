//! A start of a job, as it is announced.

use chrono::TimeDelta;

use crate::model::{JobId, NodeName, Submission, Traffic, TrafficRules, same_nodes, without_repetition};

/// One start of a job. Two are the same on the same nodes in whatever order.
#[derive(Debug, Clone)]
pub struct StartId {
    /// Number by which Slurm knows it.
    pub job: JobId,
    /// How often it was started before.
    pub restart: u32,
    /// Its nodes in rank order, without repetition.
    pub nodes: Vec<NodeName>,
    /// What it is taken to exchange. Tells no start from another.
    pub traffic: Option<Traffic>,
    /// Whether its ranks are to be put in order. Tells no start from another either.
    pub rank_order: bool,
    /// Whether it is a component of a heterogeneous job, so that its own nodes do not tell what it needs. Nor does this
    /// tell starts apart.
    pub is_component: bool,
    /// Nodes of all components of its job in their order, if it is one and the others are known; else none. Nor does this.
    pub whole: Vec<NodeName>,
}

impl StartId {
    /// Of nodes in rank order; repetitions are left out.
    pub fn new(job: JobId, restart: u32, nodes: Vec<NodeName>) -> Self {
        let nodes = without_repetition(nodes);
        Self { job, restart, nodes, traffic: None, rank_order: false, is_component: false, whole: Vec::new() }
    }

    /// Nodes that are to reach each other, in rank order.
    pub fn together(&self) -> &[NodeName] {
        if self.whole.is_empty() { &self.nodes } else { &self.whole }
    }

    /// The same with what it is taken to exchange.
    #[must_use]
    pub fn exchanging(self, traffic: Option<Traffic>) -> Self {
        Self { traffic, ..self }
    }

    /// The same, its ranks to be put in order or not.
    #[must_use]
    pub fn ordering(self, rank_order: bool) -> Self {
        Self { rank_order, ..self }
    }

    /// The same, a component of a heterogeneous job or not.
    #[must_use]
    pub fn component(self, is_component: bool) -> Self {
        Self { is_component, ..self }
    }
}

impl PartialEq for StartId {
    fn eq(&self, other: &Self) -> bool {
        (&self.job, self.restart) == (&other.job, other.restart) && same_nodes(&self.nodes, &other.nodes)
    }
}

impl Eq for StartId {}

/// What a prolog says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Which start.
    pub start: StartId,
    /// How long the job may run, if the prolog knows.
    pub length: Option<TimeDelta>,
    /// How long the prolog will wait; the rules bound it.
    pub patience: TimeDelta,
    /// Who submitted it.
    pub submission: Submission,
}

impl Announcement {
    /// The same with what is guessed that the job exchanges, unless it says it. O(rules).
    #[must_use]
    pub fn guessing(mut self, rules: &TrafficRules) -> Self {
        self.start.traffic = self.start.traffic.or_else(|| rules.guess(&self.submission));
        self
    }
}
