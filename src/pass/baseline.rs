//! What jobs would get from routes that know no jobs.

use serde::Serialize;

use crate::measure::{Time, slowdowns};
use crate::model::{Demand, Fabric, Group, LayerBudget, Tables};
use crate::route::{EngineOptions, engine};

/// Engines that know no jobs, and how large a fabric (switches times hosts) may be for each: the answer must be
/// there while somebody waits for it.
const ENGINES: [(&str, usize); 3] = [("fattree", usize::MAX), ("updown", usize::MAX), ("dfsssp", 1 << 24)];

/// The best of the engines that know no jobs, among those that everybody has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    /// Its name.
    pub engine: &'static str,
    /// Slow-down of the jobs with its tables.
    #[serde(flatten)]
    pub time: Time,
    /// Of each group.
    #[serde(skip)]
    pub slowdowns: Vec<f64>,
}

impl Baseline {
    /// For the groups of several switches; `None` without any, and if no engine routes the fabric.
    /// As the engines and [`slowdowns`].
    pub fn of(fabric: &Fabric, groups: &[Group]) -> Option<Self> {
        if groups.is_empty() {
            return None;
        }
        let demand = Demand { groups: groups.to_vec(), ..Demand::default() };
        let size = fabric.switches().len() * fabric.terminals().len();
        let tables = |name: &str| -> Option<Tables> {
            let engine = engine(name, &EngineOptions::default()).ok()?;
            engine.route(fabric, &Demand::oblivious(), LayerBudget::MOST).ok()
        };
        let all = ENGINES.iter().filter(|(_, most)| size <= *most).filter_map(|(name, _)| {
            let slowdowns = slowdowns(fabric, &tables(name)?, &demand);
            Some(Self { engine: name, time: Time::of(&slowdowns), slowdowns })
        });
        all.min_by(|a, b| a.time.slowdown_mean.total_cmp(&b.time.slowdown_mean))
    }
}
