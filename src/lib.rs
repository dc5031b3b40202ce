//! # sarouter: scheduling-aware routing for Slurm clusters
//!
//! A fabric is usually routed once, for everybody. This crate routes it for the jobs that run
//! now, proves the routes independently and hands them over.
//!
//! ```text
//!  squeue ────────────┐                                      ┌─> OpenSM plugin (LFT, SL)
//!  ibnetdiscover, file┼─ observe ─> step ─> plan ─> verify ─> publish ─> epochs/N + current
//!  prolog             ┘                │                     └─> Slurm plugin (per-job tables)
//!                                      └─ history, report
//! ```
//!
//! In data-flow order: [`observe`] turns the outside into values of [`model`]; [`pass`] decides
//! (purely) whether new routes are due and calls one engine of [`route`]; [`verify`] rebuilds
//! everything from the tables alone; [`measure`] says what they are worth; [`publish`] takes only
//! what `verify` accepted. [`service`] drives this from a clock; [`report`] and [`cli`] show it;
//! [`placement`] says which nodes a job should get; [`simulate`] sends packets; [`lab`] studies all of it without a
//! cluster.
//!
//! To route a fabric, prove the tables and say what they are worth:
//!
//! ```
//! use sarouter::model::{Demand, Group, LayerBudget};
//! use sarouter::route::{EngineOptions, engine};
//! use sarouter::{measure, observe, verify};
//!
//! let fabric = observe::fabric::load("fattree:4x2,2")?;
//! let job = Group::new(fabric.host_ids().collect());
//! let demand = Demand::new(vec![job], vec![]);
//! let budget = LayerBudget::new(8)?;
//! let tables = engine("balanced", &EngineOptions::default())?.route(&fabric, &demand, budget)?;
//! let verified = verify::accept(&fabric, tables, budget).map_err(|verdict| format!("{verdict:?}"))?;
//! assert!(measure::time(&fabric, verified.get(), &demand).slowdown_mean < 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/` has more: tables of others judged, an engine of one's own.
//!
//! Invariants: `route` and `verify` never import each other; nothing unverified is published;
//! same input, same bytes, whatever the thread count; the core never reads a clock.

pub use sarouter_core::{measure, model, placement, route, simulate, verify};

pub mod cli;
pub mod config;
pub mod lab;
pub mod observe;
pub mod pass;
pub mod publish;
pub mod report;
pub mod service;
