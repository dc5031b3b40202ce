//! Whether the service of a state directory lives, and whether it can say how it fares.

use std::fs;

use chrono::{DateTime, TimeDelta, Utc};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::{HEALTH_FILE, Health, Kind, Trouble, at};
use crate::publish::EpochStore;
use crate::service::follow::Following;

/// Until its first pass has ended a service writes nothing, and that of a large fabric takes minutes.
const FIRST_PASS: TimeDelta = TimeDelta::minutes(10);

impl Health {
    /// What the service cannot say itself: that it was killed, or that it can write nothing down. `health` is what
    /// there is of it.
    pub fn unsaid(store: &EpochStore, health: Option<&Self>, now: DateTime<Utc>) -> Option<Trouble> {
        let killed = health.filter(|health| health.serving && is_gone(health.pid));
        let silent = silent_since(store, health, now);
        // Who asks for the lock has it for a moment, and would keep a service from starting.
        if killed.is_none() && silent.is_none() {
            return None;
        }
        if !store.is_served() {
            let killed = killed?;
            let text = format!("the service (process {}) has ended without a word", killed.pid);
            return Some(Trouble { kind: Kind::Stopped, since: killed.time, text });
        }
        let since = silent?;
        let state = store.path().display();
        let text = format!(
            "the service has run since {}, and nothing it wrote is in {state}/{HEALTH_FILE}: is there space \
             (df -h {state}), and may it write that file?",
            at(since)
        );
        Some(Trouble { kind: Kind::NoSpace, since, text })
    }
}

/// Since when a service that lives has said nothing, if that is long. It takes its lock at the start. `follow` takes it
/// too, and has a file of its own.
fn silent_since(store: &EpochStore, health: Option<&Health>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let lock = fs::metadata(store.service_lock_path()).and_then(|lock| lock.modified()).ok()?;
    let since = DateTime::<Utc>::from(lock);
    let says = health.is_some_and(|health| health.time >= since);
    (!says && now - since > FIRST_PASS && matches!(Following::read(store), Ok(None))).then_some(since)
}

fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}
