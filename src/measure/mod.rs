//! Tables to figures: slow-down of jobs, EFI, effective EFI, dark fiber, links per job, hops, lower bounds.

pub mod angara;
mod bound;
mod changes;
mod connectivity;
mod hops;
mod loads;
mod lost;
pub mod slowdown;
mod stored;
mod table;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::bound::packing;
pub use self::changes::{changed_routes, moved_share};
pub use self::connectivity::{Connectivity, connectivity};
pub(crate) use self::hops::{Hops, TOGETHER};
use self::loads::AllPairs;
pub use self::loads::{JobFigures, channel_loads, effective_loads, per_job};
pub use self::lost::lost_pairs;
pub use crate::measure::slowdown::or_endless;
pub use crate::measure::slowdown::{
    Predictor, Time, mean_of_kept, of_routes, slowdown_of_steps, slowdowns, slowdowns_of,
};
pub use crate::measure::stored::{Fullest, StorageLoad};
pub use crate::measure::table::{Better, MEASURES, Measure};
use crate::model::{Demand, Fabric, Group, Tables};
use crate::verify::trees::Trees;

/// Edge forwarding index (Definition 3.12) over directed inter-switch channels, counting
/// host-to-host routes.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Load {
    /// Largest over channels.
    pub max: u64,
    /// Smallest over channels.
    pub min: u64,
    /// Mean over channels.
    pub mean: f64,
    /// Population standard deviation over channels.
    pub sd: f64,
    /// No tables can have a smaller `max`.
    #[serde(default)]
    pub lower_bound: u64,
}

/// Effective edge forwarding index (Definition 5.1): routes inside jobs only.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Effective {
    /// Largest over channels.
    pub max: u64,
    /// Mean over channels.
    pub mean: f64,
    /// No tables can have a smaller `max`.
    pub lower_bound: u64,
    /// Share of channels that no job uses (Definition 5.2), 0..=1.
    pub dark_fiber: f64,
    /// Mean over jobs of the job's largest channel count.
    pub max_per_job_mean: f64,
    /// Mean over jobs of the number of channels the job uses.
    pub links_per_job_mean: f64,
}

/// Path lengths in inter-switch channels, over ordered pairs of hosts on different switches.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Paths {
    /// Longest.
    pub max_hops: u32,
    /// Hops between switches of a route, over all pairs of hosts.
    pub mean_hops: f64,
    /// Share of routes that are as short as the fabric allows, 0..=1.
    pub minimal_share: f64,
}

/// What tables are worth for a demand.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Figures {
    /// See [`Time`]. All 1 when the demand is oblivious.
    #[serde(default)]
    pub time: Time,
    /// See [`Load`].
    pub load: Load,
    /// See [`Effective`]. All zero (dark fiber 1) when the demand is oblivious.
    pub effective: Effective,
    /// See [`Paths`].
    pub paths: Paths,
    /// Highest layer in use plus one.
    pub layers_used: u8,
    /// See [`StorageLoad`]; left out without servers or without jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageLoad>,
}

/// Measures tables. Routes with a hole or loop are not counted. Uses all threads; the figures do
/// not depend on their number.
/// O(hosts × switches + switches × channels + demand, see [`effective_loads`]).
pub fn measure(fabric: &Fabric, tables: &Tables, demand: &Demand) -> Figures {
    let trees = Trees::new(fabric, tables);
    figures(&trees, demand, &Counted::of(&trees), effective_bound(fabric, demand))
}

/// [`measure`] of new tables and of those before, if there are any, for one demand. What both have in common is
/// looked at once, and not at all where it was counted already. Also, what is counted of the new ones. As [`measure`]
/// for the first, and for the destinations to which the second differ.
pub fn measure_since(
    fabric: &Fabric,
    before: Option<(&Tables, Option<&Counted>)>,
    after: &Tables,
    demand: &Demand,
) -> (Option<Figures>, Figures, Counted) {
    let (after, bound) = (Trees::new(fabric, after), effective_bound(fabric, demand));
    let Some((before, known)) = before else {
        let counted = Counted::of(&after);
        return (None, figures(&after, demand, &counted, bound), counted);
    };
    let before = Trees::new(fabric, before);
    let known = known.map_or_else(|| Cow::Owned(Counted::of(&before)), Cow::Borrowed);
    let pairs = loads::all_pairs_since(&before, &known.pairs, &after);
    let counted = Counted { pairs, bound: known.bound };
    (Some(figures(&before, demand, &known, bound)), figures(&after, demand, &counted, bound), counted)
}

/// What is counted of tables without any demand.
#[derive(Debug, Clone)]
pub struct Counted {
    pairs: AllPairs,
    /// No tables of the fabric can have a smaller largest load.
    bound: u64,
}

impl Counted {
    fn of(trees: &Trees<'_>) -> Self {
        let hosts: Vec<_> = trees.fabric.host_ids().collect();
        let parts = trees.fabric.parts();
        let bound = bound::lower_bound(trees.fabric, &parts, &[&hosts], None);
        Self { pairs: loads::all_pairs(trees, |_| true), bound }
    }
}

fn figures(trees: &Trees<'_>, demand: &Demand, counted: &Counted, bound: u64) -> Figures {
    let all = &counted.pairs;
    let (effective, per_job) = loads::jobs(trees, &demand.groups);
    let (spread, pairs) = (Spread::of(&all.loads), all.pairs());
    Figures {
        time: time(trees.fabric, trees.tables, demand),
        load: Load {
            max: spread.max,
            min: spread.min,
            mean: spread.mean,
            sd: spread.sd,
            lower_bound: counted.bound,
        },
        effective: effective_figures(&effective, &per_job, bound),
        paths: Paths {
            max_hops: all.longest(),
            mean_hops: ratio(all.hops(), pairs),
            minimal_share: if pairs == 0 { 1.0 } else { ratio(all.minimal, pairs) },
        },
        layers_used: trees.tables.layers_used(),
        storage: stored(trees, demand),
    }
}

/// The [`Figures::effective`] of tables alone: what depends on the jobs. Much cheaper than
/// [`measure`] where only the jobs changed. Cost as [`effective_loads`], and the lower bound's.
pub fn effective(fabric: &Fabric, tables: &Tables, demand: &Demand) -> Effective {
    let (loads, per_job) = loads::jobs(&Trees::new(fabric, tables), &demand.groups);
    effective_figures(&loads, &per_job, effective_bound(fabric, demand))
}

/// The [`Figures::time`] of tables alone. Cost as [`slowdowns`].
pub fn time(fabric: &Fabric, tables: &Tables, demand: &Demand) -> Time {
    Time::of(&slowdowns(fabric, tables, demand))
}

/// The [`Figures::storage`] of tables.
fn stored(trees: &Trees<'_>, demand: &Demand) -> Option<StorageLoad> {
    if demand.storage.is_empty() {
        return None;
    }
    stored::of(trees, &trees.fabric.parts(), demand)
}

fn effective_bound(fabric: &Fabric, demand: &Demand) -> u64 {
    least_load(fabric, &demand.groups)
}

/// No tables can have a smaller maximum inside jobs.
pub fn least_load(fabric: &Fabric, groups: &[Group]) -> u64 {
    let groups: Vec<_> = groups.iter().map(|g| g.terminals.as_slice()).collect();
    bound::lower_bound(fabric, &fabric.parts(), &groups, None)
}

/// [`Load::lower_bound`] with more effort than [`measure`] makes: so many steps towards the optimum of the
/// linear program in which routes may be split. O(steps × switches × channels × log switches).
pub fn lower_bound(fabric: &Fabric, steps: usize) -> u64 {
    let hosts: Vec<_> = fabric.host_ids().collect();
    bound::lower_bound(fabric, &fabric.parts(), &[&hosts], Some(steps))
}

fn effective_figures(loads: &[u64], per_job: &[JobFigures], lower_bound: u64) -> Effective {
    let spread = Spread::of(loads);
    let dark = loads.iter().filter(|n| **n == 0).count() as u64;
    let jobs = per_job.len() as u64;
    Effective {
        max: spread.max,
        mean: spread.mean,
        lower_bound,
        dark_fiber: if loads.is_empty() { 1.0 } else { ratio(dark, loads.len() as u64) },
        max_per_job_mean: ratio(per_job.iter().map(|j| j.max).sum(), jobs),
        links_per_job_mean: ratio(per_job.iter().map(|j| j.links).sum(), jobs),
    }
}

/// a / b, 0 when there is nothing to divide by.
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// Extremes, mean and population standard deviation; all zero for nothing.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    max: u64,
    min: u64,
    mean: f64,
    sd: f64,
}

impl Spread {
    /// Sums are exact, so the result does not depend on the order.
    fn of(values: &[u64]) -> Self {
        let n = values.len() as u128;
        let (Some(max), Some(min)) = (values.iter().max(), values.iter().min()) else {
            return Self::default();
        };
        let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
        let squares: u128 = values.iter().map(|v| u128::from(*v) * u128::from(*v)).sum();
        let variance = (n * squares - sum * sum) as f64 / (n * n) as f64;
        Self { max: *max, min: *min, mean: sum as f64 / n as f64, sd: variance.sqrt() }
    }
}
