//! Routing tables of a switched fabric: an egress port per switch and destination, and a virtual
//! layer per source switch and destination.

use std::sync::Arc;

use super::{DestId, Fabric, Fingerprint, LaneMap, Layer, PortNum, SwitchId};

/// Tables that do not fit their fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tables need {wanted} entries for {switches} switches, found {found}")]
pub struct TablesError {
    /// Entries expected: destinations × switches.
    pub wanted: usize,
    /// Switches of the fabric.
    pub switches: usize,
    /// Entries given.
    pub found: usize,
}

/// Total destination-based tables, stored by destination: `[dest * switches + switch]`.
///
/// The port at a destination's home switch is its own port (0 for a switch). The layer at
/// `(s, d)` is that of all routes from terminals of `s` to `d`; it is [`Tables::NO_LAYER`] where
/// there is no such route: `s` has no terminals, or `d` cannot be reached from it. The layer is the
/// SL of the route's packets; their VL is the same number, or what a lane map says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    fabric: Fingerprint,
    engine: String,
    switches: usize,
    ports: Vec<u8>,
    layers: Vec<u8>,
    lanes: Option<Arc<LaneMap>>,
}

/// What is judged may be tables alone.
impl AsRef<Tables> for Tables {
    fn as_ref(&self) -> &Tables {
        self
    }
}

impl Tables {
    /// Raw port value of an explicit hole: this switch cannot reach this destination.
    pub const UNREACHABLE: u8 = 255;
    /// Raw layer value where no route starts.
    pub const NO_LAYER: u8 = 255;

    /// Wraps raw arrays, both indexed `[dest * switches + switch]`.
    pub fn new(fabric: &Fabric, engine: &str, ports: Vec<u8>, layers: Vec<u8>) -> Result<Self, TablesError> {
        let switches = fabric.switches().len();
        let wanted = fabric.dest_count() * switches;
        for found in [ports.len(), layers.len()] {
            if found != wanted {
                return Err(TablesError { wanted, switches, found });
            }
        }
        Ok(Self {
            fabric: fabric.fingerprint(),
            engine: engine.to_string(),
            switches,
            ports,
            layers,
            lanes: None,
        })
    }

    /// The same routes on the lanes of a map; without one, VL = SL.
    #[must_use]
    pub fn with_lanes(self, lanes: Option<Arc<LaneMap>>) -> Self {
        Self { lanes, ..self }
    }

    /// The same tables with some entries changed: ports and layers, as [`Tables::new`] takes them.
    #[must_use]
    pub fn edited(mut self, change: impl FnOnce(&mut [u8], &mut [u8])) -> Self {
        change(&mut self.ports, &mut self.layers);
        self
    }

    /// The same routes, all on one layer.
    #[must_use]
    pub fn on_layer(self, layer: Layer) -> Self {
        let all = |layers: &mut [u8]| {
            layers.iter_mut().filter(|l| **l != Self::NO_LAYER).for_each(|l| *l = layer.get());
        };
        self.edited(|_, layers| all(layers))
    }

    /// VL by in port, out port and SL; `None`: VL = SL.
    pub fn lanes(&self) -> Option<&Arc<LaneMap>> {
        self.lanes.as_ref()
    }
    /// How many VLs the routes need: those of the lane map, or the layers in use.
    pub fn vls_used(&self) -> u8 {
        self.lanes.as_ref().map_or_else(|| self.layers_used(), |map| map.vls())
    }
    /// The fabric these tables are for.
    pub fn fabric(&self) -> Fingerprint {
        self.fabric
    }
    /// The engine that made them, or `file`.
    pub fn engine(&self) -> &str {
        &self.engine
    }
    /// Raw egress ports of all switches towards a destination, indexed by switch.
    #[inline]
    pub fn ports_to(&self, d: DestId) -> &[u8] {
        &self.ports[d.index() * self.switches..(d.index() + 1) * self.switches]
    }
    /// Raw layers of routes to a destination, indexed by source switch.
    #[inline]
    pub fn layers_to(&self, d: DestId) -> &[u8] {
        &self.layers[d.index() * self.switches..(d.index() + 1) * self.switches]
    }
    /// Egress port; `None` for an explicit hole.
    pub fn port(&self, s: SwitchId, d: DestId) -> Option<PortNum> {
        PortNum::new(u64::from(self.ports_to(d)[s.index()])).ok()
    }
    /// Layer of the routes from a switch's terminals; `None` where there are none (or the raw
    /// value is out of range, which the checker reports).
    pub fn layer(&self, s: SwitchId, d: DestId) -> Option<Layer> {
        Layer::new(u64::from(self.layers_to(d)[s.index()])).ok()
    }
    /// Number of layers in use: highest layer plus one. O(entries).
    pub fn layers_used(&self) -> u8 {
        // One more than no layer is 0.
        self.layers.iter().fold(0, |used, l| used.max(l.wrapping_add(1)))
    }
    /// Number of blocks of 64 LIDs that differ, over all switches: what a subnet manager must
    /// send to get from one to the other. `None` if the tables are of different size.
    pub fn changed_blocks(&self, fabric: &Fabric, other: &Tables) -> Option<usize> {
        if self.ports.len() != other.ports.len() || self.switches != fabric.switches().len() {
            return None;
        }
        let mut by_lid: Vec<DestId> = fabric.dest_ids().collect();
        by_lid.sort_by_key(|d| fabric.lid(*d));
        let mut blocks = 0;
        for group in by_lid.chunk_by(|a, b| fabric.lid(*a).get() / 64 == fabric.lid(*b).get() / 64) {
            let (own, others) = (|d: &&DestId| self.ports_to(**d), |d: &&DestId| other.ports_to(**d));
            let differ: Vec<&DestId> = group.iter().filter(|d| own(d) != others(d)).collect();
            let differs = |s: &usize| differ.iter().any(|d| own(d)[*s] != others(d)[*s]);
            blocks += (0..self.switches).filter(differs).count();
        }
        Some(blocks)
    }
    /// Raw ports and layers, by destination. The lane map, if any, is lost.
    pub fn into_raw(self) -> (Vec<u8>, Vec<u8>) {
        (self.ports, self.layers)
    }
}
