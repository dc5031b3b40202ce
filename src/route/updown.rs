//! `updown`: routes go up and then down (thesis section 3.3.4, Schroeder et al. 1991), one layer.
//!
//! Unlike OpenSM's engine of the same idea, which keeps ports reached against its own rule when
//! they are as short, no route turns from down to up: the dependency graph has no cycle.

use std::cmp::Reverse;

use super::forest::attach;
use super::graph::{Graph, is_indirect};
use super::sssp::{Share, balanced_over};
use super::tree_levels::TreeLevels;
use super::trees::{Descent, Join, Levels, Load, TreeBuilder};
use super::ways::{Ways, terminals_by_hops};
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, SwitchId, Tables};

/// Up*/Down*. Ignores demand and budget: it needs one layer.
#[derive(Debug, Clone, Default)]
pub struct UpDown {
    /// Root switches; chosen by [`histogram_roots`] if empty.
    pub roots: Vec<SwitchId>,
}

impl Engine for UpDown {
    fn name(&self) -> &'static str {
        "updown"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, _budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let given: Vec<usize> = self.roots.iter().map(|s| s.index()).collect();
        if let Some(bad) = given.iter().find(|s| **s >= graph.switches()) {
            let reason = format!("there is no switch number {bad} to be a root");
            return Err(RouteError::NotApplicable { engine: self.name(), reason });
        }
        let heights = Heights::connecting(&graph, &given);
        heights.tables(fabric, &graph, self.name())
    }
}

/// A direction for every cable: up is towards the smaller height.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heights {
    /// A number per switch, all different.
    pub height: Vec<u32>,
    /// Switches by height, roots first.
    pub by_height: Vec<u32>,
    directions: Directions,
}

/// The channels of each switch, up apart from down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directions {
    /// Per switch: the first of its channels up, then the first down, in `ways`.
    first: Vec<u32>,
    /// Channels by sending switch, up before down, by port.
    ways: Vec<Descent>,
}

impl Directions {
    /// Sorts the channels by whether they lead up from one switch to another. O(channels).
    pub fn new(graph: &Graph, is_up: impl Fn(usize, usize) -> bool) -> Self {
        let (mut first, mut ways) = (vec![0], Vec::with_capacity(graph.channels()));
        for s in 0..graph.switches() {
            for wanted in [true, false] {
                let all = graph.out(s).zip(graph.neighbours(s));
                let some = all.filter(|(_, to)| is_up(s, **to as usize) == wanted);
                ways.extend(some.map(|(c, to)| Descent { channel: c as u32, to: *to }));
                first.push(ways.len() as u32);
            }
        }
        Self { first, ways }
    }

    /// Channels of a switch that lead up, by port.
    #[inline]
    pub fn ups(&self, switch: usize) -> &[Descent] {
        &self.ways[self.first[2 * switch] as usize..self.first[2 * switch + 1] as usize]
    }

    /// Channels of a switch that lead down, by port.
    #[inline]
    pub fn downs(&self, switch: usize) -> &[Descent] {
        &self.ways[self.first[2 * switch + 1] as usize..self.first[2 * switch + 2] as usize]
    }
}

impl Heights {
    /// Heights by hops from the nearest root, then by switch. Switches no root reaches are searched
    /// from a root of their own.
    pub fn from_roots(graph: &Graph, roots: &[usize]) -> Self {
        let mut rank = vec![u32::MAX; graph.switches()];
        let mut queue: Vec<usize> = roots.to_vec();
        let (mut next, mut unseen) = (0, 0);
        for s in &queue {
            rank[*s] = 0;
        }
        loop {
            while let Some(&s) = queue.get(next) {
                next += 1;
                for c in graph.out(s) {
                    let to = graph.to(c);
                    if rank[to] == u32::MAX {
                        rank[to] = rank[s] + 1;
                        queue.push(to);
                    }
                }
            }
            let Some(s) = (unseen..graph.switches()).find(|s| rank[*s] == u32::MAX) else { break };
            unseen = s;
            rank[s] = 0;
            queue.push(s);
        }
        Self::from_ranks(graph, &rank)
    }

    /// Heights by a rank per switch, smallest on top, then by switch. O(channels).
    pub(super) fn from_ranks(graph: &Graph, rank: &[u32]) -> Self {
        let mut by_height: Vec<u32> = (0..graph.switches() as u32).collect();
        by_height.sort_by_key(|s| rank[*s as usize]);
        let mut height = vec![0; graph.switches()];
        for (position, s) in by_height.iter().enumerate() {
            height[*s as usize] = position as u32;
        }
        let directions = Directions::new(graph, |from, to| height[to] < height[from]);
        Self { height, by_height, directions }
    }

    /// Channels of a switch that lead up, by port.
    #[inline]
    pub fn ups(&self, switch: usize) -> &[Descent] {
        self.directions.ups(switch)
    }

    /// Channels of a switch that lead down, by port.
    #[inline]
    pub fn downs(&self, switch: usize) -> &[Descent] {
        self.directions.downs(switch)
    }

    /// Heights under which every two connected switches with terminals have a legal route. With
    /// several roots two of them may have no common one above them; then the first root alone, from which a tree
    /// spans everything, is taken. Without given roots: the levels of a tree, or else [`histogram_roots`], or else [`centre`].
    /// O(switches × (switches + channels)).
    pub fn connecting(graph: &Graph, given: &[usize]) -> Self {
        let mut found = given.to_vec();
        if found.is_empty() {
            if let Some(heights) = Self::of_tree(graph) {
                return heights;
            }
            let distances = Distances::new(graph);
            found = histogram_roots(graph, &distances);
            if found.is_empty() {
                found.push(centre(graph, &distances));
            }
        }
        if found.len() > 1 {
            let heights = Self::from_roots(graph, &found);
            if heights.connects(graph) {
                return heights;
            }
        }
        Self::from_roots(graph, &found[..1])
    }

    /// The levels of a tree, whatever cables it lost: other than hops from those tops that see nearly all hosts at
    /// one distance, they leave none out. Where two leaves have no common switch above them, one leaf is put above
    /// the switches over it, and these above all others. A whole tree loses none of the shortest ways between leaves
    /// by that, and all tops over that leaf have it above them. None where the fabric is no tree of levels, or too
    /// much of it is lost. O(leaves × (switches + channels)) at most.
    fn of_tree(graph: &Graph) -> Option<Self> {
        if !is_indirect(graph.terminals()) {
            return None;
        }
        let tree = TreeLevels::from_leaves(graph).ok()?;
        let top = tree.top();
        let rank: Vec<u32> = tree.level.iter().map(|level| top - level).collect();
        let plain = Self::from_ranks(graph, &rank);
        if plain.connects(graph) {
            return Some(plain);
        }
        let leaves = (0..graph.switches()).filter(|s| graph.terminals()[*s] > 0 && tree.level[*s] == 0);
        let over = leaves.map(|leaf| plain.over(leaf)).max_by_key(|over| (over.len(), Reverse(over[0])))?;
        let mut raised: Vec<u32> = rank.iter().map(|rank| rank + top).collect();
        over.iter().for_each(|s| raised[*s as usize] = tree.level[*s as usize]);
        Some(Self::from_ranks(graph, &raised)).filter(|heights| heights.connects(graph))
    }

    /// A switch and all that can be reached from it by going up only.
    fn over(&self, s: usize) -> Vec<u32> {
        let (mut known, mut over, mut next) = (vec![false; self.height.len()], vec![s as u32], 0);
        while let Some(&s) = over.get(next) {
            next += 1;
            let fresh = self.ups(s as usize).iter().map(|up| up.to);
            over.extend(fresh.filter(|to| !std::mem::replace(&mut known[*to as usize], true)));
        }
        over
    }

    /// Whether each two connected switches with terminals have a legal route. 64 homes at once: each switch
    /// carries one word that says which of them it reaches.
    pub(super) fn connects(&self, graph: &Graph) -> bool {
        let n = graph.switches();
        let part = graph.components();
        let with_terminals = |s: &usize| graph.terminals()[*s] > 0;
        let (mut reached, mut members) = (vec![0u64; n], vec![0u64; n]);
        (0..n).step_by(64).all(|first| {
            reached.fill(0);
            members.fill(0);
            for home in (first..n.min(first + 64)).filter(with_terminals) {
                reached[home] = 1 << (home - first);
                members[part[home] as usize] |= reached[home];
            }
            // Who is above a home, and then all that can go up to one of these.
            for s in self.by_height.iter().rev().map(|s| *s as usize) {
                self.ups(s).iter().for_each(|up| reached[up.to as usize] |= reached[s]);
            }
            for s in self.by_height.iter().map(|s| *s as usize) {
                reached[s] |= self.ups(s).iter().fold(0, |over, up| over | reached[up.to as usize]);
            }
            (0..n).filter(with_terminals).all(|s| reached[s] == members[part[s] as usize])
        })
    }

    /// Balanced legal routes on one layer. Switches without terminals may have no legal way to each
    /// other, as roots do; they get ways on which nothing starts.
    ///
    /// In trees there are ways to choose from above every leaf, and each terminal gets its own; on most
    /// other fabrics nearly everything passes the root whatever one chooses, and the terminals of a
    /// switch share theirs ([`Share::or_nothing`]). O(trees × (switches + channels)).
    pub fn tables(&self, fabric: &Fabric, graph: &Graph, engine: &str) -> Result<Tables, RouteError> {
        let share = Share::BySwitch.or_nothing(graph);
        let ways = Ways::up_down(graph, self);
        balanced_over(fabric, graph, share, Join::Sparingly, ways).into_flat_tables(fabric, graph, engine)
    }
}

/// What one breadth-first search from each switch tells.
#[derive(Debug, Clone)]
pub struct Distances {
    /// Terminals by hops from the switch, per switch.
    terminals: Vec<Vec<u64>>,
}

impl Distances {
    /// Searches from every switch. O(switches × (switches + channels)).
    pub fn new(graph: &Graph) -> Self {
        Self { terminals: terminals_by_hops(graph) }
    }
}

/// OpenSM's statistical method: a root sees more than 90 % of the terminals at one distance and
/// more than 5 % at no other. In wide trees a switch below the top may do so too, when the leaves under it are few:
/// so of these only those count that see them nearest.
pub fn histogram_roots(graph: &Graph, distances: &Distances) -> Vec<usize> {
    let total: u64 = graph.terminals().iter().map(|n| u64::from(*n)).sum();
    let is_root = |histogram: &Vec<u64>| {
        let above = |percent| histogram.iter().filter(|n| **n * 100 > total * percent).count();
        above(90) == 1 && above(5) == 1
    };
    let main = |s: &usize| {
        let far = distances.terminals[*s].iter().enumerate().max_by_key(|(_, terminals)| **terminals);
        far.map_or(0, |(hops, _)| hops)
    };
    let found: Vec<usize> = (0..graph.switches()).filter(|s| is_root(&distances.terminals[*s])).collect();
    let nearest = found.iter().map(main).min();
    found.into_iter().filter(|s| Some(main(s)) == nearest).collect()
}

/// The switch with the least sum of hops to all terminals in the largest part of the fabric; the
/// first of several.
pub fn centre(graph: &Graph, distances: &Distances) -> usize {
    let sum = |s: usize| -> u64 { distances.terminals[s].iter().zip(0..).map(|(n, hops)| n * hops).sum() };
    let part = graph.components();
    let mut size = vec![0u32; graph.switches()];
    part.iter().for_each(|p| size[*p as usize] += 1);
    let key = |s: &usize| (u32::MAX - size[part[*s] as usize], sum(*s));
    (0..graph.switches()).min_by_key(key).unwrap_or(0)
}

/// Up*/down* trees for destinations that an engine's own scheme cannot take: any number of them
/// fits one layer.
#[derive(Debug, Clone)]
pub struct Escape {
    heights: Heights,
    levels: Levels,
    builder: TreeBuilder,
    weights: Vec<u64>,
}

impl Escape {
    /// Directions for all cables.
    pub fn new(graph: &Graph) -> Self {
        Self {
            heights: Heights::connecting(graph, &[]),
            levels: Levels::new(graph),
            builder: TreeBuilder::new(graph),
            weights: vec![0; graph.channels()],
        }
    }

    /// Replaces one tree to a switch with terminals, balanced with those replaced before.
    pub fn reroute(&mut self, graph: &Graph, home: usize, tree: &mut [u8]) {
        self.levels.search_up_down(graph, &self.heights, home);
        let load = Load { sources: graph.terminals(), times: 1 };
        self.builder.grow(Join::Freely, &self.levels, load, &mut self.weights, tree);
        attach(graph, tree);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    /// Of a middle switch two of whose eighteen leaves are gone hang less than a twentieth of the hosts.
    #[test]
    fn wide_trees_have_roots_at_the_top_only() {
        for spec in ["kary:20,3,hosts=2", "kary:18,3,hosts=2,faults=60"] {
            let fabric = generate(spec).unwrap();
            let graph = Graph::new(&fabric);
            let roots = histogram_roots(&graph, &Distances::new(&graph));
            let top = graph.switches() / 3 * 2;
            assert!(roots.len() > top / 4 && roots.iter().all(|s| *s >= top), "{spec}: {roots:?}");
        }
    }
}
