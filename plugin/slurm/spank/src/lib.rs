//! What runs on the nodes of a job: a SPANK plugin.
//!
//! - In sbatch, salloc and srun: the options `--routing=default|none|require`, `--traffic=PATTERN` and
//!   `--rank-order=fabric|list`.
//! - In srun inside a job: its ranks go to the nodes in the order that was found for them ([`rank_order`]).
//! - In the prolog of slurmd ([`node::prolog`]): this node's table of a direct torus is read from the
//!   directory of the job, checked, and put into the sink; the epilog takes it out.
//! - In slurmstepd, with the user's rights: the job's service level goes into the environment.
//!
//! The formats are specified in `plugin/README.md`. [`settings`], [`traffic`], [`job`], [`sink`] and [`node`] know
//! nothing of Slurm; the foreign interface is one file, `ffi.rs`.

pub mod job;
pub mod node;
pub mod rank_order;
pub mod settings;
pub mod sink;
pub mod traffic;

#[cfg(not(test))]
mod ffi;

#[cfg(test)]
#[path = "../../../../tests/shared/script.rs"]
mod script;
/// Of the build script, here for its tests.
#[cfg(test)]
#[path = "../build/version.rs"]
mod version;
