//! One-to-one patterns: who sends to whom.

use super::net::Net;
use crate::model::rng::Rng;

/// A pattern of one destination per participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// A permutation of the participants, drawn by the seed.
    ServerPermutation,
    /// A permutation of the switches in which each one's image is a neighbour, drawn by the seed;
    /// the i-th host of a switch sends to the i-th of its image (Polarized paper).
    SwitchPermutation,
    /// Bits of the place rotated by half their number (Dally and Towles); an uneven number of bits
    /// rotates by the larger half. Places without an image stay silent.
    Transpose,
    /// Place i to i + 1.
    Neighbor,
    /// Participants in two halves drawn by the seed, each exchanging with one of the other half; with an odd
    /// number one stays alone (Hoefler, Mehlan, Lumsdaine, Rehm 2007: effective bisection bandwidth).
    Bisection,
    /// Place i to i + ⌈n/2⌉ − 1 (Dally and Towles).
    Tornado,
    /// The same in every dimension of a torus: each coordinate + 1.
    GridNeighbor,
    /// Each coordinate + ⌈k/2⌉ − 1.
    GridTornado,
    /// Each coordinate k to k − 1 − c: the opposite corner.
    GridTranspose,
}

impl Pattern {
    /// Receiving terminal of each of `members`, itself for none.
    ///
    /// # Errors
    /// If the fabric is not a grid, or there is no such permutation.
    pub fn destinations(self, net: &Net, members: &[u32], seed: u64) -> Result<Vec<u32>, String> {
        let n = members.len();
        let mut rng = Rng::new(seed);
        let shift = |by: usize| (0..n).map(|i| members[(i + by) % n]).collect();
        match self {
            Self::ServerPermutation => {
                let mut to = members.to_vec();
                rng.shuffle(&mut to);
                Ok(to)
            }
            Self::Bisection => Ok(bisection(members, &mut rng)),
            Self::SwitchPermutation => switch_permutation(net, members, &mut rng),
            Self::Neighbor => Ok(shift(1)),
            Self::Tornado => Ok(shift(n.div_ceil(2).saturating_sub(1))),
            Self::Transpose => {
                let bits = n.next_power_of_two().trailing_zeros();
                let by = bits.div_ceil(2);
                let image = |i: usize| ((i << by) | (i >> (bits - by))) & ((1 << bits) - 1);
                Ok((0..n).map(|i| members[Some(image(i)).filter(|j| *j < n).unwrap_or(i)]).collect())
            }
            Self::GridNeighbor => on_grid(net, members, |c, k| (c + 1) % k),
            Self::GridTornado => on_grid(net, members, |c, k| (c + k.div_ceil(2) - 1) % k),
            Self::GridTranspose => on_grid(net, members, |c, k| k - 1 - c),
        }
    }
}

/// Partners in an order drawn: the first with the second, the third with the fourth.
fn bisection(members: &[u32], rng: &mut Rng) -> Vec<u32> {
    let (mut order, mut to): (Vec<usize>, _) = ((0..members.len()).collect(), members.to_vec());
    rng.shuffle(&mut order);
    for pair in order.chunks_exact(2) {
        (to[pair[0]], to[pair[1]]) = (members[pair[1]], members[pair[0]]);
    }
    to
}

/// Moves every coordinate; the i-th terminal of a switch sends to the i-th of the image.
fn on_grid(net: &Net, members: &[u32], image: impl Fn(u16, u16) -> u16) -> Result<Vec<u32>, String> {
    let grid = net.grid.as_ref().ok_or("the pattern needs a torus or mesh")?;
    let dims = grid.sizes.len();
    let at = |s: usize| &grid.coords[s * dims..(s + 1) * dims];
    let number = |c: &mut dyn Iterator<Item = u16>| {
        c.zip(&grid.sizes).fold(0usize, |n, (c, k)| n * usize::from(*k) + usize::from(c))
    };
    let cells = grid.sizes.iter().map(|k| usize::from(*k)).product();
    let mut switch_at = vec![usize::MAX; cells];
    (0..net.switches()).for_each(|s| switch_at[number(&mut at(s).iter().copied())] = s);
    let of = by_switch(net, members);
    let to = members.iter().map(|t| {
        let home = net.home(*t) as usize;
        let rank = of[home].iter().position(|m| m == t).unwrap_or(0);
        let cell = number(&mut at(home).iter().zip(&grid.sizes).map(|(c, k)| image(*c, *k)));
        of.get(switch_at[cell]).and_then(|there| there.get(rank)).copied().unwrap_or(*t)
    });
    Ok(to.collect())
}

fn by_switch(net: &Net, members: &[u32]) -> Vec<Vec<u32>> {
    let mut of = vec![Vec::new(); net.switches()];
    members.iter().for_each(|t| of[net.home(*t) as usize].push(*t));
    of
}

/// A perfect matching of switches to neighbours, by augmenting paths from a random order.
fn switch_permutation(net: &Net, members: &[u32], rng: &mut Rng) -> Result<Vec<u32>, String> {
    let of = by_switch(net, members);
    let mut order: Vec<u32> = (0..net.switches() as u32).filter(|s| !of[*s as usize].is_empty()).collect();
    rng.shuffle(&mut order);
    let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); net.switches()];
    for s in &order {
        let row = &mut neighbours[*s as usize];
        row.extend(net.out(*s).map(|c| net.to(c)).filter(|to| !of[*to as usize].is_empty()));
        row.dedup();
        rng.shuffle(row);
    }
    let mut taken_by = vec![u32::MAX; net.switches()];
    for s in &order {
        let mut seen = vec![false; net.switches()];
        if !augment(*s, &neighbours, &mut taken_by, &mut seen) {
            return Err("no permutation takes every switch to a neighbour".into());
        }
    }
    let mut image = vec![u32::MAX; net.switches()];
    for (to, from) in taken_by.iter().enumerate().filter(|(_, from)| **from != u32::MAX) {
        image[*from as usize] = to as u32;
    }
    let to = members.iter().map(|t| {
        let home = net.home(*t) as usize;
        let rank = of[home].iter().position(|m| m == t).unwrap_or(0);
        let there = &of[image[home] as usize];
        there[rank % there.len()]
    });
    Ok(to.collect())
}

fn augment(s: u32, neighbours: &[Vec<u32>], taken_by: &mut [u32], seen: &mut [bool]) -> bool {
    for to in &neighbours[s as usize] {
        if !std::mem::replace(&mut seen[*to as usize], true) {
            let owner = taken_by[*to as usize];
            if owner == u32::MAX || augment(owner, neighbours, taken_by, seen) {
                taken_by[*to as usize] = s;
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn switch_permutations_go_to_neighbours() {
        let net = Net::of_fabric(&generate("random:20,60,60,seed=2").unwrap());
        for seed in 0..5 {
            let to = Pattern::SwitchPermutation.destinations(&net, net.hosts(), seed).unwrap();
            let mut image: Vec<u32> = to.clone();
            image.sort_unstable();
            image.dedup();
            assert_eq!(image.len(), 60, "a permutation");
            for (from, to) in net.hosts().iter().zip(&to) {
                let neighbours: Vec<u32> = net.out(net.home(*from)).map(|c| net.to(c)).collect();
                assert!(neighbours.contains(&net.home(*to)));
            }
        }
    }

    #[test]
    fn a_bisection_pairs_all_but_one() {
        let net = Net::of_fabric(&generate("mesh:9,hosts=1").unwrap());
        let draw = |seed| Pattern::Bisection.destinations(&net, net.hosts(), seed).unwrap();
        let to = draw(1);
        assert!(to.iter().enumerate().all(|(from, to_it)| to[*to_it as usize] as usize == from), "{to:?}");
        assert_eq!(to.iter().enumerate().filter(|(from, to)| **to as usize == *from).count(), 1);
        assert!((2..9).any(|seed| draw(seed) != to));
    }

    #[test]
    fn patterns_of_places_are_those_of_the_book() {
        let net = Net::of_fabric(&generate("mesh:8,hosts=1").unwrap());
        let of = |p: Pattern| p.destinations(&net, net.hosts(), 1).unwrap();
        assert_eq!(of(Pattern::Neighbor), [1, 2, 3, 4, 5, 6, 7, 0]);
        assert_eq!(of(Pattern::Tornado), [3, 4, 5, 6, 7, 0, 1, 2]);
        // Three bits rotated by two: 1 = 001 to 100 = 4.
        assert_eq!(of(Pattern::Transpose), [0, 4, 1, 5, 2, 6, 3, 7]);
        let net = Net::of_fabric(&generate("torus:4x4,hosts=1").unwrap());
        let to = Pattern::GridTornado.destinations(&net, net.hosts(), 1).unwrap();
        assert_eq!(to[0], 5, "one up in both dimensions");
    }
}
