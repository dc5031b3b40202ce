//! Which nodes the fabrics beside this one have, and how they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{NodeMap, NodeName, Torus};

/// What the loops of several fabrics know of each other: a node without an adapter on one fabric may have one on
/// another. Cheap to clone; of one fabric it is empty.
#[derive(Debug, Clone, Default)]
pub(super) struct Neighbours {
    /// So many fabrics there are.
    fabrics: usize,
    seen: Arc<Mutex<BTreeMap<String, Nodes>>>,
    /// What each says of itself in a line.
    lines: Arc<Mutex<BTreeMap<String, String>>>,
}

/// The nodes of a fabric.
#[derive(Debug, Clone)]
pub(super) enum Nodes {
    /// Those with adapters.
    Switched(Arc<NodeMap>),
    /// Those of the torus.
    Direct(Arc<Torus>),
}

impl Nodes {
    fn has(&self, node: &NodeName) -> bool {
        match self {
            Self::Switched(map) => !map.terminals(node).is_empty(),
            Self::Direct(torus) => torus.node_named(node).is_some(),
        }
    }
}

impl Neighbours {
    /// Of so many fabrics.
    pub(super) fn of(fabrics: usize) -> Self {
        Self { fabrics, ..Self::default() }
    }

    /// Whether there are other fabrics.
    pub(super) fn are_there(&self) -> bool {
        self.fabrics > 0
    }

    /// A look saw these nodes on the fabric of that name.
    pub(super) fn seen(&self, name: Option<&String>, nodes: Nodes) {
        if let Some(name) = name.filter(|_| self.are_there()) {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(name.clone(), nodes);
        }
    }

    /// The line for all, with this one's of now: systemd shows one for the whole service.
    pub(super) fn line(&self, name: Option<&String>, line: String) -> String {
        let Some(name) = name.filter(|_| self.are_there()) else { return line };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.insert(name.clone(), line);
        let all: Vec<String> = lines.iter().map(|(name, line)| format!("{name}: {line}")).collect();
        all.join(" | ")
    }

    /// Those of the nodes that no fabric has; none while one of the fabrics was not seen. O(nodes × fabrics).
    pub(super) fn nowhere(&self, nodes: Vec<NodeName>) -> Vec<NodeName> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < self.fabrics {
            return Vec::new();
        }
        nodes.into_iter().filter(|node| !seen.values().any(|nodes| nodes.has(node))).collect()
    }
}
