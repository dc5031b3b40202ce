//! Which nodes the fabrics beside this one have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{NodeMap, NodeName};

/// What the loops of several fabrics know of each other: a node without an adapter on one fabric may have one on
/// another. Cheap to clone; of one fabric it is empty.
#[derive(Debug, Clone, Default)]
pub(in crate::service) struct Neighbours {
    /// So many fabrics there are.
    fabrics: usize,
    seen: Arc<Mutex<BTreeMap<String, Arc<NodeMap>>>>,
}

impl Neighbours {
    /// Of so many fabrics.
    pub(in crate::service) fn of(fabrics: usize) -> Self {
        Self { fabrics, ..Self::default() }
    }

    /// A look saw these nodes on the fabric of that name.
    pub(super) fn seen(&self, name: Option<&String>, nodes: &Arc<NodeMap>) {
        if let Some(name) = name.filter(|_| self.fabrics > 0) {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(name.clone(), Arc::clone(nodes));
        }
    }

    /// Those of the nodes that no fabric has; none while one of the fabrics was not seen. O(nodes × fabrics).
    pub(super) fn nowhere(&self, nodes: Vec<NodeName>) -> Vec<NodeName> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < self.fabrics {
            return Vec::new();
        }
        let is_known = |node: &NodeName| seen.values().any(|map| !map.terminals(node).is_empty());
        nodes.into_iter().filter(|node| !is_known(node)).collect()
    }
}
