//! `dor`: dimension order by port number (thesis section 3.3.3): deadlock-free on whole meshes and
//! hypercubes whose lower dimensions have the lower ports, and nowhere else for sure.

use super::graph::Graph;
use super::minhop::{Eligible, locally_balanced};
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, Tables};

/// The lowest port on a shortest path; parallel cables to the same switch share the load. Ignores
/// demand and budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dor;

impl Engine for Dor {
    fn name(&self) -> &'static str {
        "dor"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, _budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        locally_balanced(fabric, &graph, self.name(), Eligible::Parallel)
    }
}
