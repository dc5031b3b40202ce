//! The nouns: ids, the fabric, jobs, demand, tables and lanes. No algorithm of the product lives here.

pub mod demand;
pub mod fabric;
mod file_error;
mod guess;
mod hint;
pub mod ids;
pub mod jobs;
pub mod lanes;
mod lids;
mod nearest;
pub mod nodes;
pub mod pattern;
mod plain;
pub mod promise;
pub mod rng;
mod shown;
mod storage;
pub mod tables;
pub mod torus;

pub use demand::{Demand, Group};
pub use fabric::{
    Channel, Counted, Fabric, FabricBuilder, FabricDifference, FabricError, Fingerprint, NewTerminal, Parts,
    PortPeer, Role, Shape, Switch, Terminal, Wiring,
};
pub use file_error::FileError;
pub use guess::{Submission, Submitted, Traffic, TrafficRule, TrafficRules, executable};
pub use hint::{HintError, hint, pattern_hint};
pub use ids::{
    ChannelId, DestId, Guid, IdError, JobId, Layer, LayerBudget, Lid, NodeId, NodeName, PortNum, Sl,
    SwitchId, TerminalId, Vl,
};
pub use jobs::same_nodes;
pub use jobs::{Component, Job, JobMap, JobState};
pub use lanes::{Closure, FabricLanes, LaneMap, LaneRow};
pub use lids::{LidSet, SplitLids};
pub use nearest::did_you_mean;
pub use nearest::nearest;
pub use nodes::{NodeMap, Placed, PlacedJob, Ranks};
pub use pattern::{Adapters, Grid, Mix, PATTERNS, Partners, Pattern, Phase, Rails};
pub use plain::{plain, plain_chain};
pub use promise::{Promise, PromiseError};
pub use shown::{shown, shown_lines};
pub use storage::{Storage, StorageFlows};
pub use tables::{Tables, TablesError};
pub use torus::{
    Coords, Direction, Names, Routes, Step, Torus, TorusBuilder, TorusDemand, TorusError, TorusJob,
    TorusTables, Transit,
};

/// The first of each, in their order. O(items × log items).
pub fn without_repetition<T: Ord + Clone>(mut items: Vec<T>) -> Vec<T> {
    // Most lists ascend, and nothing is to be done.
    if !items.is_sorted_by(|a, b| a < b) {
        let mut seen = std::collections::BTreeSet::new();
        items.retain(|item| seen.insert(item.clone()));
    }
    items
}
