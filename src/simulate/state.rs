//! What the simulator keeps of links, lanes and packets, and what routings may see of it.

use super::net::Net;
use super::router::{Header, Hop};

/// No packet, no lane.
pub(super) const NONE: u32 = u32::MAX;

/// A list that is linked through its members.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };
}

/// What is free ahead of a packet on one lane of one link. Indexed by [`Places`].
#[derive(Debug, Clone, Copy)]
#[repr(align(4))]
pub(super) struct Space {
    /// Flits that the sender may still send: room in the input buffer, as far as it knows.
    pub(super) credit: u16,
    /// Flits free in the output buffer.
    pub(super) room: u16,
}

/// The order of lanes in memory: for adaptive routings one lane of all links of a switch in a row,
/// since they look at these together; else all lanes of a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    lane: usize,
    link: usize,
}

impl Places {
    pub(super) fn new(adaptive: bool, links: usize, lanes: usize) -> Self {
        if adaptive { Self { lane: links, link: 1 } } else { Self { lane: 1, link: lanes } }
    }
    #[inline]
    pub(super) fn of(self, link: u32, lane: u32) -> usize {
        link as usize * self.link + lane as usize * self.lane
    }
}

/// A packet is on its way onto the cable of a link.
pub(super) const SENDING: u32 = 1 << 16;
/// Bit per lane of a link whose output buffer the crossbar fills.
pub(super) const FILLING: u32 = 0xffff;

/// Whether the crossbar cannot begin to fill the buffer of a lane now, by what the link is doing.
#[inline(always)]
pub(super) fn is_filling(doing: u32, lane: u32, parallel: u32) -> bool {
    doing & (1 << lane) != 0 || is_full(doing, parallel)
}

/// Whether the crossbar fills so many buffers of the link that it cannot begin with any other.
#[inline(always)]
pub(super) fn is_full(doing: u32, parallel: u32) -> bool {
    // Counting bits takes a dozen instructions, and one at a time is usual.
    match parallel {
        0 => false,
        1 => doing & FILLING != 0,
        _ => (doing & FILLING).count_ones() >= parallel,
    }
}

/// The lanes in `mask`, in turn from `from`.
#[inline(always)]
pub(super) fn in_turn(mask: u16, from: u8) -> impl Iterator<Item = u8> {
    let mut left = mask.rotate_right(u32::from(from) & 15);
    std::iter::from_fn(move || {
        let lane = (left.trailing_zeros() as u8 + from) & 15;
        let some = left != 0;
        left &= left.wrapping_sub(1);
        some.then_some(lane)
    })
}

/// One lane of one link at its sender. Indexed `link * lanes + lane`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Out {
    /// Packets in the output buffer, first come first.
    pub(super) output: List,
    /// First packets of input lanes that wait for this output.
    pub(super) waiting: List,
}

/// One link.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct Link {
    /// Ticks that it spent sending.
    pub(super) busy: u64,
    /// [`SENDING`] and [`FILLING`].
    pub(super) doing: u32,
    /// Receiving switch; [`NONE`] for a link to a terminal.
    pub(super) to: u32,
    /// Packets that the receiving port is sending on.
    pub(super) reading: u8,
    /// Next lane in turn: for the cable, for the crossbar.
    pub(super) cable_turn: u8,
    pub(super) crossbar_turn: u8,
    /// Lanes whose output buffer has packets.
    pub(super) ready: u16,
    /// Lanes that packets wait for.
    pub(super) wanted: u16,
    /// Lanes of the input port whose first packet waits for the port itself.
    pub(super) parked: u16,
    /// Lanes of the input port of which a packet is being read.
    pub(super) read: u16,
}

impl Link {
    /// Nothing is on it.
    pub(super) fn idle(net: &Net, link: usize) -> Self {
        let (channels, terminals) = (net.channels(), net.terminals());
        let to = match link {
            _ if link < channels => net.to(link as u32),
            _ if link < channels + terminals => net.home((link - channels) as u32),
            _ => NONE,
        };
        Self {
            busy: 0,
            doing: 0,
            to,
            reading: 0,
            cable_turn: 0,
            crossbar_turn: 0,
            ready: 0,
            wanted: 0,
            parked: 0,
            read: 0,
        }
    }
}

/// A packet on its way: what every switch looks at. Slots are reused.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Packet {
    pub(super) header: Header,
    /// In its buffer.
    pub(super) next: u32,
    /// Among those that wait for one output.
    pub(super) behind: u32,
    /// The input lane that it is in or on its way to: `link * lanes + lane`.
    pub(super) input: u32,
    /// What it chose.
    pub(super) out: u32,
    pub(super) out_lane: u8,
    /// It needs room for a second one.
    pub(super) bubble: bool,
    /// It waits for the output that it chose.
    pub(super) waits: bool,
    /// Ticks on a cable.
    pub(super) ticks: u32,
    /// Payload.
    pub(super) bytes: u32,
    /// When its last byte is in the input buffer.
    pub(super) tail: u64,
}

impl Packet {
    #[inline(always)]
    pub(super) fn hop(&self) -> Hop {
        Hop { link: self.out, lane: self.out_lane, bubble: self.bubble }
    }
    #[inline(always)]
    pub(super) fn take_hop(&mut self, hop: Hop) {
        (self.out, self.out_lane, self.bubble) = (hop.link, hop.lane, hop.bubble);
    }
}

/// What only terminals look at. Same index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    /// When its message was made.
    pub(super) born: u64,
    pub(super) tag: u32,
    /// Last packet of its message.
    pub(super) last: bool,
}

/// What routings see of the buffers.
pub struct View<'a> {
    /// The network.
    pub net: &'a Net,
    pub(super) links: &'a [Link],
    pub(super) parallel_fills: u32,
    pub(super) space: &'a [Space],
    pub(super) places: Places,
    pub(super) lanes: usize,
    pub(super) input_flits: i32,
    pub(super) output_flits: i32,
}

/// A [`View`] of a simulator that borrows its generator not.
macro_rules! view {
    ($simulator:expr) => {
        $crate::simulate::state::View {
            net: $simulator.net,
            links: &$simulator.links,
            parallel_fills: $simulator.settings.parallel_fills.into(),
            space: &$simulator.space,
            places: $simulator.places,
            lanes: 1 << $simulator.size.shift,
            input_flits: $simulator.settings.input_flits as i32,
            output_flits: $simulator.settings.output_flits as i32,
        }
    };
}
pub(super) use view;

/// What is ahead on one lane of one link.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// Flits waiting: in the output buffer, and in the next input buffer as far as credits tell
    /// (the queue occupancy q of the Polarized paper).
    pub occupancy: u32,
    /// Flits that could go on now.
    pub takes: i32,
}

impl View<'_> {
    #[inline]
    fn occupancy(&self, space: Space) -> u32 {
        ((self.output_flits + self.input_flits) - (i32::from(space.room) + i32::from(space.credit))).max(0)
            as u32
    }
    #[inline]
    fn ahead_of(&self, space: Space, doing: u32, lane: u32) -> Ahead {
        let occupancy = self.occupancy(space);
        let (blocked, free) = if self.output_flits == 0 {
            (doing & SENDING != 0, space.credit.into())
        } else {
            (is_filling(doing, lane, self.parallel_fills), space.room.into())
        };
        Ahead { occupancy, takes: if blocked { 0 } else { free } }
    }
    /// What is ahead on a lane of a link.
    #[inline]
    pub fn ahead_on(&self, link: u32, lane: u8) -> Ahead {
        let lane = u32::from(lane);
        self.ahead_of(self.space[self.places.of(link, lane)], self.links[link as usize].doing, lane)
    }
    /// Flits waiting on a lane of a link.
    #[inline]
    pub fn occupancy_on(&self, link: u32, lane: u8) -> u32 {
        self.occupancy(self.space[self.places.of(link, lane.into())])
    }
    /// Most flits that can wait ahead on one lane of a link.
    #[inline]
    pub fn queue(&self) -> u32 {
        (self.output_flits + self.input_flits) as u32
    }
    /// Flits waiting ahead on all lanes of a link.
    #[inline]
    pub fn occupancy_of_link(&self, link: u32) -> u32 {
        (0..self.lanes).map(|v| self.occupancy_on(link, v as u8)).sum()
    }
}
