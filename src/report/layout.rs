//! Where the switches of a fabric stand in a picture.

use crate::model::{Direction, Fabric, NodeId, Shape, SwitchId, Torus};

/// What the places follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Rows by distance from the switches that have hosts.
    Levels,
    /// Coordinates of a torus or mesh.
    Grid,
    /// A circle, neighbours near each other as far as that goes.
    Circle,
}

/// Places in a unit square, which the reader stretches.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// What the places follow.
    pub kind: Kind,
    /// Width over height that suits it.
    pub aspect: f64,
    /// `places[switch]`: x to the right and y downwards, both 0..=1.
    pub places: Vec<[f64; 2]>,
    /// `wraps[channel / 2]`: the cable closes a ring and would cross the others of its line.
    pub wraps: Vec<bool>,
}

/// Rows if the switches without hosts make some, the grid of a torus, else a circle.
/// Same fabric, same places. O(channels × log channels).
pub fn layout(fabric: &Fabric) -> Layout {
    let cables = fabric.channels().len() / 2;
    if let Shape::Grid { sizes, wrap, coords } = fabric.shape() {
        if !sizes.is_empty() {
            let cables = fabric.channels().iter().step_by(2).map(|c| [c.from.index(), c.to.index()]);
            return grid(cables, sizes, wrap, coords);
        }
    }
    let rows = rows(fabric);
    let (kind, aspect, places) = match rows.len() {
        0 | 1 => (Kind::Circle, 1.0, circle(fabric)),
        n => (Kind::Levels, 5.0 / n as f64, levels(fabric, &rows)),
    };
    Layout { kind, aspect, places, wraps: vec![false; cables] }
}

/// A direct torus: nodes in the place of switches. The links that work, each from the node it leaves in a
/// positive direction, and their places. O(nodes).
pub fn torus(torus: &Torus) -> (Vec<(NodeId, Direction)>, Layout) {
    let dims = torus.dims();
    let positive = |node| (0..dims).map(move |dim| (node, Direction::positive(dim)));
    let links: Vec<(NodeId, Direction)> =
        torus.nodes().flat_map(positive).filter(|(n, d)| torus.neighbour(*n, *d).is_some()).collect();
    let sizes: Vec<u16> = torus.sizes().iter().map(|size| u16::from(*size)).collect();
    let wrap: Vec<bool> = (0..dims).map(|dim| torus.is_ring(dim)).collect();
    let coords: Vec<u16> =
        torus.nodes().flat_map(|n| torus.coords(n).as_slice().to_vec()).map(u16::from).collect();
    let ends = links.iter().filter_map(|(n, d)| Some([n.index(), torus.neighbour(*n, *d)?.index()]));
    let layout = grid(ends, &sizes, &wrap, &coords);
    (links, layout)
}

/// Switches by distance from the nearest leaf (a switch with hosts), farthest row first. Switches
/// that no leaf reaches are in none.
pub(super) fn rows(fabric: &Fabric) -> Vec<Vec<SwitchId>> {
    let mut level = vec![usize::MAX; fabric.switches().len()];
    let mut row: Vec<SwitchId> = fabric.switch_ids().filter(|s| fabric.has_hosts(*s)).collect();
    if row.is_empty() {
        row = fabric.switch_ids().collect();
    }
    let mut rows = Vec::new();
    while !row.is_empty() {
        row.iter().for_each(|s| level[s.index()] = rows.len());
        let mut next: Vec<SwitchId> =
            row.iter().flat_map(|s| fabric.out(*s)).map(|c| fabric.channel(*c).to).collect();
        next.retain(|s| level[s.index()] == usize::MAX);
        next.sort_unstable();
        next.dedup();
        rows.push(std::mem::replace(&mut row, next));
    }
    rows.reverse();
    rows
}

fn levels(fabric: &Fabric, rows: &[Vec<SwitchId>]) -> Vec<[f64; 2]> {
    let mut places = vec![[0.0, 0.0]; fabric.switches().len()];
    for (r, row) in rows.iter().enumerate() {
        for (i, s) in row.iter().enumerate() {
            places[s.index()] = [(i as f64 + 0.5) / row.len() as f64, r as f64 / (rows.len() - 1) as f64];
        }
    }
    places
}

/// The first two dimensions are columns and rows; each further one is a short diagonal inside the
/// cell, so that its cables do not cross those of other cells.
fn grid(cables: impl Iterator<Item = [usize; 2]>, sizes: &[u16], wrap: &[bool], coords: &[u16]) -> Layout {
    let size = |d: usize| f64::from(sizes.get(d).copied().unwrap_or(1));
    let (columns, rows) = (size(0), size(1));
    let place = |at: &[u16]| {
        let mut cell = [0.5, 0.5];
        let mut room = 0.8;
        for (d, step) in at.iter().enumerate().skip(2) {
            let along = (f64::from(*step) + 0.5) / size(d) - 0.5;
            let upwards = if d % 2 == 0 { 1.0 } else { -1.0 };
            cell[0] += along * room;
            cell[1] += along * room * upwards;
            room /= 1.5 * size(d);
        }
        let at = |d: usize| at.get(d).copied().map_or(0.0, f64::from);
        [(at(0) + cell[0]) / columns, (at(1) + cell[1]) / rows]
    };
    let closes = |[from, to]: [usize; 2]| {
        let n = sizes.len();
        let at = |s: usize| &coords[s * n..(s + 1) * n];
        let pairs = at(from).iter().zip(at(to)).enumerate();
        pairs.into_iter().any(|(d, (a, b))| wrap[d] && a.abs_diff(*b) > 1)
    };
    Layout {
        kind: Kind::Grid,
        aspect: (columns / rows).clamp(0.5, 2.5),
        places: coords.chunks_exact(sizes.len()).map(place).collect(),
        wraps: cables.map(closes).collect(),
    }
}

/// In the order in which a breadth-first search finds them.
fn circle(fabric: &Fabric) -> Vec<[f64; 2]> {
    let count = fabric.switches().len();
    let mut places = vec![[0.5, 0.5]; count];
    let mut order: Vec<SwitchId> = Vec::with_capacity(count);
    let mut seen = vec![false; count];
    for start in fabric.switch_ids() {
        let mut at = order.len();
        if !std::mem::replace(&mut seen[start.index()], true) {
            order.push(start);
        }
        while let Some(s) = order.get(at).copied() {
            at += 1;
            for c in fabric.out(s) {
                let to = fabric.channel(*c).to;
                if !std::mem::replace(&mut seen[to.index()], true) {
                    order.push(to);
                }
            }
        }
    }
    for (i, s) in order.iter().enumerate() {
        let angle = std::f64::consts::TAU * i as f64 / count as f64;
        places[s.index()] = [0.5 + 0.5 * angle.sin(), 0.5 - 0.5 * angle.cos()];
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::spec;

    fn of(fabric: &str) -> (Fabric, Layout) {
        let fabric = spec::generate(fabric).unwrap();
        let layout = layout(&fabric);
        (fabric, layout)
    }

    #[test]
    fn leaves_stand_below_the_switches_without_hosts() {
        let (fabric, layout) = of("kary:3,3");
        assert_eq!(layout.kind, Kind::Levels);
        for s in fabric.switch_ids() {
            let leaf = !fabric.attached(s).is_empty();
            assert_eq!(leaf, layout.places[s.index()][1] == 1.0, "{}", fabric.switch(s).description);
        }
    }

    #[test]
    fn no_two_switches_share_a_place_and_all_are_inside() {
        for name in ["kary:3,3", "torus:4x3x3,hosts=1", "torus:3x3x3x2,hosts=1", "random:20,40,60,seed=1"] {
            let (_, layout) = of(name);
            assert!(layout.places.iter().flatten().all(|v| (0.0..=1.0).contains(v)), "{name}");
            let mut places: Vec<_> =
                layout.places.iter().map(|p| p.map(|v| (v * 1e6).round() as u64)).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), layout.places.len(), "{name}");
        }
    }

    #[test]
    fn only_the_cables_that_close_a_ring_wrap() {
        let (fabric, layout) = of("torus:4x3,hosts=1");
        assert_eq!(layout.kind, Kind::Grid);
        assert_eq!(layout.wraps.len(), fabric.channels().len() / 2);
        assert_eq!(layout.wraps.iter().filter(|w| **w).count(), 4 + 3);
        assert!(of("mesh:4x3,hosts=1").1.wraps.iter().all(|w| !w));
    }
}
