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
use super::ways::{Ways, bits};

/// A channel that a switch may forward to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descent {
    /// Channel of the graph.
    pub channel: u32,
    /// The switch it leads to, which comes earlier in [`Levels::order`].
    pub to: u32,
}

/// The channels that routes to one home switch may use: all shortest paths, or all shortest among
/// the legal ones of up*/down*. One value is reused for all destinations.
#[derive(Debug, Clone)]
pub struct Levels {
    /// The home switch of the last search.
    home: usize,
    /// Hops to the home switch, per switch; [`Levels::FAR`] if it cannot be reached.
    distance: Vec<u16>,
    /// See [`Levels::order`].
    order: Vec<u32>,
    /// `descents[first[i]..first[i + 1]]`: those of switch `order[i]`, by port.
    first: Vec<u32>,
    descents: Vec<Descent>,
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
            first: Vec::with_capacity(graph.switches() + 1),
            descents: Vec::with_capacity(graph.channels()),
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
        self.first.clear();
        self.descents.clear();
        self.first.push(0);
        true
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
        for &s in &self.order {
            for c in graph.out(s as usize) {
                let to = graph.to(c);
                if self.distance[to] < self.distance[s as usize] {
                    self.descents.push(Descent { channel: c as u32, to: to as u32 });
                }
            }
            self.first.push(self.descents.len() as u32);
        }
    }

    /// [`Levels::search`] for homes visited in their order: one search serves 64 of them. Switches
    /// of equal distance are ordered by number. O(switches + ways).
    pub fn take(&mut self, graph: &Graph, ways: &mut Ways<'_>, home: usize) {
        let lane = ways.lane_of(home);
        self.home = home;
        self.distance.copy_from_slice(ways.hops(lane));
        ways.fill_order(lane, &mut self.order);
        self.first.clear();
        self.descents.clear();
        let words = ways.words();
        for &s in &self.order {
            self.first.push(self.descents.len() as u32);
            let masks = &ways.slots(lane)[s as usize * words..][..words];
            let to = graph.neighbours(s as usize);
            let out = graph.out(s as usize).start;
            for (word, mask) in masks.iter().enumerate() {
                for bit in bits(*mask) {
                    let slot = 64 * word + bit;
                    self.descents.push(Descent { channel: (out + slot) as u32, to: to[slot] });
                }
            }
        }
        self.first.push(self.descents.len() as u32);
    }

    /// All shortest routes that first go up and then down. A switch that can reach the home switch
    /// by going down only does so, even if up and down is shorter: what arrives there from above
    /// must not go up again, and its table cannot tell. Same cost as [`Levels::search`].
    pub fn search_up_down(&mut self, heights: &Heights, home: usize) {
        if !self.start(home) {
            return;
        }
        let mut next = 0;
        while let Some(&s) = self.order.get(next) {
            next += 1;
            let further = self.distance[s as usize] + 1;
            for up in heights.ups(s as usize) {
                let distance = &mut self.distance[up.to as usize];
                if *distance == Self::FAR {
                    *distance = further;
                    self.order.push(up.to);
                }
            }
        }
        for &s in &self.order {
            let own = self.distance[s as usize];
            let nearer = heights.downs(s as usize).iter().filter(|d| self.distance[d.to as usize] < own);
            self.descents.extend(nearer);
            self.first.push(self.descents.len() as u32);
        }
        // What remains must go up first; those above come earlier in the list.
        for &s in &heights.by_height {
            if self.distance[s as usize] != Self::FAR {
                continue;
            }
            let ups = heights.ups(s as usize);
            let nearest = ups.iter().map(|up| self.distance[up.to as usize]).min().unwrap_or(Self::FAR);
            if nearest == Self::FAR {
                continue;
            }
            self.distance[s as usize] = nearest + 1;
            self.order.push(s);
            self.descents.extend(ups.iter().filter(|up| self.distance[up.to as usize] == nearest));
            self.first.push(self.descents.len() as u32);
        }
    }

    /// All switches in their order, each with the channels it may use.
    #[inline]
    fn rows(&self) -> impl Iterator<Item = (usize, &[Descent])> {
        let spans = self.first.iter().zip(&self.first[1..]);
        let rows = spans.map(|(first, end)| &self.descents[*first as usize..*end as usize]);
        self.order.iter().map(|s| *s as usize).zip(rows)
    }

    /// The channels that the `i`-th switch of the order may use, by port; none for the first.
    #[inline]
    pub fn descents(&self, i: usize) -> &[Descent] {
        &self.descents[self.first[i] as usize..self.first[i + 1] as usize]
    }

    /// Hops to the home switch per switch, [`Levels::FAR`] where there is no (legal) way.
    pub fn distance(&self) -> &[u16] {
        &self.distance
    }
    /// Switches that reach the home switch, the home switch first, each after all switches it may
    /// forward to.
    pub fn order(&self) -> &[u32] {
        &self.order
    }
}

/// Builds trees over the levels of one home switch; its buffers are reused.
#[derive(Debug, Clone)]
pub struct TreeBuilder {
    /// The way of each switch to the home switch.
    ways: Vec<Way>,
    /// Routes that pass a switch, per switch.
    flow: Vec<u64>,
    /// What the switches of the last tree forward to, in the order of [`Levels`]; not set at home
    /// and where there is no route.
    next: Vec<Descent>,
}

/// What is known of a switch's way to the home switch while a tree grows.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// Sum of channel weights.
    cost: u64,
    /// The last switch before the home switch ([`TreeBuilder::spread`] only).
    last: u32,
    /// Channels on the way ([`TreeBuilder::spread`] only).
    hops: u32,
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
    pub fn cheapest(&mut self, graph: &Graph, levels: &Levels, weights: &[u64], tree: &mut [u8]) {
        let home = levels.order[0] as usize;
        tree.fill(Forest::NONE);
        tree[home] = Forest::HOME;
        self.ways[home].cost = 0;
        for (i, (s, descents)) in levels.rows().enumerate().skip(1) {
            let [first, others @ ..] = descents else { continue };
            let cost_of = |d: &Descent| self.ways[d.to as usize].cost + weights[d.channel as usize];
            let (mut best, mut chosen) = (cost_of(first), first);
            for d in others {
                let cost = cost_of(d);
                if cost < best {
                    (best, chosen) = (cost, d);
                }
            }
            self.ways[s].cost = best;
            self.next[i] = *chosen;
            tree[s] = graph.slot_at(s, chosen.channel as usize);
        }
    }

    /// Like [`TreeBuilder::cheapest`] and [`TreeBuilder::add_load`] at once, but what a switch chose
    /// weighs already when the next one chooses, so that several switches do not join on one light
    /// channel. `sources[s]` routes start at switch `s`. O(switches + channels), no allocation.
    ///
    /// Of the routes of this tree two kinds are known when a switch chooses: those that join at the
    /// very neighbour it looks at, and those that enter the home switch over the same last switch,
    /// where all routes end up. To count the others too takes a walk per neighbour and levels no better.
    pub fn spread(
        &mut self,
        graph: &Graph,
        levels: &Levels,
        sources: &[u32],
        weights: &mut [u64],
        tree: &mut [u8],
    ) {
        let home = levels.order[0];
        tree.fill(Forest::NONE);
        tree[home as usize] = Forest::HOME;
        // Routes by the switch they enter the home switch from.
        self.flow.fill(0);
        self.ways[home as usize] = Way { cost: 0, last: home, hops: 0 };
        for ((s, descents), next) in levels.rows().zip(&mut self.next).skip(1) {
            let [first, others @ ..] = descents else { continue };
            let mut chosen = first;
            if !others.is_empty() {
                let cost_of = |d: &Descent| {
                    let way = &self.ways[d.to as usize];
                    way.cost + weights[d.channel as usize] + self.flow[way.last as usize]
                };
                let mut best = cost_of(first);
                for d in others {
                    let cost = cost_of(d);
                    if cost < best {
                        (best, chosen) = (cost, d);
                    }
                }
            }
            let routes = u64::from(sources[s]);
            let joined = &mut self.ways[chosen.to as usize];
            let cost = joined.cost + weights[chosen.channel as usize];
            let last = if chosen.to == home { s as u32 } else { joined.last };
            // The last channel's routes are in `flow`.
            joined.cost += routes * u64::from(joined.hops.saturating_sub(1));
            let hops = joined.hops + 1;
            self.ways[s] = Way { cost, last, hops };
            self.flow[last as usize] += routes;
            *next = *chosen;
            tree[s] = graph.slot_at(s, chosen.channel as usize);
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
        for (s, next) in levels.order.iter().zip(&self.next).skip(1).rev() {
            let flow = self.flow[*s as usize];
            weights[next.channel as usize] += flow;
            self.flow[next.to as usize] += flow;
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
        builder.cheapest(&graph, &levels, &weights, &mut tree);
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
