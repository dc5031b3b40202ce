//! Routes while they are being made: one in-tree per destination, as slots of [`Graph`].

use rayon::prelude::*;

use super::graph::Graph;
use super::{RouteError, is_worth_threads};
use crate::model::{DestId, Fabric, SwitchId, Tables};

/// One in-tree per destination, stored by destination: `[dest * switches + switch]` is the slot
/// (see [`Graph`]) through which the switch forwards, [`Forest::HOME`] at the destination's home
/// switch, or [`Forest::NONE`] where the destination cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forest {
    switches: usize,
    slots: Vec<u8>,
}

impl Forest {
    /// The destination's own switch.
    pub const HOME: u8 = 254;
    /// No route.
    pub const NONE: u8 = 255;

    /// No routes yet, to all destinations of a fabric (terminals first, then switches).
    pub fn new(fabric: &Fabric) -> Self {
        Self::with_trees(fabric.switches().len(), fabric.dest_count())
    }
    /// No routes yet, for any number of trees.
    pub fn with_trees(switches: usize, trees: usize) -> Self {
        Self { switches, slots: vec![Self::NONE; switches * trees] }
    }
    /// The routes of tables. O(destinations × switches × ports).
    pub fn of_tables(fabric: &Fabric, graph: &Graph, tables: &Tables) -> Self {
        let mut forest = Self::new(fabric);
        for d in fabric.dest_ids() {
            let tree = forest.tree_mut(d.index());
            for (s, port) in tables.ports_to(d).iter().enumerate() {
                if let Some(c) = graph.out(s).find(|c| graph.port(*c) == *port) {
                    tree[s] = graph.slot(c);
                }
            }
            tree[fabric.home(d).index()] = Self::HOME;
        }
        forest
    }
    /// Number of trees.
    pub fn trees(&self) -> usize {
        self.slots.len() / self.switches
    }
    /// Number of switches.
    pub fn switches(&self) -> usize {
        self.switches
    }
    /// Slots towards a destination, indexed by switch.
    #[inline]
    pub fn tree(&self, dest: usize) -> &[u8] {
        &self.slots[dest * self.switches..(dest + 1) * self.switches]
    }
    /// Slots towards a destination, indexed by switch.
    #[inline]
    pub fn tree_mut(&mut self, dest: usize) -> &mut [u8] {
        &mut self.slots[dest * self.switches..(dest + 1) * self.switches]
    }
    /// Gives one destination the tree of another.
    pub fn copy(&mut self, source: usize, target: usize) {
        let n = self.switches;
        self.slots.copy_within(source * n..(source + 1) * n, target * n);
    }
    /// The switch a route continues to; `None` at home and where there is no route.
    #[inline]
    pub fn step(graph: &Graph, tree: &[u8], switch: usize) -> Option<usize> {
        let slot = tree[switch];
        (slot < Self::HOME).then(|| graph.to(graph.channel(switch, slot)))
    }

    /// The tables. `layers` is indexed like the forest; entries that no route starts from are
    /// replaced by what [`Tables`] asks for. O(destinations × switches).
    pub fn into_tables(
        self,
        fabric: &Fabric,
        graph: &Graph,
        engine: &str,
        mut layers: Vec<u8>,
    ) -> Result<Tables, RouteError> {
        let n = self.switches;
        let mut ports = self.slots;
        let first = first_layers(graph);
        let finish = |(dest, (ports, layers)): (usize, (&mut [u8], &mut [u8]))| {
            let dest = DestId::at(dest);
            translate(graph, ports, layers, fabric.home(dest).index());
            // All bits are set where no route starts.
            layers.iter_mut().zip(&first).for_each(|(layer, first)| *layer |= *first);
            ports[fabric.home(dest).index()] = fabric.last_port(dest).get();
        };
        if is_worth_threads(ports.len()) {
            let rows = ports.par_chunks_mut(n).zip(layers.par_chunks_mut(n));
            rows.enumerate().for_each(finish);
        } else {
            ports.chunks_mut(n).zip(layers.chunks_mut(n)).enumerate().for_each(finish);
        }
        Ok(Tables::new(fabric, engine, ports, layers)?)
    }
}

/// Routes while they are being made, where destinations on one switch may share an in-tree.
#[derive(Debug, Clone)]
pub struct Shared {
    switches: usize,
    /// As in [`Forest`], tree by tree.
    slots: Vec<u8>,
    /// The tree of each destination; none yet where it is out of range.
    tree_of: Vec<u32>,
}

impl Shared {
    /// No routes yet.
    pub fn new(fabric: &Fabric) -> Self {
        let (switches, dests) = (fabric.switches().len(), fabric.dest_count());
        Self { switches, slots: Vec::with_capacity(switches * dests), tree_of: vec![u32::MAX; dests] }
    }
    /// A tree without routes yet, for these destinations.
    pub fn add(&mut self, dests: impl IntoIterator<Item = DestId>) -> &mut [u8] {
        let start = self.slots.len();
        dests.into_iter().for_each(|d| self.tree_of[d.index()] = (start / self.switches) as u32);
        self.slots.resize(start + self.switches, Forest::NONE);
        &mut self.slots[start..]
    }
    /// Gives one destination the tree of another.
    pub fn copy(&mut self, source: DestId, target: DestId) {
        self.tree_of[target.index()] = self.tree_of[source.index()];
    }
    /// A tree for each destination. O(destinations × switches).
    pub fn into_forest(self) -> Forest {
        let tree = |tree: &u32| &self.slots[*tree as usize * self.switches..][..self.switches];
        Forest { switches: self.switches, slots: self.tree_of.iter().flat_map(tree).copied().collect() }
    }

    /// The tables with all routes on layer 0. Switches with terminals that a tree does not reach, though
    /// the fabric does, get ways on no layer (see [`attach`]). O(destinations × switches).
    pub fn into_flat_tables(
        mut self,
        fabric: &Fabric,
        graph: &Graph,
        engine: &str,
    ) -> Result<Tables, RouteError> {
        let (n, first) = (self.switches, first_layers(graph));
        let is_plain = first.iter().all(|l| *l == 0);
        // Layers of a tree, where they are not the first of all.
        let mut unusual: Vec<Option<Vec<u8>>> = vec![None; self.slots.len() / n.max(1)];
        let mut is_finished = vec![false; unusual.len()];
        let mut ports = Vec::with_capacity(fabric.dest_count() * n);
        let mut layers = vec![0; fabric.dest_count() * n];
        let mut row = first.clone();
        for (dest, layers) in fabric.dest_ids().zip(layers.chunks_mut(n)) {
            let (tree, home) = (self.tree_of[dest.index()] as usize, fabric.home(dest).index());
            let slots = &mut self.slots[tree * n..][..n];
            if !std::mem::replace(&mut is_finished[tree], true) {
                attach(graph, slots).into_iter().for_each(|s| row[s] = Tables::NO_LAYER);
                translate(graph, slots, &mut row, home);
                row[home] = first[home];
                if row != first {
                    unusual[tree] = Some(std::mem::replace(&mut row, first.clone()));
                }
            }
            ports.extend_from_slice(slots);
            ports[dest.index() * n + home] = fabric.last_port(dest).get();
            match &unusual[tree] {
                Some(row) => layers.copy_from_slice(row),
                None if is_plain => {}
                None => layers.copy_from_slice(&first),
            }
        }
        Ok(Tables::new(fabric, engine, ports, layers)?)
    }
}

/// Layers of the routes to one destination, by source switch, while all are on the first one:
/// [`Tables::NO_LAYER`] where no route starts.
pub fn first_layers(graph: &Graph) -> Vec<u8> {
    graph.terminals().iter().map(|t| if *t > 0 { 0 } else { Tables::NO_LAYER }).collect()
}

/// Slots of a tree to ports, but for the home switch; what has no route is on no layer.
fn translate(graph: &Graph, ports: &mut [u8], layers: &mut [u8], home: usize) {
    let (starts, all) = (graph.starts(), graph.all_ports());
    layers[home] = 0;
    if graph.out(home).is_empty() || ports.contains(&Forest::NONE) {
        for ((port, layer), start) in ports.iter_mut().zip(layers).zip(starts) {
            match *port {
                Forest::NONE => *layer = Tables::NO_LAYER,
                Forest::HOME => {}
                slot => *port = all[*start as usize + usize::from(slot)],
            }
        }
        return;
    }
    // Nothing to decide: any slot will do at home.
    ports[home] = 0;
    for (port, start) in ports.iter_mut().zip(starts) {
        *port = all[*start as usize + usize::from(*port)];
    }
}

/// Leads switches that a restricted scheme left without a way the shortest way to one that has
/// one, lower ports first; returns those of them that have terminals, whose routes now break the
/// scheme's rule. Where nothing starts, nothing depends: the other ways break no rule. O(switches + channels) if there are any.
pub fn attach(graph: &Graph, tree: &mut [u8]) -> Vec<usize> {
    let mut found = Vec::new();
    if !tree.contains(&Forest::NONE) {
        return found;
    }
    let mut queue: Vec<u32> = (0..tree.len() as u32).filter(|s| tree[*s as usize] != Forest::NONE).collect();
    let mut next = 0;
    while let Some(&s) = queue.get(next) {
        next += 1;
        for c in graph.out(s as usize) {
            let (to, back) = (graph.to(c), graph.reverse(c));
            if tree[to] == Forest::NONE {
                tree[to] = graph.slot(back);
                queue.push(to as u32);
                if graph.terminals()[to] > 0 {
                    found.push(to);
                }
            }
        }
    }
    found
}

/// Gives each switch that has terminals the tree of its first terminal, and calls `make` for every
/// other switch, with the switch and its (empty) tree. Destinations that are switches add no
/// dependency where they can share a terminal's routes.
pub fn complete_switches(fabric: &Fabric, forest: &mut Forest, mut make: impl FnMut(usize, &mut [u8])) {
    for s in fabric.switch_ids() {
        let dest = fabric.dest_of_switch(s).index();
        match fabric.attached(s).first() {
            Some(t) => forest.copy(fabric.dest_of_terminal(*t).index(), dest),
            None => make(s.index(), forest.tree_mut(dest)),
        }
    }
}

/// Switches in the order of their ids, each with its terminals by port: the order in which
/// Algorithm 3.1 visits destinations.
pub fn terminals_by_switch(fabric: &Fabric) -> impl Iterator<Item = (SwitchId, &[crate::model::TerminalId])> {
    fabric.switch_ids().map(|s| (s, fabric.attached(s))).filter(|(_, t)| !t.is_empty())
}
