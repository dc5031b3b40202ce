//! Fast tests of the whole crate, one file per subject.

mod architecture;
mod handoff;
mod jobs;
