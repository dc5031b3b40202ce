//! `fattree`: routes for shift patterns on k-ary n-trees and what resembles them (thesis section
//! 3.3.5, Algorithms 3.2–3.4, Zahavi et al. 2010): port counters spread destinations over the ways
//! up and down.
//!
//! The levels are found from the cabling: leaves are the switches with terminals, or roots are
//! those a histogram of hops shows. Every cable must join neighbouring levels; how many cables a
//! switch has upwards, and to whom, does not matter. Where faults leave two leaves without a common
//! switch above them, the destination's whole tree goes up*/down* on a second layer.

use super::dfsssp::within;
use super::forest::{Forest, attach, complete_switches, terminals_by_switch};
use super::graph::Graph;
use super::updown::{Distances, Escape, Heights, histogram_roots};
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, Tables};

/// Algorithms 3.2–3.4. Ignores the demand.
#[derive(Debug, Clone, Copy, Default)]
pub struct FatTree;

impl Engine for FatTree {
    fn name(&self) -> &'static str {
        "fattree"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let tree = TreeLevels::find(fabric, &graph)
            .map_err(|reason| RouteError::NotApplicable { engine: self.name(), reason })?;
        let n = graph.switches();
        let mut forest = Forest::new(fabric);
        let mut climber = Climber::new(&graph, &tree);
        for (home, terminals) in terminals_by_switch(fabric) {
            for t in terminals {
                climber.route(home.index(), forest.tree_mut(t.index()), 1);
            }
        }
        complete_switches(fabric, &mut forest, |s, tree| climber.route(s, tree, 0));
        let mut layers = vec![0; fabric.dest_count() * n];
        let used = escape(fabric, &graph, &mut forest, &mut layers);
        within(self.name(), budget, used)?;
        forest.into_tables(fabric, &graph, self.name(), layers)
    }
}

/// The level of each switch: 0 for leaves, growing towards the roots.
struct TreeLevels {
    level: Vec<u32>,
    /// Switches, highest level first.
    top_down: Vec<u32>,
}

impl TreeLevels {
    /// From the leaves, or else from the roots. The error names a cable within one level.
    fn find(fabric: &Fabric, graph: &Graph) -> Result<Self, String> {
        let leaves: Vec<usize> = (0..graph.switches()).filter(|s| graph.terminals()[*s] > 0).collect();
        let from_leaves = hops_from(graph, &leaves);
        let Some(within) = inside_level(graph, &from_leaves) else { return Ok(Self::new(from_leaves)) };
        let roots = histogram_roots(graph, &Distances::new(graph));
        let depth = hops_from(graph, &roots);
        if !roots.is_empty() && inside_level(graph, &depth).is_none() {
            let deepest = depth.iter().max().copied().unwrap_or(0);
            return Ok(Self::new(depth.iter().map(|d| deepest - d).collect()));
        }
        let cable = fabric.channel_name(graph.id(within));
        Err(format!("it is not a tree of levels: {cable} joins two switches of one level"))
    }

    fn new(level: Vec<u32>) -> Self {
        let mut top_down: Vec<u32> = (0..level.len() as u32).collect();
        top_down.sort_by_key(|s| std::cmp::Reverse(level[*s as usize]));
        Self { level, top_down }
    }
}

/// Hops from the nearest of some switches; parts without any count from their own first switch.
fn hops_from(graph: &Graph, starts: &[usize]) -> Vec<u32> {
    let heights = Heights::from_roots(graph, starts);
    let mut hops = vec![u32::MAX; graph.switches()];
    starts.iter().for_each(|s| hops[*s] = 0);
    // By height, each switch comes after the nearer neighbour it was found from.
    for &s in &heights.by_height {
        let nearest = graph.out(s as usize).map(|c| hops[graph.to(c)]).min().unwrap_or(u32::MAX);
        let own = &mut hops[s as usize];
        *own = (*own).min(if nearest == u32::MAX { 0 } else { nearest + 1 });
    }
    hops
}

/// A channel between two switches that are not on neighbouring levels.
fn inside_level(graph: &Graph, level: &[u32]) -> Option<usize> {
    (0..graph.channels()).find(|c| level[graph.from(*c)].abs_diff(level[graph.to(*c)]) != 1)
}

/// Port counters and buffers of the algorithm.
struct Climber<'a> {
    graph: &'a Graph,
    tree: &'a TreeLevels,
    /// Destinations per channel so far.
    used: Vec<u32>,
    /// The next channel between the same two switches, per channel; the last leads to the first.
    parallel: Vec<u32>,
    stack: Vec<u32>,
    /// Whether a switch can reach the destination by going down only.
    above: Vec<bool>,
}

impl<'a> Climber<'a> {
    fn new(graph: &'a Graph, tree: &'a TreeLevels) -> Self {
        let (used, above) = (vec![0; graph.channels()], vec![false; graph.switches()]);
        Self { graph, tree, used, parallel: parallel(graph), stack: Vec::new(), above }
    }

    /// Routes to one destination; `count` 0 leaves the counters alone. O(switches + channels).
    fn route(&mut self, home: usize, slots: &mut [u8], count: u32) {
        slots.fill(Forest::NONE);
        slots[home] = Forest::HOME;
        self.mark_above(home);
        // Algorithm 3.3: one step up at a time, descending at each.
        let mut at = home;
        loop {
            self.descend(at, slots, count);
            let Some(down) = self.least_used_from_above(at) else { break };
            at = self.graph.from(down);
            slots[at] = self.graph.slot(down);
            self.used[down] += count;
        }
        self.complete(slots);
    }

    fn is_up(&self, channel: usize) -> bool {
        self.tree.level[self.graph.to(channel)] > self.tree.level[self.graph.from(channel)]
    }

    /// All switches from which the home switch can be reached by going down only.
    fn mark_above(&mut self, home: usize) {
        self.above.fill(false);
        self.above[home] = true;
        self.stack.push(home as u32);
        while let Some(s) = self.stack.pop() {
            for up in self.graph.out(s as usize) {
                let to = self.graph.to(up);
                if self.is_up(up) && !self.above[to] {
                    self.above[to] = true;
                    self.stack.push(to as u32);
                }
            }
        }
    }

    /// The least used channel that comes down into a switch, the first of several.
    fn least_used_from_above(&self, s: usize) -> Option<usize> {
        let up = self.graph.out(s).filter(|c| self.is_up(*c));
        up.map(|c| self.graph.reverse(c)).min_by_key(|c| self.used[*c])
    }

    /// The least used of the channels between the same two switches, the lowest of several.
    fn least_used_parallel(&self, channel: usize) -> usize {
        let next = |c: &usize| Some(self.parallel[*c] as usize).filter(|c| *c != channel);
        let all = std::iter::successors(Some(channel), next);
        all.min_by_key(|c| (self.used[*c], *c)).unwrap_or(channel)
    }

    /// Algorithm 3.4: everything below a switch that has no way yet goes up through it.
    fn descend(&mut self, top: usize, slots: &mut [u8], count: u32) {
        self.stack.push(top as u32);
        while let Some(s) = self.stack.pop() {
            let s = s as usize;
            for down in self.graph.out(s) {
                let below = self.graph.to(down);
                if self.is_up(down) || slots[below] != Forest::NONE || self.above[below] {
                    continue;
                }
                let up = self.least_used_parallel(self.graph.reverse(down));
                slots[below] = self.graph.slot(up);
                self.used[up] += count;
                self.stack.push(below as u32);
            }
        }
    }

    /// Switches beside the way: down where that is possible (lower levels first), else up to one
    /// that has a way (higher levels first). They carry little, so they do not count.
    fn complete(&self, slots: &mut [u8]) {
        for &s in self.tree.top_down.iter().rev() {
            let s = s as usize;
            if self.above[s] && slots[s] == Forest::NONE {
                let down = self.graph.out(s).filter(|c| !self.is_up(*c) && self.above[self.graph.to(*c)]);
                if let Some(c) = down.min_by_key(|c| self.used[*c]) {
                    slots[s] = self.graph.slot(c);
                }
            }
        }
        for &s in &self.tree.top_down {
            let s = s as usize;
            if slots[s] == Forest::NONE {
                let up =
                    self.graph.out(s).filter(|c| self.is_up(*c) && slots[self.graph.to(*c)] != Forest::NONE);
                if let Some(c) = up.min_by_key(|c| self.used[*c]) {
                    slots[s] = self.graph.slot(c);
                }
            }
        }
    }
}

/// Rings of parallel channels: `[channel]` is the next one between the same two switches.
fn parallel(graph: &Graph) -> Vec<u32> {
    let mut next: Vec<u32> = (0..graph.channels() as u32).collect();
    for s in 0..graph.switches() {
        let mut out: Vec<usize> = graph.out(s).collect();
        out.sort_by_key(|c| graph.to(*c));
        for same in out.chunk_by(|a, b| graph.to(*a) == graph.to(*b)) {
            for (c, after) in same.iter().zip(same.iter().cycle().skip(1)) {
                next[*c] = *after as u32;
            }
        }
    }
    next
}

/// Routes terminals that some switch with terminals does not reach by up*/down* on layer 1, gives
/// other switches ways to where nothing starts, and returns the number of layers in use.
fn escape(fabric: &Fabric, graph: &Graph, forest: &mut Forest, layers: &mut [u8]) -> usize {
    let n = graph.switches();
    let mut escape = None;
    for d in fabric.dest_ids() {
        let (tree, home) = (forest.tree_mut(d.index()), fabric.home(d).index());
        let layers = &mut layers[d.index() * n..(d.index() + 1) * n];
        let illegal = attach(graph, tree);
        if illegal.is_empty() {
            continue;
        }
        if graph.terminals()[home] > 0 {
            escape.get_or_insert_with(|| Escape::new(graph)).reroute(graph, home, tree);
            layers.fill(1);
        } else {
            illegal.into_iter().for_each(|s| layers[s] = Tables::NO_LAYER);
        }
    }
    if escape.is_some() { 2 } else { 1 }
}
