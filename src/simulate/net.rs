//! A fabric as the simulator sees it: switches, terminals and directed links in flat arrays.

use std::ops::Range;

use crate::model::{Channel, ChannelId, Direction, Fabric, Role, Shape, Torus};

/// No link.
pub const NO_LINK: u32 = u32::MAX;

/// A switched fabric or a direct torus as links.
///
/// Link `l` is a channel between switches for `l < channels`, numbered by sending switch (those of
/// one switch next to each other, in the order of the fabric's numbers); then come the links from each terminal to its switch ([`Net::injection`]), then those
/// to each terminal ([`Net::ejection`]). A node of a direct torus is a switch with one terminal.
#[derive(Debug, Clone)]
pub struct Net {
    pub(super) switches: usize,
    pub(super) channels: usize,
    /// Sending and receiving switch by channel.
    pub(super) from: Vec<u32>,
    pub(super) to: Vec<u32>,
    /// `ports[link]`: sending and receiving port of each link, 0 at a terminal. Empty for a direct torus.
    ports: Vec<[u8; 2]>,
    /// Switch by terminal.
    pub(super) home: Vec<u32>,
    /// Terminals that take part in traffic, ascending.
    hosts: Vec<u32>,
    /// Channels `out_start[s]..out_start[s + 1]` leave switch `s`.
    out_start: Vec<u32>,
    /// `behind[switch * stride + port]`: the link that leaves through a port, or [`NO_LINK`].
    behind: Vec<u32>,
    stride: usize,
    names: Vec<String>,
    pub(super) grid: Option<NetGrid>,
}

/// Coordinates of the switches of a torus or mesh.
#[derive(Debug, Clone)]
pub(super) struct NetGrid {
    pub(super) sizes: Vec<u16>,
    pub(super) wrap: Vec<bool>,
    /// `coords[switch * sizes.len() + dimension]`.
    pub(super) coords: Vec<u16>,
}

impl Net {
    /// From a switched fabric. O(its size).
    pub fn of_fabric(fabric: &Fabric) -> Self {
        let mut ids: Vec<ChannelId> = fabric.channel_ids().collect();
        ids.sort_by_key(|c| fabric.channel(*c).from);
        let channels: Vec<Channel> = ids.iter().map(|c| *fabric.channel(*c)).collect();
        let (switches, terminals) = (fabric.switches().len(), fabric.terminals().len());
        let stride = fabric.switches().iter().map(|s| usize::from(s.ports) + 1).max().unwrap_or(1);
        let mut behind = vec![NO_LINK; stride * switches];
        for (i, c) in channels.iter().enumerate() {
            behind[c.from.index() * stride + usize::from(c.from_port.get())] = i as u32;
        }
        for (i, t) in fabric.terminals().iter().enumerate() {
            let link = channels.len() + terminals + i;
            behind[t.switch.index() * stride + usize::from(t.port.get())] = link as u32;
        }
        let grid = match fabric.shape() {
            Shape::Grid { sizes, wrap, coords } => {
                Some(NetGrid { sizes: sizes.clone(), wrap: wrap.clone(), coords: coords.clone() })
            }
            Shape::Unknown | Shape::Irregular(_) => None,
        };
        let host = |t: &usize| fabric.terminals()[*t].role == Role::Host;
        let injections = fabric.terminals().iter().map(|t| [0, t.port.get()]);
        let ejections = fabric.terminals().iter().map(|t| [t.port.get(), 0]);
        let own = channels.iter().map(|c| [c.from_port.get(), c.to_port.get()]);
        let ports = own.chain(injections).chain(ejections).collect();
        let mut net = Self {
            switches,
            channels: channels.len(),
            from: channels.iter().map(|c| c.from.index() as u32).collect(),
            to: channels.iter().map(|c| c.to.index() as u32).collect(),
            ports,
            home: fabric.terminals().iter().map(|t| t.switch.index() as u32).collect(),
            hosts: (0..terminals).filter(host).map(|t| t as u32).collect(),
            out_start: Vec::new(),
            behind,
            stride,
            names: ids.into_iter().map(|c| fabric.channel_name(c)).collect(),
            grid,
        };
        net.index_out();
        net
    }

    /// One ideal switch with so many terminals: it has no ports, which would be 254 at most.
    pub fn crossbar(terminals: usize) -> Self {
        Self {
            switches: 1,
            channels: 0,
            from: Vec::new(),
            to: Vec::new(),
            ports: Vec::new(),
            home: vec![0; terminals],
            hosts: (0..terminals as u32).collect(),
            out_start: vec![0; 2],
            behind: Vec::new(),
            stride: 0,
            names: Vec::new(),
            grid: None,
        }
    }

    /// From a direct torus: one channel per working direction of each node, one terminal per
    /// healthy node (`terminal = node` also where nodes failed, which then take no part).
    pub fn of_torus(torus: &Torus) -> Self {
        let (mut from, mut to, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let stride = crate::model::torus::DIRECTIONS;
        let mut behind = vec![NO_LINK; stride * torus.len()];
        for node in torus.nodes() {
            for direction in Direction::all() {
                if let Some(next) = torus.neighbour(node, direction) {
                    behind[node.index() * stride + direction.index()] = from.len() as u32;
                    from.push(node.index() as u32);
                    to.push(next.index() as u32);
                    names.push(format!("{}{direction}", torus.coords(node)));
                }
            }
        }
        let mut net = Self {
            switches: torus.len(),
            channels: from.len(),
            from,
            to,
            ports: Vec::new(),
            home: (0..torus.len() as u32).collect(),
            hosts: torus.healthy_nodes().iter().map(|n| n.index() as u32).collect(),
            out_start: Vec::new(),
            behind,
            stride,
            names,
            grid: Some(NetGrid {
                sizes: torus.sizes().iter().map(|s| u16::from(*s)).collect(),
                wrap: (0..torus.dims()).map(|d| torus.is_ring(d)).collect(),
                coords: torus
                    .nodes()
                    .flat_map(|n| {
                        torus.coords(n).as_slice().iter().map(|c| u16::from(*c)).collect::<Vec<_>>()
                    })
                    .collect(),
            }),
        };
        net.index_out();
        net
    }

    fn index_out(&mut self) {
        let mut count = vec![0u32; self.switches + 1];
        self.from.iter().for_each(|s| count[*s as usize + 1] += 1);
        for s in 0..self.switches {
            count[s + 1] += count[s];
        }
        self.out_start = count;
    }

    /// Number of switches.
    #[inline]
    pub fn switches(&self) -> usize {
        self.switches
    }
    /// Number of directed channels between switches.
    #[inline]
    pub fn channels(&self) -> usize {
        self.channels
    }
    /// Number of terminals, those that take no part included.
    #[inline]
    pub fn terminals(&self) -> usize {
        self.home.len()
    }
    /// Number of links.
    #[inline]
    pub fn links(&self) -> usize {
        self.channels + 2 * self.home.len()
    }
    /// Terminals that take part in traffic, ascending.
    pub fn hosts(&self) -> &[u32] {
        &self.hosts
    }
    /// Channels that leave a switch.
    #[inline]
    pub fn out(&self, switch: u32) -> Range<u32> {
        let s = switch as usize;
        self.out_start[s]..self.out_start[s + 1]
    }
    /// Receiving switch of a channel.
    #[inline]
    pub fn to(&self, channel: u32) -> u32 {
        self.to[channel as usize]
    }
    /// The switch of a terminal.
    #[inline]
    pub fn home(&self, terminal: u32) -> u32 {
        self.home[terminal as usize]
    }
    /// The link from a terminal to its switch.
    #[inline]
    pub fn injection(&self, terminal: u32) -> u32 {
        self.channels as u32 + terminal
    }
    /// The link from its switch to a terminal.
    #[inline]
    pub fn ejection(&self, terminal: u32) -> u32 {
        (self.channels + self.home.len()) as u32 + terminal
    }
    /// The link that leaves a switch through a port (or direction), or [`NO_LINK`].
    #[inline]
    pub fn behind(&self, switch: u32, port: u8) -> u32 {
        let port = usize::from(port);
        if port < self.stride { self.behind[switch as usize * self.stride + port] } else { NO_LINK }
    }
    /// Sending and receiving port of a link of a switched fabric; 0 at a terminal.
    pub fn ports(&self, link: u32) -> [u8; 2] {
        self.ports[link as usize]
    }
    /// Name of a link for people.
    pub fn link_name(&self, link: u32) -> String {
        let (l, terminals) = (link as usize, self.home.len());
        if l < self.channels {
            self.names[l].clone()
        } else if l < self.channels + terminals {
            format!("terminal {} -> its switch", l - self.channels)
        } else {
            format!("switch -> terminal {}", l - self.channels - terminals)
        }
    }
}
