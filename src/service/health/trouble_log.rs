//! What is wrong, into the log: each trouble once when it comes, and once when it is over.

use std::collections::BTreeMap;

use chrono::Utc;
use tracing::{info, warn};

use super::{Health, Kind, PATIENCE};

/// Troubles that the log has.
#[derive(Debug, Default)]
pub struct TroubleLog {
    told: BTreeMap<Kind, String>,
}

impl TroubleLog {
    /// Logs each trouble that came or went since the last call.
    pub fn tell(&mut self, health: &Health) {
        let found = health.found(Utc::now(), PATIENCE);
        let now: BTreeMap<Kind, String> = found.into_iter().map(|t| (t.kind, t.text)).collect();
        for (kind, text) in now.iter().filter(|(kind, _)| !self.told.contains_key(kind)) {
            warn!(target: "sarouter::trouble", trouble = kind.name(), "{text}");
        }
        for (kind, text) in self.told.iter().filter(|(kind, _)| !now.contains_key(kind)) {
            info!(target: "sarouter::trouble", trouble = kind.name(), "over: {text}");
        }
        self.told = now;
    }
}
