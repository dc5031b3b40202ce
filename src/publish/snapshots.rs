//! What was seen, in the tables `snapshots` and `figures` of `history.db`: a line per good look, and
//! all figures of each epoch. Like the rest of the file it can be deleted at any time.

use schemars::JsonSchema;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use rusqlite::{Connection, OpenFlags, params};
use serde::Serialize;

use super::{EpochNumber, EpochStore};
use crate::measure::Figures;

/// How long a writer waits for another.
const BUSY: Duration = Duration::from_millis(100);

/// KiB of the file that a writer keeps in memory, negative as SQLite wants it: a few rows are
/// written, not the whole file read.
pub(super) const CACHE: i64 = -256;

/// One good look.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Snapshot {
    /// When the jobs were asked for.
    pub time: DateTime<Utc>,
    /// Jobs that own nodes.
    pub jobs: usize,
    /// Multi-switch jobs that are too young to count.
    pub waiting: usize,
    /// Nodes of jobs that no terminal matches.
    pub unknown_nodes: usize,
    /// The epoch in force after it.
    pub epoch: Option<EpochNumber>,
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS snapshots (
        time TEXT NOT NULL, jobs INTEGER NOT NULL, waiting INTEGER NOT NULL,
        unknown_nodes INTEGER NOT NULL, epoch INTEGER);
    CREATE INDEX IF NOT EXISTS snapshots_time ON snapshots (time);
    CREATE TABLE IF NOT EXISTS figures (
        epoch INTEGER PRIMARY KEY, created TEXT NOT NULL, reason TEXT NOT NULL,
        before TEXT, after TEXT NOT NULL)";

/// Times that sort as text.
fn text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

impl EpochStore {
    /// Remembers a look, and the figures of `made` if it led to that epoch; forgets of what is older than
    /// `keep` the oldest 16 looks and 2 epochs.
    ///
    /// # Errors
    /// If the file cannot be used. Nothing depends on it.
    pub fn remember(
        &self,
        snapshot: &Snapshot,
        made: Option<(EpochNumber, &str, Option<&Figures>, &Figures)>,
        keep: TimeDelta,
    ) -> rusqlite::Result<()> {
        let mut connection = Connection::open(self.history_path())?;
        connection.busy_timeout(BUSY)?;
        // A power cut may cost the last rows, not the file.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "cache_size", CACHE)?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        let number = |n: EpochNumber| i64::try_from(n.get()).unwrap_or(i64::MAX);
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        transaction.execute(
            "INSERT INTO snapshots VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                text(snapshot.time),
                count(snapshot.jobs),
                count(snapshot.waiting),
                count(snapshot.unknown_nodes),
                snapshot.epoch.map(number)
            ],
        )?;
        if let Some((epoch, reason, before, after)) = made {
            let json = |f: &Figures| serde_json::to_string(f).unwrap_or_default();
            transaction.execute(
                "INSERT OR REPLACE INTO figures VALUES (?1, ?2, ?3, ?4, ?5)",
                params![number(epoch), text(snapshot.time), reason, before.map(json), json(after)],
            )?;
        }
        let oldest = snapshot.time.checked_sub_signed(keep).unwrap_or(DateTime::<Utc>::MIN_UTC);
        // A few at a time: a clock that is ahead for a moment does not take the whole history.
        transaction.execute(
            "DELETE FROM snapshots WHERE rowid IN
                 (SELECT rowid FROM snapshots WHERE time < ?1 ORDER BY time LIMIT 16)",
            [text(oldest)],
        )?;
        transaction.execute(
            "DELETE FROM figures WHERE epoch IN
                 (SELECT epoch FROM figures WHERE created < ?1 ORDER BY epoch LIMIT 2)",
            [text(oldest)],
        )?;
        let has_index: bool = transaction.query_row(
            "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'epochs')",
            [],
            |row| row.get(0),
        )?;
        if has_index {
            transaction.execute(
                "DELETE FROM epochs WHERE rowid IN
                     (SELECT rowid FROM epochs WHERE created < ?1 ORDER BY rowid LIMIT 2)",
                [oldest.to_rfc3339()],
            )?;
        }
        transaction.commit()
    }

    /// The newest `last` looks, oldest first.
    ///
    /// # Errors
    /// If the file cannot be read; none are there before the first.
    pub fn snapshots(&self, last: usize) -> rusqlite::Result<Vec<Snapshot>> {
        let path = self.history_path();
        if !path.exists() {
            return Ok(Vec::new());
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        let mut statement = match connection.prepare(
            "SELECT time, jobs, waiting, unknown_nodes, epoch FROM snapshots ORDER BY rowid DESC LIMIT ?1",
        ) {
            Ok(statement) => statement,
            // The table comes with the first look.
            Err(rusqlite::Error::SqliteFailure(..) | rusqlite::Error::SqlInputError { .. }) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let rows = statement.query_map([i64::try_from(last).unwrap_or(i64::MAX)], |row| {
            let time: String = row.get(0)?;
            let epoch: Option<i64> = row.get(4)?;
            Ok(Snapshot {
                time: time.parse().unwrap_or_default(),
                jobs: row.get(1)?,
                waiting: row.get(2)?,
                unknown_nodes: row.get(3)?,
                epoch: epoch.and_then(|n| EpochNumber::new(u64::try_from(n).ok()?)),
            })
        })?;
        let mut found = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        found.reverse();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_remembered_for_as_long_as_the_settings_say() {
        let dir = tempfile::tempdir().unwrap();
        let store = EpochStore::open(dir.path()).unwrap();
        assert_eq!(store.snapshots(10).unwrap(), []);
        let start: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
        let snapshot = |day: i64| Snapshot {
            time: start + TimeDelta::days(day),
            jobs: day as usize,
            waiting: 1,
            unknown_nodes: 2,
            epoch: Some((day + 1).to_string().parse().unwrap()),
        };
        for day in 0..50 {
            store.remember(&snapshot(day), None, TimeDelta::days(10)).unwrap();
        }
        let kept: Vec<Snapshot> = (39..50).map(snapshot).collect();
        assert_eq!(store.snapshots(100).unwrap(), kept);
        assert_eq!(store.snapshots(2).unwrap(), kept[9..]);
    }

    #[test]
    fn a_clock_that_is_ahead_for_one_look_takes_few_of_those_before() {
        let dir = tempfile::tempdir().unwrap();
        let store = EpochStore::open(dir.path()).unwrap();
        let start: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
        let look = |hours: i64| {
            let time = start + TimeDelta::hours(hours);
            let snapshot = Snapshot { time, jobs: 0, waiting: 0, unknown_nodes: 0, epoch: None };
            store.remember(&snapshot, None, TimeDelta::days(400)).unwrap();
        };
        (0..50).for_each(look);
        look(24 * 1000);
        look(50);
        assert_eq!(store.snapshots(100).unwrap().len(), 52 - 16);
    }
}
