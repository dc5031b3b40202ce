//! What is other in a fabric than in the one before it, counted and named.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Channel, Fabric, PortPeer, Role, Switch, Terminal};
use crate::model::{Guid, PortNum, SwitchId, TerminalId, shown};

/// So many of each are named.
const MOST_NAMED: usize = 8;

/// What is other in a fabric than in the one before it, by GUIDs and ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FabricDifference {
    /// What is not there any more; left out if nothing.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub lost: Parts,
    /// What was not there before; left out if nothing.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub new: Parts,
}

/// Parts of a fabric; kinds of which there are none are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Parts {
    /// Switches.
    #[serde(default, skip_serializing_if = "Counted::is_empty")]
    pub switches: Counted,
    /// Ports of hosts' adapters.
    #[serde(default, skip_serializing_if = "Counted::is_empty")]
    pub hosts: Counted,
    /// Cables between switches, and those of hosts that stay and are attached elsewhere.
    #[serde(default, skip_serializing_if = "Counted::is_empty")]
    pub cables: Counted,
}

/// How many, and what the first of them are called.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Counted {
    /// All of them.
    pub count: usize,
    /// Names of the first, eight at most: of a device its description, or its GUID where no more is known; of a cable both
    /// devices with their ports, `leaf1[3] -> spine2[1]`. Cables of switches that came or went come last.
    pub names: Vec<String>,
}

impl Fabric {
    /// What is other than in a fabric before. A device that both have is called as it is here.
    /// O((devices + cables) × log devices).
    pub fn difference(&self, before: &Fabric) -> FabricDifference {
        let beyond = |fabric, other| Side { fabric, other, now: self }.parts();
        FabricDifference { lost: beyond(before, self), new: beyond(self, before) }
    }
}

impl FabricDifference {
    /// Whether nothing is other.
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.new.is_empty()
    }
}

impl Parts {
    fn is_empty(&self) -> bool {
        [&self.switches, &self.hosts, &self.cables].into_iter().all(Counted::is_empty)
    }
}

impl Counted {
    fn of(names: impl Iterator<Item = String>) -> Self {
        let mut counted = Self::default();
        for name in names {
            counted.count += 1;
            if counted.names.len() < MOST_NAMED {
                counted.names.push(name);
            }
        }
        counted
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// `1 cable lost: leaf1[3] -> spine2[1]; 2 hosts new: n5, n6`.
impl fmt::Display for FabricDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = |parts: &'_ Parts| {
            let Parts { switches, hosts, cables } = parts.clone();
            [("switch", "es", switches), ("host", "s", hosts), ("cable", "s", cables)]
        };
        let all = [("lost", &self.lost), ("new", &self.new)].into_iter();
        let all = all.flat_map(|(what, parts)| kinds(parts).map(|kind| (what, kind)));
        let told =
            all.filter(|(_, (.., counted))| !counted.is_empty()).map(|(what, (one, more, counted))| {
                let Counted { count, names } = counted;
                let more = if count == 1 { "" } else { more };
                let rest = if count > names.len() { ", …" } else { "" };
                format!("{count} {one}{more} {what}: {}{rest}", names.join(", "))
            });
        f.write_str(&told.collect::<Vec<_>>().join("; "))
    }
}

/// What one fabric has and another has not.
struct Side<'a> {
    fabric: &'a Fabric,
    other: &'a Fabric,
    /// What it has is called as it is there.
    now: &'a Fabric,
}

impl Side<'_> {
    fn parts(&self) -> Parts {
        let switches = self.fabric.switches().iter().filter(|s| self.other.switch_by_guid(s.guid).is_none());
        let hosts = self.hosts().filter(|t| port(self.other, t.port_guid).is_none());
        Parts {
            switches: Counted::of(switches.map(|s| self.switch(s))),
            hosts: Counted::of(hosts.map(|t| self.host(t))),
            cables: self.cables(),
        }
    }

    fn hosts(&self) -> impl Iterator<Item = &Terminal> {
        self.fabric.terminals().iter().filter(|t| t.role == Role::Host)
    }

    fn cables(&self) -> Counted {
        let all = self.fabric.channels().iter().step_by(2);
        let stay = |c: &Channel| [c.from, c.to].into_iter().all(|s| self.twin(s).is_some());
        let (between, others): (Vec<_>, Vec<_>) = all.filter(|c| !self.other_has(c)).partition(|c| stay(c));
        let name = |c: &Channel| {
            let [from, to] = [c.from, c.to].map(|s| self.switch(self.fabric.switch(s)));
            format!("{from}[{}] -> {to}[{}]", c.from_port, c.to_port)
        };
        let is_elsewhere = |t: &&Terminal| {
            let there = port(self.other, t.port_guid).map(|there| self.other.terminal(there));
            there.is_some_and(|there| home(self.fabric, t) != home(self.other, there))
        };
        let moved = self.hosts().filter(is_elsewhere).map(|t| {
            let switch = self.switch(self.fabric.switch(t.switch));
            format!("{}[{}] -> {switch}[{}]", self.host(t), t.adapter_port, t.port)
        });
        Counted::of(between.into_iter().map(name).chain(moved).chain(others.into_iter().map(name)))
    }

    /// The same switch in the other fabric.
    fn twin(&self, s: SwitchId) -> Option<SwitchId> {
        self.other.switch_by_guid(self.fabric.switch(s).guid)
    }

    fn other_has(&self, cable: &Channel) -> bool {
        let Some((from, to)) = self.twin(cable.from).zip(self.twin(cable.to)) else { return false };
        match self.other.peer(from, cable.from_port) {
            Some(PortPeer::Channel(c)) => {
                let there = self.other.channel(c);
                (there.to, there.to_port) == (to, cable.to_port)
            }
            _ => false,
        }
    }

    fn switch(&self, switch: &Switch) -> String {
        let known = self.now.switch_by_guid(switch.guid).map(|s| self.now.switch(s));
        shown(&known.unwrap_or(switch).description).into_owned()
    }

    fn host(&self, terminal: &Terminal) -> String {
        let known = port(self.now, terminal.port_guid).map(|t| self.now.terminal(t));
        shown(&known.unwrap_or(terminal).description).into_owned()
    }
}

/// The terminal with this port GUID. O(log terminals).
fn port(fabric: &Fabric, guid: Guid) -> Option<TerminalId> {
    fabric.terminals().binary_search_by_key(&guid, |t| t.port_guid).ok().map(TerminalId::at)
}

/// Where a terminal is attached.
fn home(fabric: &Fabric, terminal: &Terminal) -> (Guid, PortNum) {
    (fabric.switch(terminal.switch).guid, terminal.port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::{ChannelId, FabricBuilder, NewTerminal};

    fn net() -> Fabric {
        generate("fattree:4x4,2").unwrap()
    }

    /// The same fabric made anew: what `terminal` and `cable` change, or leave out by `None`, is other.
    fn rebuilt(
        fabric: &Fabric,
        terminal: impl Fn(NewTerminal) -> Option<NewTerminal>,
        cable: impl Fn(Channel) -> Option<Channel>,
    ) -> Fabric {
        let mut builder = FabricBuilder::default();
        for s in fabric.switches() {
            builder.switch(s.guid, s.ports, Some(s.lid), &s.description).unwrap();
        }
        let terminals = fabric.terminals().iter().filter_map(|t| terminal(NewTerminal::like(t, t.switch)));
        terminals.for_each(|t| {
            builder.terminal(t).unwrap();
        });
        for c in fabric.channels().iter().step_by(2).filter_map(|c| cable(*c)) {
            builder.cable(c.from, c.from_port, c.to, c.to_port).unwrap();
        }
        builder.build().unwrap()
    }

    fn words(now: &Fabric, before: &Fabric) -> String {
        now.difference(before).to_string()
    }

    #[test]
    fn nothing_is_other_in_the_same_fabric_whatever_its_devices_are_called() {
        let renamed = |t: NewTerminal| Some(NewTerminal { description: "x".into(), ..t });
        let difference = net().difference(&rebuilt(&net(), renamed, Some));
        assert!(difference.is_empty() && difference.to_string().is_empty());
        assert_eq!(serde_json::to_string(&difference).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<FabricDifference>("{}").unwrap(), difference);
    }

    #[test]
    fn a_cut_cable_is_lost_and_a_mended_one_new() {
        let whole = net();
        let cut = whole.without(|c| c.index() < 2, |_| false).unwrap();
        let name = whole.channel_name(ChannelId::at(0));
        assert_eq!(words(&cut, &whole), format!("1 cable lost: {name}"));
        assert_eq!(words(&whole, &cut), format!("1 cable new: {name}"));
    }

    #[test]
    fn a_switch_goes_with_its_hosts_and_cables_and_other_cables_are_named_first() {
        let whole = net();
        let dead = whole.switch_ids().find(|s| whole.has_hosts(*s)).unwrap();
        let cables = whole.out(dead).len();
        let last = whole.channels().len() - 1;
        assert!(![whole.channel(ChannelId::at(last))].iter().any(|c| c.from == dead || c.to == dead));
        let rest = whole.without(|c| c.index() == last, |s| s == dead).unwrap();
        let FabricDifference { lost, new } = rest.difference(&whole);
        assert_eq!(new, Parts::default());
        assert_eq!((lost.switches.count, lost.hosts.count, lost.cables.count), (1, 4, cables + 1));
        assert_eq!(lost.switches.names, [whole.switch(dead).description.clone()]);
        let named = whole.attached(dead).iter().map(|t| whole.terminal(*t).description.clone());
        assert_eq!(lost.hosts.names, named.collect::<Vec<_>>());
        let other = whole.channel_name(ChannelId::at(last - 1));
        assert_eq!(lost.cables.names[0], other);
    }

    #[test]
    fn a_replaced_host_is_another_and_keeps_no_cable() {
        let whole = net();
        let replaced = whole.terminals()[0].port_guid;
        let other = Guid::new(0xabcdef).unwrap();
        let replace = |t: NewTerminal| {
            let is_it = t.port_guid == replaced;
            Some(if is_it {
                NewTerminal { node_guid: other, port_guid: other, description: "spare".into(), ..t }
            } else {
                t
            })
        };
        let now = rebuilt(&whole, replace, Some);
        let name = &whole.terminals()[0].description;
        assert_eq!(words(&now, &whole), format!("1 host lost: {name}; 1 host new: spare"));
    }

    #[test]
    fn a_cable_in_another_port_is_lost_there_and_new_here() {
        let whole = net();
        // The last port of a spine is free once its cable is cut; another of its cables moves there.
        let moved = *whole.channel(ChannelId::at(0));
        let free = rebuilt(&whole, Some, |c| (c.to != moved.to || c == moved).then_some(c));
        let unused = (1..=whole.switch(moved.to).ports).rev().map(|p| PortNum::new(p.into()).unwrap());
        let unused = unused.into_iter().find(|p| *p != moved.to_port).unwrap();
        let now =
            rebuilt(&free, Some, |c| Some(if c == moved { Channel { to_port: unused, ..c } } else { c }));
        let [from, to] = [moved.from, moved.to].map(|s| &whole.switch(s).description);
        let (at, was, is) = (moved.from_port, moved.to_port, unused);
        let wanted =
            format!("1 cable lost: {from}[{at}] -> {to}[{was}]; 1 cable new: {from}[{at}] -> {to}[{is}]");
        assert_eq!(words(&now, &free), wanted);
    }

    #[test]
    fn a_host_in_another_port_keeps_its_name_and_has_another_cable() {
        let whole = net();
        let gone = whole.terminals()[0].port_guid;
        let (mover, free) = (&whole.terminals()[1], &whole.terminals()[0]);
        let before = rebuilt(&whole, |t| (t.port_guid != gone).then_some(t), Some);
        let to = |t: NewTerminal| {
            if t.port_guid == mover.port_guid {
                NewTerminal { port: free.port, switch: free.switch, ..t }
            } else {
                t
            }
        };
        let now = rebuilt(&before, |t| Some(to(t)), Some);
        let (name, switch) = (&mover.description, &whole.switch(mover.switch).description);
        let at = |port: PortNum| format!("{name}[{}] -> {switch}[{port}]", mover.adapter_port);
        assert_eq!(
            words(&now, &before),
            format!("1 cable lost: {}; 1 cable new: {}", at(mover.port), at(free.port))
        );
    }

    #[test]
    fn all_are_counted_and_eight_are_named() {
        let whole = net();
        let alone = rebuilt(&whole, |_| None, Some);
        let lost = alone.difference(&whole).lost.hosts;
        assert_eq!((lost.count, lost.names.len()), (16, 8));
        assert!(words(&alone, &whole).ends_with(", …"), "{}", words(&alone, &whole));
    }
}
