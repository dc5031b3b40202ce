//! `minhop`: shortest paths, balanced switch by switch (thesis section 3.3.1). May deadlock.

use super::graph::Graph;
use super::ways::{Ways, bits};
use super::{Engine, RouteError};
use crate::model::{Demand, DestId, Fabric, LayerBudget, Tables};

/// Each switch forwards through its least used channel among those on a shortest path. Ignores
/// demand and budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct MinHop;

impl Engine for MinHop {
    fn name(&self) -> &'static str {
        "minhop"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, _budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        locally_balanced(fabric, &graph, self.name(), |_, _| true)
    }
}

/// Tables of shortest paths in which each switch takes the least used of its eligible channels, the
/// first of several. `eligible(first, other)` tells whether channel `other` may be taken although
/// `first`, the one with the lowest port, is on a shortest path too.
///
/// A switch's choice depends on its own earlier choices alone: so the tables are written at once,
/// for all terminals of a home. O(destinations × switches + ways of [`Ways`]).
pub fn locally_balanced(
    fabric: &Fabric,
    graph: &Graph,
    engine: &str,
    eligible: impl Fn(usize, usize) -> bool,
) -> Result<Tables, RouteError> {
    let n = graph.switches();
    let mut ports = vec![Tables::UNREACHABLE; fabric.dest_count() * n];
    let mut layers = Vec::with_capacity(ports.len());
    let starts: Vec<u8> =
        graph.terminals().iter().map(|t| if *t > 0 { 0 } else { Tables::NO_LAYER }).collect();
    (0..fabric.dest_count()).for_each(|_| layers.extend_from_slice(&starts));
    let (mut ways, mut used) = (Ways::new(graph), vec![0u32; graph.channels()]);
    let mut choices = Vec::new();
    let mut rows: Vec<usize> = Vec::new();
    for home in 0..n {
        let terminals = fabric.attached(graph.switch_id(home));
        let own = fabric.dest_of_switch(graph.switch_id(home)).index();
        rows.clear();
        rows.extend(terminals.iter().map(|t| t.index()));
        if rows.is_empty() {
            rows.push(own);
        }
        let lane = ways.lane_of(home);
        let slots = ways.slots(lane);
        for (s, slots) in slots.chunks_exact(ways.words()).enumerate() {
            let out = graph.out(s).start;
            choices.clear();
            for (word, mask) in slots.iter().enumerate() {
                bits(*mask).for_each(|bit| choices.push(out + 64 * word + bit));
            }
            if choices.len() > 1 {
                let first = choices[0];
                choices.retain(|c| eligible(first, *c));
            }
            match choices.as_slice() {
                [] => {}
                [only] => {
                    used[*only] += terminals.len() as u32;
                    rows.iter().for_each(|row| ports[row * n + s] = graph.port(*only));
                }
                [first, others @ ..] => {
                    for row in &rows {
                        let least = |best, c: &usize| if used[*c] < used[best] { *c } else { best };
                        let chosen = others.iter().fold(*first, least);
                        used[chosen] += u32::from(!terminals.is_empty());
                        ports[row * n + s] = graph.port(chosen);
                    }
                }
            }
        }
        if ways.order(lane).len() < n {
            let far = (0..n).filter(|s| ways.hops(lane)[*s] == Ways::FAR);
            far.for_each(|s| rows.iter().chain([&own]).for_each(|r| layers[r * n + s] = Tables::NO_LAYER));
        }
        ports.copy_within(rows[0] * n..(rows[0] + 1) * n, own * n);
        for row in rows.iter().copied().chain([own]) {
            ports[row * n + home] = fabric.last_port(DestId::at(row)).get();
        }
    }
    Ok(Tables::new(fabric, engine, ports, layers)?)
}
