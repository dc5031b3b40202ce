//! Ports and names of generated fabrics, so that each generator only says who is cabled to whom.

use super::spec::Refusal;
use crate::model::{Fabric, FabricBuilder, FabricError, Guid, NewTerminal, PortNum, Role, Shape};

/// Unicast LIDs: no fabric has more switches and hosts together.
const LIDS: usize = 49_151;
/// Ports of the largest switch.
const PORTS: usize = 254;

/// Switches `S0000`.. (GUIDs 0x200000..), hosts `n1`.. (port GUIDs 0x100001, 0x100003, ..).
/// Ports of a switch are handed out in the order of calls, from 1.
pub(super) struct Net {
    /// Who is attached to whom, in port order: a host (`None`) or another switch.
    links: Vec<(usize, Option<usize>)>,
    /// Ports in use, by switch.
    used: Vec<u8>,
    hosts: usize,
    /// Cables for each one that a generator asks for: the thesis' link redundancy r_C'
    /// (Definition 3.3).
    redundancy: usize,
    shape: Shape,
    /// Nodes on each leaf and adapters of each node, if they have several.
    rails: Option<[usize; 2]>,
}

impl Net {
    /// # Errors
    /// More switches than LIDs, or a redundancy of 0.
    pub(super) fn new(switches: usize, redundancy: usize) -> Result<Self, Refusal> {
        if switches > LIDS {
            return Err(NetError::TooManyLids.into());
        }
        if !(1..=PORTS).contains(&redundancy) {
            return Err(format!("redundancy={redundancy} is not 1 to {PORTS}").into());
        }
        let used = vec![0; switches];
        Ok(Self { links: Vec::new(), used, hosts: 0, redundancy, shape: Shape::Unknown, rails: None })
    }

    /// Attaches `count` hosts to a switch.
    pub(super) fn hosts(&mut self, switch: usize, count: usize) -> Result<(), Refusal> {
        for _ in 0..count {
            self.hosts += 1;
            if self.hosts + self.used.len() > LIDS {
                return Err(NetError::TooManyLids.into());
            }
            self.take(switch)?;
            self.links.push((switch, None));
        }
        Ok(())
    }

    /// Adds a cable between two switches, or several as the redundancy says.
    pub(super) fn cable(&mut self, a: usize, b: usize) -> Result<(), Refusal> {
        for _ in 0..self.redundancy {
            self.take(a)?;
            self.take(b)?;
            self.links.push((a, Some(b)));
        }
        Ok(())
    }

    pub(super) fn shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    /// Hosts are adapters of nodes with so many each: so many nodes' first ones, their second ones, and so on.
    pub(super) fn rails(&mut self, nodes: usize, adapters: usize) {
        self.rails = Some([nodes, adapters]);
    }

    /// What a host is called, by its number from 0.
    fn description(&self, host: usize) -> String {
        let Some([nodes, adapters]) = self.rails else { return format!("n{}", host + 1) };
        let node = host / (nodes * adapters) * nodes + host % nodes;
        format!("n{} mlx5_{}", node + 1, host / nodes % adapters)
    }

    fn take(&mut self, switch: usize) -> Result<(), NetError> {
        if usize::from(self.used[switch]) == PORTS {
            return Err(NetError::TooManyPorts { switch });
        }
        self.used[switch] += 1;
        Ok(())
    }

    pub(super) fn build(self) -> Result<Fabric, NetError> {
        let mut builder = FabricBuilder::default();
        let mut ids = Vec::with_capacity(self.used.len());
        for (s, used) in self.used.iter().enumerate() {
            let guid = guid(SWITCH_GUIDS + s as u64);
            ids.push(builder.switch(guid, (*used).max(1), None, &format!("S{s:04}"))?);
        }
        let mut next = vec![0u64; self.used.len()];
        let mut port = |s: usize| {
            next[s] += 1;
            PortNum::new(next[s]).map_err(|_| NetError::TooManyPorts { switch: s })
        };
        let mut host = 0;
        for &(a, b) in &self.links {
            let near = port(a)?;
            if let Some(b) = b {
                builder.cable(ids[a], near, ids[b], port(b)?)?;
                continue;
            }
            builder.terminal(NewTerminal {
                node_guid: guid(HOST_GUIDS + 2 * host),
                port_guid: guid(HOST_GUIDS + 2 * host + 1),
                adapter_port: PortNum::new(1).unwrap_or(PortNum::ZERO),
                lid: None,
                description: self.description(host as usize),
                role: Role::Host,
                switch: ids[a],
                port: near,
            })?;
            host += 1;
        }
        builder.shape(self.shape);
        Ok(builder.build()?)
    }
}

/// Apart from the hosts' GUIDs for any number of hosts that LIDs allow.
const SWITCH_GUIDS: u64 = 0x20_0000;
const HOST_GUIDS: u64 = 0x10_0000;

fn guid(value: u64) -> Guid {
    Guid::new(value).unwrap_or_else(|_| unreachable!("generated GUIDs start above zero"))
}

/// A generated fabric that cannot exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// More than 254 ports.
    #[error("switch number {switch} would need more than {PORTS} ports")]
    TooManyPorts {
        /// Index of the switch.
        switch: usize,
    },
    /// More devices than addresses.
    #[error("more switches and hosts than the {LIDS} LIDs there are")]
    TooManyLids,
    /// See [`FabricError`].
    #[error(transparent)]
    Fabric(#[from] FabricError),
}
