//! Directions of a torus and steps of a route.

use std::fmt;
use std::str::FromStr;

use super::TorusError;

/// The most dimensions a torus may have: X, Y, Z, K.
pub const MAX_DIMS: usize = 4;
/// Number of directions: two per dimension.
pub const DIRECTIONS: usize = 2 * MAX_DIMS;

const LETTERS: [char; MAX_DIMS] = ['X', 'Y', 'Z', 'K'];

/// A direction, ordered `+X +Y +Z +K -X -Y -Z -K` (section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Direction(u8);

impl Direction {
    /// The positive direction of a dimension.
    pub const fn positive(dim: usize) -> Self {
        Self((dim % MAX_DIMS) as u8)
    }
    /// The negative direction of a dimension.
    pub const fn negative(dim: usize) -> Self {
        Self((dim % MAX_DIMS + MAX_DIMS) as u8)
    }
    /// From its place in the order; taken modulo 8.
    #[inline]
    pub const fn at(index: usize) -> Self {
        Self((index % DIRECTIONS) as u8)
    }
    /// All eight, in order.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..DIRECTIONS).map(Self::at)
    }
    /// Place in the order, 0..8.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// Its dimension, 0..4.
    #[inline]
    pub const fn dim(self) -> usize {
        self.0 as usize % MAX_DIMS
    }
    /// Whether it leads to smaller coordinates.
    #[inline]
    pub const fn is_negative(self) -> bool {
        self.0 as usize >= MAX_DIMS
    }
    /// The way back.
    #[inline]
    pub const fn opposite(self) -> Self {
        Self(self.0 ^ MAX_DIMS as u8)
    }
    /// Its bit in a set of directions.
    #[inline]
    pub const fn bit(self) -> u8 {
        1 << self.0
    }
}

impl fmt::Display for Direction {
    /// `+X` … `-K`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_negative() { '-' } else { '+' }, LETTERS[self.dim()])
    }
}

impl FromStr for Direction {
    type Err = TorusError;
    fn from_str(s: &str) -> Result<Self, TorusError> {
        let mut chars = s.chars();
        let (sign, letter) = (chars.next(), chars.next());
        let dim = LETTERS.iter().position(|l| Some(*l) == letter);
        match (sign, dim, chars.next()) {
            (Some('+'), Some(dim), None) => Ok(Self::positive(dim)),
            (Some('-'), Some(dim), None) => Ok(Self::negative(dim)),
            _ => Err(TorusError::NotDirection { text: s.to_string() }),
        }
    }
}

/// One hop of a route: a direction, and whether it is the non-standard first or last step
/// (section 2.1, FS/LS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(u8);

impl Step {
    const FIRST: u8 = 8;
    const LAST: u8 = 16;

    /// A hop that obeys direction order and direction bits.
    #[inline]
    pub const fn plain(direction: Direction) -> Self {
        Self(direction.0)
    }
    /// A non-standard first step.
    pub const fn first(direction: Direction) -> Self {
        Self(direction.0 | Self::FIRST)
    }
    /// A non-standard last step.
    pub const fn last(direction: Direction) -> Self {
        Self(direction.0 | Self::LAST)
    }
    /// Where it leads.
    #[inline]
    pub const fn direction(self) -> Direction {
        Direction(self.0 % DIRECTIONS as u8)
    }
    /// Whether it is marked as a non-standard first step.
    #[inline]
    pub const fn is_first(self) -> bool {
        self.0 & Self::FIRST != 0
    }
    /// Whether it is marked as a non-standard last step.
    #[inline]
    pub const fn is_last(self) -> bool {
        self.0 & Self::LAST != 0
    }
    /// Steps as written in `routes.txt`: `F+K,-X,+Y`; empty text for a route that is not there.
    pub fn join(steps: &[Step]) -> String {
        steps.iter().map(Step::to_string).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_first() {
            "F"
        } else if self.is_last() {
            "L"
        } else {
            ""
        };
        write!(f, "{mark}{}", self.direction())
    }
}

impl FromStr for Step {
    type Err = TorusError;
    fn from_str(s: &str) -> Result<Self, TorusError> {
        match s.as_bytes().first() {
            Some(b'F') => Ok(Self::first(s[1..].parse()?)),
            Some(b'L') => Ok(Self::last(s[1..].parse()?)),
            _ => Ok(Self::plain(s.parse()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_text_are_the_papers() {
        let text: String = Direction::all().map(|d| d.to_string()).collect();
        assert_eq!(text, "+X+Y+Z+K-X-Y-Z-K");
        assert_eq!(Direction::positive(2).opposite().to_string(), "-Z");
        for text in ["F+K", "-X", "L-Y", "+Z"] {
            assert_eq!(text.parse::<Step>().unwrap().to_string(), text);
        }
        for bad in ["", "F", "X", "+", "+W", "+XX", "FL+X", "é+X"] {
            assert!(bad.parse::<Step>().is_err(), "{bad}");
        }
    }
}
