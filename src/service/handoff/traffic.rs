//! What jobs said at their start that they exchange, or what was guessed then, while they are there.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::UNLISTED;
use crate::model::{JobId, JobMap, Mix, Traffic};

/// By job; when it was said.
#[derive(Debug, Clone, Default)]
pub(super) struct Told(BTreeMap<JobId, (DateTime<Utc>, Traffic)>);

impl Told {
    /// A start says this, and what an earlier one of the same job said counts no more.
    pub(super) fn said(&mut self, now: DateTime<Utc>, job: &JobId, traffic: Option<&Traffic>) {
        match traffic {
            Some(traffic) => drop(self.0.insert(job.clone(), (now, traffic.clone()))),
            None => self.ended(job),
        }
    }

    pub(super) fn mix(&self, job: &JobId) -> Mix {
        self.0.get(job).map(|(_, traffic)| traffic.mix.clone()).unwrap_or_default()
    }

    pub(super) fn ended(&mut self, job: &JobId) {
        self.0.remove(job);
    }

    /// Tells of jobs what they said. O(jobs × log jobs).
    pub(super) fn add_to(&self, jobs: &mut JobMap) {
        for job in &mut jobs.jobs {
            self.0.get(&job.id).into_iter().for_each(|(_, traffic)| job.is_told(traffic.clone()));
        }
    }

    /// Forgets all other jobs, if the batch system, asked then, should have known them. O(jobs × log jobs).
    pub(super) fn keep(&mut self, asked: DateTime<Utc>, is_there: impl Fn(&JobId) -> bool) {
        self.0.retain(|id, (said, _)| asked - *said <= UNLISTED || is_there(id));
    }
}
