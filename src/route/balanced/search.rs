//! The shortest routes of one destination that some layer allows, by price.

use super::net::{NONE, Net};

/// What a search runs over.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) net: &'a Net,
    /// Layers that allow each turn.
    pub(super) fit: &'a [u16],
    /// Switch of the destination.
    pub(super) home: usize,
    /// Price of the reverse of each channel.
    pub(super) price_back: &'a [f32],
}

/// What is on the channels while routes are added one by one.
pub(super) trait Loads {
    /// What so many more routes over a channel cost.
    fn price(&self, channel: usize, routes: u32) -> f32;
    /// More routes on a channel.
    fn add(&mut self, channel: usize, routes: u32);
}

/// Reusable arrays of one search; afterwards they describe the tree that was found.
pub(super) struct TreeSearch {
    /// Hops to the destination's switch; `u16::MAX` where there is no route.
    pub(super) hops: Vec<u16>,
    /// Layers in which all turns of the route are allowed.
    pub(super) layers: Vec<u16>,
    /// Switches with a route, nearest first; the home switch first of all.
    pub(super) reached: Vec<u32>,
    cost: Vec<f32>,
    chain: Vec<u32>,
    starts: Vec<u32>,
}

/// The layers that allow a turn at a switch, from a channel that leads there into one of its slots.
#[inline]
pub(super) fn fitting<'a>(net: &'a Net, fit: &'a [u16]) -> impl Fn(usize, usize, u8) -> u16 + 'a {
    #[inline(always)]
    |u, coming, leaving| fit[net.turn(u, net.back_slot[coming], leaving)]
}

impl TreeSearch {
    pub(super) fn new(switches: usize) -> Self {
        Self {
            hops: vec![u16::MAX; switches],
            layers: vec![0; switches],
            reached: Vec::with_capacity(switches),
            cost: vec![0.0; switches],
            chain: Vec::new(),
            starts: Vec::new(),
        }
    }

    fn start(&mut self, home: usize, layers: u16, row: &mut [u8]) {
        row.fill(NONE);
        self.forget();
        self.begin(home, layers);
        self.cost[home] = 0.0;
    }

    /// Knows no switch any more.
    fn forget(&mut self) {
        self.hops.fill(u16::MAX);
        self.layers.fill(0);
        self.reached.clear();
    }

    /// Knows the destination's switch.
    fn begin(&mut self, home: usize, layers: u16) {
        self.reached.push(home as u32);
        self.hops[home] = 0;
        self.layers[home] = layers;
    }

    /// Fills `row` (slot per switch) with the routes to a destination that are shortest within `layers`, and among those
    /// cheapest. A greedy search: a switch keeps one route only, so others may
    /// be longer than they had to, or missing. O(channels).
    pub(super) fn run(&mut self, ground: Ground<'_>, layers: u16, row: &mut [u8]) {
        self.start(ground.home, layers, row);
        self.resume(ground, row, 0);
    }

    /// Notes the route of a switch that had none, so that a search can go on from there without
    /// touching the routes there are.
    pub(super) fn admit(&mut self, net: &Net, v: usize, layers: u16, row: &[u8]) {
        self.hops[v] = self.hops[net.to(net.channel(v, row[v]))] + 1;
        self.layers[v] = layers;
        // No route that exists is dearer.
        self.cost[v] = f32::INFINITY;
        self.reached.push(v as u32);
    }

    /// Goes on from the switches at `head..` in `reached`.
    pub(super) fn resume(&mut self, ground: Ground<'_>, row: &mut [u8], head: usize) {
        self.advance(ground, row, head, |_, _| true);
    }

    /// Like [`TreeSearch::run`], but a switch that is `held` keeps the slot it has in `before`, whose
    /// routes must be allowed in `layers`; all others are routed around these. O(channels).
    pub(super) fn run_around(
        &mut self,
        ground: Ground<'_>,
        layers: u16,
        row: &mut [u8],
        before: &[u8],
        held: &[bool],
    ) {
        self.start(ground.home, layers, row);
        self.advance(ground, row, 0, |w, slot| !held[w] || slot == before[w]);
    }

    fn advance(
        &mut self,
        ground: Ground<'_>,
        row: &mut [u8],
        mut head: usize,
        may_use: impl Fn(usize, u8) -> bool,
    ) {
        let Ground { net, fit, home, price_back } = ground;
        while let Some(&u) = self.reached.get(head) {
            head += 1;
            let u = u as usize;
            let (hops, cost, above) = (self.hops[u] + 1, self.cost[u], self.layers[u]);
            let out = net.out(u);
            // At the home switch there is no turn to check.
            let turns = (u != home).then(|| &fit[net.turn(u, 0, row[u])..][..out.len()]);
            for (i, c) in out.enumerate() {
                let w = net.to(c);
                if self.hops[w] < hops {
                    continue;
                }
                let layers = turns.map_or(above, |t| above & t[i]);
                let cost = cost + price_back[c];
                let is_new = self.hops[w] == u16::MAX;
                if layers == 0
                    || !(is_new || (self.hops[w] == hops && cost < self.cost[w]))
                    || !may_use(w, net.back_slot[c])
                {
                    continue;
                }
                if is_new {
                    self.hops[w] = hops;
                    self.reached.push(w as u32);
                }
                self.cost[w] = cost;
                self.layers[w] = layers;
                row[w] = net.back_slot[c];
            }
        }
    }

    /// Like [`TreeSearch::run`], but route by route: what a switch chose weighs already when the next one
    /// chooses, so that the routes of one tree do not join on one light channel. `sources` routes
    /// start at each switch; they are added to `loads`. O(channels × hops).
    pub(super) fn spread(
        &mut self,
        ground: Ground<'_>,
        layers: u16,
        row: &mut [u8],
        sources: &[u32],
        mut loads: impl Loads,
    ) {
        let Ground { net, fit, home, .. } = ground;
        self.start(home, layers, row);
        let mut head = 0;
        while let Some(&u) = self.reached.get(head) {
            head += 1;
            let u = u as usize;
            if u != home {
                self.choose(ground, row, u, sources[u], &loads);
                let mut at = u;
                while sources[u] > 0 && at != home {
                    let c = net.channel(at, row[at]);
                    loads.add(c, sources[u]);
                    at = net.to(c);
                }
            }
            let (hops, above) = (self.hops[u] + 1, self.layers[u]);
            for (i, c) in net.out(u).enumerate() {
                let w = net.to(c);
                let turn = if u == home { u16::MAX } else { fit[net.turn(u, i as u8, row[u])] };
                if self.hops[w] == u16::MAX && above & turn != 0 {
                    self.hops[w] = hops;
                    self.reached.push(w as u32);
                }
            }
        }
    }

    /// Leads a switch over its cheapest neighbour that is nearer; there is one.
    fn choose(&mut self, ground: Ground<'_>, row: &mut [u8], w: usize, routes: u32, loads: &impl Loads) {
        let Ground { net, fit, home, .. } = ground;
        let mut best = f32::INFINITY;
        for (slot, c) in net.out(w).enumerate() {
            let u = net.to(c);
            if self.hops[u] >= self.hops[w] || self.layers[u] == 0 {
                continue;
            }
            let turn = if u == home { u16::MAX } else { fit[net.turn(u, net.back_slot[c], row[u])] };
            let allowed = self.layers[u] & turn;
            if allowed == 0 {
                continue;
            }
            let (mut cost, mut at) = (loads.price(c, routes), u);
            while at != home && cost < best {
                let next = net.channel(at, row[at]);
                cost += loads.price(next, routes);
                at = net.to(next);
            }
            if cost < best {
                best = cost;
                self.layers[w] = allowed;
                row[w] = slot as u8;
            }
        }
    }

    /// Recomputes everything but costs from the routes in `row`, which must have no loop. Routes that
    /// no layer allows count as reached, in no layer. O(switches + longest route).
    pub(super) fn trace(&mut self, net: &Net, fit: &[u16], layers: u16, home: usize, row: &[u8]) {
        self.forget();
        self.begin(home, layers);
        for first in 0..row.len() {
            if self.hops[first] == u16::MAX {
                self.climb(net, fitting(net, fit), (home, first), row, false);
            }
        }
        self.sort();
    }

    /// Begins to find hops and layers of switches one by one, as [`TreeSearch::look`] is asked for them; `reached`
    /// then lists those that are known. O(1) after another such beginning, else O(switches).
    pub(super) fn start_lazily(&mut self, home: usize, layers: u16, is_again: bool) {
        if is_again {
            for v in self.reached.drain(..) {
                self.hops[v as usize] = u16::MAX;
                self.layers[v as usize] = 0;
            }
        } else {
            self.forget();
        }
        self.begin(home, layers);
    }

    /// Finds hops and layers of the route in `row` from a switch, and of all on its way. `turn` is as that of
    /// [`fitting`]. O(its hops).
    #[inline]
    pub(super) fn look(
        &mut self,
        net: &Net,
        turn: impl Fn(usize, usize, u8) -> u16,
        (home, first): (usize, usize),
        row: &[u8],
    ) {
        if self.hops[first] == u16::MAX {
            self.climb(net, turn, (home, first), row, true);
        }
    }

    /// Follows the route from a switch to one that is known, and back.
    #[inline]
    fn climb(
        &mut self,
        net: &Net,
        turn: impl Fn(usize, usize, u8) -> u16,
        (home, first): (usize, usize),
        row: &[u8],
        is_listed: bool,
    ) {
        // Most often the next switch is known.
        if row[first] != NONE {
            let c = net.channel(first, row[first]);
            let u = net.to(c);
            if self.hops[u] != u16::MAX {
                let turn = if u == home { u16::MAX } else { turn(u, c, row[u]) };
                self.hops[first] = self.hops[u] + 1;
                self.layers[first] = self.layers[u] & turn;
                if is_listed {
                    self.reached.push(first as u32);
                }
                return;
            }
        }
        let mut v = first;
        self.chain.clear();
        while self.hops[v] == u16::MAX && row[v] != NONE {
            self.chain.push(v as u32);
            v = net.to(net.channel(v, row[v]));
        }
        if self.hops[v] == u16::MAX {
            return;
        }
        while let Some(w) = self.chain.pop() {
            let w = w as usize;
            let c = net.channel(w, row[w]);
            let turn = if v == home { u16::MAX } else { turn(v, c, row[v]) };
            self.hops[w] = self.hops[v] + 1;
            self.layers[w] = self.layers[v] & turn;
            if is_listed {
                self.reached.push(w as u32);
            }
            v = w;
        }
    }

    /// Fills `reached` by counting switches per number of hops.
    fn sort(&mut self) {
        self.starts.clear();
        for hops in self.hops.iter().filter(|h| **h != u16::MAX) {
            let at = usize::from(*hops) + 1;
            if self.starts.len() <= at {
                self.starts.resize(at + 1, 0);
            }
            self.starts[at] += 1;
        }
        for i in 1..self.starts.len() {
            self.starts[i] += self.starts[i - 1];
        }
        self.reached.clear();
        self.reached.resize(self.starts.last().map_or(0, |n| *n as usize), 0);
        for (v, hops) in self.hops.iter().enumerate().filter(|(_, h)| **h != u16::MAX) {
            let at = &mut self.starts[usize::from(*hops)];
            self.reached[*at as usize] = v as u32;
            *at += 1;
        }
    }

    /// Like [`TreeSearch::trace`], whatever the routes are: switches whose route is broken or in a loop count as
    /// not reached. O(switches × longest route at worst, else as [`TreeSearch::trace`]).
    pub(super) fn follow(&mut self, net: &Net, fit: &[u16], layers: u16, home: usize, row: &[u8]) {
        self.forget();
        self.begin(home, layers);
        for first in 0..row.len() {
            if self.hops[first] != u16::MAX {
                continue;
            }
            let (mut v, mut left) = (first, row.len());
            while self.hops[v] == u16::MAX && row[v] != NONE && left > 0 {
                v = net.to(net.channel(v, row[v]));
                left -= 1;
            }
            if self.hops[v] != u16::MAX && v != first {
                self.climb(net, fitting(net, fit), (home, first), row, false);
            }
        }
        self.sort();
    }

    /// Gives switches without a route one over any neighbour that has one; such routes are allowed
    /// in no layer. O(channels), or O(1) if there are none.
    pub(super) fn attach_rest(&mut self, net: &Net, row: &mut [u8]) {
        if self.reached.len() == row.len() {
            return;
        }
        let mut head = 0;
        while let Some(&u) = self.reached.get(head) {
            head += 1;
            let u = u as usize;
            for c in net.out(u) {
                let w = net.to(c);
                if self.hops[w] == u16::MAX {
                    self.hops[w] = self.hops[u] + 1;
                    row[w] = net.back_slot[c];
                    self.reached.push(w as u32);
                }
            }
        }
    }
}
