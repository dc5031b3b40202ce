//! Verified plans to disk: the epoch store and the OpenSM hand-off.

pub mod handoff;
pub mod opensm;
