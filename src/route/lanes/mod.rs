//! Lane map and closure of a fabric: what is computed once, and keeps all traffic free of cycles
//! whatever SL it carries and whichever tables inside the closure switches have.
//!
//! Switches choose the VL by in port and out port. Packets start on lane 0; behind a turn they are on
//! the turn's lane. A dependency leads from a channel on a lane to the next one on the lane behind the
//! turn; there must be no cycle of these (Dally and Seitz 1987).
//!
//! 1. Trees, fabrics of diameter two, full dragonflies and whole meshes have a rule (`rules`).
//! 2. Everywhere else routes and lanes are searched together (`search`), one tree per home switch, in a
//!    graph of dependencies that has an order at any time (`space`), with a spanning tree as the escape (`escape`).
//!    The first order is that of `first`; where a tree would leave a switch out, another one makes room (`room`).
//! 3. Next hops are added to these trees one by one (`grow`), each only if all walks that it makes
//!    possible, on all lanes that they can have, leave the graph without a cycle. Tables that choose
//!    inside the result need no other check (`choose`).
//! 4. VLs that are left keep waiting packets apart: a lane becomes several VLs, by SL (`vls`). That only
//!    splits nodes of the graph, so no cycle can come of it.

mod choose;
mod escape;
mod first;
mod grow;
mod in_force;
mod mend;
mod room;
mod rules;
mod search;
mod space;
mod terrain;
mod tree;
mod vls;

use std::sync::Arc;

pub use self::choose::{Kept, are_inside, choose, is_inside, is_inside_at};
use self::first::Start;
use self::grow::Grower;
use self::mend::regrown;
pub use self::mend::{Mended, mend, mended};
use self::search::LaneSearch;
use self::terrain::{NONE, Terrain};
pub use self::tree::TreeWays;
use self::vls::Vls;
use super::cdg::Dependencies;
use super::graph::Graph;
use crate::model::{Closure, Fabric, FabricLanes, LayerBudget, SwitchId};

/// Lanes that searches use. With four the fullest channel of random and regular graphs is a little lighter, but
/// jobs take longer: the VLs that are left keep waiting packets apart.
const LANES: u8 = 2;
/// Searches, at most, and channels that they look at together. A search that leaves someone on the
/// escape tree is followed by another one in any case, up to [`LEAST`].
const TRIES: usize = 16;
const LEAST: usize = 3;
const WORK: usize = 1_200_000;
/// Rounds after which the best of several starts goes on alone.
const RACE: usize = 3;
/// Load of the fullest channel, as a multiple of the mean, at which no other search is made.
const LIGHT: f64 = 1.02;
/// Searches in the order per dependency while the closure grows.
const STEPS: usize = 300;
/// Channels looked at for next hops that are no shortest way, at most.
const LOOKS: usize = 40_000_000;
/// Next hops that are no shortest way tried, at most: more would take longer than all searches.
const LONGER: usize = 4_000_000;

/// What was found for a fabric.
#[derive(Debug, Clone)]
pub struct Found {
    /// Map and closure.
    pub lanes: FabricLanes,
    /// How the map was found.
    pub way: Way,
}

impl Found {
    /// Whether the closure is safe with this map only. That of a tree is safe with any.
    pub fn needs_map(&self) -> bool {
        self.way != Way::Tree
    }
}

/// How lanes were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Up, and then down: safe on any lanes.
    Tree,
    /// By the structure of the fabric.
    Rule,
    /// By a search; so many home switches are reached by the escape tree, and what was added to it.
    Search {
        /// Homes left on the escape tree.
        escaped: usize,
    },
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tree => write!(f, "a tree, up and then down"),
            Self::Rule => write!(f, "by the fabric's structure"),
            Self::Search { escaped: 0 } => write!(f, "by search"),
            Self::Search { escaped } => write!(f, "by search, {escaped} switches reached by the escape tree"),
        }
    }
}

/// Whether the fabric is a tree, perhaps with cables that are lost ([`tree_ways`]): all traffic is safe on any
/// lanes then. O(switches × channels).
pub fn is_tree(fabric: &Fabric) -> bool {
    tree_ways(fabric).is_some()
}

/// The ways of a tree: tables inside may be mixed as they like. Those of the last fabrics are remembered.
/// O(switches × channels).
pub fn tree_ways(fabric: &Fabric) -> Option<Arc<TreeWays>> {
    tree::remembered(fabric, || {
        let graph = Graph::new(fabric);
        tree::tree_ways(fabric, &Terrain::new(fabric, &graph))
    })
}

/// Lane map and closure for so many VLs. Always an answer: with one VL, and where nothing better is
/// found, an escape tree is part of it.
///
/// Deterministic. O(homes × channels × rounds × starts), and as much again for each next hop.
pub fn fabric_lanes(fabric: &Fabric, vls: LayerBudget) -> Found {
    let graph = Graph::new(fabric);
    let terrain = Terrain::new(fabric, &graph);
    if let Some(rule) = rules::find(fabric, &terrain, vls.get()) {
        let map = Vls::new(vls, rule.behind + 1).map(fabric, &graph, |_, _| rule.behind);
        let sets = if rule.is_tree { rule.sets } else { regrown(fabric, &terrain, &map, rule.sets) };
        let lanes = FabricLanes { map: Arc::new(map), closure: Arc::new(sets) };
        let way = if rule.is_tree { Way::Tree } else { Way::Rule };
        return Found { lanes, way };
    }
    let starts = Start::all(&terrain);
    let looks = (graph.switches() * graph.channels()).max(1);
    let tries = (WORK / looks).clamp(1, TRIES);
    let mut best: Option<Attempt> = None;
    for at in 0..tries.max(LEAST) {
        if best.as_ref().is_some_and(|best| best.escaped == 0 && (at >= tries || best.is_light)) {
            break;
        }
        // Each start in turn, where there is time for all of them.
        let starts = if tries < starts.len() { starts } else { &starts[at % starts.len()..][..1] };
        let lanes = vls.get().min(LANES);
        let search = raced(&terrain, lanes, at as u64 + 1, starts);
        let attempt = Attempt::new(fabric, &terrain, lanes, search, tries > 1);
        if best.as_ref().is_none_or(|best| attempt.is_better(best)) {
            best = Some(attempt);
        }
    }
    let Some(Attempt { lanes, escaped, sets, behind, .. }) = best else {
        unreachable!("there is at least one search")
    };
    let turns = Dependencies::new(&graph);
    let map = Vls::new(vls, lanes).map(fabric, &graph, |from, to| behind[turns.id(from, to)]);
    let lanes = FabricLanes { map: Arc::new(map), closure: Arc::new(sets) };
    Found { lanes, way: Way::Search { escaped } }
}

/// What the search of one seed found.
struct Attempt {
    lanes: u8,
    /// Homes left on the escape tree.
    escaped: usize,
    /// Most routes between hosts on a channel; 0 if there is nothing to compare with.
    fullest: f64,
    is_light: bool,
    sets: Closure,
    /// Lane behind each turn.
    behind: Vec<u8>,
}

impl Attempt {
    fn new<'a>(
        fabric: &Fabric,
        terrain: &'a Terrain<'a>,
        lanes: u8,
        mut search: LaneSearch<'a>,
        compare: bool,
    ) -> Self {
        let (escaped, _) = search.run(usize::MAX);
        let (sets, behind) = widen(fabric, terrain, search);
        let fullest = if compare { choose::fullest(fabric, terrain.graph, &sets) } else { 0.0 };
        let is_light = fullest <= LIGHT * terrain.mean_load();
        Self { lanes, escaped, fullest, is_light, sets, behind }
    }

    fn is_better(&self, other: &Self) -> bool {
        (self.escaped, self.fullest) < (other.escaped, other.fullest)
    }
}

/// The search of the start that is ahead after some rounds.
fn raced<'a>(terrain: &'a Terrain<'a>, lanes: u8, seed: u64, starts: &[Start]) -> LaneSearch<'a> {
    let search = |start: &Start| {
        let mut search = LaneSearch::new(terrain, usize::from(lanes), seed, *start);
        (search.run(RACE), search)
    };
    let mut best = search(&starts[0]);
    for start in &starts[1..] {
        let other = search(start);
        if other.0 < best.0 {
            best = other;
        }
    }
    best.1
}

/// The closure around the trees of a search, and the lane behind each turn.
fn widen<'a>(fabric: &Fabric, terrain: &'a Terrain<'a>, mut search: LaneSearch<'a>) -> (Closure, Vec<u8>) {
    let n = terrain.graph.switches();
    let mut sets = Closure::empty(fabric);
    for (at, slot) in search.rows.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
        sets.set(SwitchId::at(at % n), SwitchId::at(at / n), usize::from(*slot), true);
    }
    let mut homes: Vec<usize> = (0..n).filter(|h| terrain.is_home(*h)).collect();
    crate::model::rng::Rng::new(1).shuffle(&mut homes);
    search.space.steps = STEPS;
    search.space.forget_refused();
    let mut grower = Grower::new(terrain, &mut search.space);
    let is_small = homes.len() * terrain.graph.channels() <= LOOKS;
    for longer in 0..=u16::from(is_small) {
        grower.most = if longer == 0 { usize::MAX } else { LONGER / homes.len().max(1) };
        for home in &homes {
            let of = &mut search.uses[*home];
            grower.begin(*home, &sets, of);
            grower.grow(longer, &mut sets, of);
        }
    }
    let behind = search.space.all_lanes();
    (sets, behind)
}
