//! The closure: next hops are added one by one, each with all walks through it that any mixture of
//! tables makes possible.

use std::collections::VecDeque;

use super::space::{NO_LANE, Space, Turn, Use};
use super::terrain::{FAR, Terrain};
use crate::model::{Closure, SwitchId};
use crate::route::ways::bits;

/// Next hops of one home while they grow.
pub(super) struct Grower<'a, 's> {
    terrain: &'a Terrain<'a>,
    pub(super) space: &'s mut Space<'a>,
    home: usize,
    /// Lanes, as bits, on which packets to the home may be, by channel.
    on: Vec<u16>,
    /// Channels that are next hops.
    is_way: Vec<bool>,
    /// How many next hops a switch has.
    ways: Vec<u32>,
    /// What the trial at hand put on channels.
    trial: Vec<(usize, u8)>,
    queue: VecDeque<(usize, u8)>,
    /// Next hops that may still be tried while closures grow.
    pub(super) tries: usize,
    /// Next hops that are tried for each home at a time, at most: of more, some near home and some far.
    pub(super) most: usize,
    /// What a channel costs who is led, in hops: where ways to many homes take the same ones, they close fewer cycles.
    pub(super) price: Vec<u16>,
}

impl<'a, 's> Grower<'a, 's> {
    pub(super) fn new(terrain: &'a Terrain<'a>, space: &'s mut Space<'a>) -> Self {
        Self {
            terrain,
            space,
            home: 0,
            on: vec![0; terrain.graph.channels()],
            is_way: vec![false; terrain.graph.channels()],
            ways: vec![0; terrain.graph.switches()],
            trial: Vec::new(),
            queue: VecDeque::new(),
            tries: usize::MAX,
            most: usize::MAX,
            price: vec![0; terrain.graph.channels()],
        }
    }

    /// Begins with a home, of which `of` counts what its next hops need; anything else that they need
    /// is counted now, which must close no cycle. Next hops may lead where there is none: packets of
    /// tables of before a loss still come that way.
    pub(super) fn begin(&mut self, home: usize, sets: &Closure, of: &mut Use) {
        let fits = self.try_begin(home, sets, of);
        assert!(fits, "next hops that are in use keep the order");
    }

    /// As [`Grower::begin`]; false if the next hops do not fit, and what they need is counted in part then. Where nothing
    /// started before, two switches may lead to each other: the first host of a switch makes that matter.
    pub(super) fn try_begin(&mut self, home: usize, sets: &Closure, of: &mut Use) -> bool {
        self.place(home, sets, of);
        for c in 0..self.is_way.len() {
            if self.is_way[c] {
                self.enter(c);
            }
        }
        let fits = self.flow(of);
        self.trial.clear();
        self.queue.clear();
        fits
    }

    /// Begins with a home whose next hops need nothing that is not there. Packets may be on all of them, on the only lane.
    pub(super) fn begin_known(&mut self, home: usize, sets: &Closure, of: &mut Use) {
        self.place(home, sets, of);
        self.on.iter_mut().zip(&self.is_way).for_each(|(on, is_way)| *on = u16::from(*is_way));
    }

    /// Reads the next hops of a home, which of them packets may be on left open.
    fn place(&mut self, home: usize, sets: &Closure, of: &mut Use) {
        let graph = self.terrain.graph;
        self.home = home;
        self.on.fill(0);
        self.is_way.fill(false);
        self.ways.fill(0);
        self.space.begin(of);
        for s in 0..graph.switches() {
            for (word, slots) in sets.slots(SwitchId::at(s), SwitchId::at(home)).iter().enumerate() {
                for slot in bits(*slots) {
                    self.is_way[graph.out(s).start + 64 * word + slot] = true;
                    self.ways[s] += 1;
                }
            }
        }
    }

    /// Switches that need a next hop and have none: packets start there, or are led there.
    pub(super) fn lost(&self) -> Vec<usize> {
        let (terrain, graph) = (self.terrain, self.terrain.graph);
        let is_led_to = |s: usize| graph.out(s).any(|back| self.is_way[graph.reverse(back)]);
        let mut lost = self.without();
        lost.retain(|s| terrain.starts(self.home, *s) || is_led_to(*s));
        lost
    }

    /// Switches that have no next hop, the nearest first.
    pub(super) fn without(&self) -> Vec<usize> {
        let hops = |s: &usize| self.terrain.hops(self.home, *s);
        let is_without = |s: &usize| *s != self.home && self.ways[*s] == 0 && hops(s) != FAR;
        let mut without: Vec<usize> = (0..self.ways.len()).filter(is_without).collect();
        without.sort_by_key(hops);
        without
    }

    fn set(&self, sets: &mut Closure, c: usize, allowed: bool) {
        let from = self.terrain.graph.from(c);
        let slot = usize::from(self.terrain.graph.slot_at(from, c));
        sets.set(SwitchId::at(from), SwitchId::at(self.home), slot, allowed);
    }

    /// Adds next hops that lead `longer` hops away from the shortest routes; how many.
    pub(super) fn grow(&mut self, longer: u16, sets: &mut Closure, of: &mut Use) -> usize {
        let mut added = 0;
        for c in self.candidates(longer) {
            if self.tries == 0 {
                break;
            }
            self.tries -= 1;
            if self.try_way(c, of) {
                self.set(sets, c, true);
                added += 1;
            }
        }
        added
    }

    /// Adds the next hops of another closure, those near home first.
    pub(super) fn restore(&mut self, before: &Closure, sets: &mut Closure, of: &mut Use) {
        let (graph, home) = (self.terrain.graph, self.home);
        let was = |c: &usize| {
            let from = graph.from(*c);
            before.allows(SwitchId::at(from), SwitchId::at(home), usize::from(graph.slot_at(from, *c)))
        };
        let mut dropped: Vec<usize> =
            (0..graph.channels()).filter(|c| !self.is_way[*c]).filter(was).collect();
        dropped.sort_by_key(|c| self.terrain.hops(home, graph.from(*c)));
        for c in dropped {
            if self.try_way(c, of) {
                self.set(sets, c, true);
            }
        }
    }

    /// Channels that are no next hops yet, those near home first.
    fn candidates(&self, longer: u16) -> Vec<usize> {
        let (terrain, home) = (self.terrain, self.home);
        let graph = terrain.graph;
        let hops = |s: usize| terrain.hops(home, s);
        let is_new = |c: &usize| {
            let (from, to) = (graph.from(*c), graph.to(*c));
            from != home && hops(from) != FAR && hops(to) + 1 == hops(from) + longer && !self.is_way[*c]
        };
        let mut found: Vec<usize> = (0..graph.channels()).filter(is_new).collect();
        found.sort_by_key(|c| hops(graph.from(*c)));
        let all = found.len();
        if all > self.most { (0..self.most).map(|i| found[i * all / self.most]).collect() } else { found }
    }

    /// Finds a next hop for each switch that lost them, the nearest first; whether all have one then.
    pub(super) fn complete(&mut self, sets: &mut Closure, of: &mut Use) -> bool {
        let lost = self.lost();
        if self.lead(lost, sets, of).is_empty() {
            return true;
        }
        // Over switches that need no way themselves.
        let without = self.without();
        self.lead(without.clone(), sets, of);
        let is_whole = self.lost().is_empty();
        self.drop_unused(&without, sets);
        is_whole
    }

    /// Finds a next hop for each of these switches, in this order where it matters; those that stay without.
    pub(super) fn lead(&mut self, mut lost: Vec<usize>, sets: &mut Closure, of: &mut Use) -> Vec<usize> {
        let (graph, terrain, home) = (self.terrain.graph, self.terrain, self.home);
        let mut is_done = false;
        while !std::mem::replace(&mut is_done, true) && !lost.is_empty() {
            lost.retain(|s| {
                let mut channels: Vec<usize> = graph.out(*s).collect();
                channels.sort_by_key(|c| terrain.hops(home, graph.to(*c)).saturating_add(self.price[*c]));
                let found = channels.into_iter().find(|c| self.try_way(*c, of));
                if let Some(c) = found {
                    self.set(sets, c, true);
                    is_done = false;
                }
                found.is_none()
            });
        }
        lost
    }

    /// Leads these switches to another one by its next hops, as far as ways go on from there.
    pub(super) fn lead_by(&mut self, pivot: usize, switches: &[usize], sets: &mut Closure, of: &mut Use) {
        let graph = self.terrain.graph;
        let mut is_done = false;
        while !std::mem::replace(&mut is_done, true) {
            for s in switches.iter().filter(|s| **s != pivot) {
                let towards = |c: &usize| {
                    let slot = usize::from(graph.slot_at(*s, *c));
                    sets.allows(SwitchId::at(*s), SwitchId::at(pivot), slot)
                };
                let mut channels =
                    graph.out(*s).filter(|c| self.ways[*s] == 0 && towards(c)).collect::<Vec<_>>();
                channels.retain(|c| self.ways[graph.to(*c)] > 0 || graph.to(*c) == self.home);
                if let Some(c) = channels.into_iter().find(|c| self.try_way(*c, of)) {
                    self.set(sets, c, true);
                    is_done = false;
                }
            }
        }
    }

    /// Drops the next hops of those of these switches that nothing starts at and nothing is led to.
    pub(super) fn drop_unused(&mut self, switches: &[usize], sets: &mut Closure) {
        let graph = self.terrain.graph;
        let mut is_done = false;
        while !std::mem::replace(&mut is_done, true) {
            for s in switches.iter().filter(|s| !self.terrain.starts(self.home, **s)) {
                let is_led_to = graph.out(*s).any(|back| self.is_way[graph.reverse(back)]);
                if is_led_to || self.ways[*s] == 0 {
                    continue;
                }
                for c in graph.out(*s) {
                    if std::mem::replace(&mut self.is_way[c], false) {
                        self.set(sets, c, false);
                    }
                }
                self.ways[*s] = 0;
                is_done = false;
            }
        }
    }

    /// Makes a channel a next hop, if all walks through it keep the graph without a cycle.
    pub(super) fn try_way(&mut self, c: usize, of: &mut Use) -> bool {
        let graph = self.terrain.graph;
        let (s, to) = (graph.from(c), graph.to(c));
        if to != self.home && self.ways[to] == 0 {
            return false;
        }
        let mark = of.mark();
        self.is_way[c] = true;
        self.ways[s] += 1;
        let fits = self.walk(c, s, of);
        if !fits {
            self.is_way[c] = false;
            self.ways[s] -= 1;
            for (channel, lane) in &self.trial {
                self.on[*channel] &= !(1 << lane);
            }
            self.space.rollback(mark, of);
        }
        self.trial.clear();
        self.queue.clear();
        fits
    }

    /// Packets that start on a channel.
    fn enter(&mut self, c: usize) {
        let s = self.terrain.graph.from(c);
        let [hosts, own] = self.space.enter[c];
        let hosts = if self.terrain.is_home(s) { hosts } else { 0 };
        let own = if self.terrain.is_home(self.home) { own } else { 0 };
        bits(u64::from(hosts | own)).for_each(|lane| self.put(c, lane as u8));
    }

    fn walk(&mut self, c: usize, s: usize, of: &mut Use) -> bool {
        let graph = self.terrain.graph;
        self.enter(c);
        for back in graph.out(s) {
            let into = graph.reverse(back);
            if self.is_way[into] && self.on[into] != 0 && !self.pass(into, c, self.on[into], of) {
                return false;
            }
        }
        self.flow(of)
    }

    /// Leads on all that came onto channels.
    fn flow(&mut self, of: &mut Use) -> bool {
        let graph = self.terrain.graph;
        while let Some((channel, lane)) = self.queue.pop_front() {
            let at = graph.to(channel);
            if at == self.home {
                continue;
            }
            for next in graph.out(at).filter(|next| self.is_way[*next]).collect::<Vec<_>>() {
                if !self.pass(channel, next, 1 << lane, of) {
                    return false;
                }
            }
        }
        true
    }

    /// Packets on some lanes of one channel go on by another.
    fn pass(&mut self, from: usize, to: usize, lanes: u16, of: &mut Use) -> bool {
        let Some(turn) = self.space.links.turn(from, to) else { return false };
        let next = if self.space.links.lane(turn) == NO_LANE { self.any_next(to) } else { None };
        let fits = self.space.lead(turn, lanes, next, of);
        if fits {
            self.put(to, self.space.links.lane(turn));
        }
        fits
    }

    /// A turn behind a channel that has a lane.
    fn any_next(&self, c: usize) -> Option<Turn> {
        let (graph, links) = (self.terrain.graph, &self.space.links);
        let mut next = graph.out(graph.to(c)).filter(|next| self.is_way[*next]);
        next.find_map(|next| links.turn(c, next).filter(|turn| links.lane(*turn) != NO_LANE))
    }

    fn put(&mut self, channel: usize, lane: u8) {
        if self.on[channel] >> lane & 1 == 0 {
            self.on[channel] |= 1 << lane;
            self.trial.push((channel, lane));
            self.queue.push_back((channel, lane));
        }
    }
}
