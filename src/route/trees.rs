//! Minimal-hop in-trees with channel weights, and the load they cause: the core of `sssp`,
//! `dfsssp` and `sar`.
//!
//! OpenSM starts Dijkstra's algorithm from channel weights so large that fewer hops always win.
//! The same trees come from a breadth-first search with relaxation between neighbouring levels,
//! which needs no heap. The levels depend on the home switch only, so all terminals of a switch
//! share them.

use super::forest::Forest;
use super::graph::Graph;
use super::updown::Heights;
use super::ways::Ways;

/// A channel that a switch may forward to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descent {
    /// Channel of the graph.
    pub channel: u32,
    /// The switch it leads to, whose row comes earlier.
    pub to: u32,
}

/// The channels that routes to one home switch may use: all shortest paths, or all shortest among
/// the legal ones of up*/down*. One value is reused for all destinations.
#[derive(Debug, Clone)]
pub struct Levels {
    /// The home switch of the last search.
    home: usize,
    /// Hops to the home switch, per switch; [`Levels::FAR`] if it cannot be reached. Not kept by
    /// [`Levels::take`].
    distance: Vec<u16>,
    /// Switches that reach the home switch, the home switch first, each after all switches it may
    /// forward to.
    order: Vec<u32>,
    /// The same without the home switch, with what the hot loops ask of each.
    rows: Vec<Row>,
    /// Those of each row, by port, one row after the other; beyond them there may be older ones.
    descents: Vec<Descent>,
    /// How many of the descents are of this search.
    filled: usize,
}

/// A switch that reaches the home switch.
#[derive(Debug, Clone, Copy)]
struct Row {
    switch: u32,
    /// The first channel that leaves it.
    out: u32,
    /// How many descents it has; at least one.
    ways: u32,
}

impl Levels {
    /// Distance of a switch that cannot reach the home switch.
    pub const FAR: u16 = u16::MAX;

    /// Buffers for a graph.
    pub fn new(graph: &Graph) -> Self {
        Self {
            home: usize::MAX,
            distance: vec![Self::FAR; graph.switches()],
            order: Vec::with_capacity(graph.switches()),
            rows: Vec::with_capacity(graph.switches()),
            descents: vec![Descent { channel: 0, to: 0 }; graph.channels()],
            filled: 0,
        }
    }

    /// Starts a search; false if the last one was for the same home switch.
    fn start(&mut self, home: usize) -> bool {
        if self.home == home {
            return false;
        }
        self.home = home;
        self.distance.fill(Self::FAR);
        self.order.clear();
        self.distance[home] = 0;
        self.order.push(home as u32);
        self.rows.clear();
        self.filled = 0;
        true
    }

    /// Adds the row of a switch that is not the home switch.
    fn push(&mut self, graph: &Graph, s: u32, descents: impl Iterator<Item = Descent>) {
        let before = self.filled;
        for descent in descents {
            self.descents[self.filled] = descent;
            self.filled += 1;
        }
        let out = graph.out(s as usize).start as u32;
        self.rows.push(Row { switch: s, out, ways: (self.filled - before) as u32 });
    }

    /// All shortest paths, by breadth-first search from the home switch. O(switches + channels),
    /// nothing if the last search was for the same home switch.
    pub fn search(&mut self, graph: &Graph, home: usize) {
        if !self.start(home) {
            return;
        }
        let mut next = 0;
        while let Some(&s) = self.order.get(next) {
            next += 1;
            let further = self.distance[s as usize] + 1;
            for c in graph.out(s as usize) {
                let to = graph.to(c);
                if self.distance[to] == Self::FAR {
                    self.distance[to] = further;
                    self.order.push(to as u32);
                }
            }
        }
        let (distance, order) = (std::mem::take(&mut self.distance), std::mem::take(&mut self.order));
        for &s in &order[1..] {
            let all = graph.out(s as usize).zip(graph.neighbours(s as usize));
            let nearer = all.filter(|(_, to)| distance[**to as usize] < distance[s as usize]);
            self.push(graph, s, nearer.map(|(c, to)| Descent { channel: c as u32, to: *to }));
        }
        (self.distance, self.order) = (distance, order);
    }

    /// [`Levels::search`] for homes visited in their order: one search serves 64 of them. Switches
    /// of equal distance are ordered by number. O(switches + ways).
    pub fn take(&mut self, graph: &Graph, ways: &mut Ways<'_>, home: usize) {
        let lane = ways.lane_of(home);
        self.home = home;
        ways.fill_order(lane, &mut self.order);
        let (words, masks) = (ways.words(), ways.slots(lane));
        let (descents, mut filled) = (self.descents.as_mut_slice(), 0);
        self.rows.clear();
        self.rows.extend(self.order[1..].iter().map(|&switch| {
            let s = switch as usize;
            let (out, to, before) = (graph.out(s).start as u32, graph.neighbours(s), filled);
            for word in 0..words {
                let mut mask = masks[s * words + word];
                while mask != 0 {
                    let slot = 64 * word + mask.trailing_zeros() as usize;
                    descents[filled] = Descent { channel: out + slot as u32, to: to[slot] };
                    filled += 1;
                    mask &= mask - 1;
                }
            }
            Row { switch, out, ways: (filled - before) as u32 }
        }));
        self.filled = filled;
    }

    /// All shortest routes that first go up and then down. A switch that can reach the home switch
    /// by going down only does so, even if up and down is shorter: what arrives there from above
    /// must not go up again, and its table cannot tell. Same cost as [`Levels::search`].
    pub fn search_up_down(&mut self, graph: &Graph, heights: &Heights, home: usize) {
        if !self.start(home) {
            return;
        }
        let (mut distance, mut order) = (std::mem::take(&mut self.distance), std::mem::take(&mut self.order));
        let mut next = 0;
        while let Some(&s) = order.get(next) {
            next += 1;
            let further = distance[s as usize] + 1;
            for up in heights.ups(s as usize) {
                if distance[up.to as usize] == Self::FAR {
                    distance[up.to as usize] = further;
                    order.push(up.to);
                }
            }
        }
        for &s in &order[1..] {
            let downs = heights.downs(s as usize).iter().copied();
            self.push(graph, s, downs.filter(|d| distance[d.to as usize] < distance[s as usize]));
        }
        // What remains must go up first; those above come earlier in the list.
        for &s in &heights.by_height {
            if distance[s as usize] != Self::FAR {
                continue;
            }
            let ups = heights.ups(s as usize).iter().copied();
            let nearest = ups.clone().map(|up| distance[up.to as usize]).min().unwrap_or(Self::FAR);
            if nearest == Self::FAR {
                continue;
            }
            distance[s as usize] = nearest + 1;
            order.push(s);
            self.push(graph, s, ups.filter(|up| distance[up.to as usize] == nearest));
        }
        (self.distance, self.order) = (distance, order);
    }

    /// All switches but the home switch in their order, each with the channels it may use, by port.
    #[cfg(test)]
    pub fn rows(&self) -> impl Iterator<Item = (usize, &[Descent])> {
        let mut rest = self.descents.as_slice();
        self.rows.iter().map(move |row| (row.switch as usize, front(&mut rest, row)))
    }

    /// Hops to the home switch per switch, [`Levels::FAR`] where there is no (legal) way; not after
    /// [`Levels::take`].
    #[cfg(test)]
    pub fn distance(&self) -> &[u16] {
        &self.distance
    }
    /// Switches that reach the home switch, the home switch first, each after all switches it may
    /// forward to.
    #[cfg(test)]
    pub fn order(&self) -> &[u32] {
        &self.order
    }
}

/// The descents of a row, cut from those of all rows that are still to come.
#[inline(always)]
fn front<'a>(rest: &mut &'a [Descent], row: &Row) -> &'a [Descent] {
    let (own, others) = rest.split_at(row.ways as usize);
    *rest = others;
    own
}

/// Builds trees over the levels of one home switch; its buffers are reused.
#[derive(Debug, Clone)]
pub struct TreeBuilder {
    /// The way of each switch to the home switch.
    ways: Vec<Way>,
    /// Routes that pass a switch, per switch.
    flow: Vec<u64>,
    /// What the switches of the last tree forward to, by row of [`Levels`].
    next: Vec<Descent>,
}

/// What is known of a switch's way to the home switch while a tree grows.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// Sum of channel weights.
    cost: u64,
    /// The last switch before the home switch ([`TreeBuilder::spread`] only).
    last: u32,
    /// Channels on the way but for the last ([`TreeBuilder::spread`] only).
    beyond: u32,
}

impl TreeBuilder {
    /// Buffers for a graph.
    pub fn new(graph: &Graph) -> Self {
        let n = graph.switches();
        let next = vec![Descent { channel: 0, to: 0 }; n];
        Self { ways: vec![Way::default(); n], flow: vec![0; n], next }
    }

    /// Fills `tree` with the routes that have the fewest hops and, among those, the least sum of
    /// channel weights; equal sums go to the lower port. `weights` is indexed by channel of the
    /// graph. O(switches + channels), no allocation.
    pub fn cheapest(&mut self, levels: &Levels, weights: &[u64], tree: &mut [u8]) {
        let ways = self.ways.as_mut_slice();
        tree.fill(Forest::NONE);
        tree[levels.home] = Forest::HOME;
        ways[levels.home].cost = 0;
        let mut rest = levels.descents.as_slice();
        for (row, next) in levels.rows.iter().zip(&mut self.next) {
            let [first, others @ ..] = front(&mut rest, row) else { continue };
            let cost_of = |d: &Descent| ways[d.to as usize].cost + weights[d.channel as usize];
            let (mut best, mut chosen) = (cost_of(first), first);
            for d in others {
                let cost = cost_of(d);
                if cost < best {
                    (best, chosen) = (cost, d);
                }
            }
            ways[row.switch as usize].cost = best;
            *next = *chosen;
            tree[row.switch as usize] = (chosen.channel - row.out) as u8;
        }
    }

    /// Like [`TreeBuilder::cheapest`] and [`TreeBuilder::add_load`] at once, but what a switch chose
    /// weighs already when the next one chooses, so that several switches do not join on one light
    /// channel. `sources[s]` routes start at switch `s`. O(switches + channels), no allocation.
    ///
    /// Of the routes of this tree two kinds are known when a switch chooses: those that join at the
    /// very neighbour it looks at, and those that enter the home switch over the same last switch,
    /// where all routes end up. To count the others too takes a walk per neighbour and levels no better.
    pub fn spread(&mut self, levels: &Levels, sources: &[u32], weights: &mut [u64], tree: &mut [u8]) {
        let home = levels.home as u32;
        tree.fill(Forest::NONE);
        tree[levels.home] = Forest::HOME;
        // Routes by the switch they enter the home switch from.
        self.flow.fill(0);
        let (ways, flow) = (self.ways.as_mut_slice(), self.flow.as_mut_slice());
        ways[levels.home] = Way { cost: 0, last: home, beyond: 0 };
        let mut rest = levels.descents.as_slice();
        for (row, next) in levels.rows.iter().zip(&mut self.next) {
            let [first, others @ ..] = front(&mut rest, row) else { continue };
            let mut chosen = first;
            if !others.is_empty() {
                let cost_of = |d: &Descent| {
                    let way = &ways[d.to as usize];
                    way.cost + weights[d.channel as usize] + flow[way.last as usize]
                };
                let mut best = cost_of(first);
                for d in others {
                    let cost = cost_of(d);
                    if cost < best {
                        (best, chosen) = (cost, d);
                    }
                }
            }
            let routes = u64::from(sources[row.switch as usize]);
            let joined = &mut ways[chosen.to as usize];
            let cost = joined.cost + weights[chosen.channel as usize];
            // The last channel's routes are in `flow`.
            joined.cost += routes * u64::from(joined.beyond);
            let (last, beyond) =
                if chosen.to == home { (row.switch, 0) } else { (joined.last, joined.beyond + 1) };
            ways[row.switch as usize] = Way { cost, last, beyond };
            flow[last as usize] += routes;
            *next = *chosen;
            tree[row.switch as usize] = (chosen.channel - row.out) as u8;
        }
        self.add_load(levels, sources, weights);
    }

    /// Adds to each channel's weight the number of routes of the last tree that use it:
    /// `sources[s]` routes start at switch `s`. One sweep from the far end, not a walk per route.
    /// O(switches).
    pub fn add_load(&mut self, levels: &Levels, sources: &[u32], weights: &mut [u64]) {
        for (flow, own) in self.flow.iter_mut().zip(sources) {
            *flow = u64::from(*own);
        }
        let flow = self.flow.as_mut_slice();
        for (row, next) in levels.rows.iter().zip(&self.next[..levels.rows.len()]).rev() {
            let routes = flow[row.switch as usize];
            weights[next.channel as usize] += routes;
            flow[next.to as usize] += routes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::generate;

    /// Heavy channels are avoided only among minimal ones, and the load is that of a walk per route.
    #[test]
    fn trees_are_minimal_and_light_and_the_sweep_counts_routes() {
        let fabric = generate("torus:3x4,hosts=2").unwrap();
        let graph = Graph::new(&fabric);
        let mut levels = Levels::new(&graph);
        let mut builder = TreeBuilder::new(&graph);
        let mut weights: Vec<u64> = (0..graph.channels() as u64).map(|c| c * 7 % 11).collect();
        levels.search(&graph, 5);
        let mut tree = vec![0; graph.switches()];
        builder.cheapest(&levels, &weights, &mut tree);
        let mut expected = weights.clone();
        for s in 0..graph.switches() {
            let (mut at, mut hops) = (s, 0);
            while let Some(next) = Forest::step(&graph, &tree, at) {
                expected[graph.channel(at, tree[at])] += 2;
                (at, hops) = (next, hops + 1);
            }
            assert_eq!((at, hops), (5, levels.distance()[s]));
            let better = graph
                .out(s)
                .filter(|c| levels.distance()[graph.to(*c)] + 1 == hops)
                .any(|c| weights[c] + builder.ways[graph.to(c)].cost < builder.ways[s].cost);
            assert!(!better, "switch {s} has a cheaper channel");
        }
        let before = weights.clone();
        builder.add_load(&levels, graph.terminals(), &mut weights);
        assert_ne!(weights, before);
        assert_eq!(weights, expected);
    }
}
