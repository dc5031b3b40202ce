//! Tori and meshes: coordinates, and which channels lead one step along a dimension.

use super::graph::Graph;
use crate::model::{Fabric, Shape};

/// Coordinates of all switches of a torus or mesh with any number of dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Switches per dimension.
    pub sizes: Vec<u16>,
    /// Whether the dimension closes to a ring.
    pub wrap: Vec<bool>,
    /// `coords[switch * sizes.len() + dimension]`.
    pub coords: Vec<u16>,
    /// `ways[first[k]..first[k + 1]]` with `k = (switch * dimensions + dimension) * 2 + direction`:
    /// parallel channels one step up (direction 1) or down (0).
    first: Vec<u32>,
    ways: Vec<u32>,
}

impl Grid {
    /// The grid of a fabric whose shape is known. O(switches × dimensions + channels).
    pub fn of(fabric: &Fabric, graph: &Graph) -> Option<Self> {
        match fabric.shape() {
            Shape::Grid { sizes, wrap, coords } if !sizes.is_empty() => {
                Some(Self::new(graph, sizes.clone(), wrap.clone(), coords.clone()))
            }
            _ => None,
        }
    }

    /// A grid of given coordinates. Channels that are not one step along a dimension are left out.
    pub fn new(graph: &Graph, sizes: Vec<u16>, wrap: Vec<bool>, coords: Vec<u16>) -> Self {
        let mut grid = Self { sizes, wrap, coords, first: vec![0], ways: Vec::new() };
        let dimensions = grid.sizes.len();
        for s in 0..graph.switches() {
            let steps: Vec<_> = graph.out(s).map(|c| (grid.step(s, graph.to(c)), c)).collect();
            for kind in 0..2 * dimensions {
                let wanted = Some((kind / 2, kind % 2 == 1));
                grid.ways.extend(steps.iter().filter(|(step, _)| *step == wanted).map(|(_, c)| *c as u32));
                grid.first.push(grid.ways.len() as u32);
            }
        }
        grid
    }

    /// Coordinates of a switch.
    #[inline]
    pub fn at(&self, switch: usize) -> &[u16] {
        let n = self.sizes.len();
        &self.coords[switch * n..(switch + 1) * n]
    }

    /// Parallel channels from a switch one step along a dimension.
    #[inline]
    pub fn ways(&self, switch: usize, dimension: usize, up: bool) -> &[u32] {
        let k = (switch * self.sizes.len() + dimension) * 2 + usize::from(up);
        &self.ways[self.first[k] as usize..self.first[k + 1] as usize]
    }

    /// Dimension and direction that lead from one switch to another, if they are neighbours.
    fn step(&self, from: usize, to: usize) -> Option<(usize, bool)> {
        let mut differing = (0..self.sizes.len()).filter(|i| self.at(from)[*i] != self.at(to)[*i]);
        let dimension = differing.next().filter(|_| differing.next().is_none())?;
        let (a, b, n) = (self.at(from)[dimension], self.at(to)[dimension], self.sizes[dimension]);
        if b == a + 1 || (self.wrap[dimension] && n > 2 && a + 1 == n && b == 0) {
            Some((dimension, true))
        } else if a == b + 1 || (self.wrap[dimension] && n > 2 && b + 1 == n && a == 0) {
            Some((dimension, false))
        } else {
            None
        }
    }
}
