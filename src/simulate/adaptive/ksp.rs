//! `ksp` and `ksp-ugal`: one of k shortest loopless paths, drawn at the source.

use rayon::prelude::*;

use super::{Distances, lanes_for};
use crate::model::rng::Rng;
use crate::simulate::net::Net;
use crate::simulate::router::{Header, Hop, Router, RouterError};
use crate::simulate::state::View;

/// The k shortest loopless paths of every pair of switches with hosts, as Yen's algorithm (1971)
/// finds them; where several have the last length that is needed, which of them is drawn by the
/// seed. All channels count the same, so paths are enumerated by length, pruned by the distance
/// left, which does what Yen's deviations do without their searches.
pub struct Ksp<'a> {
    net: &'a Net,
    far: &'a Distances,
    /// By pair `from * switches + to`: its first path in `starts`.
    pairs: Vec<u32>,
    /// Paths are `channels[starts[p]..starts[p + 1]]`.
    starts: Vec<u32>,
    channels: Vec<u32>,
    /// Choose between a shortest path and a drawn one by occupancy × length.
    ugal: bool,
    lanes: u8,
}

impl<'a> Ksp<'a> {
    /// Finds all paths, one of each pair at least. Deterministic, whatever the thread count.
    ///
    /// # Errors
    /// If the longest needs more than 16 lanes.
    pub fn new(
        net: &'a Net,
        far: &'a Distances,
        k: usize,
        ugal: bool,
        seed: u64,
    ) -> Result<Self, RouterError> {
        let (n, k) = (net.switches() as u32, k.max(1));
        let mut with_hosts = vec![false; n as usize];
        net.hosts().iter().for_each(|t| with_hosts[net.home(*t) as usize] = true);
        let rows: Vec<Vec<Vec<Vec<u32>>>> = (0..n)
            .into_par_iter()
            .map(|from| {
                let mut search = PathSearch::new(net, far, Rng::new(seed ^ (u64::from(from) << 20)));
                let used = |s: u32| with_hosts[s as usize];
                (0..n)
                    .map(|to| if used(from) && used(to) { search.paths(from, to, k) } else { Vec::new() })
                    .collect()
            })
            .collect();
        let mut ksp =
            Self { net, far, pairs: vec![0], starts: vec![0], channels: Vec::new(), ugal, lanes: 1 };
        let mut longest = 0;
        for path_set in rows.into_iter().flatten() {
            for path in path_set {
                longest = longest.max(path.len());
                ksp.channels.extend(path);
                ksp.starts.push(ksp.channels.len() as u32);
            }
            ksp.pairs.push(ksp.starts.len() as u32 - 1);
        }
        ksp.lanes = lanes_for(if ugal { "ksp-ugal" } else { "ksp" }, longest)?;
        Ok(ksp)
    }

    /// Paths of a pair, shortest first.
    pub fn paths(&self, from: u32, to: u32) -> impl ExactSizeIterator<Item = &[u32]> {
        let pair = from as usize * self.net.switches() + to as usize;
        (self.pairs[pair] as usize..self.pairs[pair + 1] as usize).map(|p| self.path(p))
    }

    fn path(&self, p: usize) -> &[u32] {
        &self.channels[self.starts[p] as usize..self.starts[p + 1] as usize]
    }
}

/// Depth-first enumeration of loopless paths of one length.
struct PathSearch<'a> {
    net: &'a Net,
    far: &'a Distances,
    rng: Rng,
    on_path: Vec<bool>,
    path: Vec<u32>,
}

impl<'a> PathSearch<'a> {
    fn new(net: &'a Net, far: &'a Distances, rng: Rng) -> Self {
        Self { net, far, rng, on_path: vec![false; net.switches()], path: Vec::new() }
    }

    fn paths(&mut self, from: u32, to: u32, k: usize) -> Vec<Vec<u32>> {
        let mut found = Vec::new();
        if from == to {
            return found;
        }
        let shortest = self.far.of(from, to);
        // Longer detours than these are not worth having.
        for length in shortest..=shortest.saturating_add(4) {
            self.extend(from, to, length, k, &mut found);
            if found.len() == k {
                break;
            }
        }
        found
    }

    fn extend(&mut self, at: u32, to: u32, left: u8, k: usize, found: &mut Vec<Vec<u32>>) {
        if at == to {
            if left == 0 {
                found.push(self.path.clone());
            }
            return;
        }
        let net = self.net;
        let out = net.out(at);
        self.on_path[at as usize] = true;
        let first = self.rng.below(out.len());
        for i in 0..out.len() {
            let c = out.start + ((first + i) % out.len()) as u32;
            let next = net.to(c);
            if found.len() < k && self.far.of(next, to) < left && !self.on_path[next as usize] {
                self.path.push(c);
                self.extend(next, to, left - 1, k, found);
                self.path.pop();
            }
        }
        self.on_path[at as usize] = false;
    }
}

impl Router for Ksp<'_> {
    fn lanes(&self) -> u8 {
        self.lanes
    }
    fn starts_anywhere(&self) -> bool {
        true
    }
    fn inject(&self, header: &mut Header, view: &View<'_>, rng: &mut Rng) -> u8 {
        let pair = header.from as usize * self.net.switches() + header.home as usize;
        let (first, end) = (self.pairs[pair] as usize, self.pairs[pair + 1] as usize);
        if first == end {
            return 0;
        }
        let mut chosen = first + rng.below(end - first);
        if self.ugal {
            let shortest = self.far.of(header.from, header.home);
            let count = (first..end).take_while(|p| self.path(*p).len() == usize::from(shortest)).count();
            let short = first + rng.below(count.max(1));
            let cost = |p: usize| view.occupancy_of_link(self.path(p)[0]) * self.path(p).len() as u32;
            if cost(short) <= cost(chosen) {
                chosen = short;
            }
        }
        header.state = self.starts[chosen];
        0
    }
    #[inline]
    fn hop(&self, at: u32, header: &Header, _view: &View<'_>, _rng: &mut Rng) -> Hop {
        if at == header.home {
            return Hop::to(self.net.ejection(header.dst), 0);
        }
        Hop::to(self.channels[header.state as usize], header.lane_of_hop())
    }
    #[inline]
    fn taken(&self, header: &mut Header, hop: Hop) {
        header.state += u32::from((hop.link as usize) < self.net.channels());
    }
}
