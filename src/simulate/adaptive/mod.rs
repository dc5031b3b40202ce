//! Routings that decide per packet or per hop. All use lanes in increasing order: a packet is on
//! lane `h` after `h` channels, so no circle of waiting packets can form (Polarized paper,
//! "Empirical Evaluation"), except `dor`, which needs two lanes only.

mod all_paths;
mod grid;
mod hops;
mod ksp;
mod omni;
mod polarized;
mod ways;

use rayon::prelude::*;

pub use all_paths::AllPaths;
pub use grid::{Dor, Rdr};
pub use hops::{Minimal, Ugal, Valiant};
pub use ksp::Ksp;
pub use omni::OmniDimensional;
pub use polarized::{Penalties, Polarized};
use ways::Ways;

use super::net::Net;
use super::router::RouterError;
use super::state::Ahead;
use crate::model::rng::Rng;

/// Distance of switches that are not connected.
const FAR: u8 = u8::MAX;

/// Distances between all switches.
#[derive(Debug, Clone)]
pub struct Distances {
    switches: usize,
    /// `far[target * switches + switch]`, in channels.
    far: Vec<u8>,
    diameter: u8,
}

impl Distances {
    /// Breadth-first from every switch. O(switches × channels).
    ///
    /// # Errors
    /// If two switches with hosts are not connected or more than 254 channels apart.
    pub fn new(net: &Net) -> Result<Self, RouterError> {
        let n = net.switches();
        let rows: Vec<Vec<u8>> = (0..n as u32).into_par_iter().map(|s| from(net, s)).collect();
        let mut with_hosts = vec![false; n];
        net.hosts().iter().for_each(|t| with_hosts[net.home(*t) as usize] = true);
        let used = rows.iter().zip(&with_hosts).filter(|(_, used)| **used);
        let ends =
            used.flat_map(|(row, _)| row.iter().zip(&with_hosts).filter(|(_, used)| **used).map(|(d, _)| *d));
        let diameter = ends.max().unwrap_or(0);
        if diameter == FAR {
            let reason = "two switches with hosts are not connected".to_string();
            return Err(RouterError::NotApplicable { router: "an adaptive routing", reason });
        }
        Ok(Self { switches: n, far: rows.concat(), diameter })
    }

    /// Channels from a switch to a target.
    #[inline]
    pub fn of(&self, switch: u32, target: u32) -> u8 {
        self.far[target as usize * self.switches + switch as usize]
    }
    /// Largest distance between switches with hosts.
    pub fn diameter(&self) -> u8 {
        self.diameter
    }
}

fn from(net: &Net, start: u32) -> Vec<u8> {
    let mut far = vec![FAR; net.switches()];
    far[start as usize] = 0;
    let mut queue = vec![start];
    let mut next = 0;
    while let Some(s) = queue.get(next).copied() {
        next += 1;
        let d = far[s as usize].saturating_add(1);
        for c in net.out(s) {
            let to = net.to(c);
            if far[to as usize] > d {
                far[to as usize] = d;
                queue.push(to);
            }
        }
    }
    far
}

/// Collects candidates one by one and keeps the best: those that can take the packet now before
/// those that cannot, then the lowest cost, then one of them at random.
struct Best {
    link: u32,
    cost: u32,
    ties: usize,
}

impl Best {
    fn none() -> Self {
        Self { link: super::net::NO_LINK, cost: u32::MAX, ties: 0 }
    }

    /// `cost` must be below 2^30.
    #[inline]
    fn offer(&mut self, link: u32, ahead: Ahead, flits: u16, cost: u32, rng: &mut Rng) {
        let late = if ahead.takes >= i32::from(flits) { 0 } else { 1 << 30 };
        self.offer_any(link, cost + late, rng);
    }

    /// The same whether the packet can be taken now or not.
    #[inline]
    fn offer_any(&mut self, link: u32, cost: u32, rng: &mut Rng) {
        if cost < self.cost {
            *self = Self { link, cost, ties: 1 };
        } else if cost == self.cost {
            self.ties += 1;
            if rng.below(self.ties) == 0 {
                self.link = link;
            }
        }
    }
}

/// Lanes for routes of so many channels.
fn lanes_for(router: &'static str, channels: usize) -> Result<u8, RouterError> {
    match channels {
        0..=16 => Ok(channels.max(1) as u8),
        _ => Err(RouterError::NotApplicable {
            router,
            reason: format!("routes of {channels} channels need as many lanes, 16 are possible"),
        }),
    }
}
