//! After a loss: the map stays, and what lost its next hops gets others by the same test on what is left.

use std::sync::Arc;

use super::grow::Grower;
use super::space::{Space, Use};
use super::terrain::Terrain;
use super::{LOOKS, STEPS, fabric_lanes};
use crate::model::lanes::SLS;
use crate::model::rng::Rng;
use crate::model::{Closure, Fabric, FabricLanes, LaneMap, LayerBudget, PortNum, PortPeer, SwitchId, Vl};
use crate::route::graph::Graph;
use crate::route::ways::bits;

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
    let closure = lanes.closure.on(before, now);
    mend(&FabricLanes { map: Arc::new(map), closure: Arc::new(closure) }, now, vls)
}

/// As [`mended`], of lanes that are on the fabric of now already: those of cables that it lost are gone.
/// Nothing is believed of them: all are put in order anew. Cables over which nothing leads, because they
/// came back or are new, get lanes and become next hops where they can.
pub fn mend(lanes: &FabricLanes, now: &Fabric, vls: LayerBudget) -> Mended {
    let graph = Graph::new(now);
    let terrain = Terrain::new(now, &graph);
    // A wide closure leaves little room for what must be added. So shortest ways alone are tried next.
    for is_thin in [false, true] {
        let mut repair = Repair::new(&terrain, now, lanes);
        if is_thin {
            repair.thin();
        }
        if let Some(replaced) = repair.run() {
            let map = repair.map(now, &lanes.map);
            let lanes = FabricLanes { map, closure: Arc::new(repair.sets) };
            let replaced = if is_thin { graph.switches() } else { replaced };
            return Mended { lanes, replaced, is_new: false };
        }
    }
    Mended { lanes: fabric_lanes(now, vls).lanes, replaced: graph.switches(), is_new: true }
}

/// Lanes while they are mended.
struct Repair<'a> {
    terrain: &'a Terrain<'a>,
    space: Space<'a>,
    sets: Closure,
    /// What each home needs of the graph.
    uses: Vec<Use>,
    /// Channels over which nothing leads.
    is_unknown: Vec<bool>,
}

impl<'a> Repair<'a> {
    fn new(terrain: &'a Terrain<'a>, fabric: &Fabric, lanes: &FabricLanes) -> Self {
        let graph = terrain.graph;
        let mut is_unknown = vec![true; graph.channels()];
        for (s, home) in fabric.switch_ids().flat_map(|s| fabric.switch_ids().map(move |home| (s, home))) {
            let first = graph.out(s.index()).start;
            for (word, slots) in lanes.closure.slots(s, home).iter().enumerate() {
                bits(*slots).for_each(|slot| is_unknown[first + 64 * word + slot] = false);
            }
        }
        let space = frozen(terrain, fabric, &lanes.map, &is_unknown);
        let uses = vec![Use::default(); graph.switches()];
        Self { terrain, space, sets: Closure::clone(&lanes.closure), uses, is_unknown }
    }

    /// Drops the next hops that are no shortest way, where a switch has one that is.
    fn thin(&mut self) {
        let graph = self.terrain.graph;
        for (home, s) in (0..graph.switches()).flat_map(|home| (0..graph.switches()).map(move |s| (home, s)))
        {
            let hops = |at: usize| self.terrain.hops(home, at);
            let is_long = |slot: &usize| hops(graph.to(graph.out(s).start + slot)) >= hops(s);
            let (of, at) = (SwitchId::at(s), SwitchId::at(home));
            let slots = (0..graph.out(s).len()).filter(|slot| self.sets.allows(of, at, *slot));
            let (long, short): (Vec<usize>, Vec<usize>) = slots.partition(is_long);
            if !short.is_empty() {
                long.into_iter().for_each(|slot| self.sets.set(of, at, slot, false));
            }
        }
    }

    /// Mends the sets; how many homes got all new ones. `None` if someone stays without a way.
    fn run(&mut self) -> Option<usize> {
        let (n, sets) = (self.terrain.graph.switches(), &mut self.sets);
        self.space.is_unordered = true;
        let mut grower = Grower::new(self.terrain, &mut self.space);
        let mut broken = Vec::new();
        for (home, of) in self.uses.iter_mut().enumerate() {
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
            let of = &mut self.uses[home];
            grower.begin(home, sets, of);
            if !grower.complete(sets, of) {
                lost.push(home);
            }
            grower.grow(0, sets, of);
        }
        for home in &lost {
            grower.space.release(std::mem::take(&mut self.uses[*home]));
            for s in 0..n {
                (0..self.terrain.graph.out(s).len())
                    .for_each(|slot| sets.set(SwitchId::at(s), SwitchId::at(*home), slot, false));
            }
            let mut of = Use::default();
            grower.begin(*home, sets, &mut of);
            if !grower.complete(sets, &mut of) {
                return None;
            }
            grower.grow(0, sets, &mut of);
            self.uses[*home] = of;
        }
        if self.is_unknown.contains(&true) {
            grower.space.steps = STEPS;
            for home in 0..n {
                grower.begin(home, sets, &mut self.uses[home]);
                grower.grow(0, sets, &mut self.uses[home]);
            }
        }
        Some(lost.len())
    }

    /// The map of before, with the lanes that turns of unknown channels got.
    fn map(&self, fabric: &Fabric, before: &Arc<LaneMap>) -> Arc<LaneMap> {
        if !self.is_unknown.contains(&true) {
            return Arc::clone(before);
        }
        let graph = self.terrain.graph;
        let mut channel = vec![0; graph.channels()];
        (0..graph.channels()).for_each(|c| channel[graph.id(c).index()] = c);
        let behind = self.space.all_lanes();
        Arc::new(LaneMap::fill(fabric, |s, from, to| {
            let (Some(PortPeer::Channel(back)), Some(PortPeer::Channel(next))) =
                (fabric.peer(s, from), fabric.peer(s, to))
            else {
                return *before.row(s, from, to);
            };
            let (into, next) = (channel[back.reverse().index()], channel[next.index()]);
            match self.space.links.turn(into, next) {
                Some(turn) if self.is_unknown[into] || self.is_unknown[next] => {
                    [Vl::at(behind[turn.id]); SLS]
                }
                _ => *before.row(s, from, to),
            }
        }))
    }
}

/// Next hops that are tried to widen a closure, at most: some seconds.
const TRIES: usize = 500_000;

/// More next hops beside those of a closure: where a lane is several VLs, there are more nodes to tell
/// dependencies apart by. Each is added only if all walks through it leave the graph without a cycle.
/// Deterministic. O(homes × next hops × VLs).
pub(super) fn regrown(fabric: &Fabric, terrain: &Terrain<'_>, map: &LaneMap, sets: Closure) -> Closure {
    let n = terrain.graph.switches();
    let mut homes: Vec<usize> = (0..n).filter(|h| terrain.is_home(*h)).collect();
    if homes.len() * terrain.graph.channels() > LOOKS {
        return sets;
    }
    let known = vec![false; terrain.graph.channels()];
    let (mut more, mut uses) = (sets.clone(), vec![Use::default(); n]);
    let mut space = frozen(terrain, fabric, map, &known);
    space.is_unordered = true;
    space.steps = STEPS;
    let mut grower = Grower::new(terrain, &mut space);
    grower.tries = TRIES;
    uses.iter_mut().enumerate().for_each(|(home, of)| grower.begin(home, &more, of));
    if !grower.space.sort() {
        return sets;
    }
    Rng::new(1).shuffle(&mut homes);
    for longer in 0..=1 {
        for home in &homes {
            let of = &mut uses[*home];
            grower.begin(*home, &more, of);
            grower.grow(longer, &mut more, of);
        }
    }
    more
}

/// The graph in which every turn between known channels has the lane of a map for good, without
/// dependencies. Lanes are VLs.
fn frozen<'a>(terrain: &Terrain<'a>, fabric: &Fabric, map: &LaneMap, is_unknown: &[bool]) -> Space<'a> {
    let graph = terrain.graph;
    let lanes = usize::from(map.vls());
    let order: Vec<u32> = (0..(graph.channels() * lanes) as u32).collect();
    let mut space = Space::new(graph, lanes, &order);
    let port = |c: usize| PortNum::at(graph.port(c));
    for from in 0..graph.channels() {
        let at = SwitchId::at(graph.to(from));
        for to in graph.out(at.index()) {
            let turn = space.links.turn(from, to).filter(|_| !is_unknown[from] && !is_unknown[to]);
            if let Some(turn) = turn {
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
