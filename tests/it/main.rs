//! Fast tests of the whole crate, one file per subject.

mod angara;
mod angara_files;
mod api;
mod architecture;
mod balanced;
mod cases;
mod cli_fabric;
mod commands;
mod config;
mod demo;
mod dump;
mod engines;
mod fabric_files;
mod generated;
mod handoff;
mod helpers;
mod jobs;
mod measure;
mod node_names;
mod nue;
mod placement;
mod serve;
mod site;
mod step;
mod store;
mod verify;
