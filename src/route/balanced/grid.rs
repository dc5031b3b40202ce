//! Orders of channels for tori and meshes.

use super::net::Net;
use crate::model::{Fabric, Shape, SwitchId};

/// One key per channel for each layer; `None` if the fabric is not known to be a torus or mesh, or
/// a cable does not lead to a neighbour.
///
/// A layer sees the torus as a mesh, cut open in each ring either behind coordinate 0 or half a
/// ring further, so that with two to the power of the number of rings layers every shortest route
/// crosses no cut of at least one of them. Within the mesh a route first goes towards lower
/// coordinates, in any order of dimensions, and then towards higher ones ("negative first", Glass
/// and Ni, "The turn model for adaptive routing", 1992).
pub(super) fn keys(fabric: &Fabric, net: &Net, budget: u8) -> Option<Vec<Vec<u32>>> {
    let Shape::Grid { sizes, wrap, coords } = fabric.shape() else { return None };
    let dims = sizes.len();
    let steps = (0..net.channels()).map(|c| {
        let at = |s: usize| &coords[s * dims..(s + 1) * dims];
        is_step_up(at(net.from(c)), at(net.to(c)), sizes, wrap)
    });
    let steps: Vec<bool> = steps.collect::<Option<_>>()?;
    let rings: Vec<usize> = (0..dims).filter(|d| wrap[*d]).collect();
    let span: u32 = sizes.iter().map(|s| u32::from(*s)).sum();
    let layer = |layer: usize| {
        let place = |s: SwitchId| -> u32 {
            let coord = |d: usize| {
                let ring = rings.iter().position(|r| *r == d);
                let shifted = ring.is_some_and(|r| layer >> r & 1 == 1);
                let (at, size) = (coords[s.index() * dims + d], sizes[d]);
                u32::from(if shifted { (at + size - size / 2) % size } else { at })
            };
            (0..dims).map(coord).sum()
        };
        let places: Vec<u32> = fabric.switch_ids().map(place).collect();
        let key = |(c, up): (usize, &bool)| {
            let from = places[net.from(c)];
            if *up { span + 1 + from } else { span - from }
        };
        steps.iter().enumerate().map(key).collect()
    };
    Some((0..usize::from(budget)).map(layer).collect())
}

/// Whether a cable between neighbours leads to the higher coordinate around its ring; `None` if
/// they are no neighbours.
fn is_step_up(from: &[u16], to: &[u16], sizes: &[u16], wrap: &[bool]) -> Option<bool> {
    let mut differing = (0..sizes.len()).filter(|d| from[*d] != to[*d]);
    let d = differing.next()?;
    if differing.next().is_some() {
        return None;
    }
    let (a, b, size) = (from[d], to[d], sizes[d]);
    if b == a + 1 {
        Some(true)
    } else if a == b + 1 {
        Some(false)
    } else if wrap[d] && (a, b) == (size - 1, 0) {
        Some(true)
    } else if wrap[d] && (a, b) == (0, size - 1) {
        Some(false)
    } else {
        None
    }
}
