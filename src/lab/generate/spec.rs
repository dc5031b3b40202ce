//! Generated specs: `fattree:10x18,5`, `torus:8x8x8,hosts=4,faults=1%,seed=7`, …

use std::collections::BTreeMap;

use super::builder::{Net, NetError};
use super::faults::{Amount, FaultError, Faults};
use super::{dragonflies, graphs, slimfly, systems, tori, trees};
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
        /// What makes it no fabric.
        source: NetError,
    },
    /// The damage cannot be done.
    #[error("spec {spec:?}: {source}")]
    Faults {
        /// As typed.
        spec: String,
        /// What makes the damage impossible.
        source: FaultError,
    },
}

/// Why a generator made nothing: [`SpecError`] without the spec.
#[derive(Debug)]
pub(super) enum Refusal {
    Syntax(String),
    Net(NetError),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Syntax(reason)
    }
}

impl From<&str> for Refusal {
    fn from(reason: &str) -> Self {
        Self::Syntax(reason.to_string())
    }
}

impl From<NetError> for Refusal {
    fn from(error: NetError) -> Self {
        Self::Net(error)
    }
}

/// The parsed words of a spec: positional words and `key=value` options.
pub(super) struct Words {
    /// Comma-separated positional words after the colon, in order.
    pub(super) plain: Vec<String>,
    options: BTreeMap<String, String>,
    /// `redundancy=`: see [`Net`].
    redundancy: usize,
    /// `seed=`: of a random fabric, and of its faults.
    pub(super) seed: u64,
}

impl Words {
    /// `AxBxC,key=value` without the kind.
    fn parse(rest: &str) -> Result<Self, String> {
        let mut words = Self { plain: Vec::new(), options: BTreeMap::new(), redundancy: 1, seed: 1 };
        for word in rest.split(',').filter(|w| !w.is_empty()) {
            match word.split_once('=') {
                Some((key, value)) => {
                    if words.options.insert(key.to_string(), value.to_string()).is_some() {
                        return Err(format!("option {key:?} is given twice"));
                    }
                }
                None => words.plain.push(word.to_string()),
            }
        }
        words.redundancy = words.take("redundancy", 1)?;
        words.seed = words.take("seed", 1)?;
        Ok(words)
    }
    /// An empty net with the redundancy that was asked for.
    pub(super) fn net(&self, switches: usize) -> Result<Net, Refusal> {
        Net::new(switches, self.redundancy)
    }
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
            _ if self.plain.iter().any(|w| w.parse() == Ok(0)) => {
                Err(format!("wants {what}, each at least 1"))
            }
            _ => Err(format!("wants {what}")),
        }
    }
    /// `AxBxC` as numbers of at least 1.
    pub(super) fn sizes(word: &str) -> Result<Vec<usize>, String> {
        let parsed: Result<Vec<usize>, _> = word.split('x').map(str::parse).collect();
        match parsed {
            Ok(sizes) if sizes.iter().all(|n| *n > 0) => Ok(sizes),
            Ok(_) => Err(format!("{word:?}: each number must be at least 1")),
            Err(_) => Err(format!("{word:?} is not of the form 8x8x8")),
        }
    }
    /// Removes `faults=` and `dead-switches=`.
    fn faults(&mut self) -> Result<Faults, String> {
        let cables = match self.options.remove("faults") {
            None => Amount::Count(0),
            Some(text) => text.parse().map_err(|e| format!("faults={text}: {e}"))?,
        };
        Ok(Faults { cables, dead_switches: self.take("dead-switches", 0)?, seed: self.seed })
    }
}

/// Builds the fabric of a spec. Every kind takes `redundancy=R` (R cables for each one),
/// `faults=1%` or `faults=12`, `dead-switches=N` and `seed=S`.
///
/// # Errors
/// [`SpecError`] with the spec as typed.
pub fn generate(spec: &str) -> Result<Fabric, SpecError> {
    let typed = || spec.to_string();
    let refuse = |refusal| match refusal {
        Refusal::Syntax(reason) => SpecError::Syntax { spec: typed(), reason },
        Refusal::Net(source) => SpecError::Net { spec: typed(), source },
    };
    let syntax = |reason| SpecError::Syntax { spec: typed(), reason };
    let kind = kind_of(spec);
    let mut words = Words::parse(spec[kind.len()..].trim_start_matches([':', ','])).map_err(syntax)?;
    let faults = words.faults().map_err(syntax)?;
    let net = build(kind, &mut words).map_err(refuse)?;
    if let Some(key) = words.options.keys().next() {
        return Err(syntax(format!("unknown option {key:?}")));
    }
    let fabric = net.build().map_err(|source| SpecError::Net { spec: typed(), source })?;
    if faults.is_none() {
        return Ok(fabric);
    }
    faults.apply(&fabric).map_err(|source| SpecError::Faults { spec: typed(), source })
}

/// Whether the text looks like a spec rather than a path.
pub fn is_spec(text: &str) -> bool {
    KINDS.contains(&kind_of(text))
}

fn kind_of(spec: &str) -> &str {
    &spec[..spec.find([':', ',']).unwrap_or(spec.len())]
}

/// First words of all specs.
pub const KINDS: &[&str] = &[
    "fattree",
    "kary",
    "xgft",
    "rails",
    "torus",
    "mesh",
    "hyperx",
    "slimfly",
    "dragonfly",
    "cascade",
    "kautz",
    "random",
    "regular",
    "taurus",
    "tsubame2",
    "deimos",
];

fn build(kind: &str, words: &mut Words) -> Result<Net, Refusal> {
    match kind {
        "fattree" => trees::fattree(words),
        "kary" => trees::kary(words),
        "xgft" => trees::xgft(words),
        "rails" => trees::rails(words),
        "torus" => tori::grid(words, true),
        "mesh" => tori::grid(words, false),
        "hyperx" => tori::hyperx(words),
        "slimfly" => slimfly::slimfly(words),
        "dragonfly" => dragonflies::dragonfly(words),
        "cascade" => dragonflies::cascade(words),
        "kautz" => graphs::kautz(words),
        "random" => graphs::random(words),
        "regular" => graphs::regular(words),
        "taurus" => systems::taurus(words),
        "tsubame2" => systems::tsubame2(words),
        "deimos" => systems::deimos(words),
        _ => Err(format!("unknown kind; kinds are {}", KINDS.join(", ")).into()),
    }
}
