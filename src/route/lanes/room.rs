//! Room for switches that a tree in growth cannot reach: another switch forwards by another channel.

use super::search::LaneSearch;
use super::space::{Turn, Use};
use super::terrain::{FAR, NONE};

impl LaneSearch<'_> {
    /// Attaches one of the switches that are left out of a home's tree to another one, which takes another next hop
    /// for it. What its old one needed stays counted. The channel, if there is one.
    /// O(switches + left out × degree² × (degree² + hops)).
    pub(super) fn make_room(&mut self, home: usize, of: &mut Use) -> Option<usize> {
        let (graph, n) = (self.terrain.graph, self.terrain.graph.switches());
        let is_in = |search: &Self, s: usize| search.rows[home * n + s] != NONE;
        for s in (0..n).filter(|s| *s != home) {
            if is_in(self, s) || self.terrain.hops(home, s) == FAR {
                continue;
            }
            for c in graph.out(s).filter(|c| is_in(self, graph.to(*c))).collect::<Vec<_>>() {
                let t = graph.to(c);
                let old = self.rows[home * n + t];
                for d in graph.out(t).filter(|d| graph.slot_at(t, *d) != old && graph.to(*d) != s) {
                    if !self.is_clear_of(home, graph.to(d), t) {
                        continue;
                    }
                    let mark = of.mark();
                    self.rows[home * n + t] = graph.slot_at(t, d);
                    if self.turn_to(home, t, c, d, of) {
                        return Some(c);
                    }
                    self.space.rollback(mark, of);
                    self.rows[home * n + t] = old;
                }
            }
        }
        None
    }

    /// Whether routes from a switch to a home do not lead over another switch.
    fn is_clear_of(&self, home: usize, from: usize, other: usize) -> bool {
        let mut at = from;
        while at != home {
            if at == other {
                return false;
            }
            let Some(c) = self.next(home, at) else { return false };
            at = self.terrain.graph.to(c);
        }
        true
    }

    /// Leads all that comes to a switch, and what is to come by `new`, into its next hop `to`.
    fn turn_to(&mut self, home: usize, at: usize, new: usize, to: usize, of: &mut Use) -> bool {
        let graph = self.terrain.graph;
        if !self.attach(home, to, of) {
            return false;
        }
        let next = self.next(home, graph.to(to)).and_then(|next| self.space.links.turn(to, next));
        for back in graph.out(at) {
            let c = graph.reverse(back);
            if c != new && self.next(home, graph.to(back)) != Some(c) {
                continue;
            }
            let lanes = self.lanes_on(home, c);
            let Some(turn) = self.space.links.turn(c, to) else { return false };
            if !self.space.lead(turn, lanes, next, of) {
                return false;
            }
        }
        true
    }

    /// Lanes, as bits, on which packets to a home are on a channel.
    fn lanes_on(&self, home: usize, c: usize) -> u16 {
        let graph = self.terrain.graph;
        let s = graph.from(c);
        let mut lanes = 1;
        for back in graph.out(s) {
            let into = graph.reverse(back);
            if self.next(home, graph.to(back)) == Some(into) {
                let turn: Option<Turn> = self.space.links.turn(into, c);
                lanes |= turn.map_or(0, |turn| 1 << self.space.links.lane(turn));
            }
        }
        lanes
    }
}
