//! Who sends to whom in one phase.

use std::sync::Arc;

/// A partial permutation of ranks: each sends to at most one and receives from at most one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partners {
    n: u32,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// To rank + so many, around.
    Shift(u32),
    /// To rank XOR so many, where there is one.
    Xor(u32),
    /// To and from, [`NOBODY`] for none.
    Table(Arc<(Vec<u32>, Vec<u32>)>),
    /// Each of so many ranks of a node to the one at the same place of another.
    Rails(Box<Partners>, u32),
    /// Without what ranks of one node, so many in a row, send each other.
    Between(Box<Partners>, u32),
}

const NOBODY: u32 = u32::MAX;

impl Partners {
    /// Each of `n` ranks to the one `by` further, around.
    pub fn shift(n: u32, by: u32) -> Self {
        Self { n, kind: Kind::Shift(by % n.max(1)) }
    }

    /// Each of `n` ranks to `rank XOR mask`; silent where there is none.
    pub fn xor(n: u32, mask: u32) -> Self {
        Self { n, kind: Kind::Xor(mask) }
    }

    /// From a function of the rank. Ranks that are sent to themselves or beyond `n` are silent, and
    /// so is a second sender to one rank. O(n).
    pub fn of(n: u32, to: impl Fn(u32) -> Option<u32>) -> Self {
        let mut table = (vec![NOBODY; n as usize], vec![NOBODY; n as usize]);
        for rank in 0..n {
            if let Some(other) = to(rank).filter(|other| *other < n && *other != rank) {
                if table.1[other as usize] == NOBODY {
                    table.0[rank as usize] = other;
                    table.1[other as usize] = rank;
                }
            }
        }
        Self { n, kind: Kind::Table(Arc::new(table)) }
    }

    /// The same between nodes of so many ranks each, all of a node in a row: each rank meets that at its place.
    #[must_use]
    pub fn on_rails(self, rails: u32) -> Self {
        let n = self.n * rails;
        match self.kind {
            _ if rails < 2 => self,
            Kind::Shift(by) => Self { n, kind: Kind::Shift(by * rails) },
            Kind::Xor(mask) if rails.is_power_of_two() => Self { n, kind: Kind::Xor(mask * rails) },
            kind => Self { n, kind: Kind::Rails(Box::new(Self { n: self.n, kind }), rails) },
        }
    }

    /// The same without messages between ranks of one node, so many in a row.
    #[must_use]
    pub fn between_nodes(self, per_node: u32) -> Self {
        Self { n: self.n, kind: Kind::Between(Box::new(self), per_node) }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.n
    }

    /// By how much all ranks are shifted, if they are.
    pub fn as_shift(&self) -> Option<u32> {
        if let Kind::Shift(by) = self.kind { Some(by) } else { None }
    }

    /// The mask, if each rank meets that of its number XOR a mask.
    pub fn as_xor(&self) -> Option<u32> {
        if let Kind::Xor(mask) = self.kind { Some(mask) } else { None }
    }

    /// To whom a rank below [`Partners::ranks`] sends. O(1).
    #[inline]
    pub fn to(&self, rank: u32) -> Option<u32> {
        let other = match &self.kind {
            Kind::Shift(by) => around(rank + by, self.n),
            Kind::Xor(mask) => rank ^ mask,
            Kind::Table(table) => table.0[rank as usize],
            Kind::Between(all, size) => all.to(rank).filter(|to| to / size != rank / size).unwrap_or(NOBODY),
            Kind::Rails(nodes, rails) => {
                nodes.to(rank / rails).map_or(NOBODY, |to| to * rails + rank % rails)
            }
        };
        (other < self.n && other != rank).then_some(other)
    }

    /// From whom a rank below [`Partners::ranks`] receives. O(1).
    #[inline]
    pub fn from(&self, rank: u32) -> Option<u32> {
        let other = match &self.kind {
            Kind::Shift(by) => around(rank + self.n - by, self.n),
            Kind::Xor(mask) => rank ^ mask,
            Kind::Table(table) => table.1[rank as usize],
            Kind::Between(all, size) => {
                all.from(rank).filter(|to| to / size != rank / size).unwrap_or(NOBODY)
            }
            Kind::Rails(nodes, rails) => {
                nodes.from(rank / rails).map_or(NOBODY, |from| from * rails + rank % rails)
            }
        };
        (other < self.n && other != rank).then_some(other)
    }

    /// All that send, with their receivers, by rank.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.n).filter_map(|rank| self.to(rank).map(|to| (rank, to)))
    }
}

/// Both summands are below `n`: no division.
#[inline]
fn around(sum: u32, n: u32) -> u32 {
    if sum < n { sum } else { sum - n }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_of_one_node_send_each_other_is_left_out() {
        let pairs: Vec<(u32, u32)> = Partners::shift(6, 1).between_nodes(3).pairs().collect();
        assert_eq!(pairs, [(2, 3), (5, 0)]);
        assert_eq!(Partners::shift(6, 1).between_nodes(3).from(3), Some(2));
        assert_eq!(Partners::shift(6, 1).between_nodes(3).from(4), None);
    }

    #[test]
    fn on_rails_each_rank_meets_that_at_its_place() {
        for (nodes, rails) in [(8, 4), (8, 3), (5, 2), (6, 1)] {
            let all = [
                Partners::shift(nodes, 3),
                Partners::xor(nodes, 2),
                Partners::of(nodes, |rank| (rank % 2 == 0).then_some(rank + 1)),
            ];
            for plain in all {
                let on_rails = plain.clone().on_rails(rails);
                assert_eq!(on_rails.ranks(), nodes * rails);
                let mut wanted: Vec<(u32, u32)> = (0..rails)
                    .flat_map(|r| plain.pairs().map(move |(a, b)| (a * rails + r, b * rails + r)))
                    .collect();
                wanted.sort_unstable();
                assert_eq!(on_rails.pairs().collect::<Vec<_>>(), wanted, "{plain:?} on {rails}");
                assert!(wanted.iter().all(|(a, b)| on_rails.from(*b) == Some(*a)));
            }
        }
    }
}
