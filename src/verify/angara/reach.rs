//! How far a packet may get by the router's rules, whatever the tables.

use crate::model::{Direction, NodeId, Torus};

/// Breadth-first search over what the router may do next: position, set of directions used by
/// ordered steps, and whether the first or last step is done.
pub(super) struct Reach<'a> {
    torus: &'a Torus,
    usable: &'a [u8],
    /// Hops by node; `u32::MAX` if out of reach.
    pub(super) hops: Vec<u32>,
    seen: Vec<bool>,
}

/// What a packet carries: 0 at the source, `1 + dim` after a first step, then `8 + index` of the
/// set of directions in [`Reach::set_index`]. After a last step a packet stops.
type Carried = usize;

const FRESH: Carried = 0;
const CARRIED: usize = 8 + 81;

impl<'a> Reach<'a> {
    pub(super) fn new(torus: &'a Torus, usable: &'a [u8]) -> Self {
        Self { torus, usable, hops: vec![u32::MAX; torus.len()], seen: vec![false; torus.len() * CARRIED] }
    }

    /// Index of a set of directions without opposites, 0..81.
    fn set_index(set: u8) -> usize {
        (0..4)
            .rev()
            .fold(0, |n, dim| 3 * n + usize::from(set >> dim & 1) + 2 * usize::from(set >> (dim + 4) & 1))
    }

    /// `next`: turns that the tables make, by channel.
    pub(super) fn search(&mut self, source: NodeId, next: &[u8]) {
        self.hops.fill(u32::MAX);
        self.seen.fill(false);
        self.hops[source.index()] = 0;
        // Node, what it carries, set of ordered directions, direction it came in.
        let mut level = vec![(source, FRESH, 0u8, None::<Direction>)];
        for distance in 1.. {
            let mut ahead = Vec::new();
            for (at, carried, set, came) in level {
                for direction in Direction::all().filter(|d| self.usable[at.index()] & d.bit() != 0) {
                    let Some(to) = self.torus.cabled(at, direction) else { continue };
                    if !self.may_turn(at, came, direction, next) {
                        continue;
                    }
                    let hops = &mut self.hops[to.index()];
                    let mut go = |carried: Carried, set: u8| {
                        *hops = (*hops).min(distance);
                        if !std::mem::replace(&mut self.seen[to.index() * CARRIED + carried], true) {
                            ahead.push((to, carried, set, Some(direction)));
                        }
                    };
                    if carried == FRESH && !direction.is_negative() {
                        go(1 + direction.dim(), 0);
                    }
                    let in_order = set == 0 || came.is_none_or(|c| c <= direction);
                    let repeats_first = set == 0 && came == Some(direction);
                    if in_order && !repeats_first && set & direction.opposite().bit() == 0 {
                        let set = set | direction.bit();
                        go(8 + Self::set_index(set), set);
                    } else if set != 0 && direction.is_negative() {
                        // A last step: the packet arrives and goes no further.
                        *hops = (*hops).min(distance);
                    }
                }
            }
            if ahead.is_empty() {
                break;
            }
            level = ahead;
        }
    }

    /// In order, or made by some route at this place.
    fn may_turn(&self, at: NodeId, came: Option<Direction>, to: Direction, next: &[u8]) -> bool {
        let Some(from) = came else { return true };
        if to == from.opposite() {
            return false;
        }
        from <= to || {
            let before = self.torus.cabled(at, from.opposite());
            before.is_some_and(|b| next[self.torus.channel(b, from)] & to.bit() != 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TorusBuilder;
    use crate::model::rng::Rng;

    /// Routes are compared up to this length.
    const LONGEST: u32 = 6;

    /// The rules said again, one route at a time: a positive step or none, then steps in ascending order without opposites
    /// and without the first step's direction at once, then a negative step or none.
    struct Routes<'a> {
        torus: &'a Torus,
        usable: &'a [u8],
        next: &'a [u8],
        hops: Vec<u32>,
    }

    impl Routes<'_> {
        fn arrive(&mut self, at: NodeId, steps: &[Direction]) {
            let hops = &mut self.hops[at.index()];
            *hops = (*hops).min(steps.len() as u32);
        }

        /// `first`: whether the first of the steps is a first step. All routes that begin with the steps.
        fn extend(&mut self, at: NodeId, steps: &mut Vec<Direction>, first: bool) {
            if steps.len() as u32 == LONGEST {
                return;
            }
            for to in Direction::all() {
                let here = self.usable[at.index()] & to.bit() != 0;
                let Some(node) = self.torus.cabled(at, to).filter(|_| here) else { continue };
                if let Some(from) = steps.last() {
                    let behind = self.torus.cabled(at, from.opposite()).unwrap();
                    let is_made = self.next[self.torus.channel(behind, *from)] & to.bit() != 0;
                    if to == from.opposite() || (to < *from && !is_made) {
                        continue;
                    }
                }
                let ordered = &steps[usize::from(first)..];
                let ascends = ordered.last().is_none_or(|last| *last <= to)
                    && !ordered.contains(&to.opposite())
                    && !(first && ordered.is_empty() && steps[0] == to);
                let is_last = to.is_negative() && !ordered.is_empty();
                let may_be_first = steps.is_empty() && !to.is_negative();
                steps.push(to);
                if ascends || is_last || may_be_first {
                    self.arrive(node, steps);
                }
                if ascends {
                    self.extend(node, steps, first);
                }
                if may_be_first {
                    self.extend(node, steps, true);
                }
                steps.pop();
            }
        }
    }

    #[test]
    fn hops_are_those_of_all_routes_that_the_rules_allow() {
        let mut rng = Rng::new(5);
        let mut reached = 0;
        for case in 0..120 {
            let sizes = [[3, 3, 2].as_slice(), &[4, 4], &[2, 2, 2, 2], &[5, 3]][case % 4];
            let torus = TorusBuilder::new(sizes).unwrap().build().unwrap();
            let usable: Vec<u8> = (0..torus.len()).map(|_| (rng.next_u64() | rng.next_u64()) as u8).collect();
            let next: Vec<u8> =
                (0..torus.channel_slots()).map(|_| (rng.next_u64() & rng.next_u64()) as u8).collect();
            let mut reach = Reach::new(&torus, &usable);
            for source in torus.nodes() {
                let hops = vec![u32::MAX; torus.len()];
                let mut all = Routes { torus: &torus, usable: &usable, next: &next, hops };
                all.hops[source.index()] = 0;
                all.extend(source, &mut Vec::new(), false);
                reach.search(source, &next);
                for (by_rule, found) in all.hops.iter().zip(&reach.hops) {
                    let near = if *found <= LONGEST { *found } else { u32::MAX };
                    assert_eq!(*by_rule, near, "{sizes:?}, case {case}, from {source:?}");
                    reached += usize::from(near > 1 && near != u32::MAX);
                }
            }
        }
        assert!(reached > 5_000, "{reached}");
    }
}
