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
        locally_balanced(fabric, &graph, self.name(), Eligible::All)
    }
}

/// Which channels on shortest paths a switch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligible {
    /// Any.
    All,
    /// The one with the lowest port, and those that lead to the same switch.
    Parallel,
}

/// Tables of shortest paths in which each switch takes the least used of its eligible channels, the
/// first of several.
///
/// A switch's choice depends on its own earlier choices alone: so the tables are written at once,
/// for all terminals of a home. O(destinations × switches + ways of [`Ways`]).
pub fn locally_balanced(
    fabric: &Fabric,
    graph: &Graph,
    engine: &str,
    eligible: Eligible,
) -> Result<Tables, RouteError> {
    let n = graph.switches();
    let mut ports = vec![Tables::UNREACHABLE; fabric.dest_count() * n];
    let mut layers = Vec::with_capacity(ports.len());
    let starts: Vec<u8> =
        graph.terminals().iter().map(|t| if *t > 0 { 0 } else { Tables::NO_LAYER }).collect();
    (0..fabric.dest_count()).for_each(|_| layers.extend_from_slice(&starts));
    let (mut ways, mut used) = (Ways::new(graph), vec![0u32; graph.channels()]);
    let mut choices = Vec::new();
    // Destinations over a channel so far, and the channel: the least of these is the one to take.
    let mut keys: Vec<u64> = Vec::new();
    let mut rows: Vec<usize> = Vec::new();
    for home in 0..n {
        let terminals = fabric.attached(graph.switch_id(home));
        let own = fabric.dest_of_switch(graph.switch_id(home)).index();
        rows.clear();
        rows.extend(terminals.iter().map(|t| t.index()));
        if rows.is_empty() {
            rows.push(own);
        }
        let one = u64::from(!terminals.is_empty()) << 32;
        let lane = ways.lane_of(home);
        let slots = ways.slots(lane);
        for (s, slots) in slots.chunks_exact(ways.words()).enumerate() {
            let out = graph.out(s).start;
            choices.clear();
            for (word, mask) in slots.iter().enumerate() {
                bits(*mask).for_each(|bit| choices.push(out + 64 * word + bit));
            }
            if let [first, _, ..] = *choices {
                if eligible == Eligible::Parallel {
                    choices.retain(|c| graph.to(*c) == graph.to(first));
                }
            }
            match choices.as_slice() {
                [] => {}
                [only] => {
                    used[*only] += terminals.len() as u32;
                    rows.iter().for_each(|row| ports[row * n + s] = graph.port(*only));
                }
                several => {
                    keys.clear();
                    keys.extend(several.iter().map(|c| u64::from(used[*c]) << 32 | *c as u64));
                    for row in &rows {
                        let least = keys.iter().copied().enumerate().min_by_key(|(_, key)| *key);
                        let Some((at, key)) = least else { break };
                        keys[at] = key + one;
                        ports[row * n + s] = graph.port(key as u32 as usize);
                    }
                    keys.iter().for_each(|key| used[*key as u32 as usize] = (key >> 32) as u32);
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
