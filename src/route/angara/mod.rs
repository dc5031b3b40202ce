//! Routing tables of a direct torus, after Mukosey, Semenov, Tretiakov: "Optimized Graph Based
//! Routing Algorithm for the Angara Interconnect" (called "the paper" in this room).
//!
//! [`augment`] says which turns are free of deadlock (section 3.2); [`graph`] is the routing graph
//! of section 3.1; [`minimal`] enumerates a pair's legal minimal routes without searching it. The
//! engines: [`bfs`] (Algorithms 1 and 2), [`sssp`] (Algorithms 3 and 4), [`genetic`] (section
//! 4.2), [`sar`] and [`balanced`] (ours).

pub mod augment;
pub mod balanced;
pub mod bfs;
pub mod choice;
pub mod genetic;
pub mod graph;
pub mod lanes;
pub mod minimal;
pub mod sar;
pub mod shape;
pub mod sssp;

use crate::model::{Torus, TorusDemand, TorusError, TorusTables, did_you_mean, nearest};

/// The most nodes one job may have: its table has a route for every ordered pair.
pub const MAX_JOB_NODES: usize = 8192;

/// Why an engine made no tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TorusRouteError {
    /// No legal route leads from one node of a job to another.
    #[error(
        "job {job}: there is no legal route from {source_name} ({source_at}) to {destination_name} ({destination_at})"
    )]
    Unroutable {
        /// The job, `-` for the whole torus.
        job: String,
        /// Name of the first source that cannot reach everything.
        source_name: String,
        /// Its coordinates.
        source_at: String,
        /// Name of the first destination it cannot reach.
        destination_name: String,
        /// Its coordinates.
        destination_at: String,
    },
    /// Above [`MAX_JOB_NODES`].
    #[error("job {job} has {nodes} nodes, the most is {MAX_JOB_NODES}")]
    TooLarge {
        /// The job.
        job: String,
        /// Its nodes.
        nodes: usize,
    },
    /// A job that cannot be routed.
    #[error(transparent)]
    Demand(#[from] TorusError),
    /// An engine of that name does not exist.
    #[error("there is no engine {0:?} for a direct torus{near}", near = instead(.0))]
    UnknownEngine(String),
}

/// The name that was meant, or all.
fn instead(name: &str) -> String {
    match nearest(name, ENGINES) {
        None => format!("; engines are {}", ENGINES.join(", ")),
        near => did_you_mean(near),
    }
}

impl TorusRouteError {
    /// The job that cannot be routed.
    pub fn job(&self) -> Option<&str> {
        match self {
            Self::Unroutable { job, .. } | Self::TooLarge { job, .. } => Some(job),
            Self::Demand(TorusError::JobOnFailedNode { job, .. }) => Some(job),
            Self::Demand(_) | Self::UnknownEngine(_) => None,
        }
    }
}

/// How long engines that search may search. Engines read no clock: `go_on` may.
pub struct Limits<'a> {
    /// Seed of everything random.
    pub seed: u64,
    /// Generations of `angara-genetic`; improvement rounds of our own.
    pub rounds: u32,
    /// Asked between rounds with the number of rounds done; `false` stops the search.
    pub go_on: &'a (dyn Fn(u32) -> bool + Sync),
}

impl Default for Limits<'_> {
    /// Rounds only, so that the result does not depend on time.
    fn default() -> Self {
        Self { seed: 1, rounds: 1000, go_on: &|_| true }
    }
}

/// A routing engine for direct tori: deterministic, whatever the thread count.
pub trait TorusEngine: Send + Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;
    /// Makes a route of minimal legal length for every ordered pair of nodes of each job. Routes that stay
    /// ([`TorusJob::kept`](crate::model::TorusJob::kept)) do.
    ///
    /// # Errors
    /// [`TorusRouteError`] with the first pair that cannot be routed.
    fn route(
        &self,
        torus: &Torus,
        demand: &TorusDemand,
        limits: &Limits<'_>,
    ) -> Result<TorusTables, TorusRouteError>;
}

/// Names of all engines, the default first.
pub const ENGINES: [&str; 5] =
    ["angara-balanced", "angara-sar", "angara-sssp", "angara-bfs", "angara-genetic"];

/// The name of an engine, with or without `angara-`: that of the best engine of switched fabrics, the settings'
/// default, is one here too.
///
/// # Errors
/// [`TorusRouteError::UnknownEngine`].
pub fn named(name: &str) -> Result<&'static str, TorusRouteError> {
    let bare = name.strip_prefix("angara-").unwrap_or(name);
    let found = ENGINES.iter().find(|e| e.strip_prefix("angara-") == Some(bare));
    found.copied().ok_or_else(|| TorusRouteError::UnknownEngine(name.to_string()))
}

/// The engine of that name.
///
/// # Errors
/// [`TorusRouteError::UnknownEngine`].
pub fn engine(name: &str) -> Result<Box<dyn TorusEngine>, TorusRouteError> {
    match named(name)? {
        "angara-balanced" => Ok(Box::new(balanced::Balanced)),
        "angara-sar" => Ok(Box::new(sar::Sar)),
        "angara-sssp" => Ok(Box::new(sssp::Sssp)),
        "angara-bfs" => Ok(Box::new(bfs::Bfs)),
        _ => Ok(Box::new(genetic::Genetic)),
    }
}
