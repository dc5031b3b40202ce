//! `polarized`: Camarero, Martínez, Beivide, "Polarized Routing for Large Interconnection
//! Networks" (IEEE Micro 2022).

use std::ops::Range;

use super::{Best, Distances, lanes_for};
use crate::generate::rng::Rng;
use crate::simulate::net::Net;
use crate::simulate::router::{Header, Hop, Router, RouterError};
use crate::simulate::state::View;

/// What is added to the occupancy of a candidate, by how much its Δμ is below the greatest one
/// among the candidates, in 192nds of a queue (output and input buffer of a lane). The numbers are
/// the paper's (section "Routing Mechanisms"), which says that they depend on the length of its
/// queues, but not how long those are. With 192 Figure 4a has the paper's order on all patterns;
/// with 96 packets of one switch for a neighbour never leave the direct channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Penalties(pub [u32; 3]);

impl Default for Penalties {
    fn default() -> Self {
        Self([0, 64, 80])
    }
}

/// Takes any hop that does not lower μ = D(c, s) − D(c, t), under the rules of Table 1, by
/// occupancy plus penalty.
///
/// Each switch needs, per target, whether a port approaches it, stays level or departs from it
/// (−1, 0, 1): `turn[target * channels + channel]`.
pub struct Polarized<'a> {
    net: &'a Net,
    far: &'a Distances,
    turn: Vec<i8>,
    penalties: Penalties,
    lanes: u8,
}

impl<'a> Polarized<'a> {
    /// Lanes: twice the diameter, as long as any route the paper saw; a packet that could exceed
    /// it turns to shortest paths. O(switches × channels) memory.
    ///
    /// # Errors
    /// If 16 lanes are too few.
    pub fn new(net: &'a Net, far: &'a Distances, penalties: Penalties) -> Result<Self, RouterError> {
        let lanes = lanes_for("polarized", 2 * usize::from(far.diameter()))?;
        Ok(Self { net, far, turn: turns(net, far), penalties, lanes })
    }

    /// Change of the distance to `target` over a channel: the paper's table entry, −1, 0 or 1.
    #[inline]
    pub fn turn(&self, channel: u32, target: u32) -> i8 {
        self.turn[target as usize * self.net.channels() + channel as usize]
    }

    /// [`Polarized::turn`] of all channels of a switch.
    #[inline]
    fn turns(&self, channels: &Range<u32>, target: u32) -> &[i8] {
        let first = target as usize * self.net.channels();
        &self.turn[first + channels.start as usize..first + channels.end as usize]
    }
}

/// Δμ of a channel that Table 1 does not allow.
const FORBIDDEN: i8 = -1;

/// Δμ of a channel by its turns to source and destination.
#[inline]
fn gain(source: i8, destination: i8, nearer_source: bool) -> i8 {
    // Rows: turn to the source; columns: to the destination; −1, 0, 1 each.
    const GAINS: [[i8; 9]; 2] = [[0, -1, -1, 1, -1, -1, 2, 1, -1], [-1, -1, -1, 1, -1, -1, 2, 1, 0]];
    GAINS[usize::from(nearer_source)][(3 * source + destination + 4) as usize]
}

/// Distance changes, indexed `[target * channels + channel]`.
fn turns(net: &Net, far: &Distances) -> Vec<i8> {
    let mut turn = Vec::with_capacity(net.switches() * net.channels());
    for target in 0..net.switches() as u32 {
        for s in 0..net.channels() as u32 {
            let (a, b) = (far.of(net.from[s as usize], target), far.of(net.to(s), target));
            turn.push((b as i8).wrapping_sub(a as i8));
        }
    }
    turn
}

impl Router for Polarized<'_> {
    fn lanes(&self) -> u8 {
        self.lanes
    }
    fn is_adaptive(&self) -> bool {
        true
    }
    fn starts_anywhere(&self) -> bool {
        true
    }
    #[inline]
    fn fetch(&self, at: u32, header: &Header) -> u32 {
        let first = self.net.out(at).start as usize;
        let turn = |target: u32| self.turn.get(target as usize * self.net.channels() + first).copied();
        (turn(header.from).unwrap_or(0) ^ turn(header.home).unwrap_or(0)) as u32
    }
    fn inject(&self, _header: &mut Header, _view: &View<'_>, _rng: &mut Rng) -> u8 {
        0
    }
    fn hop(&self, at: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop {
        if at == header.home {
            return Hop::to(self.net.ejection(header.dst), 0);
        }
        let (lane, left) = (header.hops, i16::from(self.lanes - header.hops));
        let here = self.far.of(at, header.home);
        let nearer_source = self.far.of(at, header.from) < here;
        let channels = self.net.out(at);
        let turns = || self.turns(&channels, header.from).iter().zip(self.turns(&channels, header.home));
        let greatest = turns().map(|(s, d)| gain(*s, *d, nearer_source)).max().unwrap_or(0);
        let (mut best, penalties) = (Best::none(), self.penalties.0.map(|p| p * view.queue() / 192));
        for ((c, ahead), (s, d)) in view.ahead(channels.clone(), lane).zip(turns()) {
            let gain = gain(*s, *d, nearer_source);
            if gain != FORBIDDEN && i16::from(here) + i16::from(*d) < left {
                // The paper's priority is q + p alone: a good hop is worth waiting for.
                let cost = ahead.occupancy + penalties[(greatest - gain) as usize];
                best.offer_any(c, cost, rng);
            }
        }
        if best.ties == 0 {
            // A corner (there are some in sparse graphs), or the lanes are used up.
            for ((c, ahead), (_, d)) in view.ahead(channels.clone(), lane).zip(turns()) {
                if *d < 0 {
                    best.offer(c, ahead, header.flits, ahead.occupancy, rng);
                }
            }
        }
        Hop::to(best.link, lane)
    }
}
