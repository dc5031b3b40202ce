//! Jobs that nobody submitted: a day of the demo, a month like the thesis', a small batch system. Seeded.

mod day;
pub mod mix;
pub mod placement;
pub mod schedule;

pub use day::Workload;
