//! `dfsssp`: deadlock-free sssp (thesis section 3.3.8, Domke, Hoefler, Nagel 2011): the trees of
//! `sssp`, spread over layers by Algorithm 3.6.

use super::cdg::Dependencies;
use super::forest::Forest;
use super::graph::Graph;
use super::{Engine, RouteError, layers, spread, sssp, switch_dests};
use crate::model::{Demand, Fabric, LayerBudget, Tables};

/// Algorithms 3.1 and 3.6. Ignores the demand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dfsssp;

impl Engine for Dfsssp {
    fn name(&self) -> &'static str {
        "dfsssp"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let forest = sssp::balanced_forest(fabric, &graph).into_forest();
        layered(fabric, &graph, forest, self.name(), budget)
    }
}

/// Puts a complete forest on layers (Algorithm 3.6), and spreads it over all that are allowed
/// ([`spread::split`]).
///
/// # Errors
/// [`RouteError::OutOfBudget`] with the number of layers it takes.
pub fn layered(
    fabric: &Fabric,
    graph: &Graph,
    forest: Forest,
    engine: &'static str,
    budget: LayerBudget,
) -> Result<Tables, RouteError> {
    let deps = Dependencies::new(graph);
    let layering = layers::assign(graph, &deps, &forest, fabric.terminals().len());
    within(engine, budget, layering.used)?;
    let mut layers = layering.layers;
    switch_dests::fit(fabric, graph, &deps, &forest, &mut layers, layering.used);
    spread::split(fabric, graph, &mut layers, layering.used, usize::from(budget.get()));
    forest.into_tables(fabric, graph, engine, layers)
}

/// Whether so many layers are allowed.
///
/// # Errors
/// [`RouteError::OutOfBudget`] if not.
pub fn within(engine: &'static str, budget: LayerBudget, needed: usize) -> Result<(), RouteError> {
    if needed > usize::from(budget.get()) {
        return Err(RouteError::OutOfBudget { engine, budget: budget.get(), needed });
    }
    Ok(())
}
