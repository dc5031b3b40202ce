//! Generated specs: `fattree:10x18,5`, `torus:8x8x8,hosts=4,faults=1%,seed=7`, …

use std::collections::BTreeMap;

use super::builder::{Net, NetError};
use super::{tori, trees, wild};
use crate::model::Fabric;

/// A spec that is not understood or cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is not a spec.
    #[error("spec {spec:?}: {reason}")]
    Syntax {
        /// As typed.
        spec: String,
        /// What is wrong.
        reason: String,
    },
    /// The fabric cannot exist.
    #[error("spec {spec:?}: {source}")]
    Net {
        /// As typed.
        spec: String,
        /// Why.
        source: NetError,
    },
}

/// The parsed words of a spec: positional numbers and `key=value` options.
pub(super) struct Words {
    /// Comma-separated positional words after the colon, in order.
    pub(super) plain: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Words {
    /// Removes an option and parses it; `default` if absent.
    pub(super) fn take<T: std::str::FromStr>(&mut self, key: &str, default: T) -> Result<T, String> {
        match self.options.remove(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{key}={text} is not a number")),
        }
    }
    /// The positional words as numbers of at least 1; exactly `n` of them.
    pub(super) fn numbers<const N: usize>(&self, what: &str) -> Result<[usize; N], String> {
        let parsed: Vec<usize> =
            self.plain.iter().filter_map(|w| w.parse().ok()).filter(|n| *n > 0).collect();
        match parsed.try_into() {
            Ok(array) if self.plain.len() == N => Ok(array),
            _ => Err(format!("wants {what}")),
        }
    }
    /// `AxBxC` as numbers of at least 1.
    pub(super) fn sizes(word: &str) -> Result<Vec<usize>, String> {
        let parsed: Result<Vec<usize>, _> = word.split('x').map(str::parse).collect();
        match parsed {
            Ok(sizes) if sizes.iter().all(|n| *n > 0) => Ok(sizes),
            _ => Err(format!("{word:?} is not of the form 8x8x8")),
        }
    }
}

/// Builds the fabric of a spec.
///
/// # Errors
/// [`SpecError`] with the spec as typed.
pub fn generate(spec: &str) -> Result<Fabric, SpecError> {
    let syntax = |reason: String| SpecError::Syntax { spec: spec.to_string(), reason };
    let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let mut words = split(rest);
    let net = build(kind, &mut words).map_err(syntax)?;
    let fabric = net.build().map_err(|source| SpecError::Net { spec: spec.to_string(), source })?;
    if let Some(key) = words.options.keys().next() {
        return Err(syntax(format!("unknown option {key:?}")));
    }
    Ok(fabric)
}

/// Whether the text looks like a spec rather than a path.
pub fn is_spec(text: &str) -> bool {
    KINDS.contains(&text.split(':').next().unwrap_or(text))
}

pub(crate) const KINDS: &[&str] = &["fattree", "kary", "torus", "mesh", "random"];

fn split(rest: &str) -> Words {
    let mut words = Words { plain: Vec::new(), options: BTreeMap::new() };
    for word in rest.split(',').filter(|w| !w.is_empty()) {
        match word.split_once('=') {
            Some((k, v)) => {
                words.options.insert(k.to_string(), v.to_string());
            }
            None => words.plain.push(word.to_string()),
        }
    }
    words
}

fn build(kind: &str, words: &mut Words) -> Result<Net, String> {
    match kind {
        "fattree" => trees::fattree(words),
        "kary" => trees::kary(words),
        "torus" => tori::grid(words, true),
        "mesh" => tori::grid(words, false),
        "random" => wild::random(words),
        _ => Err(format!("unknown kind; kinds are {}", KINDS.join(", "))),
    }
}
