//! Channel dependencies (thesis Definition 3.7) in flat arrays, and a dependency graph that only
//! grows and never becomes cyclic.

use std::ops::Range;

use super::forest::Forest;
use super::graph::Graph;
use super::ways::bits;

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

/// The channel dependency graph of one layer, kept acyclic while routes are added.
///
/// Keeps a topological order of the channels and repairs it locally (Pearce and Kelly, "A dynamic
/// topological sort algorithm for directed acyclic graphs", 2006). What a search finds is marked by
/// place in the order, so that marks come out sorted. A dependency that would close a cycle is
/// remembered, so that the next route that needs it is refused without a search.
#[derive(Debug, Clone)]
pub struct AcyclicLayer {
    /// Words per mask of slots.
    words: usize,
    /// Dependencies in use, per channel a mask of the slots of the switch it leads to.
    after: Vec<u64>,
    /// The same by the channel depended on: a mask of the slots, at the switch it leaves, of the
    /// reverses of the channels that depend on it.
    before: Vec<u64>,
    /// Dependencies that would close a cycle, now and for ever: the graph only grows.
    forbidden: Vec<u64>,
    /// Position of each channel in a topological order: dependencies lead to higher positions.
    rank: Vec<u32>,
    /// The channel at each position.
    at: Vec<u32>,
    /// Positions that the current search found; all clear between searches.
    forward: Vec<u64>,
    backward: Vec<u64>,
    /// Dependencies added since the last commit.
    tentative: Vec<(u32, u8)>,
    found: Vec<u32>,
}

impl AcyclicLayer {
    /// A layer without routes.
    pub fn new(graph: &Graph) -> Self {
        Self::ordered(graph, (0..graph.channels() as u32).collect())
    }

    /// A layer without routes, whose first topological order is given: a permutation of the channels.
    pub fn ordered(graph: &Graph, order: Vec<u32>) -> Self {
        let (channels, words) = (graph.channels(), graph.slot_words());
        let mut rank = vec![0; channels];
        order.iter().enumerate().for_each(|(i, c)| rank[*c as usize] = i as u32);
        Self {
            words,
            after: vec![0; channels * words],
            before: vec![0; channels * words],
            forbidden: vec![0; channels * words],
            rank,
            at: order,
            forward: vec![0; channels.div_ceil(64)],
            backward: vec![0; channels.div_ceil(64)],
            tentative: Vec::new(),
            found: Vec::new(),
        }
    }

    /// A layer with the given dependencies, which must be acyclic. O(channels + dependencies).
    pub fn of(graph: &Graph, deps: &Dependencies, present: impl Fn(usize) -> bool) -> Self {
        let mut layer = Self::new(graph);
        let mut entering = vec![0u32; graph.channels()];
        for c in 0..graph.channels() {
            for (slot, (d, after)) in deps.of(c).zip(graph.out(graph.to(c))).enumerate() {
                if present(d) {
                    layer.link(graph, c, slot as u8);
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
            let first = graph.out(graph.to(c as usize)).start;
            for slot in slots(&layer.after, layer.words, c as usize) {
                let entering = &mut entering[first + slot];
                *entering -= 1;
                if *entering == 0 {
                    order.push((first + slot) as u32);
                }
            }
        }
        debug_assert_eq!(order.len(), graph.channels(), "the given dependencies have a cycle");
        layer.at = order;
        layer
    }

    /// Adds the dependencies of the route from `source` along `tree`, all or none. Whether they
    /// fit; see [`AcyclicLayer::extend`].
    pub fn add_route(&mut self, graph: &Graph, tree: &[u8], source: usize) -> bool {
        let fits = self.extend(graph, tree, source);
        if fits {
            self.commit()
        } else {
            self.rollback(graph)
        }
        fits
    }

    /// Adds the dependencies of a route tentatively: until [`AcyclicLayer::commit`] they can be
    /// taken back. False at the first dependency that would close a cycle; those before it stay.
    /// O(hops) when nothing is new, else O(size of the disordered part of the layer) per new one.
    pub fn extend(&mut self, graph: &Graph, tree: &[u8], source: usize) -> bool {
        if tree[source] >= Forest::HOME {
            return true;
        }
        let mut channel = graph.channel(source, tree[source]);
        loop {
            let at = graph.to(channel);
            let slot = tree[at];
            if slot >= Forest::HOME {
                return true;
            }
            if !self.insert(graph, channel, slot) {
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
    pub fn rollback(&mut self, graph: &Graph) {
        while let Some((channel, slot)) = self.tentative.pop() {
            self.remove(graph, channel as usize, slot);
        }
    }

    /// Adds one dependency tentatively; false if it would close a cycle.
    pub fn insert(&mut self, graph: &Graph, channel: usize, slot: u8) -> bool {
        if self.contains(channel, slot) {
            return true;
        }
        if !self.admit(graph, channel, slot) {
            // Only a cycle through committed dependencies is final.
            if self.tentative.is_empty() {
                self.forbid(channel, slot);
            }
            return false;
        }
        self.tentative.push((channel as u32, slot));
        true
    }

    /// Adds one dependency that is not in use; false if it is forbidden or would close a cycle.
    pub fn admit(&mut self, graph: &Graph, channel: usize, slot: u8) -> bool {
        let (word, bit) = self.place(channel, slot);
        if self.forbidden[word] & bit != 0 {
            return false;
        }
        let target = graph.channel(graph.to(channel), slot);
        if self.rank[channel] >= self.rank[target] && !self.reorder(graph, channel, target) {
            return false;
        }
        self.link(graph, channel, slot);
        true
    }

    /// Refuses a dependency from now on.
    pub fn forbid(&mut self, channel: usize, slot: u8) {
        let (word, bit) = self.place(channel, slot);
        self.forbidden[word] |= bit;
    }

    /// Takes a dependency out of use. The order stays valid.
    pub fn remove(&mut self, graph: &Graph, channel: usize, slot: u8) {
        let (word, bit) = self.place(channel, slot);
        self.after[word] &= !bit;
        let (word, bit) = self.place_before(graph, channel, slot);
        self.before[word] &= !bit;
    }

    /// Whether a dependency is used.
    #[inline]
    pub fn contains(&self, channel: usize, slot: u8) -> bool {
        let (word, bit) = self.place(channel, slot);
        self.after[word] & bit != 0
    }

    /// Position of each channel in the topological order.
    pub fn rank(&self) -> &[u32] {
        &self.rank
    }

    #[inline]
    fn place(&self, channel: usize, slot: u8) -> (usize, u64) {
        (channel * self.words + usize::from(slot / 64), 1 << (slot % 64))
    }

    #[inline]
    fn place_before(&self, graph: &Graph, channel: usize, slot: u8) -> (usize, u64) {
        let at = graph.to(channel);
        self.place(graph.channel(at, slot), graph.slot_at(at, graph.reverse(channel)))
    }

    fn link(&mut self, graph: &Graph, channel: usize, slot: u8) {
        let (word, bit) = self.place(channel, slot);
        self.after[word] |= bit;
        let (word, bit) = self.place_before(graph, channel, slot);
        self.before[word] |= bit;
    }

    /// Makes room in the order for `source -> target` where `rank[source] >= rank[target]`; false
    /// if `target` already leads to `source`.
    fn reorder(&mut self, graph: &Graph, source: usize, target: usize) -> bool {
        let (lower, upper) = (self.rank[target], self.rank[source]);
        let free = self.search_forward(graph, target, upper);
        if free {
            self.search_backward(graph, source, lower);
            self.shift(lower, upper);
        }
        let touched = lower as usize / 64..=upper as usize / 64;
        self.forward[touched.clone()].fill(0);
        self.backward[touched].fill(0);
        free
    }

    /// Marks what `target` leads to, up to a position; false if the channel there is among it.
    fn search_forward(&mut self, graph: &Graph, target: usize, upper: u32) -> bool {
        if self.rank[target] == upper {
            return false;
        }
        mark(&mut self.forward, self.rank[target]);
        self.found.clear();
        self.found.push(target as u32);
        while let Some(c) = self.found.pop() {
            let first = graph.out(graph.to(c as usize)).start;
            for slot in slots(&self.after, self.words, c as usize) {
                let rank = self.rank[first + slot];
                if rank == upper {
                    return false;
                }
                if rank < upper && mark(&mut self.forward, rank) {
                    self.found.push((first + slot) as u32);
                }
            }
        }
        true
    }

    /// Marks what leads to `source`, down to a position.
    fn search_backward(&mut self, graph: &Graph, source: usize, lower: u32) {
        mark(&mut self.backward, self.rank[source]);
        self.found.clear();
        self.found.push(source as u32);
        while let Some(c) = self.found.pop() {
            let first = graph.out(graph.from(c as usize)).start;
            for slot in slots(&self.before, self.words, c as usize) {
                let previous = graph.reverse(first + slot);
                let rank = self.rank[previous];
                if rank > lower && mark(&mut self.backward, rank) {
                    self.found.push(previous as u32);
                }
            }
        }
    }

    /// Puts all of `backward` before all of `forward` on the positions that both hold, each in its
    /// old order.
    fn shift(&mut self, lower: u32, upper: u32) {
        let touched = lower as usize / 64..upper as usize / 64 + 1;
        self.found.clear();
        for marks in [&self.backward, &self.forward] {
            for word in touched.clone() {
                self.found.extend(bits(marks[word]).map(|bit| self.at[64 * word + bit]));
            }
        }
        let mut moved = self.found.iter();
        for word in touched {
            for (bit, c) in bits(self.backward[word] | self.forward[word]).zip(&mut moved) {
                self.at[64 * word + bit] = *c;
                self.rank[*c as usize] = (64 * word + bit) as u32;
            }
        }
    }
}

/// The slots set in a channel's mask.
#[inline]
fn slots(masks: &[u64], words: usize, channel: usize) -> impl Iterator<Item = usize> + '_ {
    let own = &masks[channel * words..(channel + 1) * words];
    own.iter().enumerate().flat_map(|(word, mask)| bits(*mask).map(move |bit| 64 * word + bit))
}

/// Sets a bit; whether it was clear.
#[inline]
fn mark(marks: &mut [u64], at: u32) -> bool {
    let (word, bit) = (&mut marks[at as usize / 64], 1 << (at % 64));
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}

#[cfg(test)]
mod tests {
    use petgraph::algo::is_cyclic_directed;
    use petgraph::graph::DiGraph;
    use proptest::prelude::*;

    use super::*;
    use crate::generate::{generate, rng::Rng};

    /// The layer as petgraph sees it, with one more dependency.
    fn cyclic_with(graph: &Graph, layer: &AcyclicLayer, extra: (usize, u8)) -> bool {
        let mut edges = vec![(extra.0 as u32, graph.channel(graph.to(extra.0), extra.1) as u32)];
        for c in 0..graph.channels() {
            for (slot, after) in graph.out(graph.to(c)).enumerate() {
                if layer.contains(c, slot as u8) {
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
            let mut layer = AcyclicLayer::new(&graph);
            let mut rng = Rng::new(seed);
            for _ in 0..120 {
                let channel = rng.below(graph.channels());
                let slot = rng.below(graph.out(graph.to(channel)).len()) as u8;
                let cyclic = cyclic_with(&graph, &layer, (channel, slot));
                prop_assert_eq!(layer.insert(&graph, channel, slot), !cyclic);
                if rng.below(3) > 0 { layer.commit() } else { layer.rollback(&graph) }
            }
        }
    }
}
