//! In-trees over given ways with channel weights, and the load they cause: the core of `sssp`,
//! `dfsssp` and `sar`.
//!
//! OpenSM starts Dijkstra's algorithm from channel weights so large that fewer hops always win.
//! The same trees come from a breadth-first search with relaxation between neighbouring levels,
//! which needs no heap. The levels depend on the home switch only, so all terminals of a switch
//! share them.

use super::forest::Forest;
use super::graph::Graph;
use super::updown::Heights;

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
    rows: Vec<Reaching>,
    /// Those of each row, by port, one row after the other; beyond them there may be older ones.
    descents: Vec<Descent>,
    /// How many of the descents are of this search.
    filled: usize,
}

/// A switch that reaches the home switch.
#[derive(Debug, Clone, Copy)]
struct Reaching {
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
        self.rows.push(Reaching { switch: s, out, ways: (self.filled - before) as u32 });
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

    /// Copies the ways to a home: worth it for several trees. O(switches + ways).
    pub fn take(&mut self, to: &impl Rows) {
        self.home = to.home();
        let (descents, mut filled) = (self.descents.as_mut_slice(), 0);
        self.rows.clear();
        to.each(|switch, out, own| {
            descents[filled..filled + own.len()].copy_from_slice(own);
            filled += own.len();
            self.rows.push(Reaching { switch, out, ways: own.len() as u32 });
        });
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

/// The channels that routes to one home switch may use.
pub trait Rows {
    /// The home switch.
    fn home(&self) -> usize;
    /// Calls for every other switch that reaches it, after all switches it may forward to: with its
    /// number, its first channel, and the channels it may forward to, by port, at least one.
    fn each(&self, take: impl FnMut(u32, u32, &[Descent]));
}

impl Rows for Levels {
    fn home(&self) -> usize {
        self.home
    }
    #[inline]
    fn each(&self, mut take: impl FnMut(u32, u32, &[Descent])) {
        let mut rest = self.descents.as_slice();
        for row in &self.rows {
            let (own, others) = rest.split_at(row.ways as usize);
            rest = others;
            take(row.switch, row.out, own);
        }
    }
}

/// Builds trees over the ways to one home switch; its buffers are reused.
#[derive(Debug, Clone)]
pub struct TreeBuilder {
    /// The way of each switch to the home switch.
    ways: Vec<Way>,
    /// Routes that pass a switch, per switch.
    flow: Vec<u64>,
    /// What the switches of the last tree forward to, each after the one it forwards to.
    next: Vec<Step>,
}

/// What a switch of a tree forwards to.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: u32,
    channel: u32,
    to: u32,
}

/// Whether the routes of one tree see each other while it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// Algorithms 3.1 and 5.1 to the letter: weights change between trees only; all may join on one light
    /// channel.
    Freely,
    /// Weights change with each route (see [`TreeBuilder::spread`]).
    Sparingly,
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
        Self { ways: vec![Way::default(); n], flow: vec![0; n], next: Vec::with_capacity(n) }
    }

    /// Fills `tree` and adds its load: [`TreeBuilder::cheapest`] and [`TreeBuilder::add_load`], or
    /// [`TreeBuilder::spread`]. O(switches + ways), no allocation.
    pub fn grow(&mut self, join: Join, to: &impl Rows, load: Load<'_>, weights: &mut [u64], tree: &mut [u8]) {
        match join {
            Join::Sparingly => self.spread(to, load, weights, tree),
            Join::Freely => {
                self.cheapest(to, weights, tree);
                self.add_load(load, weights);
            }
        }
    }

    /// Fills `tree` with the routes that have, among the given, the least sum of channel weights; equal
    /// sums go to the lower port. `weights` is indexed by channel of the graph. O(switches + ways), no
    /// allocation.
    pub fn cheapest(&mut self, to: &impl Rows, weights: &[u64], tree: &mut [u8]) {
        let ways = self.ways.as_mut_slice();
        tree.fill(Forest::NONE);
        tree[to.home()] = Forest::HOME;
        ways[to.home()].cost = 0;
        self.next.clear();
        to.each(|from, out, descents| {
            let [first, others @ ..] = descents else { return };
            let cost_of = |d: &Descent| ways[d.to as usize].cost + weights[d.channel as usize];
            let (mut best, mut chosen) = (cost_of(first), first);
            for d in others {
                let cost = cost_of(d);
                if cost < best {
                    (best, chosen) = (cost, d);
                }
            }
            ways[from as usize].cost = best;
            tree[from as usize] = (chosen.channel - out) as u8;
            self.next.push(Step { from, channel: chosen.channel, to: chosen.to });
        });
    }

    /// Like [`TreeBuilder::cheapest`] and [`TreeBuilder::add_load`] at once, but what a switch chose
    /// weighs already when the next one chooses, so that several switches do not join on one light
    /// channel. `load` is as there. O(switches + ways), no allocation.
    ///
    /// Of the routes of this tree two kinds are known when a switch chooses: those that join at the
    /// very neighbour it looks at, and those that enter the home switch over the same last switch,
    /// where all routes end up. To count the others too takes a walk per neighbour and levels no better.
    pub fn spread(&mut self, to: &impl Rows, load: Load<'_>, weights: &mut [u64], tree: &mut [u8]) {
        let home = to.home() as u32;
        tree.fill(Forest::NONE);
        tree[to.home()] = Forest::HOME;
        // Routes by the switch they enter the home switch from.
        self.flow.fill(0);
        let (ways, flow) = (self.ways.as_mut_slice(), self.flow.as_mut_slice());
        ways[to.home()] = Way { cost: 0, last: home, beyond: 0 };
        self.next.clear();
        to.each(|from, out, descents| {
            let [first, others @ ..] = descents else { return };
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
            let routes = load.of(from);
            let joined = &mut ways[chosen.to as usize];
            let cost = joined.cost + weights[chosen.channel as usize];
            // The last channel's routes are in `flow`.
            joined.cost += routes * u64::from(joined.beyond);
            let (last, beyond) = if chosen.to == home { (from, 0) } else { (joined.last, joined.beyond + 1) };
            ways[from as usize] = Way { cost, last, beyond };
            flow[last as usize] += routes;
            tree[from as usize] = (chosen.channel - out) as u8;
            self.next.push(Step { from, channel: chosen.channel, to: chosen.to });
        });
        self.add_load(load, weights);
    }

    /// Adds to each channel's weight the number of routes of the last tree that use it. One sweep
    /// from the far end, not a walk per route. O(switches).
    pub fn add_load(&mut self, load: Load<'_>, weights: &mut [u64]) {
        for (flow, own) in self.flow.iter_mut().zip(load.sources) {
            *flow = u64::from(*own);
        }
        let flow = self.flow.as_mut_slice();
        for step in self.next.iter().rev() {
            let routes = flow[step.from as usize];
            weights[step.channel as usize] += routes * load.times;
            flow[step.to as usize] += routes;
        }
    }
}

/// The routes of a tree.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// Terminals per switch that send to a destination.
    pub sources: &'a [u32],
    /// Destinations that share the tree.
    pub times: u64,
}

impl Load<'_> {
    #[inline]
    fn of(&self, switch: u32) -> u64 {
        u64::from(self.sources[switch as usize]) * self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

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
        builder.add_load(Load { sources: graph.terminals(), times: 1 }, &mut weights);
        assert_ne!(weights, before);
        assert_eq!(weights, expected);
    }
}
