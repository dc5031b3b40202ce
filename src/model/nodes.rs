//! Slurm node name ↔ terminals.

use std::collections::BTreeMap;

use super::{Demand, Fabric, Group, JobId, JobMap, NodeName, TerminalId, without_repetition};

/// Which terminals belong to which Slurm node. A node has one terminal per adapter port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeMap {
    by_name: BTreeMap<NodeName, Vec<TerminalId>>,
    unnamed: Vec<TerminalId>,
}

/// Jobs as terminals, with what could not be matched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placed {
    /// Terminals of each job in rank order, in the order of the job map; jobs on unknown nodes keep the known ones.
    pub jobs: Vec<(JobId, Vec<TerminalId>)>,
    /// Node names of jobs that no terminal matches, sorted, without repetition. Never guessed.
    pub unknown: Vec<NodeName>,
}

impl NodeMap {
    /// From pairs. `unnamed` lists the hosts that no node name belongs to.
    pub fn new(by_name: BTreeMap<NodeName, Vec<TerminalId>>, unnamed: Vec<TerminalId>) -> Self {
        Self { by_name, unnamed }
    }
    /// Terminals of a node; empty if unknown.
    pub fn terminals(&self, node: &NodeName) -> &[TerminalId] {
        self.by_name.get(node).map_or(&[], Vec::as_slice)
    }
    /// All known nodes.
    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.by_name.keys()
    }
    /// Hosts without a node name, ascending.
    pub fn unnamed(&self) -> &[TerminalId] {
        &self.unnamed
    }
    /// Puts jobs on terminals. O(sum of job sizes × log nodes).
    pub fn place(&self, jobs: &JobMap) -> Placed {
        let mut placed = Placed::default();
        for job in &jobs.jobs {
            let mut terminals = Vec::new();
            for node in &job.nodes {
                match self.by_name.get(node) {
                    Some(found) => terminals.extend_from_slice(found),
                    None => placed.unknown.push(node.clone()),
                }
            }
            placed.jobs.push((job.id.clone(), without_repetition(terminals)));
        }
        placed.unknown.sort_unstable();
        placed.unknown.dedup();
        placed
    }
}

impl Placed {
    /// Whether a job has terminals on at least two switches (thesis section 5.1).
    pub fn is_multi_switch(fabric: &Fabric, terminals: &[TerminalId]) -> bool {
        let mut switches = terminals.iter().map(|t| fabric.terminal(*t).switch);
        switches.next().is_some_and(|first| switches.any(|s| s != first))
    }
    /// The demand: multi-switch jobs only, ids and order forgotten.
    pub fn demand(&self, fabric: &Fabric, storage: Vec<TerminalId>) -> Demand {
        let multi = self.jobs.iter().filter(|(_, t)| Self::is_multi_switch(fabric, t));
        Demand::new(multi.map(|(_, t)| Group::new(t.clone())).collect(), storage)
    }
}
