//! After a loss: the map stays, and what lost its next hops gets others by the same test on what is left.

use std::sync::Arc;

use super::grow::Grower;
use super::in_force::{InForce, next_hops, turns_that};
use super::space::{Space, Use};
use super::terrain::Terrain;
use super::vls::{self, rank};
use super::{LOOKS, STEPS, fabric_lanes};
use crate::model::rng::Rng;
use crate::model::{Closure, Fabric, FabricLanes, LaneMap, LayerBudget, PortNum, PortPeer, SwitchId, Tables};
use crate::route::graph::Graph;

/// What became of the lanes of a fabric that changed.
#[derive(Debug, Clone)]
pub struct Mended {
    /// Map and closure of the fabric as it is now.
    pub lanes: FabricLanes,
    /// Home switches to which next hops that are left of before are no next hops any more: where there are some,
    /// tables of before may be mixed with new ones only if a checker of the change says so.
    pub replaced: usize,
    /// Whether the map had to change, and with it everything.
    pub is_new: bool,
}

/// The lanes of a fabric after cables and switches were lost or came back: each turn keeps its lane, each
/// switch its next hops that are left. Switches without any get new ones, each only if all walks through
/// it leave the graph of dependencies without a cycle. Where a wide closure leaves no room for that, longer
/// ways are dropped first, then all that the tables in force do not use: those may still be mixed with new
/// ones. Where that fails, only turns that the tables in force take keep their lane, and only their next hops
/// by which packets still arrive stay: a change in two steps. Where that fails, all next hops to a home are
/// searched again. Where that fails too, the lanes of the whole fabric are.
///
/// Deterministic. O(homes × next hops × lanes) if little was lost.
pub fn mended(lanes: &FabricLanes, before: &Fabric, now: &Fabric, vls: LayerBudget) -> Mended {
    mend(&lanes.on(before, now), now, vls, None)
}

/// As [`mended`], of lanes that are on the fabric of now already: those of cables that it lost are gone.
/// Nothing is believed of them: all are put in order anew. Cables over which nothing leads, because they
/// came back or are new, get lanes and become next hops where they can. `in_force`: the tables of before,
/// on the fabric of now.
pub fn mend(lanes: &FabricLanes, now: &Fabric, vls: LayerBudget, in_force: Option<&Tables>) -> Mended {
    let graph = Graph::new(now);
    let terrain = Terrain::new(now, &graph);
    let hops = in_force.map(|tables| InForce::new(&terrain, now, tables, &lanes.closure));
    let nothing = Closure::empty(now);
    let used = hops.as_ref().map_or(&nothing, |hops| &hops.all);
    let keeping = [(Keep::All, 1), (Keep::Short, 1), (Keep::Used, orders(&graph))];
    let kept = |(keep, orders): (Keep, usize), may_replace: bool| {
        let make = || {
            let mut repair = Repair::known(&terrain, now, lanes);
            repair.may_replace = may_replace;
            repair.drop_but(keep, used);
            repair
        };
        Repair::in_some_order(make, &lanes.closure, orders)
    };
    let mut one_step = keeping.into_iter().filter(|(keep, _)| in_force.is_some() || *keep != Keep::Used);
    let repaired = one_step
        .find_map(|keep| kept(keep, false))
        .or_else(|| Repair::around(&terrain, now, lanes, hops.as_ref()?))
        .or_else(|| [Keep::All, Keep::Short].into_iter().find_map(|keep| kept((keep, 1), true)));
    match repaired {
        Some(repair) => {
            let replaced = homes_that_lack(&repair.sets, &lanes.closure, graph.switches());
            Mended { lanes: repair.lanes(now, &lanes.map), replaced, is_new: false }
        }
        None => Mended { lanes: fabric_lanes(now, vls).lanes, replaced: graph.switches(), is_new: true },
    }
}

/// Homes to which a closure lacks next hops that another one has.
fn homes_that_lack(now: &Closure, before: &Closure, homes: usize) -> usize {
    let lacks = |home: &SwitchId| {
        let mut words = before.of_home(*home).iter().zip(now.of_home(*home));
        words.any(|(before, now)| before & !now != 0)
    };
    (0..homes).map(SwitchId::at).filter(lacks).count()
}

/// Orders of homes in which ways are searched: the least and the most, and homes × channels of all together.
const ORDERS: (usize, usize) = (2, 32);
const ORDERED: usize = 4_000_000;
/// What a channel may cost in all orders but the first, in hops, less than.
const DEARER: usize = 4;

/// How many orders a fabric is worth.
fn orders(graph: &Graph) -> usize {
    (ORDERED / (graph.switches() * graph.channels()).max(1)).clamp(ORDERS.0, ORDERS.1)
}

/// Which next hops stay before others are added. Those that tables in force use always do, but for homes
/// that are searched again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    All,
    /// Where there is a shortest way, no other.
    Short,
    /// Only those of the tables in force.
    Used,
}

/// Lanes while they are mended.
struct Repair<'a> {
    terrain: &'a Terrain<'a>,
    space: Space<'a>,
    sets: Closure,
    /// What each home needs of the graph.
    uses: Vec<Use>,
    /// Turns whose lane is not settled, by number.
    is_free: Vec<bool>,
    /// See [`Grower`].
    price: Vec<u16>,
    /// Whether all next hops to a home may be searched again.
    may_replace: bool,
}

impl<'a> Repair<'a> {
    /// All turns between channels over which something leads keep their lane.
    fn known(terrain: &'a Terrain<'a>, fabric: &Fabric, lanes: &FabricLanes) -> Self {
        let mut is_known = vec![false; terrain.graph.channels()];
        for home in 0..terrain.graph.switches() {
            next_hops(terrain.graph, &lanes.closure, home).for_each(|c| is_known[c] = true);
        }
        let is_free = turns_that(terrain.graph, |from, to| !is_known[from] || !is_known[to]);
        Self::new(terrain, fabric, &lanes.map, Closure::clone(&lanes.closure), is_free)
    }

    fn new(
        terrain: &'a Terrain<'a>,
        fabric: &Fabric,
        map: &LaneMap,
        sets: Closure,
        is_free: Vec<bool>,
    ) -> Self {
        let space = frozen(terrain, fabric, map, &is_free);
        let uses = vec![Use::default(); terrain.graph.switches()];
        let price = vec![0; terrain.graph.channels()];
        Self { terrain, space, sets, uses, is_free, price, may_replace: false }
    }

    /// For a change in two steps, see [`InForce`]: only what tables in force lead over keeps its lanes, and only what
    /// still arrives there its next hops.
    fn around(
        terrain: &'a Terrain<'a>,
        fabric: &Fabric,
        lanes: &FabricLanes,
        in_force: &InForce,
    ) -> Option<Self> {
        let is_taken = in_force.turns(terrain.graph);
        let make = || {
            let is_free = is_taken.iter().map(|taken| !taken).collect();
            Self::new(terrain, fabric, &lanes.map, in_force.alive.clone(), is_free)
        };
        Self::in_some_order(make, &lanes.closure, orders(terrain.graph))
    }

    /// Mends in several orders at most, homes that stayed without a way before those that found one, and each time
    /// over other channels.
    fn in_some_order(make: impl Fn() -> Self, before: &Closure, orders: usize) -> Option<Self> {
        let (mut first, mut rng) = (Vec::new(), Rng::new(1));
        for order in 0..orders {
            let mut repair = make();
            if order > 0 {
                repair.price.iter_mut().for_each(|price| *price = rng.below(DEARER) as u16);
            }
            match repair.run(before, &first) {
                Ok(()) => return Some(repair),
                Err(lost) => {
                    first.retain(|home: &usize| !lost.contains(home));
                    first.splice(0..0, lost);
                }
            }
        }
        None
    }

    fn lanes(self, fabric: &Fabric, before: &Arc<LaneMap>) -> FabricLanes {
        FabricLanes { map: self.map(fabric, before), closure: Arc::new(self.sets) }
    }

    /// Drops the next hops that do not stay.
    fn drop_but(&mut self, keep: Keep, used: &Closure) {
        if keep == Keep::All {
            return;
        }
        let graph = self.terrain.graph;
        for (home, s) in (0..graph.switches()).flat_map(|home| (0..graph.switches()).map(move |s| (home, s)))
        {
            let hops = |at: usize| self.terrain.hops(home, at);
            let is_short = |slot: &usize| hops(graph.to(graph.out(s).start + slot)) < hops(s);
            let (of, at) = (SwitchId::at(s), SwitchId::at(home));
            let slots: Vec<usize> =
                (0..graph.out(s).len()).filter(|slot| self.sets.allows(of, at, *slot)).collect();
            let has_short = slots.iter().any(is_short);
            let stays = |slot: &usize| match keep {
                Keep::All => true,
                Keep::Short => is_short(slot) || !has_short,
                Keep::Used => false,
            };
            for slot in slots.iter().filter(|slot| !stays(slot) && !used.allows(of, at, **slot)) {
                self.sets.set(of, at, *slot, false);
            }
        }
    }

    /// Mends the sets, of these homes first; those that stay without a way, if any, or one whose ways lead back and
    /// forth. What was dropped of `before` comes back where it can.
    fn run(&mut self, before: &Closure, first: &[usize]) -> Result<(), Vec<usize>> {
        let (n, sets) = (self.terrain.graph.switches(), &mut self.sets);
        self.space.is_unordered = true;
        let mut grower = Grower::new(self.terrain, &mut self.space);
        grower.price.clone_from(&self.price);
        let mut broken = Vec::new();
        for (home, of) in self.uses.iter_mut().enumerate() {
            if !grower.try_begin(home, sets, of) {
                return Err(vec![home]);
            }
            if !grower.lost().is_empty() {
                broken.push(home);
            }
        }
        if !grower.space.sort() {
            return Err(Vec::new());
        }
        broken.sort_by_key(|home| first.iter().position(|other| other == home).unwrap_or(n));
        let mut lost = Vec::new();
        for home in &broken {
            let of = &mut self.uses[*home];
            grower.begin(*home, sets, of);
            if !grower.complete(sets, of) {
                lost.push(*home);
            }
        }
        if !lost.is_empty() && !self.may_replace {
            return Err(lost);
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
                return Err(vec![*home]);
            }
            self.uses[*home] = of;
        }
        self.widen(before, broken);
        Ok(())
    }

    /// More next hops: shortest ways to homes that needed others, to all where cables came back, and what was dropped.
    fn widen(&mut self, before: &Closure, broken: Vec<usize>) {
        let (n, sets) = (self.terrain.graph.switches(), &mut self.sets);
        let mut grower = Grower::new(self.terrain, &mut self.space);
        let came_back = self.is_free.contains(&true);
        if came_back {
            grower.space.steps = STEPS;
        }
        let homes = if came_back { (0..n).collect() } else { broken };
        let is_wide = n * self.terrain.graph.channels() > LOOKS;
        for home in homes.iter().copied() {
            if is_wide {
                grower.tries = TRIES / homes.len();
            }
            grower.begin(home, sets, &mut self.uses[home]);
            grower.grow(0, sets, &mut self.uses[home]);
        }
        grower.space.steps = STEPS;
        for home in 0..n {
            let at = SwitchId::at(home);
            if sets.of_home(at) != before.of_home(at) {
                grower.begin(home, sets, &mut self.uses[home]);
                grower.restore(before, sets, &mut self.uses[home]);
            }
        }
    }

    /// The map of before, with the lanes that turns of unknown channels got.
    fn map(&self, fabric: &Fabric, before: &Arc<LaneMap>) -> Arc<LaneMap> {
        if !self.is_free.contains(&true) {
            return Arc::clone(before);
        }
        let graph = self.terrain.graph;
        let mut channel = vec![0; graph.channels()];
        (0..graph.channels()).for_each(|c| channel[graph.id(c).index()] = c);
        let (behind, parts) = (self.space.all_lanes(), before.vls_per_lane());
        Arc::new(LaneMap::fill(fabric, |s, from, to| {
            let (Some(PortPeer::Channel(back)), Some(PortPeer::Channel(next))) =
                (fabric.peer(s, from), fabric.peer(s, to))
            else {
                return *before.row(s, from, to);
            };
            let (into, next) = (channel[back.reverse().index()], channel[next.index()]);
            match self.space.links.turn(into, next) {
                Some(turn) if self.is_free[turn.id] => {
                    vls::row(behind[turn.id], parts, rank(fabric, s, from))
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
    let settled = turns_that(terrain.graph, |_, _| false);
    let (mut more, mut uses) = (sets.clone(), vec![Use::default(); n]);
    let mut space = frozen(terrain, fabric, map, &settled);
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

/// The graph in which every turn that is not free has the lane of a map for good, without
/// dependencies. Lanes are those of the map, each of which may be several VLs.
fn frozen<'a>(terrain: &Terrain<'a>, fabric: &Fabric, map: &LaneMap, is_free: &[bool]) -> Space<'a> {
    let graph = terrain.graph;
    let parts = map.vls_per_lane();
    let lanes = usize::from(map.vls().div_ceil(parts));
    let order: Vec<u32> = (0..(graph.channels() * lanes) as u32).collect();
    let mut space = Space::new(graph, lanes, &order);
    let port = |c: usize| PortNum::at(graph.port(c));
    for from in 0..graph.channels() {
        let at = SwitchId::at(graph.to(from));
        for to in graph.out(at.index()) {
            let turn = space.links.turn(from, to).filter(|turn| !is_free[turn.id]);
            if let Some(turn) = turn {
                let vl = map.row(at, port(graph.reverse(from)), port(to))[0];
                space.pin(turn, vl.get() / parts);
            }
        }
    }
    for c in 0..graph.channels() {
        let s = SwitchId::at(graph.from(c));
        let starts = fabric.attached(s).iter().map(|t| fabric.terminal(*t).port);
        let hosts = starts.fold(0, |all, p| all | 1u16 << (map.row(s, p, port(c))[0].get() / parts));
        space.enter[c] = [hosts, 1 << (map.row(s, PortNum::ZERO, port(c))[0].get() / parts)];
    }
    space
}
