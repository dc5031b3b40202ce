//! Orders that a search begins with: places of the fabric along a line, ranks of the pattern along a line, and
//! one laid on the other.

use std::collections::VecDeque;

use crate::model::{Fabric, Mix, NodeId, Pattern, Shape, SwitchId, TerminalId, Torus};

/// All starts but the list as given, by name: the unit on each place. Units are `unit` ranks in a row, which are
/// on one node.
///
/// O(switches of the units × (channels + switches of the units)).
pub fn all(fabric: &Fabric, ranks: &[TerminalId], unit: usize, mix: &Mix) -> Vec<(&'static str, Vec<u32>)> {
    let units: Vec<TerminalId> = ranks.iter().step_by(unit.max(1)).copied().collect();
    let members = Members::new(&units, |terminal| fabric.terminal(terminal).switch);
    let distances = distances(fabric, &members.homes);
    let along = match fabric.shape() {
        Shape::Grid { sizes, coords, .. } if !sizes.is_empty() => {
            let at = |s: usize| &coords[members.homes[s].index() * sizes.len()..][..sizes.len()];
            Some(serpentine(members.homes.len(), sizes, &at))
        }
        _ => None,
    };
    members.starts(&|a, b| distances[a][b], along, tiles(mix, ranks.len(), unit.max(1), units.len()))
}

/// The same on a direct torus, whose nodes are switches with one host: the node of each unit. Far is how many hops
/// a packet would need if nothing had failed. O(units²).
pub fn on_torus(
    torus: &Torus,
    units: Vec<NodeId>,
    ranks: usize,
    unit: usize,
    mix: &Mix,
) -> Vec<(&'static str, Vec<u32>)> {
    let members = Members::new(&units, |node| node);
    let at = |node: &NodeId| {
        torus.coords(*node).as_slice()[..torus.dims()].iter().map(|x| u16::from(*x)).collect()
    };
    let coords: Vec<Vec<u16>> = members.homes.iter().map(at).collect();
    let sizes: Vec<u16> = torus.sizes().iter().map(|size| u16::from(*size)).collect();
    let far = |a: usize, b: usize| {
        let hops = |dim: usize| {
            let straight = coords[a][dim].abs_diff(coords[b][dim]);
            let around = if torus.is_ring(dim) { sizes[dim] - straight } else { straight };
            u32::from(straight.min(around))
        };
        (0..sizes.len()).map(hops).sum()
    };
    let along = serpentine(members.homes.len(), &sizes, &|s| &coords[s]);
    members.starts(&far, Some(along), tiles(mix, ranks, unit, units.len()))
}

/// A line of nodes laid on blocks of a grid of ranks.
fn tiled(line: &'static str) -> &'static str {
    match line {
        "switch by switch" => "switch by switch in blocks of the grid",
        "nearest switch next" => "nearest switch next in blocks of the grid",
        "halves of halves" => "halves of halves in blocks of the grid",
        "along the torus" => "along the torus in blocks of the grid",
        _ => "list in blocks of the grid",
    }
}

/// `places[i]` gets the i-th of the line.
fn lay(line: &[u32], places: &[u32]) -> Vec<u32> {
    let mut order = vec![0; line.len()];
    places.iter().zip(line).for_each(|(place, unit)| order[*place as usize] = *unit);
    order
}

/// Units by the switch, or the node of a torus, that they are on.
struct Members<H> {
    /// Ascending.
    homes: Vec<H>,
    /// By home: its units, by terminal and then as given.
    units: Vec<Vec<u32>>,
}

impl<H: Copy + Ord> Members<H> {
    fn new<T: Copy + Ord>(units: &[T], home: impl Fn(T) -> H) -> Self {
        let mut sorted: Vec<(H, T, u32)> =
            units.iter().enumerate().map(|(u, t)| (home(*t), *t, u as u32)).collect();
        sorted.sort_unstable();
        let runs: Vec<_> = sorted.chunk_by(|a, b| a.0 == b.0).collect();
        Self {
            homes: runs.iter().map(|run| run[0].0).collect(),
            units: runs.iter().map(|run| run.iter().map(|(_, _, u)| *u).collect()).collect(),
        }
    }

    /// Lines through the homes, and lines laid on blocks of a grid of ranks.
    fn starts(
        &self,
        far: &impl Fn(usize, usize) -> u32,
        along: Option<Vec<usize>>,
        tiles: Option<Vec<u32>>,
    ) -> Vec<(&'static str, Vec<u32>)> {
        let mut lines = vec![
            ("switch by switch", self.expand(0..self.homes.len())),
            ("nearest switch next", self.expand(chain(self.homes.len(), far))),
            ("halves of halves", self.expand(halves(&self.weights(), far))),
        ];
        lines.extend(along.map(|along| ("along the torus", self.expand(along))));
        let mut starts = lines.clone();
        if let Some(tiles) = tiles {
            let given = ("list", (0..tiles.len() as u32).collect());
            let laid = lines.into_iter().chain([given]);
            starts.extend(laid.map(|(name, line)| (tiled(name), lay(&line, &tiles))));
        }
        starts
    }

    fn weights(&self) -> Vec<usize> {
        self.units.iter().map(Vec::len).collect()
    }

    fn expand(&self, order: impl IntoIterator<Item = usize>) -> Vec<u32> {
        order.into_iter().flat_map(|s| &self.units[s]).copied().collect()
    }
}

/// Hops between switches; those that are apart are `u32::MAX` from each other.
fn distances(fabric: &Fabric, switches: &[SwitchId]) -> Vec<Vec<u32>> {
    let from = |s: &SwitchId| {
        let mut far = vec![u32::MAX; fabric.switches().len()];
        let mut queue = VecDeque::from([*s]);
        far[s.index()] = 0;
        while let Some(at) = queue.pop_front() {
            for c in fabric.out(at) {
                let next = fabric.channel(*c).to;
                if far[next.index()] == u32::MAX {
                    far[next.index()] = far[at.index()] + 1;
                    queue.push_back(next);
                }
            }
        }
        switches.iter().map(|s| far[s.index()]).collect()
    };
    switches.iter().map(from).collect()
}

/// From the first on, always the nearest that is left, the first of equals. O(n²).
fn chain(n: usize, far: &impl Fn(usize, usize) -> u32) -> Vec<usize> {
    let mut left: Vec<usize> = (1..n).collect();
    let mut order: Vec<usize> = (0..n.min(1)).collect();
    while let Some(next) = left.iter().enumerate().min_by_key(|(i, s)| (far(order[order.len() - 1], **s), *i))
    {
        let (place, next) = (next.0, *next.1);
        left.remove(place);
        order.push(next);
    }
    order
}

/// Halves of about equal weight, each near one of two that are far apart, and so on inside them; what is near the
/// half before comes first. O(n² log n).
fn halves(weights: &[usize], far: &impl Fn(usize, usize) -> u32) -> Vec<usize> {
    fn split(mut set: Vec<usize>, weights: &[usize], far: &impl Fn(usize, usize) -> u32) -> Vec<usize> {
        if set.len() < 3 {
            return set;
        }
        let one = set[0];
        let Some(&other) = set.iter().max_by_key(|s| (far(one, **s), usize::MAX - **s)) else { return set };
        let Some(&one) = set.iter().max_by_key(|s| (far(other, **s), usize::MAX - **s)) else { return set };
        set.sort_by_key(|s| (i64::from(far(one, *s)) - i64::from(far(other, *s)), *s));
        let all: usize = set.iter().map(|s| weights[*s]).sum();
        let mut sum = 0;
        let first = set.iter().take_while(|s| {
            sum += weights[**s];
            2 * sum <= all
        });
        let cut = first.count().clamp(1, set.len() - 1);
        let rest = set.split_off(cut);
        let mut order = split(set, weights, far);
        order.extend(split(rest, weights, far));
        order
    }
    split((0..weights.len()).collect(), weights, far)
}

/// Back and forth along the first dimension, and so on: neighbours in the order are neighbours in a whole torus or
/// mesh.
fn serpentine<'c>(n: usize, sizes: &[u16], at: &impl Fn(usize) -> &'c [u16]) -> Vec<usize> {
    let key = |s: &usize| {
        let (mut key, mut odd) = (Vec::with_capacity(sizes.len()), false);
        // The last dimension is the outermost: it never turns around.
        for (x, size) in at(*s).iter().zip(sizes).rev() {
            let along = if odd { size - 1 - x } else { *x };
            key.push(along);
            odd ^= along % 2 == 1;
        }
        key
    };
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_cached_key(key);
    order
}

/// Places of units along blocks of blocks of the grid of the largest halo exchange of a mix, if there is one: the
/// longest side is halved again and again.
fn tiles(mix: &Mix, ranks: usize, unit: usize, units: usize) -> Option<Vec<u32>> {
    let halos = mix.parts().iter().filter_map(|(pattern, weight)| match pattern {
        Pattern::Halo(grid) => Some((*weight, *grid)),
        _ => None,
    });
    let (_, grid) = halos.max_by_key(|(weight, _)| *weight)?;
    let sides = grid.for_ranks(ranks as u32).map(|s| s as usize);
    let mut cells = Vec::with_capacity(ranks);
    blocks([0, 0, 0], sides, &mut |[a, b, c]| cells.push((a * sides[1] + b) * sides[2] + c));
    // Ranks beyond the grid last; a unit stands where its first rank is.
    cells.extend(sides.iter().product::<usize>()..ranks);
    let first = cells.into_iter().filter(|rank| rank % unit == 0).map(|rank| (rank / unit) as u32);
    Some(first.take(units).collect())
}

/// Every cell of a box, halves of the longest side one after the other.
fn blocks(from: [usize; 3], sides: [usize; 3], see: &mut impl FnMut([usize; 3])) {
    let longest = (0..3).max_by_key(|d| (sides[*d], 3 - d)).unwrap_or(0);
    if sides[longest] <= 1 {
        return see(from);
    }
    let half = sides[longest].div_ceil(2);
    let (mut first, mut start, mut second) = (sides, from, sides);
    first[longest] = half;
    second[longest] -= half;
    start[longest] += half;
    blocks(from, first, see);
    blocks(start, second, see);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn every_start_has_every_unit_once() {
        for spec in ["kary:3,3", "torus:4x3x2,hosts=2", "random:10,30,30,seed=2", "fattree:1x4,1"] {
            let fabric = generate(spec).unwrap();
            let mut ranks: Vec<TerminalId> = fabric.host_ids().collect();
            ranks.reverse();
            for mix in ["default", "halo3d", "halo:3x2+ring"] {
                for unit in [1, 2] {
                    let ranks = &ranks[..ranks.len() / 2 * 2];
                    for (name, mut order) in all(&fabric, ranks, unit, &mix.parse().unwrap()) {
                        order.sort_unstable();
                        let want: Vec<u32> = (0..(ranks.len() / unit) as u32).collect();
                        assert_eq!(order, want, "{spec}, {name}, {mix}, units of {unit}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_line_along_a_mesh_has_no_gaps() {
        let fabric = generate("mesh:4x3x5,hosts=1").unwrap();
        let ranks: Vec<TerminalId> = fabric.host_ids().collect();
        let starts = all(&fabric, &ranks, 1, &Mix::default());
        let line = &starts.iter().find(|s| s.0 == "along the torus").unwrap().1;
        let next = |a: u32, b: u32| {
            let switch = |u: u32| fabric.terminal(ranks[u as usize]).switch;
            fabric.out(switch(a)).iter().any(|c| fabric.channel(*c).to == switch(b))
        };
        assert!(line.windows(2).all(|w| next(w[0], w[1])), "{line:?}");
    }

    #[test]
    fn a_tree_is_halved_at_its_top() {
        let fabric = generate("kary:2,3").unwrap();
        let mut ranks: Vec<TerminalId> = fabric.host_ids().collect();
        // One of each half in turn.
        ranks = (0..8).map(|i| ranks[i / 2 + i % 2 * 4]).collect();
        let starts = all(&fabric, &ranks, 1, &Mix::default());
        for name in ["halves of halves", "nearest switch next"] {
            let line = &starts.iter().find(|s| s.0 == name).unwrap().1;
            let mut first: Vec<u32> = line[..4].to_vec();
            first.sort_unstable();
            assert!(first == [0, 2, 4, 6] || first == [1, 3, 5, 7], "{name}: {line:?}");
        }
    }
}
