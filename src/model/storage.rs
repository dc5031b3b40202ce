//! Storage servers as a directed group: what jobs read comes from them, what jobs write goes to them.

use super::{Demand, Fabric, Group, SwitchId, TerminalId};

/// Servers that the hosts of all jobs on several switches talk to: Lustre, GPFS, NFS, LNet routers. They do not talk to
/// each other, nor do hosts by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Terminals of the servers, ascending, without repetition.
    pub servers: Vec<TerminalId>,
    /// Importance of a route from a server to a host, beside one inside a job. 0: none reads.
    pub reads: u32,
    /// The same of a route from a host to a server.
    pub writes: u32,
}

impl Default for Storage {
    /// No servers.
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl From<Vec<TerminalId>> for Storage {
    /// See [`Storage::new`].
    fn from(servers: Vec<TerminalId>) -> Self {
        Self::new(servers)
    }
}

impl Storage {
    /// The largest weight.
    pub const MOST_WEIGHT: u32 = 1000;

    /// Servers, in any order, that are read and written as much as hosts of a job exchange. O(n log n).
    pub fn new(mut servers: Vec<TerminalId>) -> Self {
        servers.sort_unstable();
        servers.dedup();
        Self { servers, reads: 1, writes: 1 }
    }

    /// The same with other weights, which mean nothing without servers.
    #[must_use]
    pub fn weighing(mut self, reads: u32, writes: u32) -> Self {
        if !self.servers.is_empty() {
            (self.reads, self.writes) = (reads, writes);
        }
        self
    }

    /// Weights that count reads and writes as much as what a job exchanges.
    pub const fn even() -> [u32; 2] {
        [1; 2]
    }

    /// Whether weights are those.
    pub fn is_even(weights: &[u32; 2]) -> bool {
        *weights == Self::even()
    }

    /// Whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Whether a terminal is a server. O(log servers).
    pub fn has(&self, terminal: TerminalId) -> bool {
        self.servers.binary_search(&terminal).is_ok()
    }
}

/// Who reads and writes, by switch: one side of each route stands in a list of switches.
#[derive(Debug, Clone, Default)]
pub struct StorageFlows {
    /// Reads to each client, by the switch that they start from: weight times servers there.
    pub reads: Vec<(SwitchId, u32)>,
    /// Writes to each server: weight times clients there.
    pub writes: Vec<(SwitchId, u32)>,
    /// Hosts of jobs that are no servers, ascending.
    pub clients: Vec<TerminalId>,
}

impl StorageFlows {
    /// Of a demand; empty without servers or without jobs. O(members of groups × log members).
    pub fn of(fabric: &Fabric, demand: &Demand) -> Self {
        Self::between(fabric, &demand.groups, &demand.storage)
    }

    /// Of jobs and servers. As [`StorageFlows::of`].
    pub fn between(fabric: &Fabric, groups: &[Group], storage: &Storage) -> Self {
        if storage.is_empty() || groups.is_empty() {
            return Self::default();
        }
        let members = groups.iter().flat_map(|g| g.terminals.iter().copied());
        let mut clients: Vec<TerminalId> = members.filter(|t| !storage.has(*t)).collect();
        clients.sort_unstable();
        clients.dedup();
        let at = |terminals: &[TerminalId], weight: u32| -> Vec<(SwitchId, u32)> {
            let mut at: Vec<SwitchId> = terminals.iter().map(|t| fabric.terminal(*t).switch).collect();
            at.sort_unstable();
            let counts = at.chunk_by(|a, b| a == b).map(|same| (same[0], weight * same.len() as u32));
            counts.filter(|(_, n)| *n > 0).collect()
        };
        Self { reads: at(&storage.servers, storage.reads), writes: at(&clients, storage.writes), clients }
    }

    /// What comes to a terminal, by the switch where it starts.
    pub fn to(&self, storage: &Storage, terminal: TerminalId) -> &[(SwitchId, u32)] {
        if storage.has(terminal) {
            &self.writes
        } else if self.clients.binary_search(&terminal).is_ok() {
            &self.reads
        } else {
            &[]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn servers_are_no_clients_and_flows_start_at_switches() {
        // Two leaves with three hosts each; a job on one of the first leaf, two of the second, and a server.
        let fabric = generate("fattree:2x3,1").unwrap();
        let t = |i: usize| fabric.host_ids().nth(i).unwrap();
        let storage = Storage::new(vec![t(2), t(1), t(2)]).weighing(3, 2);
        assert_eq!(storage.servers, [t(1), t(2)]);
        let demand = Demand::new(vec![Group::new(vec![t(4), t(0), t(3), t(2)])], storage.clone());
        let flows = StorageFlows::of(&fabric, &demand);
        let [one, other] = [t(0), t(3)].map(|t| fabric.terminal(t).switch);
        assert_eq!(flows.clients, [t(0), t(3), t(4)]);
        assert_eq!(flows.to(&storage, t(0)), [(one, 6)]);
        assert_eq!(flows.to(&storage, t(1)), [(one, 2), (other, 4)]);
        assert_eq!(flows.to(&storage, t(5)), []);
        assert_eq!(StorageFlows::of(&fabric, &Demand::new(vec![], storage)).writes, []);
    }
}
