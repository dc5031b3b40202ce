//! # sarouter-core: fabrics, routes and their proof
//!
//! [`model`] has fabrics, demand and tables, [`route`] the engines. [`verify`] rebuilds everything from tables alone, and
//! [`measure`] says what they are worth. [`simulate`] sends packets. [`placement`] says which nodes a job should get.
//! [`lab`] generates fabrics and jobs.
//!
//! To route a fabric, prove the tables and say what they are worth:
//!
//! ```
//! use sarouter_core::model::{Demand, Group, LayerBudget};
//! use sarouter_core::route::{EngineOptions, engine};
//! use sarouter_core::{lab, measure, verify};
//!
//! let fabric = lab::generate::generate("fattree:4x2,2")?;
//! let demand = Demand::new(vec![Group::new(fabric.host_ids().collect())], vec![]);
//! let budget = LayerBudget::new(8)?;
//! let tables = engine("balanced", &EngineOptions::default())?.route(&fabric, &demand, budget)?;
//! let verified = verify::accept(&fabric, tables, budget).map_err(|verdict| format!("{verdict:?}"))?;
//! assert!(measure::time(&fabric, verified.get(), &demand).slowdown_mean < 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `route` and `verify` never import each other. The same input gives the same bytes, whatever the thread count, and
//! nothing reads a clock.

pub mod measure;
pub mod model;
pub mod placement;
pub mod route;
pub mod simulate;
pub mod verify;

/// What studies and tests route.
pub mod lab {
    pub mod generate;

    /// Jobs on a cluster that has been in use for a while.
    pub mod board {
        mod mix;

        pub use mix::mix;
    }
}

/// What a change of tables waits for.
pub mod pass {
    pub mod update;
}
