//! What a pass finds: what is in force, what jobs were told of it, and what has changed in the fabric since.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::remembered::Remembered;
use crate::model::{Fabric, FabricDifference, Group, JobId, Layer, Sl};
use crate::pass::plan::{Behind, InSwitches, Published};
use crate::pass::step::View;
use crate::publish::job::{self, JOBS_DIRECTORY};
use crate::publish::{EpochNumber, EpochStore, StoreError};
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
    let older = older(store, view, warnings);
    let told = if view.policy.layer_per_job { told(store, view, warnings) } else { Vec::new() };
    let published = published.map(|p| {
        let seen = remembered.as_ref().map(Remembered::fabric);
        let difference = || difference(store, &p, &view.fabric, seen);
        let difference = again.map_or_else(difference, |again| again.difference.clone());
        Published { told: told.clone(), difference, ..p }
    });
    (beside(published, older), told, kept)
}

/// What is in force on this fabric, for who only asks what would change.
///
/// # Errors
/// If the newest epoch is damaged.
pub fn published(store: &EpochStore, view: &View) -> Result<Option<Published>, StoreError> {
    let newest = store.published_as(&view.fabric, view.policy.repair.as_deref())?;
    let mut warnings = Vec::new();
    let older = older(store, view, &mut warnings);
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(beside(newest, older))
}

/// What OpenSM has in the switches, if that is not the newest epoch.
fn older(store: &EpochStore, view: &View, warnings: &mut Vec<String>) -> Option<Behind> {
    let InSwitches { epoch, refused } = view.policy.in_switches?;
    let number = EpochNumber::new(epoch)?;
    // Somebody has gone back to it.
    if store.current().is_ok_and(|newest| newest.is_none_or(|newest| newest == number)) {
        return None;
    }
    let repair = view.policy.repair.as_deref();
    let read = store.epoch(number).and_then(|epoch| epoch.repaired(repair).published(&view.fabric));
    match read {
        Ok(published) => Some(Behind { published: Arc::new(published), refused }),
        Err(error) => {
            warnings.push(format!(
                "OpenSM has epoch {number} in the switches, from which the change is not proved, because it cannot be read: {}",
                chain(&error)
            ));
            None
        }
    }
}

/// The newest epoch with what is in the switches instead of it. Where it cannot be read, the latter is what is in force, and
/// another epoch is due.
fn beside(newest: Option<Published>, older: Option<Behind>) -> Option<Published> {
    let Some(Behind { published, refused }) = older else { return newest };
    let older = Arc::unwrap_or_clone(published);
    let Some(newest) = newest else { return Some(Published { halfway: true, difference: None, ..older }) };
    let (since, asked) = (newest.since, newest.asked);
    let (told, difference) = (newest.told.clone(), newest.difference.clone());
    let published = Arc::new(Published { since, asked, told, difference, ..older });
    Some(Published { behind: Some(Behind { published, refused }), ..newest })
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
