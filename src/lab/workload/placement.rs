//! Which free nodes a job gets: models of what batch systems do.

use std::fmt;
use std::str::FromStr;

use crate::model::rng::Rng;
use crate::model::{Fabric, NodeMap, NodeName};
use crate::placement::parts::{Parts, best_fit, totals};
use crate::placement::usual::usual;

/// A placement model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The lowest free nodes, switch by switch: a batch system that knows no topology.
    Linear,
    /// The run of neighbouring free nodes that the job fills best: Slurm without a topology plugin
    /// ([`crate::placement::usual`]).
    Consecutive,
    /// Best fit on the tree of switches, as Slurm's topology/tree does it (see [`Site::choose`]).
    Tree,
    /// Best fit in one of the parts that hang below the top of the tree, any that has enough free
    /// nodes: islands as partitions of the batch system. Jobs too large for every part have the
    /// whole tree.
    Partitions,
    /// Any free nodes.
    Random,
    /// One node of each leaf switch in turn: jobs as scattered as they can be.
    Interleaved,
}

/// All models by name.
const MODELS: &[(&str, Placement)] = &[
    ("linear", Placement::Linear),
    ("consecutive", Placement::Consecutive),
    ("tree", Placement::Tree),
    ("partitions", Placement::Partitions),
    ("random", Placement::Random),
    ("interleaved", Placement::Interleaved),
];

/// A name that no model has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no placement {0:?}; models are {list}", list = MODELS.iter().map(|m| m.0).collect::<Vec<_>>().join(", "))]
pub struct UnknownPlacement(String);

impl FromStr for Placement {
    type Err = UnknownPlacement;
    fn from_str(text: &str) -> Result<Self, UnknownPlacement> {
        let found = MODELS.iter().find(|(name, _)| *name == text);
        found.map(|(_, model)| *model).ok_or_else(|| UnknownPlacement(text.to_string()))
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = MODELS.iter().find(|(_, model)| model == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// The nodes of a fabric as a batch system sees them.
#[derive(Debug, Clone)]
pub struct Site {
    /// Names, in the order of their leaf switches and ports.
    pub nodes: Vec<NodeName>,
    /// Nodes of each leaf, ascending.
    leaves: Vec<Vec<u32>>,
    /// `groups[level][leaf]`: what the leaf belongs to on that level of the tree; every leaf is a
    /// group of its own on level 0, and on the last level connected leaves are in one group.
    pub(super) groups: Vec<Vec<u32>>,
}

impl Site {
    /// From a fabric. A node with several adapters is on the switch of its first one. O(levels × size of the fabric).
    pub fn new(fabric: &Fabric, map: &NodeMap) -> Self {
        let at = |name: &NodeName| {
            let terminal = map.terminals(name).first().map(|t| fabric.terminal(*t));
            terminal.map(|t| (t.switch, t.port))
        };
        let mut named: Vec<_> = map.names().filter_map(|name| Some((at(name)?, name.clone()))).collect();
        named.sort();
        let mut switches: Vec<_> = named.iter().map(|((s, _), _)| *s).collect();
        switches.dedup();
        let mut leaves = vec![Vec::new(); switches.len()];
        for (n, ((s, _), _)) in named.iter().enumerate() {
            if let Ok(leaf) = switches.binary_search(s) {
                leaves[leaf].push(n as u32);
            }
        }
        let homes: Vec<u32> = switches.iter().map(|s| s.index() as u32).collect();
        let parts = Parts::new(fabric, &homes);
        let mut groups: Vec<Vec<u32>> =
            parts.levels().iter().map(|of| homes.iter().map(|s| of[*s as usize]).collect()).collect();
        // The lowest are counted by leaf.
        groups[0] = (0..homes.len() as u32).collect();
        Self { nodes: named.into_iter().map(|(_, name)| name).collect(), leaves, groups }
    }

    /// The nodes of a job of this size, ascending; `None` if fewer are free.
    ///
    /// [`Placement::Tree`] is [`best_fit`]. O(nodes + leaves² × levels) at worst.
    pub fn choose(
        &self,
        placement: Placement,
        free: &[bool],
        size: usize,
        rng: &mut Rng,
    ) -> Option<Vec<u32>> {
        let all = (0..free.len() as u32).filter(|n| free[*n as usize]);
        let mut chosen: Vec<u32> = match placement {
            Placement::Linear => all.take(size).collect(),
            Placement::Consecutive => usual(size, &all.collect::<Vec<u32>>()),
            Placement::Random => {
                let mut all: Vec<u32> = all.collect();
                let left = all.len();
                for i in 0..size.min(left) {
                    all.swap(i, i + rng.below(left - i));
                }
                all.truncate(size);
                all
            }
            Placement::Interleaved => self.interleaved(free, size),
            Placement::Tree => self.tree(free, size),
            Placement::Partitions => self.partition(free, size, rng),
        };
        chosen.sort_unstable();
        (chosen.len() == size).then_some(chosen)
    }

    fn free_of(&self, free: &[bool], leaf: usize) -> impl Iterator<Item = u32> {
        self.leaves[leaf].iter().copied().filter(|n| free[*n as usize])
    }

    fn interleaved(&self, free: &[bool], size: usize) -> Vec<u32> {
        let by_leaf: Vec<Vec<u32>> =
            (0..self.leaves.len()).map(|l| self.free_of(free, l).collect()).collect();
        let longest = by_leaf.iter().map(Vec::len).max().unwrap_or(0);
        let in_turn = (0..longest).flat_map(|i| by_leaf.iter().filter_map(move |leaf| leaf.get(i)));
        in_turn.take(size).copied().collect()
    }

    fn partition(&self, free: &[bool], size: usize, rng: &mut Rng) -> Vec<u32> {
        let below_top = self.groups.len().saturating_sub(2);
        let Some(of) = self.groups.get(below_top) else { return Vec::new() };
        let sizes = |has: &dyn Fn(u32) -> bool| {
            let count = |leaf: &Vec<u32>| leaf.iter().filter(|n| has(**n)).count();
            totals(of, &self.leaves.iter().map(count).collect::<Vec<_>>())
        };
        if sizes(&|_| true).iter().all(|all| *all < size) {
            return self.tree(free, size);
        }
        let left = sizes(&|n| free[n as usize]);
        let fit: Vec<u32> = (0..left.len()).filter(|p| left[*p] >= size).map(|p| p as u32).collect();
        if fit.is_empty() {
            return Vec::new();
        }
        let part = fit[rng.below(fit.len())];
        let mut inside = vec![false; free.len()];
        for (leaf, _) in self.leaves.iter().zip(of).filter(|(_, p)| **p == part) {
            leaf.iter().for_each(|n| inside[*n as usize] = free[*n as usize]);
        }
        self.tree(&inside, size)
    }

    fn tree(&self, free: &[bool], size: usize) -> Vec<u32> {
        let left: Vec<usize> = (0..self.leaves.len()).map(|l| self.free_of(free, l).count()).collect();
        let taken = best_fit(&self.groups, &left, size).into_iter();
        taken.flat_map(|(leaf, n)| self.free_of(free, leaf).take(n).collect::<Vec<u32>>()).collect()
    }
}
