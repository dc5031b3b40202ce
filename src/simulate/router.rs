//! Who says where a packet goes: [`Router`], and the routings that follow tables.

use super::fetch::prefetch;
use super::lanes::TurnLanes;
use super::net::{NO_LINK, Net};
use super::state::View;
use crate::model::rng::Rng;
use crate::model::{DestId, Fabric, SwitchId, Tables, TorusTables};

/// What a packet carries for its routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Sending terminal.
    pub src: u32,
    /// Receiving terminal.
    pub dst: u32,
    /// Switch of the sender.
    pub from: u32,
    /// Switch of the receiver.
    pub home: u32,
    /// Belongs to the routing: an intermediate switch, a place in a list of steps.
    pub state: u32,
    /// Belongs to the routing as well.
    pub phase: u8,
    /// Channels between switches taken so far.
    pub hops: u16,
    /// The lane it is on.
    pub lane: u8,
    /// Service level that its sender chose; only some routings look at it.
    pub sl: u8,
    /// Which LID of its receiver it is sent to: 0 for the base LID; only some routings look at it.
    pub lid: u8,
    /// Its size.
    pub flits: u16,
}

impl Header {
    /// The lane of its next hop in routings with a lane for each hop, at most 16.
    #[inline]
    pub fn lane_of_hop(&self) -> u8 {
        self.hops as u8
    }
}

/// One decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The link to take.
    pub link: u32,
    /// The lane on it.
    pub lane: u8,
    /// Enter only if a second packet would fit too (bubble flow control: what enters a ring of
    /// channels leaves room for what is on it).
    pub bubble: bool,
}

impl Hop {
    /// A link and a lane.
    #[inline]
    pub fn to(link: u32, lane: u8) -> Self {
        Self { link, lane, bubble: false }
    }
}

/// A routing. The simulator calls it once per packet at its terminal and once per switch; it
/// must lead every packet to its terminal.
pub trait Router: Sync {
    /// Whether a switch may have no way for a packet, which is then lost: [`Router::hop`] says [`NO_LINK`],
    /// or a link that [`Router::is_cut`].
    const LOSES: bool = false;
    /// Lanes it uses, 1 to 16.
    fn lanes(&self) -> u8;
    /// Whether decisions depend on what is in the buffers: then waiting packets may choose anew.
    fn is_adaptive(&self) -> bool {
        false
    }
    /// Whether a packet may leave its terminal on any lane, because the lanes of its hops do not
    /// depend on it.
    fn starts_anywhere(&self) -> bool {
        self.is_adaptive()
    }
    /// Packets that a buffer which packets wait for must have room for: two under the bubble rule ([`Hop::bubble`]).
    fn least_room(&self) -> u32 {
        1
    }
    /// The first of some pairs of switches, sender and receiver, between which packets have no way. None may be sent there.
    fn unconnected(&self, _pairs: impl Iterator<Item = (u32, u32)>) -> Option<(u32, u32)> {
        None
    }
    /// A packet is about to leave its terminal: sets up the header, says on which lane.
    #[inline]
    fn inject(&self, _header: &mut Header, _view: &View<'_>, _rng: &mut Rng) -> u8 {
        0
    }
    /// A packet is first in its buffer at switch `at`: where to. At the home switch that is
    /// usually the terminal's link. Must not change the header: it may be called again for the same hop.
    fn hop(&self, at: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop;
    /// Whether a link is dead; asked only where packets may be lost.
    #[inline]
    fn is_cut(&self, _link: u32) -> bool {
        false
    }
    /// Has brought near what [`Router::hop`] is going to read; called some events ahead.
    #[inline]
    fn fetch(&self, _at: u32, _header: &Header) {}
    /// The link that [`Router::hop`] is going to say, if that is settled, or [`NO_LINK`].
    #[inline]
    fn foresee(&self, _at: u32, _header: &Header) -> u32 {
        NO_LINK
    }
    /// The packet takes the hop.
    #[inline]
    fn taken(&self, _header: &mut Header, _hop: Hop) {}
}

/// Tables that cannot carry traffic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    /// A route does not arrive.
    #[error("there is no route from switch {switch} to {destination}")]
    NoRoute {
        /// Description of the switch, or coordinates.
        switch: String,
        /// Description of the terminal, or coordinates.
        destination: String,
    },
    /// A route cannot arrive: no cables lead there.
    #[error("no cables join switch {switch} with {destination}, and a simulation has all hosts in one part")]
    Apart {
        /// Description of the switch.
        switch: String,
        /// Description of the terminal.
        destination: String,
    },
    /// The routing cannot work here.
    #[error("{router} cannot route this fabric: {reason}")]
    NotApplicable {
        /// The routing.
        router: &'static str,
        /// What it misses.
        reason: String,
    },
}

/// Follows destination-based tables, each packet on the layer of its route, or with a lane map on the
/// lane of each turn.
pub struct TableRouter<'a> {
    net: &'a Net,
    fabric: &'a Fabric,
    tables: &'a Tables,
    lanes: u8,
    turns: Option<TurnLanes>,
    /// `slots[switch * terminals + destination]`: which of the switch's channels, [`NO_SLOT`] for
    /// none. By switch, since packets at a switch at one time often go to neighbouring numbers.
    slots: Vec<u8>,
    /// Layers in the same order; empty if there is one only. A terminal often sends to
    /// neighbouring numbers one after the other.
    layers: Vec<u8>,
}

/// No channel.
const NO_SLOT: u8 = u8::MAX;

impl<'a> TableRouter<'a> {
    /// Checks that each host is reached from each switch with hosts. O(hosts × switches).
    ///
    /// # Errors
    /// [`RouterError::NoRoute`] with the first route that is missing.
    pub fn new(fabric: &'a Fabric, net: &'a Net, tables: &'a Tables) -> Result<Self, RouterError> {
        let lanes = tables.vls_used().max(1);
        let turns = tables.lanes().map(|map| TurnLanes::new(fabric, net, map));
        let mut router = Self { net, fabric, tables, lanes, turns, slots: Vec::new(), layers: Vec::new() };
        let mut with_hosts: Vec<u32> = net.hosts().iter().map(|t| net.home(*t)).collect();
        with_hosts.dedup();
        // Round in which a switch was found to reach the destination.
        let mut good = vec![u32::MAX; net.switches()];
        for &dst in net.hosts() {
            good[net.home(dst) as usize] = dst;
            for &source in &with_hosts {
                router.check(source, dst, &mut good)?;
            }
        }
        router.index_slots();
        if tables.layers_used() > 1 {
            let switches = net.switches() as u32;
            router.layers = (0..switches)
                .flat_map(|s| (0..net.terminals() as u32).map(move |dst| (s, dst)))
                .map(|(s, dst)| router.layer(s, dst))
                .collect();
        }
        Ok(router)
    }

    fn index_slots(&mut self) {
        let terminals = self.net.terminals();
        self.slots = vec![NO_SLOT; self.net.switches() * terminals];
        for (at, row) in self.slots.chunks_mut(terminals.max(1)).enumerate() {
            let channels = self.net.out(at as u32);
            for (dst, slot) in row.iter_mut().enumerate() {
                let dst = dst as u32;
                let port = self.tables.ports_to(DestId(dst))[at];
                let link = self.net.behind(at as u32, port);
                if channels.contains(&link) {
                    *slot = (link - channels.start) as u8;
                }
            }
        }
    }

    #[inline]
    fn slot(&self, at: u32, dst: u32) -> u8 {
        self.slots[self.place(at, dst)]
    }

    #[inline]
    fn place(&self, at: u32, dst: u32) -> usize {
        at as usize * self.net.terminals() + dst as usize
    }

    fn check(&self, source: u32, dst: u32, good: &mut [u32]) -> Result<(), RouterError> {
        let (mut at, mut hops) = (source, 0);
        while good[at as usize] != dst && hops <= self.net.switches() {
            let link = self.link(at, dst);
            if link as usize >= self.net.channels() {
                return Err(self.missing(source, dst));
            }
            at = self.net.to(link);
            hops += 1;
        }
        let ends = self.link(self.net.home(dst), dst) == self.net.ejection(dst);
        if hops > self.net.switches() || !ends || self.layer(source, dst) >= 16 {
            return Err(self.missing(source, dst));
        }
        let mut at = source;
        while good[at as usize] != dst {
            good[at as usize] = dst;
            at = self.net.to(self.link(at, dst));
        }
        Ok(())
    }

    fn missing(&self, source: u32, dst: u32) -> RouterError {
        let (source, dst) = (SwitchId(source), DestId(dst));
        let switch = self.fabric.switch(source).description.clone();
        let destination = self.fabric.description(dst).to_string();
        let parts = self.fabric.parts();
        if parts[source.index()] != parts[self.fabric.home(dst).index()] {
            return RouterError::Apart { switch, destination };
        }
        RouterError::NoRoute { switch, destination }
    }

    #[inline]
    fn link(&self, at: u32, dst: u32) -> u32 {
        let port = self.tables.ports_to(DestId(dst))[at as usize];
        self.net.behind(at, port)
    }

    fn layer(&self, source: u32, dst: u32) -> u8 {
        self.tables.layers_to(DestId(dst))[source as usize]
    }
}

impl Router for TableRouter<'_> {
    fn lanes(&self) -> u8 {
        self.lanes
    }
    fn inject(&self, header: &mut Header, _view: &View<'_>, _rng: &mut Rng) -> u8 {
        let sl = self.layers.get(self.place(header.from, header.dst)).copied().unwrap_or(0);
        match &self.turns {
            None => sl,
            Some(turns) => turns.inject(header, sl, self.net),
        }
    }
    #[inline]
    fn hop(&self, at: u32, header: &Header, _view: &View<'_>, _rng: &mut Rng) -> Hop {
        let link = self.foresee(at, header);
        let lane = self.turns.as_ref().map_or(header.lane, |turns| turns.lane(at, header, link, self.net));
        Hop::to(link, lane)
    }
    #[inline]
    fn taken(&self, header: &mut Header, hop: Hop) {
        if self.turns.is_some() {
            header.state = self.net.ports(hop.link)[1].into();
        }
    }
    #[inline]
    fn fetch(&self, at: u32, header: &Header) {
        prefetch(&self.slots, self.place(at, header.dst));
    }
    #[inline]
    fn foresee(&self, at: u32, header: &Header) -> u32 {
        if at == header.home {
            return self.net.ejection(header.dst);
        }
        self.net.out(at).start + u32::from(self.slot(at, header.dst))
    }
}

/// Hands each packet to its terminal, in a network of one switch.
pub struct Crossbar<'a>(pub &'a Net);

impl Router for Crossbar<'_> {
    fn lanes(&self) -> u8 {
        1
    }
    #[inline]
    fn hop(&self, _at: u32, header: &Header, _view: &View<'_>, _rng: &mut Rng) -> Hop {
        Hop::to(self.0.ejection(header.dst), 0)
    }
}

/// Follows the routes of a direct torus. Packets enter a ring under the bubble rule, as the
/// router of the Angara network does (the paper, section 2.1), on one lane.
pub struct TorusRouter {
    /// Channels of all routes, in one list.
    steps: Vec<u32>,
    /// `starts[source * nodes + destination]` into `steps`.
    starts: Vec<u32>,
    /// Dimension and sign by channel.
    line: Vec<u8>,
    net: Net,
}

impl TorusRouter {
    /// From the routes of all jobs. Pairs without a route must not exchange traffic.
    ///
    /// # Errors
    /// [`RouterError::NoRoute`] if a route takes a channel that is not there.
    pub fn new(net: &Net, tables: &TorusTables) -> Result<Self, RouterError> {
        let n = net.switches();
        let mut router =
            Self { steps: Vec::new(), starts: vec![NO_LINK; n * n], line: Vec::new(), net: net.clone() };
        router.line = vec![0; net.channels()];
        for (source, destination, route) in tables.routes.iter().flat_map(|r| r.pairs()) {
            let (s, d) = (source.index(), destination.index());
            router.starts[s * n + d] = router.steps.len() as u32;
            let mut at = s as u32;
            for step in route {
                let direction = step.direction();
                let channel = net.behind(at, direction.index() as u8);
                if channel as usize >= net.channels() {
                    let (switch, destination) = (s.to_string(), d.to_string());
                    return Err(RouterError::NoRoute { switch, destination });
                }
                router.line[channel as usize] = direction.index() as u8;
                router.steps.push(channel);
                at = net.to(channel);
            }
            if at as usize != d {
                return Err(RouterError::NoRoute { switch: s.to_string(), destination: d.to_string() });
            }
        }
        Ok(router)
    }

    /// Whether there is a route.
    pub fn connects(&self, source: u32, destination: u32) -> bool {
        self.starts[source as usize * self.net.switches() + destination as usize] != NO_LINK
    }
}

impl Router for TorusRouter {
    fn lanes(&self) -> u8 {
        1
    }
    fn least_room(&self) -> u32 {
        2
    }
    fn unconnected(&self, mut pairs: impl Iterator<Item = (u32, u32)>) -> Option<(u32, u32)> {
        pairs.find(|(from, to)| from != to && !self.connects(*from, *to))
    }
    fn inject(&self, header: &mut Header, _view: &View<'_>, _rng: &mut Rng) -> u8 {
        header.state = self.starts[header.from as usize * self.net.switches() + header.home as usize];
        header.phase = u8::MAX;
        0
    }
    #[inline]
    fn hop(&self, at: u32, header: &Header, _view: &View<'_>, _rng: &mut Rng) -> Hop {
        if at == header.home {
            return Hop::to(self.net.ejection(header.dst), 0);
        }
        let link = self.steps[header.state as usize];
        Hop { link, lane: 0, bubble: self.line[link as usize] != header.phase }
    }
    #[inline]
    fn taken(&self, header: &mut Header, hop: Hop) {
        if (hop.link as usize) < self.line.len() {
            header.phase = self.line[hop.link as usize];
            header.state += 1;
        }
    }
}
