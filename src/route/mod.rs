//! Model to tables: one engine per file behind [`Engine`].
//!
//! Engines route between switches and expand to terminals. They never import `verify`.
//!
//! Shared parts, in the order they build on each other: [`graph`] (the fabric in flat arrays),
//! [`forest`] (one in-tree per destination), [`trees`] (weighted trees over given ways), [`ways`] (such ways
//! to 64 homes at once), [`tree_levels`], [`order`] (topological orders that are repaired), [`cdg`] (channel
//! dependencies), [`layers`] (Algorithm 3.6), [`layer_stack`] (Algorithm 3.5), [`switch_dests`] (layers of routes to spines),
//! [`spread`] (all layers of the budget put to use), `steps` (of what a job exchanges). [`lanes`]: the lane map and the closure of a fabric.

pub mod angara;
mod balanced;
pub mod cdg;
pub mod dfsssp;
pub mod dor;
pub mod downup;
pub mod fattree;
pub mod forest;
pub mod graph;
pub mod grid;
mod hosts;
pub mod job_layers;
pub mod lanes;
pub mod lash;
pub mod layer_stack;
pub mod layers;
pub mod minhop;
pub mod nue;
pub mod order;
pub mod sar;
pub mod spread;
pub mod sssp;
mod steps;
pub mod switch_dests;
pub mod torus;
pub mod tree_levels;
pub mod trees;
pub mod updown;
pub mod ways;

use std::sync::Arc;

use crate::model::{
    Demand, Fabric, FabricLanes, LayerBudget, Promise, SwitchId, Tables, TablesError, did_you_mean, nearest,
};

/// Why an engine made no tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Deadlock freedom needs more layers than allowed.
    #[error("{engine} needs {needed} layers, the budget is {budget}")]
    OutOfBudget {
        /// The engine.
        engine: &'static str,
        /// What was allowed.
        budget: u8,
        /// What would have been needed.
        needed: usize,
    },
    /// The engine does not route this kind of fabric.
    #[error("{engine} cannot route this fabric: {reason}")]
    NotApplicable {
        /// The engine.
        engine: &'static str,
        /// What it misses, with names.
        reason: String,
    },
    /// An engine of that name does not exist.
    #[error("{}", unknown(.0))]
    UnknownEngine(String),
    /// A bug: the engine's arrays do not fit the fabric.
    #[error(transparent)]
    Tables(#[from] TablesError),
}

/// What is said of a name that no engine for switches has.
fn unknown(name: &str) -> String {
    match angara::ENGINES.contains(&name) {
        true => format!("engine {name} is for direct tori; those for switches: `sarouter engines`"),
        false => none_among(name, names().into_iter()),
    }
}

/// What is said of a name that none of the known engines has.
fn none_among(name: &str, known: impl Iterator<Item = &'static str>) -> String {
    match nearest(name, known) {
        None => format!("there is no engine {name:?}; `sarouter engines` lists them"),
        near => format!("there is no engine {name:?}{}", did_you_mean(near)),
    }
}

/// A routing engine: pure, deterministic whatever the thread count.
pub trait Engine: Send + Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;
    /// Makes total tables. Every pair of switches that is connected in the fabric is connected in
    /// the tables.
    fn route(&self, fabric: &Fabric, demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError>;
}

/// What some engines can be told; all others ignore it.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Roots of `updown`; chosen by the engine if empty.
    pub roots: Vec<SwitchId>,
    /// Tables in force, of the same fabric: `balanced` keeps what need not change.
    pub previous: Option<Arc<Tables>>,
    /// The demand that these tables serve: jobs that are in it have good routes already, those that
    /// are not get new ones. Without it every job's routes are taken over.
    pub served: Option<Demand>,
    /// All routes inside one job on one layer (`balanced`, `sar`, `sar-literal`).
    pub layer_per_job: bool,
    /// What the tables must be proved for (`balanced`).
    pub promise: Promise,
    /// Lane map and closure of this fabric; without them the engine computes what the promise needs.
    pub lanes: Option<Arc<FabricLanes>>,
}

/// Whether so many entries of tables (or what takes as long) gain by being shared among threads: less
/// than this is done before a second thread has woken up.
fn is_worth_threads(entries: usize) -> bool {
    entries >= 1 << 20 && rayon::current_num_threads() > 1
}

pub(crate) type Make = fn(&EngineOptions) -> Box<dyn Engine>;

/// An engine of switched fabrics. Its file is in this folder.
pub struct EngineRow {
    /// Name on the command line and in settings.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// Where it is from; empty where it is our own.
    pub paper: &'static str,
    /// Whether its routes depend on the jobs.
    pub serves_jobs: bool,
    /// Whether all routes inside a job can be on one layer: it is told to ([`EngineOptions::layer_per_job`]), or has
    /// one layer only.
    pub layer_per_job: bool,
    pub(crate) make: Make,
}

/// What most rows share.
const ROW: EngineRow = EngineRow {
    name: "",
    what: "",
    paper: "",
    serves_jobs: false,
    layer_per_job: false,
    make: balanced::Balanced::make,
};

/// All engines, in the order of the documentation.
pub const ENGINES: &[EngineRow] = &[
    EngineRow {
        name: "balanced",
        what: "the default: least predicted time of jobs' exchanges",
        serves_jobs: true,
        layer_per_job: true,
        ..ROW
    },
    EngineRow {
        name: "balanced-efi",
        what: "fewest routes inside jobs on a channel",
        serves_jobs: true,
        layer_per_job: true,
        make: balanced::Balanced::make_for_counts,
        ..ROW
    },
    EngineRow {
        name: "sssp",
        what: "shortest paths, balanced by weights",
        paper: "Hoefler 2009",
        layer_per_job: true,
        make: |_| Box::new(sssp::Sssp),
        ..ROW
    },
    EngineRow {
        name: "dfsssp",
        what: "the same, free of deadlocks by layers",
        paper: "Domke 2011",
        make: |_| Box::new(dfsssp::Dfsssp),
        ..ROW
    },
    EngineRow {
        name: "minhop",
        what: "shortest paths, as OpenSM; may deadlock off trees",
        layer_per_job: true,
        make: |_| Box::new(minhop::MinHop),
        ..ROW
    },
    EngineRow {
        name: "updown",
        what: "up, then down, from roots",
        layer_per_job: true,
        make: |o| Box::new(updown::UpDown { roots: o.roots.clone() }),
        ..ROW
    },
    EngineRow {
        name: "downup",
        what: "the same from the other end: away from hosts, then back",
        layer_per_job: true,
        make: |_| Box::new(downup::DownUp),
        ..ROW
    },
    EngineRow {
        name: "dor",
        what: "dimension by dimension, on tori and meshes",
        layer_per_job: true,
        make: |_| Box::new(dor::Dor),
        ..ROW
    },
    EngineRow {
        name: "lash",
        what: "layered shortest paths",
        paper: "Skeie 2002",
        make: |_| Box::new(lash::Lash),
        ..ROW
    },
    EngineRow {
        name: "fattree",
        what: "trees: each destination by one way down",
        paper: "Zahavi 2010",
        layer_per_job: true,
        make: |_| Box::new(fattree::FatTree),
        ..ROW
    },
    EngineRow {
        name: "torus",
        what: "tori and meshes around failures, as torus-2QoS",
        make: |_| Box::new(torus::Torus),
        ..ROW
    },
    EngineRow {
        name: "sar",
        what: "scheduling-aware routing, the thesis' algorithm",
        paper: "Domke 2017",
        serves_jobs: true,
        layer_per_job: true,
        make: |o| Box::new(sar::Sar { layer_per_job: o.layer_per_job, join: trees::Join::Sparingly }),
    },
    EngineRow {
        name: "sar-literal",
        what: "the same to the letter",
        paper: "Domke 2017",
        serves_jobs: true,
        layer_per_job: true,
        make: |o| Box::new(sar::Sar { layer_per_job: o.layer_per_job, join: trees::Join::Freely }),
    },
    EngineRow {
        name: "nue",
        what: "any number of layers, on any fabric",
        paper: "Domke 2016",
        make: |_| Box::new(nue::Nue { job_aware: false, seed: 0 }),
        ..ROW
    },
    EngineRow {
        name: "sar-nue",
        what: "the same, for jobs",
        paper: "Domke 2017",
        serves_jobs: true,
        make: |_| Box::new(nue::Nue { job_aware: true, seed: 0 }),
        ..ROW
    },
];

/// The row of the engine of that name, if there is one.
pub fn row(name: &str) -> Option<&'static EngineRow> {
    ENGINES.iter().find(|row| row.name == name)
}

/// Names of all engines.
pub fn names() -> Vec<&'static str> {
    ENGINES.iter().map(|row| row.name).collect()
}

/// Whether the routes of the engine of that name depend on the jobs.
pub fn serves_jobs(name: &str) -> bool {
    row(name).is_some_and(|row| row.serves_jobs)
}

/// Whether settings may name an engine, of whatever kind of network, and ask for a layer per job.
///
/// # Errors
/// In words, with the name that was probably meant, or those that could do it.
pub fn may_be_set(name: &str, layer_per_job: bool) -> Result<(), String> {
    let Some(row) = row(name) else {
        let known = names().into_iter().chain(angara::ENGINES);
        return angara::named(name).map(drop).map_err(|_| none_among(name, known));
    };
    if row.layer_per_job || !layer_per_job {
        return Ok(());
    }
    let able = ENGINES.iter().filter(|row| row.layer_per_job).map(|row| row.name);
    Err(format!(
        "{name} needs several layers inside a job; with layer_per_job engines are {}",
        able.collect::<Vec<_>>().join(", ")
    ))
}

/// Whether settings may name an engine to compare with: one for switches whose routes know no jobs.
///
/// # Errors
/// In words, with the name that was probably meant, or those that there are.
pub fn may_be_baseline(name: &str) -> Result<(), String> {
    match row(name) {
        None => Err(unknown(name)),
        Some(row) if !row.serves_jobs => Ok(()),
        Some(_) => {
            let able = ENGINES.iter().filter(|row| !row.serves_jobs).map(|row| row.name);
            let able = able.collect::<Vec<_>>().join(", ");
            Err(format!("{name} routes for jobs; engines that know none are {able}"))
        }
    }
}

/// Whether `balanced` takes the tables for jobs on this fabric that are the fastest in the packet simulator: off trees, up
/// to a size. O(terminals).
pub fn is_chosen_by_simulator(fabric: &Fabric) -> bool {
    balanced::is_raced(fabric)
}

/// Whether the engine of that name routes inside [`EngineOptions::lanes`].
pub fn reads_lanes(name: &str) -> bool {
    name.starts_with("balanced")
}

/// What the engine of that name is asked to prove unless settings say otherwise. With lanes that is everything, on
/// any fabric. All others need programs that were told their SLs, as do layers that are a job's own.
pub fn default_promise(engine: &str, layer_per_job: bool) -> Promise {
    if reads_lanes(engine) && !layer_per_job { Promise::EVERYTHING } else { Promise::TOLD }
}

/// The engine of that name. It is shown hosts only: aggregation nodes and routers get the routes of
/// their switches' management ports.
pub fn engine(name: &str, options: &EngineOptions) -> Result<Box<dyn Engine>, RouteError> {
    let made = row(name).map(|row| -> Box<dyn Engine> { Box::new(hosts::HostsOnly::new(row.make, options)) });
    made.ok_or_else(|| RouteError::UnknownEngine(name.to_string()))
}
