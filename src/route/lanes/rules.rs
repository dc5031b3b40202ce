//! Fabrics whose structure says which next hops no mixture can close a cycle with: no search.

use super::first::is_whole;
use super::terrain::{FAR, Terrain};
use super::tree::{remembered, tree_ways};
use crate::model::{Closure, Fabric, SwitchId};
use crate::route::graph::Graph;

/// Next hops by a rule, and the lane behind all turns between switches (packets start on lane 0).
pub(super) struct Rule {
    pub(super) sets: Closure,
    pub(super) behind: u8,
    /// Whether it is a tree: safe on any lanes.
    pub(super) is_tree: bool,
}

/// The first rule that reaches everyone with so many lanes.
pub(super) fn find(fabric: &Fabric, terrain: &Terrain<'_>, lanes: u8) -> Option<Rule> {
    let ways = || remembered(fabric, || tree_ways(fabric, terrain));
    let rule = |behind, is_tree| move |sets| Rule { sets, behind, is_tree };
    let tree = || ways().map(|ways| ways.closure.clone()).map(rule(0, true));
    let two = || two_hops(fabric, terrain).or_else(|| dragonfly(fabric, terrain)).map(rule(1, false));
    let one = || mesh(fabric, terrain).map(rule(0, false));
    tree().or_else(|| (lanes > 1).then(two).flatten()).or_else(one)
}

/// One dimension after the other, on a mesh that is whole: no packet turns back into a dimension, so nothing waits in a
/// circle on one lane.
fn mesh(fabric: &Fabric, terrain: &Terrain<'_>) -> Option<Closure> {
    let grid = terrain.grid.as_ref().filter(|grid| is_whole(terrain, grid))?;
    // A ring of two is a line. On a hypercube a search finds a wider closure.
    let is_ring = |(wrap, size): (&bool, &u16)| *wrap && *size > 2;
    if grid.wrap.iter().zip(&grid.sizes).any(is_ring) || grid.sizes.iter().all(|size| *size <= 2) {
        return None;
    }
    let (graph, n) = (terrain.graph, terrain.graph.switches());
    let mut sets = Closure::empty(fabric);
    for (home, s) in (0..n).flat_map(|home| (0..n).map(move |s| (home, s))) {
        let (at, to) = (grid.at(s), grid.at(home));
        let Some(d) = (0..at.len()).find(|d| at[*d] != to[*d]) else { continue };
        for c in grid.ways(s, d, at[d] < to[d]) {
            let slot = usize::from(graph.slot_at(s, *c as usize));
            sets.set(SwitchId::at(s), SwitchId::at(home), slot, true);
        }
    }
    Some(sets)
}

/// Switches beside a switch, ascending.
pub(super) fn distinct(graph: &Graph, s: usize) -> Vec<u32> {
    let mut beside = graph.neighbours(s).to_vec();
    beside.sort_unstable();
    beside.dedup();
    beside
}

/// All routes of at most two hops: nothing waits behind the second channel, which no packet starts on
/// lane 1 of.
fn two_hops(fabric: &Fabric, terrain: &Terrain<'_>) -> Option<Closure> {
    let (graph, n) = (terrain.graph, terrain.graph.switches());
    let starts = |home, s| terrain.hops(home, s) != FAR && terrain.starts(home, s);
    let is_near = |home| (0..n).all(|s| !starts(home, s) || terrain.hops(home, s) <= 2);
    if !(0..n).all(is_near) {
        return None;
    }
    let mut sets = Closure::empty(fabric);
    for home in 0..n {
        for s in (0..n).filter(|s| (1..=2).contains(&terrain.hops(home, *s))) {
            for (slot, to) in graph.neighbours(s).iter().enumerate() {
                if terrain.hops(home, *to as usize) + 1 == terrain.hops(home, s) {
                    sets.set(SwitchId::at(s), SwitchId::at(home), slot, true);
                }
            }
        }
    }
    Some(sets)
}

/// Full dragonflies: at most one cable of a group, one between groups, one of the other group. A
/// channel between groups is entered on lane 0 or 1, one inside the last group on lane 1, and behind
/// that nothing waits.
fn dragonfly(fabric: &Fabric, terrain: &Terrain<'_>) -> Option<Closure> {
    let (graph, n) = (terrain.graph, terrain.graph.switches());
    let group = groups(graph)?;
    let mut sets = Closure::empty(fabric);
    for home in 0..n {
        let leads = |s: usize| graph.neighbours(s).iter().any(|to| group[*to as usize] == group[home]);
        let has_global: Vec<bool> = (0..n).map(leads).collect();
        for s in (0..n).filter(|s| *s != home) {
            for (slot, to) in graph.neighbours(s).iter().enumerate() {
                let to = *to as usize;
                let leads = match (group[s] == group[home], has_global[s]) {
                    (true, _) => to == home,
                    (false, true) => group[to] == group[home],
                    (false, false) => group[to] == group[s] && has_global[to],
                };
                if leads {
                    sets.set(SwitchId::at(s), SwitchId::at(home), slot, true);
                }
            }
        }
    }
    Some(sets)
}

/// Groups in which any two switches have a cable, any two of which have a cable.
///
/// Switches of one group have many neighbours in common, those of two groups few: cables are sorted out
/// by how many their ends share, for each number that occurs.
fn groups(graph: &Graph) -> Option<Vec<u32>> {
    let n = graph.switches();
    let beside: Vec<Vec<u32>> = (0..n).map(|s| distinct(graph, s)).collect();
    let shared = |a: usize, b: usize| beside[a].iter().filter(|s| beside[b].binary_search(s).is_ok()).count();
    let cables = (0..n).flat_map(|s| beside[s].iter().map(move |t| (s, *t as usize)));
    let cables: Vec<(usize, usize, usize)> = cables.map(|(s, t)| (shared(s, t), s, t)).collect();
    let mut counts: Vec<usize> = cables.iter().map(|(shared, ..)| *shared).collect();
    counts.sort_unstable();
    counts.dedup();
    counts.into_iter().skip(1).find_map(|least| {
        let mut group = vec![u32::MAX; n];
        let mut size = Vec::new();
        for first in 0..n {
            if group[first] != u32::MAX {
                continue;
            }
            let same = cables.iter().filter(|(shared, s, _)| *shared >= least && *s == first);
            let members: Vec<usize> = std::iter::once(first).chain(same.map(|(.., t)| *t)).collect();
            if members.iter().any(|m| group[*m] != u32::MAX) {
                return None;
            }
            members.iter().for_each(|m| group[*m] = size.len() as u32);
            size.push(members.len());
        }
        is_dragonfly(&beside, &group, &size).then_some(group)
    })
}

fn is_dragonfly(beside: &[Vec<u32>], group: &[u32], size: &[usize]) -> bool {
    let mut joined = vec![false; size.len() * size.len()];
    let is_full = (0..group.len()).all(|s| {
        let own = beside[s].iter().filter(|t| group[**t as usize] == group[s]).count();
        beside[s].iter().for_each(|t| {
            joined[group[s] as usize * size.len() + group[*t as usize] as usize] = true;
        });
        own + 1 == size[group[s] as usize]
    });
    is_full && (0..size.len()).all(|a| (0..size.len()).all(|b| a == b || joined[a * size.len() + b]))
}
