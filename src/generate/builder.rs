//! Ports and names of generated fabrics, so that each generator only says who is cabled to whom.

use crate::model::{Fabric, FabricBuilder, FabricError, Guid, NewTerminal, PortNum, Role, Shape};

/// Switches `S0000`.. (GUIDs 0x200000..), hosts `n1`.. (port GUIDs 0x100001, 0x100003, ..).
/// Ports of a switch are handed out in the order of calls, from 1.
pub(super) struct Net {
    /// Who is attached to whom, in port order: a host (`None`) or another switch.
    links: Vec<(usize, Option<usize>)>,
    shape: Shape,
    switches: usize,
}

impl Net {
    pub(super) fn new(switches: usize) -> Self {
        Self { links: Vec::new(), shape: Shape::Unknown, switches }
    }

    /// Attaches `count` hosts to a switch.
    pub(super) fn hosts(&mut self, switch: usize, count: usize) {
        self.links.extend(std::iter::repeat_n((switch, None), count));
    }

    /// Adds a cable between two switches.
    pub(super) fn cable(&mut self, a: usize, b: usize) {
        self.links.push((a, Some(b)));
    }

    pub(super) fn shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    pub(super) fn build(self) -> Result<Fabric, NetError> {
        let mut used = vec![0u64; self.switches];
        let mut take = |s: usize| -> Result<PortNum, NetError> {
            used[s] += 1;
            PortNum::new(used[s]).map_err(|_| NetError::TooManyPorts { switch: s })
        };
        let mut ports = Vec::with_capacity(self.links.len());
        for &(a, b) in &self.links {
            ports.push((take(a)?, b.map(&mut take).transpose()?));
        }
        let mut builder = FabricBuilder::default();
        let mut ids = Vec::with_capacity(self.switches);
        for (s, used) in used.iter().enumerate() {
            let guid = guid(0x20_0000 + s as u64);
            ids.push(builder.switch(guid, (*used).max(1) as u8, None, &format!("S{s:04}"))?);
        }
        let mut host = 0;
        for (&(a, b), &(port, far)) in self.links.iter().zip(&ports) {
            if let (Some(b), Some(far)) = (b, far) {
                builder.cable(ids[a], port, ids[b], far)?;
                continue;
            }
            builder.terminal(NewTerminal {
                node_guid: guid(HOST_GUIDS + 2 * host),
                port_guid: guid(HOST_GUIDS + 2 * host + 1),
                adapter_port: PortNum::new(1).unwrap_or(PortNum::ZERO),
                lid: None,
                description: format!("n{}", host + 1),
                role: Role::Host,
                switch: ids[a],
                port,
            })?;
            host += 1;
        }
        builder.shape(self.shape);
        Ok(builder.build()?)
    }
}

/// Apart from the switches' GUIDs for any number of hosts that LIDs allow.
const HOST_GUIDS: u64 = 0x10_0000;

fn guid(value: u64) -> Guid {
    Guid::new(value).unwrap_or_else(|_| unreachable!("generated GUIDs start above zero"))
}

/// A generated fabric that cannot exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// More than 254 ports.
    #[error("switch number {switch} would need more than 254 ports")]
    TooManyPorts {
        /// Index of the switch.
        switch: usize,
    },
    /// See [`FabricError`].
    #[error(transparent)]
    Fabric(#[from] FabricError),
}
