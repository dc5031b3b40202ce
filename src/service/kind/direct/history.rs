//! What came of the tables of a direct torus, for the history: a row for each change, a line for each look.
//!
//! Changes count on from those in the history; the jobs' directories are what counts, and nothing waits for
//! the file. What comes while it is written goes with the next writing, so that no change is left out.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;
use tracing::debug;

use super::work::Running;
use crate::measure::angara::{channel_loads, dark_fiber};
use crate::measure::mean_of_kept;
use crate::model::{Torus, TorusJob};
use crate::pass::plan::Reason;
use crate::publish::{EpochNumber, EpochStore, HistoryRow, Page, Snapshot, Turnover};

/// Tables that came, went or changed.
pub(super) struct Change {
    pub time: DateTime<Utc>,
    pub reason: Reason,
    pub engine: String,
    pub torus: Arc<Torus>,
    pub before: Running,
    pub after: Running,
    pub turnover: Turnover,
    /// Time of the engine.
    pub milliseconds: f64,
}

/// The changes of this process, and the writer of the history.
pub(super) struct Chronicle {
    store: EpochStore,
    /// The newest change.
    number: Option<EpochNumber>,
    /// The newest of earlier processes.
    last: Option<HistoryRow>,
    changes: Vec<(EpochNumber, Change)>,
    looks: Vec<Snapshot>,
    /// Says the largest load of a channel after the newest change.
    writing: JoinSet<Option<u64>>,
}

impl Chronicle {
    /// Goes on with the history of the store.
    pub(super) fn open(store: &EpochStore) -> Self {
        let page = Page { before: None, limit: Some(1) };
        let last = store.history_page(page).ok().and_then(|mut history| history.rows.pop());
        Self {
            store: store.clone(),
            number: last.as_ref().map(|row| row.epoch),
            last,
            changes: Vec::new(),
            looks: Vec::new(),
            writing: JoinSet::new(),
        }
    }

    /// The newest change of earlier processes.
    pub(super) fn newest_row(&self) -> Option<HistoryRow> {
        self.last.clone()
    }

    /// The newest change.
    pub(super) fn newest(&self) -> Option<EpochNumber> {
        self.number
    }

    /// Counts a change; its number.
    pub(super) fn change(&mut self, change: Change) -> EpochNumber {
        let number = EpochNumber::after(self.number);
        self.number = Some(number);
        self.changes.push((number, change));
        number
    }

    /// Notes a good look.
    pub(super) fn look(&mut self, time: DateTime<Utc>, jobs: usize, unknown_nodes: usize) {
        // No job is too young for tables.
        self.looks.push(Snapshot { time, jobs, waiting: 0, unknown_nodes, epoch: self.number });
    }

    /// Begins to write what there is, unless a writer is at it.
    pub(super) fn write(&mut self, keep: TimeDelta) {
        if !self.writing.is_empty() || (self.changes.is_empty() && self.looks.is_empty()) {
            return;
        }
        let (changes, looks) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.looks));
        let store = self.store.clone();
        self.writing.spawn_blocking(move || {
            let rows: Vec<HistoryRow> =
                changes.into_iter().map(|(number, change)| change.row(number)).collect();
            let done = if rows.is_empty() { Ok(()) } else { store.add_history(&rows) };
            let done = done.and_then(|()| looks.iter().try_for_each(|look| store.remember(look, None, keep)));
            if let Err(error) = done {
                // For people; the jobs' directories are what counts.
                debug!(%error, "the history was not written");
            }
            rows.last().map(|row| row.effective_max_after)
        });
    }

    /// When a writer has ended: the largest load of a channel, if tables changed. Never without a writer.
    pub(super) async fn written(&mut self) -> Option<u64> {
        match self.writing.join_next().await {
            Some(load) => load.ok().flatten(),
            None => std::future::pending().await,
        }
    }

    /// Writes all there is.
    pub(super) async fn end(&mut self, keep: TimeDelta) {
        loop {
            while self.writing.join_next().await.is_some() {}
            self.write(keep);
            if self.writing.is_empty() {
                return;
            }
        }
    }
}

impl Change {
    fn row(self, epoch: EpochNumber) -> HistoryRow {
        let torus = &self.torus;
        let loads = |jobs: &Running| channel_loads(torus, jobs.values().filter_map(TorusJob::kept));
        let (before, after) = (loads(&self.before), loads(&self.after));
        let max = |loads: &[u32]| loads.iter().copied().max().unwrap_or(0).into();
        let slowdown =
            |jobs: &Running| Some(mean_of_kept(torus, jobs.values())).filter(|mean| mean.is_finite());
        HistoryRow {
            epoch,
            created: self.time,
            reason: self.reason,
            engine: self.engine,
            fabric: torus.fingerprint().to_string(),
            difference: None,
            multi_switch_jobs: self.after.len(),
            slowdown_before: slowdown(&self.before),
            slowdown_after: slowdown(&self.after),
            slowdown_oblivious: None,
            effective_max_before: Some(max(&before)),
            effective_max_after: max(&after),
            effective_bound: None,
            gain: None,
            price: None,
            dark_fiber: dark_fiber(torus, &after),
            layers: 1,
            milliseconds: self.milliseconds,
            turnover: Some(self.turnover),
        }
    }
}
