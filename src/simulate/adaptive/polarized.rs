//! `polarized`: Camarero, Martínez, Beivide, "Polarized Routing for Large Interconnection
//! Networks" (IEEE Micro 2022).

use super::ways::{Turns, WORD, channels};
use super::{Best, Distances, Ways, lanes_for};
use crate::model::rng::Rng;
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
/// (−1, 0, 1).
pub struct Polarized<'a> {
    net: &'a Net,
    far: &'a Distances,
    ways: Ways,
    penalties: Penalties,
    lanes: u8,
}

impl<'a> Polarized<'a> {
    /// Lanes: twice the diameter, as long as any route the paper saw; a packet that could exceed
    /// it turns to shortest paths. O(switches²) memory.
    ///
    /// # Errors
    /// If 16 lanes are too few.
    pub fn new(net: &'a Net, far: &'a Distances, penalties: Penalties) -> Result<Self, RouterError> {
        let lanes = lanes_for("polarized", 2 * usize::from(far.diameter()))?;
        Ok(Self { net, far, ways: Ways::new(net, far), penalties, lanes })
    }

    /// Change of the distance to `target` over a channel: the paper's table entry, −1, 0 or 1.
    pub fn turn(&self, channel: u32, target: u32) -> i8 {
        let (from, to) = (self.net.from[channel as usize], self.net.to(channel));
        self.far.of(to, target).cmp(&self.far.of(from, target)) as i8
    }
}

/// Channels of one word by the Δμ that Table 1 gives them: 0, 1 and 2. The others are not allowed.
#[inline]
fn gains(source: Turns, destination: Turns, nearer_source: bool) -> [u32; 3] {
    let (s, d) = (source, destination);
    let both = if nearer_source { s.farther() & d.farther() } else { s.nearer() & d.nearer() };
    [both, s.level() & d.nearer() | s.farther() & d.level(), s.farther() & d.nearer()]
}

impl Router for Polarized<'_> {
    fn lanes(&self) -> u8 {
        self.lanes
    }
    fn is_adaptive(&self) -> bool {
        true
    }
    #[inline]
    fn fetch(&self, at: u32, header: &Header) {
        self.ways.fetch(at, header.from);
        self.ways.fetch(at, header.home);
    }
    fn hop(&self, at: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop {
        if at == header.home {
            return Hop::to(self.net.ejection(header.dst), 0);
        }
        let lane = header.lane_of_hop();
        let left = u32::from(self.lanes - lane);
        let first = self.net.out(at).start;
        let (sources, homes) = (self.ways.turns(at, header.from), self.ways.turns(at, header.home));
        // Within 15: no route is longer than there are lanes.
        let here = homes[0].distance();
        let nearer_source = sources[0].distance() < here;
        let mut greatest = 0;
        for (s, d) in sources.iter().zip(homes) {
            let [_, one, two] = gains(*s, *d, nearer_source);
            greatest = greatest.max(if two != 0 { 2 } else { usize::from(one != 0) });
        }
        let (mut best, penalties) = (Best::none(), self.penalties.0.map(|p| p * view.queue() / 192));
        // Channels that leave enough lanes for a shortest path.
        let within = |allowed: bool, word: u32| if allowed { word } else { 0 };
        for (i, (s, d)) in sources.iter().zip(homes).enumerate() {
            let [zero, one, two] = gains(*s, *d, nearer_source);
            let short = within(here < left + 1, d.nearer())
                | within(here < left, d.level())
                | within(here + 1 < left, d.farther());
            for c in channels((zero | one | two) & short, 0) {
                let gain = (one >> c & 1) + 2 * (two >> c & 1);
                let link = first + WORD * i as u32 + c;
                // The paper's priority is q + p alone: a good hop is worth waiting for.
                let cost = view.occupancy_on(link, lane) + penalties[greatest - gain as usize];
                best.offer_any(link, cost, rng);
            }
        }
        if best.ties == 0 {
            // A corner (there are some in sparse graphs), or the lanes are used up.
            for c in self.ways.nearer(at, header.home, first) {
                let ahead = view.ahead_on(c, lane);
                best.offer(c, ahead, header.flits, ahead.occupancy, rng);
            }
        }
        Hop::to(best.link, lane)
    }
}
