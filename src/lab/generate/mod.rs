//! Synthetic fabrics and fault injection; seeded, deterministic.

pub mod angara;
mod builder;
mod dragonflies;
pub mod faults;
mod graphs;
mod slimfly;
pub mod spec;
mod systems;
mod tori;
mod trees;

pub use spec::{SpecError, generate};
