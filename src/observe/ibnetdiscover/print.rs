//! Prints a fabric in the formats that [`super::parse`] reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{AGGREGATION_DEVICE, END, PROMISE};
use crate::model::{Fabric, Guid, PortPeer, Role, SwitchId, TerminalId};

/// Device ids of an InfiniScale IV switch and a ConnectX-3 adapter: ibsim keeps the last one given.
const SWITCH_DEVICE: u64 = 0xbd36;
const ADAPTER_DEVICE: u64 = 0x1003;

/// As `ibnetdiscover` prints it, without date and with a stand-in for the link speed, which a
/// [`Fabric`] does not know.
pub fn to_ibnetdiscover(fabric: &Fabric) -> String {
    let names = Names {
        switches: fabric.switches().iter().map(|s| format!("S-{:016x}", s.guid.get())).collect(),
        adapters: Adapter::all(fabric, |a| a.node_guid, |a| format!("H-{:016x}", a.guid.get())),
    };
    let mut text = String::from("#\n# Topology file\n#\n");
    if let Some(first) = fabric.terminals().first() {
        let (node, port) = (first.node_guid.get(), first.port_guid.get());
        let _ = writeln!(text, "# Initiated from node {node:016x} port {port:016x}");
    }
    names.print(fabric, text)
}

/// As ibsim reads it. Devices are called by their description where that is one unique word, so
/// that ibsim's console knows them as `S0000` and `n1`. ibsim numbers the ports of an adapter from
/// its GUID; adapters get the GUID with which it arrives at their port GUIDs, if there is one.
pub fn to_net(fabric: &Fabric) -> String {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let adapter_names: BTreeMap<Guid, &str> =
        fabric.terminals().iter().map(|t| (t.node_guid, t.description.as_str())).collect();
    let switch_names = fabric.switches().iter().map(|s| s.description.as_str());
    for name in switch_names.chain(adapter_names.values().copied()) {
        *uses.entry(name).or_default() += 1;
    }
    let word = |name: &str| {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        // Names such as S-0002c90200417670 are kept for GUIDs.
        let guid_like = ["S-", "H-", "R-"].iter().any(|p| name.starts_with(p));
        (plain && !guid_like && uses.get(name) == Some(&1) && (1..64).contains(&name.len()))
            .then(|| name.to_string())
    };
    let guids = simulated_guids(fabric);
    let adapters = Adapter::all(
        fabric,
        |adapter| guids.get(&adapter.node_guid).copied().unwrap_or(adapter.node_guid),
        |adapter| {
            let name = &fabric.terminal(adapter.ports[0]).description;
            word(name).unwrap_or_else(|| format!("H-{:016x}", adapter.guid.get()))
        },
    );
    let switch =
        |s: &crate::model::Switch| word(&s.description).unwrap_or_else(|| format!("S-{:016x}", s.guid.get()));
    let names = Names { switches: fabric.switches().iter().map(switch).collect(), adapters };
    names.print(fabric, String::new())
}

/// GUIDs from which ibsim counts to the port GUIDs of each adapter, by node GUID. All differ, though
/// one may be what the file calls another adapter's: those of a host are often neighbours. Where
/// the ports of an adapter are not in a row, or another device has the GUID, one that is free.
fn simulated_guids(fabric: &Fabric) -> BTreeMap<Guid, Guid> {
    let mut bases: BTreeMap<Guid, Option<u64>> = BTreeMap::new();
    for t in fabric.terminals() {
        let base = t.port_guid.get().checked_sub(t.adapter_port.get().into());
        let all = bases.entry(t.node_guid).or_insert(base);
        *all = all.filter(|first| Some(*first) == base);
    }
    let mut taken: BTreeSet<Guid> = fabric.switches().iter().map(|s| s.guid).collect();
    let mut chosen = BTreeMap::new();
    for (node, base) in &bases {
        if let Some(guid) = base.and_then(|g| Guid::new(g).ok()).filter(|g| taken.insert(*g)) {
            chosen.insert(*node, guid);
        }
    }
    for node in bases.into_keys() {
        chosen.entry(node).or_insert_with(|| {
            let mut free = (node.get()..).filter_map(|g| Guid::new(g).ok());
            free.find(|g| taken.insert(*g)).unwrap_or(node)
        });
    }
    chosen
}

/// An adapter with its attached ports.
struct Adapter {
    node_guid: Guid,
    /// The GUID to print.
    guid: Guid,
    id: String,
    /// Attached ports, by port GUID.
    ports: Vec<TerminalId>,
}

impl Adapter {
    /// All adapters of a fabric, by GUID.
    fn all(
        fabric: &Fabric,
        guid: impl Fn(&Adapter) -> Guid,
        id: impl Fn(&Adapter) -> String,
    ) -> Vec<Adapter> {
        let mut ports: BTreeMap<Guid, Vec<TerminalId>> = BTreeMap::new();
        for t in fabric.terminal_ids() {
            ports.entry(fabric.terminal(t).node_guid).or_default().push(t);
        }
        let adapter = |(node_guid, ports)| {
            let mut adapter = Adapter { node_guid, guid: node_guid, id: String::new(), ports };
            adapter.guid = guid(&adapter);
            adapter.id = id(&adapter);
            adapter
        };
        ports.into_iter().map(adapter).collect()
    }
}

/// How the devices are called.
struct Names {
    /// By switch id.
    switches: Vec<String>,
    adapters: Vec<Adapter>,
}

impl Names {
    fn print(&self, fabric: &Fabric, mut text: String) -> String {
        let mut adapter_of = vec![0; fabric.terminals().len()];
        for (i, adapter) in self.adapters.iter().enumerate() {
            adapter.ports.iter().for_each(|t| adapter_of[t.index()] = i);
        }
        let _ = writeln!(text, "{PROMISE}");
        for s in fabric.switch_ids() {
            self.switch(fabric, s, &adapter_of, &mut text);
        }
        for adapter in &self.adapters {
            self.adapter(fabric, adapter, &mut text);
        }
        let _ = writeln!(text, "\n{END}");
        text
    }

    fn switch(&self, fabric: &Fabric, s: SwitchId, adapter_of: &[usize], text: &mut String) {
        let (switch, id) = (fabric.switch(s), &self.switches[s.index()]);
        let (guid, description) = (switch.guid.get(), printable(&switch.description));
        let _ = writeln!(text, "\ndevid={SWITCH_DEVICE:#x}\nswitchguid={guid:#x}({guid:x})");
        let _ = writeln!(
            text,
            "Switch\t{} \"{id}\"\t\t# \"{description}\" enhanced port 0 lid {} lmc 0",
            switch.ports, switch.lid
        );
        for port in (1..=switch.ports).filter_map(|p| crate::model::PortNum::new(p.into()).ok()) {
            let _ = match fabric.peer(s, port) {
                Some(PortPeer::Channel(c)) => {
                    let (c, far) = (fabric.channel(c), fabric.switch(fabric.channel(c).to));
                    let (id, name) = (&self.switches[c.to.index()], printable(&far.description));
                    writeln!(
                        text,
                        "[{port}]\t\"{id}\"[{}]\t\t# \"{name}\" lid {} {SPEED}",
                        c.to_port, far.lid
                    )
                }
                Some(PortPeer::Terminal(t)) => {
                    let (id, t) = (&self.adapters[adapter_of[t.index()]].id, fabric.terminal(t));
                    let (guid, name) = (t.port_guid.get(), printable(&t.description));
                    let far = t.adapter_port;
                    writeln!(
                        text,
                        "[{port}]\t\"{id}\"[{far}]({guid:x})\t\t# \"{name}\" lid {} {SPEED}",
                        t.lid
                    )
                }
                Some(PortPeer::Nothing) | None => Ok(()),
            };
        }
    }

    fn adapter(&self, fabric: &Fabric, adapter: &Adapter, text: &mut String) {
        let ports = adapter.ports.iter().map(|t| fabric.terminal(*t));
        let Some(first) = ports.clone().next() else { return };
        let device = if first.role == Role::Aggregation { AGGREGATION_DEVICE } else { ADAPTER_DEVICE };
        let highest = ports.clone().map(|t| t.adapter_port.get()).max().unwrap_or(1);
        let (guid, id, name) = (adapter.guid.get(), &adapter.id, printable(&first.description));
        let _ =
            writeln!(text, "\ndevid={device:#x}\ncaguid={guid:#x}\nCa\t{highest} \"{id}\"\t\t# \"{name}\"");
        for t in ports {
            let (far, far_id) = (fabric.switch(t.switch), &self.switches[t.switch.index()]);
            let _ = writeln!(
                text,
                "[{}]({:x}) \t\"{far_id}\"[{}]\t\t# lid {} lmc 0 \"{}\" lid {} {SPEED}",
                t.adapter_port,
                t.port_guid.get(),
                t.port,
                t.lid,
                printable(&far.description),
                far.lid
            );
        }
    }
}

/// ibsim warns of each link without a speed.
const SPEED: &str = "4xQDR";

/// A description on one line.
fn printable(description: &str) -> String {
    description.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
