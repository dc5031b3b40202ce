//! Which lanes an epoch is to have: those in force as long as they fit, because inside them every change
//! is safe.

use std::sync::Arc;

use super::plan::{Policy, Published};
use crate::model::{Closure, Fabric, FabricLanes};
use crate::route;
use crate::route::lanes::{TreeWays, fabric_lanes, is_inside, mend, tree_ways};

/// The lanes of the next epoch; `None` where the promise needs none, as on trees, or the engine reads none.
///
/// On the same fabric those in force stay. On a fabric that lost or got back some cables they are mended.
/// Everywhere else, and where they want more VLs than there are, they are searched: O(see
/// [`fabric_lanes`]), once per fabric. A tree that is whole again gives them up.
pub(super) fn due(
    fabric: &Fabric,
    published: Option<&Published>,
    policy: &Policy,
) -> Option<Arc<FabricLanes>> {
    if policy.promise.is_told_only() || !route::reads_lanes(&policy.engine) {
        return None;
    }
    let in_force = published.and_then(|p| p.lanes.as_ref().map(|lanes| (p, lanes)));
    let in_force = in_force.filter(|(_, lanes)| lanes.map.vls() <= policy.budget.get());
    let ways = tree_ways(fabric);
    match (in_force, ways) {
        (Some((p, lanes)), Some(ways)) => for_tree(fabric, p, &ways, || lanes_now(fabric, p, lanes, policy)),
        (None, Some(_)) => None,
        (Some((p, lanes)), None) if is_settled(fabric, p) || is_mostly_known(fabric, lanes) => {
            Some(lanes_now(fabric, p, lanes, policy))
        }
        _ => Some(Arc::new(fabric_lanes(fabric, policy.budget).lanes)),
    }
}

/// Whether what is in force has its lanes of this very fabric: the first of three steps has those of before.
fn is_settled(fabric: &Fabric, published: &Published) -> bool {
    published.fabric == fabric.fingerprint() && !published.drained
}

/// Those in force, mended if the fabric is another one.
fn lanes_now(
    fabric: &Fabric,
    published: &Published,
    lanes: &Arc<FabricLanes>,
    policy: &Policy,
) -> Arc<FabricLanes> {
    match is_settled(fabric, published) {
        true => Arc::clone(lanes),
        false => Arc::new(mend(lanes, fabric, policy.budget, Some(&published.tables)).lanes),
    }
}

/// The lanes of a tree that is one again. They go as soon as all tables in force are ways of the tree: any mixture with
/// tables without lanes is safe then. Until then later epochs choose among the ways of the tree where they can.
/// O(destinations × switches × ports).
fn for_tree(
    fabric: &Fabric,
    published: &Published,
    ways: &TreeWays,
    lanes: impl FnOnce() -> Arc<FabricLanes>,
) -> Option<Arc<FabricLanes>> {
    let is_way = |d| is_inside(fabric, &ways.closure, &published.tables, d);
    let others = published.lids.as_ref().map(|lids| &lids.kept);
    let others_are = |d| others.is_none_or(|kept| is_inside(fabric, &ways.closure, kept, d));
    if fabric.dest_ids().all(|d| is_way(d) && others_are(d)) {
        return None;
    }
    let lanes = lanes();
    // What is in force must fit what is mended: the way back comes after.
    if !is_settled(fabric, published) {
        return Some(lanes);
    }
    let closure = both(fabric, &lanes.closure, &ways.closure);
    Some(Arc::new(FabricLanes { map: Arc::clone(&lanes.map), closure: Arc::new(closure) }))
}

/// The next hops of a closure that are in another one too; all where there are none.
fn both(fabric: &Fabric, lanes: &Closure, tree: &Closure) -> Closure {
    let mut both = lanes.clone();
    for (s, home) in fabric.switch_ids().flat_map(|s| fabric.switch_ids().map(move |home| (s, home))) {
        let slots = |sets: &Closure| (0..fabric.out(s).len()).filter(|i| sets.allows(s, home, *i)).collect();
        let (own, ways): (Vec<usize>, Vec<usize>) = (slots(lanes), slots(tree));
        if own.iter().any(|slot| ways.contains(slot)) {
            own.iter().filter(|slot| !ways.contains(slot)).for_each(|slot| both.set(s, home, *slot, false));
        }
    }
    both
}

/// One in so many channels may be unknown to lanes that are mended, or those of one switch: the routes of a fabric that
/// grew are better in lanes of its own.
const UNKNOWN: usize = 16;

/// Whether some next hop leads over nearly every channel.
fn is_mostly_known(fabric: &Fabric, lanes: &FabricLanes) -> bool {
    let unknown = lanes.closure.used(fabric).iter().filter(|known| !**known).count();
    let of_one = fabric.switch_ids().map(|s| 2 * fabric.out(s).len()).max().unwrap_or(0);
    unknown <= of_one.max(fabric.channels().len() / UNKNOWN)
}

#[cfg(test)]
mod tests;
