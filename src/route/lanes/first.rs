//! How a search begins: the first order of channels, and the escape tree.
//!
//! On tori and meshes channels are sorted dimension by dimension and along each, as routes that go through one
//! dimension after the other need it. In a ring that order has a gap. Where all gaps are at one place, a torus is as full as
//! a mesh; where each ring has its own, there is more room. Nobody knows before which start will end best.

use super::escape::Escape;
use super::terrain::Terrain;
use crate::model::rng::Rng;
use crate::route::grid::Grid;

/// How a search begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Channels in random order, and a breadth-first tree.
    Random,
    /// Channels sorted along the dimensions of a grid, and a breadth-first tree.
    Sorted,
    /// Sorted channels, and a tree of paths along the dimensions that end at the gaps of the order.
    Paths,
}

/// How far the gaps of neighbouring rings are apart.
const APART: usize = 3;

impl Start {
    /// All that are worth a try.
    pub(super) fn all(terrain: &Terrain<'_>) -> &'static [Self] {
        match &terrain.grid {
            Some(grid) if !is_whole(terrain, grid) => &[Self::Random, Self::Paths],
            Some(grid) if grid.wrap.contains(&true) => &[Self::Sorted, Self::Paths],
            // No ring, no gap: the tree of paths keeps to the order.
            Some(_) => &[Self::Paths],
            None => &[Self::Random],
        }
    }

    /// Whether the first routes keep to the first order as it is.
    pub(super) fn is_sorted(self) -> bool {
        self != Self::Random
    }

    /// Every channel on every lane, lane by lane. O(channels × lanes × log channels).
    pub(super) fn order(self, terrain: &Terrain<'_>, lanes: usize, rng: &mut Rng) -> Vec<u32> {
        let channels = terrain.graph.channels();
        let mut order = Vec::with_capacity(channels * lanes);
        for lane in 0..lanes {
            let mut all: Vec<u32> = (0..channels as u32).collect();
            rng.shuffle(&mut all);
            if let (true, Some(grid)) = (self.is_sorted(), &terrain.grid) {
                all.sort_by_key(|c| {
                    let (from, to) = (terrain.graph.from(*c as usize), terrain.graph.to(*c as usize));
                    step(grid, from, to).unwrap_or_default()
                });
            }
            order.extend(all.iter().map(|c| c * lanes as u32 + lane as u32));
        }
        order
    }

    /// The escape tree. O(switches² + channels × log channels).
    pub(super) fn escape<'a>(self, terrain: &Terrain<'a>) -> Escape<'a> {
        match (self, &terrain.grid) {
            (Self::Paths, Some(grid)) => Escape::of(terrain.graph, cables(terrain, grid)),
            _ => Escape::broad(terrain),
        }
    }
}

/// Whether no cable of a grid is missing.
pub(super) fn is_whole(terrain: &Terrain<'_>, grid: &Grid) -> bool {
    (0..terrain.graph.switches()).all(|s| {
        (0..grid.sizes.len()).all(|d| {
            let (at, size) = (grid.at(s)[d], grid.sizes[d]);
            // A ring of two is a line.
            let is_ring = grid.wrap[d] && size > 2;
            let has = |up: bool, is_end: bool| (is_end && !is_ring) || !grid.ways(s, d, up).is_empty();
            size < 2 || (has(true, at + 1 == size) && has(false, at == 0))
        })
    })
}

/// Coordinate behind the gap of the ring of a dimension through a switch.
fn behind(grid: &Grid, switch: usize, dimension: usize) -> usize {
    let all = grid.sizes.len();
    if !grid.wrap[dimension] {
        return 0;
    }
    let turns = |other: usize| APART + (other + all - dimension) % all - 1;
    let others = (0..all).filter(|other| *other != dimension);
    let sum: usize = others.map(|other| usize::from(grid.at(switch)[other]) * turns(other)).sum();
    sum % usize::from(grid.sizes[dimension])
}

/// Dimension of a channel, and how many steps of its direction are between it and the gap behind; `None` if it leads nowhere
/// else.
fn step(grid: &Grid, from: usize, to: usize) -> Option<(usize, usize)> {
    let (a, b) = (grid.at(from), grid.at(to));
    let dimension = (0..grid.sizes.len()).find(|d| a[*d] != b[*d])?;
    let (at, size) = (usize::from(a[dimension]), usize::from(grid.sizes[dimension]));
    let is_up = (at + 1) % size == usize::from(b[dimension]);
    let behind = behind(grid, from, dimension);
    Some((dimension, if is_up { at + size - behind } else { behind + 2 * size - 1 - at } % size))
}

/// All cables, in the order in which a tree of paths takes them: lower dimensions first, and those over gaps last.
fn cables(terrain: &Terrain<'_>, grid: &Grid) -> Vec<usize> {
    let graph = terrain.graph;
    let key = |c: &usize| {
        let step = step(grid, graph.from(*c), graph.to(*c));
        step.map_or((true, 0), |(d, place)| (grid.wrap[d] && place + 1 == usize::from(grid.sizes[d]), d))
    };
    let mut cables: Vec<usize> = (0..graph.channels()).collect();
    cables.sort_by_key(key);
    cables
}
