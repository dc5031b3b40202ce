//! Channel dependencies (thesis Definition 3.7) in flat arrays, and a dependency graph that only
//! grows and never becomes cyclic.

use std::ops::Range;

use super::graph::Graph;

/// Numbers all dependencies a route could have: a dependency is a channel and a slot of the switch
/// it leads to (see [`Graph`]). Dependencies of one channel are consecutive. The number of
/// dependencies is the sum over switches of entering × leaving channels.
#[derive(Debug, Clone)]
pub struct Dependencies {
    /// `first[c]..first[c + 1]`: dependencies of channel `c` on the channels it leads to, by slot.
    first: Vec<u32>,
}

impl Dependencies {
    /// Numbers the dependencies of a graph. O(channels).
    pub fn new(graph: &Graph) -> Self {
        let mut first = Vec::with_capacity(graph.channels() + 1);
        let mut sum = 0;
        first.push(0);
        for c in 0..graph.channels() {
            sum += graph.out(graph.to(c)).len() as u32;
            first.push(sum);
        }
        Self { first }
    }
    /// Number of possible dependencies.
    pub fn len(&self) -> usize {
        self.first.last().map_or(0, |n| *n as usize)
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The dependency of a channel on the one in a slot of the switch it leads to.
    #[inline]
    pub fn id(&self, channel: usize, slot: u8) -> usize {
        self.first[channel] as usize + usize::from(slot)
    }
    /// All dependencies of a channel, by slot.
    #[inline]
    pub fn of(&self, channel: usize) -> Range<usize> {
        self.first[channel] as usize..self.first[channel + 1] as usize
    }
}

/// What is known of a dependency in one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not used.
    Absent,
    /// Used.
    Present,
    /// Would close a cycle, now and for ever: the graph only grows.
    Forbidden,
}

/// The channel dependency graph of one layer, kept acyclic while routes are added.
///
/// Keeps a topological order of the channels and repairs it locally (Pearce and Kelly, 2006). A
/// dependency that would close a cycle is remembered, so that the next route that needs it is
/// refused without a search.
#[derive(Debug, Clone)]
pub struct AcyclicLayer {
    state: Vec<State>,
    /// Position of each channel in a topological order: dependencies lead to higher positions.
    rank: Vec<u32>,
    /// Visit marks of the current search.
    seen: Vec<bool>,
    /// Dependencies added since the last commit.
    tentative: Vec<u32>,
    forward: Vec<u32>,
    backward: Vec<u32>,
}

impl AcyclicLayer {
    /// A layer without routes.
    pub fn new(graph: &Graph, dependencies: &Dependencies) -> Self {
        Self {
            state: vec![State::Absent; dependencies.len()],
            rank: (0..graph.channels() as u32).collect(),
            seen: vec![false; graph.channels()],
            tentative: Vec::new(),
            forward: Vec::new(),
            backward: Vec::new(),
        }
    }

    /// A layer with the given dependencies, which must be acyclic. O(channels + dependencies).
    pub fn of(graph: &Graph, deps: &Dependencies, present: impl Fn(usize) -> bool) -> Self {
        let mut layer = Self::new(graph, deps);
        let mut entering = vec![0u32; graph.channels()];
        for c in 0..graph.channels() {
            for (d, after) in deps.of(c).zip(graph.out(graph.to(c))) {
                if present(d) {
                    layer.state[d] = State::Present;
                    entering[after] += 1;
                }
            }
        }
        let mut order: Vec<u32> =
            (0..graph.channels() as u32).filter(|c| entering[*c as usize] == 0).collect();
        let mut next = 0;
        while let Some(&c) = order.get(next) {
            layer.rank[c as usize] = next as u32;
            next += 1;
            for (d, after) in deps.of(c as usize).zip(graph.out(graph.to(c as usize))) {
                if layer.state[d] == State::Present {
                    entering[after] -= 1;
                    if entering[after] == 0 {
                        order.push(after as u32);
                    }
                }
            }
        }
        debug_assert_eq!(order.len(), graph.channels(), "the given dependencies have a cycle");
        layer
    }

    /// Adds the dependencies of the route from `source` along `tree`, all or none. Whether they
    /// fit; see [`AcyclicLayer::extend`].
    pub fn add_route(&mut self, graph: &Graph, deps: &Dependencies, tree: &[u8], source: usize) -> bool {
        let fits = self.extend(graph, deps, tree, source);
        if fits {
            self.commit()
        } else {
            self.rollback()
        }
        fits
    }

    /// Adds the dependencies of a route tentatively: until [`AcyclicLayer::commit`] they can be
    /// taken back. False at the first dependency that would close a cycle; those before it stay.
    /// O(hops) when nothing is new, else O(size of the disordered part of the layer) per new one.
    pub fn extend(&mut self, graph: &Graph, deps: &Dependencies, tree: &[u8], source: usize) -> bool {
        if tree[source] >= super::forest::Forest::HOME {
            return true;
        }
        let mut channel = graph.channel(source, tree[source]);
        loop {
            let at = graph.to(channel);
            let slot = tree[at];
            if slot >= super::forest::Forest::HOME {
                return true;
            }
            if !self.insert(graph, deps, channel, slot) {
                return false;
            }
            channel = graph.channel(at, slot);
        }
    }

    /// Keeps what was added since the last commit.
    pub fn commit(&mut self) {
        self.tentative.clear();
    }

    /// Takes back what was added since the last commit. The order stays valid.
    pub fn rollback(&mut self) {
        for d in self.tentative.drain(..) {
            self.state[d as usize] = State::Absent;
        }
    }

    /// Adds one dependency tentatively; false if it would close a cycle.
    pub fn insert(&mut self, graph: &Graph, deps: &Dependencies, channel: usize, slot: u8) -> bool {
        let d = deps.id(channel, slot);
        match self.state[d] {
            State::Present => return true,
            State::Forbidden => return false,
            State::Absent => {}
        }
        let target = graph.channel(graph.to(channel), slot);
        if self.rank[channel] > self.rank[target] && !self.reorder(graph, deps, channel, target) {
            // Only a cycle through committed dependencies is final.
            if self.tentative.is_empty() {
                self.state[d] = State::Forbidden;
            }
            return false;
        }
        self.state[d] = State::Present;
        self.tentative.push(d as u32);
        true
    }

    /// Whether a dependency is used.
    pub fn contains(&self, dependency: usize) -> bool {
        self.state[dependency] == State::Present
    }

    /// Makes room in the order for `source -> target` where `rank[source] > rank[target]`; false
    /// if `target` already leads to `source`.
    fn reorder(&mut self, graph: &Graph, deps: &Dependencies, source: usize, target: usize) -> bool {
        let (lower, upper) = (self.rank[target], self.rank[source]);
        let free = self.search_forward(graph, deps, source, target, upper);
        if free {
            self.search_backward(graph, deps, source, lower);
        }
        for c in self.forward.iter().chain(&self.backward) {
            self.seen[*c as usize] = false;
        }
        if free {
            self.shift();
        }
        self.forward.clear();
        self.backward.clear();
        free
    }

    fn search_forward(
        &mut self,
        graph: &Graph,
        deps: &Dependencies,
        source: usize,
        target: usize,
        upper: u32,
    ) -> bool {
        self.forward.push(target as u32);
        self.seen[target] = true;
        let mut next = 0;
        while let Some(&c) = self.forward.get(next) {
            next += 1;
            let c = c as usize;
            let leaving = graph.out(graph.to(c));
            for (d, after) in deps.of(c).zip(leaving) {
                if self.state[d] == State::Present && !self.seen[after] && self.rank[after] <= upper {
                    if after == source {
                        return false;
                    }
                    self.seen[after] = true;
                    self.forward.push(after as u32);
                }
            }
        }
        true
    }

    fn search_backward(&mut self, graph: &Graph, deps: &Dependencies, source: usize, lower: u32) {
        self.backward.push(source as u32);
        self.seen[source] = true;
        let mut next = 0;
        while let Some(&c) = self.backward.get(next) {
            next += 1;
            let (slot, switch) = (graph.slot(c as usize), graph.from(c as usize));
            for leaving in graph.out(switch) {
                let before = graph.reverse(leaving);
                let present = self.state[deps.id(before, slot)] == State::Present;
                if present && !self.seen[before] && self.rank[before] >= lower {
                    self.seen[before] = true;
                    self.backward.push(before as u32);
                }
            }
        }
    }

    /// Puts all of `backward` before all of `forward` on the positions that both hold.
    fn shift(&mut self) {
        let rank = &mut self.rank;
        self.backward.sort_unstable_by_key(|c| rank[*c as usize]);
        self.forward.sort_unstable_by_key(|c| rank[*c as usize]);
        let moved = || self.backward.iter().chain(&self.forward);
        let mut positions: Vec<u32> = moved().map(|c| rank[*c as usize]).collect();
        positions.sort_unstable();
        for (c, position) in moved().zip(positions) {
            rank[*c as usize] = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use petgraph::algo::is_cyclic_directed;
    use petgraph::graph::DiGraph;
    use proptest::prelude::*;

    use super::*;
    use crate::generate::{generate, rng::Rng};

    /// The layer as petgraph sees it, with one more dependency.
    fn cyclic_with(graph: &Graph, deps: &Dependencies, layer: &AcyclicLayer, extra: (usize, u8)) -> bool {
        let mut edges = vec![(extra.0 as u32, graph.channel(graph.to(extra.0), extra.1) as u32)];
        for c in 0..graph.channels() {
            for (d, after) in deps.of(c).zip(graph.out(graph.to(c))) {
                if layer.contains(d) {
                    edges.push((c as u32, after as u32));
                }
            }
        }
        is_cyclic_directed(&DiGraph::<(), ()>::from_edges(edges))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// Random dependencies in random order: each is accepted exactly if petgraph finds no cycle.
        #[test]
        fn accepts_exactly_what_closes_no_cycle(seed in 0u64..1000, cables in 8usize..20) {
            let fabric = generate(&format!("random:7,7,{cables},seed={seed}")).unwrap();
            let graph = Graph::new(&fabric);
            let deps = Dependencies::new(&graph);
            let mut layer = AcyclicLayer::new(&graph, &deps);
            let mut rng = Rng::new(seed);
            for _ in 0..120 {
                let channel = rng.below(graph.channels());
                let slot = rng.below(graph.out(graph.to(channel)).len()) as u8;
                let cyclic = cyclic_with(&graph, &deps, &layer, (channel, slot));
                prop_assert_eq!(layer.insert(&graph, &deps, channel, slot), !cyclic);
                if rng.below(3) > 0 { layer.commit() } else { layer.rollback() }
            }
        }
    }
}
