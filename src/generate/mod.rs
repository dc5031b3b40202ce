//! Synthetic fabrics, fault injection and job placements; seeded, deterministic.

pub mod angara;
mod builder;
mod dragonflies;
pub mod faults;
mod graphs;
pub mod mix;
pub mod placement;
pub mod rng;
pub mod schedule;
mod slimfly;
pub mod spec;
mod systems;
mod tori;
mod trees;
pub mod workload;

pub use spec::{SpecError, generate};
