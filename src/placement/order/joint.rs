//! Orders of several jobs, and orders and routes found together.

use super::{Question, order};
use crate::measure::Predictor;
use crate::model::{Adapters, Demand, Fabric, Group, Tables};

/// Rounds of orders for routes and routes for orders.
const ROUNDS: usize = 2;

/// A group whose ranks may change places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Movable {
    /// Its place among the groups.
    pub job: usize,
    /// Ranks that stay together, as in [`Question::unit`].
    pub unit: usize,
}

/// Routes with the orders that go with them.
#[derive(Debug, Clone)]
pub struct Together {
    /// The groups, those that may with their ranks in the order found.
    pub groups: Vec<Group>,
    /// The routes.
    pub tables: Tables,
    /// Geometric mean of predicted times over the groups.
    pub time: f64,
    /// Whether the routes are not the usual ones.
    pub is_new: bool,
}

/// Puts the ranks of groups in order, one group after the other with the others as they then are. The geometric
/// mean over all never rises. `work` is that of one group. Nothing changes where a route does not arrive.
pub fn order_all(
    fabric: &Fabric,
    tables: &Tables,
    groups: &[Group],
    movable: &[Movable],
    work: u64,
) -> Vec<Group> {
    let mut groups = groups.to_vec();
    for &Movable { job, unit } in movable {
        let Some(mut predictor) = Predictor::new(fabric, tables, &groups, job) else { continue };
        let Group { ranks, mix, .. } = &groups[job];
        let found = order(Question { fabric, ranks, unit, mix, work }, &mut predictor);
        groups[job].ranks = found.places.iter().map(|p| ranks[*p as usize]).collect();
    }
    groups
}

/// Geometric mean of predicted times over the groups; of those with several ranks on one terminal, the first that
/// may change counts as it is. Infinite if a route does not arrive.
pub fn time(fabric: &Fabric, tables: &Tables, groups: &[Group], movable: &[Movable]) -> f64 {
    let Some(job) = movable.first().map(|m| m.job) else { return 1.0 };
    let Some(mut predictor) = Predictor::new(fabric, tables, groups, job) else { return f64::INFINITY };
    let own = predictor.time(&groups[job].ranks);
    if own.is_finite() { predictor.mean() } else { own }
}

/// Orders for the routes, routes for the orders, and so on for a few rounds. The best pair of all is the answer. It
/// is never worse than routes for the orders as given, nor than orders for the `usual` routes. `route` makes routes
/// that are fit for use.
///
/// # Errors
/// Those of `route` for the orders as given; later ones end the search.
pub fn together<E>(
    fabric: &Fabric,
    groups: &[Group],
    movable: &[Movable],
    work: u64,
    usual: &Tables,
    mut route: impl FnMut(&Demand) -> Result<Tables, E>,
) -> Result<Together, E> {
    let pair = |groups: Vec<Group>, tables: Tables, is_new| {
        let time = time(fabric, &tables, &groups, movable);
        Together { groups, tables, time, is_new }
    };
    let order = |pair: &Together| order_all(fabric, &pair.tables, &pair.groups, movable, work);
    let as_given = pair(groups.to_vec(), route(&demand(groups))?, true);
    let as_usual = pair(groups.to_vec(), usual.clone(), false);
    let mut best = as_given.clone();
    for start in [as_usual, as_given] {
        let mut current = start;
        for _ in 0..ROUNDS {
            current = pair(order(&current), current.tables, current.is_new);
            if current.time < best.time {
                best = current.clone();
            }
            let Ok(tables) = route(&demand(&current.groups)) else { break };
            current = pair(current.groups, tables, true);
            if current.time >= best.time {
                break;
            }
            best = current.clone();
        }
    }
    Ok(best)
}

/// What engines are told: each terminal of a job once, in the order of ranks.
fn demand(groups: &[Group]) -> Demand {
    let once = |g: &Group| {
        let once = Group { weight: g.weight, ..Group::new(g.ranks.clone()).exchanging(g.mix.clone()) };
        // Of several ranks on one adapter one is left.
        let per_node = g.adapters.per_node as usize * once.ranks.len() / g.ranks.len().max(1);
        once.with_adapters(Adapters { per_node: per_node as u32, ..g.adapters })
    };
    Demand::new(groups.iter().map(once).collect(), Vec::new())
}
