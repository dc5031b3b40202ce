//! What routing learns of the jobs: groups of terminals that talk among themselves.

use super::{Adapters, Fabric, Mix, Storage, TerminalId, without_repetition};

/// Terminals that exchange traffic: the terminals of one job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Members, ascending, without repetition.
    pub terminals: Vec<TerminalId>,
    /// The same in rank order: that of the batch system's node list, all terminals of a node in a row.
    pub ranks: Vec<TerminalId>,
    /// What they exchange.
    pub mix: Mix,
    /// How many of them each node has, and which of these exchange.
    pub adapters: Adapters,
    /// Importance of one route inside the group relative to others; 1 unless a policy says more.
    pub weight: u32,
}

/// All that an engine ever learns of Slurm.
///
/// Without groups the demand is oblivious: every host talks to every other host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    /// One group per multi-switch job, in canonical order (see [`Demand::new`]). A terminal may be
    /// in several groups: Slurm can share nodes.
    pub groups: Vec<Group>,
    /// Storage servers, which hosts of all groups talk to; routed after the jobs (Algorithm 5.1, lines 11–13).
    pub storage: Storage,
}

impl Group {
    /// A group of weight 1 with the default mix. Members are in rank order, repetitions left out.
    pub fn new(ranks: Vec<TerminalId>) -> Self {
        let ranks = without_repetition(ranks);
        let mut terminals = ranks.clone();
        terminals.sort_unstable();
        Self { terminals, ranks, mix: Mix::default(), adapters: Adapters::default(), weight: 1 }
    }

    /// The same with another mix.
    #[must_use]
    pub fn exchanging(mut self, mix: Mix) -> Self {
        self.mix = mix;
        self
    }

    /// The same with so many ranks of each node, in a row; one each if they make no whole nodes.
    #[must_use]
    pub fn with_adapters(mut self, adapters: Adapters) -> Self {
        let is_whole = adapters.per_node > 1 && self.ranks.len() % adapters.per_node as usize == 0;
        self.adapters = if is_whole { adapters } else { Adapters::default() };
        self
    }
}

impl Demand {
    /// Sorts the groups, largest first and then by members, so that the order in which the batch
    /// system lists jobs cannot reach the routes.
    pub fn new(mut groups: Vec<Group>, storage: impl Into<Storage>) -> Self {
        groups.retain(|g| g.terminals.len() > 1);
        groups.sort_by(|a, b| b.terminals.len().cmp(&a.terminals.len()).then_with(|| a.cmp(b)));
        Self { groups, storage: storage.into() }
    }

    /// Nobody known: every host talks to every host.
    pub fn oblivious() -> Self {
        Self::default()
    }

    /// Whether no job is known.
    pub fn is_oblivious(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether tables for this demand serve another one as well: it has all its groups, and the same storage.
    /// O(groups × their sizes).
    pub fn covers(&self, other: &Self) -> bool {
        // Both are in one order.
        let mut rest = self.groups.iter();
        self.storage == other.storage && other.groups.iter().all(|group| rest.any(|mine| mine == group))
    }

    /// Groups of each terminal: `result[terminal]` lists indices into `groups`, ascending.
    /// O(terminals + sum of group sizes).
    pub fn groups_of(&self, fabric: &Fabric) -> Vec<Vec<u32>> {
        let mut of = vec![Vec::new(); fabric.terminals().len()];
        for (g, group) in self.groups.iter().enumerate() {
            for t in &group.terminals {
                of[t.index()].push(g as u32);
            }
        }
        of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pattern;

    #[test]
    fn groups_on_the_same_terminals_differ_by_rank_order_and_mix() {
        let group = |ids: &[usize]| Group::new(ids.iter().map(|i| TerminalId::at(*i)).collect());
        let job = group(&[2, 10, 1, 2]);
        assert_eq!(job.terminals, group(&[1, 2, 10]).terminals);
        assert_eq!(job.ranks.iter().map(|t| t.index()).collect::<Vec<_>>(), [2, 10, 1]);
        assert_ne!(job, group(&[1, 2, 10]));
        assert_ne!(job, job.clone().exchanging(Pattern::Ring.into()));
        assert_eq!(job, job.clone().exchanging(Mix::default()));
    }

    #[test]
    fn a_demand_covers_those_with_fewer_jobs_only() {
        let group = |ids: &[usize]| Group::new(ids.iter().map(|i| TerminalId::at(*i)).collect());
        let demand = |groups: &[&[usize]]| Demand::new(groups.iter().map(|g| group(g)).collect(), Vec::new());
        let all = demand(&[&[1, 2], &[3, 4, 5], &[1, 2], &[6, 7]]);
        for fewer in [demand(&[]), demand(&[&[6, 7], &[1, 2]]), demand(&[&[1, 2], &[1, 2]]), all.clone()] {
            assert!(all.covers(&fewer));
        }
        for other in [demand(&[&[1, 3]]), demand(&[&[6, 7], &[6, 7]]), demand(&[&[3, 4]])] {
            assert!(!all.covers(&other));
        }
        assert!(!all.covers(&Demand { storage: vec![TerminalId::at(9)].into(), ..demand(&[]) }));
    }
}
