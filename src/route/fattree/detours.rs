//! Ways for leaves that faults cut off from below the root of a destination.
//!
//! Port counters say nothing of such routes: a counter is one per destination, whether ten leaves come or all.
//! So when all trees are made as far as the algorithm goes, their routes are counted, and each leaf
//! that is left takes the way up and down, among the shortest, whose fullest channel carries least.

use super::Climber;
use crate::model::Fabric;
use crate::route::forest::{Forest, terminals_by_switch};
use crate::route::trees::Descent;

/// No way.
const FAR: u32 = u32::MAX;

/// Routes on the fullest channel of a way, and on all together.
type Cost = (u64, u64);

/// Buffers for one destination after the other.
pub(super) struct Detours<'a, 'b> {
    climber: &'b mut Climber<'a>,
    /// Routes per channel.
    load: Vec<u64>,
    /// Scratch, per switch: routes that pass it.
    flow: Vec<u64>,
    hops: Vec<u32>,
    cost: Vec<Cost>,
}

impl<'a, 'b> Detours<'a, 'b> {
    pub(super) fn new(climber: &'b mut Climber<'a>) -> Self {
        let (switches, channels) = (climber.graph.switches(), climber.graph.channels());
        Self {
            climber,
            load: vec![0; channels],
            flow: vec![0; switches],
            hops: vec![FAR; switches],
            cost: vec![(0, 0); switches],
        }
    }

    /// Completes the trees to all terminals that miss a leaf. O(trees × (switches + channels)).
    pub(super) fn lead_all(&mut self, fabric: &Fabric, forest: &mut Forest) {
        let mut open = Vec::new();
        for (home, terminals) in terminals_by_switch(fabric) {
            self.climber.mark_above(home.index());
            for t in terminals {
                let tree = forest.tree(t.index());
                self.count(tree);
                if tree.iter().zip(self.climber.graph.terminals()).any(|(s, n)| *n > 0 && *s == Forest::NONE)
                {
                    open.push((home.index(), t.index()));
                }
            }
        }
        for (home, tree) in open {
            self.climber.mark_above(home);
            self.lead(forest.tree_mut(tree));
        }
        for (home, terminals) in terminals_by_switch(fabric) {
            self.climber.mark_above(home.index());
            let goal = self.goal();
            for t in terminals {
                self.level(forest.tree_mut(t.index()), goal);
            }
        }
    }

    /// What a channel would carry if all of the same two levels carried alike, and an eighth more; for the two levels
    /// where that is most.
    fn goal(&self) -> u64 {
        let (graph, level) = (self.climber.graph, &self.climber.tree.level);
        let mut of = vec![(0, 0); 2 * self.climber.tree.top() as usize + 2];
        for c in 0..graph.channels() {
            let (from, to) = (level[graph.from(c)] as usize, level[graph.to(c)] as usize);
            let (sum, count) = &mut of[2 * from + usize::from(to > from)];
            (*sum, *count) = (*sum + self.load[c], *count + 1);
        }
        let most = of.iter().map(|(sum, count)| sum / (*count).max(1)).max().unwrap_or(0);
        most + most / 8
    }

    /// Leads switches of one tree whose way is fuller than the goal another way of the same length, where that
    /// is less full.
    fn level(&mut self, slots: &mut [u8], goal: u64) {
        self.flow_of(slots);
        self.hops.fill(FAR);
        for at in 0..self.climber.climbed.len() {
            let s = self.climber.climbed[at] as usize;
            self.relieve(slots, s, goal);
        }
        for at in 0..self.climber.tree.top_down.len() {
            let s = self.climber.tree.top_down[at] as usize;
            if !self.climber.above[s] {
                self.relieve(slots, s, goal);
            }
        }
    }

    /// One switch, after those it may forward to.
    fn relieve(&mut self, slots: &mut [u8], s: usize, goal: u64) {
        if slots[s] == Forest::NONE {
            return;
        }
        self.follow(slots, s);
        let routes = self.flow[s];
        if routes == 0 || slots[s] == Forest::HOME || self.cost[s].0 <= goal {
            return;
        }
        self.shift(slots, s, routes, false);
        // Of those above the destination only what is above it too has fewer hops and is known yet.
        let Climber { directions, above, .. } = &*self.climber;
        let ways = if above[s] { directions.downs(s) } else { directions.ups(s) };
        let shortest = |w: &&Descent| self.hops[w.to as usize] == self.hops[s] - 1;
        let cost = |w: &&Descent| {
            let (own, (most, sum)) = (self.load[w.channel as usize], self.now(slots, w.to as usize));
            (most.max(own), sum + own, w.channel)
        };
        if let Some(best) = ways.iter().filter(shortest).min_by_key(cost) {
            slots[s] = self.climber.graph.slot_at(s, best.channel as usize);
        }
        self.shift(slots, s, routes, true);
        self.follow(slots, s);
    }

    /// Adds or takes away routes on the way of a switch.
    fn shift(&mut self, slots: &[u8], mut s: usize, routes: u64, adds: bool) {
        let graph = self.climber.graph;
        while let Some(next) = Forest::step(graph, slots, s) {
            let load = &mut self.load[graph.channel(s, slots[s])];
            let flow = &mut self.flow[next];
            (*load, *flow) = match adds {
                true => (*load + routes, *flow + routes),
                // A way that climbs again, to a leaf above others, was not counted everywhere.
                false => (load.saturating_sub(routes), flow.saturating_sub(routes)),
            };
            s = next;
        }
    }

    /// Adds the routes of a tree.
    fn count(&mut self, slots: &[u8]) {
        self.flow_of(slots);
        for (s, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot < Forest::HOME) {
            self.load[self.climber.graph.channel(s, *slot)] += self.flow[s];
        }
    }

    /// Routes that pass each switch of a tree: first those that go up, lower levels first, then those that go down.
    fn flow_of(&mut self, slots: &[u8]) {
        let Climber { graph, tree, above, climbed, .. } = &*self.climber;
        for (s, terminals) in graph.terminals().iter().enumerate() {
            self.flow[s] = if slots[s] == Forest::NONE { 0 } else { u64::from(*terminals) };
        }
        let ups = tree.top_down.iter().rev().filter(|s| !above[**s as usize]);
        for s in ups.chain(climbed.iter().rev()).map(|s| *s as usize) {
            if slots[s] < Forest::HOME {
                self.flow[graph.to(graph.channel(s, slots[s]))] += self.flow[s];
            }
        }
    }

    /// Completes one tree. Switches without terminals choose first, higher levels first, and carry
    /// nothing yet; then each leaf counts at once what it adds.
    fn lead(&mut self, slots: &mut [u8]) {
        self.hops.fill(FAR);
        for at in 0..self.climber.climbed.len() {
            let s = self.climber.climbed[at] as usize;
            if slots[s] == Forest::NONE {
                let way = self.cheapest(self.climber.directions.downs(s), |to| self.climber.above[to]);
                self.take(slots, s, way);
            } else {
                self.follow(slots, s);
            }
        }
        for at in 0..self.climber.tree.top_down.len() {
            let s = self.climber.tree.top_down[at] as usize;
            if self.climber.above[s] {
                continue;
            }
            if slots[s] != Forest::NONE {
                self.follow(slots, s);
            } else if self.climber.graph.terminals()[s] == 0 {
                let way = self.cheapest(self.climber.directions.ups(s), |_| true);
                self.take(slots, s, way);
            } else {
                self.join(slots, s);
            }
        }
    }

    /// The shortest and then the least loaded channel to a switch that has a way.
    fn cheapest(&self, ways: &[Descent], may: impl Fn(usize) -> bool) -> Option<usize> {
        let open = ways.iter().filter(|w| self.hops[w.to as usize] != FAR && may(w.to as usize));
        let key = |w: &&Descent| (self.hops[w.to as usize], self.cost_over(w.channel as usize), w.channel);
        open.min_by_key(key).map(|w| w.channel as usize)
    }

    fn cost_over(&self, c: usize) -> Cost {
        let ((most, sum), own) = (self.cost[self.climber.graph.to(c)], self.load[c]);
        (most.max(own), sum + own)
    }

    fn take(&mut self, slots: &mut [u8], s: usize, way: Option<usize>) {
        if let Some(c) = way {
            slots[s] = self.climber.graph.slot_at(s, c);
            self.follow(slots, s);
        }
    }

    /// Notes the way of a switch.
    fn follow(&mut self, slots: &[u8], s: usize) {
        if slots[s] == Forest::HOME {
            (self.hops[s], self.cost[s]) = (0, (0, 0));
            return;
        }
        let c = self.climber.graph.channel(s, slots[s]);
        self.hops[s] = self.hops[self.climber.graph.to(c)].saturating_add(1);
        self.cost[s] = self.cost_over(c);
    }

    /// Lets a leaf go up, with what leaves before it have added, and adds its own routes.
    fn join(&mut self, slots: &mut [u8], leaf: usize) {
        let graph = self.climber.graph;
        for at in 0..self.climber.directions.ups(leaf).len() {
            let to = self.climber.directions.ups(leaf)[at].to as usize;
            if self.hops[to] != FAR {
                self.cost[to] = self.now(slots, to);
            }
        }
        let way = self.cheapest(self.climber.directions.ups(leaf), |_| true);
        self.take(slots, leaf, way);
        let (mut s, routes) = (leaf, u64::from(graph.terminals()[leaf]));
        while let Some(next) = Forest::step(graph, slots, s) {
            self.load[graph.channel(s, slots[s])] += routes;
            s = next;
        }
    }

    /// What the way of a switch costs by now.
    fn now(&self, slots: &[u8], mut s: usize) -> Cost {
        let (graph, mut cost) = (self.climber.graph, (0, 0));
        while let Some(next) = Forest::step(graph, slots, s) {
            let own = self.load[graph.channel(s, slots[s])];
            cost = (cost.0.max(own), cost.1 + own);
            s = next;
        }
        cost
    }
}
