//! After a loss: the map stays, and what lost its next hops gets others by the same test on what is left.

use std::sync::Arc;

use super::fabric_lanes;
use super::grow::Grower;
use super::space::{Space, Use};
use super::terrain::Terrain;
use crate::model::lanes::SLS;
use crate::model::{Closure, Fabric, FabricLanes, LaneMap, LayerBudget, PortNum, SwitchId, Vl};
use crate::route::graph::Graph;

/// What became of the lanes of a fabric that changed.
#[derive(Debug, Clone)]
pub struct Mended {
    /// Map and closure of the fabric as it is now.
    pub lanes: FabricLanes,
    /// Home switches whose next hops are not among those of before and some more: tables of before may
    /// be mixed with new ones only if a checker of the change says so.
    pub replaced: usize,
    /// Whether the map had to change, and with it everything.
    pub is_new: bool,
}

/// The lanes of a fabric after cables and switches were lost or came back: each turn keeps its lane, each
/// switch its next hops that are left. Switches without any get new ones, each only if all walks through
/// it leave the graph of dependencies without a cycle. Where that fails, all next hops to that home are
/// searched again. Where that fails too, the lanes of the whole fabric are.
///
/// Deterministic. O(homes × next hops × lanes) if little was lost.
pub fn mended(lanes: &FabricLanes, before: &Fabric, now: &Fabric, vls: LayerBudget) -> Mended {
    let map = lanes.map.on(before, now, |_, _, _| [Vl::ZERO; SLS]);
    let mut sets = lanes.closure.on(before, now);
    let graph = Graph::new(now);
    let terrain = Terrain::new(now, &graph);
    match repair(&terrain, now, &map, &mut sets) {
        Some(replaced) => {
            let lanes = FabricLanes { map: Arc::new(map), closure: Arc::new(sets) };
            Mended { lanes, replaced, is_new: false }
        }
        None => {
            let lanes = fabric_lanes(now, vls).lanes;
            Mended { lanes, replaced: graph.switches(), is_new: true }
        }
    }
}

/// Mends the sets; how many homes got all new ones. `None` if someone stays without a way.
fn repair(terrain: &Terrain<'_>, fabric: &Fabric, map: &LaneMap, sets: &mut Closure) -> Option<usize> {
    let n = terrain.graph.switches();
    let mut space = frozen(terrain, fabric, map);
    let mut uses = vec![Use::default(); n];
    space.is_unordered = true;
    let mut grower = Grower::new(terrain, &mut space);
    let mut broken = Vec::new();
    for (home, of) in uses.iter_mut().enumerate() {
        grower.begin(home, sets, of);
        if !grower.lost().is_empty() {
            broken.push(home);
        }
    }
    if !grower.space.sort() {
        return None;
    }
    let mut lost = Vec::new();
    for home in broken {
        let of = &mut uses[home];
        grower.begin(home, sets, of);
        if !grower.complete(sets, of) {
            lost.push(home);
        }
        grower.grow(0, sets, of);
    }
    for home in &lost {
        grower.space.release(std::mem::take(&mut uses[*home]));
        for s in 0..n {
            (0..terrain.graph.out(s).len())
                .for_each(|slot| sets.set(SwitchId::at(s), SwitchId::at(*home), slot, false));
        }
        let mut of = Use::default();
        grower.begin(*home, sets, &mut of);
        if !grower.complete(sets, &mut of) {
            return None;
        }
        grower.grow(0, sets, &mut of);
        uses[*home] = of;
    }
    Some(lost.len())
}

/// The graph in which every turn has the lane of a map for good, without dependencies. Lanes are VLs.
fn frozen<'a>(terrain: &Terrain<'a>, fabric: &Fabric, map: &LaneMap) -> Space<'a> {
    let graph = terrain.graph;
    let lanes = usize::from(map.vls());
    let order: Vec<u32> = (0..(graph.channels() * lanes) as u32).collect();
    let mut space = Space::new(graph, lanes, &order);
    let port = |c: usize| PortNum::at(graph.port(c));
    for from in 0..graph.channels() {
        let at = SwitchId::at(graph.to(from));
        for to in graph.out(at.index()) {
            if let Some(turn) = space.links.turn(from, to) {
                let vl = map.row(at, port(graph.reverse(from)), port(to))[0];
                space.pin(turn, vl.get());
            }
        }
    }
    for c in 0..graph.channels() {
        let s = SwitchId::at(graph.from(c));
        let starts = fabric.attached(s).iter().map(|t| fabric.terminal(*t).port);
        let hosts = starts.fold(0, |all, p| all | 1u16 << map.row(s, p, port(c))[0].get());
        space.enter[c] = [hosts, 1 << map.row(s, PortNum::ZERO, port(c))[0].get()];
    }
    space
}
