//! What jobs said at their start that they exchange, while they are there.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::UNLISTED;
use crate::model::{JobId, JobMap, Mix};

/// By job; when it was said.
#[derive(Debug, Clone, Default)]
pub(super) struct Traffic(BTreeMap<JobId, (DateTime<Utc>, Mix)>);

impl Traffic {
    /// A start says this, and what an earlier one of the same job said counts no more.
    pub(super) fn said(&mut self, now: DateTime<Utc>, job: &JobId, mix: Option<&Mix>) {
        match mix {
            Some(mix) => drop(self.0.insert(job.clone(), (now, mix.clone()))),
            None => self.ended(job),
        }
    }

    pub(super) fn of(&self, job: &JobId) -> Option<&Mix> {
        self.0.get(job).map(|(_, mix)| mix)
    }

    pub(super) fn ended(&mut self, job: &JobId) {
        self.0.remove(job);
    }

    /// Tells of jobs what they said. O(jobs × log jobs).
    pub(super) fn add_to(&self, jobs: &mut JobMap) {
        for job in jobs.jobs.iter_mut().filter(|job| job.mix.is_none()) {
            job.mix = self.of(&job.id).cloned();
        }
    }

    /// Forgets all other jobs, if the batch system, asked then, should have known them. O(jobs × log jobs).
    pub(super) fn keep(&mut self, asked: DateTime<Utc>, is_there: impl Fn(&JobId) -> bool) {
        self.0.retain(|id, (said, _)| asked - *said <= UNLISTED || is_there(id));
    }
}
