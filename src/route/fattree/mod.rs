//! `fattree`: routes for shift patterns on k-ary n-trees and what resembles them (thesis section
//! 3.3.5, Algorithms 3.2–3.4, Zahavi et al. 2010): port counters spread destinations over the ways
//! up and down.
//!
//! The levels are found from the cabling: leaves are the switches with terminals, or roots are
//! those a histogram of hops shows. Every cable must join neighbouring levels; how many cables a
//! switch has upwards, and to whom, does not matter. Where faults cut leaves off from below the root that
//! the algorithm chose, they go the least loaded other way up and down (`detours`). Where they leave two leaves without a
//! common switch above them, the destination's whole tree goes up*/down* on a second layer.

mod detours;

use self::detours::Detours;
use super::dfsssp::within;
use super::forest::{Forest, attach, complete_switches, terminals_by_switch};
use super::graph::Graph;
use super::tree_levels::TreeLevels;
use super::trees::Descent;
use super::updown::{Directions, Escape};
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, SwitchId, Tables};

/// Algorithms 3.2–3.4. Ignores the demand.
#[derive(Debug, Clone, Copy, Default)]
pub struct FatTree;

impl Engine for FatTree {
    fn name(&self) -> &'static str {
        "fattree"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let tree = TreeLevels::find(&graph).map_err(|within| {
            let cable = within.map_or(String::new(), |c| fabric.channel_name(graph.id(c)).to_string());
            let reason = format!("it is not a tree of levels: {cable} joins two switches of one level");
            RouteError::NotApplicable { engine: self.name(), reason }
        })?;
        let n = graph.switches();
        let mut forest = Forest::new(fabric);
        let mut climber = Climber::new(&graph, &tree);
        let mut is_whole = true;
        for (home, terminals) in terminals_by_switch(fabric) {
            for t in terminals {
                is_whole &= climber.route(home.index(), forest.tree_mut(t.index()), 1);
            }
        }
        if !is_whole {
            Detours::new(&mut climber).lead_all(fabric, &mut forest);
        }
        complete_switches(fabric, &mut forest, |s, tree| {
            climber.route(s, tree, 0);
        });
        let mut layers = vec![0; fabric.dest_count() * n];
        let used = escape(fabric, &graph, &mut forest, &mut layers);
        within(self.name(), budget, used)?;
        forest.into_tables(fabric, &graph, self.name(), layers)
    }
}

/// The switches of the highest level, ascending; none where [`FatTree`] finds no levels.
pub fn roots(fabric: &Fabric) -> Vec<SwitchId> {
    let graph = Graph::new(fabric);
    let Ok(tree) = TreeLevels::find(&graph) else { return Vec::new() };
    let roots = (0..graph.switches()).filter(|s| tree.level[*s] == tree.top());
    roots.map(|s| graph.switch_id(s)).collect()
}

/// Port counters and buffers of the algorithm.
struct Climber<'a> {
    graph: &'a Graph,
    tree: &'a TreeLevels,
    directions: Directions,
    /// Destinations per channel so far.
    used: Vec<u32>,
    /// The next channel between the same two switches, per channel; the last leads to the first.
    parallel: Vec<u32>,
    stack: Vec<u32>,
    /// The home switch of the last destination.
    home: usize,
    /// Whether a switch can reach it by going down only.
    above: Vec<bool>,
    /// Switches above it, lower levels first.
    climbed: Vec<u32>,
}

impl<'a> Climber<'a> {
    fn new(graph: &'a Graph, tree: &'a TreeLevels) -> Self {
        Self {
            graph,
            tree,
            directions: Directions::new(graph, |from, to| tree.level[to] > tree.level[from]),
            used: vec![0; graph.channels()],
            parallel: parallel(graph),
            stack: Vec::new(),
            home: usize::MAX,
            above: vec![false; graph.switches()],
            climbed: Vec::new(),
        }
    }

    /// Routes to one destination; `count` 0 leaves the counters alone. False where that leaves switches with
    /// terminals without a way, which wait for [`Detours`]. O(switches + channels).
    fn route(&mut self, home: usize, slots: &mut [u8], count: u32) -> bool {
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
        let terminals = self.graph.terminals();
        let is_whole = slots.iter().zip(terminals).all(|(slot, n)| *n == 0 || *slot != Forest::NONE);
        if is_whole || count == 0 {
            self.complete(slots);
        }
        is_whole
    }

    /// All switches from which the home switch can be reached by going down only.
    fn mark_above(&mut self, home: usize) {
        if self.home == home {
            return;
        }
        self.home = home;
        self.above.fill(false);
        self.above[home] = true;
        self.climbed.clear();
        self.climbed.push(home as u32);
        let mut next = 0;
        while let Some(&s) = self.climbed.get(next) {
            next += 1;
            for up in self.directions.ups(s as usize) {
                if !std::mem::replace(&mut self.above[up.to as usize], true) {
                    self.climbed.push(up.to);
                }
            }
        }
    }

    /// The least used channel that comes down into a switch, the first of several.
    fn least_used_from_above(&self, s: usize) -> Option<usize> {
        let down = |up: &Descent| self.graph.reverse(up.channel as usize);
        self.directions.ups(s).iter().map(down).min_by_key(|c| self.used[*c])
    }

    /// The least used of the channels between the same two switches, the lowest of several.
    fn least_used_parallel(&self, channel: usize) -> usize {
        if self.parallel[channel] as usize == channel {
            return channel;
        }
        let next = |c: &usize| Some(self.parallel[*c] as usize).filter(|c| *c != channel);
        let all = std::iter::successors(Some(channel), next);
        all.min_by_key(|c| (self.used[*c], *c)).unwrap_or(channel)
    }

    /// Algorithm 3.4: everything below a switch that has no way yet goes up through it.
    fn descend(&mut self, top: usize, slots: &mut [u8], count: u32) {
        self.stack.push(top as u32);
        while let Some(s) = self.stack.pop() {
            for down in self.directions.downs(s as usize) {
                let below = down.to as usize;
                if slots[below] != Forest::NONE || self.above[below] {
                    continue;
                }
                let up = self.least_used_parallel(self.graph.reverse(down.channel as usize));
                slots[below] = self.graph.slot_at(below, up);
                self.used[up] += count;
                self.stack.push(down.to);
            }
        }
    }

    /// Switches beside the way: down where that is possible (lower levels first), else up to one
    /// that has a way (higher levels first). They carry little, so they do not count.
    fn complete(&self, slots: &mut [u8]) {
        let choose =
            |slots: &mut [u8], s: usize, ways: &[Descent], may: fn(&[bool], &[u8], usize) -> bool| {
                let (mut least, mut chosen) = (u32::MAX, None);
                for way in ways {
                    let used = self.used[way.channel as usize];
                    if used < least && may(&self.above, slots, way.to as usize) {
                        (least, chosen) = (used, Some(way.channel as usize));
                    }
                }
                if let Some(c) = chosen {
                    slots[s] = self.graph.slot_at(s, c);
                }
            };
        for &s in &self.climbed {
            let s = s as usize;
            if slots[s] == Forest::NONE {
                choose(slots, s, self.directions.downs(s), |above, _, to| above[to]);
            }
        }
        for &s in &self.tree.top_down {
            let s = s as usize;
            if slots[s] == Forest::NONE {
                choose(slots, s, self.directions.ups(s), |_, slots, to| slots[to] != Forest::NONE);
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
