//! What a job's traffic is made of.

use schemars::JsonSchema;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Pattern, PatternError};

/// Patterns of a job, each with its part of the job's traffic.
///
/// Text is a sum such as `7*alltoall+3*ring`; a weight of 1 may be left out. `@same` or `@all` at its end says which
/// adapters of nodes with several exchange.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mix(Vec<(Pattern, u16)>, Option<Rails>);

/// Which adapters of a job's nodes exchange.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Rails {
    /// Each with all of other nodes.
    #[default]
    All,
    /// Each with those at its place in other nodes.
    Same,
}

/// How the ranks of a job are on its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub struct Adapters {
    /// Ranks of each node, all in a row: one for each adapter. 1 if nodes differ.
    pub per_node: u32,
    /// Which of them exchange.
    pub rails: Rails,
}

impl Default for Adapters {
    /// One of each node.
    fn default() -> Self {
        Self { per_node: 1, rails: Rails::All }
    }
}

impl Adapters {
    /// Whether nodes have one each.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Rails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::All { "all" } else { "same" })
    }
}

impl FromStr for Rails {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "same" => Ok(Self::Same),
            _ => Err(format!("{text:?} is not all or same")),
        }
    }
}

/// Text that is no mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// A pattern is not one.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A weight is not one.
    #[error("{0:?} is no weight: 1 to 65535")]
    Weight(String),
    /// What follows `@` is not known.
    #[error("@{0}: expected @same or @all (rails)")]
    Rails(String),
}

/// Traffic of a job that says nothing of it.
///
/// All to all in shifts is most of it because its steps contain those of nearly all else: of halo
/// exchanges, Bruck's algorithm, groups, and every pair of ranks once. The exchange in pairs adds
/// the steps of recursive doubling and halving. A ring is a quarter: it is what a reduction of a
/// long vector does, and its two steps are a vanishing part of the many of the other two.
const DEFAULT: [(Pattern, u16); 3] = [(Pattern::Linear, 4), (Pattern::Pairwise, 2), (Pattern::Ring, 2)];

impl Mix {
    /// Of patterns and weights, which must not be 0; repeated patterns are added up, and the order
    /// does not matter. `None` of nothing.
    pub fn new(parts: impl IntoIterator<Item = (Pattern, u16)>) -> Option<Self> {
        let mut all: Vec<(Pattern, u16)> = parts.into_iter().filter(|(_, weight)| *weight > 0).collect();
        all.sort_unstable();
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 = if same { kept.1.saturating_add(next.1) } else { kept.1 };
            same
        });
        (!all.is_empty()).then_some(Self(all, None))
    }

    /// One pattern alone.
    pub fn only(pattern: Pattern) -> Self {
        Self(vec![(pattern, 1)], None)
    }

    /// The patterns with their weights, ascending.
    pub fn parts(&self) -> &[(Pattern, u16)] {
        &self.0
    }

    /// Whether it is that of a job that says nothing.
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT && self.1.is_none()
    }

    /// Which adapters exchange, if it says so.
    pub fn rails(&self) -> Option<Rails> {
        self.1
    }

    /// The same among these adapters.
    #[must_use]
    pub fn among(self, rails: Rails) -> Self {
        Self(self.0, Some(rails))
    }
}

impl Default for Mix {
    /// The traffic of a job that says nothing of it.
    fn default() -> Self {
        Self(DEFAULT.to_vec(), None)
    }
}

impl From<Pattern> for Mix {
    fn from(pattern: Pattern) -> Self {
        Self::only(pattern)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = self.1.map_or(String::new(), |rails| format!("@{rails}"));
        if self.0 == DEFAULT {
            return write!(f, "default{ending}");
        }
        for (i, (pattern, weight)) in self.0.iter().enumerate() {
            let plus = if i == 0 { "" } else { "+" };
            match weight {
                1 => write!(f, "{plus}{pattern}")?,
                _ => write!(f, "{plus}{weight}*{pattern}")?,
            }
        }
        f.write_str(&ending)
    }
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        if let Some((text, rails)) = text.rsplit_once('@') {
            let rails: Rails = rails.parse().map_err(|_| MixError::Rails(rails.to_string()))?;
            return match text.contains('@') {
                true => Err(MixError::Rails(text.rsplit('@').next().unwrap_or_default().to_string())),
                false => Ok(text.parse::<Self>()?.among(rails)),
            };
        }
        if text == "default" {
            return Ok(Self::default());
        }
        let part = |part: &str| {
            let (weight, pattern) = part.split_once('*').unwrap_or(("1", part));
            let number: Option<u16> = weight.trim().parse().ok().filter(|w| *w > 0);
            let weight = number.ok_or_else(|| MixError::Weight(weight.to_string()))?;
            Ok((pattern.trim().parse::<Pattern>()?, weight))
        };
        let parts = text.split('+').map(part).collect::<Result<Vec<_>, MixError>>()?;
        Self::new(parts).ok_or_else(|| MixError::Weight(text.to_string()))
    }
}

impl TryFrom<String> for Mix {
    type Error = MixError;
    fn try_from(text: String) -> Result<Self, MixError> {
        text.parse()
    }
}

impl From<Mix> for String {
    fn from(mix: Mix) -> Self {
        mix.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_a_sum_without_order() {
        let mix: Mix = "3*ring + alltoall + 4*ring".parse().unwrap();
        assert_eq!(mix.parts(), [(Pattern::Pairwise, 1), (Pattern::Ring, 7)]);
        assert_eq!(mix.to_string(), "alltoall+7*ring");
        assert_eq!(mix.to_string().parse(), Ok(mix));
        assert_eq!("default".parse(), Ok(Mix::default()));
        assert_eq!(Mix::default().to_string(), "default");
        assert_eq!(Mix::new(DEFAULT), Some(Mix::default()), "the default is in canonical order");
        let on_rails: Mix = "3*ring+alltoall@same".parse().unwrap();
        assert_eq!((on_rails.rails(), on_rails.parts().len()), (Some(Rails::Same), 2));
        for text in ["alltoall+3*ring@same", "default@all", "default@same"] {
            assert_eq!(text.parse::<Mix>().unwrap().to_string(), text);
        }
        assert_ne!("default@all".parse(), Ok(Mix::default()));
        assert!(!"default@all".parse::<Mix>().unwrap().is_default());
        assert!("ring@same@all".parse::<Mix>().is_err());
        assert_eq!(
            "ring@some".parse::<Mix>().unwrap_err().to_string(),
            "@some: expected @same or @all (rails)"
        );
        assert!("0*ring".parse::<Mix>().is_err());
        assert!("".parse::<Mix>().is_err());
    }
}
