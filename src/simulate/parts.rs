//! What a simulator holds beside the network's state: numbers, times, events to come, lists of what is to be looked at.

use super::engine::Times;
use super::settings::Settings;
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

impl Pace {
    pub(super) fn of(settings: &Settings, reconsiders: bool) -> Self {
        let link_delay = settings.ticks(settings.link_delay_ps);
        Self {
            link_delay,
            head_delay: settings.ticks(settings.link_delay_ps + settings.switch_delay_ps),
            // The arbiter knows in a tick what was moved in the one before.
            credit_delay: link_delay - u64::from(settings.random_arbiter),
            reconsider: if reconsiders { settings.ticks(settings.reconsider_ps) } else { 0 },
            fill: if settings.speed_up > 0.0 { 1.0 / settings.speed_up } else { 0.0 },
            full_packet: Times::of(settings, settings.mtu),
            full_flits: settings.flits(settings.mtu),
        }
    }
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

impl Agenda {
    /// None yet.
    pub(super) fn of(pace: &Pace) -> Self {
        let full = &pace.full_packet;
        let slowest = u64::from(full.link.max(full.injection).max(full.ejection).max(full.consumption));
        let (cable, head) = (u64::from(full.link), pace.head_delay);
        let delays = vec![cable, cable + pace.link_delay, pace.link_delay, head];
        let mut wheel = Wheel::new(delays, (2 * slowest + head).min(1 << 16));
        let back = wheel.line(cable + pace.link_delay);
        let (cable, head) = (wheel.line(cable), wheel.line(head));
        wheel.likely = [head, cable, cable, back, back, cable, 0, 0];
        Self { wheel, arrivals: head.into(), cables: cable.into(), idle: 0 }
    }
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
    /// With [`Settings::random_arbiter`]: input lanes whose first packet waits,
    /// and links whose cable may take a packet.
    pub(super) asking: Vec<u32>,
    pub(super) sending: Vec<u32>,
    /// Terminals.
    pub(super) wake: Vec<u32>,
}

impl Due {
    /// All hosts may begin.
    pub(super) fn at_first(hosts: &[u32]) -> Self {
        Self { todo: Vec::new(), asking: Vec::new(), sending: Vec::new(), wake: hosts.to_vec() }
    }
}
