//! `polarized`: Camarero, Martínez, Beivide, "Polarized Routing for Large Interconnection
//! Networks" (IEEE Micro 2022).

use super::{Best, Distances, lanes_for};
use crate::generate::rng::Rng;
use crate::simulate::net::Net;
use crate::simulate::router::{Header, Hop, Router, RouterError};
use crate::simulate::state::View;

/// What is added to the occupancy of a candidate, by how much its Δμ is below the greatest one
/// among the candidates. The paper's, found for its queues (section "Routing Mechanisms").
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

    /// Δμ of a channel at `at`, if Table 1 allows it there.
    #[inline]
    fn gain(&self, channel: u32, header: &Header, nearer_source: bool) -> Option<usize> {
        match (self.turn(channel, header.from), self.turn(channel, header.home)) {
            (1, -1) => Some(2),
            (1, 0) | (0, -1) => Some(1),
            (1, 1) => nearer_source.then_some(0),
            (-1, -1) => (!nearer_source).then_some(0),
            _ => None,
        }
    }

    /// The greatest Δμ among the candidates; 0 if there is none.
    fn greatest(&self, at: u32, header: &Header, nearer_source: bool) -> usize {
        self.net.out(at).iter().filter_map(|c| self.gain(*c, header, nearer_source)).max().unwrap_or(0)
    }
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
    fn inject(&self, _header: &mut Header, _view: &View<'_>, _rng: &mut Rng) -> u8 {
        0
    }
    fn hop(&self, at: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop {
        if at == header.home {
            return Hop::to(self.net.ejection(header.dst), 0);
        }
        let (lane, left) = (header.hops, self.lanes - header.hops);
        let here = self.far.of(at, header.home);
        let nearer_source = self.far.of(at, header.from) < here;
        let greatest = self.greatest(at, header, nearer_source);
        let mut best = Best::none();
        for c in self.net.out(at) {
            let Some(gain) = self.gain(*c, header, nearer_source) else { continue };
            if self.far.of(self.net.to(*c), header.home) < left {
                let cost = view.occupancy(*c, lane) + self.penalties.0[greatest - gain];
                best.offer(view, *c, lane, header.flits, cost, rng);
            }
        }
        if best.ties == 0 {
            // A corner (there are some in sparse graphs), or the lanes are used up.
            for c in self.net.out(at).iter().filter(|c| self.turn(**c, header.home) < 0) {
                best.offer(view, *c, lane, header.flits, view.occupancy(*c, lane), rng);
            }
        }
        Hop::to(best.link, lane)
    }
}
