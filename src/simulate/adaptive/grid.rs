//! `dor` and `rdr` on tori and meshes.

use super::lanes_for;
use crate::model::rng::Rng;
use crate::simulate::net::{NO_LINK, Net};
use crate::simulate::router::{Header, Hop, Router, RouterError};
use crate::simulate::state::View;

/// Which channels lead one step along a dimension.
struct Lines {
    dims: usize,
    sizes: Vec<u16>,
    wrap: Vec<bool>,
    coords: Vec<u16>,
    /// `ways[(switch * dims + dimension) * 2 + up]`: parallel channels.
    ways: Vec<Vec<u32>>,
}

impl Lines {
    fn new(net: &Net, router: &'static str) -> Result<Self, RouterError> {
        let refuse = |reason: &str| RouterError::NotApplicable { router, reason: reason.to_string() };
        let grid = net.grid.as_ref().ok_or_else(|| refuse("it is not known to be a torus or mesh"))?;
        let dims = grid.sizes.len();
        let (sizes, wrap, coords) = (grid.sizes.clone(), grid.wrap.clone(), grid.coords.clone());
        let mut lines = Self { dims, sizes, wrap, coords, ways: vec![Vec::new(); net.switches() * dims * 2] };
        for c in 0..net.channels() as u32 {
            let (a, b) = (net.from[c as usize], net.to(c));
            if let Some((d, up)) = lines.step(a, b) {
                lines.ways[(a as usize * dims + d) * 2 + usize::from(up)].push(c);
            }
        }
        for s in 0..net.switches() {
            for d in 0..dims {
                for up in [false, true] {
                    let end = lines.coords[s * dims + d] == if up { lines.sizes[d] - 1 } else { 0 };
                    let needed = lines.sizes[d] > 1 && (!end || (lines.wrap[d] && lines.sizes[d] > 2));
                    if needed && lines.ways[(s * dims + d) * 2 + usize::from(up)].is_empty() {
                        return Err(refuse("a switch or cable of the grid is missing"));
                    }
                }
            }
        }
        Ok(lines)
    }

    fn at(&self, switch: u32, d: usize) -> u16 {
        self.coords[switch as usize * self.dims + d]
    }

    fn step(&self, from: u32, to: u32) -> Option<(usize, bool)> {
        let mut differing = (0..self.dims).filter(|d| self.at(from, *d) != self.at(to, *d));
        let d = differing.next().filter(|_| differing.next().is_none())?;
        let (a, b, n) = (self.at(from, d), self.at(to, d), self.sizes[d]);
        let around = self.wrap[d] && n > 2;
        if b == a + 1 || (around && a + 1 == n && b == 0) {
            Some((d, true))
        } else if a == b + 1 || (around && b + 1 == n && a == 0) {
            Some((d, false))
        } else {
            None
        }
    }

    /// Whether to go up in a dimension; `None` if the switch is there. Half of the length goes up.
    fn direction(&self, at: u32, to: u32, d: usize) -> Option<bool> {
        let (a, b, n) = (self.at(at, d), self.at(to, d), self.sizes[d]);
        if a == b {
            return None;
        }
        if self.wrap[d] && n > 2 { Some(2 * ((b + n - a) % n) <= n) } else { Some(b > a) }
    }

    fn way(&self, at: u32, d: usize, up: bool, header: &Header) -> u32 {
        let ways = &self.ways[(at as usize * self.dims + d) * 2 + usize::from(up)];
        ways.get(header.dst as usize % ways.len().max(1)).copied().unwrap_or(NO_LINK)
    }

    fn longest(&self) -> usize {
        let length = |d: usize| {
            let n = usize::from(self.sizes[d]);
            if self.wrap[d] && n > 2 { n / 2 } else { n - 1 }
        };
        (0..self.dims).map(length).sum()
    }
}

/// Dimension order on shortest paths. Two lanes: the second one after a packet went around the
/// end of a ring (Dally and Seitz 1987).
pub struct Dor<'a> {
    net: &'a Net,
    lines: Lines,
}

impl<'a> Dor<'a> {
    /// For whole tori and meshes.
    ///
    /// # Errors
    /// If a switch or cable is missing.
    pub fn new(net: &'a Net) -> Result<Self, RouterError> {
        Ok(Self { net, lines: Lines::new(net, "dor")? })
    }
}

impl Router for Dor<'_> {
    fn lanes(&self) -> u8 {
        2
    }
    fn hop(&self, at: u32, header: &Header, _view: &View<'_>, _rng: &mut Rng) -> Hop {
        let lines = &self.lines;
        for d in 0..lines.dims {
            if let Some(up) = lines.direction(at, header.home, d) {
                // Beyond the end of the ring the way left no longer crosses it.
                let (a, b) = (lines.at(at, d), lines.at(header.home, d));
                return Hop::to(lines.way(at, d, up, header), u8::from((b > a) == up));
            }
        }
        Hop::to(self.net.ejection(header.dst), 0)
    }
}

/// RDR: at each step a dimension drawn among those in which the packet is not there yet (RDR
/// paper, section 3).
pub struct Rdr<'a> {
    net: &'a Net,
    lines: Lines,
    lanes: u8,
}

impl<'a> Rdr<'a> {
    /// For whole tori and meshes.
    ///
    /// # Errors
    /// If a switch or cable is missing, or 16 lanes are too few.
    pub fn new(net: &'a Net) -> Result<Self, RouterError> {
        let lines = Lines::new(net, "rdr")?;
        let lanes = lanes_for("rdr", lines.longest())?;
        Ok(Self { net, lines, lanes })
    }
}

impl Router for Rdr<'_> {
    fn lanes(&self) -> u8 {
        self.lanes
    }
    fn hop(&self, at: u32, header: &Header, _view: &View<'_>, rng: &mut Rng) -> Hop {
        let (mut link, mut viable) = (NO_LINK, 0);
        for d in 0..self.lines.dims {
            if let Some(up) = self.lines.direction(at, header.home, d) {
                viable += 1;
                if rng.below(viable) == 0 {
                    link = self.lines.way(at, d, up, header);
                }
            }
        }
        if viable == 0 {
            Hop::to(self.net.ejection(header.dst), 0)
        } else {
            Hop::to(link, header.lane_of_hop())
        }
    }
}
