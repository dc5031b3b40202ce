//! Channel dependencies (thesis Definition 3.7) in flat arrays, and a dependency graph that only
//! grows and never becomes cyclic.

use std::ops::Range;

use super::forest::Forest;
use super::graph::Graph;
use super::order::{Dag, Order, Ranks};
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
/// Keeps a topological order of the channels and repairs it where a new dependency contradicts it.
/// What is accepted does not depend on which order; [`super::order::Labels`] is the faster one, [`Ranks`] changes less
/// of the order that it begins with. A dependency that would close a cycle is remembered, so that the
/// next route that needs it is refused without a search.
#[derive(Debug, Clone)]
pub struct AcyclicLayer<O = Ranks> {
    links: Links,
    /// Dependencies that would close a cycle, now and for ever: the graph only grows.
    forbidden: Vec<u64>,
    /// A topological order: dependencies lead to channels that come later.
    order: O,
    /// Dependencies added since the last commit.
    tentative: Vec<(u32, u8)>,
}

/// The dependencies in use.
#[derive(Debug, Clone)]
pub struct Links {
    /// Words per mask of slots.
    words: usize,
    /// Per channel a mask of the slots of the switch it leads to.
    after: Vec<u64>,
    /// The same by the channel depended on: a mask of the slots, at the switch it leaves, of the
    /// reverses of the channels that depend on it.
    before: Vec<u64>,
}

/// The channels of a graph with the dependencies in use.
struct Channels<'a> {
    graph: &'a Graph,
    links: &'a Links,
}

impl Dag for Channels<'_> {
    #[inline]
    fn after(&self, c: usize) -> impl Iterator<Item = usize> {
        let first = self.graph.out(self.graph.to(c)).start;
        self.links.after(c).map(move |slot| first + slot)
    }
    #[inline]
    fn before(&self, c: usize) -> impl Iterator<Item = usize> {
        let first = self.graph.out(self.graph.from(c)).start;
        self.links.before(c).map(move |slot| self.graph.reverse(first + slot))
    }
}

impl Links {
    /// Slots, at the switch a channel leads to, of the channels that it depends on.
    #[inline]
    pub fn after(&self, channel: usize) -> impl Iterator<Item = usize> + '_ {
        slots(&self.after, self.words, channel)
    }
    /// Slots, at the switch a channel leaves, of the reverses of those that depend on it.
    #[inline]
    pub fn before(&self, channel: usize) -> impl Iterator<Item = usize> + '_ {
        slots(&self.before, self.words, channel)
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

    fn add(&mut self, graph: &Graph, channel: usize, slot: u8) {
        let (word, bit) = self.place(channel, slot);
        self.after[word] |= bit;
        let (word, bit) = self.place_before(graph, channel, slot);
        self.before[word] |= bit;
    }

    fn remove(&mut self, graph: &Graph, channel: usize, slot: u8) {
        let (word, bit) = self.place(channel, slot);
        self.after[word] &= !bit;
        let (word, bit) = self.place_before(graph, channel, slot);
        self.before[word] &= !bit;
    }
}

impl<O: Order> AcyclicLayer<O> {
    /// A layer without routes.
    pub fn new(graph: &Graph) -> Self {
        Self::ordered(graph, (0..graph.channels() as u32).collect())
    }

    /// A layer without routes, whose first topological order is given: a permutation of the channels.
    pub fn ordered(graph: &Graph, order: Vec<u32>) -> Self {
        let (channels, words) = (graph.channels(), graph.slot_words());
        let masks = || vec![0; channels * words];
        Self {
            links: Links { words, after: masks(), before: masks() },
            forbidden: masks(),
            order: O::new(&order),
            tentative: Vec::new(),
        }
    }

    /// A layer with the given dependencies, which must be acyclic. O(channels + dependencies).
    pub fn of(graph: &Graph, deps: &Dependencies, present: impl Fn(usize) -> bool) -> Self {
        let mut layer = Self::new(graph);
        let mut entering = vec![0u32; graph.channels()];
        for c in 0..graph.channels() {
            for (slot, (d, after)) in deps.of(c).zip(graph.out(graph.to(c))).enumerate() {
                if present(d) {
                    layer.links.add(graph, c, slot as u8);
                    entering[after] += 1;
                }
            }
        }
        let mut order: Vec<u32> =
            (0..graph.channels() as u32).filter(|c| entering[*c as usize] == 0).collect();
        let mut next = 0;
        while let Some(&c) = order.get(next) {
            next += 1;
            let first = graph.out(graph.to(c as usize)).start;
            for slot in layer.links.after(c as usize) {
                let entering = &mut entering[first + slot];
                *entering -= 1;
                if *entering == 0 {
                    order.push((first + slot) as u32);
                }
            }
        }
        assert_eq!(order.len(), graph.channels(), "the given dependencies have a cycle");
        layer.order = O::new(&order);
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
        let (word, bit) = self.links.place(channel, slot);
        if self.forbidden[word] & bit != 0 {
            return false;
        }
        let target = graph.channel(graph.to(channel), slot);
        let fits = self.order.is_before(channel, target)
            || self.order.repair(&Channels { graph, links: &self.links }, channel, target);
        if !fits {
            return false;
        }
        self.links.add(graph, channel, slot);
        true
    }

    /// Position of each channel in the topological order. O(channels).
    pub fn rank(&self) -> Vec<u32> {
        self.order.positions()
    }

    /// Refuses a dependency from now on.
    pub fn forbid(&mut self, channel: usize, slot: u8) {
        let (word, bit) = self.links.place(channel, slot);
        self.forbidden[word] |= bit;
    }

    /// Takes a dependency out of use. The order stays valid.
    pub fn remove(&mut self, graph: &Graph, channel: usize, slot: u8) {
        self.links.remove(graph, channel, slot);
    }

    /// Whether a dependency is used.
    #[inline]
    pub fn contains(&self, channel: usize, slot: u8) -> bool {
        let (word, bit) = self.links.place(channel, slot);
        self.links.after[word] & bit != 0
    }

    /// Whether one channel comes before another in the topological order.
    #[inline]
    pub fn is_before(&self, one: usize, other: usize) -> bool {
        self.order.is_before(one, other)
    }
}

/// The slots set in a channel's mask.
#[inline]
fn slots(masks: &[u64], words: usize, channel: usize) -> impl Iterator<Item = usize> + '_ {
    let own = &masks[channel * words..(channel + 1) * words];
    own.iter().enumerate().flat_map(|(word, mask)| bits(*mask).map(move |bit| 64 * word + bit))
}

#[cfg(test)]
mod tests {
    use petgraph::algo::is_cyclic_directed;
    use petgraph::graph::DiGraph;
    use proptest::prelude::*;

    use super::*;
    use crate::lab::generate::generate;
    use crate::model::rng::Rng;
    use crate::route::order::Labels;

    /// The layer as petgraph sees it, with one more dependency.
    fn cyclic_with(graph: &Graph, layer: &AcyclicLayer<impl Order>, extra: (usize, u8)) -> bool {
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
            insert_at_random(&graph, AcyclicLayer::<Ranks>::new(&graph), seed)?;
            insert_at_random(&graph, AcyclicLayer::<Labels>::new(&graph), seed)?;
        }
    }

    fn insert_at_random(
        graph: &Graph,
        mut layer: AcyclicLayer<impl Order>,
        seed: u64,
    ) -> Result<(), TestCaseError> {
        let mut rng = Rng::new(seed);
        for _ in 0..120 {
            let channel = rng.below(graph.channels());
            let slot = rng.below(graph.out(graph.to(channel)).len()) as u8;
            let cyclic = cyclic_with(graph, &layer, (channel, slot));
            prop_assert_eq!(layer.insert(graph, channel, slot), !cyclic);
            if rng.below(3) > 0 { layer.commit() } else { layer.rollback(graph) }
        }
        Ok(())
    }
}
