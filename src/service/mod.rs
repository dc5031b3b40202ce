//! Drives the pass on a live site: when to look, what to do with what is seen, what to say.

pub mod health;
pub mod step;
