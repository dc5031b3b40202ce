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
    // Per channel: destinations over it so far, and its slot: the least of these is the one to take.
    let mut used: Vec<u64> = (0..graph.channels()).map(|c| u64::from(graph.slot(c))).collect();
    let mut ways = Ways::new(graph);
    let mut choices = Vec::new();
    let mut rows: Vec<usize> = Vec::new();
    for home in 0..n {
        let terminals = fabric.attached(graph.switch_id(home));
        let own = fabric.dest_of_switch(graph.switch_id(home)).index();
        rows.clear();
        rows.extend(terminals.iter().map(|t| t.index() * n));
        let one = u64::from(!terminals.is_empty()) << 8;
        if rows.is_empty() {
            rows.push(own * n);
        }
        let lane = ways.lane_of(home);
        for (s, slots) in ways.slots(lane).chunks_exact(ways.words()).enumerate() {
            choices.clear();
            for (word, mask) in slots.iter().enumerate() {
                bits(*mask).for_each(|bit| choices.push(64 * word + bit));
            }
            let (used, all) = (&mut used[graph.out(s)], &graph.all_ports()[graph.out(s)]);
            if let [first, _, ..] = *choices {
                if eligible == Eligible::Parallel {
                    let to = graph.neighbours(s);
                    choices.retain(|c| to[*c] == to[first]);
                }
            }
            match choices.as_slice() {
                [] => {}
                [only] => {
                    used[*only] += one * rows.len() as u64;
                    rows.iter().for_each(|row| ports[row + s] = all[*only]);
                }
                [first, others @ ..] => {
                    for row in &rows {
                        let least = others.iter().fold(used[*first], |least, c| least.min(used[*c]));
                        let slot = usize::from(least as u8);
                        used[slot] += one;
                        ports[row + s] = all[slot];
                    }
                }
            }
        }
        if ways.order(lane).len() < n {
            let far = (0..n).filter(|s| ways.hops(lane)[*s] == Ways::FAR);
            let all = || rows.iter().copied().chain([own * n]);
            far.for_each(|s| all().for_each(|row| layers[row + s] = Tables::NO_LAYER));
        }
        ports.copy_within(rows[0]..rows[0] + n, own * n);
        for row in rows.iter().copied().chain([own * n]) {
            ports[row + home] = fabric.last_port(DestId::at(row / n)).get();
        }
    }
    Ok(Tables::new(fabric, engine, ports, layers)?)
}
