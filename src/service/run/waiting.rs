//! The jobs that wait before they start, and whom to tell.

use chrono::{DateTime, TimeDelta, Utc};
use tracing::{info, warn};

use super::delta;
use crate::config;
use crate::model::JobId;
use crate::service::command::Reply;
use crate::service::handoff::{Announcement, Answer, HandOff, Outcome, Rules, StartId};

/// [`HandOff`] with the prologs behind it.
pub(super) struct Waiting {
    pub(super) handoff: HandOff,
    /// Who waits for which start; several may for one.
    replies: Vec<(StartId, Reply<Outcome>)>,
}

impl Waiting {
    pub(super) fn new(settings: &config::HandOff) -> Self {
        let rules = Rules {
            deadline: delta(settings.deadline),
            min_nodes: settings.min_nodes,
            min_length: settings.min_length,
            reroute_interval: settings.reroute_interval,
            max_pending: settings.max_pending,
        };
        Self { handoff: HandOff::new(rules), replies: Vec::new() }
    }

    /// A prolog asks.
    pub(super) fn announce(&mut self, now: DateTime<Utc>, said: Announcement, reply: Reply<Outcome>) {
        // A prolog that asks again has given up its earlier question.
        self.replies.retain(|(_, reply)| !reply.is_closed());
        let start = said.start.clone();
        match self.handoff.announce(now, said) {
            Answer::Start(outcome) => {
                log(&start, outcome, TimeDelta::zero());
                // Whoever does not wait any more does not get it.
                let _ = reply.send(outcome);
            }
            Answer::Wait => self.replies.push((start, reply)),
        }
    }

    /// An epilog says that a job is over.
    pub(super) fn ended(&mut self, now: DateTime<Utc>, job: &JobId) {
        self.handoff.ended(now, job);
    }

    /// Tells those that may start.
    pub(super) fn let_go(&mut self) {
        for released in self.handoff.take_released() {
            log(&released.start, released.outcome, released.waited);
            let (told, wait): (Vec<_>, Vec<_>) = std::mem::take(&mut self.replies)
                .into_iter()
                .partition(|(start, _)| *start == released.start);
            self.replies = wait;
            for (_, reply) in told {
                let _ = reply.send(released.outcome);
            }
        }
    }
}

fn log(start: &StartId, outcome: Outcome, waited: TimeDelta) {
    let (job, nodes, ms) = (&start.job, start.nodes.len(), waited.num_milliseconds());
    match outcome {
        Outcome::Deadline => {
            warn!(%job, nodes, ms, "the job starts at its deadline, on the last verified routes");
        }
        Outcome::Full => warn!(%job, nodes, "too many jobs wait: it starts on the last verified routes"),
        _ => info!(%job, nodes, ms, ?outcome, "the job starts"),
    }
}
