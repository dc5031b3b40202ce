//! Collects and checks what becomes a [`Fabric`].

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::{Channel, Fabric, Fingerprint, PortPeer, Role, Shape, Switch, Terminal};
use crate::model::{ChannelId, Guid, Lid, PortNum, SwitchId, TerminalId, shown};

/// A contradiction in what is claimed to be a fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// Two devices or ports claim one GUID.
    #[error("GUID {0} is used twice")]
    DuplicateGuid(Guid),
    /// Two devices claim one LID.
    #[error("LID {0} is used twice")]
    DuplicateLid(Lid),
    /// A port is cabled twice.
    #[error("port {port} of switch {switch} is cabled twice")]
    PortTaken {
        /// The switch.
        switch: Guid,
        /// Its port.
        port: PortNum,
    },
    /// A port that the switch does not have.
    #[error("switch {switch} has {ports} ports, there is no port {port} to cable")]
    NoSuchPort {
        /// The switch.
        switch: Guid,
        /// The claimed port.
        port: PortNum,
        /// How many it has.
        ports: u8,
    },
    /// No LIDs left.
    #[error("more than 49151 LIDs are needed")]
    OutOfLids,
    /// Nothing to route.
    #[error("the fabric has no switch")]
    NoSwitch,
}

/// A terminal to be added.
#[derive(Debug, Clone)]
pub struct NewTerminal {
    /// See [`Terminal::node_guid`].
    pub node_guid: Guid,
    /// See [`Terminal::port_guid`].
    pub port_guid: Guid,
    /// See [`Terminal::adapter_port`].
    pub adapter_port: PortNum,
    /// `None`: one is chosen.
    pub lid: Option<Lid>,
    /// See [`Terminal::description`].
    pub description: String,
    /// See [`Terminal::role`].
    pub role: Role,
    /// See [`Terminal::switch`].
    pub switch: SwitchId,
    /// See [`Terminal::port`].
    pub port: PortNum,
}

impl NewTerminal {
    /// The same as one of another fabric, at this switch.
    pub fn like(terminal: &Terminal, switch: SwitchId) -> Self {
        Self {
            node_guid: terminal.node_guid,
            port_guid: terminal.port_guid,
            adapter_port: terminal.adapter_port,
            lid: Some(terminal.lid),
            description: terminal.description.clone(),
            role: terminal.role,
            switch,
            port: terminal.port,
        }
    }
}

/// Collects and checks a fabric. The only place that mints dense ids.
#[derive(Debug, Default)]
pub struct FabricBuilder {
    switches: Vec<(Switch, Option<Lid>)>,
    terminals: Vec<(Terminal, Option<Lid>)>,
    /// Order in which devices came, for LIDs: `true` for a switch, and its index.
    order: Vec<(bool, usize)>,
    cables: Vec<Channel>,
    taken: BTreeSet<(SwitchId, PortNum)>,
    guids: BTreeSet<Guid>,
    shape: Shape,
}

const ANY_LID: u64 = 1;

impl FabricBuilder {
    /// Adds a switch.
    pub fn switch(
        &mut self,
        guid: Guid,
        ports: u8,
        lid: Option<Lid>,
        description: &str,
    ) -> Result<SwitchId, FabricError> {
        self.claim(guid)?;
        let id = SwitchId::at(self.switches.len());
        self.order.push((true, self.switches.len()));
        let placeholder = lid.unwrap_or_else(any_lid);
        self.switches.push((
            Switch { guid, lid: placeholder, description: shown(description).into_owned(), ports },
            lid,
        ));
        Ok(id)
    }

    /// Attaches a terminal to a switch added before.
    pub fn terminal(&mut self, new: NewTerminal) -> Result<TerminalId, FabricError> {
        self.claim(new.port_guid)?;
        self.take(new.switch, new.port)?;
        let id = TerminalId::at(self.terminals.len());
        self.order.push((false, self.terminals.len()));
        let terminal = Terminal {
            node_guid: new.node_guid,
            port_guid: new.port_guid,
            adapter_port: new.adapter_port,
            lid: new.lid.unwrap_or_else(any_lid),
            // From devices that anybody may have named.
            description: shown(&new.description).into_owned(),
            role: new.role,
            switch: new.switch,
            port: new.port,
        };
        self.terminals.push((terminal, new.lid));
        Ok(id)
    }

    /// Adds a cable. A cable from a switch to itself occupies its ports and carries nothing.
    pub fn cable(
        &mut self,
        a: SwitchId,
        a_port: PortNum,
        b: SwitchId,
        b_port: PortNum,
    ) -> Result<(), FabricError> {
        self.take(a, a_port)?;
        self.take(b, b_port)?;
        if a != b {
            self.cables.push(Channel { from: a, from_port: a_port, to: b, to_port: b_port });
        }
        Ok(())
    }

    /// Records what the generator knows.
    pub fn shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    /// Checks LIDs, fills in missing ones in the order of arrival, and freezes.
    ///
    /// Dense ids follow GUIDs, not arrival: fabrics with the same fingerprint have the same ids,
    /// so tables of one fit the other. The ids given out before are void. O(size × log size).
    pub fn build(mut self) -> Result<Fabric, FabricError> {
        if self.switches.is_empty() {
            return Err(FabricError::NoSwitch);
        }
        self.assign_lids()?;
        self.sort();
        let switches: Vec<Switch> = self.switches.into_iter().map(|(s, _)| s).collect();
        let terminals: Vec<Terminal> = self.terminals.into_iter().map(|(t, _)| t).collect();
        let turned =
            |c: &Channel| Channel { from: c.to, from_port: c.to_port, to: c.from, to_port: c.from_port };
        let channels: Vec<Channel> = self.cables.iter().flat_map(|c| [*c, turned(c)]).collect();
        let mut ports: Vec<Vec<PortPeer>> =
            switches.iter().map(|s| vec![PortPeer::Nothing; usize::from(s.ports) + 1]).collect();
        for (i, c) in channels.iter().enumerate() {
            ports[c.from.index()][usize::from(c.from_port.get())] = PortPeer::Channel(ChannelId::at(i));
        }
        for (i, t) in terminals.iter().enumerate() {
            ports[t.switch.index()][usize::from(t.port.get())] = PortPeer::Terminal(TerminalId::at(i));
        }
        let (mut out, mut out_start) = (Vec::with_capacity(channels.len()), vec![0]);
        let (mut attached, mut attached_start) = (Vec::with_capacity(terminals.len()), vec![0]);
        let (mut peers, mut peer_start) = (Vec::new(), vec![0]);
        for ports in ports {
            for peer in &ports {
                match peer {
                    PortPeer::Channel(c) => out.push(*c),
                    PortPeer::Terminal(t) => attached.push(*t),
                    PortPeer::Nothing => {}
                }
            }
            peers.extend(ports);
            peer_start.push(peers.len() as u32);
            out_start.push(out.len() as u32);
            attached_start.push(attached.len() as u32);
        }
        let fingerprint = fingerprint(&switches, &terminals, &channels);
        let shape = self.shape;
        Ok(Fabric {
            switches,
            terminals,
            channels,
            out_start,
            out,
            peer_start,
            peers,
            attached_start,
            attached,
            shape,
            fingerprint,
        })
    }

    /// Switches by GUID, terminals by port GUID, cables by their lower end.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.switches.len()).collect();
        order.sort_by_key(|i| self.switches[*i].0.guid);
        let mut new_id = vec![SwitchId::at(0); order.len()];
        for (new, old) in order.iter().enumerate() {
            new_id[*old] = SwitchId::at(new);
        }
        if let Shape::Grid { sizes, coords, .. } = &mut self.shape {
            let n = sizes.len();
            *coords = order.iter().flat_map(|old| coords[old * n..(old + 1) * n].to_vec()).collect();
        }
        self.switches.sort_by_key(|s| s.0.guid);
        for (t, _) in &mut self.terminals {
            t.switch = new_id[t.switch.index()];
        }
        self.terminals.sort_by_key(|t| t.0.port_guid);
        for c in &mut self.cables {
            (c.from, c.to) = (new_id[c.from.index()], new_id[c.to.index()]);
            if c.from > c.to {
                *c = Channel { from: c.to, from_port: c.to_port, to: c.from, to_port: c.from_port };
            }
        }
        self.cables.sort_by_key(|c| (c.from, c.from_port));
    }

    fn claim(&mut self, guid: Guid) -> Result<(), FabricError> {
        if self.guids.insert(guid) { Ok(()) } else { Err(FabricError::DuplicateGuid(guid)) }
    }

    fn take(&mut self, switch: SwitchId, port: PortNum) -> Result<(), FabricError> {
        let device = &self.switches[switch.index()].0;
        let guid = device.guid;
        if port == PortNum::ZERO || port.get() > device.ports {
            return Err(FabricError::NoSuchPort { switch: guid, port, ports: device.ports });
        }
        if self.taken.insert((switch, port)) {
            Ok(())
        } else {
            Err(FabricError::PortTaken { switch: guid, port })
        }
    }

    fn assign_lids(&mut self) -> Result<(), FabricError> {
        let given = self.switches.iter().map(|s| s.1).chain(self.terminals.iter().map(|t| t.1));
        let mut used = BTreeSet::new();
        for lid in given.flatten() {
            if !used.insert(lid) {
                return Err(FabricError::DuplicateLid(lid));
            }
        }
        let mut next = ANY_LID;
        for &(is_switch, i) in &self.order {
            let (slot, given) = if is_switch {
                let (switch, given) = &mut self.switches[i];
                (&mut switch.lid, *given)
            } else {
                let (terminal, given) = &mut self.terminals[i];
                (&mut terminal.lid, *given)
            };
            if given.is_some() {
                continue;
            }
            *slot = loop {
                let lid = Lid::new(next).map_err(|_| FabricError::OutOfLids)?;
                next += 1;
                if !used.contains(&lid) {
                    break lid;
                }
            };
        }
        Ok(())
    }
}

/// A stand-in until `build` assigns the real one.
fn any_lid() -> Lid {
    Lid::new(ANY_LID).unwrap_or_else(|_| unreachable!("1 is a LID"))
}

fn fingerprint(switches: &[Switch], terminals: &[Terminal], channels: &[Channel]) -> Fingerprint {
    let guid = |s: SwitchId| switches[s.index()].guid.get();
    let mut lines: Vec<[u64; 5]> = Vec::with_capacity(switches.len() + terminals.len() + channels.len());
    lines.extend(switches.iter().map(|s| [1, s.guid.get(), u64::from(s.ports), 0, 0]));
    lines.extend(
        terminals
            .iter()
            .map(|t| [2, t.port_guid.get(), guid(t.switch), t.port.into(), t.adapter_port.into()]),
    );
    lines
        .extend(channels.iter().map(|c| [3, guid(c.from), c.from_port.into(), guid(c.to), c.to_port.into()]));
    lines.sort_unstable();
    let mut hash = Sha256::new();
    for line in lines {
        for word in line {
            hash.update(word.to_le_bytes());
        }
    }
    Fingerprint(hash.finalize().into())
}
