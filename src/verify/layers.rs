//! Layers: every route has one, within the budget, and each layer's channel dependencies have no
//! cycle.

use super::Checks;
use super::cycles::{Dependencies, Turns};
use super::finding::{Finding, Findings, Kind, cycle_step, destination_name, switch_name};
use super::trees::{LOST, Tree, Trees};
use crate::model::{ChannelId, DestId, Fabric, Layer, LayerBudget, Tables};

/// What the layer check knows beside the trees.
pub(super) struct Layers<'a> {
    trees: &'a Trees<'a>,
    turns: &'a Turns<'a>,
    budget: u8,
    /// Whether terminals are attached to each switch: only there routes start.
    sources: Vec<bool>,
    /// `back[home * switches + s]`: layers, as a bit set, of routes from terminals of `home` to
    /// terminals of `s`: routes from `s` to terminals of `home` may use those too. Empty unless
    /// [`Checks::reverse_on_same_layer`].
    back: Vec<u16>,
}

/// The bit of a layer; none for a value out of range.
pub(super) fn bit(layer: u8) -> u16 {
    Layer::new(u64::from(layer)).map_or(0, |l| 1 << l.get())
}

impl<'a> Layers<'a> {
    /// O(switches), and O(terminals × switches) for reverse routes.
    pub(super) fn new(
        trees: &'a Trees<'a>,
        turns: &'a Turns<'a>,
        budget: LayerBudget,
        checks: Checks,
    ) -> Self {
        let fabric = trees.fabric;
        let sources = fabric.switch_ids().map(|s| !fabric.attached(s).is_empty()).collect();
        let back = if checks.reverse_on_same_layer { back(trees) } else { Vec::new() };
        Self { trees, turns, budget: budget.get(), sources, back }
    }

    /// Layers, as a bit set, of the routes that start at hosts of `s` and end at `d`.
    fn starting(&self, d: DestId, home: usize, s: usize) -> u16 {
        if !self.sources[s] {
            return 0;
        }
        let own = bit(self.trees.tables.layers_to(d)[s]);
        let is_terminal = self.trees.fabric.dest_terminal(d).is_some();
        let back = is_terminal.then(|| self.back.get(home * self.sources.len() + s)).flatten();
        own | back.copied().unwrap_or(0)
    }

    /// Checks the layers of routes to `d`, and adds the dependencies of those routes: one sweep
    /// from the farthest switches to home, each passing on the layers of its subtree. `subtree`
    /// is scratch of one entry per switch. O(switches).
    pub(super) fn check(
        &self,
        d: DestId,
        tree: &Tree,
        subtree: &mut [u16],
        dependencies: &mut Dependencies,
        findings: &mut Findings,
    ) {
        let layers = self.trees.tables.layers_to(d);
        let reverse = !self.back.is_empty();
        for (s, layer) in layers.iter().enumerate() {
            if *layer < self.budget && !reverse {
                subtree[s] = u16::from(self.sources[s]) << layer;
                continue;
            }
            if *layer >= self.budget {
                self.unusual(d, tree, s, *layer, findings);
            }
            subtree[s] = self.starting(d, tree.home, s);
        }
        for s in tree.order[1..].iter().rev().map(|s| *s as usize) {
            let parent = tree.parent(self.trees, s);
            if parent != tree.home && subtree[s] != 0 {
                subtree[parent] |= subtree[s];
                self.turns.mark(dependencies, tree.next[s], tree.next[parent], subtree[s]);
            }
        }
    }

    /// A layer that is missing or beyond the budget.
    fn unusual(&self, d: DestId, tree: &Tree, s: usize, layer: u8, findings: &mut Findings) {
        let fabric = self.trees.fabric;
        if layer != Tables::NO_LAYER {
            findings.add(Kind::OverBudget, || Finding::OverBudget {
                switch: switch_name(fabric, s),
                destination: destination_name(fabric, d),
                layer,
                budget: self.budget,
            });
            return;
        }
        let is_route = self.sources[s] && s != tree.home && tree.depth[s] != LOST;
        // Nothing but management goes to a switch; where no host is near, its routes may go without.
        if is_route && (fabric.dest_terminal(d).is_some() || self.sources[tree.home]) {
            findings.add(Kind::MissingLayer, || Finding::MissingLayer {
                switch: switch_name(fabric, s),
                destination: destination_name(fabric, d),
            });
        }
    }

    /// Source switch and destination of a route of a layer that turns from one channel to another.
    fn example(&self, layer: u8, c1: ChannelId, c2: ChannelId, tree: &mut Tree) -> Option<(usize, DestId)> {
        let fabric: &Fabric = self.trees.fabric;
        let forwards = |d: DestId, c: ChannelId| {
            let c = fabric.channel(c);
            self.trees.tables.ports_to(d)[c.from.index()] == c.from_port.get()
        };
        fabric.dest_ids().filter(|d| forwards(*d, c1) && forwards(*d, c2)).find_map(|d| {
            self.trees.trace(d, tree);
            let mut starts = tree.order.iter().map(|s| *s as usize);
            let found = starts.find(|s| {
                self.starting(d, tree.home, *s) >> layer & 1 == 1 && tree.turns(self.trees, *s, c1, c2)
            });
            found.map(|s| (s, d))
        })
    }
}

/// See [`Layers::back`].
fn back(trees: &Trees<'_>) -> Vec<u16> {
    let switches = trees.fabric.switches().len();
    let mut back = vec![0u16; switches * switches];
    for t in trees.fabric.terminal_ids() {
        let s = trees.fabric.terminal(t).switch.index();
        let layers = trees.tables.layers_to(trees.fabric.dest_of_terminal(t));
        for (home, layer) in layers.iter().enumerate() {
            back[home * switches + s] |= bit(*layer);
        }
    }
    back
}

/// One cycle of each layer that has any, of the routes of all tables. O(layers × turns); naming a
/// cycle found takes O(its length × destinations × switches).
pub(super) fn cycles(
    all: &[Layers<'_>],
    turns: &Turns<'_>,
    dependencies: &Dependencies,
    findings: &mut Findings,
) {
    let used = dependencies.layers();
    for layer in (0..u16::BITS as u8).filter(|l| used >> l & 1 == 1) {
        if let Some(cycle) = turns.cycle(dependencies, layer) {
            findings.add(Kind::Cycle, || explain(all, layer, &cycle));
        }
    }
}

fn explain(all: &[Layers<'_>], layer: u8, cycle: &[ChannelId]) -> Finding {
    let follower = cycle.iter().cycle().skip(1);
    let steps = cycle.iter().zip(follower).filter_map(|(c1, c2)| {
        all.iter().find_map(|layers| {
            let (s, d) = layers.example(layer, *c1, *c2, &mut layers.trees.room())?;
            Some(cycle_step(layers.trees.fabric, *c1, s, d))
        })
    });
    Finding::Cycle { layer, channels: steps.collect() }
}
