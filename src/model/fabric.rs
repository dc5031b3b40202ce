//! The fabric: switches, terminals and the cables between them. Immutable and validated.

mod builder;
mod difference;
mod wiring;

use std::fmt;
use std::str::FromStr;

use petgraph::unionfind::UnionFind;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::builder::{FabricBuilder, FabricError, NewTerminal};
pub use self::difference::{Counted, FabricDifference, Parts};
pub use self::wiring::Wiring;
use super::{ChannelId, DestId, Guid, IdError, Lid, PortNum, SwitchId, TerminalId};

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Node GUID: what `lft.txt` and the hand-off are keyed by.
    pub guid: Guid,
    /// Local id of the management port.
    pub lid: Lid,
    /// Node description, as found.
    pub description: String,
    /// Number of external ports (1..=ports).
    pub ports: u8,
}

/// What a terminal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A port of a host's channel adapter: counted in every measure.
    Host,
    /// An aggregation node inside a switch (SHARP): must be reachable, is never a job's node.
    Aggregation,
}

/// One port of a channel adapter, attached to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    /// GUID of the adapter.
    pub node_guid: Guid,
    /// GUID of this port of it: unique in the fabric.
    pub port_guid: Guid,
    /// Port number on the adapter.
    pub adapter_port: PortNum,
    /// Local id.
    pub lid: Lid,
    /// Node description, as found.
    pub description: String,
    /// Host or not.
    pub role: Role,
    /// The switch it is attached to.
    pub switch: SwitchId,
    /// The port of that switch.
    pub port: PortNum,
}

/// One direction of one inter-switch cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Sending switch.
    pub from: SwitchId,
    /// Egress port on `from`.
    pub from_port: PortNum,
    /// Receiving switch.
    pub to: SwitchId,
    /// Ingress port on `to`.
    pub to_port: PortNum,
}

/// What a switch port is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortPeer {
    /// Nothing, or a cable back to the same switch.
    Nothing,
    /// The channel that leaves through this port.
    Channel(ChannelId),
    /// A terminal.
    Terminal(TerminalId),
}

/// What is known of the structure beyond the cables: generators know it, files do not say it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shape {
    /// Not known.
    #[default]
    Unknown,
    /// No torus or mesh, for this reason.
    Irregular(String),
    /// A torus or mesh.
    Grid {
        /// Switches per dimension.
        sizes: Vec<u16>,
        /// Whether the dimension closes to a ring.
        wrap: Vec<bool>,
        /// `coords[switch * sizes.len() + dimension]`.
        coords: Vec<u16>,
    },
}

/// SHA-256 over GUIDs, ports and cables: two fabrics with the same fingerprint can use the same
/// tables. Descriptions and LIDs do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String")]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The raw digest.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl FromStr for Fingerprint {
    type Err = IdError;
    /// 64 lower-case hexadecimal digits, as printed.
    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut digest = [0; 32];
        for (i, byte) in digest.iter_mut().enumerate() {
            let digits = text.get(2 * i..2 * i + 2).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        let (what, rule) = ("fingerprint", "must be 64 lower-case hexadecimal digits");
        let refused = IdError { what, value: text.to_string(), rule };
        Some(Self(digest)).filter(|f| f.to_string() == text).ok_or(refused)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// An immutable, validated InfiniBand fabric.
///
/// Channels are inter-switch only; `channels()[c]` and `channels()[c ^ 1]` are one cable. A
/// terminal's own cable is implied by its switch and port.
#[derive(Debug, Clone)]
pub struct Fabric {
    switches: Vec<Switch>,
    terminals: Vec<Terminal>,
    channels: Vec<Channel>,
    /// `out[out_start[s]..out_start[s + 1]]`: channels that leave switch `s`, by port.
    out_start: Vec<u32>,
    out: Vec<ChannelId>,
    /// `peers[peer_start[s] + p]`: what port `p` of switch `s` is connected to.
    peer_start: Vec<u32>,
    peers: Vec<PortPeer>,
    /// `attached[attached_start[s]..attached_start[s + 1]]`: terminals of switch `s`, by port.
    attached_start: Vec<u32>,
    attached: Vec<TerminalId>,
    shape: Shape,
    fingerprint: Fingerprint,
}

impl Fabric {
    /// All switches, indexed by [`SwitchId`].
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }
    /// All terminals, indexed by [`TerminalId`].
    pub fn terminals(&self) -> &[Terminal] {
        &self.terminals
    }
    /// All directed inter-switch channels, indexed by [`ChannelId`].
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }
    /// One switch.
    pub fn switch(&self, s: SwitchId) -> &Switch {
        &self.switches[s.index()]
    }
    /// One terminal.
    pub fn terminal(&self, t: TerminalId) -> &Terminal {
        &self.terminals[t.index()]
    }
    /// Channels by switch and port, for walks over all routes. O(ports of all switches).
    pub fn wiring(&self) -> Wiring {
        Wiring::new(self)
    }

    /// One channel.
    #[inline]
    pub fn channel(&self, c: ChannelId) -> &Channel {
        &self.channels[c.index()]
    }
    /// Ids of all switches.
    pub fn switch_ids(&self) -> impl ExactSizeIterator<Item = SwitchId> + use<> {
        (0..self.switches.len()).map(SwitchId::at)
    }
    /// Ids of all terminals.
    pub fn terminal_ids(&self) -> impl ExactSizeIterator<Item = TerminalId> + use<> {
        (0..self.terminals.len()).map(TerminalId::at)
    }
    /// Ids of all channels.
    pub fn channel_ids(&self) -> impl ExactSizeIterator<Item = ChannelId> + use<> {
        (0..self.channels.len()).map(ChannelId::at)
    }
    /// Ids of the terminals that are hosts, ascending.
    pub fn host_ids(&self) -> impl Iterator<Item = TerminalId> + '_ {
        self.terminal_ids().filter(|t| self.is_host(*t))
    }
    /// Whether a terminal is a host.
    pub fn is_host(&self, t: TerminalId) -> bool {
        self.terminal(t).role == Role::Host
    }
    /// Whether a destination is a host.
    pub fn is_host_dest(&self, d: DestId) -> bool {
        self.dest_terminal(d).is_some_and(|t| self.is_host(t))
    }
    /// Hosts that are attached to a switch.
    pub fn host_count(&self, s: SwitchId) -> usize {
        self.attached(s).iter().filter(|t| self.is_host(**t)).count()
    }
    /// Whether some host is attached to a switch.
    pub fn has_hosts(&self, s: SwitchId) -> bool {
        self.attached(s).iter().any(|t| self.is_host(*t))
    }
    /// Channels that leave a switch, by port number.
    #[inline]
    pub fn out(&self, s: SwitchId) -> &[ChannelId] {
        &self.out[self.out_start[s.index()] as usize..self.out_start[s.index() + 1] as usize]
    }
    /// Terminals attached to a switch, by port number.
    pub fn attached(&self, s: SwitchId) -> &[TerminalId] {
        let i = s.index();
        &self.attached[self.attached_start[i] as usize..self.attached_start[i + 1] as usize]
    }
    /// What a port leads to; `None` if the switch has no such port. Port 0 leads to nothing.
    pub fn peer(&self, s: SwitchId, port: PortNum) -> Option<PortPeer> {
        let start = self.peer_start[s.index()] as usize;
        let end = self.peer_start[s.index() + 1] as usize;
        self.peers[start..end].get(usize::from(port.get())).copied()
    }
    /// Number of destinations: terminals and switches.
    pub fn dest_count(&self) -> usize {
        self.terminals.len() + self.switches.len()
    }
    /// Ids of all destinations: terminals first, then switches.
    pub fn dest_ids(&self) -> impl ExactSizeIterator<Item = DestId> + use<> {
        (0..self.dest_count()).map(DestId::at)
    }
    /// The destination that is this terminal.
    #[inline]
    pub fn dest_of_terminal(&self, t: TerminalId) -> DestId {
        DestId(t.0)
    }
    /// The destination that is this switch's management port.
    pub fn dest_of_switch(&self, s: SwitchId) -> DestId {
        DestId::at(self.terminals.len() + s.index())
    }
    /// The terminal that is this destination; `None` for a switch.
    pub fn dest_terminal(&self, d: DestId) -> Option<TerminalId> {
        (d.index() < self.terminals.len()).then_some(TerminalId(d.0))
    }
    /// The switch at which routes to this destination end.
    pub fn home(&self, d: DestId) -> SwitchId {
        match self.dest_terminal(d) {
            Some(t) => self.terminal(t).switch,
            None => SwitchId::at(d.index() - self.terminals.len()),
        }
    }
    /// The egress port on the home switch: the terminal's, or 0 for the switch itself.
    pub fn last_port(&self, d: DestId) -> PortNum {
        self.dest_terminal(d).map_or(PortNum::ZERO, |t| self.terminal(t).port)
    }
    /// Port GUID of a terminal, node GUID of a switch.
    pub fn dest_guid(&self, d: DestId) -> Guid {
        match self.dest_terminal(d) {
            Some(t) => self.terminal(t).port_guid,
            None => self.switch(self.home(d)).guid,
        }
    }
    /// The switch with this GUID. O(log switches).
    pub fn switch_by_guid(&self, guid: Guid) -> Option<SwitchId> {
        self.switches.binary_search_by_key(&guid, |s| s.guid).ok().map(SwitchId::at)
    }
    /// Local id of a destination.
    pub fn lid(&self, d: DestId) -> Lid {
        match self.dest_terminal(d) {
            Some(t) => self.terminal(t).lid,
            None => self.switch(self.home(d)).lid,
        }
    }
    /// Description of a destination.
    pub fn description(&self, d: DestId) -> &str {
        match self.dest_terminal(d) {
            Some(t) => &self.terminal(t).description,
            None => &self.switch(self.home(d)).description,
        }
    }
    /// What a generator knows of the structure, or what was recognised.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// The same fabric, known to be of this shape: [`Shape::Grid::coords`] by [`SwitchId`].
    pub fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }
    /// Identity of the cabling.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
    /// Connected part of each switch: those with equal numbers are connected. O(channels).
    pub fn parts(&self) -> Vec<u32> {
        let mut sets = UnionFind::<u32>::new(self.switches.len());
        for c in self.channels.iter().step_by(2) {
            sets.union(c.from.index() as u32, c.to.index() as u32);
        }
        sets.into_labeling()
    }
    /// A short human name of a channel: `description[port] -> description[port]`.
    pub fn channel_name(&self, c: ChannelId) -> String {
        let ch = self.channel(c);
        let (from, to) = (self.switch(ch.from), self.switch(ch.to));
        format!("{}[{}] -> {}[{}]", from.description, ch.from_port, to.description, ch.to_port)
    }

    /// The same fabric without some cables and switches (and what is attached to those). LIDs and
    /// GUIDs stay, dense ids do not. O(size of the fabric).
    pub fn without(
        &self,
        cut: impl Fn(ChannelId) -> bool,
        dead: impl Fn(SwitchId) -> bool,
    ) -> Result<Fabric, FabricError> {
        self.keeping(cut, dead, |_| false)
    }

    /// The same fabric without some terminals. LIDs, GUIDs and ids of switches stay, ids of terminals
    /// do not. O(size of the fabric).
    pub fn without_terminals(&self, gone: impl Fn(TerminalId) -> bool) -> Result<Fabric, FabricError> {
        self.keeping(|_| false, |_| false, gone)
    }

    /// The same fabric, of the same fingerprint, that takes aggregation nodes and routers for hosts. O(size of the fabric).
    pub(crate) fn all_hosts(&self) -> Fabric {
        let mut all = self.clone();
        all.terminals.iter_mut().for_each(|t| t.role = Role::Host);
        all
    }

    /// The same fabric without some cables, switches and terminals. LIDs and GUIDs stay, ids of switches if all do.
    /// O(size of the fabric).
    pub(crate) fn keeping(
        &self,
        cut: impl Fn(ChannelId) -> bool,
        dead: impl Fn(SwitchId) -> bool,
        gone: impl Fn(TerminalId) -> bool,
    ) -> Result<Fabric, FabricError> {
        let mut builder = FabricBuilder::default();
        let mut kept = vec![None; self.switches.len()];
        for s in self.switch_ids().filter(|s| !dead(*s)) {
            let switch = self.switch(s);
            kept[s.index()] =
                Some(builder.switch(switch.guid, switch.ports, Some(switch.lid), &switch.description)?);
        }
        for t in self.terminal_ids().filter(|t| !gone(*t)) {
            let t = self.terminal(t);
            if let Some(s) = kept[t.switch.index()] {
                builder.terminal(NewTerminal::like(t, s))?;
            }
        }
        for c in self.channel_ids().step_by(2).filter(|c| !cut(*c) && !cut(c.reverse())) {
            let ch = self.channel(c);
            if let (Some(a), Some(b)) = (kept[ch.from.index()], kept[ch.to.index()]) {
                builder.cable(a, ch.from_port, b, ch.to_port)?;
            }
        }
        if let Shape::Grid { sizes, wrap, coords } = &self.shape {
            let rows = coords.chunks(sizes.len()).zip(&kept).filter(|(_, k)| k.is_some());
            let coords = rows.flat_map(|(row, _)| row.iter().copied()).collect();
            builder.shape(Shape::Grid { sizes: sizes.clone(), wrap: wrap.clone(), coords });
        }
        builder.build()
    }
}
