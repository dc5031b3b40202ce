//! What a simulator holds beside the network's state: numbers, times, events to come, lists of what is to be looked at.

use super::engine::Times;
use super::wheel::Wheel;

/// Numbers of things.
pub(super) struct Size {
    /// log2 of lanes per link.
    pub(super) shift: u32,
    /// Those of the network.
    pub(super) channels: u32,
    pub(super) terminals: u32,
}

/// Times of the hardware, in ticks, and what depends on them.
pub(super) struct Pace {
    pub(super) link_delay: u64,
    pub(super) head_delay: u64,
    /// From the end of a packet's way through the crossbar to its credits.
    pub(super) credit_delay: u64,
    pub(super) reconsider: u64,
    /// Reciprocal of the speed-up; 0 for no limit.
    pub(super) fill: f64,
    pub(super) full_packet: Times,
    pub(super) full_flits: u32,
}

/// Events to come.
pub(super) struct Agenda {
    pub(super) wheel: Wheel,
    /// Its queue of arrivals, and that of a packet's time on a cable.
    pub(super) arrivals: usize,
    pub(super) cables: usize,
    /// Events to come that cannot move a packet by themselves.
    pub(super) idle: usize,
}

/// What is done in one of two ways.
pub(super) struct Habits {
    /// Whether the state is too large for the processor's nearer caches.
    pub(super) fetches: bool,
    /// Whether the routing looks at the lanes of all channels of a switch.
    pub(super) looks_around: bool,
    pub(super) any_first_lane: bool,
}

/// What is to be looked at in this tick.
pub(super) struct Due {
    pub(super) todo: Vec<u32>,
    /// With [`Settings::random_arbiter`](super::settings::Settings::random_arbiter): input lanes whose first packet waits,
    /// and links whose cable may take a packet.
    pub(super) asking: Vec<u32>,
    pub(super) sending: Vec<u32>,
    /// Terminals.
    pub(super) wake: Vec<u32>,
}
