//! One pass, as far as it needs neither clock nor outside: when to look, what is due, which routes.

mod anew;
pub mod baseline;
mod halfway;
mod kept;
mod lanes;
pub mod plan;
mod policy;
pub mod step;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
pub mod torus;
pub mod trial;
pub mod worth;

pub use sarouter_core::pass::update;

pub use self::halfway::{FirstStep, halfway};
