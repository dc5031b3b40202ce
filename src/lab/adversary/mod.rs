//! A search for cases in which an engine is behind another one: fabrics, layers and jobs drawn at random, all
//! engines on each.

mod draw;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::lab::board::{Accepted, mix};
use crate::lab::generate::{SpecError, generate};
use crate::measure;
use crate::model::rng::Rng;
use crate::model::{Demand, Fabric, Group, LayerBudget, Promise, Tables, TerminalId};
use crate::route;
use crate::simulate::{Net, exchange};

/// Sizes of jobs, of which those that are at most half of the hosts are drawn.
const SIZES: [usize; 6] = [4, 8, 16, 32, 64, 128];
/// Behind by more than this is a fault.
pub const MUCH: f64 = 1.02;
/// Behind by less than this is level: figures with decimals may differ in their last digits.
const LEVEL: f64 = 1.0 + 1e-9;

/// What all engines are asked.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Case {
    /// Spec that makes the fabric again.
    pub fabric: String,
    /// Layers that engines may use.
    pub layers: LayerBudget,
    /// Seed of the jobs; `None`: no jobs are known.
    pub mix: Option<u64>,
}

/// The engine in question beside the best other one.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct BesideBest {
    /// What was asked.
    #[serde(flatten)]
    pub case: Case,
    /// With jobs predicted slow-down, see [`measure::Time::slowdown_mean`]; without, most routes between hosts on
    /// a channel. `None` if there were no accepted tables.
    pub figure: Option<f64>,
    /// Without jobs, what no tables are below.
    pub bound: Option<u64>,
    /// The best of the others; `None` if they all refuse.
    pub best: Option<String>,
    /// Largest load or slow-down of its tables; `None` if no other engine routes the fabric.
    pub best_figure: Option<f64>,
    /// `figure` over `best_figure`; 1 if there is nothing to beat.
    pub ratio: Option<f64>,
    /// Where that is above 1 with jobs: the same of simulated time, geometric mean of [`exchange::runs`]. `None`
    /// with more jobs than that takes.
    pub simulated: Option<f64>,
}

impl BesideBest {
    /// Behind by more than 2 %, or without tables where others have some.
    pub fn is_far_behind(&self) -> bool {
        self.is_above(MUCH)
    }

    /// Behind at all.
    pub fn is_behind(&self) -> bool {
        self.is_above(LEVEL)
    }

    /// Behind in prediction, and not ahead in the simulator.
    fn is_above(&self, level: f64) -> bool {
        self.is_predicted_above(level) && self.simulated.is_none_or(|simulated| simulated > level)
    }

    fn is_predicted_above(&self, level: f64) -> bool {
        self.best_figure.is_some() && self.ratio.is_none_or(|ratio| ratio > level)
    }
}

/// Who is compared.
#[derive(Debug, Clone)]
pub struct Contest {
    /// The engine in question.
    pub engine: String,
    /// What tables must be proved for.
    pub promise: Promise,
}

/// Draws cases: fabrics of at most so many hosts, budgets in turn, every second case with jobs. The same for a
/// seed, and the first of more are those of fewer.
pub fn cases(seed: u64, layers: &[LayerBudget], most_hosts: usize) -> impl Iterator<Item = Case> {
    let mut rng = Rng::new(seed);
    let layers = layers.to_vec();
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let fabric = draw::spec(&mut rng, most_hosts)?;
            // Damage may be more than the fabric has, and all hosts may be on one switch that is left.
            if !generate(&fabric).is_ok_and(|fabric| fabric.host_ids().count() > 5) {
                continue;
            }
            let turn = number / 2;
            let with_jobs = number % 2 == 1;
            number += 1;
            let mix = with_jobs.then(|| 1 + rng.below(999) as u64);
            return Some(Case { fabric, layers: *layers.get(turn % layers.len().max(1))?, mix });
        }
    })
}

/// The jobs of a case: a mix on 95 % of the hosts, of sizes up to half of them. Those on one switch are left out, as
/// everywhere.
pub fn jobs(fabric: &Fabric, seed: u64) -> Vec<Group> {
    let half = fabric.host_ids().count() / 2;
    let sizes: Vec<usize> = SIZES.into_iter().filter(|size| *size <= half).collect();
    let mut groups = mix(fabric, seed, if sizes.is_empty() { &[2] } else { &sizes });
    let home = |t: &TerminalId| fabric.terminal(*t).switch;
    groups.retain(|g| g.terminals.iter().any(|t| home(t) != home(&g.terminals[0])));
    groups
}

/// Most routes between hosts on a channel, or with jobs the predicted slow-down.
fn figure(fabric: &Fabric, tables: &Tables, demand: &Demand) -> f64 {
    match demand.is_oblivious() {
        true => measure::channel_loads(fabric, tables).into_iter().max().unwrap_or(0) as f64,
        false => measure::time(fabric, tables, demand).slowdown_mean,
    }
}

/// Simulated time with the first tables over that with the second ones.
fn simulated(fabric: &Fabric, tables: [&Tables; 2], demand: &Demand) -> Option<f64> {
    let net =
        (!demand.is_oblivious() && exchange::is_short(&demand.groups)).then(|| Net::of_fabric(fabric))?;
    let runs = |t| exchange::runs((fabric, &net), t, &demand.groups, exchange::BYTES);
    let [own, best] = tables.map(|t| exchange::geometric(runs(t)));
    Some(own / best)
}

impl Contest {
    /// The engine beside all others that are accepted, and `given` tables of others; with jobs beside its own
    /// tables for none too.
    ///
    /// # Errors
    /// If the fabric is none.
    pub fn row(&self, case: &Case, given: &[(String, Tables)]) -> Result<BesideBest, SpecError> {
        let fabric = generate(&case.fabric)?;
        let accepted = Accepted::new(&fabric, case.layers, self.promise);
        let groups = case.mix.map(|seed| jobs(&fabric, seed)).unwrap_or_default();
        let demand = Demand::new(groups, Vec::new());
        let nobody = Demand::oblivious();
        // Without jobs these two are one.
        let is_same = |a: &str, b: &str| {
            a == b || demand.is_oblivious() && [a, b].iter().all(|e| e.starts_with("balanced"))
        };
        let others = route::names().into_iter().filter(|name| !is_same(name, &self.engine));
        let mut asked: Vec<(String, &str, &Demand)> =
            others.map(|name| (name.to_string(), name, &demand)).collect();
        if !demand.is_oblivious() {
            asked.push((format!("{} without jobs", self.engine), &self.engine, &nobody));
        }
        let found = asked.into_par_iter().filter_map(|(label, name, told)| {
            let tables = accepted.route(name, &fabric, told)?;
            Some((figure(&fabric, &tables, &demand), (label, tables)))
        });
        let mut found: Vec<(f64, (String, Tables))> = found.collect();
        let given = given.iter().filter(|(_, tables)| accepted.has(&fabric, tables));
        found.extend(given.map(|of| (figure(&fabric, &of.1, &demand), of.clone())));
        let (best_figure, best) =
            found.into_iter().reduce(|best, next| if next.0 < best.0 { next } else { best }).unzip();
        let own = accepted.route(&self.engine, &fabric, &demand);
        let figure = own.as_ref().map(|tables| figure(&fabric, tables, &demand));
        let ratio = figure.map(|own| match best_figure {
            Some(best) if own > best || best > 0.0 => own / best,
            _ => 1.0,
        });
        let of = own.as_ref().zip(best.as_ref()).filter(|_| ratio.is_some_and(|ratio| ratio > LEVEL));
        let simulated = of.and_then(|(own, best)| simulated(&fabric, [own, &best.1], &demand));
        let bound = own.filter(|_| demand.is_oblivious());
        let bound = bound.map(|tables| measure::measure(&fabric, &tables, &demand).load.lower_bound);
        let best = best.map(|(label, _)| label);
        Ok(BesideBest { case: case.clone(), figure, bound, best, best_figure, ratio, simulated })
    }
}

/// How often an engine is behind.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Summary {
    /// Cases looked at.
    pub specs: usize,
    /// Behind by more than 2 %.
    pub far_behind: usize,
    /// Behind by at most that.
    pub behind: usize,
    /// Behind in prediction, but not in the simulator: by more than 2 %, by at most that.
    pub only_predicted: [usize; 2],
    /// Geometric mean of figure over best other figure, without jobs and with.
    pub mean_ratio: [f64; 2],
    /// Without jobs, geometric mean of figure over bound.
    pub mean_to_bound: f64,
    /// Rows that are behind, the worst first.
    pub worst: Vec<BesideBest>,
    /// All rows, in the order of the draw.
    pub rows: Vec<BesideBest>,
}

impl Summary {
    /// Of all rows.
    pub fn new(rows: Vec<BesideBest>) -> Self {
        let far_behind = rows.iter().filter(|row| row.is_far_behind()).count();
        let mut worst: Vec<BesideBest> = rows.iter().filter(|row| row.is_behind()).cloned().collect();
        let refuted = |row: &&BesideBest| row.is_predicted_above(LEVEL) && !row.is_behind();
        let refuted: Vec<&BesideBest> = rows.iter().filter(refuted).collect();
        let far_refuted = refuted.iter().filter(|row| row.is_predicted_above(MUCH)).count();
        let only_predicted = [far_refuted, refuted.len() - far_refuted];
        let key =
            |row: &BesideBest| row.ratio.map_or(f64::INFINITY, |r| row.simulated.map_or(r, |s| r.min(s)));
        worst.sort_by(|a, b| key(b).total_cmp(&key(a)));
        let with = |jobs: bool| {
            let rows = rows.iter().filter(move |row| row.case.mix.is_some() == jobs);
            geometric(rows.filter_map(|row| row.ratio))
        };
        let to_bound = |row: &BesideBest| Some(row.figure? / row.bound.filter(|b| *b > 0)? as f64);
        Self {
            specs: rows.len(),
            far_behind,
            behind: worst.len() - far_behind,
            only_predicted,
            mean_ratio: [with(false), with(true)],
            mean_to_bound: geometric(rows.iter().filter_map(to_bound)),
            worst,
            rows,
        }
    }
}

/// The geometric mean of what is above 0; 1 of nothing.
fn geometric(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.filter(|v| *v > 0.0 && v.is_finite()).map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: Option<f64>, best: Option<f64>) -> BesideBest {
        let case = Case { fabric: "kary:2,2".to_string(), layers: LayerBudget::new(1).unwrap(), mix: None };
        let ratio = figure.map(|f| best.map_or(1.0, |b| f / b));
        BesideBest {
            case,
            figure,
            bound: Some(50),
            best: best.map(|_| "nue".to_string()),
            best_figure: best,
            ratio,
            simulated: None,
        }
    }

    #[test]
    fn what_is_behind_is_counted_and_the_worst_comes_first() {
        let rows = [(Some(100.0), Some(99.0)), (Some(100.0), Some(100.0)), (Some(100.0), Some(50.0))];
        let refused = [(None, Some(10.0)), (None, None), (Some(100.0), None)];
        let rows = rows.into_iter().chain(refused).map(|(own, best)| row(own, best)).collect();
        let summary = Summary::new(rows);
        assert_eq!((summary.specs, summary.far_behind, summary.behind), (6, 2, 1));
        let figures: Vec<_> = summary.worst.iter().map(|r| (r.figure, r.best_figure)).collect();
        assert_eq!(figures, [(None, Some(10.0)), (Some(100.0), Some(50.0)), (Some(100.0), Some(99.0))]);
        assert!((summary.mean_to_bound - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_simulator_may_refute_a_prediction() {
        let behind =
            |ratio: f64, simulated| BesideBest { simulated, ..row(Some(100.0 * ratio), Some(100.0)) };
        let summary = Summary::new(vec![
            behind(1.05, None),
            behind(1.05, Some(1.01)),
            behind(1.05, Some(1.0)),
            behind(1.01, Some(0.9)),
            behind(1.03, Some(1.5)),
        ]);
        assert_eq!((summary.far_behind, summary.behind, summary.only_predicted), (2, 1, [1, 1]));
        let worst: Vec<_> = summary.worst.iter().map(|r| r.simulated).collect();
        assert_eq!(worst, [None, Some(1.5), Some(1.01)]);
    }

    #[test]
    fn a_worse_engine_is_named_with_the_better_one() {
        let case =
            Case { fabric: "torus:4x4,hosts=2".to_string(), layers: LayerBudget::new(8).unwrap(), mix: None };
        let contest = |engine: &str| Contest { engine: engine.to_string(), promise: Promise::TOLD };
        let worse = contest("updown").row(&case, &[]).unwrap();
        assert!(worse.is_far_behind(), "{worse:?}");
        assert_ne!(worse.best.as_deref(), Some("updown"));
        let case = Case { mix: Some(3), ..case };
        assert!(contest("updown").row(&case, &[]).unwrap().is_far_behind());
        assert!(!contest("balanced").row(&case, &[]).unwrap().is_far_behind());
    }

    #[test]
    fn the_first_cases_of_more_are_those_of_fewer() {
        let budgets = [1, 8].map(|l| LayerBudget::new(l).unwrap());
        let draw = |n: usize| cases(5, &budgets, 60).take(n).collect::<Vec<Case>>();
        let all = draw(12);
        assert_eq!(all[..5], draw(5));
        assert_eq!(all.iter().filter(|c| c.mix.is_some()).count(), 6);
        assert_eq!(all.iter().map(|c| c.layers.get()).collect::<Vec<_>>(), [1, 1, 8, 8].repeat(3));
    }
}
