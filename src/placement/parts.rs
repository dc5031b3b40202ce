//! Parts of a tree, level by level, as an administrator would write them into topology.conf: switches that hang
//! together through switches at most so many hops from one with nodes. On the lowest level each switch with nodes is a
//! part of its own. A fabric whose every switch has nodes has this level alone.
//!
//! A job inside a small part leaves the channels above it to others, and one that fills its part leaves whole parts to
//! the jobs that follow: so does Slurm's `topology/tree` choose. Over a month that is worth more than the best set for
//! each job by itself (docs/results/placement.md).

use std::collections::BTreeMap;

use crate::model::{Fabric, SwitchId};

/// The parts of a fabric.
#[derive(Debug, Clone)]
pub struct Parts {
    /// `of[level][s]`: the part of switch `s`, the same number for all of a part. On level 0 its own.
    of: Vec<Vec<u32>>,
}

/// Free nodes by part, on each level.
#[derive(Debug, Clone)]
pub struct Rooms(Vec<BTreeMap<u32, u64>>);

impl Parts {
    /// Of switches with nodes. O(levels × size of the fabric).
    pub fn new(fabric: &Fabric, homes: &[u32]) -> Self {
        let rank = ranks(fabric, homes);
        let mut of: Vec<Vec<u32>> = vec![(0..rank.len() as u32).collect()];
        let seen = |of: &[u32]| homes.iter().map(|s| of[*s as usize]).collect::<Vec<u32>>();
        for level in 1..=rank.iter().filter(|r| **r != usize::MAX).max().copied().unwrap_or(0) {
            let next = components(fabric, |s| rank[s] <= level);
            if of.last().is_none_or(|last| seen(last) != seen(&next)) {
                of.push(next);
            }
        }
        Self { of }
    }

    /// By level, the part of each switch.
    pub fn levels(&self) -> &[Vec<u32>] {
        &self.of
    }

    /// Free nodes of each part, given those of switches.
    pub fn rooms(&self, free: impl Iterator<Item = (u32, u32)> + Clone) -> Rooms {
        let of_level = |of: &Vec<u32>| {
            let mut rooms = BTreeMap::new();
            free.clone().for_each(|(s, n)| *rooms.entry(of[s as usize]).or_default() += u64::from(n));
            rooms
        };
        Rooms(self.of.iter().map(of_level).collect())
    }

    /// How a set, given as switches and nodes, breaks the parts that are free; lists are compared, and the less the
    /// better. From the highest level down to leaves: how many parts it has nodes in, and by how much the sum of the
    /// squares of free nodes falls. That is less where parts are filled up than where large ones are broken. Where
    /// all switches have nodes no part is better whole than another, and it is how many switches.
    pub fn broken(&self, rooms: &Rooms, set: impl Iterator<Item = (u32, u32)> + Clone) -> Vec<u64> {
        let taken = self.rooms(set).0;
        if self.of.len() == 1 {
            return vec![taken[0].len() as u64];
        }
        let of_level = |(taken, rooms): (&BTreeMap<u32, u64>, &BTreeMap<u32, u64>)| {
            let fall = |(part, n): (&u32, &u64)| n * (2 * rooms.get(part).unwrap_or(n) - n);
            [taken.len() as u64, taken.iter().map(fall).sum::<u64>()]
        };
        taken.iter().zip(&rooms.0).rev().flat_map(of_level).collect()
    }

    /// `result[level][s]`: whether a channel in use leaves or enters the part that switch `s` is in there, given the
    /// ends of all that are. O(levels × channels).
    pub fn crossed(&self, used: impl Iterator<Item = (usize, usize)> + Clone) -> Vec<Vec<bool>> {
        let of_level = |of: &Vec<u32>| {
            let mut crossed = vec![false; of.len()];
            for (a, b) in used.clone().map(|(from, to)| (of[from], of[to])).filter(|(a, b)| a != b) {
                crossed[a as usize] = true;
                crossed[b as usize] = true;
            }
            of.iter().map(|part| crossed[*part as usize]).collect()
        };
        self.of.iter().map(of_level).collect()
    }
}

/// What Slurm 22.05 takes, select/cons_tres with topology/tree, for whole nodes: leaves and how many of each, given the
/// free nodes of each leaf; `groups[level][leaf]` is the part of a leaf, on level 0 its own number.
///
/// The first leaf is the one with the fewest free nodes that suffice; if no leaf suffices, one below the lowest switch
/// that does, again the fullest, and there the leaf with most free nodes. Then leaves follow by the sum of their
/// distances to those taken, among equally near ones the tightest that suffices, else the one with most free nodes.
/// O(leaves² × levels).
pub fn best_fit(groups: &[Vec<u32>], left: &[usize], size: usize) -> Vec<(usize, usize)> {
    let sums: Vec<Vec<usize>> = groups.iter().map(|of| totals(of, left)).collect();
    // Levels to climb from one leaf until the other is below.
    let apart = |a: usize, b: usize| groups.iter().position(|of| of[a] == of[b]).unwrap_or(groups.len());
    let mut taken: Vec<bool> = left.iter().map(|n| *n == 0).collect();
    let mut distance = vec![0usize; left.len()];
    let (mut chosen, mut wanted) = (Vec::new(), size);
    while wanted > 0 {
        let mut best: Option<usize> = None;
        for leaf in (0..left.len()).filter(|l| !taken[*l]) {
            let Some(b) = best else {
                best = Some(leaf);
                continue;
            };
            let suits = suits(groups, &sums, (leaf, b), wanted);
            let nearer = distance[leaf].cmp(&distance[b]);
            if (nearer.is_lt() && suits.is_ge()) || (nearer.is_eq() && suits.is_gt()) {
                best = Some(leaf);
            }
        }
        let Some(leaf) = best else { break };
        taken[leaf] = true;
        let here = left[leaf].min(wanted);
        chosen.push((leaf, here));
        wanted -= here;
        (0..left.len()).for_each(|other| distance[other] += apart(leaf, other));
    }
    chosen
}

/// Whether leaf `a` suits a job that wants so many nodes better than `b`.
fn suits(
    groups: &[Vec<u32>],
    sums: &[Vec<usize>],
    (a, b): (usize, usize),
    wanted: usize,
) -> std::cmp::Ordering {
    for (of, sums) in groups.iter().zip(sums) {
        let (here, there) = (sums[of[a] as usize], sums[of[b] as usize]);
        match (here >= wanted, there >= wanted) {
            (true, true) if here != there => return there.cmp(&here),
            (true, true) => break,
            (true, false) => return std::cmp::Ordering::Greater,
            (false, true) => return std::cmp::Ordering::Less,
            (false, false) if of[a] == of[b] => break,
            (false, false) => {}
        }
    }
    sums[0][a].cmp(&sums[0][b])
}

/// Free nodes per part, given the part and the free nodes of each leaf.
pub fn totals(of: &[u32], left: &[usize]) -> Vec<usize> {
    let mut totals = vec![0; of.iter().max().map_or(0, |m| *m as usize + 1)];
    of.iter().zip(left).for_each(|(g, n)| totals[*g as usize] += n);
    totals
}

/// Hops of each switch from the nearest of some.
fn ranks(fabric: &Fabric, starts: &[u32]) -> Vec<usize> {
    let mut rank = vec![usize::MAX; fabric.switches().len()];
    let mut queue: Vec<usize> = starts.iter().map(|s| *s as usize).collect();
    queue.iter().for_each(|s| rank[*s] = 0);
    let mut head = 0;
    while let Some(&s) = queue.get(head) {
        head += 1;
        for c in fabric.out(SwitchId::at(s)) {
            let to = fabric.channel(*c).to.index();
            if rank[to] == usize::MAX {
                rank[to] = rank[s] + 1;
                queue.push(to);
            }
        }
    }
    rank
}

/// Component of each switch among those that count.
fn components(fabric: &Fabric, counts: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut union = petgraph::unionfind::UnionFind::<u32>::new(fabric.switches().len());
    for c in fabric.channels() {
        if counts(c.from.index()) && counts(c.to.index()) {
            union.union(c.from.index() as u32, c.to.index() as u32);
        }
    }
    union.into_labeling()
}
