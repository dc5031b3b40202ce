//! Synthetic fabrics, fault injection and job placements; seeded, deterministic.

mod builder;
pub mod rng;
pub mod spec;
mod tori;
mod trees;
mod wild;

pub use spec::{SpecError, generate};
