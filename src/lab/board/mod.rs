//! The board: what jobs gain in time. Fabrics × mixes of jobs × patterns, each engine's tables in the packet
//! simulator, beside one switch that joins all hosts, the best engine that knows no jobs, and minimal
//! adaptive routing.

mod accepted;
mod order;
mod ranks;
mod summary;

use std::collections::BTreeMap;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::accepted::Accepted;
pub use self::order::{Order, order};
pub use self::summary::{Beside, Engine, Summary};
use crate::measure::{Time, effective_loads, slowdowns_of};
use crate::model::{Demand, Fabric, Group, LayerBudget, Pattern, Promise, Tables, TerminalId};
use crate::simulate::adaptive::Distances;
use crate::simulate::exchange::{self, geometric};
use crate::simulate::{AnyRouter, Crossbar, Net};
pub use sarouter_core::lab::board::mix;

/// Engines that the others are held against: they know no jobs.
const OBLIVIOUS: [&str; 6] = ["minhop", "updown", "fattree", "dfsssp", "nue", "balanced"];
/// What stands behind the name of an engine that could know jobs and was told of none.
const WITHOUT_JOBS: &str = "/nojobs";
/// Routes for jobs that say their pattern; orders of ranks with the routes of nobody; both found together.
pub const WITH_PATTERN: [&str; 3] = ["routes", "order", "both"];
/// Minimal adaptive routing.
const ADAPTIVE: &str = "adaptive";

/// What is compared.
#[derive(Debug, Clone)]
pub struct Board {
    /// Engines that are told the jobs.
    pub engines: Vec<String>,
    /// Exchanges, each by all jobs at once.
    pub patterns: Vec<Pattern>,
    /// Sizes that jobs are drawn from.
    pub sizes: Vec<usize>,
    /// Layers that engines may use.
    pub layers: LayerBudget,
    /// What the tables must be proved for. `balanced` has the fabric's lanes if it is more than that programs
    /// were told their SLs; other engines' tables that do not keep it are made again for one layer.
    pub promise: Promise,
    /// Payload of the largest message of a pattern.
    pub bytes: u32,
    /// Whether minimal adaptive routing is simulated too.
    pub adaptive: bool,
    /// Whether jobs say their pattern too: [`WITH_PATTERN`], by the first of the engines.
    pub orders: bool,
}

/// One engine in one pattern with one mix of jobs.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Cell {
    /// The fabric, as given.
    pub fabric: String,
    /// The exchange.
    pub pattern: Pattern,
    /// The engine; `balanced/nojobs` was told of no jobs.
    pub engine: String,
    /// Whether it is told the jobs.
    pub knows_jobs: bool,
    /// Layers that it may use.
    pub layers: u8,
    /// The jobs.
    pub mix: String,
    /// Geometric mean over jobs of the time until a job's last byte arrives, ns; `None` after a deadlock.
    pub time_ns: Option<f64>,
    /// The same on one switch that joins all hosts, ns.
    pub alone_ns: f64,
    /// Predicted, see [`Time::slowdown_mean`]; 0 for adaptive routing.
    pub slowdown: f64,
    /// Most routes inside jobs on a channel; 0 for adaptive routing.
    pub efi_max: u64,
}

/// A way to get packets to their hosts.
enum Way<'a> {
    Tables(&'a Tables),
    Adaptive(&'a Distances),
}

/// One that is compared.
struct Contender<'a> {
    engine: &'a str,
    knows_jobs: bool,
    efi_max: u64,
    way: Way<'a>,
}

/// Where and when: what all cells of a mix have in common.
#[derive(Clone, Copy)]
struct Scene<'a> {
    name: &'a str,
    fabric: &'a Fabric,
    net: &'a Net,
    mix: &'a str,
    /// Time on one switch by pattern, ns.
    alone: &'a BTreeMap<Pattern, f64>,
}

/// Failures of the board.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// A simulation that cannot be set up.
    #[error("{fabric}, {engine}: {reason}")]
    Simulation {
        /// The fabric.
        fabric: String,
        /// The engine.
        engine: String,
        /// What is wrong, in words.
        reason: String,
    },
}

impl Board {
    /// The name of drawn jobs, and they themselves.
    pub fn drawn(&self, fabric: &Fabric, seed: u64) -> (String, Vec<Group>) {
        (format!("seed {seed}"), mix(fabric, seed, &self.sizes))
    }

    /// Tables that know no jobs, as far as they are accepted: those that were `given`, and those of our engines.
    fn oblivious(
        &self,
        fabric: &Fabric,
        accepted: &Accepted,
        given: &[(String, Tables)],
    ) -> Vec<(String, Tables)> {
        let mut found: Vec<_> = given.iter().filter(|t| accepted.has(fabric, &t.1)).cloned().collect();
        for name in OBLIVIOUS {
            let told = self.engines.iter().any(|e| e == name);
            let label = if told { format!("{name}{WITHOUT_JOBS}") } else { name.to_string() };
            let tables = accepted.route(name, fabric, &Demand::oblivious());
            found.extend(tables.map(|tables| (label, tables)));
        }
        found
    }

    /// All cells of one fabric, in the order of mixes of jobs, each with its name, patterns and engines. `given` are tables of others:
    /// name, tables, without jobs; those that the checker rejects are left out, as they may stop for good.
    /// Engines that refuse the fabric have no cells. Uses all threads; the
    /// result does not depend on their number.
    ///
    /// # Errors
    /// If something cannot be simulated.
    pub fn fabric(
        &self,
        name: &str,
        fabric: &Fabric,
        mixes: &[(String, Vec<Group>)],
        given: &[(String, Tables)],
    ) -> Result<Vec<Cell>, BoardError> {
        let net = Net::of_fabric(fabric);
        let far = if self.adaptive { Distances::new(&net).ok() } else { None };
        let accepted = Accepted::new(fabric, self.layers, self.promise);
        let oblivious = self.oblivious(fabric, &accepted, given);
        let mut cells = Vec::new();
        for (mix, groups) in mixes {
            let demand = Demand::new(groups.clone(), Vec::new());
            let told = self.engines.iter().filter_map(|name| {
                accepted.route(name, fabric, &demand).map(|tables| (name.clone(), tables))
            });
            let told: Vec<(String, Tables)> = told.collect();
            let tables = |knows_jobs| {
                move |(engine, tables)| {
                    let loads = effective_loads(fabric, tables, groups);
                    let efi_max = loads.into_iter().max().unwrap_or(0);
                    Contender {
                        engine: String::as_str(engine),
                        knows_jobs,
                        efi_max,
                        way: Way::Tables(tables),
                    }
                }
            };
            let mut contenders: Vec<Contender<'_>> = Vec::new();
            contenders.extend(oblivious.iter().map(|(n, t)| (n, t)).map(tables(false)));
            contenders.extend(told.iter().map(|(n, t)| (n, t)).map(tables(true)));
            let way = far.iter().map(Way::Adaptive);
            contenders.extend(way.map(|way| Contender {
                engine: ADAPTIVE,
                knows_jobs: false,
                efi_max: 0,
                way,
            }));
            let alone = self.alone(groups)?;
            let scene = Scene { name, fabric, net: &net, mix, alone: &alone };
            let tasks: Vec<(Pattern, &Contender<'_>)> =
                self.patterns.iter().flat_map(|p| contenders.iter().map(move |c| (*p, c))).collect();
            let found: Result<Vec<Cell>, BoardError> =
                tasks.par_iter().map(|(p, c)| self.cell(scene, *p, c, groups)).collect();
            cells.extend(found?);
            if self.orders {
                let of = |p: &Pattern| self.with_pattern(scene, &oblivious, &accepted, groups, *p);
                let found: Result<Vec<Vec<Cell>>, BoardError> = self.patterns.par_iter().map(of).collect();
                cells.extend(found?.into_iter().flatten());
            }
        }
        Ok(cells)
    }

    /// Simulates and predicts.
    fn cell(
        &self,
        scene: Scene<'_>,
        pattern: Pattern,
        contender: &Contender<'_>,
        groups: &[Group],
    ) -> Result<Cell, BoardError> {
        let Scene { name, fabric, net, mix, alone } = scene;
        let slowdown = match contender.way {
            Way::Tables(t) => Time::of(&slowdowns_of(fabric, t, groups, pattern)).slowdown_mean,
            Way::Adaptive(_) => 0.0,
        };
        Ok(Cell {
            fabric: name.to_string(),
            pattern,
            engine: contender.engine.to_string(),
            knows_jobs: contender.knows_jobs,
            layers: self.layers.get(),
            mix: mix.to_string(),
            time_ns: self.time(name, (fabric, net), (contender.engine, &contender.way), groups, pattern)?,
            alone_ns: alone[&pattern],
            slowdown,
            efi_max: contender.efi_max,
        })
    }

    /// By pattern, the geometric mean over jobs on one switch that joins all hosts: each job is alone there.
    fn alone(&self, groups: &[Group]) -> Result<BTreeMap<Pattern, f64>, BoardError> {
        let mut of_size = BTreeMap::new();
        for ranks in groups.iter().map(|g| g.ranks.len()) {
            if of_size.contains_key(&ranks) {
                continue;
            }
            let net = Net::crossbar(ranks);
            let job = [Group::new((0..ranks).map(TerminalId::at).collect())];
            let mut times = BTreeMap::new();
            for pattern in &self.patterns {
                let time = exchange::with_router(&net, &Crossbar(&net), &job, *pattern, self.bytes);
                let time = time.map_err(|reason| failed("one switch", "crossbar", &reason))?;
                times.insert(*pattern, time.unwrap_or(f64::NAN));
            }
            of_size.insert(ranks, times);
        }
        let mean = |p: &Pattern| geometric(groups.iter().map(|g| of_size[&g.ranks.len()][p]));
        Ok(self.patterns.iter().map(|p| (*p, mean(p))).collect())
    }

    /// Geometric mean over jobs of their times, ns; `None` after a deadlock.
    fn time(
        &self,
        name: &str,
        (fabric, net): (&Fabric, &Net),
        (engine, way): (&str, &Way<'_>),
        groups: &[Group],
        pattern: Pattern,
    ) -> Result<Option<f64>, BoardError> {
        let failed = |reason: String| failed(name, engine, &reason);
        match way {
            Way::Tables(tables) => exchange::with_tables((fabric, net), tables, groups, pattern, self.bytes),
            Way::Adaptive(far) => AnyRouter::adaptive("minimal", net, far, 1, 1)
                .map_err(|e| e.to_string())
                .and_then(|router| exchange::with_router(net, &router, groups, pattern, self.bytes)),
        }
        .map_err(failed)
    }
}

fn failed(fabric: &str, engine: &str, reason: &str) -> BoardError {
    BoardError::Simulation {
        fabric: fabric.to_string(),
        engine: engine.to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    fn board() -> Board {
        Board {
            engines: vec!["dfsssp".into()],
            patterns: vec![Pattern::Ring, Pattern::Linear],
            sizes: vec![16],
            layers: LayerBudget::new(8).unwrap(),
            promise: Promise::TOLD,
            bytes: 4096,
            adaptive: false,
            orders: false,
        }
    }

    #[test]
    fn one_switch_for_all_has_any_number_of_ports() {
        let job = |ranks| [Group::new((0..ranks).map(TerminalId::at).collect())];
        let alone = board().alone(&job(300)).unwrap();
        assert!(alone.values().all(|time| time.is_finite() && *time > 0.0), "{alone:?}");
        // Where a switch has the ports, it takes as long as one with tables.
        let fabric = generate("kary:16,1").unwrap();
        let (net, job) = (Net::of_fabric(&fabric), job(16));
        let accepted = Accepted::new(&fabric, LayerBudget::new(8).unwrap(), Promise::TOLD);
        let tables = accepted.route("balanced", &fabric, &Demand::oblivious()).unwrap();
        let alone = board().alone(&job).unwrap();
        for pattern in [Pattern::Ring, Pattern::Linear] {
            let time = exchange::with_tables((&fabric, &net), &tables, &job, pattern, 4096);
            assert_eq!(time.unwrap(), Some(alone[&pattern]));
        }
    }
}
