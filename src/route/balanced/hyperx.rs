//! Orders of channels for HyperX: grids in which the switches of a line are cabled all to all (Ahn et al., "HyperX:
//! topology, routing, and packaging of efficient large-scale networks", 2009). They are known by their cables alone.

use petgraph::unionfind::UnionFind;

use super::net::Net;

/// Lines through a switch, at most: no HyperX in use has as many dimensions, and other graphs are soon left alone.
const MOST_LINES: usize = 8;
/// Of the cables of a dimension, the share that may be lost: one in so many.
const LOST: usize = 4;

/// One key per channel for each layer; `None` if the fabric is no HyperX of several dimensions, and for one layer.
///
/// A layer takes one dimension after the other. Each has another order of them: those that begin with each dimension in
/// turn, each followed by its reverse. So every shortest route fits into some layers, and between two switches that differ in
/// two dimensions both ways do. Within a line channels are ordered by the switch that they leave, upwards in the first
/// layers and downwards in those that repeat an order. O(channels × degree²).
pub(super) fn keys(net: &Net, budget: u8) -> Option<Vec<Vec<u32>>> {
    let (dimension_of, dimensions, is_whole) = dimensions(net).filter(|_| budget > 1)?;
    // Where cables are lost, few orders leave too few ways.
    if !is_whole && usize::from(budget) < 2 * dimensions {
        return None;
    }
    let n = net.switches();
    let layer = |layer: usize| {
        let (turn, repeats) = (layer % (2 * dimensions), layer / (2 * dimensions));
        let place = |dimension: usize| {
            let place = (dimension + dimensions - turn / 2) % dimensions;
            if turn % 2 == 0 { place } else { dimensions - 1 - place }
        };
        let key = |c: usize| {
            let from = net.from(c);
            place(dimension_of[c]) * n + if repeats % 2 == 0 { from } else { n - 1 - from }
        };
        (0..net.channels()).map(|c| key(c) as u32).collect()
    };
    Some((0..usize::from(budget)).map(layer).collect())
}

/// The dimension of each channel, how many there are, and whether no cable is lost; `None` if it is no HyperX of several dimensions, one of them with
/// three switches or more. Some cables may be lost.
///
/// Three switches with a cable between any two are on one line, and cables that are opposite each other in a ring of four
/// are of one dimension.
fn dimensions(net: &Net) -> Option<(Vec<usize>, usize, bool)> {
    let beside: Vec<Vec<(usize, usize)>> = (0..net.switches()).map(|s| neighbours(net, s)).collect();
    let mut alike = UnionFind::new(net.channels());
    // One channel stands for all between two switches, both ways.
    let cable = |a: usize, b: usize| {
        let near = &beside[a.min(b)];
        near.binary_search_by_key(&a.max(b), |(to, _)| *to).ok().map(|at| near[at].1)
    };
    for (u, near) in beside.iter().enumerate() {
        for (v, w) in pairs(near).filter(|(v, w)| u < *v && cable(*v, *w).is_some()) {
            alike.union(cable(u, v)?, cable(u, w)?);
        }
    }
    let line = alike.clone();
    for (u, near) in beside.iter().enumerate() {
        let mut lines: Vec<(usize, usize)> =
            near.iter().filter_map(|(w, _)| Some((line.find(cable(u, *w)?), *w))).collect();
        lines.sort_unstable();
        lines.dedup_by_key(|(line, _)| *line);
        if lines.len() > MOST_LINES {
            return None;
        }
        for (own, w) in lines {
            for v in near.iter().map(|(v, _)| *v).filter(|v| *v != w && cable(*v, w).is_none()) {
                let opposite = beside[w].iter().filter(|(x, _)| *x != u && cable(u, *x).is_none());
                for (x, _) in opposite.filter(|(x, _)| cable(v, *x).is_some()) {
                    alike.union(cable(u, v)?, cable(w, *x)?);
                    alike.union(own, cable(v, *x)?);
                }
            }
        }
    }
    let roots: Vec<usize> = (0..net.channels())
        .map(|c| cable(net.from(c), net.to(c)).map(|c| alike.find(c)))
        .collect::<Option<_>>()?;
    let mut kinds = roots.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let dimension_of: Vec<usize> = roots.iter().map(|root| kinds.binary_search(root).unwrap_or(0)).collect();
    let sizes = (0..kinds.len()).map(|d| size(&beside, |c| dimension_of[c] == d));
    let sizes: Vec<usize> =
        if kinds.len() > MOST_LINES { return None } else { sizes.collect::<Option<_>>()? };
    let is_one = sizes.iter().product::<usize>() == net.switches();
    let degree: usize = sizes.iter().map(|size| size - 1).sum();
    let is_whole = beside.iter().all(|near| near.len() == degree);
    let has_lines = sizes.len() > 1 && sizes.iter().any(|size| *size > 2);
    (is_one && has_lines).then_some((dimension_of, sizes.len(), is_whole))
}

/// Neighbours of a switch, ascending, each with the first channel to it.
fn neighbours(net: &Net, switch: usize) -> Vec<(usize, usize)> {
    let mut near: Vec<(usize, usize)> = net.out(switch).map(|c| (net.to(c), c)).collect();
    near.sort_unstable();
    near.dedup_by_key(|(to, _)| *to);
    near
}

/// Each two of the neighbours of a switch.
fn pairs(near: &[(usize, usize)]) -> impl Iterator<Item = (usize, usize)> + '_ {
    near.iter().flat_map(move |(v, _)| near.iter().filter(move |(w, _)| v != w).map(move |(w, _)| (*v, *w)))
}

/// Switches of the longest line of a dimension; `None` if more cables of its lines are missing than may be.
fn size(beside: &[Vec<(usize, usize)>], is_of: impl Fn(usize) -> bool) -> Option<usize> {
    let mut lines = UnionFind::new(beside.len());
    let mut cables = 0;
    for (from, near) in beside.iter().enumerate() {
        for (to, _) in near.iter().filter(|(to, c)| from < *to && is_of(*c)) {
            lines.union(from, *to);
            cables += 1;
        }
    }
    let mut members = vec![0usize; beside.len()];
    (0..beside.len()).for_each(|s| members[lines.find(s)] += 1);
    let size = members.into_iter().max()?;
    (cables * 2 * LOST >= beside.len() * (size - 1) * (LOST - 1)).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    fn found(spec: &str) -> Option<usize> {
        dimensions(&Net::new(&generate(spec).unwrap())).map(|found| found.1)
    }

    #[test]
    fn dimensions_are_known_by_cables_alone() {
        for (spec, wanted) in [
            ("hyperx:5x4,hosts=2", 2),
            ("hyperx:4x3x2,hosts=1", 3),
            ("hyperx:6x6,hosts=2,faults=5%,seed=3", 2),
        ] {
            assert_eq!(found(spec), Some(wanted), "{spec}");
        }
        let others = [
            "hyperx:9,hosts=2",
            "dragonfly:4,2,2,9",
            "random:20,40,60,seed=1",
            "kary:4,2",
            "slimfly:5,hosts=2",
            "torus:2x2x2x2,hosts=1",
        ];
        others.iter().for_each(|spec| assert_eq!(found(spec), None, "{spec}"));
    }

    /// Two dimensions differ between these switches: one way begins with the one, the other with the other.
    #[test]
    fn both_ways_between_two_switches_have_a_layer() {
        let net = Net::new(&generate("hyperx:4x4,hosts=1").unwrap());
        let keys = keys(&net, 4).unwrap();
        let to = |from: usize, to: usize| net.out(from).find(|c| net.to(*c) == to).unwrap();
        let allows = |layer: usize, by: usize| keys[layer][to(0, by)] < keys[layer][to(by, 5)];
        let layers = |by: usize| (0..4).filter(|layer| allows(*layer, by)).count();
        assert_eq!([layers(1), layers(4)], [2, 2]);
        assert_eq!(super::keys(&net, 1), None);
    }
}
