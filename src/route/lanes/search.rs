//! Routes and lanes together, on any fabric: one tree per home switch, rip up and reroute.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::escape::Escape;
use super::first::Start;
use super::space::{Released, Space, Turn, Use};
use super::terrain::{NONE, Terrain};
use crate::model::rng::Rng;

/// What a hop costs, and a route over channels of mean load beside.
const HOP: f64 = 16_777_216.0;
const BALANCE: f64 = 0.02;
/// What a full channel costs more, and how steeply: hops at the reference load, and the exponent.
const FULL: f64 = 2.0;
const STEEP: i32 = 16;
/// What a turn costs that no packet takes yet, in hops, where channels are sorted: few turns leave room for others.
const FRESH: f64 = 0.1;
/// Searches in the order per dependency, in steps.
const STEPS: usize = 2_000;
/// Channels looked at by all rounds together, at most; how many rounds that may be.
const LOOKS: usize = 60_000_000;
const ROUNDS: (usize, usize) = (2, 10);
/// By how much a round must make the fullest channel lighter for another one to follow.
const GAIN: f64 = 0.002;

/// The search of one seed.
pub(super) struct LaneSearch<'a> {
    start: Start,
    escape: Escape<'a>,
    pub(super) terrain: &'a Terrain<'a>,
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
    /// Rounds so far, and what the last of them found.
    rounds: usize,
    found: Option<(usize, f64)>,
}

impl<'a> LaneSearch<'a> {
    /// With the order and the escape tree of a start; the tree is on lane 0.
    pub(super) fn new(terrain: &'a Terrain<'a>, lanes: usize, seed: u64, start: Start) -> Self {
        let (graph, n) = (terrain.graph, terrain.graph.switches());
        let mut rng = Rng::new(seed);
        let mut space = Space::new(graph, lanes, &start.order(terrain, lanes, &mut rng));
        let escape = start.escape(terrain);
        for (from, to) in escape.turns() {
            if let Some(turn) = space.links.turn(from, to) {
                space.pin(turn, 0);
                space.add(turn, 0);
            }
        }
        Self {
            start,
            escape,
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
            rounds: 0,
            found: None,
        }
    }

    /// Some more rounds, until they gain nothing; how many homes are left on the escape tree, and the load of the fullest
    /// channel.
    pub(super) fn run(&mut self, rounds: usize) -> (usize, f64) {
        let n = self.terrain.graph.switches();
        let (homes, rest): (Vec<usize>, Vec<usize>) = (0..n).partition(|h| self.terrain.is_home(*h));
        if self.found.is_none() {
            for home in rest {
                self.escape.lead_to(home, &mut self.rows[home * n..(home + 1) * n]);
            }
        }
        let looks = (homes.len() * self.terrain.graph.channels()).max(1);
        let most = (LOOKS / looks).clamp(ROUNDS.0, ROUNDS.1);
        let last = most.min(self.rounds.saturating_add(rounds));
        while self.rounds < last {
            let before = self.found;
            let now = self.round(homes.clone());
            self.rounds += 1;
            self.found = Some(now);
            let is_idle = |before: (usize, f64)| before.0 == 0 && now.1 > before.1 * (1.0 - GAIN);
            if now.0 == 0 && before.is_some_and(is_idle) {
                self.rounds = most;
            }
        }
        self.found.unwrap_or((usize::MAX, f64::INFINITY))
    }

    /// Routes on a channel on average.
    fn mean_load(&self) -> f64 {
        self.load.iter().sum::<f64>() / self.load.len().max(1) as f64
    }

    /// New routes to all homes, one after the other; as [`LaneSearch::run`].
    fn round(&mut self, mut homes: Vec<usize>) -> (usize, f64) {
        self.rng.shuffle(&mut homes);
        // Where the order is sorted, first routes take what it allows: those of later rounds change it.
        let is_given = self.found.is_none() && self.start.is_sorted();
        self.allow(if is_given { 0 } else { STEPS });
        if let Some((_, fullest)) = self.found {
            // In between, so that many channels count as full where a few are far fuller than the mean.
            self.reference = Some((fullest * self.mean_load()).sqrt());
            (0..self.price.len()).for_each(|c| self.price[c] = self.price_of(c));
            self.free_escaped(&mut homes);
        }
        homes.into_iter().for_each(|home| self.reroute(home));
        let fullest = self.load.iter().copied().fold(0.0, f64::max);
        (self.escaped.iter().filter(|e| **e).count(), fullest)
    }

    /// How far repairs of the order may search from now on.
    fn allow(&mut self, steps: usize) {
        self.space.steps = steps;
        self.space.forget_refused();
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
        if !found && self.space.steps == 0 {
            // Only the escape tree would be left: better another order.
            self.space.release(std::mem::take(&mut of));
            self.allow(STEPS);
            found = self.grow(home, &mut of);
            self.allow(0);
        }
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
        assert!(!found);
        self.space.release(of);
        if let Some((row, released, _)) = old {
            self.rows[at].copy_from_slice(&row);
            let of = self.space.restore(released);
            let escaped = self.escaped[home];
            self.add_load(home, 1.0);
            return self.settle(home, of, escaped);
        }
        self.escape.lead_to(home, &mut self.rows[at]);
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
        let (mut at, mut cost) = (home, 0);
        loop {
            for back in graph.out(at) {
                let (c, s) = (graph.reverse(back), graph.to(back));
                if s != home && self.rows[row.start + s] == NONE {
                    let tie = self.rng.next_u64() >> 53;
                    let new = self.price[c] as u64 + self.price_of_turn(home, c) + tie;
                    heap.push(Reverse((cost + new, c as u32)));
                }
            }
            let mut next = None;
            while let Some(Reverse((cost, c))) = heap.pop() {
                let (c, s) = (c as usize, graph.from(c as usize));
                if self.rows[row.start + s] == NONE && self.attach(home, c, of) {
                    next = Some((cost, c));
                    break;
                }
            }
            let next = next.or_else(|| self.make_room(home, of).map(|c| (cost, c)));
            let Some((price, c)) = next else { return left == 0 };
            (cost, at) = (price, graph.from(c));
            self.rows[row.start + at] = graph.slot_at(at, c);
            left -= 1;
            if left == 0 {
                return true;
            }
        }
    }

    /// What it costs to go from a channel on to a home, if no packet does so yet.
    fn price_of_turn(&self, home: usize, c: usize) -> u64 {
        if !self.start.is_sorted() {
            return 0;
        }
        let second = self.next(home, self.terrain.graph.to(c));
        let turn = second.and_then(|second| self.space.links.turn(c, second));
        turn.map_or(0, |turn| if self.space.is_taken(turn) { 0 } else { (FRESH * HOP) as u64 })
    }

    /// The channel by which a switch forwards to a home.
    pub(super) fn next(&self, home: usize, s: usize) -> Option<usize> {
        let slot = self.rows[home * self.terrain.graph.switches() + s];
        (slot != NONE).then(|| self.terrain.graph.channel(s, slot))
    }

    /// Leads a channel into the routes of its receiver, if that keeps the order.
    pub(super) fn attach(&mut self, home: usize, c: usize, of: &mut Use) -> bool {
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
