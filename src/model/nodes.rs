//! Slurm node name ↔ terminals.

use std::collections::BTreeMap;

use super::{
    Adapters, Demand, Fabric, Group, JobId, JobMap, Mix, NodeName, Rails, Storage, TerminalId,
    without_repetition,
};

/// Which terminals belong to which Slurm node. A node has one terminal per adapter port.
///
/// A name that no adapter has stands for the one that differs from it in case, in a domain that only
/// one of them has, or in an ending such as `-ib0`: `n1` is `N1-IB.cluster.example`. Where hosts of
/// two domains have one name, only the whole name tells them apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeMap {
    by_name: BTreeMap<NodeName, Vec<TerminalId>>,
    /// By the plain name; `None`: hosts of several domains have it.
    by_host: BTreeMap<String, Option<Host>>,
    unnamed: Vec<TerminalId>,
    rails: Rails,
    /// See [`Self::on`].
    rails_are_apart: bool,
}

/// All adapters with one plain name, and their domain, if any has one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Host {
    domain: String,
    terminals: Vec<TerminalId>,
}

/// Jobs as terminals, with what could not be matched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placed {
    /// In the order of [`JobMap::whole`]; jobs on unknown nodes keep the known ones.
    pub jobs: Vec<PlacedJob>,
    /// Node names of jobs that no terminal matches, sorted, without repetition. Never guessed.
    pub unknown: Vec<NodeName>,
    /// Jobs with nodes of which none is known, in the order of the job map.
    pub strangers: Vec<JobId>,
}

/// A job on its terminals. The components of a heterogeneous job are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedJob {
    /// The batch system's id; of a heterogeneous job, that of its first component.
    pub id: JobId,
    /// Its entries in the job map, by index.
    pub parts: Vec<usize>,
    /// Where it is.
    pub ranks: Ranks,
}

/// Where the ranks of a job are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranks {
    /// Terminals in rank order, all of a node in a row, without repetition.
    pub terminals: Vec<TerminalId>,
    /// Nodes that they are in.
    pub nodes: usize,
    /// Which adapters exchange, unless the mix says it.
    pub rails: Rails,
    /// Whether all nodes have as many terminals.
    pub is_even: bool,
    /// What they exchange.
    pub mix: Mix,
}

impl Ranks {
    /// Whether they send over cables between switches: they are in at least two nodes, and on at least two
    /// switches (thesis section 5.1). What the adapters of one node tell each other stays inside it.
    pub fn is_multi_switch(&self, fabric: &Fabric) -> bool {
        let mut switches = self.terminals.iter().map(|t| fabric.terminal(*t).switch);
        self.nodes > 1 && switches.next().is_some_and(|first| switches.any(|s| s != first))
    }

    /// Adapters of each node; 0 if not all have as many.
    fn per_node(&self) -> u32 {
        if self.is_even { (self.terminals.len() / self.nodes.max(1)) as u32 } else { 0 }
    }

    /// The same hosts as a group whose members exchange data.
    pub fn group(&self) -> Group {
        let group = Group::new(self.terminals.clone()).exchanging(self.mix.clone());
        let rails = self.mix.rails().unwrap_or(self.rails);
        group.with_adapters(Adapters { per_node: self.per_node(), rails })
    }
}

/// A node name without what sites write differently in Slurm and in descriptions: the plain name and
/// the domain, in lower case. The ending `-ib`, `_ib0` and so on of the plain name goes.
fn plain(name: &str) -> (String, String) {
    let name = name.to_ascii_lowercase();
    let is_address = name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b == b'.' || b.is_ascii_digit());
    let (host, domain) =
        if is_address { (name.as_str(), "") } else { name.split_once('.').unwrap_or((&name, "")) };
    let short = host.trim_end_matches(|c: char| c.is_ascii_digit());
    let short = ["-ib", "_ib"].iter().find_map(|ending| short.strip_suffix(ending)).filter(|s| !s.is_empty());
    (short.unwrap_or(host).to_string(), domain.to_string())
}

impl NodeMap {
    /// From pairs. `unnamed` lists the hosts that no node name belongs to.
    pub fn new(by_name: BTreeMap<NodeName, Vec<TerminalId>>, unnamed: Vec<TerminalId>) -> Self {
        let mut by_host: BTreeMap<String, Option<Host>> = BTreeMap::new();
        for (name, terminals) in &by_name {
            let (host, domain) = plain(name.as_str());
            let entry = by_host.entry(host).or_insert_with(|| Some(Host::default()));
            let Some(host) = entry else { continue };
            if !domain.is_empty() && !host.domain.is_empty() && host.domain != domain {
                *entry = None;
                continue;
            }
            if host.domain.is_empty() {
                host.domain = domain;
            }
            host.terminals.extend_from_slice(terminals);
        }
        Self { by_name, by_host, unnamed, rails: Rails::All, rails_are_apart: false }
    }

    /// The same for the fabric of its terminals. Where no cables join the adapters of any node, and those at one
    /// place in their nodes are joined, jobs that do not say which adapters exchange keep to their rails: nothing
    /// else arrives. O(channels + terminals).
    #[must_use]
    pub fn on(self, fabric: &Fabric) -> Self {
        let parts = fabric.parts();
        let part = |t: &TerminalId| parts[fabric.terminal(*t).switch.index()];
        let mut several = self.by_name.values().filter(|terminals| terminals.len() > 1);
        let first: Vec<u32> = several.next().into_iter().flatten().map(part).collect();
        let mut distinct = first.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let rails_are_apart = first.len() > 1
            && distinct.len() == first.len()
            && several.all(|terminals| terminals.iter().map(part).eq(first.iter().copied()));
        Self { rails_are_apart, ..self }
    }

    /// The same where jobs that do not say it exchange so.
    #[must_use]
    pub fn among(self, rails: Rails) -> Self {
        Self { rails, ..self }
    }

    /// Which adapters of jobs exchange that do not say it.
    pub fn rails(&self) -> Rails {
        if self.rails_are_apart { Rails::Same } else { self.rails }
    }

    /// Terminals of a node; empty if unknown. O(log nodes).
    pub fn terminals(&self, node: &NodeName) -> &[TerminalId] {
        if let Some(found) = self.by_name.get(node) {
            return found;
        }
        let (host, domain) = plain(node.as_str());
        let found = self.by_host.get(&host).and_then(Option::as_ref);
        let found = found.filter(|h| domain.is_empty() || h.domain.is_empty() || h.domain == domain);
        found.map_or(&[], |h| h.terminals.as_slice())
    }
    /// All known nodes.
    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.by_name.keys()
    }
    /// Hosts without a node name, ascending.
    pub fn unnamed(&self) -> &[TerminalId] {
        &self.unnamed
    }
    /// The terminals of nodes in rank order, with the default mix; unknown nodes have none. O(nodes × log nodes).
    pub fn ranks<'a>(&self, nodes: impl IntoIterator<Item = &'a NodeName>) -> Ranks {
        let (mut terminals, mut firsts, mut is_even) = (Vec::<TerminalId>::new(), Vec::new(), true);
        for found in nodes.into_iter().map(|node| self.terminals(node)).filter(|found| !found.is_empty()) {
            is_even &= firsts.is_empty() || terminals.len() == firsts.len() * found.len();
            firsts.push(found[0]);
            terminals.extend_from_slice(found);
        }
        Ranks {
            terminals: without_repetition(terminals),
            nodes: without_repetition(firsts).len(),
            rails: self.rails(),
            is_even,
            mix: Mix::default(),
        }
    }

    /// Puts jobs on terminals. O(sum of job sizes × log nodes).
    pub fn place(&self, jobs: &JobMap) -> Placed {
        let mut placed = Placed::default();
        for job in &jobs.jobs {
            let before = placed.unknown.len();
            placed.unknown.extend(job.nodes.iter().filter(|n| self.terminals(n).is_empty()).cloned());
            let unknown = placed.unknown.len() - before;
            if unknown > 0 && unknown == job.nodes.len() {
                placed.strangers.push(job.id.clone());
            }
        }
        placed.unknown.sort_unstable();
        placed.unknown.dedup();
        let of = |parts: Vec<usize>| {
            let first = &jobs.jobs[parts[0]];
            let id = first.component.as_ref().map_or(&first.id, |c| &c.of).clone();
            let mut ranks = self.ranks(parts.iter().flat_map(|i| &jobs.jobs[*i].nodes));
            ranks.mix = jobs.traffic(&parts).map(|traffic| traffic.mix).unwrap_or_default();
            PlacedJob { id, parts, ranks }
        };
        placed.jobs = jobs.whole().into_iter().map(of).collect();
        placed
    }
}

impl Placed {
    /// The demand: multi-switch jobs only, ids and order forgotten.
    pub fn demand(&self, fabric: &Fabric, storage: impl Into<Storage>) -> Demand {
        let multi = self.jobs.iter().filter(|job| job.ranks.is_multi_switch(fabric));
        Demand::new(multi.map(|job| job.ranks.group()).collect(), storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Job, JobState};

    fn map(names: &[&str]) -> NodeMap {
        let of = |(i, name): (usize, &&str)| (NodeName::new(*name).unwrap(), vec![TerminalId::at(i)]);
        NodeMap::new(names.iter().enumerate().map(of).collect(), Vec::new())
    }

    fn found(map: &NodeMap, name: &str) -> Vec<usize> {
        map.terminals(&NodeName::new(name).unwrap()).iter().map(|t| t.index()).collect()
    }

    #[test]
    fn names_match_in_spite_of_case_domain_and_ending() {
        let map = map(&["N1-IB0.hpc.example", "n1-ib1", "n2.hpc.example", "n3", "n3-ib", "n10"]);
        assert_eq!(found(&map, "n1"), [0, 1], "adapters of one node");
        assert_eq!(found(&map, "N1.hpc.example"), [0, 1]);
        assert_eq!(found(&map, "n2"), [2]);
        assert_eq!(found(&map, "n2.other.example"), [0; 0], "another domain");
        assert_eq!(found(&map, "n3"), [3], "the very name wins");
        assert_eq!(found(&map, "n10.hpc.example"), [5]);
        assert_eq!(found(&map, "n"), [0; 0]);
        assert_eq!(found(&map, "n4"), [0; 0]);
    }

    #[test]
    fn hosts_of_two_domains_are_never_guessed() {
        let map = map(&["n1.a.example", "n1.b.example", "10.0.0.1", "10.0.0.2"]);
        assert_eq!(found(&map, "n1"), [0; 0]);
        assert_eq!(found(&map, "n1.b.example"), [1]);
        assert_eq!(found(&map, "10.0.0.2"), [3]);
        assert_eq!(found(&map, "10.0.0.3"), [0; 0]);
    }

    #[test]
    fn what_adapters_of_one_node_exchange_crosses_no_switch() {
        // Leaf 1 has terminals 0 and 1, leaf 2 has 2 and 3; each node has an adapter on either.
        let fabric = crate::lab::generate::generate("fattree:2x2,1").unwrap();
        let name = |n: &str| NodeName::new(n).unwrap();
        let adapters = |ids: [usize; 2]| ids.map(TerminalId::at).to_vec();
        let of = [(name("a"), adapters([0, 2])), (name("b"), adapters([1, 3]))];
        let map = NodeMap::new(of.into_iter().collect(), Vec::new());
        let is_multi_switch = |nodes: &[&str]| {
            let nodes: Vec<NodeName> = nodes.iter().map(|n| name(n)).collect();
            map.ranks(&nodes).is_multi_switch(&fabric)
        };
        assert!(!is_multi_switch(&["a"]));
        assert!(!is_multi_switch(&["b", "unknown"]));
        assert!(!is_multi_switch(&["a", "A"]), "one node under two names");
        assert!(is_multi_switch(&["a", "b"]));
    }

    #[test]
    fn jobs_on_unknown_nodes_alone_are_strangers() {
        let job = |id: &str, nodes: &[&str]| {
            let nodes = nodes.iter().map(|n| NodeName::new(*n).unwrap()).collect();
            Job::new(JobId::new(id).unwrap(), JobState::Running, nodes, None)
        };
        let jobs = JobMap::new(
            chrono::DateTime::UNIX_EPOCH,
            vec![job("1", &["n1", "x"]), job("2", &["x", "y"]), job("3", &[])],
        );
        let placed = map(&["n1"]).place(&jobs);
        assert_eq!(placed.strangers, [JobId::new("2").unwrap()]);
        assert_eq!(placed.unknown.iter().map(NodeName::as_str).collect::<Vec<_>>(), ["x", "y"]);
    }
}
