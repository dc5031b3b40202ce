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
    match nearest(name, names()) {
        _ if angara::ENGINES.contains(&name) => {
            format!("engine {name} is for direct tori; those for switches: `sarouter engines`")
        }
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

/// All engines, in the order of the documentation: name, what it is, how it is made.
pub(crate) const ENGINES: &[(&str, &str, Make)] = &[
    ("balanced", "the default: least predicted time of jobs' exchanges", balanced::Balanced::make),
    ("balanced-efi", "fewest routes inside jobs on a channel", balanced::Balanced::make_for_counts),
    ("sssp", "shortest paths, balanced by weights", |_| Box::new(sssp::Sssp)),
    ("dfsssp", "the same, free of deadlocks by layers (Domke 2011)", |_| Box::new(dfsssp::Dfsssp)),
    ("minhop", "shortest paths, as OpenSM; may deadlock off trees", |_| Box::new(minhop::MinHop)),
    ("updown", "up, then down, from roots", |o| Box::new(updown::UpDown { roots: o.roots.clone() })),
    ("dor", "dimension by dimension, on tori and meshes", |_| Box::new(dor::Dor)),
    ("lash", "layered shortest paths (Skeie 2002)", |_| Box::new(lash::Lash)),
    ("fattree", "trees: each destination by one way down (Zahavi)", |_| Box::new(fattree::FatTree)),
    ("torus", "tori and meshes around failures, as torus-2QoS", |_| Box::new(torus::Torus)),
    ("sar", "scheduling-aware routing, the thesis' algorithm (Domke 2017)", |o| {
        Box::new(sar::Sar { layer_per_job: o.layer_per_job, join: trees::Join::Sparingly })
    }),
    ("sar-literal", "the same to the letter", |o| {
        Box::new(sar::Sar { layer_per_job: o.layer_per_job, join: trees::Join::Freely })
    }),
    ("nue", "any number of layers, on any fabric (Domke 2016)", |_| Box::new(nue::Nue { job_aware: false })),
    ("sar-nue", "the same, for jobs", |_| Box::new(nue::Nue { job_aware: true })),
];

/// Names of all engines.
pub fn names() -> Vec<&'static str> {
    ENGINES.iter().map(|row| row.0).collect()
}

/// Whether the routes of the engine of that name depend on the jobs.
pub fn serves_jobs(name: &str) -> bool {
    ["balanced", "balanced-efi", "sar", "sar-literal", "sar-nue"].contains(&name)
}

/// Whether the engine of that name routes inside [`EngineOptions::lanes`].
pub fn reads_lanes(name: &str) -> bool {
    name.starts_with("balanced")
}

/// What the engine of that name is asked to prove unless settings say otherwise: with lanes everything, on
/// any fabric; all others need programs that were told their SLs, as do layers that are a job's own.
pub fn default_promise(engine: &str, layer_per_job: bool) -> Promise {
    if reads_lanes(engine) && !layer_per_job { Promise::EVERYTHING } else { Promise::TOLD }
}

/// The engine of that name. It is shown hosts only: aggregation nodes and routers get the routes of
/// their switches' management ports.
pub fn engine(name: &str, options: &EngineOptions) -> Result<Box<dyn Engine>, RouteError> {
    let found = ENGINES.iter().find(|row| row.0 == name);
    let made = found.map(|row| -> Box<dyn Engine> { Box::new(hosts::HostsOnly::new(row.2, options)) });
    made.ok_or_else(|| RouteError::UnknownEngine(name.to_string()))
}
