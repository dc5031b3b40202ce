//! Slurm's `topology.conf` (topology/tree), and where it disagrees with the fabric.
//!
//! The names of its switches need not be those of the fabric, so what is compared is the grouping:
//! nodes of one leaf line must share a switch, nodes of two lines must not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use super::hostlist;
use crate::model::{Fabric, FileError, NodeMap, NodeName, SwitchId};

/// One `SwitchName=` entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologySwitch {
    /// Its name in Slurm.
    pub name: NodeName,
    /// Nodes attached to it; empty for a switch above the leaves.
    pub nodes: Vec<NodeName>,
    /// Switches below it.
    pub switches: Vec<NodeName>,
    /// Line where the entry begins.
    pub line: usize,
}

/// A `topology.conf`, in file order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// All entries.
    pub switches: Vec<TopologySwitch>,
}

/// A way in which `topology.conf` and the fabric disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disagreement {
    /// A node of the file that no terminal has the name of.
    UnknownNode {
        /// Line of the entry.
        line: usize,
        /// The node.
        node: NodeName,
    },
    /// A node of the fabric that the file does not place.
    Missing {
        /// The node.
        node: NodeName,
    },
    /// A node that two leaf entries claim.
    Twice {
        /// The node.
        node: NodeName,
        /// Line of the first entry.
        first: usize,
        /// Line of the other one.
        line: usize,
    },
    /// A node that is on another switch than most nodes of its entry.
    Elsewhere {
        /// Line of the entry.
        line: usize,
        /// Slurm's name of the switch.
        entry: NodeName,
        /// The node.
        node: NodeName,
        /// Where the node is, by description.
        on: Vec<String>,
        /// Where most nodes of the entry are.
        most: String,
    },
    /// Two entries whose nodes share a switch.
    SameSwitch {
        /// Slurm's names of the two.
        entries: [NodeName; 2],
        /// Line of the second.
        line: usize,
        /// The switch, by description.
        switch: String,
    },
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownNode { line, node } => {
                write!(f, "line {line}: no adapter of the fabric is named {node}")
            }
            Self::Missing { node } => write!(f, "node {node} of the fabric is in no entry"),
            Self::Twice { node, first, line } => {
                write!(f, "line {line}: node {node} is already in the entry of line {first}")
            }
            Self::Elsewhere { line, entry, node, on, most } => {
                write!(
                    f,
                    "line {line}: node {node} of {entry} is on {}, the others on {most}",
                    on.join(" and ")
                )
            }
            Self::SameSwitch { entries: [a, b], line, switch } => {
                write!(f, "line {line}: the nodes of {b} and {a} are on one switch, {switch}")
            }
        }
    }
}

impl Topology {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`] with file and line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(FileError::io(path))?;
        Self::parse(path, super::without_mark(&text))
    }

    /// Reads the text of a file; `path` is for messages. Keys in any case, `#` begins a comment,
    /// `\` at the end of a line continues it. `LinkSpeed` is ignored.
    ///
    /// # Errors
    /// [`FileError::Line`], where the entry begins.
    pub fn parse(path: &Path, text: &str) -> Result<Self, FileError> {
        let fail = |line, reason| FileError::line(path, line, reason);
        let mut topology = Self::default();
        let mut seen: BTreeMap<NodeName, usize> = BTreeMap::new();
        for (line, entry) in entries(text) {
            let Some(switch) = parse_entry(line, &entry).map_err(|reason| fail(line, reason))? else {
                continue;
            };
            if let Some(first) = seen.insert(switch.name.clone(), line) {
                let name = switch.name.as_str();
                return Err(fail(line, format!("switch {name:?} is already described in line {first}")));
            }
            topology.switches.push(switch);
        }
        for switch in &topology.switches {
            if let Some(child) = switch.switches.iter().find(|child| !seen.contains_key(child)) {
                return Err(fail(switch.line, format!("switch {:?} is not described", child.as_str())));
            }
        }
        Ok(topology)
    }

    /// Where the leaves of the file and of the fabric differ, in file order; empty if nowhere.
    /// A node with adapters on several switches (rails) agrees if one of them is the switch of
    /// its entry. O(nodes × log nodes).
    pub fn disagreements(&self, fabric: &Fabric, nodes: &NodeMap) -> Vec<Disagreement> {
        let mut found = Vec::new();
        let mut placed: BTreeMap<&NodeName, usize> = BTreeMap::new();
        let mut taken: BTreeMap<SwitchId, &NodeName> = BTreeMap::new();
        for entry in self.switches.iter().filter(|s| !s.nodes.is_empty()) {
            for node in &entry.nodes {
                if let Some(first) = placed.insert(node, entry.line) {
                    found.push(Disagreement::Twice { node: node.clone(), first, line: entry.line });
                }
                if nodes.terminals(node).is_empty() {
                    found.push(Disagreement::UnknownNode { line: entry.line, node: node.clone() });
                }
            }
            let Some(home) = home(fabric, nodes, entry) else { continue };
            let switch = fabric.switch(home).description.clone();
            if let Some(other) = taken.insert(home, &entry.name) {
                let entries = [other.clone(), entry.name.clone()];
                found.push(Disagreement::SameSwitch { entries, line: entry.line, switch: switch.clone() });
            }
            found.extend(entry.elsewhere(fabric, nodes, home));
        }
        let missing = nodes.names().filter(|n| !placed.contains_key(n));
        found.extend(missing.map(|node| Disagreement::Missing { node: node.clone() }));
        found
    }
}

impl TopologySwitch {
    fn elsewhere(&self, fabric: &Fabric, nodes: &NodeMap, home: SwitchId) -> Vec<Disagreement> {
        let mut found = Vec::new();
        for node in &self.nodes {
            let on = switches_of(fabric, nodes, node);
            if !on.is_empty() && !on.contains(&home) {
                found.push(Disagreement::Elsewhere {
                    line: self.line,
                    entry: self.name.clone(),
                    node: node.clone(),
                    on: on.iter().map(|s| fabric.switch(*s).description.clone()).collect(),
                    most: fabric.switch(home).description.clone(),
                });
            }
        }
        found
    }
}

fn switches_of(fabric: &Fabric, nodes: &NodeMap, node: &NodeName) -> BTreeSet<SwitchId> {
    nodes.terminals(node).iter().map(|t| fabric.terminal(*t).switch).collect()
}

/// The switch with most nodes of the entry; the first of several.
fn home(fabric: &Fabric, nodes: &NodeMap, entry: &TopologySwitch) -> Option<SwitchId> {
    let mut votes: BTreeMap<SwitchId, usize> = BTreeMap::new();
    for node in &entry.nodes {
        for switch in switches_of(fabric, nodes, node) {
            *votes.entry(switch).or_default() += 1;
        }
    }
    votes.into_iter().max_by_key(|(switch, votes)| (*votes, std::cmp::Reverse(*switch))).map(|(s, _)| s)
}

/// Lines with their numbers, comments removed, continuations joined.
fn entries(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim_end();
        let (part, continued) = line.strip_suffix('\\').map_or((line, false), |l| (l, true));
        match found.last_mut().filter(|_| open) {
            Some((_, entry)) => entry.push_str(part),
            None => found.push((i + 1, part.to_string())),
        }
        open = continued;
    }
    found
}

fn parse_entry(line: usize, entry: &str) -> Result<Option<TopologySwitch>, String> {
    let children = |switch: &str| format!("switch {switch:?} wants Nodes or Switches, each at most once");
    let (mut name, mut nodes, mut switches) = (None, None, None);
    for word in entry.split_whitespace() {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is not Key=Value"))?;
        let slot = match key.to_ascii_lowercase().as_str() {
            "switchname" => &mut name,
            "nodes" => &mut nodes,
            "switches" => &mut switches,
            "linkspeed" => continue,
            _ => return Err(format!("unknown key {key:?}")),
        };
        if slot.replace(hostlist::expand(value).map_err(|e| e.to_string())?).is_some() {
            return Err(children(entry.trim()));
        }
    }
    if (&name, &nodes, &switches) == (&None, &None, &None) {
        return Ok(None);
    }
    let name = match name.as_deref() {
        Some([name]) => name.clone(),
        _ => return Err("an entry without SwitchName".into()),
    };
    if nodes.is_none() && switches.is_none() {
        return Err(children(name.as_str()));
    }
    let (nodes, switches) = (nodes.unwrap_or_default(), switches.unwrap_or_default());
    Ok(Some(TopologySwitch { name, nodes, switches, line }))
}
