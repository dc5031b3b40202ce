//! `all-paths`: any loopless path up to the diameter, drawn at the source (Polarized paper,
//! "Empirical Evaluation": AllPaths).

use super::{Distances, lanes_for};
use crate::model::rng::Rng;
use crate::simulate::net::Net;
use crate::simulate::router::{Header, Hop, Router, RouterError};
use crate::simulate::state::View;

/// Longest paths: drawn walks are thrown away until one meets no switch twice, and of long ones
/// nearly all do.
const LONGEST: u8 = 6;
/// After so many draws a packet takes whichever shortest path the last of them begins.
const DRAWS: usize = 256;

/// A path drawn evenly among all loopless ones that are not longer than the diameter.
///
/// Nothing is enumerated: walks are drawn by how many of each length lead on from each switch, and
/// those that meet a switch twice are drawn again. A packet carries the ports of its path.
pub struct AllPaths<'a> {
    net: &'a Net,
    /// `walks[(length * switches + target) * switches + switch]`: how many there are.
    walks: Vec<u64>,
    longest: u8,
    /// Bits of a port in a packet's header.
    bits: u32,
}

impl<'a> AllPaths<'a> {
    /// Counts the walks. O(diameter × switches × channels), switches² × 8 bytes for each length.
    ///
    /// # Errors
    /// If the diameter is above 6, or ports have more bits than a header holds.
    pub fn new(net: &'a Net, far: &Distances) -> Result<Self, RouterError> {
        const NAME: &str = "all-paths";
        let longest = far.diameter();
        lanes_for(NAME, longest.into())?;
        let most = (0..net.switches() as u32).map(|s| net.out(s).len()).max().unwrap_or(0);
        let bits = most.next_power_of_two().trailing_zeros().max(1);
        if longest > LONGEST || bits * u32::from(longest) > u32::BITS {
            let reason = format!("paths of {longest} channels among {most} each are too many");
            return Err(RouterError::NotApplicable { router: NAME, reason });
        }
        let n = net.switches();
        let mut walks = vec![0u64; (usize::from(longest) + 1) * n * n];
        for target in 0..n {
            walks[target * n + target] = 1;
        }
        for length in 1..=usize::from(longest) {
            let (shorter, longer) = walks.split_at_mut(length * n * n);
            let shorter = &shorter[(length - 1) * n * n..];
            for (row, of) in longer[..n * n].chunks_mut(n).zip(shorter.chunks(n)) {
                for (s, count) in row.iter_mut().enumerate() {
                    *count = net.out(s as u32).map(|c| of[net.to(c) as usize]).sum();
                }
            }
        }
        Ok(Self { net, walks, longest, bits })
    }

    #[inline]
    fn walks(&self, length: u8, at: u32, to: u32) -> u64 {
        let n = self.net.switches();
        self.walks[(usize::from(length) * n + to as usize) * n + at as usize]
    }

    /// The channels of a path, drawn evenly. O(diameter × ports) for each draw.
    pub fn draw(&self, from: u32, to: u32, rng: &mut Rng) -> Vec<u32> {
        let mut path = Vec::with_capacity(self.longest.into());
        if from == to {
            return path;
        }
        let total: u64 = (1..=self.longest).map(|length| self.walks(length, from, to)).sum();
        let shortest = (1..=self.longest).find(|length| self.walks(*length, from, to) > 0).unwrap_or(0);
        for _ in 0..DRAWS {
            let mut rank = rng.below(total as usize) as u64;
            let mut length = 1;
            while rank >= self.walks(length, from, to) {
                rank -= self.walks(length, from, to);
                length += 1;
            }
            if self.walk((from, to), length, rank, &mut path) {
                return path;
            }
        }
        let rank = rng.below(self.walks(shortest, from, to) as usize) as u64;
        self.walk((from, to), shortest, rank, &mut path);
        path
    }

    /// The walk of that rank among those of a length; `false` if it meets a switch twice.
    fn walk(&self, (from, to): (u32, u32), length: u8, mut rank: u64, path: &mut Vec<u32>) -> bool {
        path.clear();
        let mut at = from;
        for left in (0..length).rev() {
            for c in self.net.out(at) {
                let on = self.walks(left, self.net.to(c), to);
                if rank < on {
                    at = self.net.to(c);
                    path.push(c);
                    break;
                }
                rank -= on;
            }
            let before = &path[..path.len() - 1];
            if at == from || before.iter().any(|c| self.net.to(*c) == at) {
                return false;
            }
        }
        true
    }
}

impl Router for AllPaths<'_> {
    fn lanes(&self) -> u8 {
        self.longest.max(1)
    }
    fn starts_anywhere(&self) -> bool {
        true
    }
    fn inject(&self, header: &mut Header, _view: &View<'_>, rng: &mut Rng) -> u8 {
        let (mut at, mut ports) = (header.from, 0);
        for (i, c) in self.draw(header.from, header.home, rng).into_iter().enumerate() {
            ports |= (c - self.net.out(at).start) << (self.bits * i as u32);
            at = self.net.to(c);
        }
        header.state = ports;
        0
    }
    #[inline]
    fn hop(&self, at: u32, header: &Header, _view: &View<'_>, _rng: &mut Rng) -> Hop {
        if at == header.home {
            return Hop::to(self.net.ejection(header.dst), 0);
        }
        let port = header.state >> (self.bits * u32::from(header.hops)) & ((1 << self.bits) - 1);
        Hop::to(self.net.out(at).start + port, header.lane_of_hop())
    }
}
