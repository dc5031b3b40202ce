//! What a pass finds: what is in force, what jobs were told of it, and what has changed in the fabric since.

use chrono::{DateTime, Utc};

use super::remembered::Remembered;
use crate::model::{Fabric, FabricDifference, Group, JobId, Layer, Sl};
use crate::pass::plan::Published;
use crate::pass::step::View;
use crate::publish::EpochStore;
use crate::publish::job::{self, JOBS_DIRECTORY};
use crate::report::Compute;
use crate::service::chain;

/// What an epoch takes over from an earlier one, which it repeats.
#[derive(Debug, Clone)]
pub struct Again {
    /// When it was made.
    pub created: DateTime<Utc>,
    /// What it cost.
    pub compute: Compute,
    /// What it says of the fabric.
    pub difference: Option<FabricDifference>,
}

/// What is in force on this fabric, the service levels that jobs were told, and what may be remembered of it. It is read
/// unless an earlier pass has left it.
pub(super) fn in_force(
    store: &EpochStore,
    view: &View,
    (remembered, again): (Option<Remembered>, Option<&Again>),
    warnings: &mut Vec<String>,
) -> (Option<Published>, Vec<(Group, Layer)>, Option<Remembered>) {
    let known = remembered.as_ref().and_then(|remembered| remembered.in_force(store, view));
    let (published, kept) = match known {
        Some(known) => (Some(known), remembered.clone()),
        None => Remembered::read(store, view).unwrap_or_else(|error| {
            warnings.push(format!("what is in force cannot be read and is replaced: {error}"));
            (None, None)
        }),
    };
    let told = if view.policy.layer_per_job { told(store, view, warnings) } else { Vec::new() };
    let published = published.map(|p| {
        let seen = remembered.as_ref().map(Remembered::fabric);
        let difference = || difference(store, &p, &view.fabric, seen);
        let difference = again.map_or_else(difference, |again| again.difference.clone());
        Published { told: told.clone(), difference, ..p }
    });
    (published, told, kept)
}

/// What is other in a fabric than in that of what is in force; `None` if nothing is, or what is in force cannot be read.
/// If the latter is the fabric `seen` before, all is called by name; otherwise what is gone has only its GUID.
pub fn difference(
    store: &EpochStore,
    published: &Published,
    fabric: &Fabric,
    seen: Option<&Fabric>,
) -> Option<FabricDifference> {
    if published.fabric == fabric.fingerprint() {
        // The steps that follow the first one are for the same change.
        return published.difference.clone().filter(|_| published.halfway);
    }
    let found = match seen.filter(|seen| seen.fingerprint() == published.fabric) {
        Some(seen) => fabric.difference(seen),
        None => fabric.difference(&store.fabric(store.current().ok()??).ok()?),
    };
    Some(found).filter(|found| !found.is_empty())
}

/// The jobs of the view that run with a service level they were told.
fn told(store: &EpochStore, view: &View, warnings: &mut Vec<String>) -> Vec<(Group, Layer)> {
    let root = store.path().join(JOBS_DIRECTORY);
    let levels = job::levels(&root).unwrap_or_else(|error| {
        warnings.push(chain(&error));
        Vec::new()
    });
    let group = |(id, level): (JobId, Sl)| {
        let job = &view.jobs.jobs[view.jobs.jobs.binary_search_by(|j| j.id.cmp(&id)).ok()?];
        let ranks = view.nodes.ranks(&job.nodes);
        let layer = Layer::new(u64::from(level.get())).ok()?;
        ranks.is_multi_switch(&view.fabric).then(|| (ranks.group(), layer))
    };
    levels.into_iter().filter_map(group).collect()
}
