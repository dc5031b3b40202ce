//! Routes and lanes together, on any fabric: one tree per home switch, rip up and reroute.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::space::{Released, Space, Turn, Use};
use super::terrain::{NONE, Terrain};
use crate::model::rng::Rng;

/// What a hop costs, and a route over channels of mean load beside.
const HOP: f64 = 16_777_216.0;
const BALANCE: f64 = 0.02;
/// What a full channel costs more, and how steeply: hops at the reference load, and the exponent.
const FULL: f64 = 2.0;
const STEEP: i32 = 16;
/// Searches in the order per dependency, in steps.
const STEPS: usize = 2_000;
/// Channels looked at by all rounds together, at most; how many rounds that may be.
const LOOKS: usize = 60_000_000;
const ROUNDS: (usize, usize) = (3, 10);

/// The search of one seed.
pub(super) struct LaneSearch<'a> {
    terrain: &'a Terrain<'a>,
    pub(super) space: Space<'a>,
    /// Slot of each switch towards each home: `[home * switches + switch]`.
    pub(super) rows: Vec<u8>,
    /// What each home's routes need.
    pub(super) uses: Vec<Use>,
    /// Homes that only the escape tree reaches.
    pub(super) escaped: Vec<bool>,
    /// Whether a home has routes.
    routed: Vec<bool>,
    /// Routes between hosts by channel.
    load: Vec<f64>,
    mean: f64,
    /// Load at which a channel counts as full; none yet.
    reference: Option<f64>,
    price: Vec<f64>,
    flow: Vec<f64>,
    rng: Rng,
}

impl<'a> LaneSearch<'a> {
    /// An order of channels lane by lane, at random inside a lane, and the escape tree on lane 0.
    pub(super) fn new(terrain: &'a Terrain<'a>, lanes: usize, seed: u64) -> Self {
        let (graph, n) = (terrain.graph, terrain.graph.switches());
        let mut rng = Rng::new(seed);
        let mut order = Vec::with_capacity(graph.channels() * lanes);
        for lane in 0..lanes {
            let mut channels: Vec<u32> = (0..graph.channels() as u32).collect();
            rng.shuffle(&mut channels);
            order.extend(channels.iter().map(|c| c * lanes as u32 + lane as u32));
        }
        let mut space = Space::new(graph, lanes, &order);
        for (from, to) in terrain.escape_turns() {
            if let Some(turn) = space.links.turn(from, to) {
                space.pin(turn, 0);
                space.add(turn, 0);
            }
        }
        space.steps = STEPS;
        Self {
            terrain,
            space,
            rows: vec![NONE; n * n],
            uses: vec![Use::default(); n],
            escaped: vec![false; n],
            routed: vec![false; n],
            load: vec![0.0; graph.channels()],
            mean: terrain.mean_load(),
            reference: None,
            price: vec![HOP; graph.channels()],
            flow: vec![0.0; n],
            rng,
        }
    }

    /// All rounds; how many homes are left on the escape tree.
    pub(super) fn run(&mut self) -> usize {
        let n = self.terrain.graph.switches();
        let (mut homes, rest): (Vec<usize>, Vec<usize>) = (0..n).partition(|h| self.terrain.is_home(*h));
        for home in rest {
            self.terrain.escape_to(home, &mut self.rows[home * n..(home + 1) * n]);
        }
        let looks = (homes.len() * self.terrain.graph.channels()).max(1);
        let rounds = (LOOKS / looks).clamp(ROUNDS.0, ROUNDS.1);
        for round in 0..rounds {
            self.rng.shuffle(&mut homes);
            if round > 0 {
                let fullest = self.load.iter().copied().fold(0.0, f64::max);
                self.reference = Some((0.97 * fullest).max(self.mean));
                (0..self.price.len()).for_each(|c| self.price[c] = self.price_of(c));
            }
            if round >= 1 {
                self.free_escaped(&mut homes);
            }
            for home in homes.clone() {
                self.reroute(home);
            }
        }
        self.escaped.iter().filter(|e| **e).count()
    }

    /// Takes away the routes to those on the escape tree and to some others, and puts them first.
    fn free_escaped(&mut self, homes: &mut [usize]) {
        let left = homes.iter().filter(|h| self.escaped[**h]).count();
        if left == 0 {
            return;
        }
        homes.sort_by_key(|h| !self.escaped[*h]);
        let others = (homes.len() / 8).max(3);
        for home in &homes[..homes.len().min(left + others)] {
            if std::mem::replace(&mut self.routed[*home], false) {
                self.add_load(*home, -1.0);
                let of = std::mem::take(&mut self.uses[*home]);
                self.space.release(of);
            }
        }
    }

    /// Searches new routes to a home, and keeps the old ones if there are none or they are better.
    fn reroute(&mut self, home: usize) {
        let at = home * self.terrain.graph.switches()..(home + 1) * self.terrain.graph.switches();
        let old: Option<(Vec<u8>, Released, f64)> = self.routed[home].then(|| {
            let fullness = self.fullness(home);
            self.add_load(home, -1.0);
            let of = std::mem::take(&mut self.uses[home]);
            (self.rows[at.clone()].to_vec(), self.space.release(of), fullness)
        });
        let mut of = Use::default();
        let mut found = self.grow(home, &mut of);
        if found {
            self.add_load(home, 1.0);
            let Some((_, _, before)) = &old else { return self.settle(home, of, false) };
            // What the old routes added to all, against what the new ones do.
            let after = self.fullness(home);
            if self.escaped[home] || after <= before * (1.0 + 1e-9) {
                return self.settle(home, of, false);
            }
            self.add_load(home, -1.0);
            found = false;
        }
        debug_assert!(!found);
        self.space.release(of);
        if let Some((row, released, _)) = old {
            self.rows[at].copy_from_slice(&row);
            let of = self.space.restore(released);
            let escaped = self.escaped[home];
            self.add_load(home, 1.0);
            return self.settle(home, of, escaped);
        }
        self.terrain.escape_to(home, &mut self.rows[at]);
        let of = self.follow_escape(home);
        self.add_load(home, 1.0);
        self.settle(home, of, true);
    }

    fn settle(&mut self, home: usize, of: Use, escaped: bool) {
        self.uses[home] = of;
        self.escaped[home] = escaped;
        self.routed[home] = true;
    }

    /// The cheapest tree outwards from a home whose dependencies keep the order; false if a switch
    /// of its part is left out.
    fn grow(&mut self, home: usize, of: &mut Use) -> bool {
        let (graph, n) = (self.terrain.graph, self.terrain.graph.switches());
        self.space.begin(of);
        let row = home * n..(home + 1) * n;
        self.rows[row.clone()].fill(NONE);
        let mut left = self.terrain.reachable(home) - 1;
        let mut heap: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let mut at = home;
        let mut cost = 0;
        loop {
            for back in graph.out(at) {
                let (c, s) = (graph.reverse(back), graph.to(back));
                if s != home && self.rows[row.start + s] == NONE {
                    let tie = self.rng.next_u64() >> 53;
                    heap.push(Reverse((cost + self.price[c] as u64 + tie, c as u32)));
                }
            }
            let next = loop {
                let Some(Reverse((cost, c))) = heap.pop() else { return left == 0 };
                let s = graph.from(c as usize);
                if self.rows[row.start + s] == NONE && self.attach(home, c as usize, of) {
                    break (cost, c as usize);
                }
            };
            (cost, at) = (next.0, graph.from(next.1));
            self.rows[row.start + at] = graph.slot_at(at, next.1);
            left -= 1;
            if left == 0 {
                return true;
            }
        }
    }

    /// The channel by which a switch forwards to a home.
    fn next(&self, home: usize, s: usize) -> Option<usize> {
        let slot = self.rows[home * self.terrain.graph.switches() + s];
        (slot != NONE).then(|| self.terrain.graph.channel(s, slot))
    }

    /// Leads a channel into the routes of its receiver, if that keeps the order.
    fn attach(&mut self, home: usize, c: usize, of: &mut Use) -> bool {
        let graph = self.terrain.graph;
        let Some(second) = self.next(home, graph.to(c)) else { return true };
        let Some(turn) = self.space.links.turn(c, second) else { return false };
        let third = self.next(home, graph.to(second));
        let next: Option<Turn> = third.and_then(|third| self.space.links.turn(second, third));
        self.space.lead(turn, 1, next, of)
    }

    /// What the routes of the escape tree to a home need, all of which is pinned.
    fn follow_escape(&mut self, home: usize) -> Use {
        let mut of = Use::default();
        self.space.begin(&of);
        for s in 0..self.terrain.graph.switches() {
            if let Some(c) = self.next(home, s) {
                self.attach(home, c, &mut of);
            }
        }
        of
    }

    fn price_of(&self, c: usize) -> f64 {
        let load = self.load[c];
        let full = self.reference.map_or(0.0, |r| FULL * (load / r).powi(STEEP));
        HOP * (1.0 + BALANCE * load / self.mean + full.min(1e3))
    }

    /// Adds the routes to a home to the loads, or takes them away.
    fn add_load(&mut self, home: usize, sign: f64) {
        self.each_flow(home, |search, c, flow| {
            search.load[c] += sign * flow;
            search.price[c] = search.price_of(c);
        });
    }

    /// What a home's routes add to how full channels are: the part that grows with full channels.
    fn fullness(&mut self, home: usize) -> f64 {
        let mut sum = 0.0;
        self.each_flow(home, |search, c, flow| {
            let fill = |load: f64| match search.reference {
                Some(r) => load + FULL * r / f64::from(STEEP + 1) * (load / r).powi(STEEP + 1),
                None => load,
            };
            sum += fill(search.load[c]) - fill(search.load[c] - flow);
        });
        sum
    }

    /// Every channel of a home's tree with the routes on it.
    fn each_flow(&mut self, home: usize, mut visit: impl FnMut(&mut Self, usize, f64)) {
        let (graph, n) = (self.terrain.graph, self.terrain.graph.switches());
        let weight = self.terrain.hosts[home];
        self.flow.copy_from_slice(&self.terrain.hosts);
        // Leaves first: a switch passes on once all that lead into it have.
        let mut waiting = vec![0u32; n];
        for s in 0..n {
            if let Some(c) = self.next(home, s) {
                waiting[graph.to(c)] += 1;
            }
        }
        let mut ready: Vec<usize> = (0..n).filter(|s| waiting[*s] == 0).collect();
        while let Some(s) = ready.pop() {
            let Some(c) = self.next(home, s) else { continue };
            let to = graph.to(c);
            visit(self, c, weight * self.flow[s]);
            self.flow[to] += self.flow[s];
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(to);
            }
        }
    }
}
