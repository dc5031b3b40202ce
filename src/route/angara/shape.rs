//! A route as hops per dimension and non-standard steps.

use crate::model::torus::{DIRECTIONS, MAX_DIMS, MAX_SIZE};
use crate::model::{Direction, Step};

/// A legal route in the form of the router's header: hops per dimension (negative in the negative
/// direction), and the non-standard steps. Not valid on its own: it belongs to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Shape {
    pub(super) hops: [i8; MAX_DIMS],
    pub(super) first: Option<Dir>,
    pub(super) last: Option<Dir>,
}

/// No route has more hops: once round each dimension, a first and a last step.
pub const MAX_HOPS: usize = MAX_DIMS * MAX_SIZE + 2;

/// A direction that leaves room for `None` in one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dir {
    PX,
    PY,
    PZ,
    PK,
    NX,
    NY,
    NZ,
    NK,
}

pub(super) const DIRS: [Dir; DIRECTIONS] =
    [Dir::PX, Dir::PY, Dir::PZ, Dir::PK, Dir::NX, Dir::NY, Dir::NZ, Dir::NK];

impl Dir {
    pub(super) fn get(self) -> Direction {
        Direction::at(self as usize)
    }
}

impl Shape {
    /// Number of hops.
    #[inline]
    pub fn len(&self) -> usize {
        let core: usize = self.hops.iter().map(|h| usize::from(h.unsigned_abs())).sum();
        core + usize::from(self.first.is_some()) + usize::from(self.last.is_some())
    }

    /// Whether it leads nowhere.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Direction of the first hop; of a route that leads nowhere, any.
    pub fn exit(&self) -> Direction {
        if let Some(first) = self.first {
            return first.get();
        }
        let up = self.hops.iter().position(|h| *h > 0).map(Direction::positive);
        let down = || self.hops.iter().position(|h| *h < 0).map(Direction::negative);
        up.or_else(down).unwrap_or(Direction::at(0))
    }

    /// Number of changes of direction.
    pub fn turns(&self) -> usize {
        let segments = self.hops.iter().filter(|h| **h != 0).count();
        (segments + usize::from(self.first.is_some()) + usize::from(self.last.is_some())).saturating_sub(1)
    }

    /// The segments of the ordered part: direction and hops.
    #[inline]
    pub(super) fn segments(&self) -> impl Iterator<Item = (Direction, u8)> {
        let up = self.hops.into_iter().enumerate().filter(|(_, h)| *h > 0);
        let down = self.hops.into_iter().enumerate().filter(|(_, h)| *h < 0);
        let up = up.map(|(dim, h)| (Direction::positive(dim), h.unsigned_abs()));
        up.chain(down.map(|(dim, h)| (Direction::negative(dim), h.unsigned_abs())))
    }

    /// As the steps of a table, written to the front of `steps`.
    pub fn steps<'s>(&self, steps: &'s mut [Step; MAX_HOPS]) -> &'s [Step] {
        let mut end = 0;
        let mut put = |step: Step, hops: u8| {
            steps[end..end + usize::from(hops)].fill(step);
            end += usize::from(hops);
        };
        if let Some(first) = self.first {
            put(Step::first(first.get()), 1);
        }
        for (dim, hops) in self.hops.iter().enumerate().filter(|(_, h)| **h > 0) {
            put(Step::plain(Direction::positive(dim)), hops.unsigned_abs());
        }
        for (dim, hops) in self.hops.iter().enumerate().filter(|(_, h)| **h < 0) {
            put(Step::plain(Direction::negative(dim)), hops.unsigned_abs());
        }
        if let Some(last) = self.last {
            put(Step::last(last.get()), 1);
        }
        &steps[..end]
    }
}
