//! One destination: a search over channels that never uses a dependency which would close a
//! cycle (thesis Algorithms 6.2, 6.5 and 6.6).
//!
//! Hops dominate the weights, so the search goes level by level instead of keeping a heap. A
//! dependency is tried only when its channel would be taken: no dependency is used for a channel
//! that is replaced later, and the next-best candidate of a switch is tried at once when the best is
//! blocked.

use super::complete_cdg::{CompleteCdg, Use};
use super::escape::EscapeForest;
use crate::route::graph::{Graph, is_indirect};

/// What a careful search adds for a dependency against the order: more than all weights together.
const DISORDER: u64 = 1 << 40;

/// No channel.
pub(super) const NONE: u32 = u32::MAX;

/// In place of the best channel into a switch that is reached.
const REACHED: u32 = u32::MAX - 1;

/// In place of the best channel into a switch that the next level may reach.
const SEEN: u32 = u32::MAX - 2;

/// Reusable state of the search for one destination.
pub(super) struct EscapeSearch<'a> {
    graph: &'a Graph,
    /// `used[switch]`: the channel through which the search entered it, or [`NONE`].
    pub(super) used: Vec<u32>,
    hops: Vec<u32>,
    sum: Vec<u64>,
    /// Reached switches, each after the one it was reached from.
    pub(super) order: Vec<u32>,
    frontier: Vec<u32>,
    /// `best[switch]`: cheapest way into a switch that the next level may reach, or [`REACHED`].
    best: Vec<(u64, u32)>,
    found: Vec<u32>,
    /// Dependencies that this destination uses first.
    fresh: Vec<(u32, u32)>,
    home: usize,
    /// Reached switches with terminals.
    sources: usize,
    /// Whether there are switches without terminals, from which no route starts.
    is_indirect: bool,
    /// Whether the routes of one destination see each other: in a tree all would join on the one channel that
    /// was lightest before.
    is_tree: bool,
    /// Per switch of a tree: the routes to this destination that start there, ...
    routes: Vec<u64>,
    /// ... the last switch before the destination's, and the routes that enter that over it so far.
    last: Vec<u32>,
    flow: Vec<u64>,
    /// Prefer dependencies that the order of the layer has room for to light channels.
    is_careful: bool,
}

impl<'a> EscapeSearch<'a> {
    pub(super) fn new(graph: &'a Graph, is_tree: bool, is_careful: bool) -> Self {
        let n = graph.switches();
        Self {
            graph,
            used: vec![NONE; n],
            hops: vec![0; n],
            sum: vec![0; n],
            order: Vec::with_capacity(n),
            frontier: Vec::new(),
            best: vec![(0, NONE); n],
            found: Vec::new(),
            fresh: Vec::new(),
            home: 0,
            sources: 0,
            is_indirect: is_indirect(graph.terminals()),
            is_tree,
            routes: vec![0; n],
            last: vec![0; n],
            flow: vec![0; n],
            is_careful,
        }
    }

    /// Finds routes from all switches connected with `home`: afterwards `used` and `order` hold
    /// the tree. `sources` is the number of those switches that have terminals, itself included;
    /// `weight[channel]` is what balance adds to a hop, `routes[switch]` what starts there. Where nothing starts, nothing depends: switches
    /// without terminals that carry nothing to this destination leave no dependency in use, and
    /// need no legal way. False, with nothing left in use, in an impasse; what was
    /// refused then stays so: to ask again in vain would cost a search each time.
    pub(super) fn run(
        &mut self,
        cdg: &mut CompleteCdg,
        home: usize,
        sources: usize,
        weight: &[u64],
        routes: &[u64],
    ) -> bool {
        self.start(home);
        if self.is_tree {
            self.routes.copy_from_slice(routes);
            self.flow.fill(0);
            self.last[home] = home as u32;
        }
        self.best.fill((0, NONE));
        self.best[home].1 = REACHED;
        self.fresh.clear();
        (self.hops[home], self.sum[home]) = (0, 0);
        self.frontier.clear();
        self.frontier.push(home as u32);
        let mut moved = false;
        loop {
            while !self.frontier.is_empty() {
                self.level(cdg, weight);
            }
            if self.sources == sources {
                break;
            }
            if !self.backtrack(cdg, weight) {
                self.release(cdg, |_, _, _| false);
                return false;
            }
            moved = true;
        }
        if moved {
            self.release(cdg, |used, graph, (p, q)| {
                used[graph.to(q as usize)] == q && used[graph.to(p as usize)] == p
            });
            self.sort();
        }
        if self.is_indirect {
            self.release_empty(cdg);
            self.attach();
        }
        true
    }

    /// A tree that holds the destination's switch alone.
    fn start(&mut self, home: usize) {
        self.home = home;
        self.used.fill(NONE);
        self.order.clear();
        self.order.push(home as u32);
        self.sources = usize::from(self.graph.terminals()[home] > 0);
    }

    /// Gives back the dependencies of channels through which no route of the finished step goes.
    fn release_empty(&mut self, cdg: &mut CompleteCdg) {
        let graph = self.graph;
        let mut carries: Vec<bool> = graph.terminals().iter().map(|n| *n > 0).collect();
        for s in self.order[1..].iter().rev().map(|s| *s as usize) {
            if carries[s] {
                carries[graph.from(self.used[s] as usize)] = true;
            }
        }
        self.release(cdg, |_, graph, (_, q)| carries[graph.to(q as usize)]);
    }

    /// Leads what was not reached, on switches where nothing starts, the shortest way to the tree.
    fn attach(&mut self) {
        let mut next = 0;
        while let Some(&s) = self.order.get(next) {
            next += 1;
            for (c, &to) in self.graph.out(s as usize).zip(self.graph.neighbours(s as usize)) {
                if !self.reached(to as usize) {
                    self.used[to as usize] = c as u32;
                    self.order.push(to);
                }
            }
        }
    }

    /// Shortest ways that no layer has room for, to a destination that only management needs.
    pub(super) fn ignore_layers(&mut self, home: usize) {
        self.start(home);
        self.attach();
    }

    #[inline]
    fn reached(&self, s: usize) -> bool {
        s == self.home || self.used[s] != NONE
    }

    /// Takes the dependency from the channel into `q`'s switch to `q`.
    #[inline]
    fn allow(&mut self, cdg: &mut CompleteCdg, before: u32, q: usize) -> bool {
        if before == NONE {
            return true;
        }
        let answer = cdg.try_use(self.graph, before as usize, q);
        if answer == Use::New {
            self.fresh.push((before, q as u32));
        }
        answer != Use::Refused
    }

    /// One more hop from the frontier.
    fn level(&mut self, cdg: &mut CompleteCdg, weight: &[u64]) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let level = self.hops[self.frontier[0] as usize];
        if self.is_tree {
            self.see(&mut found);
        } else {
            self.weigh(cdg, weight, &mut found);
        }
        self.frontier.clear();
        for &to in &found {
            let (sum, q) = match self.is_tree {
                true => self.lightest(cdg, to as usize, level, weight),
                false => std::mem::replace(&mut self.best[to as usize], (0, NONE)),
            };
            if self.allow(cdg, self.used[self.graph.from(q as usize)], q as usize) {
                self.enter(q as usize, sum);
            } else {
                self.best[to as usize].1 = NONE;
                self.second_best(cdg, to as usize, level, weight);
            }
        }
        self.found = found;
    }

    /// Switches beside the frontier that are not reached.
    fn see(&mut self, found: &mut Vec<u32>) {
        for s in &self.frontier {
            for &to in self.graph.neighbours(*s as usize) {
                let known = &mut self.best[to as usize].1;
                if *known == NONE {
                    *known = SEEN;
                    found.push(to);
                }
            }
        }
    }

    /// The same, each with the best channel from the frontier.
    fn weigh(&mut self, cdg: &CompleteCdg, weight: &[u64], found: &mut Vec<u32>) {
        let graph = self.graph;
        for &s in &self.frontier {
            let (sum, before) = (self.sum[s as usize], self.used[s as usize]);
            for (q, &to) in graph.out(s as usize).zip(graph.neighbours(s as usize)) {
                let (best, known) = &mut self.best[to as usize];
                if *known == REACHED {
                    continue;
                }
                let mut sum = sum + weight[q];
                if self.is_careful && cdg.is_against_order(before, q) {
                    sum += DISORDER;
                }
                if *known == NONE {
                    found.push(to);
                }
                if *known == NONE || sum < *best {
                    (*best, *known) = (sum, q as u32);
                }
            }
        }
    }

    /// The best channel from this level into a switch, with what others of the next have chosen; the
    /// sum is without that.
    fn lightest(&self, cdg: &CompleteCdg, to: usize, level: u32, weight: &[u64]) -> (u64, u32) {
        let graph = self.graph;
        let (mut least, mut chosen) = (u64::MAX, (0, NONE));
        for (c, &from) in graph.out(to).zip(graph.neighbours(to)) {
            let from = from as usize;
            if self.best[from].1 != REACHED || self.hops[from] != level {
                continue;
            }
            let q = graph.reverse(c);
            let sum = self.sum[from] + weight[q];
            let mut cost = sum + self.flow[self.last[from] as usize];
            if self.is_careful && cdg.is_against_order(self.used[from], q) {
                cost += DISORDER;
            }
            if cost < least {
                (least, chosen) = (cost, (sum, q as u32));
            }
        }
        chosen
    }

    /// Enters a switch whose best channel is blocked through the next best from the same level.
    fn second_best(&mut self, cdg: &mut CompleteCdg, to: usize, level: u32, weight: &[u64]) {
        let graph = self.graph;
        let into = graph.out(to).map(|c| graph.reverse(c)).filter(|q| {
            let from = graph.from(*q);
            self.reached(from) && self.hops[from] == level
        });
        let mut ways: Vec<(u64, usize)> = into.map(|q| (self.sum[graph.from(q)] + weight[q], q)).collect();
        ways.sort_unstable();
        for (sum, q) in ways {
            if self.allow(cdg, self.used[graph.from(q)], q) {
                return self.enter(q, sum);
            }
        }
    }

    fn enter(&mut self, q: usize, sum: u64) {
        let (from, to) = (self.graph.from(q), self.graph.to(q));
        self.used[to] = q as u32;
        self.hops[to] = self.hops[from] + 1;
        self.sum[to] = sum;
        if self.is_tree {
            self.join(from, to);
        }
        self.best[to].1 = REACHED;
        self.sources += usize::from(self.graph.terminals()[to] > 0);
        self.order.push(to as u32);
        self.frontier.push(to as u32);
    }

    /// Counts the routes from a switch where they join another's way, for those that choose later: as
    /// [`crate::route::trees::TreeBuilder::spread`] does.
    fn join(&mut self, from: usize, to: usize) {
        self.sum[from] += self.routes[to] * u64::from(self.hops[from].saturating_sub(1));
        self.last[to] = if from == self.home { to as u32 } else { self.last[from] };
        self.flow[self.last[to] as usize] += self.routes[to];
    }

    /// Algorithm 6.5: enters one island from a neighbour that changes its own channel.
    fn backtrack(&mut self, cdg: &mut CompleteCdg, weight: &[u64]) -> bool {
        let graph = self.graph;
        for island in 0..graph.switches() {
            if self.reached(island) {
                continue;
            }
            let mut ways = Vec::new();
            for out in graph.out(island) {
                let q = graph.reverse(out);
                let neighbour = graph.from(q);
                if !self.reached(neighbour) || neighbour == self.home {
                    continue;
                }
                for p in graph.out(neighbour).map(|back| graph.reverse(back)) {
                    let from = graph.from(p);
                    if self.used[neighbour] != p as u32 && self.reached(from) {
                        ways.push((self.hops[from] + 1, self.sum[from] + weight[p], p, q));
                    }
                }
            }
            ways.sort_unstable();
            for (_, sum, p, q) in ways {
                if self.reroute(cdg, p, Some(q), sum) {
                    self.enter(q, sum + weight[q]);
                    self.shortcuts(cdg, island, weight);
                    return true;
                }
            }
        }
        false
    }

    /// Lets the switch that `p` enters use `p` instead of what it uses, if all dependencies on it
    /// (and, if given, one more to `extra`) can be kept.
    fn reroute(&mut self, cdg: &mut CompleteCdg, p: usize, extra: Option<usize>, sum: u64) -> bool {
        let graph = self.graph;
        let (from, to) = (graph.from(p), graph.to(p));
        if self.is_below(from, to) {
            return false;
        }
        let before = self.fresh.len();
        let mut allowed = self.allow(cdg, self.used[from], p);
        for q in graph.out(to) {
            let follows = self.used[graph.to(q)] == q as u32 || extra == Some(q);
            allowed = allowed && (!follows || self.allow(cdg, p as u32, q));
        }
        if allowed {
            self.used[to] = p as u32;
            self.hops[to] = self.hops[from] + 1;
            self.sum[to] = sum;
        } else {
            let late = self.fresh.drain(before..);
            late.for_each(|(p, q)| cdg.release(graph, p as usize, q as usize));
        }
        allowed
    }

    /// Whether the way from `s` to the destination passes `ancestor`.
    fn is_below(&self, mut s: usize, ancestor: usize) -> bool {
        loop {
            if s == ancestor {
                return true;
            }
            match self.used[s] {
                NONE => return false,
                c => s = self.graph.from(c as usize),
            }
        }
    }

    /// Algorithm 6.6: neighbours that come closer to the destination through a former island.
    fn shortcuts(&mut self, cdg: &mut CompleteCdg, island: usize, weight: &[u64]) {
        for c in self.graph.out(island) {
            let to = self.graph.to(c);
            if to != self.home && self.reached(to) && self.hops[island] + 1 < self.hops[to] {
                self.reroute(cdg, c, None, self.sum[island] + weight[c]);
            }
        }
    }

    /// All routes to this destination take the escape paths, whose dependencies are in use anyway.
    pub(super) fn fall_back(&mut self, escape: &EscapeForest, home: usize) {
        self.start(home);
        let mut next = 0;
        while let Some(&s) = self.order.get(next) {
            next += 1;
            for c in self.graph.out(s as usize) {
                let to = self.graph.to(c);
                if escape.has(self.graph, c) && !self.reached(to) {
                    self.used[to] = c as u32;
                    self.order.push(to as u32);
                }
            }
        }
    }

    /// Gives back all dependencies that are not needed.
    fn release(&mut self, cdg: &mut CompleteCdg, needed: impl Fn(&[u32], &Graph, (u32, u32)) -> bool) {
        let graph = self.graph;
        for (p, q) in self.fresh.drain(..) {
            if !needed(&self.used, graph, (p, q)) {
                cdg.release(graph, p as usize, q as usize);
            }
        }
    }

    /// Puts `order` right after reroutes: each switch after the one it uses.
    fn sort(&mut self) {
        let mut children = vec![Vec::new(); self.used.len()];
        for &s in &self.order {
            if self.used[s as usize] != NONE {
                children[self.graph.from(self.used[s as usize] as usize)].push(s);
            }
        }
        self.order.clear();
        self.order.push(self.home as u32);
        let mut next = 0;
        while next < self.order.len() {
            let s = self.order[next];
            self.order.append(&mut children[s as usize]);
            next += 1;
        }
    }
}
