//! What came of the tables of a direct torus, for the history: a row for each change, a line for each look.
//!
//! Changes count on from those in the history; the jobs' directories are what counts, and nothing waits for
//! the file. What comes while it is written, or could not be written, goes with the next writing. Of what piles up
//! while the file hangs, the oldest is left out.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::work::Running;
use crate::measure::angara::{channel_loads, dark_fiber};
use crate::measure::mean_of_kept;
use crate::model::{Torus, TorusJob};
use crate::pass::plan::Reason;
use crate::publish::{EpochNumber, EpochStore, HistoryRow, Page, Snapshot, Turnover};

/// Changes, and looks, that wait for the file at most: each change keeps the routes of then.
const MOST: usize = 256;

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
    /// Those that could not be written.
    rows: Vec<HistoryRow>,
    changes: Vec<(EpochNumber, Change)>,
    looks: Vec<Snapshot>,
    /// Something was left out since the file was last written: said once.
    is_behind: bool,
    writing: JoinSet<Wrote>,
}

/// What came of a writing.
struct Wrote {
    /// The largest load of a channel after the newest change.
    load: Option<u64>,
    /// What was not written.
    left: Vec<HistoryRow>,
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
            rows: Vec::new(),
            changes: Vec::new(),
            looks: Vec::new(),
            is_behind: false,
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
        self.trim();
        number
    }

    /// Notes a good look.
    pub(super) fn look(&mut self, time: DateTime<Utc>, jobs: usize, unknown_nodes: usize) {
        // No job is too young for tables.
        self.looks.push(Snapshot { time, jobs, waiting: 0, unknown_nodes, epoch: self.number });
        self.trim();
    }

    /// Leaves out the oldest of what is too much.
    fn trim(&mut self) {
        let rows = (self.rows.len() + self.changes.len()).saturating_sub(MOST).min(self.rows.len());
        self.rows.drain(..rows);
        let changes = self.changes.len().saturating_sub(MOST);
        self.changes.drain(..changes);
        let looks = self.looks.len().saturating_sub(MOST);
        self.looks.drain(..looks);
        if rows + changes + looks > 0 && !std::mem::replace(&mut self.is_behind, true) {
            warn!("the history cannot be written: the oldest changes are left out");
        }
    }

    /// Begins to write what there is, unless a writer is at it.
    pub(super) fn write(&mut self, keep: TimeDelta) {
        if self.writing.is_empty() && !(self.changes.is_empty() && self.looks.is_empty()) {
            self.begin(keep);
        }
    }

    fn begin(&mut self, keep: TimeDelta) {
        let (changes, looks) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.looks));
        let mut rows = std::mem::take(&mut self.rows);
        let store = self.store.clone();
        self.writing.spawn_blocking(move || {
            rows.extend(changes.into_iter().map(|(number, change)| change.row(number)));
            let load = rows.last().map(|row| row.effective_max_after);
            let done = if rows.is_empty() { Ok(()) } else { store.add_history(&rows) };
            let left = if done.is_err() { rows } else { Vec::new() };
            let done = done.and_then(|()| looks.iter().try_for_each(|look| store.remember(look, None, keep)));
            if let Err(error) = done {
                // For people; the jobs' directories are what counts.
                debug!(%error, "the history was not written");
            }
            Wrote { load, left }
        });
    }

    /// When a writer has ended: the largest load of a channel, if tables changed. Never without a writer.
    pub(super) async fn written(&mut self) -> Option<u64> {
        match self.writing.join_next().await {
            Some(wrote) => self.wrote(wrote.ok()),
            None => std::future::pending().await,
        }
    }

    fn wrote(&mut self, wrote: Option<Wrote>) -> Option<u64> {
        let Wrote { load, left } = wrote?;
        self.is_behind &= !left.is_empty();
        self.rows = left;
        self.trim();
        load
    }

    /// Writes all there is, with what could not be written before.
    pub(super) async fn end(&mut self, keep: TimeDelta) {
        self.join().await;
        if !(self.rows.is_empty() && self.changes.is_empty() && self.looks.is_empty()) {
            self.begin(keep);
            self.join().await;
        }
    }

    /// Waits for a writer, if one is at it.
    async fn join(&mut self) {
        while let Some(wrote) = self.writing.join_next().await {
            self.wrote(wrote.ok());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TorusBuilder;

    fn change() -> Change {
        Change {
            time: Utc::now(),
            reason: Reason::JobsChanged,
            engine: "angara-sar".into(),
            torus: Arc::new(TorusBuilder::new(&[2, 2]).unwrap().build().unwrap()),
            before: Running::new(),
            after: Running::new(),
            turnover: Turnover::default(),
            milliseconds: 0.0,
        }
    }

    #[test]
    fn what_a_locked_file_did_not_take_is_written_later_and_the_oldest_of_too_much_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let store = EpochStore::open(dir.path()).unwrap();
        let mut chronicle = Chronicle::open(&store);
        let numbers = || {
            let rows = store.history_page(Page::default()).unwrap().rows;
            rows.iter().map(|row| row.epoch.get()).collect::<Vec<_>>()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let write = async |chronicle: &mut Chronicle| {
                chronicle.write(TimeDelta::days(1));
                chronicle.written().await
            };
            let reader = rusqlite::Connection::open(dir.path().join("history.db")).unwrap();
            reader.execute_batch("BEGIN EXCLUSIVE").unwrap();
            chronicle.change(change());
            assert_eq!(write(&mut chronicle).await, Some(0));
            assert_eq!(chronicle.rows.len(), 1, "it waits");
            reader.execute_batch("COMMIT").unwrap();
            chronicle.change(change());
            write(&mut chronicle).await;
            assert_eq!(numbers(), [1, 2]);
            for _ in 0..MOST + 3 {
                chronicle.change(change());
            }
            assert!(chronicle.is_behind);
            write(&mut chronicle).await;
            assert!(!chronicle.is_behind);
            // Those of 3 to 5 were too much.
            assert_eq!(numbers()[..4], [1, 2, 6, 7]);
            assert_eq!(numbers().len(), 2 + MOST);
            reader.execute_batch("BEGIN EXCLUSIVE").unwrap();
            chronicle.change(change());
            write(&mut chronicle).await;
            reader.execute_batch("COMMIT").unwrap();
            assert_eq!(numbers().len(), 2 + MOST);
            // No change is pending.
            chronicle.end(TimeDelta::days(1)).await;
            assert_eq!((numbers().len(), chronicle.rows.len()), (3 + MOST, 0));
        });
    }
}
