//! `torus`: dimension order with datelines for tori and meshes of any number of dimensions (the
//! idea of Torus-2QoS, thesis section 3.3.7), with any number of faults.
//!
//! In a ring, routes through switch 0 and routes through no more than the others are kept on
//! different layers: each layer's ring is open at one switch, 0 or the opposite one, so that no
//! dependency cycle closes. A minimal route passes at most one of the two. Rings of up to four
//! switches need no second layer: there is always a minimal way around switch 0. With `m` longer
//! rings the regular scheme takes 2^m layers; where the budget is smaller, the shorter rings stay
//! open at switch 0 and some of their routes take the longer way.
//!
//! What cannot be routed in dimension order because of a fault takes the shortest way to a switch
//! that can, on the first layer where that closes no cycle. A destination for which no layer is
//! left is routed up*/down* as a whole on an escape layer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cdg::Dependencies;
use super::forest::{Forest, complete_switches};
use super::graph::Graph;
use super::grid::Grid;
use super::layer_stack::LayerStack;
use super::updown::{Escape, Heights};
use super::{Engine, RouteError};
use crate::model::{Demand, DestId, Fabric, LayerBudget, Shape, Tables};

/// Dimension order with datelines and escapes. Ignores the demand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Torus;

impl Engine for Torus {
    fn name(&self) -> &'static str {
        "torus"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let Some(grid) = Grid::of(fabric, &graph) else {
            let mut reason = "it is not known to be a torus or mesh".to_string();
            if let Shape::Irregular(why) = fabric.shape() {
                reason = format!("it is no torus or mesh: {why}");
            }
            return Err(RouteError::NotApplicable { engine: self.name(), reason });
        };
        let deps = Dependencies::new(&graph);
        let budget = usize::from(budget.get());
        let tables =
            |(forest, layers): (Forest, Vec<u8>)| forest.into_tables(fabric, &graph, "torus", layers);
        let whole = Regular::new(&grid, budget).route(fabric, &graph, &deps, budget, false);
        if let Some(found) = whole {
            return tables(found);
        }
        if budget == 1 {
            let heights = Heights::connecting(&graph, &[]);
            return heights.tables(fabric, &graph, self.name());
        }
        let escaped = Regular::new(&grid, budget - 1).route(fabric, &graph, &deps, budget - 1, true);
        tables(escaped.unwrap_or_else(|| unreachable!("an escape layer takes every destination")))
    }
}

/// The regular scheme.
struct Regular<'a> {
    grid: &'a Grid,
    /// Per dimension: the layer bit of routes through switch 0, or 0 if there are none.
    bit: Vec<u8>,
}

impl<'a> Regular<'a> {
    /// Gives the longest rings two layers each, as far as the limit allows.
    fn new(grid: &'a Grid, limit: usize) -> Self {
        let mut rings: Vec<usize> =
            (0..grid.sizes.len()).filter(|i| grid.wrap[*i] && grid.sizes[*i] > 4).collect();
        rings.sort_by_key(|i| Reverse(grid.sizes[*i]));
        let mut bit = vec![0; grid.sizes.len()];
        for (m, i) in rings.into_iter().enumerate().take_while(|(m, _)| 2usize << m <= limit) {
            bit[i] = 1 << m;
        }
        Self { grid, bit }
    }

    /// Whether to go up along a dimension from `a` to `b`, and whether that passes switch 0.
    /// `tie` decides between two ways of equal length.
    fn direction(&self, dimension: usize, a: u16, b: u16, tie: bool) -> (bool, bool) {
        if !self.grid.wrap[dimension] {
            return (b > a, false);
        }
        let n = self.grid.sizes[dimension];
        let upward = if b >= a { b - a } else { b + n - a };
        let passes = |up: bool| if up { b < a && b != 0 } else { b > a && a != 0 };
        let up = if 2 * upward == n { tie } else { 2 * upward < n };
        if passes(up) && self.bit[dimension] == 0 {
            return (!up, false);
        }
        (up, passes(up))
    }

    /// Dimension order to one destination: fills the slots of switches whose way is whole.
    fn tree(&self, graph: &Graph, home: usize, dest: usize, state: &mut State, tree: &mut [u8]) {
        let to = self.grid.at(home);
        for (s, slot) in tree.iter_mut().enumerate() {
            let from = self.grid.at(s);
            let differing = (0..to.len()).find(|i| from[*i] != to[*i]);
            *slot = differing.map_or(Forest::HOME, |i| {
                let tie = (usize::from(from[i]) + dest) % 2 == 0;
                let ways = self.grid.ways(s, i, self.direction(i, from[i], to[i], tie).0);
                if ways.is_empty() { Forest::NONE } else { graph.slot(ways[dest % ways.len()] as usize) }
            });
        }
        state.cut_broken(graph, home, tree);
    }

    /// The regular layer of a route.
    fn layer(&self, source: usize, home: usize, dest: usize) -> u8 {
        let (from, to) = (self.grid.at(source), self.grid.at(home));
        let bit = |i: usize| {
            let tie = (usize::from(from[i]) + dest) % 2 == 0;
            if self.bit[i] > 0 && self.direction(i, from[i], to[i], tie).1 { self.bit[i] } else { 0 }
        };
        (0..to.len()).map(bit).sum()
    }

    /// All routes and their layers; `None` if some route needs more than `limit` layers and no
    /// escape layer (number `limit` at most) may be added.
    fn route(
        &self,
        fabric: &Fabric,
        graph: &Graph,
        deps: &Dependencies,
        limit: usize,
        may_escape: bool,
    ) -> Option<(Forest, Vec<u8>)> {
        let n = graph.switches();
        let mut forest = Forest::new(fabric);
        let mut state = State::new(n);
        let mut layers = vec![Tables::NO_LAYER; fabric.dest_count() * n];
        let mut broken = Vec::new();
        let mut make = |dest: usize, home: usize, tree: &mut [u8]| {
            self.tree(graph, home, dest, &mut state, tree);
            let row = &mut layers[dest * n..(dest + 1) * n];
            for s in (0..n).filter(|s| graph.terminals()[*s] > 0 && tree[*s] < Forest::NONE) {
                row[s] = self.layer(s, home, dest);
            }
            if !state.bad.is_empty() {
                state.extend(graph, tree);
                broken.push(dest);
            }
        };
        for t in fabric.terminal_ids() {
            make(t.index(), fabric.terminal(t).switch.index(), forest.tree_mut(t.index()));
        }
        complete_switches(fabric, &mut forest, |s, tree| {
            make(fabric.terminals().len() + s, s, tree);
        });
        let used = compact(&mut layers);
        if !broken.is_empty() {
            let mut escaped = Vec::new();
            let mut escape = None;
            let mut stack = LayerStack::of_routes(graph, deps, &forest, &layers, used);
            for dest in broken {
                let row = &mut layers[dest * n..(dest + 1) * n];
                let fits = fit(graph, &mut stack, forest.tree(dest), row, limit);
                if fits || fabric.dest_terminal(DestId::at(dest)).is_none() {
                    continue;
                }
                if !may_escape {
                    return None;
                }
                let escape = escape.get_or_insert_with(|| Escape::new(graph));
                escape.reroute(graph, fabric.home(DestId::at(dest)).index(), forest.tree_mut(dest));
                escaped.push(dest);
            }
            for dest in escaped {
                layers[dest * n..(dest + 1) * n].fill(stack.used() as u8);
            }
        }
        share(fabric, &mut forest, &mut layers);
        Some((forest, layers))
    }
}

/// Gives switches with terminals the routes and layers of their first terminal.
fn share(fabric: &Fabric, forest: &mut Forest, layers: &mut [u8]) {
    let n = forest.switches();
    for s in fabric.switch_ids() {
        if let Some(t) = fabric.attached(s).first() {
            let dest = fabric.dest_of_switch(s).index();
            forest.copy(t.index(), dest);
            layers.copy_within(t.index() * n..(t.index() + 1) * n, dest * n);
        }
    }
}

/// Puts the routes of a tree that have no layer yet on the first layer that takes them; whether
/// all found one.
fn fit(graph: &Graph, stack: &mut LayerStack<'_>, tree: &[u8], row: &mut [u8], limit: usize) -> bool {
    let mut all = true;
    for s in 0..tree.len() {
        if graph.terminals()[s] > 0 && tree[s] < Forest::HOME && row[s] == Tables::NO_LAYER {
            row[s] = stack.place_within(tree, s, limit);
            all &= row[s] != Tables::NO_LAYER;
        }
    }
    all
}

/// Renumbers layers without gaps; returns how many there are.
fn compact(layers: &mut [u8]) -> usize {
    let mut number = [Tables::NO_LAYER; 256];
    for l in layers.iter() {
        number[usize::from(*l)] = 0;
    }
    number[usize::from(Tables::NO_LAYER)] = Tables::NO_LAYER;
    let mut used = 0;
    for n in number.iter_mut().filter(|n| **n == 0) {
        *n = used;
        used += 1;
    }
    layers.iter_mut().for_each(|l| *l = number[usize::from(*l)]);
    usize::from(used).max(1)
}

/// Buffers for one tree.
struct State {
    /// Hops along the tree; [`State::BAD`] for broken ways, [`State::UNKNOWN`] before the walk.
    hops: Vec<u32>,
    /// Switches whose way in dimension order is broken.
    bad: Vec<u32>,
    path: Vec<u32>,
    queue: BinaryHeap<Reverse<(u32, u32)>>,
}

impl State {
    const UNKNOWN: u32 = u32::MAX;
    const BAD: u32 = u32::MAX - 1;

    fn new(switches: usize) -> Self {
        let hops = vec![Self::UNKNOWN; switches];
        Self { hops, bad: Vec::new(), path: Vec::new(), queue: BinaryHeap::new() }
    }

    /// Removes the slots of switches from which the tree does not lead home. O(switches).
    fn cut_broken(&mut self, graph: &Graph, home: usize, tree: &mut [u8]) {
        self.hops.fill(Self::UNKNOWN);
        self.bad.clear();
        self.hops[home] = 0;
        for s in 0..tree.len() {
            let mut at = s;
            while self.hops[at] == Self::UNKNOWN {
                self.path.push(at as u32);
                match Forest::step(graph, tree, at) {
                    Some(next) => at = next,
                    None => self.hops[at] = Self::BAD,
                }
            }
            let mut hops = self.hops[at];
            while let Some(s) = self.path.pop() {
                let s = s as usize;
                if hops == Self::BAD {
                    tree[s] = Forest::NONE;
                    self.bad.push(s as u32);
                } else {
                    hops += 1;
                }
                self.hops[s] = hops;
            }
        }
    }

    /// Leads broken switches the shortest way to whole ones, lower ports first.
    /// O(broken × ports × log broken).
    fn extend(&mut self, graph: &Graph, tree: &mut [u8]) {
        for &s in &self.bad {
            let near = graph.out(s as usize).map(|c| self.hops[graph.to(c)]).min().unwrap_or(Self::BAD);
            if near < Self::BAD {
                self.queue.push(Reverse((near + 1, s)));
            }
        }
        while let Some(Reverse((hops, s))) = self.queue.pop() {
            let s = s as usize;
            if self.hops[s] != Self::BAD {
                continue;
            }
            let nearest = graph.out(s).find(|c| self.hops[graph.to(*c)] + 1 == hops);
            let Some(channel) = nearest else { continue };
            tree[s] = graph.slot(channel);
            self.hops[s] = hops;
            for c in graph.out(s) {
                if self.hops[graph.to(c)] == Self::BAD {
                    self.queue.push(Reverse((hops + 1, graph.to(c) as u32)));
                }
            }
        }
    }
}
