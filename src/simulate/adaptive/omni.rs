//! `omni-dimensional`: McDonald, Isaev, Flores, Davis, Kim, "Practical and Efficient Incremental
//! Adaptive Routing for HyperX Networks" (SC 2019), and the Polarized paper, Figure 5b.

use super::ways::{WORD, channels};
use super::{Best, Distances, Ways, lanes_for};
use crate::model::rng::Rng;
use crate::simulate::net::Net;
use crate::simulate::router::{Header, Hop, Router, RouterError};
use crate::simulate::state::View;

/// What is added to the occupancy of a deroute, in 192nds of a queue: what
/// [`Penalties`](super::Penalties) add to a hop that gains 1 less. The Polarized paper gives none
/// for this routing.
const DEROUTE: u32 = 64;

/// At each switch straight to the target's place in some dimension, or elsewhere in a dimension in
/// which the packet is not there yet: a deroute. There may be as many as dimensions. Occupancy plus
/// penalty decides.
///
/// On a Hamming graph (HyperX) the first are the channels that lead nearer and the others those that
/// lead to a switch as far, so distances say it all. Elsewhere a deroute is any hop of these. How
/// many a packet has had follows from its hops and the distances: nothing is carried along.
pub struct OmniDimensional<'a> {
    net: &'a Net,
    far: &'a Distances,
    ways: Ways,
    lanes: u8,
}

impl<'a> OmniDimensional<'a> {
    /// Lanes: twice the diameter, which is the number of dimensions, for as many hops and
    /// deroutes. O(switches²) memory.
    ///
    /// # Errors
    /// If 16 lanes are too few.
    pub fn new(net: &'a Net, far: &'a Distances) -> Result<Self, RouterError> {
        let lanes = lanes_for("omni-dimensional", 2 * usize::from(far.diameter()))?;
        Ok(Self { net, far, ways: Ways::new(net, far), lanes })
    }
}

impl Router for OmniDimensional<'_> {
    fn lanes(&self) -> u8 {
        self.lanes
    }
    fn is_adaptive(&self) -> bool {
        true
    }
    #[inline]
    fn fetch(&self, at: u32, header: &Header) {
        self.ways.fetch(at, header.home);
    }
    fn hop(&self, at: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop {
        if at == header.home {
            return Hop::to(self.net.ejection(header.dst), 0);
        }
        let (lane, out) = (header.lane_of_hop(), self.net.out(at));
        let nearer = self.far.of(header.from, header.home) - self.far.of(at, header.home);
        let may_deroute = lane - nearer < self.far.diameter();
        let (mut best, penalty) = (Best::none(), DEROUTE * view.queue() / 192);
        for (i, turns) in self.ways.turns(at, header.home).iter().enumerate() {
            let first = out.start + WORD * i as u32;
            let there = ((1u64 << out.end.saturating_sub(first).min(WORD)) - 1) as u32;
            let level = if may_deroute { turns.level() & there } else { 0 };
            for c in channels(turns.nearer() | level, first) {
                let is_deroute = level >> (c - first) & 1;
                best.offer_any(c, view.occupancy_on(c, lane) + penalty * is_deroute, rng);
            }
        }
        Hop::to(best.link, lane)
    }
}
