//! `minimal`, `valiant` and `ugal`.

use super::{Best, Distances, Ways, lanes_for};
use crate::model::rng::Rng;
use crate::simulate::net::Net;
use crate::simulate::router::{Header, Hop, Router, RouterError};
use crate::simulate::state::View;

/// Hop by hop to some next switch on a shortest path, at random among those that can take it.
pub struct Minimal<'a> {
    net: &'a Net,
    ways: Ways,
    lanes: u8,
}

impl<'a> Minimal<'a> {
    /// Lanes: the diameter. O(switches²) memory.
    ///
    /// # Errors
    /// If 16 lanes are too few.
    pub fn new(net: &'a Net, far: &'a Distances) -> Result<Self, RouterError> {
        let lanes = lanes_for("minimal", usize::from(far.diameter()))?;
        Ok(Self { net, ways: Ways::new(net, far), lanes })
    }

    #[inline]
    fn towards(&self, at: u32, target: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop {
        let mut best = Best::none();
        for c in self.ways.nearer(at, target, self.net.out(at).start) {
            best.offer(c, view.ahead_on(c, header.lane_of_hop()), header.flits, 0, rng);
        }
        Hop::to(best.link, header.lane_of_hop())
    }
}

impl Router for Minimal<'_> {
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
        self.towards(at, header.home, header, view, rng)
    }
}

/// To a switch drawn at random, then to the destination, both on shortest paths (Valiant and
/// Brebner 1981).
pub struct Valiant<'a> {
    minimal: Minimal<'a>,
    /// Switches with hosts.
    middles: Vec<u32>,
}

impl<'a> Valiant<'a> {
    /// Lanes: twice the diameter.
    ///
    /// # Errors
    /// If 16 lanes are too few.
    pub fn new(net: &'a Net, far: &'a Distances) -> Result<Self, RouterError> {
        let lanes = lanes_for("valiant", 2 * usize::from(far.diameter()))?;
        let mut middles: Vec<u32> = net.hosts().iter().map(|t| net.home(*t)).collect();
        middles.sort_unstable();
        middles.dedup();
        Ok(Self { minimal: Minimal { net, ways: Ways::new(net, far), lanes }, middles })
    }

    fn draw(&self, rng: &mut Rng) -> u32 {
        self.middles[rng.below(self.middles.len())]
    }

    fn start(&self, header: &mut Header, middle: u32) {
        header.state = middle;
        header.phase = u8::from(middle == header.from || middle == header.home);
    }
}

impl Router for Valiant<'_> {
    fn lanes(&self) -> u8 {
        self.minimal.lanes
    }
    fn is_adaptive(&self) -> bool {
        true
    }
    #[inline]
    fn fetch(&self, at: u32, header: &Header) {
        self.minimal.ways.fetch(at, if header.phase == 0 { header.state } else { header.home });
    }
    fn inject(&self, header: &mut Header, _view: &View<'_>, rng: &mut Rng) -> u8 {
        // Between hosts of one switch there is nothing to spread.
        let middle = if header.from == header.home { header.home } else { self.draw(rng) };
        self.start(header, middle);
        0
    }
    fn hop(&self, at: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop {
        if header.phase == 0 {
            return self.minimal.towards(at, header.state, header, view, rng);
        }
        self.minimal.hop(at, header, view, rng)
    }
    fn taken(&self, header: &mut Header, hop: Hop) {
        if (hop.link as usize) < self.minimal.net.channels() && self.minimal.net.to(hop.link) == header.state
        {
            header.phase = 1;
        }
    }
}

/// Minimal or Valiant, decided at the source: the one whose first channel's occupancy times
/// length is less (Singh 2005; the occupancy is local to the first switch).
pub struct Ugal<'a> {
    far: &'a Distances,
    valiant: Valiant<'a>,
}

impl<'a> Ugal<'a> {
    /// Lanes: twice the diameter.
    ///
    /// # Errors
    /// If 16 lanes are too few.
    pub fn new(net: &'a Net, far: &'a Distances) -> Result<Self, RouterError> {
        Ok(Self { far, valiant: Valiant::new(net, far)? })
    }

    /// Least occupancy among first channels of shortest paths.
    fn queue(&self, from: u32, target: u32, view: &View<'_>) -> u32 {
        let Minimal { net, ways, .. } = &self.valiant.minimal;
        let first = ways.nearer(from, target, net.out(from).start);
        first.map(|c| view.occupancy_of_link(c)).min().unwrap_or(0)
    }
}

impl Router for Ugal<'_> {
    fn lanes(&self) -> u8 {
        self.valiant.lanes()
    }
    fn is_adaptive(&self) -> bool {
        true
    }
    fn inject(&self, header: &mut Header, view: &View<'_>, rng: &mut Rng) -> u8 {
        let (from, home) = (header.from, header.home);
        let middle = self.valiant.draw(rng);
        let far = self.far;
        let short = u32::from(far.of(from, home));
        let long = u32::from(far.of(from, middle)) + u32::from(far.of(middle, home));
        let detour = from != home
            && middle != from
            && self.queue(from, home, view) * short > self.queue(from, middle, view) * long;
        self.valiant.start(header, if detour { middle } else { home });
        0
    }
    fn hop(&self, at: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop {
        self.valiant.hop(at, header, view, rng)
    }
    #[inline]
    fn fetch(&self, at: u32, header: &Header) {
        self.valiant.fetch(at, header);
    }
    fn taken(&self, header: &mut Header, hop: Hop) {
        self.valiant.taken(header, hop);
    }
}
