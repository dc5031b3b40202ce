//! What the simulator keeps of links, lanes and packets, and what routings may see of it.

use super::net::Net;
use super::router::Header;

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

/// One lane of one link at its sender. Indexed `link * lanes + lane`, like [`In`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Out {
    /// Flits that the sender may still send: room in the input buffer, as far as it knows.
    pub(super) credit: i32,
    /// Flits free in the output buffer.
    pub(super) room: i32,
    /// Packets in the output buffer, first come first.
    pub(super) output: List,
    /// Input lanes whose first packet waits for this output.
    pub(super) waiting: List,
}

/// One lane of one link at its receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct In {
    /// Packets in the input buffer, first come first.
    pub(super) input: List,
    /// As a member of a list of waiting lanes.
    pub(super) next: u32,
    pub(super) prev: u32,
    /// Counts first packets: tells a late reconsideration from a due one.
    pub(super) turn: u16,
    /// The first packet waits in a list.
    pub(super) in_list: bool,
    /// A packet is being read.
    pub(super) read: bool,
}

/// One link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// Receiving switch; [`NONE`] for a link to a terminal.
    pub(super) to: u32,
    /// A packet is on its way onto the cable.
    pub(super) sending: bool,
    /// The crossbar fills the output buffer.
    pub(super) filling: bool,
    /// Packets that the receiving port is sending on.
    pub(super) reading: u8,
    /// Next lane in turn: for the cable, for the crossbar.
    pub(super) cable_turn: u8,
    pub(super) crossbar_turn: u8,
    /// Lanes whose output buffer has packets.
    pub(super) ready: u16,
    /// Lanes that input lanes wait for.
    pub(super) wanted: u16,
    /// Lanes of the input port whose first packet waits for the port itself.
    pub(super) parked: u16,
    /// Ticks spent sending.
    pub(super) busy: u64,
    /// Packets sent.
    pub(super) sent: u64,
}

/// A packet on its way: what every switch looks at. Slots are reused.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Packet {
    pub(super) header: Header,
    /// In whatever list it is.
    pub(super) next: u32,
    /// The link it is on or last came by.
    pub(super) link: u32,
    /// What it chose.
    pub(super) out: u32,
    pub(super) out_lane: u8,
    pub(super) bubble: bool,
    /// Ticks on a cable.
    pub(super) ticks: u32,
    /// When its last byte is in the input buffer.
    pub(super) tail: u64,
}

/// What only terminals look at. Same index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    /// When its message was made.
    pub(super) born: u64,
    /// Payload.
    pub(super) bytes: u32,
    pub(super) tag: u32,
    /// Last packet of its message.
    pub(super) last: bool,
}

/// What routings see of the buffers.
pub struct View<'a> {
    /// The network.
    pub net: &'a Net,
    pub(super) links: &'a [Link],
    pub(super) outs: &'a [Out],
    pub(super) per_link: usize,
    pub(super) input_flits: i32,
    pub(super) output_flits: i32,
}

impl View<'_> {
    #[inline]
    fn lane(&self, link: u32, lane: u8) -> &Out {
        &self.outs[link as usize * self.per_link + usize::from(lane)]
    }
    /// Flits waiting ahead on a lane: in the output buffer, and in the next input buffer as far as
    /// credits tell (the queue occupancy q of the Polarized paper).
    #[inline]
    pub fn occupancy(&self, link: u32, lane: u8) -> u32 {
        let l = self.lane(link, lane);
        ((self.output_flits - l.room) + (self.input_flits - l.credit)).max(0) as u32
    }
    /// The same over all lanes of a link.
    #[inline]
    pub fn occupancy_of_link(&self, link: u32) -> u32 {
        (0..self.per_link).map(|v| self.occupancy(link, v as u8)).sum()
    }
    /// Whether a packet of so many flits could go on now.
    #[inline]
    pub fn takes(&self, link: u32, lane: u8, flits: u16) -> bool {
        let l = self.lane(link, lane);
        if self.output_flits == 0 {
            !self.links[link as usize].sending && l.credit >= i32::from(flits)
        } else {
            !self.links[link as usize].filling && l.room >= i32::from(flits)
        }
    }
}
