//! What routing learns of the jobs: groups of terminals that talk among themselves.

use super::{Fabric, TerminalId};

/// Terminals that exchange traffic, all with all: the terminals of one job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Members, ascending, without repetition.
    pub terminals: Vec<TerminalId>,
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
    /// Terminals of storage servers, routed after the jobs (Algorithm 5.1, lines 11–13). Ascending.
    pub storage: Vec<TerminalId>,
}

impl Group {
    /// A group of weight 1, members sorted and deduplicated.
    pub fn new(mut terminals: Vec<TerminalId>) -> Self {
        terminals.sort_unstable();
        terminals.dedup();
        Self { terminals, weight: 1 }
    }
}

impl Demand {
    /// Sorts the groups, largest first and then by members, so that the order in which the batch
    /// system lists jobs cannot reach the routes.
    pub fn new(mut groups: Vec<Group>, mut storage: Vec<TerminalId>) -> Self {
        groups.retain(|g| g.terminals.len() > 1);
        groups.sort_by(|a, b| b.terminals.len().cmp(&a.terminals.len()).then_with(|| a.cmp(b)));
        storage.sort_unstable();
        storage.dedup();
        Self { groups, storage }
    }

    /// Nobody known: every host talks to every host.
    pub fn oblivious() -> Self {
        Self::default()
    }

    /// Whether no job is known.
    pub fn is_oblivious(&self) -> bool {
        self.groups.is_empty()
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
