//! What a fabric consists of, for people and programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use crate::lab::generate::faults::components;
use crate::measure::Connectivity;
use crate::model::{Fabric, Fingerprint, Guid, NodeMap, NodeName, SwitchId, TerminalId};
use crate::observe::ibnetdiscover::Unrouted;

/// How many of something -> how often that occurs.
type Histogram = BTreeMap<usize, usize>;

/// A fabric in numbers and names.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FabricInventory {
    /// See [`Fingerprint`].
    pub fingerprint: Fingerprint,
    /// With and without hosts.
    pub switches: usize,
    /// Ports of hosts' adapters that are attached to a switch.
    pub hosts: usize,
    /// Aggregation nodes (and ports of routers).
    pub aggregation_nodes: usize,
    /// Cables with a switch on both ends.
    pub inter_switch_cables: usize,
    /// Cables that join the same two switches as another one before.
    pub parallel_cables: usize,
    /// Parts that no cable joins.
    pub components: usize,
    /// How many must fail before the fabric falls apart; only where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connectivity: Option<Connectivity>,
    /// Inter-switch cables per switch -> switches.
    pub degrees: Histogram,
    /// Switches with at least one host.
    pub leaf_switches: usize,
    /// Hosts per leaf switch -> leaf switches.
    pub hosts_per_leaf: Histogram,
    /// Ports per named node -> nodes.
    pub ports_per_node: Histogram,
    /// All known nodes.
    pub nodes: Vec<NodeName>,
    /// Hosts that no node name belongs to.
    pub unnamed: Vec<Nameless>,
    /// Adapters that no switch leads to.
    pub unrouted: Vec<Stray>,
    /// Each switch, by GUID.
    pub switch_list: Vec<SwitchLine>,
}

/// A host without a node name.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Nameless {
    /// What the adapter calls itself.
    pub description: String,
    /// GUID of the adapter.
    pub node_guid: Guid,
    /// By which a rule can name it.
    pub port_guid: Guid,
    /// Description of the switch.
    pub switch: String,
}

/// An adapter that no switch leads to.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Stray {
    /// What the adapter calls itself.
    pub description: String,
    /// GUID of the adapter.
    pub node_guid: Guid,
    /// The adapter at the other end of its cable.
    pub cabled_to: Option<String>,
}

/// A switch in numbers.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SwitchLine {
    /// What the switch calls itself.
    pub description: String,
    /// By which OpenSM and the hand-off know it.
    pub guid: Guid,
    /// 0 where the source has none.
    pub lid: u16,
    /// Physical ports, without port 0.
    pub ports: u8,
    /// Inter-switch cables.
    pub cables: usize,
    /// Adapters on its ports.
    pub hosts: usize,
}

impl FabricInventory {
    /// Counts. O(size × log size).
    pub fn new(fabric: &Fabric, nodes: &NodeMap, unrouted: &[Unrouted]) -> Self {
        let switch_list: Vec<SwitchLine> = fabric.switch_ids().map(|s| line(fabric, s)).collect();
        let leaves = switch_list.iter().map(|s| s.hosts).filter(|hosts| *hosts > 0);
        let hosts = fabric.host_ids().count();
        let mut pairs: Vec<_> =
            fabric.channels().iter().step_by(2).map(|c| (c.from.min(c.to), c.from.max(c.to))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let cables = fabric.channels().len() / 2;
        Self {
            fingerprint: fabric.fingerprint(),
            switches: switch_list.len(),
            hosts,
            aggregation_nodes: fabric.terminals().len() - hosts,
            inter_switch_cables: cables,
            parallel_cables: cables - pairs.len(),
            components: components(fabric, |_| false, |_| false),
            connectivity: None,
            degrees: histogram(switch_list.iter().map(|s| s.cables)),
            leaf_switches: leaves.clone().count(),
            hosts_per_leaf: histogram(leaves),
            ports_per_node: histogram(nodes.names().map(|n| nodes.terminals(n).len())),
            nodes: nodes.names().cloned().collect(),
            unnamed: nodes.unnamed().iter().map(|t| nameless(fabric, *t)).collect(),
            unrouted: unrouted.iter().map(stray).collect(),
            switch_list,
        }
    }

    /// A line: what a command wrote.
    pub fn summary(&self) -> String {
        format!(
            "{} switches, {} hosts, {} aggregation nodes, {} inter-switch cables",
            self.switches, self.hosts, self.aggregation_nodes, self.inter_switch_cables
        )
    }

    /// For people; long lists are cut.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |what: &str, value: String| {
            let _ = writeln!(text, "{what:<22}{value}");
        };
        row("fingerprint", self.fingerprint.to_string());
        row("switches", self.switches.to_string());
        row("hosts", self.hosts.to_string());
        row("aggregation nodes", self.aggregation_nodes.to_string());
        row(
            "inter-switch cables",
            format!("{} ({} parallel)", self.inter_switch_cables, self.parallel_cables),
        );
        row("components", self.components.to_string());
        if let Some(Connectivity { switches, cables }) = self.connectivity {
            row("connectivity", format!("{switches} switches, {cables} cables"));
        }
        row("cables per switch", distribution(&self.degrees, "switches"));
        row("leaf switches", self.leaf_switches.to_string());
        row("hosts per leaf", distribution(&self.hosts_per_leaf, "leaves"));
        row("nodes", self.nodes.len().to_string());
        row("ports per node", distribution(&self.ports_per_node, "nodes"));
        row("node names", cut_list(self.nodes.iter().map(ToString::to_string), self.nodes.len()));
        row("hosts without name", self.unnamed.len().to_string());
        for host in self.unnamed.iter().take(LISTED) {
            row("", format!("{} {:?} on {}", host.port_guid, host.description, host.switch));
        }
        row("not at a switch", self.unrouted.len().to_string());
        for adapter in self.unrouted.iter().take(LISTED) {
            let to = adapter.cabled_to.as_ref().map_or(String::new(), |to| format!(", cabled to {to:?}"));
            row("", format!("{} {:?}{to}", adapter.node_guid, adapter.description));
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Entries of a list that people are shown; JSON has all.
const LISTED: usize = 8;

fn cut_list(items: impl Iterator<Item = String>, all: usize) -> String {
    let shown: Vec<String> = items.take(LISTED).collect();
    let rest = if all > LISTED { format!(", and {} more", all - LISTED) } else { String::new() };
    if all == 0 { "none".to_string() } else { shown.join(", ") + &rest }
}

/// `18 (10 switches), 36 (5)`.
fn distribution(histogram: &Histogram, what: &str) -> String {
    let parts = histogram.iter().enumerate().map(|(i, (value, count))| match i {
        0 => format!("{value} ({count} {what})"),
        _ => format!("{value} ({count})"),
    });
    cut_list(parts, histogram.len())
}

fn histogram(values: impl Iterator<Item = usize>) -> Histogram {
    let mut histogram = Histogram::new();
    values.for_each(|v| *histogram.entry(v).or_default() += 1);
    histogram
}

fn line(fabric: &Fabric, s: SwitchId) -> SwitchLine {
    let switch = fabric.switch(s);
    let hosts = fabric.host_count(s);
    SwitchLine {
        description: switch.description.clone(),
        guid: switch.guid,
        lid: switch.lid.get(),
        ports: switch.ports,
        cables: fabric.out(s).len(),
        hosts,
    }
}

fn nameless(fabric: &Fabric, t: TerminalId) -> Nameless {
    let terminal = fabric.terminal(t);
    Nameless {
        description: terminal.description.clone(),
        node_guid: terminal.node_guid,
        port_guid: terminal.port_guid,
        switch: fabric.switch(terminal.switch).description.clone(),
    }
}

fn stray(unrouted: &Unrouted) -> Stray {
    Stray {
        description: unrouted.description.clone(),
        node_guid: unrouted.node_guid,
        cabled_to: unrouted.cabled_to.clone(),
    }
}
