//! A first of two steps to new tables, where the whole change is not proved.

use super::plan::{Plan, Published};
use crate::model::{DestId, Fabric, Tables};
use crate::route::lanes::{is_inside, tree_ways};
use crate::verify::trees::{LOST, Trees};

/// The first of two steps; `None` if there is nothing between. In a tree that lost cables, or got some back, see
/// [`TreeWays::halfway`](crate::route::lanes::TreeWays::halfway). In lanes switches get these first, with routes to all
/// whom those in force do not reach any more.
///
/// O(destinations × switches × ports).
pub fn halfway(fabric: &Fabric, published: &Published, plan: &Plan) -> Option<Tables> {
    if plan.lanes.is_some() {
        return in_lanes(fabric, published, plan);
    }
    let tables = tree_ways(fabric)?.halfway(fabric, &published.tables, &plan.tables);
    (tables != plan.tables).then_some(tables)
}

/// Tables halfway: with the lanes of the plan, and its routes to all whom those in force do not reach any more.
/// To all others those in force, where the next hops of both are in the closure of the plan: the second step is
/// safe then, whatever is proved of the first. `None` if the plan has no lanes, or there is nothing between.
///
/// A cable that came back is the usual case: switches get its lanes before any route leads over it.
///
/// O(destinations × switches × ports).
fn in_lanes(fabric: &Fabric, published: &Published, plan: &Plan) -> Option<Tables> {
    let (before, now) = (&*published.tables, &plan.tables);
    let closure = &plan.lanes.as_ref()?.closure;
    let trees = Trees::new(fabric, before);
    let mut tree = trees.room();
    let mut reaches_all = |d: DestId| {
        trees.trace(d, &mut tree);
        let home = fabric.home(d);
        let needs = |s| now.port(s, d).is_some();
        before.port(home, d) == now.port(home, d)
            && fabric.switch_ids().filter(|s| needs(*s)).all(|s| tree.depth[s.index()] != LOST)
    };
    let stays: Vec<DestId> =
        fabric.dest_ids().filter(|d| reaches_all(*d) && is_inside(fabric, closure, before, *d)).collect();
    let switches = fabric.switches().len();
    let tables = now.clone().edited(|ports, layers| {
        for d in stays {
            let at = d.index() * switches..(d.index() + 1) * switches;
            ports[at.clone()].copy_from_slice(before.ports_to(d));
            layers[at].copy_from_slice(before.layers_to(d));
        }
    });
    (tables != *now).then_some(tables)
}
