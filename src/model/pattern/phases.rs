//! The phases of each exchange.

use super::{Grid, PERMUTATIONS, Partners, Pattern, SEED};
use crate::model::rng::Rng;

/// A step of an exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Its part of the exchange: bytes of one message in this phase times [`Phase::times`], over
    /// the same summed over all phases.
    pub share: f32,
    /// How many times in a row it is done.
    pub times: u32,
    /// Who sends to whom.
    pub partners: Partners,
}

/// The phases of a pattern among `n` ranks.
pub(super) fn of(pattern: Pattern, n: u32) -> Vec<Phase> {
    if n < 2 {
        return Vec::new();
    }
    match pattern {
        Pattern::Linear => even((1..n).map(|by| Partners::shift(n, by))),
        Pattern::Shift => even((1..n).map(|step| {
            let by = step.div_ceil(2);
            Partners::shift(n, if step % 2 == 1 { by } else { n - by })
        })),
        Pattern::Pairwise if n.is_power_of_two() => even((1..n).map(|mask| Partners::xor(n, mask))),
        Pattern::Pairwise => even((1..n).map(|by| Partners::shift(n, by))),
        Pattern::Random => random_order(n),
        Pattern::Neighbor => even([Partners::shift(n, 1)]),
        Pattern::Ring => vec![Phase { share: 1.0, times: 2 * (n - 1), partners: Partners::shift(n, 1) }],
        Pattern::DoubleTree => double_tree(n),
        Pattern::Doubling => doubling(n),
        Pattern::Halving => halving(n),
        Pattern::Bruck => bruck(n),
        Pattern::Binomial => {
            even(powers(n).rev().map(|bit| Partners::of(n, |r| (r % (2 * bit) == 0).then_some(r + bit))))
        }
        Pattern::Halo(grid) => halo(n, grid),
        Pattern::Groups(size) => groups(n, size),
        Pattern::Permutations => permutations(n),
        Pattern::RailAllToAll(size) => {
            let nodes = n / size.max(1);
            even((1..nodes).map(|by| whole_nodes(n, nodes, size, by)))
        }
        Pattern::Hierarchical(size) => {
            let nodes = n / size.max(1);
            let ring = (nodes > 1).then(|| Phase {
                share: 1.0,
                times: 2 * (nodes - 1),
                partners: whole_nodes(n, nodes, size, 1),
            });
            ring.into_iter().collect()
        }
    }
}

/// Each of `nodes` nodes of `size` ranks to the one `by` further, rank by rank; ranks that make no whole node are
/// silent.
fn whole_nodes(n: u32, nodes: u32, size: u32, by: u32) -> Partners {
    if nodes * size == n {
        return Partners::shift(n, by * size);
    }
    let to = |r: u32| (r / size + by) % nodes * size + r % size;
    Partners::of(n, |r| (r < nodes * size).then(|| to(r)))
}

/// Phases with messages of these relative sizes, without those in which nobody sends.
fn weighted(mut phases: Vec<(f64, Partners)>) -> Vec<Phase> {
    phases.retain(|(_, partners)| partners.pairs().next().is_some());
    let sum: f64 = phases.iter().map(|(size, _)| size).sum();
    let phase = |(size, partners)| Phase { share: (size / sum) as f32, times: 1, partners };
    phases.into_iter().map(phase).collect()
}

/// Phases with equal messages.
fn even(phases: impl IntoIterator<Item = Partners>) -> Vec<Phase> {
    weighted(phases.into_iter().map(|partners| (1.0, partners)).collect())
}

/// 1, 2, 4, … below `n`.
fn powers(n: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..u32::BITS - (n - 1).leading_zeros()).map(|bit| 1 << bit)
}

/// Each rank meets each other once, in steps that are permutations without any order: shifts in
/// random order of a random numbering.
fn random_order(n: u32) -> Vec<Phase> {
    let mut rng = Rng::new(SEED);
    let mut number: Vec<u32> = (0..n).collect();
    rng.shuffle(&mut number);
    let mut rank = vec![0; n as usize];
    number.iter().enumerate().for_each(|(r, at)| rank[*at as usize] = r as u32);
    let mut shifts: Vec<u32> = (1..n).collect();
    rng.shuffle(&mut shifts);
    let to = |by: u32| {
        let (number, rank) = (&number, &rank);
        move |r: u32| Some(rank[((number[r as usize] + by) % n) as usize])
    };
    even(shifts.into_iter().map(|by| Partners::of(n, to(by))))
}

fn permutations(n: u32) -> Vec<Phase> {
    let mut rng = Rng::new(SEED);
    let draw = |_| {
        let mut image: Vec<u32> = (0..n).collect();
        rng.shuffle(&mut image);
        Partners::of(n, |r| Some(image[r as usize]))
    };
    even((0..PERMUTATIONS).map(draw).collect::<Vec<_>>())
}

/// Ranks beyond the largest power of two fold theirs into a neighbour first and get the result
/// last: even ranks of the first `2 (n − 2^k)` send to the next one, which stands for both.
struct Folded {
    n: u32,
    /// The largest power of two that is not above `n`.
    power: u32,
}

impl Folded {
    fn new(n: u32) -> Self {
        Self { n, power: 1 << n.ilog2() }
    }

    fn extra(&self) -> u32 {
        self.n - self.power
    }

    /// The number of a rank among those that take part.
    fn number(&self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.extra() {
            return Some(rank - self.extra());
        }
        (rank % 2 == 1).then_some(rank / 2)
    }

    fn rank(&self, number: u32) -> u32 {
        if number < self.extra() { 2 * number + 1 } else { number + self.extra() }
    }

    fn xor(&self, mask: u32) -> Partners {
        if self.extra() == 0 {
            return Partners::xor(self.n, mask);
        }
        Partners::of(self.n, |r| self.number(r).map(|number| self.rank(number ^ mask)))
    }

    /// Before (`true`) and after the exchange.
    fn fold(&self, before: bool) -> Option<(f64, Partners)> {
        let side = u32::from(!before);
        let to = |r: u32| (r < 2 * self.extra() && r % 2 == side).then_some(r ^ 1);
        (self.extra() > 0).then(|| (1.0, Partners::of(self.n, to)))
    }
}

fn doubling(n: u32) -> Vec<Phase> {
    let folded = Folded::new(n);
    let steps = powers(folded.power).map(|mask| (1.0, folded.xor(mask)));
    weighted(folded.fold(true).into_iter().chain(steps).chain(folded.fold(false)).collect())
}

fn halving(n: u32) -> Vec<Phase> {
    let folded = Folded::new(n);
    let step = |mask: u32| (0.5 / f64::from(mask), folded.xor(mask));
    let (there, back) = (powers(folded.power).map(step), powers(folded.power).rev().map(step));
    weighted(folded.fold(true).into_iter().chain(there).chain(back).chain(folded.fold(false)).collect())
}

/// In the phase of a bit each rank passes on the blocks whose distance has that bit.
fn bruck(n: u32) -> Vec<Phase> {
    let blocks = |bit: u32| (0..n).filter(|distance| distance & bit != 0).count() as f64;
    weighted(powers(n).map(|bit| (blocks(bit), Partners::shift(n, bit))).collect())
}

fn halo(n: u32, grid: Grid) -> Vec<Phase> {
    let sides = grid.for_ranks(n);
    let places: u32 = sides.iter().product();
    let mut phases = Vec::new();
    let mut stride = places;
    for side in sides.into_iter().filter(|side| *side > 1) {
        stride /= side;
        for by in [1, side - 1] {
            let to = move |r: u32| {
                let at = r / stride % side;
                (r < places).then(|| r - at * stride + (at + by) % side * stride)
            };
            phases.push(Partners::of(n, to));
        }
    }
    even(phases)
}

/// The last group may be smaller. Across groups each rank sends to the same place of the next group
/// that has it.
fn groups(n: u32, size: u32) -> Vec<Phase> {
    let size = size.clamp(1, n);
    let inside = (1..size).map(|by| {
        Partners::of(n, |r| {
            let first = r - r % size;
            let members = size.min(n - first);
            (by < members).then(|| first + (r - first + by) % members)
        })
    });
    let across =
        (size < n).then(|| Partners::of(n, |r| Some(if r + size < n { r + size } else { r % size })));
    let mut phases: Vec<(f64, Partners)> = inside.map(|p| (1.0, p)).collect();
    // As many bytes across as inside.
    phases.extend(across.map(|p| (f64::from(size - 1).max(1.0), p)));
    weighted(phases)
}

/// NCCL's trees: in the first the ranks stand in order, in the second shifted by one (odd number of
/// ranks) or mirrored (even), so that no rank is inside both. Up from each side, down to each side.
fn double_tree(n: u32) -> Vec<Phase> {
    let mirror = |r: u32| if n % 2 == 0 { n - 1 - r } else { (r + n - 1) % n };
    let back = |r: u32| if n % 2 == 0 { n - 1 - r } else { (r + 1) % n };
    let mut phases = Vec::new();
    for second in [false, true] {
        let parent = |r: u32| {
            if second { parent(mirror(r), n).map(|(p, side)| (back(p), side)) } else { parent(r, n) }
        };
        let up =
            [0, 1].map(|side| Partners::of(n, |r| parent(r).filter(|(_, s)| *s == side).map(|(p, _)| p)));
        let down = up.clone().map(|up| Partners::of(n, |r| up.from(r)));
        phases.extend(up.into_iter().chain(down));
    }
    even(phases)
}

/// Parent and side of a rank in an in-order binary tree over `n` ranks whose root is rank 0
/// (NCCL's `ncclGetBtree`): the lowest set bit is the height; one bit higher is set in the parent,
/// the lowest is not.
fn parent(rank: u32, n: u32) -> Option<(u32, usize)> {
    if rank == 0 {
        return None;
    }
    let bit = rank & rank.wrapping_neg();
    let above = (rank ^ bit) | (bit << 1);
    let parent = if above >= n { rank ^ bit } else { above };
    Some((parent, usize::from(parent < rank)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Pattern; 17] = [
        Pattern::Linear,
        Pattern::Shift,
        Pattern::Pairwise,
        Pattern::Random,
        Pattern::Neighbor,
        Pattern::Ring,
        Pattern::DoubleTree,
        Pattern::Doubling,
        Pattern::Halving,
        Pattern::Bruck,
        Pattern::Binomial,
        Pattern::Halo(Grid::PLANE),
        Pattern::Halo(Grid::SPACE),
        Pattern::Halo(Grid::given(3, 2, 1)),
        Pattern::Groups(4),
        Pattern::Groups(1000),
        Pattern::Permutations,
    ];

    #[test]
    fn phases_are_partial_permutations_whose_shares_add_up() {
        for pattern in ALL {
            for n in [2u32, 3, 5, 6, 8, 13, 16, 60] {
                let phases = of(pattern, n);
                let sum: f32 = phases.iter().map(|p| p.share).sum();
                assert!((sum - 1.0).abs() < 1e-4, "{pattern} of {n}: {sum}");
                for phase in &phases {
                    assert!(phase.partners.pairs().next().is_some(), "{pattern} of {n}: silent");
                    for (from, to) in phase.partners.pairs() {
                        assert_eq!(phase.partners.from(to), Some(from), "{pattern} of {n}");
                    }
                    let received = (0..n).filter(|r| phase.partners.from(*r).is_some()).count();
                    assert_eq!(received, phase.partners.pairs().count(), "{pattern} of {n}");
                }
            }
        }
    }

    #[test]
    fn exchanges_of_all_with_all_meet_each_pair_once() {
        for pattern in [Pattern::Linear, Pattern::Shift, Pattern::Pairwise, Pattern::Random] {
            for n in [2u32, 7, 16] {
                let phases = of(pattern, n);
                let mut pairs: Vec<_> = phases.iter().flat_map(|p| p.partners.pairs()).collect();
                pairs.sort_unstable();
                pairs.dedup();
                assert_eq!(pairs.len() as u32, n * (n - 1), "{pattern} of {n}");
            }
        }
    }

    /// Who knows of whose value at the end.
    fn spread(phases: &[Phase], n: u32) -> Vec<u64> {
        let mut known: Vec<u64> = (0..n).map(|r| 1 << r).collect();
        for phase in phases {
            let before = known.clone();
            phase.partners.pairs().for_each(|(from, to)| known[to as usize] |= before[from as usize]);
        }
        known
    }

    #[test]
    fn reductions_and_broadcasts_reach_everybody() {
        for n in [2u32, 3, 6, 8, 11, 16, 33] {
            let all = (1 << n) - 1;
            for pattern in [Pattern::Doubling, Pattern::Halving, Pattern::Bruck] {
                assert!(spread(&of(pattern, n), n).iter().all(|k| *k == all), "{pattern} of {n}");
            }
            assert!(spread(&of(Pattern::Binomial, n), n).iter().all(|k| k & 1 == 1), "broadcast of {n}");
        }
    }

    #[test]
    fn each_tree_has_every_rank_once_and_no_rank_is_inside_both() {
        for n in [2u32, 3, 4, 5, 8, 9, 14, 31, 32] {
            let phases = of(Pattern::DoubleTree, n);
            let up = |second: bool| {
                let mut parents = vec![None; n as usize];
                for r in 0..n {
                    let mirror = |r: u32| if n % 2 == 0 { n - 1 - r } else { (r + n - 1) % n };
                    parents[r as usize] = parent(if second { mirror(r) } else { r }, n).map(|p| p.0);
                }
                parents
            };
            for tree in [up(false), up(true)] {
                assert_eq!(tree.iter().filter(|p| p.is_none()).count(), 1, "one root of {n}");
            }
            let edges: usize = phases.iter().map(|p| p.partners.pairs().count()).sum();
            assert_eq!(edges as u32, 4 * (n - 1), "two trees, up and down, of {n}");
            let mut inside = vec![0; n as usize];
            for tree in [0, 4] {
                let Some(up) = phases.get(tree..) else { continue };
                let mut is_parent = vec![false; n as usize];
                let edges = up.iter().take(2).flat_map(|p| p.partners.pairs());
                edges.for_each(|(_, to)| is_parent[to as usize] = true);
                is_parent.iter().zip(&mut inside).for_each(|(p, n)| *n += u32::from(*p));
            }
            // The roots may be inside the other tree too: they have one child only.
            assert!(n < 4 || inside.iter().filter(|n| **n > 1).count() <= 2, "{n}: {inside:?}");
        }
    }

    #[test]
    fn halos_go_one_step_along_each_side() {
        let phases = of(Pattern::Halo(Grid::given(2, 3, 1)), 7);
        let to = |phase: usize| (0..7).map(|r| phases[phase].partners.to(r)).collect::<Vec<_>>();
        assert_eq!(phases.len(), 4, "up and down along two sides");
        assert_eq!(to(0), [3, 4, 5, 0, 1, 2].map(Some).into_iter().chain([None]).collect::<Vec<_>>());
        assert_eq!(to(2), [1, 2, 0, 4, 5, 3].map(Some).into_iter().chain([None]).collect::<Vec<_>>());
    }

    #[test]
    fn groups_talk_inside_and_then_across() {
        let phases = of(Pattern::Groups(3), 8);
        let to = |phase: usize| (0..8).map(|r| phases[phase].partners.to(r)).collect::<Vec<_>>();
        assert_eq!(to(0), [1, 2, 0, 4, 5, 3, 7, 6].map(Some));
        assert_eq!(to(2), [3, 4, 5, 6, 7, 2, 0, 1].map(Some), "a ring for each place");
    }
}
