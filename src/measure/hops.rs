//! Hops between switches: searched for many homes at once, one bit for each.

use crate::model::{Fabric, SwitchId};
use crate::verify::trees::LOST;

/// Homes that are searched together.
pub(crate) const TOGETHER: usize = u64::BITS as usize;

/// Channels of a shortest path from each switch to some homes.
pub(crate) struct Hops {
    switches: usize,
    /// `hops[home * switches + switch]`; [`LOST`] where there is no path.
    hops: Vec<u32>,
}

impl Hops {
    /// To up to [`TOGETHER`] homes: one search, breadth first, in which each switch has the set of homes that it has
    /// reached. O(channels × longest path + homes × switches).
    pub(crate) fn to(fabric: &Fabric, homes: &[usize]) -> Self {
        assert!(homes.len() <= TOGETHER);
        let switches = fabric.switches().len();
        let mut hops = vec![LOST; homes.len() * switches];
        let (mut reached, mut front, mut next) =
            (vec![0u64; switches], vec![0u64; switches], vec![0u64; switches]);
        for (i, home) in homes.iter().enumerate() {
            hops[i * switches + home] = 0;
            reached[*home] |= 1 << i;
            front[*home] |= 1 << i;
        }
        for length in 1.. {
            for (s, homes) in front.iter().enumerate().filter(|(_, homes)| **homes != 0) {
                let out = fabric.out(SwitchId::at(s)).iter();
                out.for_each(|c| next[fabric.channel(*c).to.index()] |= homes);
            }
            let mut is_done = true;
            for (s, next) in next.iter_mut().enumerate() {
                let mut new = std::mem::take(next) & !reached[s];
                reached[s] |= new;
                front[s] = new;
                is_done &= new == 0;
                while new != 0 {
                    hops[new.trailing_zeros() as usize * switches + s] = length;
                    new &= new - 1;
                }
            }
            if is_done {
                break;
            }
        }
        Self { switches, hops }
    }

    /// Those to one of the homes, by its place in their list: by switch.
    pub(crate) fn of(&self, home: usize) -> &[u32] {
        &self.hops[home * self.switches..][..self.switches]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::lab::generate::generate;

    /// One home after the other, with a queue.
    fn one_by_one(fabric: &Fabric, home: usize) -> Vec<u32> {
        let mut hops = vec![LOST; fabric.switches().len()];
        hops[home] = 0;
        let mut queue = VecDeque::from([home]);
        while let Some(s) = queue.pop_front() {
            for c in fabric.out(SwitchId::at(s)) {
                let to = fabric.channel(*c).to.index();
                if hops[to] == LOST {
                    hops[to] = hops[s] + 1;
                    queue.push_back(to);
                }
            }
        }
        hops
    }

    #[test]
    fn many_homes_at_once_are_one_after_the_other() {
        for spec in ["random:90,90,200,seed=3", "torus:9x9", "kary:4,3"] {
            let whole = generate(spec).unwrap();
            // Two switches are cut off.
            let fabric = whole
                .without(|c| whole.channel(c).from.index() < 2 || whole.channel(c).to.index() < 2, |_| false);
            let fabric = fabric.unwrap();
            let homes: Vec<usize> = (0..fabric.switches().len()).collect();
            for homes in homes.chunks(TOGETHER) {
                let hops = Hops::to(&fabric, homes);
                homes
                    .iter()
                    .enumerate()
                    .for_each(|(i, home)| assert_eq!(hops.of(i), one_by_one(&fabric, *home), "{spec}"));
            }
        }
    }
}
