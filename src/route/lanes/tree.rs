//! Trees: up, and then down. The dependencies on channels up, ordered by height, and then on channels down have no
//! cycle, whatever is mixed and whatever the lane: a switch above a home goes down, every other one up.
//!
//! Where cables are lost a switch in the middle of a tree may be reached from a leaf only by a way that climbs
//! again, and may answer only by one. Such ways are added one by one, each only if all dependencies together
//! still have an order. Hosts among themselves need none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::choose::{is_inside_at, is_next_hop};
use super::grow::Grower;
use super::rules::distinct;
use super::space::{Space, Use};
use super::terrain::{FAR, Terrain};
use crate::model::{Closure, DestId, Fabric, Fingerprint, PortPeer, SwitchId, Tables};
use crate::route::graph::{Graph, is_indirect};
use crate::route::updown::{Distances, histogram_roots};

/// How much longer routes up and down may be than the shortest, in percent of all hops.
const DETOUR: u64 = 2;

/// Of the cables of a tree, one in so many may join two switches of one height. Nobody is led over these.
const LEVEL: usize = 64;
/// Of the hosts of a tree, one in so many may be above the leaves.
const ABOVE: u64 = 20;
/// Routes that climb again turn at one leaf. They may add one part in so many to what its cables carry, on average.
const ADDED: u64 = 4;

/// Next hops in a tree that may be mixed as one likes, on any lanes.
pub struct TreeWays {
    /// Shortest ways up and then down, and those that climb again.
    pub closure: Closure,
    /// By home: switches without a way up and then down.
    without: Vec<Vec<SwitchId>>,
}

impl TreeWays {
    /// These tables with ways that climb again where some are needed, if all their other routes are ways up and then
    /// down, else as they were. Mixed with others, ways that climb again may close a cycle. O(destinations × switches
    /// × ports).
    ///
    /// # Errors
    /// The tables, untouched.
    pub fn complete(&self, fabric: &Fabric, tables: Tables) -> Result<Tables, Tables> {
        let is_way = |d: DestId| {
            let without = &self.without[fabric.home(d).index()];
            let mut led =
                fabric.switch_ids().filter(|s| *s != fabric.home(d) && without.binary_search(s).is_err());
            led.all(|s| is_inside_at(fabric, &self.closure, &tables, (s, d)))
        };
        let dests: Vec<DestId> = fabric.dest_ids().collect();
        if !dests.into_par_iter().all(is_way) {
            return Err(tables);
        }
        Ok(self.with_lost_ways(fabric, tables))
    }

    /// These tables, all of whose other routes are ways up and then down, with ways that climb again where some are
    /// needed. O(destinations + switches without a way).
    fn with_lost_ways(&self, fabric: &Fabric, tables: Tables) -> Tables {
        let n = fabric.switches().len();
        tables.edited(|ports, layers| {
            for d in fabric.dest_ids() {
                let home = fabric.home(d);
                for s in &self.without[home.index()] {
                    let Some(way) = self.closure.ways(fabric, *s, home).next() else { continue };
                    let at = d.index() * n + s.index();
                    ports[at] = fabric.channel(way).from_port.get();
                    if fabric.has_hosts(*s) && layers[at] == Tables::NO_LAYER {
                        layers[at] = 0;
                    }
                }
            }
        })
    }

    /// Tables between those of before and new ones, both of which are in force while switches change. Where hosts
    /// still get to a destination by next hops of before, these stay. There are only ways up and then down: one
    /// that climbs again may lead to where the other tables come from. Between hosts all is there.
    /// O(destinations × switches × ports).
    pub fn halfway(&self, fabric: &Fabric, before: &Tables, now: &Tables) -> Tables {
        let n = fabric.switches().len();
        let is_way = |s, d| is_next_hop(fabric, &self.closure, before, s, d);
        now.clone().edited(|ports, layers| {
            for d in fabric.dest_ids() {
                let (home, first) = (fabric.home(d), d.index() * n);
                let without = &self.without[home.index()];
                without.iter().for_each(|s| ports[first + s.index()] = Tables::UNREACHABLE);
                without.iter().for_each(|s| layers[first + s.index()] = Tables::NO_LAYER);
                let is_led = |s: &SwitchId| *s != home && without.binary_search(s).is_err();
                let (known, unknown): (Vec<SwitchId>, Vec<SwitchId>) =
                    fabric.switch_ids().filter(is_led).partition(|s| is_way(*s, d));
                let stays = before.port(home, d) == now.port(home, d);
                if !stays || unknown.iter().any(|s| fabric.has_hosts(*s)) {
                    continue;
                }
                for at in known.into_iter().map(SwitchId::index) {
                    ports[first + at] = before.ports_to(d)[at];
                    layers[first + at] = before.layers_to(d)[at];
                }
                // Where packets arrive before by no way of now, they climb again.
                for s in unknown.into_iter().filter(|s| arrives(fabric, before, *s, d)) {
                    ports[first + s.index()] = Tables::UNREACHABLE;
                }
            }
        })
    }
}

/// Whether packets to a destination arrive from a switch. O(hops).
fn arrives(fabric: &Fabric, tables: &Tables, from: SwitchId, d: DestId) -> bool {
    let next = |s: &SwitchId| match fabric.peer(*s, tables.port(*s, d)?) {
        Some(PortPeer::Channel(c)) => Some(fabric.channel(c).to),
        _ => None,
    };
    std::iter::successors(Some(from), next).take(fabric.switches().len()).any(|s| s == fabric.home(d))
}

/// The ways of a tree; `None` if the fabric is none, or cables are missing between leaves.
/// O(switches × channels).
pub(super) fn tree_ways(fabric: &Fabric, terrain: &Terrain<'_>) -> Option<TreeWays> {
    let ways = |height: Vec<u32>| ways_by(fabric, terrain, &height);
    let mut found = Vec::new();
    if is_indirect(terrain.graph.terminals()) {
        let over_hosts = over_hosts(terrain);
        found.extend(over_hosts.clone().and_then(ways));
        if found.is_empty() || !are_equally_far(terrain) {
            let others = below_roots(terrain).filter(|height| Some(height) != over_hosts.as_ref());
            found.extend(others.and_then(ways));
        }
    }
    if found.is_empty() {
        found.extend(one_way_tree(terrain).and_then(ways));
    }
    // Of two the one that leaves more next hops; the first of equal ones.
    found.into_iter().reduce(|a, b| if b.0 > a.0 { b } else { a }).map(|found| found.1)
}

/// The ways by these heights, and how many next hops there are.
fn ways_by(fabric: &Fabric, terrain: &Terrain<'_>, height: &[u32]) -> Option<(usize, TreeWays)> {
    let graph = terrain.graph;
    let n = graph.switches();
    let homes = || (0..n).filter(|s| terrain.is_home(*s) && !graph.out(*s).is_empty());
    let lowest = homes().map(|s| height[s]).min()?;
    let leaves = || homes().filter(|s| height[*s] == lowest);
    let mut next_hops = 0;
    let mut closure = Closure::empty(fabric);
    let mut by_height: Vec<usize> = (0..n).collect();
    by_height.sort_by_key(|s| height[*s]);
    let (mut hops, mut shortest, mut carried, mut lost) = (0, 0, 0, 0);
    let hosts = |s: usize| u64::from(graph.terminals()[s]);
    let mut without = Vec::with_capacity(n);
    for home in 0..n {
        let length = up_and_down(graph, height, &by_height, home);
        let mut lacking = Vec::new();
        for s in (0..n).filter(|s| terrain.hops(home, *s) != FAR && *s != home) {
            let between_hosts = terrain.is_home(home) && terrain.is_home(s);
            let Some((own, is_above)) = length[s] else {
                if between_hosts && height[home] == lowest && height[s] == lowest {
                    return None;
                }
                lost += hosts(home) * hosts(s);
                lacking.push(SwitchId::at(s));
                continue;
            };
            if between_hosts {
                hops += u64::from(own);
                carried += hosts(home) * hosts(s) * u64::from(own);
                shortest += u64::from(terrain.hops(home, s));
            }
            for (slot, to) in graph.neighbours(s).iter().enumerate() {
                let to = *to as usize;
                let is_down = height[to] < height[s];
                let leads = length[to].is_some_and(|(h, above)| h + 1 == own && (above || !is_above));
                if height[to] != height[s] && is_down == is_above && leads {
                    next_hops += 1;
                    closure.set(SwitchId::at(s), SwitchId::at(home), slot, true);
                }
            }
        }
        without.push(lacking);
    }
    let ups = |s: usize| graph.out(s).filter(|c| height[graph.to(*c)] > height[s]).count() as u64;
    let ups = leaves().map(ups).min()?;
    if 100 * hops > (100 + DETOUR) * shortest || lost * ADDED * graph.channels() as u64 > carried * ups {
        return None;
    }
    let closure = climb_again(terrain, height, &without, closure)?;
    Some((next_hops, TreeWays { closure, without }))
}

/// What was found for a fabric; `None` if it needs lanes.
type Known = (Fingerprint, Option<Arc<TreeWays>>);

/// What is found for a fabric, once: a service asks for it several times in every pass, with aggregation nodes and
/// without. The answer is the same as if it was searched again.
pub(super) fn remembered(fabric: &Fabric, find: impl FnOnce() -> Option<TreeWays>) -> Option<Arc<TreeWays>> {
    static LAST: Mutex<VecDeque<Known>> = Mutex::new(VecDeque::new());
    let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = last().iter().find(|(of, _)| *of == fabric.fingerprint()) {
        return known.clone();
    }
    let found = find().map(Arc::new);
    let mut last = last();
    last.truncate(1);
    last.push_front((fabric.fingerprint(), found.clone()));
    found
}

/// Leaves at which ways turn, at most.
const PIVOTS: usize = 4;

/// Adds ways to homes that some switches do not reach up and then down; `None` if someone who sends stays without.
/// Where all of them turn at one and the same leaf, the pivot, or above it, they seldom close a cycle. Another leaf, to
/// which other switches have no way, serves who has none to the first. Then the first serves those who needed the other
/// one's. What is left takes any way that closes no cycle.
fn climb_again(
    terrain: &Terrain<'_>,
    height: &[u32],
    without: &[Vec<SwitchId>],
    mut closure: Closure,
) -> Option<Closure> {
    let starts = |home: &usize| without[*home].iter().any(|s| terrain.starts(*home, s.index()));
    let mut broken: Vec<usize> = (0..without.len()).filter(starts).collect();
    if broken.is_empty() {
        return Some(closure);
    }
    // Those with the most ways up and then down come first.
    let mut lacks: Vec<usize> = without.iter().map(Vec::len).collect();
    without.iter().flatten().for_each(|s| lacks[s.index()] += 1);
    let mut leaves: Vec<usize> = (0..without.len()).filter(|s| terrain.is_home(*s)).collect();
    leaves.sort_by_key(|s| lacks[*s]);
    let mut space = climbing(terrain.graph, height);
    let mut grower = Grower::new(terrain, &mut space);
    let mut pivots = apart(without, &leaves).repeat(2).into_iter().map(Some).chain([None]);
    let is_whole = pivots.any(|pivot| {
        broken.retain(|home| !lead_all(&mut grower, *home, pivot, &mut closure));
        broken.is_empty()
    });
    is_whole.then_some(closure)
}

/// The first of these leaves, and others in their order, such that no home has no way from two of them: the leaves of
/// one part of a tree lack the same ones.
fn apart(without: &[Vec<SwitchId>], leaves: &[usize]) -> Vec<usize> {
    let lacks = |home: &[SwitchId], leaf: usize| home.binary_search(&SwitchId::at(leaf)).is_ok();
    let mut found: Vec<usize> = Vec::new();
    for leaf in leaves.iter().copied() {
        let is_apart = |other: &usize| !without.iter().any(|home| lacks(home, leaf) && lacks(home, *other));
        if found.len() < PIVOTS && found.iter().all(is_apart) {
            found.push(leaf);
        }
    }
    found
}

/// Leads switches to a home that have no way there, by a pivot or else by any way; whether all have one then that send.
fn lead_all(grower: &mut Grower<'_, '_>, home: usize, pivot: Option<usize>, sets: &mut Closure) -> bool {
    let mut of = Use::default();
    grower.begin_known(home, sets, &mut of);
    let without = grower.without();
    match pivot {
        // Who has no way to the pivot itself is led by another one.
        Some(pivot) if pivot == home => {}
        Some(pivot) => grower.lead_by(pivot, &without, sets, &mut of),
        None => drop(grower.lead(without.clone(), sets, &mut of)),
    }
    let is_whole = grower.lost().is_empty();
    grower.drop_unused(&without, sets);
    is_whole
}

/// The graph of one lane with every turn, and the dependencies of all that climb and then descend.
fn climbing<'a>(graph: &'a Graph, height: &[u32]) -> Space<'a> {
    let is_up = |c: usize| height[graph.to(c)] > height[graph.from(c)];
    let mut order: Vec<u32> = (0..graph.channels() as u32).collect();
    order.sort_by_key(|c| {
        let (c, from) = (*c as usize, height[graph.from(*c as usize)]);
        if is_up(c) { (0, from) } else { (1, u32::MAX - from) }
    });
    let mut space = Space::new(graph, 1, &order);
    space.is_unordered = true;
    for from in 0..graph.channels() {
        for to in graph.out(graph.to(from)) {
            let Some(turn) = space.links.turn(from, to) else { continue };
            space.pin(turn, 0);
            let is_level = [from, to].iter().any(|c| height[graph.from(*c)] == height[graph.to(*c)]);
            if !is_level && (is_up(from) || !is_up(to)) {
                space.add(turn, 0);
            }
        }
    }
    space.is_unordered = false;
    space
}

/// Length of the shortest way up and then down to a home, and whether it only goes down.
fn up_and_down(graph: &Graph, height: &[u32], by_height: &[usize], home: usize) -> Vec<Option<(u32, bool)>> {
    let mut length: Vec<Option<(u32, bool)>> = vec![None; height.len()];
    length[home] = Some((0, true));
    for s in by_height.iter().copied().filter(|s| *s != home) {
        let below = graph.neighbours(s).iter().filter(|to| height[**to as usize] < height[s]);
        let down = below.filter_map(|to| length[*to as usize]).map(|(h, _)| h + 1).min();
        length[s] = down.map(|h| (h, true));
    }
    for s in by_height.iter().rev().copied() {
        if length[s].is_none() {
            let above = graph.neighbours(s).iter().filter(|to| height[**to as usize] > height[s]);
            length[s] = above.filter_map(|to| length[*to as usize]).map(|(h, _)| (h + 1, false)).min();
        }
    }
    length
}

/// Whether hardly any cable joins two switches of one height.
fn is_levelled(graph: &Graph, height: &[u32]) -> bool {
    let level = (0..graph.channels()).filter(|c| height[graph.from(*c)] == height[graph.to(*c)]).count();
    level * LEVEL <= graph.channels()
}

/// Heights by hops from the nearest host.
fn over_hosts(terrain: &Terrain<'_>) -> Option<Vec<u32>> {
    let height = over(terrain, |s| terrain.is_home(s));
    is_levelled(terrain.graph, &height).then_some(height)
}

/// Hops from the nearest of these switches.
fn over(terrain: &Terrain<'_>, is_lowest: impl Fn(usize) -> bool) -> Vec<u32> {
    let lowest: Vec<usize> = (0..terrain.graph.switches()).filter(|s| is_lowest(*s)).collect();
    let nearest = |s: usize| lowest.iter().map(|t| terrain.hops(*t, s)).min();
    (0..terrain.graph.switches()).map(|s| u32::from(nearest(s).unwrap_or(0))).collect()
}

/// Whether no host is nearer to the others than most, as on a top.
fn are_equally_far(terrain: &Terrain<'_>) -> bool {
    let homes = || (0..terrain.graph.switches()).filter(|s| terrain.is_home(*s));
    let mut far = homes().map(|s| homes().map(|t| terrain.hops(t, s)).max());
    let first = far.next();
    far.all(|far| Some(far) == first)
}

/// Heights by hops from the roots that OpenSM's statistics find, if hardly a host is above the leaves. Where cables are out
/// it may find no root of some planes, which would hang below the leaves, of no use: then by hops from the leaves.
fn below_roots(terrain: &Terrain<'_>) -> Option<Vec<u32>> {
    let (graph, n) = (terrain.graph, terrain.graph.switches());
    let roots = histogram_roots(graph, &Distances::new(graph));
    let from_root = |s: usize| roots.iter().map(|r| terrain.hops(*r, s)).min().unwrap_or(0);
    let height: Vec<u32> = (0..n).map(|s| u32::from(u16::MAX - from_root(s))).collect();
    let hosts = |above: &dyn Fn(u32) -> bool| -> u64 {
        let at = |s: &usize| terrain.is_home(*s) && above(height[*s]);
        (0..n).filter(at).map(|s| u64::from(graph.terminals()[s])).sum()
    };
    let leaves = (0..n).filter(|s| terrain.is_home(*s)).map(|s| height[s]).filter(|h| *h > 0).min();
    let few_above = hosts(&|height| Some(height) > leaves) * ABOVE <= hosts(&|_| true);
    let hangs = (0..graph.channels()).any(|c| Some(height[graph.from(c)]) < leaves);
    let height =
        if hangs { over(terrain, |s| terrain.is_home(s) && Some(height[s]) == leaves) } else { height };
    (!roots.is_empty() && few_above && is_levelled(graph, &height)).then_some(height)
}

/// Heights of a tree in which all cables between two switches are the only way between them.
fn one_way_tree(terrain: &Terrain<'_>) -> Option<Vec<u32>> {
    let (graph, n) = (terrain.graph, terrain.graph.switches());
    let pairs: usize = (0..n).map(|s| distinct(graph, s).len()).sum();
    let part = graph.components();
    let parts = (0..n).filter(|s| part[*s] as usize == *s).count();
    let from_first: Vec<u32> = (0..n).map(|s| u32::from(terrain.hops(part[s] as usize, s))).collect();
    (pairs == 2 * (n - parts)).then_some(from_first)
}
