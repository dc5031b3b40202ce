//! All routes inside one job on one layer: most programs use one service level for everything, so
//! a job whose routes lie on several layers must ask for each path or use the wrong one.

use super::cdg::Dependencies;
use super::dfsssp::within;
use super::forest::Forest;
use super::graph::Graph;
use super::layer_stack::LayerStack;
use super::updown::Escape;
use super::{RouteError, switch_dests};
use crate::model::{Demand, Fabric, LayerBudget, Tables, TerminalId};

/// Puts a forest on layers: jobs first, largest first, each as a whole on the first layer where
/// its routes close no cycle; then all other routes one by one. Jobs that share a terminal are one.
/// A job whose own routes close a cycle gets up*/down* routes instead: those of all jobs fit one
/// layer.
///
/// # Errors
/// [`RouteError::OutOfBudget`] with the number of layers it takes.
pub fn assign(
    (fabric, graph): (&Fabric, &Graph),
    deps: &Dependencies,
    demand: &Demand,
    mut forest: Forest,
    engine: &'static str,
    budget: LayerBudget,
) -> Result<Tables, RouteError> {
    let n = graph.switches();
    let mut stack = LayerStack::new(graph);
    let mut layers = vec![Tables::NO_LAYER; fabric.terminals().len() * n];
    let mut escape = None;
    for job in jobs(fabric, demand) {
        let layer = place_whole(&mut stack, &forest, &job).unwrap_or_else(|| {
            let escape = escape.get_or_insert_with(|| Escape::new(graph));
            for (dest, _) in &job {
                let tree = forest.tree_mut(dest.index());
                escape.reroute(graph, fabric.terminal(*dest).switch.index(), tree);
            }
            // Up*/down* routes never close a cycle in a layer of their own.
            place_whole(&mut stack, &forest, &job).unwrap_or(Tables::NO_LAYER)
        });
        for (dest, sources) in &job {
            for s in sources {
                layers[dest.index() * n + s] = layer;
            }
        }
    }
    for t in fabric.terminal_ids() {
        for s in (0..n).filter(|s| graph.terminals()[*s] > 0) {
            let layer = &mut layers[t.index() * n + s];
            if *layer == Tables::NO_LAYER {
                *layer = stack.place(forest.tree(t.index()), s);
            }
        }
    }
    within(engine, budget, stack.used())?;
    for s in fabric.switch_ids() {
        if let Some(t) = fabric.attached(s).first() {
            forest.copy(t.index(), fabric.dest_of_switch(s).index());
        }
    }
    switch_dests::fit(fabric, graph, deps, &forest, &mut layers, stack.used());
    forest.into_tables(fabric, graph, engine, layers)
}

/// A destination and the switches of the terminals that share its job.
type Routes = (TerminalId, Vec<usize>);

/// The routes of each set of jobs that share terminals, in the order of the demand.
fn jobs(fabric: &Fabric, demand: &Demand) -> Vec<Vec<Routes>> {
    let mut sets = petgraph::unionfind::UnionFind::new(demand.groups.len());
    for shared in demand.groups_of(fabric) {
        shared.windows(2).for_each(|w| {
            sets.union(w[0] as usize, w[1] as usize);
        });
    }
    let mut found: Vec<Vec<Routes>> = vec![Vec::new(); demand.groups.len()];
    let mut place = vec![usize::MAX; demand.groups.len()];
    for (g, group) in demand.groups.iter().enumerate() {
        let set = sets.find(g);
        if place[set] == usize::MAX {
            place[set] = g;
        }
        let mut switches: Vec<usize> =
            group.terminals.iter().map(|t| fabric.terminal(*t).switch.index()).collect();
        switches.sort_unstable();
        switches.dedup();
        found[place[set]].extend(group.terminals.iter().map(|t| (*t, switches.clone())));
    }
    found.retain(|job| !job.is_empty());
    found
}

/// The first layer where all routes fit together; a new one if they fit an empty layer.
fn place_whole(stack: &mut LayerStack<'_>, forest: &Forest, job: &[Routes]) -> Option<u8> {
    let routes = || job.iter().flat_map(|(t, sources)| sources.iter().map(|s| (forest.tree(t.index()), *s)));
    stack.place_all(routes)
}
