//! Minimal-hop in-trees with channel weights, and the load they cause: the core of `sssp`,
//! `dfsssp` and `sar`.
//!
//! OpenSM starts Dijkstra's algorithm from channel weights so large that fewer hops always win.
//! The same trees come from a breadth-first search with relaxation between neighbouring levels,
//! which needs no heap. The levels depend on the home switch only, so all terminals of a switch
//! share them.

use super::forest::Forest;
use super::graph::Graph;

/// A channel that a switch may forward to.
#[derive(Debug, Clone, Copy)]
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

    /// All shortest routes that first go up and then down, where up is towards switches with a
    /// smaller `height` (a permutation of the switches). A switch that can reach the home switch
    /// by going down only does so, even if up and down is shorter: what arrives there from above
    /// must not go up again, and its table cannot tell. `by_height` lists the switches by height.
    /// Same cost as [`Levels::search`].
    pub fn search_up_down(&mut self, graph: &Graph, height: &[u32], by_height: &[u32], home: usize) {
        if !self.start(home) {
            return;
        }
        let mut next = 0;
        while let Some(&s) = self.order.get(next) {
            next += 1;
            let further = self.distance[s as usize] + 1;
            for c in graph.out(s as usize) {
                let above = graph.to(c);
                if height[above] < height[s as usize] && self.distance[above] == Self::FAR {
                    self.distance[above] = further;
                    self.order.push(above as u32);
                }
            }
        }
        let downs = self.order.len();
        for i in 0..downs {
            let s = self.order[i] as usize;
            self.permit(graph, s, |levels, to| {
                height[to] > height[s] && levels.distance[to] < levels.distance[s]
            });
        }
        // What remains must go up first; those above come earlier in the list.
        for &s in by_height {
            let s = s as usize;
            if self.distance[s] != Self::FAR {
                continue;
            }
            let above = graph.out(s).map(|c| graph.to(c)).filter(|to| height[*to] < height[s]);
            let Some(nearest) = above.map(|to| self.distance[to]).min().filter(|d| *d != Self::FAR) else {
                continue;
            };
            self.distance[s] = nearest + 1;
            self.order.push(s as u32);
            self.permit(graph, s, |levels, to| height[to] < height[s] && levels.distance[to] == nearest);
        }
    }

    /// Lists the channels of the next switch of the order that may be used.
    fn permit(&mut self, graph: &Graph, s: usize, may: impl Fn(&Self, usize) -> bool) {
        for c in graph.out(s) {
            let to = graph.to(c);
            if may(self, to) {
                self.descents.push(Descent { channel: c as u32, to: to as u32 });
            }
        }
        self.first.push(self.descents.len() as u32);
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
    /// Weight of the cheapest minimal route to the home switch, per switch.
    cost: Vec<u64>,
    /// Routes that pass a switch, per switch.
    flow: Vec<u64>,
}

impl TreeBuilder {
    /// Buffers for a graph.
    pub fn new(graph: &Graph) -> Self {
        Self { cost: vec![0; graph.switches()], flow: vec![0; graph.switches()] }
    }

    /// Fills `tree` with the routes that have the fewest hops and, among those, the least sum of
    /// channel weights; equal sums go to the lower port. `weights` is indexed by channel of the
    /// graph. O(switches + channels), no allocation.
    pub fn cheapest(&mut self, graph: &Graph, levels: &Levels, weights: &[u64], tree: &mut [u8]) {
        tree.fill(Forest::NONE);
        let home = levels.order[0] as usize;
        tree[home] = Forest::HOME;
        self.cost[home] = 0;
        for (i, &s) in levels.order.iter().enumerate().skip(1) {
            let (mut best, mut chosen) = (u64::MAX, 0);
            for d in levels.descents(i) {
                let cost = self.cost[d.to as usize] + weights[d.channel as usize];
                if cost < best {
                    (best, chosen) = (cost, d.channel as usize);
                }
            }
            self.cost[s as usize] = best;
            tree[s as usize] = graph.slot(chosen);
        }
    }

    /// Like [`TreeBuilder::cheapest`] and [`TreeBuilder::add_load`] at once, route by route: what a
    /// switch chose weighs already when the next one chooses, so that several switches do not join
    /// on one light channel. `sources[s]` routes start at switch `s`. O(hops × (switches +
    /// channels)), no allocation.
    pub fn spread(
        &mut self,
        graph: &Graph,
        levels: &Levels,
        sources: &[u32],
        weights: &mut [u64],
        tree: &mut [u8],
    ) {
        tree.fill(Forest::NONE);
        tree[levels.order[0] as usize] = Forest::HOME;
        for (i, &s) in levels.order.iter().enumerate().skip(1) {
            let s = s as usize;
            let cost =
                |d: &Descent| weights[d.channel as usize] + cost_of(graph, tree, weights, d.to as usize);
            let Some(best) = levels.descents(i).iter().min_by_key(|d| cost(d)) else { continue };
            tree[s] = graph.slot(best.channel as usize);
            let mut at = s;
            while sources[s] > 0 && tree[at] < Forest::HOME {
                let channel = graph.channel(at, tree[at]);
                weights[channel] += u64::from(sources[s]);
                at = graph.to(channel);
            }
        }
    }

    /// Adds to each channel's weight the number of routes that use it: `sources[s]` routes start
    /// at switch `s`. One sweep from the far end, not a walk per route. O(switches).
    pub fn add_load(
        &mut self,
        graph: &Graph,
        levels: &Levels,
        tree: &[u8],
        sources: &[u32],
        weights: &mut [u64],
    ) {
        for (flow, own) in self.flow.iter_mut().zip(sources) {
            *flow = u64::from(*own);
        }
        for &s in levels.order[1..].iter().rev() {
            let s = s as usize;
            let flow = self.flow[s];
            if flow > 0 {
                let channel = graph.channel(s, tree[s]);
                weights[channel] += flow;
                self.flow[graph.to(channel)] += flow;
            }
        }
    }
}

/// Sum of weights along the route from a switch.
fn cost_of(graph: &Graph, tree: &[u8], weights: &[u64], mut at: usize) -> u64 {
    let mut sum = 0;
    while tree[at] < Forest::HOME {
        let channel = graph.channel(at, tree[at]);
        sum += weights[channel];
        at = graph.to(channel);
    }
    sum
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
                .any(|c| weights[c] + builder.cost[graph.to(c)] < builder.cost[s]);
            assert!(!better, "switch {s} has a cheaper channel");
        }
        let before = weights.clone();
        builder.add_load(&graph, &levels, &tree, graph.terminals(), &mut weights);
        assert_ne!(weights, before);
        assert_eq!(weights, expected);
    }
}
