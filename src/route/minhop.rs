//! `minhop`: shortest paths, balanced switch by switch (thesis section 3.3.1). May deadlock.

use std::ops::Range;

use rayon::prelude::*;

use super::forest::first_layers;
use super::graph::Graph;
use super::ways::{Ways, bits};
use super::{Engine, RouteError, is_worth_threads};
use crate::model::{Demand, DestId, Fabric, LayerBudget, SwitchId, Tables};

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
/// for all terminals of 64 homes, and switches share the threads. O(destinations × switches + ways
/// of [`Ways`]).
pub fn locally_balanced(
    fabric: &Fabric,
    graph: &Graph,
    engine: &str,
    eligible: Eligible,
) -> Result<Tables, RouteError> {
    let n = graph.switches();
    let mut ports = vec![Tables::UNREACHABLE; fabric.dest_count() * n];
    let mut layers = Vec::with_capacity(ports.len());
    let first = first_layers(graph);
    (0..fabric.dest_count()).for_each(|_| layers.extend_from_slice(&first));
    let threads = if is_worth_threads(ports.len()) { rayon::current_num_threads() } else { 1 };
    // Switches differ in what there is to choose: several blocks per thread even that out.
    let size = if threads > 1 { n.div_ceil(8 * threads) } else { n };
    let parts = (0..n).step_by(size.max(1)).map(|first| first..n.min(first + size));
    let mut blocks: Vec<Block> = parts.map(|part| Block::new(graph, eligible, part)).collect();
    let mut ways: Vec<Ways> = (0..threads).map(|_| Ways::new(graph)).collect();
    let batches: Vec<usize> = (0..n).step_by(Ways::LANES).collect();
    for batches in batches.chunks(threads) {
        match ways.as_mut_slice() {
            [ways] => _ = ways.lane_of(batches[0]),
            several => several.par_iter_mut().zip(batches).for_each(|(ways, first)| _ = ways.lane_of(*first)),
        }
        for (ways, first) in ways.iter().zip(batches) {
            let homes = Homes::new(fabric, graph, *first..n.min(first + Ways::LANES));
            choose(&mut blocks, ways, &homes, &mut ports);
            homes.finish(fabric, ways, &mut ports, &mut layers);
        }
    }
    Ok(Tables::new(fabric, engine, ports, layers)?)
}

/// Writes the rows of some homes, block by block.
fn choose(blocks: &mut [Block<'_>], ways: &Ways<'_>, homes: &Homes, ports: &mut [u8]) {
    let n = ways.switches();
    match blocks {
        [all] => all.choose(ways, homes, &homes.row_starts(n), ports),
        several => {
            several.par_iter_mut().for_each(|block| block.choose_apart(ways, homes));
            for (nth, row) in homes.rows.iter().enumerate() {
                let row = &mut ports[row * n..(row + 1) * n];
                several.iter().for_each(|block| block.copy_row(nth, row));
            }
        }
    }
}

/// Home switches of one batch and the rows of the tables to choose for them: one per terminal, or the
/// switch's own where there is none.
struct Homes {
    switches: Range<usize>,
    /// `rows[first[i]..first[i + 1]]`: destinations of the `i`-th home.
    first: Vec<usize>,
    rows: Vec<usize>,
    /// Whether they count as use.
    count: Vec<bool>,
}

impl Homes {
    fn new(fabric: &Fabric, graph: &Graph, switches: Range<usize>) -> Self {
        let mut homes = Self { switches, first: vec![0], rows: Vec::new(), count: Vec::new() };
        for home in homes.switches.clone() {
            let terminals = fabric.attached(graph.switch_id(home));
            homes.rows.extend(terminals.iter().map(|t| t.index()));
            if terminals.is_empty() {
                homes.rows.push(fabric.dest_of_switch(graph.switch_id(home)).index());
            }
            homes.first.push(homes.rows.len());
            homes.count.push(!terminals.is_empty());
        }
        homes
    }

    /// Where each row starts in whole tables.
    fn row_starts(&self, switches: usize) -> Vec<usize> {
        self.rows.iter().map(|row| row * switches).collect()
    }

    /// Switches take the ways of their first terminal; ports to terminals; what is out of reach is
    /// on no layer.
    fn finish(&self, fabric: &Fabric, ways: &Ways<'_>, ports: &mut [u8], layers: &mut [u8]) {
        let n = ways.switches();
        for (lane, home) in self.switches.clone().enumerate() {
            let rows = &self.rows[self.first[lane]..self.first[lane + 1]];
            let own = fabric.dest_of_switch(SwitchId::at(home)).index();
            let all = || rows.iter().copied().chain([own]);
            ports.copy_within(rows[0] * n..(rows[0] + 1) * n, own * n);
            all().for_each(|row| ports[row * n + home] = fabric.last_port(DestId::at(row)).get());
            if ways.order(lane).len() < n {
                let far = (0..n).filter(|s| ways.hops(lane)[*s] == Ways::FAR);
                far.for_each(|s| all().for_each(|row| layers[row * n + s] = Tables::NO_LAYER));
            }
        }
    }
}

/// Consecutive switches with their counters.
struct Block<'a> {
    graph: &'a Graph,
    eligible: Eligible,
    switches: Range<usize>,
    /// First channel of the block.
    out: usize,
    /// Per channel: destinations over it so far, and its slot: the least of these is the one to take.
    used: Vec<u64>,
    /// Choices for the homes at hand: `[row * switches + switch]`.
    chosen: Vec<u8>,
    /// Scratch: slots a switch may take.
    slots: Vec<usize>,
}

impl<'a> Block<'a> {
    fn new(graph: &'a Graph, eligible: Eligible, switches: Range<usize>) -> Self {
        let out = graph.out(switches.start).start;
        let used = (out..graph.out(switches.end - 1).end).map(|c| u64::from(graph.slot(c))).collect();
        Self { graph, eligible, switches, out, used, chosen: Vec::new(), slots: Vec::new() }
    }

    /// Chooses into an own buffer.
    fn choose_apart(&mut self, ways: &Ways<'_>, homes: &Homes) {
        let size = self.switches.len();
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.clear();
        chosen.resize(homes.rows.len() * size, Tables::UNREACHABLE);
        let starts: Vec<usize> = (0..homes.rows.len()).map(|nth| nth * size).collect();
        self.choose(ways, homes, &starts, &mut chosen);
        self.chosen = chosen;
    }

    fn copy_row(&self, nth: usize, row: &mut [u8]) {
        let size = self.switches.len();
        row[self.switches.clone()].copy_from_slice(&self.chosen[nth * size..(nth + 1) * size]);
    }

    /// Writes the ports of all switches of the block; `starts` says where in `ports` each row starts.
    fn choose(&mut self, ways: &Ways<'_>, homes: &Homes, starts: &[usize], ports: &mut [u8]) {
        let (graph, words) = (self.graph, ways.words());
        for lane in 0..homes.switches.len() {
            let starts = &starts[homes.first[lane]..homes.first[lane + 1]];
            let one = u64::from(homes.count[lane]) << 8;
            let masks = &ways.slots(lane)[self.switches.start * words..self.switches.end * words];
            for (at, (s, masks)) in self.switches.clone().zip(masks.chunks_exact(words)).enumerate() {
                self.slots.clear();
                for (word, mask) in masks.iter().enumerate() {
                    bits(*mask).for_each(|bit| self.slots.push(64 * word + bit));
                }
                let (out, all) = (graph.out(s), &graph.all_ports()[graph.out(s)]);
                let used = &mut self.used[out.start - self.out..out.end - self.out];
                if let [first, _, ..] = *self.slots {
                    if self.eligible == Eligible::Parallel {
                        let to = graph.neighbours(s);
                        self.slots.retain(|slot| to[*slot] == to[first]);
                    }
                }
                match self.slots.as_slice() {
                    [] => {}
                    [only] => {
                        used[*only] += one * starts.len() as u64;
                        starts.iter().for_each(|start| ports[start + at] = all[*only]);
                    }
                    [first, others @ ..] => {
                        for start in starts {
                            let least =
                                others.iter().fold(used[*first], |least, slot| least.min(used[*slot]));
                            let slot = usize::from(least as u8);
                            used[slot] += one;
                            ports[start + at] = all[slot];
                        }
                    }
                }
            }
        }
    }
}
