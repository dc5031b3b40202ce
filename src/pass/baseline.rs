//! What jobs would get from routes that know no jobs.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;

use crate::measure::{Time, slowdowns};
use crate::model::{Demand, Fabric, Group, LayerBudget, Tables};
use crate::route::{self, EngineOptions, engine};

/// Engines that know no jobs, and how large a fabric (switches times hosts) may be for each: the answer must be
/// there while somebody waits for it.
const ENGINES: [(&str, usize); 5] = [
    ("fattree", usize::MAX),
    ("updown", usize::MAX),
    ("dfsssp", 1 << 24),
    ("torus", 1 << 22),
    ("nue", 1 << 17),
];

/// How large a fabric may be for tables that are kept: in a larger one they would delay each epoch by more than a tenth
/// of a second, and take more memory than the epoch's own.
const MOST_KEPT: usize = 1 << 22;

/// The engine without jobs that the settings name; if they name none, the best of those that everybody has.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Baseline {
    /// Its name.
    pub engine: &'static str,
    /// Whether the settings name it.
    pub named: bool,
    /// Slow-down of the jobs with its tables.
    #[serde(flatten)]
    pub time: Time,
    /// Of each group.
    #[serde(skip)]
    pub slowdowns: Vec<f64>,
}

impl Baseline {
    /// For the groups of several switches; `None` without any, and if no engine routes the fabric on so many layers.
    /// `named`: by the settings, on as many as it needs. As the engines and [`slowdowns`].
    pub fn of(fabric: &Fabric, groups: &[Group], named: Option<&str>, budget: LayerBudget) -> Option<Self> {
        if groups.is_empty() {
            return None;
        }
        let with = |(engine, tables): (_, Tables)| {
            (Self::with((engine, named.is_some()), fabric, &tables, groups), ())
        };
        Some(Self::best(routed(fabric, named, budget).map(with))?.0)
    }

    /// The engine and its tables; without jobs, those of the first engine that routes the fabric. As [`Self::of`].
    pub fn tables(
        fabric: &Fabric,
        groups: &[Group],
        named: Option<&str>,
        budget: LayerBudget,
    ) -> Option<(&'static str, Tables)> {
        let mut all = routed(fabric, named, budget);
        if groups.is_empty() {
            return all.next();
        }
        let all = all
            .map(|(engine, tables)| (Self::with((engine, named.is_some()), fabric, &tables, groups), tables));
        let (best, tables) = Self::best(all)?;
        Some((best.engine, tables))
    }

    /// The one of an engine that knows no jobs, if there are groups and its tables are better than this. As [`slowdowns`].
    #[must_use]
    pub fn or_with(
        found: Option<Self>,
        engine: &'static str,
        fabric: &Fabric,
        tables: &Tables,
        groups: &[Group],
    ) -> Option<Self> {
        if groups.is_empty() {
            return found;
        }
        let other = Self::with((engine, false), fabric, tables, groups);
        Some(Self::best(found.into_iter().chain([other]).map(|one| (one, ())))?.0)
    }

    /// `named`: whether the settings name the engine.
    fn with(
        (engine, named): (&'static str, bool),
        fabric: &Fabric,
        tables: &Tables,
        groups: &[Group],
    ) -> Self {
        let demand = Demand { groups: groups.to_vec(), ..Demand::default() };
        let slowdowns = slowdowns(fabric, tables, &demand);
        Self { engine, named, time: Time::of(&slowdowns), slowdowns }
    }

    /// The one with the least time, and what came with it.
    fn best<T>(all: impl Iterator<Item = (Self, T)>) -> Option<(Self, T)> {
        all.min_by(|(a, _), (b, _)| a.time.slowdown_mean.total_cmp(&b.time.slowdown_mean))
    }
}

fn size(fabric: &Fabric) -> usize {
    fabric.switches().len() * fabric.terminals().len()
}

/// The tables of each engine that routes the fabric on so many layers; where one is named, of this one alone, on as many
/// as there can be.
fn routed(
    fabric: &Fabric,
    named: Option<&str>,
    budget: LayerBudget,
) -> impl Iterator<Item = (&'static str, Tables)> {
    let (size, budget) = (size(fabric), if named.is_some() { LayerBudget::MOST } else { budget });
    let engines = match named {
        // Who names one waits for it.
        Some(name) => route::row(name).map(|row| (row.name, usize::MAX)).into_iter().collect(),
        None => ENGINES.to_vec(),
    };
    engines.into_iter().filter(move |(_, most)| size <= *most).filter_map(move |(name, _)| {
        let engine = engine(name, &EngineOptions::default()).ok()?;
        Some((name, engine.route(fabric, &Demand::oblivious(), budget).ok()?))
    })
}

/// Tables of one fabric that know no jobs, made when first asked for and kept with whoever has a copy.
#[derive(Debug, Clone, Default)]
pub struct Oblivious(Arc<Mutex<Option<Kept>>>);

/// Tables, and the engine that was named and the layers that there were when they were made.
#[derive(Debug)]
struct Kept {
    named: Option<String>,
    budget: LayerBudget,
    tables: Vec<(&'static str, Tables)>,
}

impl Oblivious {
    /// As [`Baseline::of`] for the one fabric; `None` too if no engine is named and the fabric is so large that tables are
    /// not kept: who names one pays for it.
    pub fn baseline(
        &self,
        fabric: &Fabric,
        groups: &[Group],
        named: Option<&str>,
        budget: LayerBudget,
    ) -> Option<Baseline> {
        if groups.is_empty() || (named.is_none() && size(fabric) > MOST_KEPT) {
            return None;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The settings may have changed while the fabric has not.
        let known = kept.take().filter(|kept| kept.named.as_deref() == named && kept.budget == budget);
        let known = known.unwrap_or_else(|| Kept {
            named: named.map(String::from),
            budget,
            tables: routed(fabric, named, budget).collect(),
        });
        let with = |(engine, tables): &(&'static str, Tables)| {
            Baseline::with((engine, named.is_some()), fabric, tables, groups)
        };
        let best = Baseline::best(known.tables.iter().map(|own| (with(own), ())));
        *kept = Some(known);
        Some(best?.0)
    }
}

#[cfg(test)]
mod tests;
