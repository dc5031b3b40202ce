//! `updown`: routes go up and then down (thesis section 3.3.4, Schroeder et al. 1991), one layer.
//!
//! Unlike OpenSM's engine of the same idea, which keeps ports reached against its own rule when
//! they are as short, no route turns from down to up: the dependency graph has no cycle.

use super::forest::Forest;
use super::graph::Graph;
use super::trees::Levels;
use super::{Engine, RouteError, sssp};
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
        heights.forest(fabric, &graph).into_flat_tables(fabric, &graph, self.name())
    }
}

/// A direction for every cable: up is towards the smaller height.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heights {
    /// A number per switch, all different.
    pub height: Vec<u32>,
    /// Switches by height, roots first.
    pub by_height: Vec<u32>,
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
        let mut by_height: Vec<u32> = (0..graph.switches() as u32).collect();
        by_height.sort_by_key(|s| rank[*s as usize]);
        let mut height = vec![0; graph.switches()];
        for (position, s) in by_height.iter().enumerate() {
            height[*s as usize] = position as u32;
        }
        Self { height, by_height }
    }

    /// Heights under which every two connected switches have a legal route. With several roots two
    /// switches may have no common one above them; then the first root alone, from which a tree
    /// spans everything, is taken. Without given roots: [`histogram_roots`], or else [`centre`].
    /// O(switches × (switches + channels)).
    pub fn connecting(graph: &Graph, given: &[usize]) -> Self {
        let distances = Distances::new(graph);
        let found = if given.is_empty() { histogram_roots(graph, &distances) } else { given.to_vec() };
        let first = found.first().copied().unwrap_or_else(|| centre(graph, &distances));
        if found.len() > 1 {
            let heights = Self::from_roots(graph, &found);
            if heights.connects(graph, &distances) {
                return heights;
            }
        }
        Self::from_roots(graph, &[first])
    }

    fn connects(&self, graph: &Graph, distances: &Distances) -> bool {
        let mut levels = Levels::new(graph);
        (0..graph.switches()).all(|home| {
            self.search(graph, &mut levels, home);
            levels.order().len() == distances.reached[home]
        })
    }

    /// Balanced legal trees to all destinations. O(terminals × (switches + channels)).
    pub fn forest(&self, fabric: &Fabric, graph: &Graph) -> Forest {
        sssp::balanced_over(fabric, graph, |levels, home| self.search(graph, levels, home))
    }

    /// All shortest legal routes to a switch.
    pub fn search(&self, graph: &Graph, levels: &mut Levels, home: usize) {
        levels.search_up_down(graph, &self.height, &self.by_height, home);
    }
}

/// What one breadth-first search from each switch tells.
#[derive(Debug, Clone)]
pub struct Distances {
    /// Switches in the same part of the fabric, per switch, itself included.
    reached: Vec<usize>,
    /// Terminals by hops from the switch, per switch.
    terminals: Vec<Vec<u64>>,
}

impl Distances {
    /// Searches from every switch. O(switches × (switches + channels)).
    pub fn new(graph: &Graph) -> Self {
        let mut levels = Levels::new(graph);
        let mut found = Self { reached: Vec::new(), terminals: Vec::new() };
        for s in 0..graph.switches() {
            levels.search(graph, s);
            let mut histogram = Vec::new();
            for &other in levels.order() {
                let hops = usize::from(levels.distance()[other as usize]);
                histogram.resize(histogram.len().max(hops + 1), 0);
                histogram[hops] += u64::from(graph.terminals()[other as usize]);
            }
            found.reached.push(levels.order().len());
            found.terminals.push(histogram);
        }
        found
    }
}

/// OpenSM's statistical method: a root sees more than 90 % of the terminals at one distance and
/// more than 5 % at no other.
pub fn histogram_roots(graph: &Graph, distances: &Distances) -> Vec<usize> {
    let total: u64 = graph.terminals().iter().map(|n| u64::from(*n)).sum();
    let is_root = |histogram: &Vec<u64>| {
        let above = |percent| histogram.iter().filter(|n| **n * 100 > total * percent).count();
        above(90) == 1 && above(5) == 1
    };
    (0..graph.switches()).filter(|s| is_root(&distances.terminals[*s])).collect()
}

/// The switch with the least sum of hops to all terminals in the largest part of the fabric; the
/// first of several.
pub fn centre(graph: &Graph, distances: &Distances) -> usize {
    let sum = |s: usize| -> u64 { distances.terminals[s].iter().zip(0..).map(|(n, hops)| n * hops).sum() };
    (0..graph.switches()).min_by_key(|s| (usize::MAX - distances.reached[*s], sum(*s))).unwrap_or(0)
}
