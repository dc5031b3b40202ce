//! All shortest paths to up to 64 home switches at once.
//!
//! Each switch carries one word that says which of the homes it has reached ("The more the merrier:
//! efficient multi-source graph traversal", Then et al., PVLDB 8(4), 2014), so that one look at a
//! channel serves all homes.

use super::graph::Graph;
use super::trees::{Descent, Rows};
use super::updown::Heights;

/// What a search from up to 64 homes found. Homes are known by their *lane*, 0..64: homes of one
/// batch are consecutive switches.
#[derive(Debug, Clone)]
pub struct Ways<'a> {
    graph: &'a Graph,
    /// Routes first go up and then down; all shortest paths without.
    heights: Option<&'a Heights>,
    switches: usize,
    /// Words per mask of slots.
    words: usize,
    first: usize,
    lanes: usize,
    /// Slots on a shortest path: `[(lane * switches + switch) * words..][..words]`.
    slots: Vec<u64>,
    /// Hops to the home: `[lane * switches + switch]`; [`Ways::FAR`] if it cannot be reached.
    hops: Vec<u16>,
    /// Switches by hops and then by number: `[lane * switches..][..reached[lane]]`.
    order: Vec<u32>,
    reached: Vec<u32>,
    /// Per switch: lanes that it has reached, and those it reaches in this step.
    known: Vec<u64>,
    fresh: Vec<u64>,
    /// Per switch: lanes whose home it reaches by going down only.
    above: Vec<u64>,
}

impl Ways<'_> {
    /// Homes per batch.
    pub const LANES: usize = 64;
    /// Hops of a switch that cannot reach the home.
    pub const FAR: u16 = u16::MAX;
}

impl<'a> Ways<'a> {
    /// All shortest routes that first go up and then down; see [`super::trees::Levels::search_up_down`].
    pub fn up_down(graph: &'a Graph, heights: &'a Heights) -> Self {
        Self { heights: Some(heights), above: vec![0; graph.switches()], ..Self::new(graph) }
    }

    /// All shortest paths. The buffers take about 14 bytes per switch and lane.
    pub fn new(graph: &'a Graph) -> Self {
        let switches = graph.switches();
        let words = graph.slot_words();
        let lanes = Self::LANES.min(switches);
        Self {
            graph,
            heights: None,
            switches,
            words,
            first: 0,
            lanes: 0,
            slots: vec![0; lanes * switches * words],
            hops: vec![Self::FAR; lanes * switches],
            order: vec![0; lanes * switches],
            reached: vec![0; lanes],
            known: vec![0; switches],
            fresh: vec![0; switches],
            above: Vec::new(),
        }
    }

    /// Makes the batch hold `home`, unless it does; batches start at multiples of 64, so that homes
    /// visited in their order cost one search per 64. O(hops × channels + ways found).
    pub fn lane_of(&mut self, home: usize) -> usize {
        let first = home - home % Self::LANES;
        if self.lanes == 0 || self.first != first {
            self.search(first, Self::LANES.min(self.switches - first));
        }
        home - first
    }

    fn search(&mut self, first: usize, lanes: usize) {
        let n = self.switches;
        (self.first, self.lanes) = (first, lanes);
        self.slots.fill(0);
        self.hops.fill(Self::FAR);
        self.known.fill(0);
        for lane in 0..lanes {
            self.known[first + lane] = 1 << lane;
            self.hops[lane * n + first + lane] = 0;
            self.order[lane * n] = (first + lane) as u32;
            self.reached[lane] = 1;
        }
        if let Some(heights) = self.heights {
            self.above.copy_from_slice(&self.known);
            for s in heights.by_height.iter().rev().map(|s| *s as usize) {
                heights.ups(s).iter().for_each(|up| self.above[up.to as usize] |= self.above[s]);
            }
        }
        let all = if lanes == 64 { u64::MAX } else { (1 << lanes) - 1 };
        for hops in 1.. {
            let mut any = 0;
            for s in 0..n {
                self.fresh[s] = match self.heights {
                    _ if self.known[s] == all => 0,
                    None => self.step(s, hops),
                    Some(heights) => self.step_up_down(heights, s, hops),
                };
                any |= self.fresh[s];
            }
            if any == 0 {
                return;
            }
            self.known.iter_mut().zip(&self.fresh).for_each(|(known, fresh)| *known |= fresh);
        }
    }

    /// Looks one hop further from a switch; returns the lanes it reaches.
    fn step(&mut self, s: usize, hops: u16) -> u64 {
        let graph = self.graph;
        let near = graph.neighbours(s).iter().fold(0, |near, t| near | self.known[*t as usize]);
        let fresh = near & !self.known[s];
        if fresh != 0 {
            for (slot, t) in graph.neighbours(s).iter().enumerate() {
                self.permit(s, slot, self.known[*t as usize] & fresh);
            }
            self.enter(s, fresh, hops);
        }
        fresh
    }

    /// [`Ways::step`] for routes that first go up and then down: a switch above the home waits for
    /// the way that only goes down.
    fn step_up_down(&mut self, heights: &Heights, s: usize, hops: u16) -> u64 {
        let out = self.graph.out(s).start;
        let (mut below, mut over) = (0, 0);
        for d in heights.downs(s) {
            below |= self.known[d.to as usize] & self.above[d.to as usize];
        }
        for d in heights.ups(s) {
            over |= self.known[d.to as usize];
        }
        let (below, over) = (below & !self.known[s], over & !self.known[s] & !self.above[s]);
        if below != 0 {
            for d in heights.downs(s) {
                let lanes = self.known[d.to as usize] & self.above[d.to as usize] & below;
                self.permit(s, d.channel as usize - out, lanes);
            }
        }
        if over != 0 {
            for d in heights.ups(s) {
                self.permit(s, d.channel as usize - out, self.known[d.to as usize] & over);
            }
        }
        if below | over != 0 {
            self.enter(s, below | over, hops);
        }
        below | over
    }

    /// Notes that a slot of a switch is on a shortest path to the homes of these lanes.
    #[inline]
    fn permit(&mut self, s: usize, slot: usize, lanes: u64) {
        let (at, step) = (s * self.words + slot / 64, self.switches * self.words);
        let bit = 1u64 << (slot % 64);
        bits(lanes).for_each(|lane| self.slots[lane * step + at] |= bit);
    }

    /// Notes that a switch reaches the homes of these lanes.
    #[inline]
    fn enter(&mut self, s: usize, lanes: u64, hops: u16) {
        for lane in bits(lanes) {
            let row = lane * self.switches;
            self.hops[row + s] = hops;
            let reached = &mut self.reached[lane];
            self.order[row + *reached as usize] = s as u32;
            *reached += 1;
        }
    }

    /// Number of switches.
    pub fn switches(&self) -> usize {
        self.switches
    }
    /// Slots on a shortest path, as one mask of [`Ways::words`] words per switch.
    pub fn slots(&self, lane: usize) -> &[u64] {
        let size = self.switches * self.words;
        &self.slots[lane * size..(lane + 1) * size]
    }
    /// Words per mask of [`Ways::slots`].
    pub fn words(&self) -> usize {
        self.words
    }
    /// Hops to the home per switch, [`Ways::FAR`] where there is no way.
    pub fn hops(&self, lane: usize) -> &[u16] {
        &self.hops[lane * self.switches..(lane + 1) * self.switches]
    }
    /// Switches that reach the home, by hops and then by number; the home itself first.
    pub fn order(&self, lane: usize) -> &[u32] {
        &self.order[lane * self.switches..][..self.reached[lane] as usize]
    }
    /// The ways to a home, for which the batch changes as with [`Ways::lane_of`].
    pub fn to(&mut self, home: usize) -> Lane<'_> {
        let lane = self.lane_of(home);
        Lane { ways: self, lane }
    }
}

/// The ways to one home.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    ways: &'a Ways<'a>,
    lane: usize,
}

impl Rows for Lane<'_> {
    fn home(&self) -> usize {
        self.ways.first + self.lane
    }
    #[inline]
    fn each(&self, mut take: impl FnMut(u32, u32, &[Descent])) {
        let (graph, words) = (self.ways.graph, self.ways.words);
        let masks = self.ways.slots(self.lane);
        // A switch has fewer channels.
        let mut own = [Descent { channel: 0, to: 0 }; 256];
        for &switch in &self.ways.order(self.lane)[1..] {
            let s = switch as usize;
            let (out, to, mut count) = (graph.out(s).start as u32, graph.neighbours(s), 0);
            for word in 0..words {
                let mut mask = masks[s * words + word];
                while mask != 0 {
                    let slot = 64 * word + mask.trailing_zeros() as usize;
                    own[count] = Descent { channel: out + slot as u32, to: to[slot] };
                    count += 1;
                    mask &= mask - 1;
                }
            }
            take(switch, out, &own[..count]);
        }
    }
}

/// Terminals by hops from each switch: what [`Ways`] finds without the ways. O(switches × (hops ×
/// channels / 64 + switches)).
pub fn terminals_by_hops(graph: &Graph) -> Vec<Vec<u64>> {
    let n = graph.switches();
    let (mut known, mut fresh) = (vec![0u64; n], vec![0u64; n]);
    let mut all = Vec::with_capacity(n);
    for first in (0..n).step_by(Ways::LANES) {
        let homes = first..n.min(first + Ways::LANES);
        known.fill(0);
        homes.clone().for_each(|home| known[home] = 1 << (home - first));
        all.extend(homes.clone().map(|home| vec![u64::from(graph.terminals()[home])]));
        let all: &mut [Vec<u64>] = &mut all[first..];
        for hops in 1.. {
            let mut any = 0;
            for (s, fresh) in fresh.iter_mut().enumerate() {
                let near = graph.neighbours(s).iter().fold(0, |near, t| near | known[*t as usize]);
                *fresh = near & !known[s];
                any |= *fresh;
            }
            if any == 0 {
                break;
            }
            bits(any).for_each(|lane| all[lane].push(0));
            for ((known, fresh), terminals) in known.iter_mut().zip(&fresh).zip(graph.terminals()) {
                *known |= fresh;
                if *terminals > 0 {
                    bits(*fresh).for_each(|lane| all[lane][hops] += u64::from(*terminals));
                }
            }
        }
    }
    all
}

/// The numbers of the bits that are set, ascending.
#[inline]
pub fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::route::trees::Levels;

    /// More switches than lanes, more ports than bits in a word, and a fabric in two parts.
    #[test]
    fn finds_what_one_search_per_home_finds() {
        let cut = generate("torus:9x9,hosts=1").unwrap().without(|_| false, |s| (18..27).contains(&s.0));
        let cut = cut.unwrap().without(|_| false, |s| (54..63).contains(&s.0)).unwrap();
        let wide = generate("fattree:4x100,2").unwrap();
        for fabric in [cut, wide, generate("random:70,70,200,seed=4").unwrap()] {
            let graph = Graph::new(&fabric);
            let heights = Heights::from_roots(&graph, &[1, 5]);
            let mut levels = Levels::new(&graph);
            compare(&graph, Ways::new(&graph), |home| {
                levels.search(&graph, home);
                levels.clone()
            });
            let mut levels = Levels::new(&graph);
            compare(&graph, Ways::up_down(&graph, &heights), |home| {
                levels.search_up_down(&graph, &heights, home);
                levels.clone()
            });
        }
    }

    fn compare(graph: &Graph, mut ways: Ways<'_>, mut search: impl FnMut(usize) -> Levels) {
        for home in 0..graph.switches() {
            let lane = ways.lane_of(home);
            let levels = search(home);
            assert_eq!(ways.hops(lane), levels.distance());
            let mut order = levels.order().to_vec();
            order.sort_by_key(|s| (levels.distance()[*s as usize], *s));
            assert_eq!(ways.order(lane), order);
            levels.each(|s, _, descents| {
                let s = s as usize;
                let masks = &ways.slots(lane)[s * ways.words()..][..ways.words()];
                let found = masks.iter().enumerate().flat_map(|(w, m)| bits(*m).map(move |b| w * 64 + b));
                let mut wanted: Vec<usize> =
                    descents.iter().map(|d| graph.slot(d.channel as usize).into()).collect();
                wanted.sort_unstable();
                assert!(found.eq(wanted), "switch {s} to {home}");
            });
        }
    }
}
