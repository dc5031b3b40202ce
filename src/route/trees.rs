//! Minimal-hop in-trees with channel weights, and the load they cause: the core of `sssp`,
//! `dfsssp` and `sar`.
//!
//! OpenSM starts Dijkstra's algorithm from channel weights so large that fewer hops always win.
//! The same trees come from a breadth-first search with relaxation between neighbouring levels,
//! which needs no heap. The levels depend on the home switch only, so all terminals of a switch
//! share them.

use super::forest::Forest;
use super::graph::Graph;

/// A channel one hop nearer to the home switch.
#[derive(Debug, Clone, Copy)]
struct Descent {
    channel: u32,
    to: u32,
}

/// Hop distances towards one home switch, and all channels that lie on a shortest path to it.
/// One value is reused for all destinations.
#[derive(Debug, Clone)]
pub struct Levels {
    /// Hops to the home switch, per switch; [`Levels::FAR`] if it cannot be reached.
    distance: Vec<u16>,
    /// Switches that reach the home switch, nearest first; the home switch is the first.
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
            distance: vec![Self::FAR; graph.switches()],
            order: Vec::with_capacity(graph.switches()),
            first: Vec::with_capacity(graph.switches() + 1),
            descents: Vec::with_capacity(graph.channels()),
        }
    }

    /// Breadth-first search from the home switch. O(switches + channels).
    pub fn search(&mut self, graph: &Graph, home: usize) {
        self.distance.fill(Self::FAR);
        self.order.clear();
        self.distance[home] = 0;
        self.order.push(home as u32);
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
        self.first.clear();
        self.descents.clear();
        self.first.push(0);
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

    /// Hops to the home switch per switch, [`Levels::FAR`] where there is no way.
    pub fn distance(&self) -> &[u16] {
        &self.distance
    }
    /// Switches that reach the home switch, nearest first.
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
            let descents = &levels.descents[levels.first[i] as usize..levels.first[i + 1] as usize];
            let (mut best, mut chosen) = (u64::MAX, 0);
            for d in descents {
                let cost = self.cost[d.to as usize] + weights[d.channel as usize];
                if cost < best {
                    (best, chosen) = (cost, d.channel as usize);
                }
            }
            self.cost[s as usize] = best;
            tree[s as usize] = graph.slot(chosen);
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
