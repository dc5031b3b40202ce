//! Studies: what is found out about engines and clusters without serving one.

pub mod adversary;
pub mod board;
pub mod peers;
pub mod replay;
pub mod trial;
pub mod workload;

pub use sarouter_core::lab::generate;

/// Fabrics whose figures are documented, the largest last.
pub const DOCUMENTED: [&str; 6] = [
    "fattree:10x18,5",
    "kary:10,3,hosts=11",
    "random:125,1000,1000,seed=1",
    "dragonfly:12,6,6,15",
    "torus:8x8x8,hosts=4,faults=1%,seed=7",
    "torus:10x10x10,hosts=4,faults=1%,seed=7",
];
