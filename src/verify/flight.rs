//! What may be in flight: every walk that packets of a promise may take, and what they depend on.

use std::collections::VecDeque;

use super::cycles::{Buffer, Dependencies, Turns};
use super::finding::CycleStep;
use super::finding::cycle_step;
use super::lanes::Lanes;
use super::senders::Senders;
use super::trees::{LOST, NO_CHANNEL, Tree, Trees};
use crate::model::DestId;

/// Tables, those that switches may have instead of them, and who sends.
pub(super) struct Flight<'a> {
    /// The tables in question, and then the others.
    pub(super) trees: Vec<Trees<'a>>,
    pub(super) senders: Senders<'a>,
    pub(super) turns: &'a Turns<'a>,
    pub(super) lanes: &'a Lanes,
}

/// Room for one destination.
pub(super) struct Room {
    /// Its routes in each of the tables.
    pub(super) trees: Vec<Tree>,
    /// `ways[start[switch]..start[switch + 1]]`: the channels by which a switch may forward.
    start: Vec<u32>,
    ways: Vec<u32>,
    /// Switches, those far from home first.
    order: Vec<u32>,
    /// `state[channel * columns + column]`: VLs, as bits, on which packets may be. Where each switch has one way,
    /// `state[switch]`.
    state: Vec<u16>,
}

impl Room {
    fn ways(&self, s: usize) -> std::ops::Range<usize> {
        self.start[s] as usize..self.start[s + 1] as usize
    }
}

impl<'a> Flight<'a> {
    pub(super) fn room(&self) -> Room {
        let (columns, switches) = (self.lanes.columns(), self.turns.fabric.switches().len());
        Room {
            trees: self.trees.iter().map(Trees::room).collect(),
            start: Vec::new(),
            ways: Vec::new(),
            order: Vec::new(),
            state: vec![0; self.turns.fabric.channels().len().max(switches) * columns],
        }
    }

    /// Traces a destination in all tables.
    pub(super) fn trace(&self, d: DestId, room: &mut Room) {
        self.trees.iter().zip(&mut room.trees).for_each(|(all, tree)| all.trace(d, tree));
    }

    /// Notes by which channels each switch may forward to a traced destination, and the order of switches.
    fn lay_out(&self, room: &mut Room) {
        let Room { trees, start, ways, order, .. } = room;
        start.clear();
        ways.clear();
        for s in 0..self.turns.fabric.switches().len() {
            let first = ways.len();
            start.push(first as u32);
            for c in trees.iter().map(|tree| tree.next[s]) {
                if c != NO_CHANNEL && !ways[first..].contains(&c) {
                    ways.push(c);
                }
            }
        }
        start.push(ways.len() as u32);
        let first = &trees[0];
        let lost = (0..first.depth.len() as u32).filter(|s| first.depth[*s as usize] == LOST);
        order.clear();
        order.extend(lost.chain(first.order.iter().rev().copied()));
    }

    /// Marks what packets to a traced destination may depend on. O(switches × columns), where any of several tables
    /// may be in force × ports × hops at worst.
    pub(super) fn mark(&self, d: DestId, room: &mut Room, dependencies: &mut Dependencies) {
        if room.trees.len() == 1 && self.lanes.are_layers() {
            return self.mark_tree(d, room, dependencies);
        }
        self.lay_out(room);
        self.mark_ways(d, room, dependencies);
    }

    /// The same where each switch has one way, and packets stay on one VL.
    fn mark_tree(&self, d: DestId, room: &mut Room, dependencies: &mut Dependencies) {
        let (tree, to, state) = (&room.trees[0], &self.trees[0].wiring.to, &mut room.state);
        let far = tree.order.iter().rev().map(|s| *s as usize);
        let lost = (0..tree.depth.len()).filter(|s| tree.depth[*s] == LOST && tree.next[*s] != NO_CHANNEL);
        let starts = |s: usize| self.lanes.enter(tree.next[s], 0, self.senders.start(d, tree.home, s));
        lost.clone().for_each(|s| state[s] = starts(s));
        far.clone().for_each(|s| state[s] = starts(s));
        let mut pass = |s: usize| {
            let (c1, vls) = (tree.next[s], state[s]);
            let next = to[c1 as usize] as usize;
            if next == tree.home || tree.next[next] == NO_CHANNEL {
                return false;
            }
            dependencies.mark(self.turns.of(c1, tree.next[next]), vls);
            let grown = state[next] | vls != state[next];
            state[next] |= vls;
            grown
        };
        // Who arrives is in order; who is lost may be behind one that comes later.
        while lost.clone().fold(false, |grown, s| grown | pass(s)) {}
        for s in far.filter(|s| *s != tree.home) {
            pass(s);
        }
    }

    fn mark_ways(&self, d: DestId, room: &mut Room, dependencies: &mut Dependencies) {
        let columns = self.lanes.columns();
        let (home, to) = (room.trees[0].home, &self.trees[0].wiring.to);
        for s in 0..room.start.len() - 1 {
            let starting = self.senders.start(d, home, s);
            for i in room.ways(s) {
                let c = room.ways[i];
                for column in 0..columns {
                    room.state[c as usize * columns + column] = self.lanes.enter(c, column, starting);
                }
            }
        }
        // Where every switch has one way that arrives, all that a switch passes on is there when its turn comes.
        let is_tree = room.trees.len() == 1 && room.trees[0].order.len() == room.trees[0].next.len();
        let mut is_done = false;
        while !std::mem::replace(&mut is_done, true) {
            for i in 0..room.order.len() {
                for way in room.ways(room.order[i] as usize) {
                    let c1 = room.ways[way];
                    let next = to[c1 as usize] as usize;
                    if next != home {
                        let grown = self.pass(c1, next, room, dependencies);
                        is_done &= is_tree || !grown;
                    }
                }
            }
        }
    }

    /// Passes on what is on a channel into a switch; whether any state of a channel behind it grew.
    #[inline]
    fn pass(&self, c1: u32, next: usize, room: &mut Room, dependencies: &mut Dependencies) -> bool {
        let (columns, mut grown) = (self.lanes.columns(), false);
        for way in room.ways(next) {
            let c2 = room.ways[way];
            let turn = self.turns.of(c1, c2);
            for column in 0..columns {
                let at = turn * columns + column;
                let vls = room.state[c1 as usize * columns + column];
                dependencies.mark(at, vls);
                let behind = &mut room.state[c2 as usize * columns + column];
                let vls = self.lanes.pass(at, vls);
                grown |= vls & !*behind != 0;
                *behind |= vls;
            }
        }
        grown
    }

    /// A step of a cycle: a route that may hold one buffer while it waits for the next. O(destinations ×
    /// switches).
    pub(super) fn example(&self, b1: Buffer, b2: Buffer, room: &mut Room) -> Option<CycleStep> {
        let columns = self.lanes.columns();
        let (c1, c2) = (b1.channel.0, b2.channel.0);
        let fabric = self.turns.fabric;
        let mut unused = Dependencies::none(self.turns, self.lanes);
        fabric.dest_ids().find_map(|d| {
            self.trace(d, room);
            self.lay_out(room);
            let (from, next) =
                (fabric.channel(b1.channel).from.index(), fabric.channel(b1.channel).to.index());
            let has = |s: usize, c: u32| room.ways[room.ways(s)].contains(&c);
            if next == room.trees[0].home || !has(from, c1) || !has(next, c2) {
                return None;
            }
            self.mark_ways(d, room, &mut unused);
            let column = (0..columns).find(|column| {
                let on = room.state[c1 as usize * columns + column] >> b1.vl & 1 == 1;
                let at = self.turns.of(c1, c2) * columns + column;
                on && self.lanes.pass(at, 1 << b1.vl) >> b2.vl & 1 == 1
            })?;
            let s = self.source(d, b1, column, room)?;
            let starting = self.senders.start(d, room.trees[0].home, s);
            let sls = (starting.hosts | starting.own) & self.lanes.sls(column, b1.vl);
            Some(cycle_step(fabric, b1.channel, b1.vl, sls.trailing_zeros() as u8, (s, d)))
        })
    }

    /// A switch from which a packet of a column may come to a buffer, backwards breadth first.
    fn source(&self, d: DestId, b: Buffer, column: usize, room: &Room) -> Option<usize> {
        let (fabric, columns) = (self.turns.fabric, self.lanes.columns());
        let vls = u16::BITS as usize;
        let mut seen = vec![false; fabric.channels().len() * vls];
        let mut queue = VecDeque::from([(b.channel.0, b.vl)]);
        while let Some((c, vl)) = queue.pop_front() {
            let s = fabric.channels()[c as usize].from;
            let starting = self.senders.start(d, room.trees[0].home, s.index());
            if self.lanes.enter(c, column, starting) >> vl & 1 == 1 {
                return Some(s.index());
            }
            for before in fabric.out(s).iter().map(|c| c.reverse().0) {
                let sender = fabric.channels()[before as usize].from.index();
                if !room.ways[room.ways(sender)].contains(&before) {
                    continue;
                }
                let on = room.state[before as usize * columns + column];
                let at = self.turns.of(before, c) * columns + column;
                for v in (0..vls as u8).filter(|v| on >> v & 1 == 1) {
                    let leads = self.lanes.pass(at, 1 << v) >> vl & 1 == 1;
                    if leads && !std::mem::replace(&mut seen[before as usize * vls + usize::from(v)], true) {
                        queue.push_back((before, v));
                    }
                }
            }
        }
        None
    }
}
