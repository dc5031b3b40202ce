//! New tables of a job that runs, brought to its nodes by a command of the site.
//!
//! Routes that stay and new ones were judged together ([`crate::pass::torus`]), so nodes may change in any order, one
//! after the other. One job at a time; what could not be brought is tried again with each look at the jobs.

use std::collections::BTreeSet;

use chrono::Utc;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::{DirectKind, Done};
use crate::model::JobId;
use crate::observe::child::BoundedCommand;
use crate::service::chain;
use crate::service::health::{Kind, Trouble};
use crate::service::run::Service;

/// What the command may say; only what it says of errors is told.
const OUTPUT_LIMIT: u64 = 64 << 10;

/// Jobs whose nodes are to get new tables.
#[derive(Default)]
pub(super) struct Bringing {
    due: BTreeSet<JobId>,
    failed: BTreeSet<JobId>,
    /// One at most.
    pub(super) at_work: JoinSet<Done>,
}

impl Bringing {
    /// Those that could not be brought are due again.
    pub(super) fn again(&mut self) {
        self.due.append(&mut self.failed);
    }

    /// Drops jobs that are over, or that cannot be mended.
    pub(super) fn forget(&mut self, over: impl Fn(&JobId) -> bool) {
        self.due.retain(|id| !over(id));
        self.failed.retain(|id| !over(id));
    }
}

impl Service<DirectKind> {
    /// Has the tables of these jobs brought to their nodes, if the settings say how.
    pub(super) fn bring(&mut self, mended: Vec<JobId>) {
        let Some(program) = &self.settings.handoff.bring else { return };
        let bringing = &mut self.kind.bringing;
        bringing.due.extend(mended);
        if !bringing.at_work.is_empty() {
            return;
        }
        let Some(id) = bringing.due.pop_first() else { return };
        let directory = self.jobs_root.join(id.as_str()).display().to_string();
        let command = BoundedCommand {
            argv: vec![program.clone(), id.to_string(), directory],
            environment: Vec::new(),
            deadline: self.settings.handoff.deadline,
            output_limit: OUTPUT_LIMIT,
        };
        bringing.at_work.spawn(async move {
            let result = command.output().await.map(|_| ()).map_err(|error| chain(&error));
            Done::Brought(id, result)
        });
    }

    /// The command has ended.
    pub(super) fn brought(&mut self, id: JobId, result: Result<(), String>) {
        // The trouble of a job that cannot go on stays, and one that is over has none.
        let runs = self.kind.running.contains_key(&id) && !self.kind.lost.contains_key(&id);
        let cut = &mut self.health.torus.get_or_insert_default().cut;
        match result {
            Ok(()) if runs => {
                info!(job = %id, "its new tables are on its nodes");
                // Newer ones may be due already.
                if !self.kind.bringing.due.contains(&id) {
                    cut.remove(&id);
                }
            }
            Err(why) if runs => {
                let text = format!(
                    "the new tables of job {id}, {}, are not on its nodes, and it runs over what has failed: {why}",
                    self.jobs_root.join(id.as_str()).display()
                );
                if cut.get(&id).is_none_or(|known| known.text != text) {
                    warn!("{text}");
                    let since = cut.get(&id).map_or_else(Utc::now, |known| known.since);
                    cut.insert(id.clone(), Trouble { kind: Kind::JobsCut, since, text });
                }
                self.kind.bringing.failed.insert(id);
            }
            _ => {}
        }
        self.bring(Vec::new());
    }
}
