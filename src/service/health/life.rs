//! Whether the service of a state directory lives, and whether it can say how it fares.

use std::fs;

use chrono::{DateTime, Utc};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::{HEALTH_FILE, Health, Kind, PATIENCE, Trouble, at};
use crate::publish::EpochStore;
use crate::service::follow::Following;

impl Health {
    /// What the service cannot say itself: that it was killed, or that it can write nothing down. `health` is what
    /// there is of it.
    pub fn unsaid(store: &EpochStore, health: Option<&Self>, now: DateTime<Utc>) -> Option<Trouble> {
        if !store.is_served() {
            let killed = health.filter(|health| health.serving && is_gone(health.pid))?;
            let text = format!("the service (process {}) has ended without a word", killed.pid);
            return Some(Trouble { kind: Kind::Stopped, since: killed.time, text });
        }
        // The lock is taken at the start. `follow` takes it too, and has a file of its own.
        let lock = fs::metadata(store.service_lock_path()).and_then(|lock| lock.modified()).ok()?;
        let since = DateTime::<Utc>::from(lock);
        let says = health.is_some_and(|health| health.time >= since);
        if says || now - since <= PATIENCE || !matches!(Following::read(store), Ok(None)) {
            return None;
        }
        let state = store.path().display();
        let text = format!(
            "the service has run since {}, and nothing it wrote is in {state}/{HEALTH_FILE}: is there space \
             (df -h {state}), and may it write that file?",
            at(since)
        );
        Some(Trouble { kind: Kind::NoSpace, since, text })
    }
}

fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}
