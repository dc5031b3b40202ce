//! Patterns as text: `linear`, `halo:4x4x2`, `groups:8`.

use std::fmt;
use std::str::FromStr;

use super::{Grid, PATTERNS, Pattern};
use crate::model::{did_you_mean, nearest};

/// Patterns of groups of ranks: name, form, and how one is made.
type Sized = (&'static str, &'static str, fn(u32) -> Pattern);

const SIZED: [Sized; 3] = [
    ("groups", "groups:G, G from 1", Pattern::Groups),
    ("rail-alltoall", "rail-alltoall:G, G from 1", Pattern::RailAllToAll),
    ("hierarchical", "hierarchical:G, G from 1", Pattern::Hierarchical),
];

/// Text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// No pattern is called so.
    #[error("there is no pattern {name:?}{}", did_you_mean(hint.as_deref()))]
    Unknown {
        /// As written.
        name: String,
        /// The pattern whose name is nearest.
        hint: Option<String>,
    },
    /// A number is missing, wrong or too large.
    #[error("pattern {name:?}: expected {form}")]
    Form {
        /// As written.
        name: String,
        /// How it is written.
        form: &'static str,
    },
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Halo(grid) if [Grid::PLANE, Grid::SPACE].contains(grid) => {
                f.write_str(if *grid == Grid::PLANE { "halo2d" } else { "halo3d" })
            }
            Self::Halo(grid) => match grid.sides() {
                [a, b, 1] => write!(f, "halo:{a}x{b}"),
                [a, b, c] => write!(f, "halo:{a}x{b}x{c}"),
            },
            Self::Groups(size) | Self::RailAllToAll(size) | Self::Hierarchical(size) => {
                let kind = SIZED.iter().find(|(_, _, of)| of(*size) == *self);
                write!(f, "{}:{size}", kind.map_or("", |(kind, ..)| kind))
            }
            plain => {
                let row = PATTERNS.iter().find(|row| row.pattern == *plain);
                f.write_str(row.map_or("", |row| row.form))
            }
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let wrong = |form| PatternError::Form { name: text.to_string(), form };
        let sized = |kind: &str| SIZED.iter().find(|(name, ..)| *name == kind);
        match text.split_once(':') {
            Some(("halo", sides)) => grid(sides).map(Self::Halo).ok_or(wrong("halo:AxB or halo:AxBxC")),
            split => {
                let (kind, size) = split.unwrap_or((text, ""));
                if let Some((_, form, of)) = sized(kind) {
                    return size.parse().ok().filter(|size| *size > 0).map(of).ok_or(wrong(form));
                }
                let known = || PATTERNS.iter().filter(|row| !row.form.contains(':'));
                let found = known().find(|row| row.form == text).map(|row| row.pattern);
                found.ok_or_else(|| match text {
                    "halo" => wrong("halo2d, halo3d, halo:AxB or halo:AxBxC"),
                    _ => PatternError::Unknown {
                        name: text.to_string(),
                        hint: nearest(text, known().map(|row| row.form)).map(str::to_string),
                    },
                })
            }
        }
    }
}

fn grid(text: &str) -> Option<Grid> {
    let sides: Vec<u16> = text.split('x').map(|s| s.parse().ok()).collect::<Option<_>>()?;
    match sides[..] {
        [a, b] => Some(Grid::given(a, b, 1)),
        [a, b, c] => Some(Grid::given(a, b, c)),
        _ => None,
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;
    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let more = ["halo:4x4x2", "halo:8x4", "halo:0x2x3", "groups:8"].map(|t| t.parse().unwrap());
        for pattern in PATTERNS.iter().map(|row| row.pattern).chain(more) {
            let text = pattern.to_string();
            assert_eq!(text.parse(), Ok(pattern), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<Pattern>().unwrap_err().to_string();
        assert_eq!(error("altoall"), "there is no pattern \"altoall\"; did you mean alltoall?");
        assert_eq!(error("quantum-entanglement"), "there is no pattern \"quantum-entanglement\"");
        assert_eq!(error("groups:0"), "pattern \"groups:0\": expected groups:G, G from 1");
        assert_eq!(error("halo:4"), "pattern \"halo:4\": expected halo:AxB or halo:AxBxC");
    }
}
