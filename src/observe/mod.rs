//! Outside to model: fabric files and generated specs, jobs, Slurm. Decides nothing.

pub mod child;
pub mod fabric;
pub mod grid;
pub mod hostlist;
pub mod ibnetdiscover;
pub mod jobs;
pub mod nodes;
pub mod pending;
pub mod regular;
pub mod secret;
pub mod slurm;
pub mod slurmrestd;
pub mod source;
pub mod spool;
pub mod topology_conf;
pub mod torus_toml;

/// Without the byte-order mark with which some editors begin a file.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
