//! What tests of tables begin with: budgets, and tables made without the engines.

use std::sync::Arc;

use sarouter::model::rng::Rng;
use sarouter::model::{
    ChannelId, Demand, DestId, Fabric, FabricLanes, LayerBudget, PortPeer, SwitchId, Tables,
};
use sarouter::route::lanes::choose;

pub fn budget(layers: u64) -> LayerBudget {
    LayerBudget::new(layers).unwrap()
}

/// A route as channels; `None` if it does not arrive.
pub fn walk(fabric: &Fabric, tables: &Tables, from: SwitchId, d: DestId) -> Option<Vec<ChannelId>> {
    let (mut at, mut path) = (from, Vec::new());
    while at != fabric.home(d) {
        match fabric.peer(at, tables.port(at, d)?)? {
            PortPeer::Channel(c) if path.len() < fabric.switches().len() => {
                path.push(c);
                at = fabric.channel(c).to;
            }
            _ => return None,
        }
    }
    Some(path)
}

/// Shortest-path in-trees with random choices among equal channels; with `wander`, paths that need
/// not be shortest. Layers are random below `layers`.
pub fn random_tables(fabric: &Fabric, seed: u64, layers: usize, wander: bool) -> Tables {
    let mut rng = Rng::new(seed);
    let n = fabric.switches().len();
    let mut ports = vec![Tables::UNREACHABLE; fabric.dest_count() * n];
    let mut layer = vec![Tables::NO_LAYER; fabric.dest_count() * n];
    for d in fabric.dest_ids() {
        let row = &mut ports[d.index() * n..][..n];
        row[fabric.home(d).index()] = fabric.last_port(d).get();
        let mut reached = vec![fabric.home(d)];
        let mut next = 0;
        while next < reached.len() {
            let pick = if wander { next + rng.below(reached.len() - next) } else { next };
            reached.swap(next, pick);
            let mut out = fabric.out(reached[next]).to_vec();
            next += 1;
            rng.shuffle(&mut out);
            for c in out {
                let back = fabric.channel(c.reverse());
                if row[back.from.index()] == Tables::UNREACHABLE && back.from != fabric.home(d) {
                    row[back.from.index()] = back.from_port.get();
                    reached.push(back.from);
                }
            }
        }
        for s in reached.iter().filter(|s| !fabric.attached(**s).is_empty()) {
            layer[d.index() * n + s.index()] = rng.below(layers) as u8;
        }
        layer[d.index() * n + fabric.home(d).index()] = 0;
    }
    Tables::new(fabric, "test", ports, layer).unwrap()
}

/// The same tables with one raw entry changed.
pub fn altered(fabric: &Fabric, tables: &Tables, change: impl FnOnce(&mut [u8], &mut [u8])) -> Tables {
    assert_eq!(tables.fabric(), fabric.fingerprint());
    tables.clone().edited(change)
}

/// Tables for a demand inside the closure of a fabric's lanes, with their map.
pub fn safe_tables(fabric: &Fabric, demand: &Demand, lanes: &FabricLanes) -> Tables {
    let tables = choose(fabric, demand, &lanes.closure, None, "test").unwrap();
    tables.with_lanes(Some(Arc::clone(&lanes.map)))
}
