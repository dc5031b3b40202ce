//! Tables to figures: EFI, effective EFI, dark fiber, links per job, hops, lower bounds.

use serde::{Deserialize, Serialize};

use crate::model::{Demand, Fabric, Tables};

/// Edge forwarding index (Definition 3.12) over directed inter-switch channels, counting
/// host-to-host routes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Load {
    /// Largest over channels.
    pub max: u64,
    /// Smallest over channels.
    pub min: u64,
    /// Mean over channels.
    pub mean: f64,
    /// Population standard deviation over channels.
    pub sd: f64,
}

/// Effective edge forwarding index (Definition 5.1): routes inside jobs only.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Effective {
    /// Largest over channels.
    pub max: u64,
    /// Mean over channels.
    pub mean: f64,
    /// No tables can have a smaller `max`.
    pub lower_bound: u64,
    /// Share of channels that no job uses (Definition 5.2), 0..=1.
    pub dark_fiber: f64,
    /// Mean over jobs of the job's largest channel count.
    pub max_per_job_mean: f64,
    /// Mean over jobs of the number of channels the job uses.
    pub links_per_job_mean: f64,
}

/// Path lengths in inter-switch channels, over ordered pairs of hosts on different switches.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Paths {
    /// Longest.
    pub max_hops: u32,
    /// Mean.
    pub mean_hops: f64,
    /// Share of routes that are as short as the fabric allows, 0..=1.
    pub minimal_share: f64,
}

/// What tables are worth for a demand.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// See [`Load`].
    pub load: Load,
    /// See [`Effective`]. All zero (dark fiber 1) when the demand is oblivious.
    pub effective: Effective,
    /// See [`Paths`].
    pub paths: Paths,
    /// Highest layer in use plus one.
    pub layers_used: u8,
}

/// Measures tables. Routes with a hole or loop are not counted.
/// O(destinations × switches + demand).
pub fn measure(_fabric: &Fabric, _tables: &Tables, _demand: &Demand) -> Figures {
    Figures::default()
}
