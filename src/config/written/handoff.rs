//! `[handoff]` as written.

use std::time::Duration;

use chrono::TimeDelta;
use serde::Deserialize;

use super::numbers::{Seconds, SecondsOrZero};
use crate::config::HandOff;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenHandOff {
    deadline_seconds: Seconds,
    away_seconds: Seconds,
    min_nodes: usize,
    min_length_seconds: SecondsOrZero,
    reroute_interval_seconds: SecondsOrZero,
    max_pending: Pending,
    bring_command: Option<ProgramPath>,
}

/// How many jobs may wait: 1 to 65536.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
struct Pending(usize);

impl TryFrom<u64> for Pending {
    type Error = String;
    fn try_from(jobs: u64) -> Result<Self, String> {
        match usize::try_from(jobs) {
            Ok(jobs) if (1..=65536).contains(&jobs) => Ok(Self(jobs)),
            _ => Err("must be 1 to 65536 jobs".into()),
        }
    }
}

/// The path of a program, from the root.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct ProgramPath(String);

impl TryFrom<String> for ProgramPath {
    type Error = String;
    fn try_from(path: String) -> Result<Self, String> {
        match path.starts_with('/') {
            true => Ok(Self(path)),
            false => Err(format!("must be the path of a program, from the root, not {path:?}")),
        }
    }
}

impl Default for WrittenHandOff {
    fn default() -> Self {
        Self {
            deadline_seconds: Seconds(Duration::from_secs(20)),
            away_seconds: Seconds(Duration::from_secs(3)),
            min_nodes: 2,
            min_length_seconds: SecondsOrZero(Duration::from_secs(300)),
            reroute_interval_seconds: SecondsOrZero(Duration::from_secs(10)),
            max_pending: Pending(4096),
            bring_command: None,
        }
    }
}

impl WrittenHandOff {
    pub(super) fn resolve(&self) -> HandOff {
        // At most a year: always fits.
        let delta = |seconds: SecondsOrZero| TimeDelta::from_std(seconds.0).unwrap_or(TimeDelta::MAX);
        HandOff {
            deadline: self.deadline_seconds.0,
            away: self.away_seconds.0,
            min_nodes: self.min_nodes,
            min_length: delta(self.min_length_seconds),
            reroute_interval: delta(self.reroute_interval_seconds),
            max_pending: self.max_pending.0,
            bring: self.bring_command.clone().map(|program| program.0),
        }
    }
}
