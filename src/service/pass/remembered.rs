//! What a pass leaves for the next one of the same process: what is in force need not be read and proved again.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::Fabric;
use crate::pass::plan::{Plan, Published};
use crate::pass::step::View;
use crate::publish::{EpochNumber, EpochStore, Stamp, StoreError};
use crate::verify::Verified;

/// What is in force, as long as the files are those that the store had then.
#[derive(Debug, Clone)]
pub struct Remembered {
    epoch: EpochNumber,
    stamps: Vec<Stamp>,
    fabric: Arc<Fabric>,
    published: Arc<Published>,
}

impl Remembered {
    /// What was just published; `None` if its files cannot be looked at.
    pub(super) fn new(
        store: &EpochStore,
        epoch: EpochNumber,
        fabric: &Arc<Fabric>,
        plan: &Verified<Plan>,
        created: DateTime<Utc>,
    ) -> Option<Self> {
        let stamps = store.stamps(epoch).ok()?;
        let (promise, proved, certificate, plan) =
            (plan.promise(), plan.proved(), plan.shared_certificate(), plan.get());
        let published =
            Published { since: Some(created), certificate, proved, ..Published::of_plan(plan, promise) };
        Some(Self { epoch, stamps, fabric: Arc::clone(fabric), published: Arc::new(published) })
    }

    /// The fabric that it is of.
    pub(super) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// What is in force, if it is this still.
    pub(super) fn in_force(&self, store: &EpochStore, view: &View) -> Option<Published> {
        self.is_of(store, view).then(|| (*self.published).clone())
    }

    /// Whether it is still in force, on the fabric of a view, as it was published.
    fn is_of(&self, store: &EpochStore, view: &View) -> bool {
        let repair = view.policy.repair.as_ref().filter(|_| view.policy.repairs_newest());
        let is_repaired = repair.is_some_and(|repair| !repair.entries.is_empty());
        self.published.fabric == view.fabric.fingerprint()
            && !is_repaired
            && store.current().is_ok_and(|current| current == Some(self.epoch))
            && store.stamps(self.epoch).is_ok_and(|stamps| stamps == self.stamps)
    }

    /// What is read now, and what of it may be remembered.
    pub(super) fn read(
        store: &EpochStore,
        view: &View,
    ) -> Result<(Option<Published>, Option<Self>), StoreError> {
        let stamped = store.current()?.and_then(|epoch| Some((epoch, store.stamps(epoch).ok()?)));
        let published = store.published_as(&view.fabric, view.policy.repair.as_deref())?;
        let kept = stamped.zip(published.clone()).map(|((epoch, stamps), published)| Self {
            epoch,
            stamps,
            fabric: Arc::clone(&view.fabric),
            published: Arc::new(published),
        });
        Ok((published, kept.filter(|kept| kept.is_of(store, view))))
    }
}
