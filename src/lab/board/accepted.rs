//! Engines' tables that keep a promise.

use std::sync::Arc;

use crate::model::{Demand, Fabric, FabricLanes, LayerBudget, Promise, Tables};
use crate::route::lanes::fabric_lanes;
use crate::route::{EngineOptions, engine};
use crate::verify::{Checks, judge_with};

/// What tables must keep to be compared.
#[derive(Debug, Clone)]
pub struct Accepted {
    layers: LayerBudget,
    promise: Promise,
    /// The lanes of the fabric, if the promise asks for some.
    lanes: Option<Arc<FabricLanes>>,
}

impl Accepted {
    /// On this fabric. Beyond [`Promise::TOLD`], lanes and closure are computed.
    pub fn new(fabric: &Fabric, layers: LayerBudget, promise: Promise) -> Self {
        let found = (!promise.is_told_only()).then(|| fabric_lanes(fabric, layers));
        let lanes = found.filter(|f| f.needs_map()).map(|f| Arc::new(f.lanes));
        Self { layers, promise, lanes }
    }

    /// Whether the checker accepts tables.
    pub fn has(&self, fabric: &Fabric, tables: &Tables) -> bool {
        let checks = Checks { promise: self.promise, hosts_only: false };
        judge_with(fabric, tables, self.layers, checks).accepted
    }

    /// An engine's tables, if it has some that the checker accepts; beyond [`Promise::TOLD`] perhaps those for
    /// one layer.
    pub fn route(&self, name: &str, fabric: &Fabric, demand: &Demand) -> Option<Tables> {
        let options =
            EngineOptions { lanes: self.lanes.clone(), promise: self.promise, ..Default::default() };
        let engine = engine(name, &options).ok()?;
        let one = (!self.promise.is_told_only()).then(|| LayerBudget::new(1).ok()).flatten();
        let budgets = std::iter::once(self.layers).chain(one);
        let mut tables = budgets.filter_map(|budget| engine.route(fabric, demand, budget).ok());
        tables.find(|tables| self.has(fabric, tables))
    }
}
