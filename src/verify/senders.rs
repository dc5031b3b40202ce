//! Who sends on which SL: the sources and SLs of a promise, and the layers that tables give.

use super::finding::{Finding, Findings, Kind, destination_name, switch_name};
use super::lanes::Start;
use super::trees::{LOST, Tree};
use crate::model::{DestId, Fabric, Layer, Promise, Tables};

/// Sources and SLs.
pub(super) struct Senders<'a> {
    fabric: &'a Fabric,
    /// Tables whose layers programs were told, those in question first.
    told: Vec<&'a Tables>,
    /// SLs that are used for every route.
    fixed: u16,
    /// Whether switches send too.
    management: bool,
    /// Whether hosts are attached to each switch. What aggregation nodes elsewhere send is not asked about.
    sources: Vec<bool>,
    /// `back[home * switches + s]`: layers, as bits, of routes from terminals of `home` to
    /// terminals of `s`: routes from `s` to terminals of `home` may use those too. Empty unless
    /// [`Promise::reply`] is asked for.
    back: Vec<u16>,
}

/// The bit of a layer; none for a value out of range.
fn bit(layer: u8) -> u16 {
    Layer::new(u64::from(layer)).map_or(0, |l| 1 << l.get())
}

impl<'a> Senders<'a> {
    /// For these tables and, of connections made before, earlier ones. O(switches), and
    /// O(terminals × switches) for answers.
    pub(super) fn new(
        fabric: &'a Fabric,
        tables: &'a Tables,
        earlier: impl Iterator<Item = &'a Tables>,
        promise: Promise,
    ) -> Self {
        let told: Vec<&Tables> = std::iter::once(tables).filter(|_| promise.told).chain(earlier).collect();
        let fixed = if promise.any { u16::MAX } else { u16::from(promise.untold) };
        Self {
            fabric,
            fixed,
            management: promise.any || promise.untold,
            sources: fabric.switch_ids().map(|s| fabric.has_hosts(s)).collect(),
            back: if promise.reply && !promise.any { back(fabric, &told) } else { Vec::new() },
            told: if promise.any { Vec::new() } else { told },
        }
    }

    /// What starts at a switch towards a destination at `home`.
    #[inline]
    pub(super) fn start(&self, d: DestId, home: usize, s: usize) -> Start {
        let own = if self.management && self.fabric.is_host_dest(d) { self.fixed } else { 0 };
        if !self.sources[s] {
            return Start { hosts: 0, own };
        }
        let told = self.told.iter().fold(0, |all, t| all | bit(t.layers_to(d)[s]));
        let has_back = !self.back.is_empty() && self.fabric.is_host_dest(d);
        let back = if has_back { self.back[home * self.sources.len() + s] } else { 0 };
        Start { hosts: self.fixed | told | back, own }
    }

    /// SLs that any packet may have, as bits.
    pub(super) fn sls(&self) -> u16 {
        let layers = |t: &&Tables| t.layers_used().min(u16::BITS as u8 - 1);
        self.told.iter().fold(self.fixed, |all, t| all | ((1 << layers(t)) - 1))
    }

    /// Checks the layers that tables give to routes to `d`: every route has one, within the budget.
    pub(super) fn check(&self, tables: &Tables, d: DestId, tree: &Tree, budget: u8, findings: &mut Findings) {
        for (s, layer) in tables.layers_to(d).iter().enumerate().filter(|(_, layer)| **layer >= budget) {
            if *layer != Tables::NO_LAYER {
                findings.add(Kind::OverBudget, || Finding::OverBudget {
                    switch: switch_name(self.fabric, s),
                    destination: destination_name(self.fabric, d),
                    layer: *layer,
                    budget,
                });
                continue;
            }
            let is_route = self.sources[s] && s != tree.home && tree.depth[s] != LOST;
            // Nothing but management goes to a switch; where no host is near, its routes may go without.
            let is_terminal = self.fabric.dest_terminal(d).is_some();
            if is_route && (is_terminal || self.sources[tree.home]) {
                findings.add(Kind::MissingLayer, || Finding::MissingLayer {
                    switch: switch_name(self.fabric, s),
                    destination: destination_name(self.fabric, d),
                });
            }
        }
    }
}

/// See [`Senders::back`].
fn back(fabric: &Fabric, told: &[&Tables]) -> Vec<u16> {
    let switches = fabric.switches().len();
    let mut back = vec![0u16; switches * switches];
    for t in fabric.terminal_ids() {
        let s = fabric.terminal(t).switch.index();
        for layers in told.iter().map(|tables| tables.layers_to(fabric.dest_of_terminal(t))) {
            for (home, layer) in layers.iter().enumerate() {
                back[home * switches + s] |= bit(*layer);
            }
        }
    }
    back
}
