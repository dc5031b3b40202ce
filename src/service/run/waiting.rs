//! The jobs that wait before they start, and whom to tell.

use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::{info, warn};

use super::delta;
use crate::config;
use crate::model::JobId;
use crate::publish::job::all_traffic;
use crate::service::chain;
use crate::service::clock::steady;
use crate::service::command::Reply;
use crate::service::handoff::{Announcement, HandOff, Outcome, Released, Rules, StartId, StartOrWait};

/// [`HandOff`] with the prologs behind it.
pub(in crate::service) struct Waiting {
    pub(in crate::service) handoff: HandOff,
    /// Who waits for which start; several may for one.
    replies: Vec<(StartId, Reply<Outcome>)>,
    /// Those that need not wait.
    at_once: Vec<(Released, Vec<Reply<Outcome>>)>,
}

impl Waiting {
    pub(in crate::service) fn new(settings: &config::HandOff) -> Self {
        let rules = rules(settings);
        Self { handoff: HandOff::new(rules), replies: Vec::new(), at_once: Vec::new() }
    }

    /// Remembers what jobs said at their start to a service before this one.
    pub(in crate::service) fn remember_traffic(&mut self, root: &Path) {
        match all_traffic(root) {
            Ok(said) => self.handoff.remember_traffic(steady(), said),
            Err(error) => warn!("what jobs said is forgotten: {}", chain(&error)),
        }
    }

    /// Goes by new settings from now on.
    pub(in crate::service) fn follow(&mut self, settings: &config::HandOff) {
        self.handoff.follow(rules(settings));
    }

    /// A prolog asks.
    pub(in crate::service) fn announce(
        &mut self,
        now: DateTime<Utc>,
        said: Announcement,
        reply: Reply<Outcome>,
    ) {
        // A prolog that asks again has given up its earlier question.
        self.replies.retain(|(_, reply)| !reply.is_closed());
        let start = said.start.clone();
        match self.handoff.announce(now, said) {
            StartOrWait::Start(outcome) => {
                let released = Released { start, outcome, waited: TimeDelta::zero() };
                self.at_once.push((released, vec![reply]));
            }
            StartOrWait::Wait => self.replies.push((start, reply)),
        }
    }

    /// An epilog says that a job is over.
    pub(in crate::service) fn ended(&mut self, now: DateTime<Utc>, job: &JobId) {
        self.handoff.ended(now, job);
    }

    /// Those that may start, and whom to tell.
    pub(in crate::service) fn let_go(&mut self) -> Vec<(Released, Vec<Reply<Outcome>>)> {
        let mut free = std::mem::take(&mut self.at_once);
        for released in self.handoff.take_released() {
            let (told, wait): (Vec<_>, Vec<_>) = std::mem::take(&mut self.replies)
                .into_iter()
                .partition(|(start, _)| *start == released.start);
            self.replies = wait;
            free.push((released, told.into_iter().map(|(_, reply)| reply).collect()));
        }
        free.iter().for_each(|(released, _)| log(&released.start, released.outcome, released.waited));
        free
    }
}

fn rules(settings: &config::HandOff) -> Rules {
    Rules {
        deadline: delta(settings.deadline),
        min_nodes: settings.min_nodes,
        min_length: settings.min_length,
        reroute_interval: settings.reroute_interval,
        max_pending: settings.max_pending,
        away: delta(settings.away),
    }
}

/// Tells those who wait for a start.
pub(in crate::service) fn answer(replies: Vec<Reply<Outcome>>, outcome: Outcome) {
    for reply in replies {
        // Whoever does not wait any more does not get it.
        let _ = reply.send(outcome);
    }
}

fn log(start: &StartId, outcome: Outcome, waited: TimeDelta) {
    let (job, nodes, ms) = (&start.job, start.nodes.len(), waited.num_milliseconds());
    match outcome {
        Outcome::Deadline => {
            warn!(%job, nodes, ms, "the job starts at its deadline, on the last verified routes");
        }
        Outcome::OpensmGone => warn!(%job, nodes, ms, "the job does not wait: OpenSM is gone"),
        Outcome::Unknown => {
            warn!(%job, nodes, ms, "nodes of the job are not in the fabric: it starts without routes")
        }
        Outcome::Untold => warn!(%job, nodes, ms, "the job starts without its directory"),
        Outcome::Unrouted => warn!(%job, nodes, ms, "the job starts without tables"),
        Outcome::Full => warn!(%job, nodes, "too many jobs wait: it starts on the last verified routes"),
        _ => info!(%job, nodes, ms, why = outcome.words(), "the job starts"),
    }
}
