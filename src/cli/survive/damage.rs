//! How much of a fabric fails: levels of damage from numbers, shares, ratios or years.

use schemars::JsonSchema;
use std::fmt;

use crate::cli::Failure;
use crate::lab::generate::faults::{Amount, Faults};
use crate::model::Fabric;

/// For whom a report on broken parts is.
pub const DAMAGED_FABRICS: &str = "Fabrics whose broken cables stay in use for days. Where they are replaced within hours, \
                                   what the healthy fabric needs decides.";

/// Arguments that say how much fails.
#[derive(Debug, Clone, clap::Args)]
pub struct Damage {
    /// Levels of damage: numbers or shares; on a direct torus without them each link and each node alone
    #[arg(long, value_name = "N|P%,…", value_delimiter = ',', conflicts_with = "years")]
    faults: Vec<Amount>,
    /// What fails: cables, switches (on a direct torus nodes), or both in a ratio of switches to cables such as 1:13
    #[arg(long, value_name = "cables|switches|nodes|S:C", default_value = "cables")]
    what: String,
    /// Levels of damage by age, from 0 to so many years, at the annual rates
    #[arg(long, value_name = "Y", value_parser = clap::value_parser!(u32).range(1..=1000))]
    years: Option<u32>,
    /// Share of the cables that fails in a year
    #[arg(long, value_name = "P%", default_value = "0.9%")]
    annual_cables: Amount,
    /// Share of the switches that fails in a year
    #[arg(long, value_name = "P%", default_value = "1%")]
    annual_switches: Amount,
    /// Damaged fabrics per level, seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
}

/// One level of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, serde::Serialize, serde::Deserialize)]
pub struct Level {
    /// Cables that fail.
    pub cables: usize,
    /// Switches that fail.
    pub switches: usize,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words([["cable", "cables"], ["switch", "switches"]]))
    }
}

impl Level {
    /// Components that fail.
    pub fn faults(self) -> usize {
        self.cables + self.switches
    }
    /// What fails, with the words for one and for several cables, and switches.
    pub fn in_words(self, words: [[&str; 2]; 2]) -> String {
        let some = |(n, [one, many]): (usize, [&str; 2])| match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {many}")),
        };
        let parts: Vec<String> =
            [self.cables, self.switches].into_iter().zip(words).filter_map(some).collect();
        if parts.is_empty() { "no fault".into() } else { parts.join(" and ") }
    }
    /// The damage with a seed.
    pub fn with(self, seed: u64) -> Faults {
        Faults { cables: Amount::Count(self.cables), dead_switches: self.switches, seed }
    }
}

fn of(amount: Amount, all: usize) -> f64 {
    match amount {
        Amount::Count(n) => n as f64,
        Amount::Percent(share) => all as f64 * share / 100.0,
    }
}

impl Damage {
    /// The levels for so many cables and switches, in the order given; `default` where none is.
    ///
    /// # Errors
    /// If `--what` is not understood.
    pub fn levels(&self, [cables, switches]: [usize; 2], default: &[Amount]) -> Result<Vec<Level>, Failure> {
        let round = |n: f64| n.round() as usize;
        if let Some(years) = self.years {
            let rate = |amount, all| of(amount, all);
            let at = |y: u32| Level {
                cables: round(rate(self.annual_cables, cables) * f64::from(y)),
                switches: round(rate(self.annual_switches, switches) * f64::from(y)),
            };
            return Ok((0..=years).map(at).collect());
        }
        let amounts = if self.faults.is_empty() { default } else { &self.faults };
        let level = |amount: &Amount| -> Result<Level, Failure> {
            Ok(match self.what.as_str() {
                "cables" => Level { cables: round(of(*amount, cables)), switches: 0 },
                "switches" | "nodes" => Level { cables: 0, switches: round(of(*amount, switches)) },
                ratio => {
                    let parts = ratio.split_once(':').and_then(|(s, c)| {
                        let (s, c) = (s.parse::<f64>().ok()?, c.parse::<f64>().ok()?);
                        (s > 0.0 && c > 0.0).then_some(s / c).filter(|ratio| ratio.is_finite())
                    });
                    let per_cable = parts
                        .ok_or_else(|| format!("--what {ratio}: must be cables, switches, nodes or S:C"))?;
                    let cut = round(of(*amount, cables));
                    Level { cables: cut, switches: round(cut as f64 * per_cable) }
                }
            })
        };
        amounts.iter().map(level).collect()
    }

    /// Of the usual levels those that a fabric can take with every seed, if any; what was typed stays as it is.
    pub fn bearable(&self, fabric: &Fabric, levels: Vec<Level>) -> Vec<Level> {
        let bears = |level: &Level| (1..=self.seeds).all(|seed| level.with(seed).apply(fabric).is_ok());
        let is_usual = self.faults.is_empty() && self.years.is_none();
        let bearable: Vec<Level> = levels.iter().copied().filter(|l| is_usual && bears(l)).collect();
        if bearable.is_empty() { levels } else { bearable }
    }
}
