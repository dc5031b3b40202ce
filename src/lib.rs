//! # sarouter: scheduling-aware routing for Slurm clusters
//!
//! A fabric is usually routed once, for everybody. This crate routes it for the jobs that run
//! now, proves the routes independently and hands them over. `ARCHITECTURE.md` has the picture.
//!
//! In data-flow order: [`observe`] turns the outside into values of [`model`]; [`pass`] decides
//! (purely) whether new routes are due and calls one engine of [`route`]; [`verify`] rebuilds
//! everything from the tables alone; [`measure`] says what they are worth; [`publish`] takes only
//! what `verify` accepted. [`service`] drives this from a clock; [`report`] and [`cli`] show it;
//! [`placement`] says which nodes a job should get; [`simulate`] sends packets; [`lab`] studies all of it without a
//! cluster.
//!
//! What routes are made of is a crate of its own, [`sarouter_core`]; its page has an example. `examples/` has more: tables
//! of others judged, an engine of one's own.
//!
//! Invariants: nothing unverified is published; same input, same bytes, whatever the thread count.

pub use sarouter_core::{measure, model, placement, route, simulate, verify};

pub mod cli;
pub mod config;
pub mod lab;
pub mod observe;
pub mod pass;
pub mod publish;
pub mod report;
pub mod service;
