//! Channels on lanes and what packets on them wait for: counted by home, and kept free of cycles.

use crate::route::cdg::Dependencies;
use crate::route::graph::Graph;
use crate::route::order::{Dag, Labels, Order, Repair};
use crate::route::ways::bits;

/// A turn that has no lane yet.
pub(super) const NO_LANE: u8 = u8::MAX;

/// From one channel into another at the switch between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Number of the turn, as of [`Dependencies`].
    pub(super) id: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Lanes of turns and the dependencies in use. A node is a channel on a lane: `channel * lanes + lane`.
pub(super) struct Links<'a> {
    pub(super) graph: &'a Graph,
    turns: Dependencies,
    pub(super) lanes: usize,
    /// Lane behind each turn, or [`NO_LANE`].
    lane: Vec<u8>,
    /// Lanes, as bits, on which packets are that take the turn.
    used: Vec<u16>,
}

impl Links<'_> {
    /// The turn of two channels; `None` if the second leads back to where the first comes from, which no
    /// packet needs.
    #[inline]
    pub(super) fn turn(&self, from: usize, to: usize) -> Option<Turn> {
        let graph = self.graph;
        let id = self.turns.id(from, graph.slot_at(graph.from(to), to));
        (graph.to(to) != graph.from(from)).then_some(Turn { id, from, to })
    }

    #[inline]
    fn node(&self, channel: usize, lane: u8) -> usize {
        channel * self.lanes + usize::from(lane)
    }

    /// Lane behind a turn, or [`NO_LANE`].
    #[inline]
    pub(super) fn lane(&self, turn: Turn) -> u8 {
        self.lane[turn.id]
    }
}

impl Dag for Links<'_> {
    #[inline]
    fn after(&self, node: usize) -> impl Iterator<Item = usize> {
        let (channel, lane) = (node / self.lanes, node % self.lanes);
        let first = self.graph.out(self.graph.to(channel)).start;
        let turns = self.turns.of(channel);
        let start = turns.start;
        turns
            .filter(move |t| self.used[*t] >> lane & 1 == 1)
            .map(move |t| self.node(first + t - start, self.lane[t]))
    }

    #[inline]
    fn before(&self, node: usize) -> impl Iterator<Item = usize> {
        let (channel, lane) = (node / self.lanes, (node % self.lanes) as u8);
        let at = self.graph.from(channel);
        let slot = self.graph.slot_at(at, channel);
        self.graph.out(at).flat_map(move |back| {
            let from = self.graph.reverse(back);
            let t = self.turns.id(from, slot);
            let used = if self.lane[t] == lane { self.used[t] } else { 0 };
            bits(u64::from(used)).map(move |v| from * self.lanes + v)
        })
    }
}

/// What the routes to one home depend on.
#[derive(Debug, Clone, Default)]
pub(super) struct Use {
    /// Turns and the lanes from which they are taken.
    deps: Vec<(Turn, u8)>,
    turns: Vec<Turn>,
}

impl Use {
    /// To come back to with [`Space::rollback`].
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.deps.len(), self.turns.len())
    }
}

/// The graph of dependencies of all homes.
pub(super) struct Space<'a> {
    pub(super) links: Links<'a>,
    /// Homes that use each turn.
    refs: Vec<u32>,
    /// `count[turn * lanes + lane]`: homes that need the dependency.
    count: Vec<u32>,
    order: Labels,
    /// The home at hand: its dependencies and turns bear this number.
    stamp: u32,
    has_dep: Vec<u32>,
    has_turn: Vec<u32>,
    /// How far a repair of the order may search.
    pub(super) steps: usize,
    /// Lanes, as bits, on which packets start on each channel: those of terminals, and those of the
    /// switch itself.
    pub(super) enter: Vec<[u16; 2]>,
    /// Whether dependencies are taken without a look at the order: see [`Space::sort`].
    pub(super) is_unordered: bool,
    /// Period in which a dependency was refused last, by turn, lane before and lane behind. Empty: not kept.
    refused: Vec<u32>,
    period: u32,
}

impl<'a> Space<'a> {
    /// No dependency yet. `order` has every node once. O(turns × lanes).
    pub(super) fn new(graph: &'a Graph, lanes: usize, order: &[u32]) -> Self {
        let turns = Dependencies::new(graph);
        let n = turns.len();
        Self {
            links: Links { graph, turns, lanes, lane: vec![NO_LANE; n], used: vec![0; n] },
            refs: vec![0; n],
            count: vec![0; n * lanes],
            order: Labels::new(order),
            stamp: 0,
            has_dep: vec![0; n * lanes],
            has_turn: vec![0; n],
            steps: usize::MAX,
            enter: vec![[1; 2]; graph.channels()],
            is_unordered: false,
            refused: Vec::new(),
            period: 0,
        }
    }

    /// Finds an order for all that was added without one; false if there is a cycle.
    /// O(turns × lanes).
    pub(super) fn sort(&mut self) -> bool {
        self.is_unordered = false;
        let nodes = self.links.graph.channels() * self.links.lanes;
        let mut waiting: Vec<usize> = (0..nodes).map(|node| self.links.before(node).count()).collect();
        let mut order: Vec<u32> = (0..nodes as u32).filter(|node| waiting[*node as usize] == 0).collect();
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for after in self.links.after(node as usize) {
                waiting[after] -= 1;
                if waiting[after] == 0 {
                    order.push(after as u32);
                }
            }
        }
        let is_sorted = order.len() == nodes;
        if is_sorted {
            self.order = Labels::new(&order);
        }
        is_sorted
    }

    /// Begins with another home, which has these already.
    pub(super) fn begin(&mut self, of: &Use) {
        self.stamp += 1;
        for (turn, lane) in &of.deps {
            self.has_dep[turn.id * self.links.lanes + usize::from(*lane)] = self.stamp;
        }
        of.turns.iter().for_each(|t| self.has_turn[t.id] = self.stamp);
    }

    /// Gives a turn its lane for good, used or not.
    pub(super) fn pin(&mut self, turn: Turn, lane: u8) {
        self.links.lane[turn.id] = lane;
        self.refs[turn.id] += 1;
    }

    /// Adds a dependency of a home; false if it would close a cycle, or the search took too long.
    pub(super) fn add(&mut self, turn: Turn, lane: u8) -> bool {
        let at = turn.id * self.links.lanes + usize::from(lane);
        if self.count[at] == 0 {
            let x = self.links.node(turn.from, lane);
            let y = self.links.node(turn.to, self.links.lane[turn.id]);
            if !self.is_unordered && !self.order.is_before(x, y) && !self.make_way(turn, lane, (x, y)) {
                return false;
            }
            self.links.used[turn.id] |= 1 << lane;
        }
        self.count[at] += 1;
        true
    }

    /// Repairs the order for a dependency; false if that cannot be, or could not a while ago.
    fn make_way(&mut self, turn: Turn, lane: u8, (x, y): (usize, usize)) -> bool {
        let lanes = self.links.lanes;
        let behind = usize::from(self.links.lane[turn.id]);
        let at = (turn.id * lanes + usize::from(lane)) * lanes + behind;
        let may_ask = self.steps != usize::MAX && !self.refused.is_empty();
        if may_ask && self.refused[at] == self.period {
            return false;
        }
        let fits = self.order.repair_within(&self.links, x, y, self.steps) == Repair::Done;
        if may_ask && !fits {
            self.refused[at] = self.period;
        }
        fits
    }

    /// From now on what was refused is refused again without a search, until the next call. It may have become
    /// possible since, where others gave up what they needed; most of it has not, and searches take long.
    pub(super) fn forget_refused(&mut self) {
        let lanes = self.links.lanes;
        self.refused.resize(self.count.len() * lanes, 0);
        self.period += 1;
    }

    /// Whether packets take a turn already that come on the first lane.
    pub(super) fn is_taken(&self, turn: Turn) -> bool {
        self.links.used[turn.id] & 1 == 1
    }

    fn remove(&mut self, turn: Turn, lane: u8) {
        let count = &mut self.count[turn.id * self.links.lanes + usize::from(lane)];
        *count -= 1;
        if *count == 0 {
            self.links.used[turn.id] &= !(1 << lane);
        }
    }

    /// Makes sure that the home at hand has a dependency.
    pub(super) fn want(&mut self, turn: Turn, lane: u8, of: &mut Use) -> bool {
        let at = turn.id * self.links.lanes + usize::from(lane);
        if self.has_dep[at] == self.stamp {
            return true;
        }
        let fits = self.add(turn, lane);
        if fits {
            self.has_dep[at] = self.stamp;
            of.deps.push((turn, lane));
        }
        fits
    }

    /// Notes that the home at hand uses a turn, whose lane must not change then.
    fn take(&mut self, turn: Turn, of: &mut Use) {
        if std::mem::replace(&mut self.has_turn[turn.id], self.stamp) != self.stamp {
            self.refs[turn.id] += 1;
            of.turns.push(turn);
        }
    }

    /// Takes back what the home at hand got since a mark.
    pub(super) fn rollback(&mut self, mark: (usize, usize), of: &mut Use) {
        for (turn, lane) in of.deps.drain(mark.0..) {
            self.has_dep[turn.id * self.links.lanes + usize::from(lane)] = 0;
            self.remove(turn, lane);
        }
        for turn in of.turns.drain(mark.1..) {
            self.has_turn[turn.id] = 0;
            self.leave(turn);
        }
    }

    fn leave(&mut self, turn: Turn) {
        self.refs[turn.id] -= 1;
        if self.refs[turn.id] == 0 {
            self.links.lane[turn.id] = NO_LANE;
        }
    }

    /// Takes away all that the routes to a home need; with what [`Space::restore`] brings them back.
    pub(super) fn release(&mut self, of: Use) -> Released {
        let lanes = of.turns.iter().map(|t| self.links.lane[t.id]).collect();
        of.deps.iter().for_each(|(turn, lane)| self.remove(*turn, *lane));
        of.turns.iter().for_each(|turn| self.leave(*turn));
        Released { of, lanes }
    }

    /// Brings back what was released, after which all that came since is gone again.
    pub(super) fn restore(&mut self, released: Released) -> Use {
        let Released { of, lanes } = released;
        for (turn, lane) in of.turns.iter().zip(lanes) {
            self.links.lane[turn.id] = lane;
            self.refs[turn.id] += 1;
        }
        let steps = std::mem::replace(&mut self.steps, usize::MAX);
        of.deps.iter().for_each(|(turn, lane)| {
            self.add(*turn, *lane);
        });
        self.steps = steps;
        of
    }

    /// Leads packets on these lanes of a channel into a turn; `next` is a turn behind it that they
    /// take then. A turn without a lane gets one: the place of the channel on it should lie between
    /// those of its neighbours. False if no lane will do; nothing has changed then.
    pub(super) fn lead(&mut self, turn: Turn, lanes: u16, next: Option<Turn>, of: &mut Use) -> bool {
        let mark = of.mark();
        if self.links.lane(turn) != NO_LANE {
            let fits = self.try_lead(turn, lanes, next, of);
            if fits {
                self.take(turn, of);
            } else {
                self.rollback(mark, of);
            }
            return fits;
        }
        let (sorted, count) = self.lanes_between(turn, lanes, next);
        for (_, _, lane) in &sorted[..count] {
            self.links.lane[turn.id] = *lane;
            if self.try_lead(turn, lanes, next, of) {
                self.take(turn, of);
                return true;
            }
            self.rollback(mark, of);
        }
        self.links.lane[turn.id] = NO_LANE;
        false
    }

    fn try_lead(&mut self, turn: Turn, lanes: u16, next: Option<Turn>, of: &mut Use) -> bool {
        bits(u64::from(lanes)).all(|v| self.want(turn, v as u8, of))
            && next.is_none_or(|next| self.want(next, self.links.lane(turn), of))
    }

    /// Lanes for a turn, the best first: whether it lies outside its neighbours, and how far from
    /// the middle.
    fn lanes_between(&self, turn: Turn, lanes: u16, next: Option<Turn>) -> ([(bool, u64, u8); 16], usize) {
        let place = |channel, lane| self.order.place(self.links.node(channel, lane));
        let low = bits(u64::from(lanes)).map(|v| place(turn.from, v as u8)).max().unwrap_or(0);
        let after = next.filter(|next| self.links.lane(*next) != NO_LANE);
        let high = after.map_or(Labels::END, |next| place(next.to, self.links.lane(next)));
        let middle = low / 2 + high / 2;
        let mut sorted = [(true, u64::MAX, 0); 16];
        for lane in 0..self.links.lanes as u8 {
            let at = place(turn.to, lane);
            sorted[usize::from(lane)] = (at <= low || at >= high, at.abs_diff(middle), lane);
        }
        sorted[..self.links.lanes].sort_unstable();
        (sorted, self.links.lanes)
    }

    /// Lane behind each turn, those that nobody uses included: the lowest place behind all on which
    /// packets come, so that repairs may use them. O(turns × lanes).
    pub(super) fn all_lanes(&self) -> Vec<u8> {
        let (links, graph) = (&self.links, self.links.graph);
        let mut all = links.lane.clone();
        // Lanes on which any packet is, by channel.
        let mut on = vec![1u16; graph.channels()];
        for from in 0..graph.channels() {
            for (t, to) in links.turns.of(from).zip(graph.out(graph.to(from))) {
                on[to] |= if links.used[t] != 0 { 1 << links.lane[t] } else { 0 };
            }
        }
        for (from, on) in on.into_iter().enumerate() {
            for (t, to) in links.turns.of(from).zip(graph.out(graph.to(from))) {
                if all[t] != NO_LANE {
                    continue;
                }
                let place = |channel, lane: usize| self.order.place(links.node(channel, lane as u8));
                let low = bits(u64::from(on)).map(|v| place(from, v)).max().unwrap_or(0);
                let behind = |v: &usize| (place(to, *v) <= low, place(to, *v));
                all[t] = (0..links.lanes).min_by_key(behind).unwrap_or(0) as u8;
            }
        }
        all
    }
}

/// What one home had.
pub(super) struct Released {
    of: Use,
    lanes: Vec<u8>,
}
