//! Studies: what is found out about engines and clusters without serving one.

pub mod adversary;
pub mod board;
pub mod peers;
pub mod replay;
pub mod trial;
pub mod workload;

pub use sarouter_core::lab::generate;
