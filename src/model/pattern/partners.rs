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
