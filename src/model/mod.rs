//! The nouns: ids, the fabric, jobs, demand and tables. No algorithm of the product lives here.

pub mod demand;
pub mod fabric;
pub mod ids;
pub mod jobs;
pub mod nodes;
pub mod tables;
pub mod torus;

pub use demand::{Demand, Group};
pub use fabric::{
    Channel, Fabric, FabricBuilder, FabricError, Fingerprint, NewTerminal, PortPeer, Role, Shape, Switch,
    Terminal,
};
pub use ids::{
    ChannelId, DestId, Guid, IdError, JobId, Layer, LayerBudget, Lid, NodeId, NodeName, PortNum, Sl,
    SwitchId, TerminalId, Vl,
};
pub use jobs::{Job, JobMap, JobState};
pub use nodes::{NodeMap, Placed};
pub use tables::{Tables, TablesError};
pub use torus::{
    Coords, Direction, Names, Routes, Step, Torus, TorusBuilder, TorusDemand, TorusError, TorusJob,
    TorusTables, Transit,
};
