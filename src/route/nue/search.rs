//! One destination: a search over channels that never uses a dependency which would close a
//! cycle (thesis Algorithms 6.2, 6.5 and 6.6).
//!
//! Hops dominate the weights, so the search goes level by level instead of keeping a heap. A dependency is tried only when its channel would be taken:
//! no dependency is used for a channel that is replaced later, and the next-best candidate of a
//! switch is tried at once when the best is blocked.

use super::complete_cdg::{CompleteCdg, Use};
use crate::model::{ChannelId, Fabric, SwitchId};

/// Channels of a spanning forest: `parent[switch]` enters it from the side of its root.
pub(super) struct EscapeForest {
    pub(super) parent: Vec<Option<ChannelId>>,
    /// Switches, each after its parent.
    pub(super) order: Vec<SwitchId>,
}

impl EscapeForest {
    /// Breadth-first from `root`; parts of the fabric that it does not reach get trees of their
    /// own from their lowest switch. O(channels).
    pub(super) fn new(fabric: &Fabric, root: SwitchId) -> Self {
        let mut forest = Self { parent: vec![None; fabric.switches().len()], order: Vec::new() };
        let mut known = vec![false; fabric.switches().len()];
        for start in std::iter::once(root).chain(fabric.switch_ids()) {
            if std::mem::replace(&mut known[start.index()], true) {
                continue;
            }
            let mut next = forest.order.len();
            forest.order.push(start);
            while next < forest.order.len() {
                for c in fabric.out(forest.order[next]) {
                    let to = fabric.channel(*c).to;
                    if !std::mem::replace(&mut known[to.index()], true) {
                        forest.parent[to.index()] = Some(*c);
                        forest.order.push(to);
                    }
                }
                next += 1;
            }
        }
        forest
    }

    /// Whether a channel belongs to the forest, in either direction.
    fn has(&self, fabric: &Fabric, c: ChannelId) -> bool {
        let ch = fabric.channel(c);
        self.parent[ch.to.index()] == Some(c) || self.parent[ch.from.index()] == Some(c.reverse())
    }

    /// Uses every dependency of routes over the forest to destinations on `targets` (thesis
    /// Definition 6.2). A forest closes no cycle. O(dependencies).
    pub(super) fn mark(&self, fabric: &Fabric, cdg: &mut CompleteCdg<'_>, targets: &[bool]) {
        // Destinations below each switch, and per tree.
        let mut below: Vec<usize> = targets.iter().map(|t| usize::from(*t)).collect();
        for s in self.order.iter().rev() {
            if let Some(c) = self.parent[s.index()] {
                below[fabric.channel(c).from.index()] += below[s.index()];
            }
        }
        let mut whole = below.clone();
        for s in &self.order {
            if let Some(c) = self.parent[s.index()] {
                whole[s.index()] = whole[fabric.channel(c).from.index()];
            }
        }
        for p in fabric.channel_ids().filter(|c| self.has(fabric, *c)) {
            let ch = fabric.channel(p);
            // The search comes through `p` if there is a destination on its near side.
            let near = match self.parent[ch.to.index()] == Some(p) {
                true => whole[ch.to.index()] - below[ch.to.index()],
                false => below[ch.from.index()],
            };
            if near == 0 {
                continue;
            }
            for q in fabric.out(ch.to) {
                if *q != p.reverse() && self.has(fabric, *q) {
                    cdg.try_use(p, *q);
                }
            }
        }
    }
}

/// Reusable state of the search for one destination.
pub(super) struct Search<'a> {
    fabric: &'a Fabric,
    /// `used[switch]`: the channel through which the search entered it.
    pub(super) used: Vec<Option<ChannelId>>,
    hops: Vec<u32>,
    sum: Vec<u64>,
    /// Reached switches, each after the one it was reached from.
    pub(super) order: Vec<SwitchId>,
    frontier: Vec<SwitchId>,
    /// `best[switch]`: cheapest way into a switch that the next level may reach.
    best: Vec<(u64, Option<ChannelId>)>,
    found: Vec<SwitchId>,
    /// Dependencies that this destination uses first.
    fresh: Vec<(ChannelId, ChannelId)>,
    home: SwitchId,
}

impl<'a> Search<'a> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let switches = fabric.switches().len();
        Self {
            fabric,
            used: vec![None; switches],
            hops: vec![0; switches],
            sum: vec![0; switches],
            order: Vec::with_capacity(switches),
            frontier: Vec::new(),
            best: vec![(0, None); switches],
            found: Vec::new(),
            fresh: Vec::new(),
            home: SwitchId(0),
        }
    }

    /// Finds routes from all switches connected with `home`: afterwards `used` and `order` hold
    /// the tree. `connected` is the number of those switches, itself included; `weight[channel]`
    /// is what balance adds to a hop. Falls back to the escape paths in an impasse.
    pub(super) fn run(
        &mut self,
        cdg: &mut CompleteCdg<'_>,
        escape: &EscapeForest,
        home: SwitchId,
        connected: usize,
        weight: &[u64],
    ) {
        self.used.fill(None);
        self.order.clear();
        self.fresh.clear();
        self.home = home;
        (self.hops[home.index()], self.sum[home.index()]) = (0, 0);
        self.order.push(home);
        self.frontier.clear();
        self.frontier.push(home);
        let mut moved = false;
        loop {
            while !self.frontier.is_empty() {
                self.level(cdg, weight);
            }
            if self.order.len() == connected {
                break;
            }
            if !self.backtrack(cdg, weight) {
                self.fall_back(cdg, escape);
                return;
            }
            moved = true;
        }
        if moved {
            self.release_unneeded(cdg);
            self.sort();
        }
    }

    fn reached(&self, s: SwitchId) -> bool {
        s == self.home || self.used[s.index()].is_some()
    }

    /// Takes the dependency from the channel into `q`'s switch to `q`.
    fn allow(&mut self, cdg: &mut CompleteCdg<'_>, before: Option<ChannelId>, q: ChannelId) -> bool {
        let Some(p) = before else { return true };
        let answer = cdg.try_use(p, q);
        if answer == Use::New {
            self.fresh.push((p, q));
        }
        answer != Use::Refused
    }

    /// One more hop from the frontier.
    fn level(&mut self, cdg: &mut CompleteCdg<'_>, weight: &[u64]) {
        let fabric = self.fabric;
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        for s in &self.frontier {
            let sum = self.sum[s.index()];
            for q in fabric.out(*s) {
                let to = fabric.channel(*q).to;
                if self.reached(to) {
                    continue;
                }
                let (best, known) = &mut self.best[to.index()];
                let sum = sum + weight[q.index()];
                if known.is_none() {
                    found.push(to);
                }
                if known.is_none() || sum < *best {
                    (*best, *known) = (sum, Some(*q));
                }
            }
        }
        let level = self.hops[self.frontier[0].index()];
        self.frontier.clear();
        for to in &found {
            let (sum, best) = std::mem::take(&mut self.best[to.index()]);
            let Some(q) = best else { continue };
            if self.allow(cdg, self.used[fabric.channel(q).from.index()], q) {
                self.enter(q, sum);
            } else {
                self.second_best(cdg, *to, level, weight);
            }
        }
        self.found = found;
    }

    /// Enters a switch whose best channel is blocked through the next best from the same level.
    fn second_best(&mut self, cdg: &mut CompleteCdg<'_>, to: SwitchId, level: u32, weight: &[u64]) {
        let fabric = self.fabric;
        let into = fabric.out(to).iter().map(|c| c.reverse()).filter(|q| {
            let from = fabric.channel(*q).from;
            self.reached(from) && self.hops[from.index()] == level
        });
        let mut ways: Vec<(u64, ChannelId)> =
            into.map(|q| (self.sum[fabric.channel(q).from.index()] + weight[q.index()], q)).collect();
        ways.sort_unstable();
        for (sum, q) in ways {
            if self.allow(cdg, self.used[fabric.channel(q).from.index()], q) {
                return self.enter(q, sum);
            }
        }
    }

    fn enter(&mut self, q: ChannelId, sum: u64) {
        let ch = self.fabric.channel(q);
        self.used[ch.to.index()] = Some(q);
        self.hops[ch.to.index()] = self.hops[ch.from.index()] + 1;
        self.sum[ch.to.index()] = sum;
        self.order.push(ch.to);
        self.frontier.push(ch.to);
    }

    /// Algorithm 6.5: enters one island from a neighbour that changes its own channel.
    fn backtrack(&mut self, cdg: &mut CompleteCdg<'_>, weight: &[u64]) -> bool {
        for island in self.fabric.switch_ids() {
            if self.reached(island) {
                continue;
            }
            let mut ways = Vec::new();
            for out in self.fabric.out(island) {
                let q = out.reverse();
                let neighbour = self.fabric.channel(q).from;
                if !self.reached(neighbour) || neighbour == self.home {
                    continue;
                }
                for back in self.fabric.out(neighbour) {
                    let p = back.reverse();
                    let from = self.fabric.channel(p).from;
                    if self.used[neighbour.index()] != Some(p) && self.reached(from) {
                        let hops = self.hops[from.index()] + 1;
                        ways.push((hops, self.sum[from.index()] + weight[p.index()], p, q));
                    }
                }
            }
            ways.sort_unstable();
            for (_, sum, p, q) in ways {
                if self.reroute(cdg, p, Some(q), sum) {
                    self.enter(q, sum + weight[q.index()]);
                    self.shortcuts(cdg, island, weight);
                    return true;
                }
            }
        }
        false
    }

    /// Lets the switch that `p` enters use `p` instead of what it uses, if all dependencies on it
    /// (and, if given, one more to `extra`) can be kept.
    fn reroute(
        &mut self,
        cdg: &mut CompleteCdg<'_>,
        p: ChannelId,
        extra: Option<ChannelId>,
        sum: u64,
    ) -> bool {
        let ch = *self.fabric.channel(p);
        if self.is_below(ch.from, ch.to) {
            return false;
        }
        let before = self.fresh.len();
        let mut allowed = self.allow(cdg, self.used[ch.from.index()], p);
        for q in self.fabric.out(ch.to) {
            let follows = self.used[self.fabric.channel(*q).to.index()] == Some(*q) || extra == Some(*q);
            allowed = allowed && (!follows || self.allow(cdg, Some(p), *q));
        }
        if allowed {
            self.used[ch.to.index()] = Some(p);
            self.hops[ch.to.index()] = self.hops[ch.from.index()] + 1;
            self.sum[ch.to.index()] = sum;
        } else {
            self.fresh.drain(before..).for_each(|(p, q)| cdg.release(p, q));
        }
        allowed
    }

    /// Whether the way from `s` to the destination passes `ancestor`.
    fn is_below(&self, mut s: SwitchId, ancestor: SwitchId) -> bool {
        loop {
            if s == ancestor {
                return true;
            }
            match self.used[s.index()] {
                Some(c) => s = self.fabric.channel(c).from,
                None => return false,
            }
        }
    }

    /// Algorithm 6.6: neighbours that come closer to the destination through a former island.
    fn shortcuts(&mut self, cdg: &mut CompleteCdg<'_>, island: SwitchId, weight: &[u64]) {
        for c in self.fabric.out(island) {
            let to = self.fabric.channel(*c).to;
            if to != self.home && self.reached(to) && self.hops[island.index()] + 1 < self.hops[to.index()] {
                let sum = self.sum[island.index()] + weight[c.index()];
                self.reroute(cdg, *c, None, sum);
            }
        }
    }

    /// All routes to this destination take the escape paths, whose dependencies are in use anyway.
    fn fall_back(&mut self, cdg: &mut CompleteCdg<'_>, escape: &EscapeForest) {
        self.fresh.drain(..).for_each(|(p, q)| cdg.release(p, q));
        self.used.fill(None);
        self.order.clear();
        self.order.push(self.home);
        let mut next = 0;
        while next < self.order.len() {
            let s = self.order[next];
            next += 1;
            for c in self.fabric.out(s) {
                let to = self.fabric.channel(*c).to;
                if escape.has(self.fabric, *c) && !self.reached(to) {
                    self.used[to.index()] = Some(*c);
                    self.order.push(to);
                }
            }
        }
    }

    /// Gives back dependencies that rerouted switches no longer need.
    fn release_unneeded(&mut self, cdg: &mut CompleteCdg<'_>) {
        let fabric = self.fabric;
        for (p, q) in self.fresh.drain(..) {
            let needed = self.used[fabric.channel(q).to.index()] == Some(q)
                && self.used[fabric.channel(p).to.index()] == Some(p);
            if !needed {
                cdg.release(p, q);
            }
        }
    }

    /// Puts `order` right after reroutes: each switch after the one it uses.
    fn sort(&mut self) {
        let fabric = self.fabric;
        let mut children = vec![Vec::new(); self.used.len()];
        for s in &self.order {
            if let Some(c) = self.used[s.index()] {
                children[fabric.channel(c).from.index()].push(*s);
            }
        }
        self.order.clear();
        self.order.push(self.home);
        let mut next = 0;
        while next < self.order.len() {
            let s = self.order[next];
            self.order.append(&mut children[s.index()]);
            next += 1;
        }
    }
}
