//! Which lanes an epoch is to have: those in force as long as they fit, because inside them every change
//! is safe.

use std::sync::Arc;

use super::plan::{Policy, Published};
use crate::model::{Fabric, FabricLanes};
use crate::route;
use crate::route::lanes::{fabric_lanes, mend};

/// The lanes of the next epoch; `None` where the promise needs none, as on trees, or the engine reads none.
///
/// On the same fabric those in force stay. On a fabric that lost or got back some cables they are mended.
/// Everywhere else, and where they want more VLs than there are, they are searched: O(see
/// [`fabric_lanes`]), once per fabric.
pub(super) fn due(
    fabric: &Fabric,
    published: Option<&Published>,
    policy: &Policy,
) -> Option<Arc<FabricLanes>> {
    if policy.promise.is_told_only() || !route::reads_lanes(&policy.engine) {
        return None;
    }
    let in_force = published.and_then(|p| p.lanes.as_ref().map(|lanes| (p, lanes)));
    match in_force.filter(|(_, lanes)| lanes.map.vls() <= policy.budget.get()) {
        Some((p, lanes)) if p.fabric == fabric.fingerprint() => Some(Arc::clone(lanes)),
        Some((p, lanes)) if is_mostly_known(fabric, lanes) => {
            Some(Arc::new(mend(lanes, fabric, policy.budget, Some(&p.tables)).lanes))
        }
        _ => {
            let found = fabric_lanes(fabric, policy.budget);
            found.needs_map().then(|| Arc::new(found.lanes))
        }
    }
}

/// One in so many channels may be unknown to lanes that are mended: the routes of a fabric that grew are
/// better in lanes of its own.
const UNKNOWN: usize = 16;

/// Whether some next hop leads over nearly every channel.
fn is_mostly_known(fabric: &Fabric, lanes: &FabricLanes) -> bool {
    let mut known = vec![false; fabric.channels().len()];
    for s in fabric.switch_ids() {
        for home in fabric.switch_ids() {
            lanes.closure.ways(fabric, s, home).for_each(|c| known[c.index()] = true);
        }
    }
    known.iter().filter(|known| !**known).count() * UNKNOWN <= known.len()
}
