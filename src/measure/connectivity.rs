//! How many switches or cables must fail before the switches fall apart (thesis Definition 3.9).

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::{Fabric, SwitchId};

/// Of the graph of switches alone, as the thesis takes it: with their hosts everything hangs on one cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Connectivity {
    /// Fewest switches without which two others are apart (κ); one less than there are where each is joined
    /// to each.
    pub switches: u32,
    /// Fewest inter-switch cables without which two switches are apart (λ). Parallel ones count each.
    pub cables: u32,
}

/// By Menger's theorem: the fewest disjoint ways between two switches. For cables between one and each other
/// one; for switches between one with the fewest neighbours and each that is none, and between its neighbours
/// (Esfahanian and Hakimi 1984). O((switches + degree²) × κ × channels).
pub fn connectivity(fabric: &Fabric) -> Connectivity {
    let n = fabric.switches().len();
    let mut near = vec![Vec::new(); n];
    for c in fabric.channels() {
        near[c.from.index()].push(c.to.index() as u32);
    }
    let cables = {
        let most = near.iter().map(|out| out.len() as u32).min().unwrap_or(0);
        let ways = Ways::by_cables(fabric);
        (1..n).into_par_iter().map_init(|| ways.clone(), |w, to| w.disjoint(0, to, most)).min().unwrap_or(0)
    };
    near.iter_mut().for_each(|out| {
        out.sort_unstable();
        out.dedup();
    });
    let is_near = |a: usize, b: usize| near[a].binary_search(&(b as u32)).is_ok();
    let Some(centre) = (0..n).min_by_key(|s| near[*s].len()) else {
        return Connectivity { switches: 0, cables: 0 };
    };
    let others = (0..n).filter(|s| *s != centre && !is_near(centre, *s)).map(|s| (centre, s));
    let around = near[centre].iter().enumerate().flat_map(|(i, a)| {
        let later = near[centre][i + 1..].iter();
        later.map(|b| (*a as usize, *b as usize)).filter(|(a, b)| !is_near(*a, *b))
    });
    let pairs: Vec<(usize, usize)> = others.chain(around).collect();
    let (most, ways) = (near[centre].len() as u32, Ways::by_switches(&near));
    let least = |w: &mut Ways, (a, b): &(usize, usize)| w.disjoint(2 * a + 1, 2 * b, most);
    let switches = pairs.par_iter().map_init(|| ways.clone(), least).min();
    Connectivity { switches: switches.unwrap_or(n.saturating_sub(1) as u32), cables }
}

/// Arcs of capacity one. An arc and its reverse are neighbours; a cable's directions are each other's reverse.
#[derive(Clone)]
struct Ways {
    /// Arcs of a node are `arcs[first[node]..first[node + 1]]`.
    first: Vec<u32>,
    arcs: Vec<u32>,
    to: Vec<u32>,
    /// What an arc may still take, in the beginning and now.
    whole: Vec<u8>,
    left: Vec<u8>,
}

impl Ways {
    /// Nodes are switches.
    fn by_cables(fabric: &Fabric) -> Self {
        let ends = |s: SwitchId| s.index() as u32;
        let cables = fabric.channels().iter().step_by(2).map(|c| (ends(c.from), ends(c.to)));
        Self::new(fabric.switches().len(), cables, 1)
    }

    /// Nodes are a switch's entry and exit, `2s` and `2s + 1`: one way passes from the one to the other.
    fn by_switches(near: &[Vec<u32>]) -> Self {
        let inside = (0..near.len() as u32).map(|s| (2 * s, 2 * s + 1));
        let between = near.iter().zip(0..).flat_map(|(out, s)| out.iter().map(move |to| (2 * s + 1, 2 * to)));
        Self::new(2 * near.len(), inside.chain(between), 0)
    }

    fn new(nodes: usize, pairs: impl Iterator<Item = (u32, u32)>, back: u8) -> Self {
        let (mut from, mut to, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for (a, b) in pairs {
            from.extend([a, b]);
            to.extend([b, a]);
            whole.extend([1, back]);
        }
        let mut arcs: Vec<u32> = (0..from.len() as u32).collect();
        arcs.sort_by_key(|arc| from[*arc as usize]);
        let first = (0..=nodes as u32).map(|v| arcs.partition_point(|a| from[*a as usize] < v) as u32);
        Self { first: first.collect(), arcs, to, left: whole.clone(), whole }
    }

    /// Disjoint ways from one node to another, at most so many. O(ways × arcs).
    fn disjoint(&mut self, from: usize, to: usize, most: u32) -> u32 {
        self.left.copy_from_slice(&self.whole);
        (0..most).take_while(|_| self.add_way(from, to)).count() as u32
    }

    /// One way more, by a breadth-first search over what is left.
    fn add_way(&mut self, from: usize, to: usize) -> bool {
        const NONE: u32 = u32::MAX;
        let mut by = vec![NONE; self.first.len() - 1];
        let (mut queue, mut next) = (vec![from], 0);
        while let Some(v) = queue.get(next).copied() {
            next += 1;
            for arc in &self.arcs[self.first[v] as usize..self.first[v + 1] as usize] {
                let there = self.to[*arc as usize] as usize;
                if self.left[*arc as usize] > 0 && by[there] == NONE && there != from {
                    by[there] = *arc;
                    queue.push(there);
                }
            }
            if by[to] != NONE {
                break;
            }
        }
        let mut at = to;
        while at != from {
            if by[at] == NONE {
                return false;
            }
            let arc = by[at] as usize;
            self.left[arc] -= 1;
            self.left[arc ^ 1] += 1;
            at = self.to[arc ^ 1] as usize;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    /// Table 3.1, and the smallest degree of the multigraph. Two opposite channels of a Kautz graph join the
    /// same switches, so of 2d neighbours one is met twice.
    #[test]
    fn families_have_the_connectivity_of_the_thesis() {
        for (spec, switches, cables) in [
            ("mesh:4x5,hosts=1", 2, 2),
            ("mesh:3x3x3,hosts=1", 3, 3),
            ("torus:5x5,hosts=1", 4, 4),
            ("torus:4x3x3,hosts=1,redundancy=2", 6, 12),
            ("kary:4,2", 4, 4),
            ("kary:3,3", 3, 3),
            ("xgft:2;12,8;4,6,hosts=12", 4, 4),
            ("kautz:3,3,hosts=1", 5, 6),
            ("dragonfly:4,2,2,9", 5, 5),
            ("hyperx:5,hosts=1", 4, 4),
        ] {
            let found = connectivity(&generate(spec).unwrap());
            assert_eq!(found, Connectivity { switches, cables }, "{spec}");
        }
    }

    /// Whether the switches that are kept hang together by the cables that are kept.
    fn is_whole(fabric: &Fabric, kept: u32) -> bool {
        let mut reached = 1u32 << kept.trailing_zeros();
        for _ in fabric.switches() {
            for c in fabric.channels() {
                let (from, to) = (1 << c.from.index(), 1 << c.to.index());
                if reached & from != 0 && kept & to != 0 {
                    reached |= to;
                }
            }
        }
        reached == kept
    }

    #[test]
    fn small_graphs_fall_apart_by_as_many_and_no_fewer() {
        for seed in 0..40 {
            let fabric = generate(&format!("random:8,8,{},seed={seed}", 8 + seed % 9)).unwrap();
            let found = connectivity(&fabric);
            let all = (1u32 << 8) - 1;
            let lost = |kept: &u32| (all ^ kept).count_ones();
            let apart = (1..all).filter(|kept| kept.count_ones() > 1 && !is_whole(&fabric, *kept));
            assert_eq!(found.switches, apart.map(|kept| lost(&kept)).min().unwrap_or(7), "seed {seed}");
            let across = |side: u32| {
                let is_in = |s: SwitchId| side >> s.index() & 1;
                fabric.channels().iter().step_by(2).filter(|c| is_in(c.from) != is_in(c.to)).count() as u32
            };
            assert_eq!(found.cables, (1..all).map(across).min().unwrap(), "seed {seed}");
        }
    }
}
