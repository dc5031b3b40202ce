//! `history.db`: an index of the epochs, for people and for SQL. It can be deleted at any time and
//! is never a reason not to publish.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OpenFlags, Row, Transaction, params};
use schemars::JsonSchema;
use serde::Serialize;
use tracing::warn;

use super::{Epoch, EpochNumber, EpochStore, StoreError};
use crate::model::{FabricDifference, JobId};
use crate::pass::plan::Reason;

/// How long a publication waits for somebody who reads the index.
const BUSY: Duration = Duration::from_millis(100);

/// One epoch in the table of `history`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct HistoryRow {
    /// Its number.
    pub epoch: EpochNumber,
    /// When it was published.
    pub created: DateTime<Utc>,
    /// Why new routes were due.
    pub reason: Reason,
    /// Name of who made the tables.
    pub engine: String,
    /// Fingerprint of the fabric.
    pub fabric: String,
    /// What is other in it than in that of the epoch before; left out where nothing is, or it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<FabricDifference>,
    /// Jobs on at least two switches.
    pub multi_switch_jobs: usize,
    /// Mean slow-down of the tables before, under this epoch's jobs.
    pub slowdown_before: Option<f64>,
    /// Mean slow-down of this epoch's tables; `None` on a direct torus, where none is predicted.
    pub slowdown_after: Option<f64>,
    /// The same with an engine that knows no jobs; `None` where it was not measured.
    pub slowdown_oblivious: Option<f64>,
    /// Largest effective EFI of the tables before, under this epoch's jobs.
    pub effective_max_before: Option<u64>,
    /// Largest effective EFI of this epoch's tables.
    pub effective_max_after: u64,
    /// No tables can have a smaller largest effective EFI for these jobs; `None` where it was not computed.
    pub effective_bound: Option<u64>,
    /// Node-hours that running jobs save by it, as predicted; `None` where the change had no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// Node-hours that it had to save.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// Share of channels that no job uses, 0..=1.
    pub dark_fiber: f64,
    /// Layers in use.
    pub layers: u8,
    /// Time of the engine, wall clock.
    pub milliseconds: f64,
    /// Whose tables came and went; `None` on a switched fabric, whose tables are everybody's.
    #[serde(flatten)]
    pub turnover: Option<Turnover>,
}

/// Whose tables came and went, on a direct torus.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Turnover {
    /// Jobs that got tables.
    pub jobs_in: Vec<JobId>,
    /// Jobs whose tables were removed.
    pub jobs_out: Vec<JobId>,
}

/// All epochs that are or were.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// By number, ascending.
    pub rows: Vec<HistoryRow>,
    /// What could not be read: damaged epochs, a damaged index.
    pub notes: Vec<String>,
}

impl HistoryRow {
    pub(super) fn of(epoch: &Epoch) -> Self {
        let (plan, report) = (epoch.plan(), epoch.report());
        Self {
            epoch: plan.epoch,
            created: plan.created,
            reason: plan.reason,
            engine: plan.engine.clone(),
            fabric: plan.fabric.to_string(),
            difference: plan.difference.clone(),
            multi_switch_jobs: report.jobs.multi_switch,
            slowdown_before: plan.before.map(|f| f.time.slowdown_mean),
            slowdown_after: Some(plan.after.time.slowdown_mean),
            slowdown_oblivious: report.time.oblivious,
            effective_max_before: plan.before.map(|f| f.effective.max),
            effective_max_after: plan.after.effective.max,
            effective_bound: Some(plan.after.effective.lower_bound),
            gain: plan.worth.and_then(|worth| worth.gain),
            price: plan.worth.map(|worth| worth.price),
            dark_fiber: plan.after.effective.dark_fiber,
            layers: report.layers.used,
            milliseconds: report.compute.wall_seconds * 1000.0,
            turnover: None,
        }
    }
}

/// A new schema gets a new number here: an index of another version is made anew.
const VERSION: i64 = 7;
const SCHEMA: &str = "CREATE TABLE epochs (
    epoch INTEGER PRIMARY KEY,
    created TEXT NOT NULL,
    reason TEXT NOT NULL,
    engine TEXT NOT NULL,
    fabric TEXT NOT NULL,
    multi_switch_jobs INTEGER NOT NULL,
    slowdown_before REAL,
    slowdown_after REAL,
    effective_max_before INTEGER,
    effective_max_after INTEGER NOT NULL,
    dark_fiber REAL NOT NULL,
    layers INTEGER NOT NULL,
    milliseconds REAL NOT NULL,
    jobs_in TEXT,
    jobs_out TEXT,
    slowdown_oblivious REAL,
    effective_bound INTEGER,
    difference TEXT,
    gain REAL,
    price REAL
)";
/// Columns that came with a version, in this order: rows of the versions before stay.
const ADDED: [(i64, &str, &str); 5] = [
    (4, "slowdown_oblivious", "REAL"),
    (5, "effective_bound", "INTEGER"),
    (6, "difference", "TEXT"),
    (7, "gain", "REAL"),
    (7, "price", "REAL"),
];
/// The oldest version whose rows stay.
const OLDEST: i64 = ADDED[0].0 - 1;

/// Which epochs of the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Page {
    /// Only those before this one.
    pub before: Option<EpochNumber>,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}

/// Reads the index and, for epochs that it lacks, their files. Never writes. O(epochs of the page +
/// epochs on the disk).
pub(super) fn read(store: &EpochStore, page: Page) -> Result<History, StoreError> {
    let mut notes = Vec::new();
    let path = store.history_path();
    let mut rows = BTreeMap::new();
    if path.exists() {
        match read_index(&path, page) {
            Ok(found) => rows = found,
            Err(e) => notes.push(format!("{} cannot be read: {e}", path.display())),
        }
    }
    // Older ones than a full page may well be in the index.
    let full = page.limit.is_some_and(|limit| rows.len() >= limit);
    let oldest = rows.keys().next().copied().filter(|_| full);
    let wanted = |n: &EpochNumber| oldest.is_none_or(|o| *n > o) && page.before.is_none_or(|b| *n < b);
    for epoch in missing(store, |n| !wanted(n) || rows.contains_key(n))? {
        match store.epoch(epoch) {
            Ok(found) => drop(rows.insert(epoch, HistoryRow::of(&found))),
            Err(e) => notes.push(e.to_string()),
        }
    }
    while page.limit.is_some_and(|limit| rows.len() > limit) {
        rows.pop_first();
    }
    Ok(History { rows: rows.into_values().collect(), notes })
}

fn missing(store: &EpochStore, known: impl Fn(&EpochNumber) -> bool) -> Result<Vec<EpochNumber>, StoreError> {
    Ok(store.epochs()?.into_iter().filter(|n| !known(n)).collect())
}

/// Whether the index has a line for an epoch. Not all of a year's lines are read for that.
fn has(connection: &Connection, epoch: EpochNumber) -> rusqlite::Result<bool> {
    let number = i64::try_from(epoch.get()).unwrap_or(i64::MAX);
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM epochs WHERE epoch = ?1)")?
        .query_row([number], |row| row.get(0))
}

fn read_index(path: &Path, page: Page) -> rusqlite::Result<BTreeMap<EpochNumber, HistoryRow>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "cache_size", super::snapshots::CACHE)?;
    let version = version(&connection)?;
    // Looks that came before the first epoch are there without any.
    let has_epochs = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'epochs')";
    if version == 0 && !connection.query_row(has_epochs, [], |row| row.get(0))? {
        return Ok(BTreeMap::new());
    }
    let added = ADDED.map(|(since, name, _)| if version < since { "NULL" } else { name }).join(", ");
    let mut statement = connection.prepare(&format!(
        "SELECT epoch, created, reason, engine, fabric, multi_switch_jobs, slowdown_before,
                slowdown_after, effective_max_before,
                effective_max_after, dark_fiber, layers, milliseconds, jobs_in, jobs_out, {added} FROM epochs
         WHERE epoch < ?1 ORDER BY epoch DESC LIMIT ?2",
    ))?;
    let before = page.before.map_or(i64::MAX, |n| i64::try_from(n.get()).unwrap_or(i64::MAX));
    // Negative: no limit.
    let limit = page.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(-1));
    let found = statement.query_map([before, limit], row)?;
    found.map(|r| r.map(|r| (r.epoch, r))).collect()
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn row(row: &Row<'_>) -> rusqlite::Result<HistoryRow> {
    Ok(HistoryRow {
        epoch: parsed(row, 0, |n: i64| EpochNumber::new(u64::try_from(n).ok()?))?,
        created: parsed(row, 1, |text: String| text.parse().ok())?,
        reason: parsed(row, 2, |text: String| serde_json::from_value(text.into()).ok())?,
        engine: row.get(3)?,
        fabric: row.get(4)?,
        difference: row.get::<_, Option<String>>(17)?.and_then(|text| serde_json::from_str(&text).ok()),
        multi_switch_jobs: row.get(5)?,
        slowdown_before: row.get(6)?,
        slowdown_after: row.get(7)?,
        slowdown_oblivious: row.get(15)?,
        effective_max_before: row.get(8)?,
        effective_max_after: row.get(9)?,
        effective_bound: row.get(16)?,
        gain: row.get(18)?,
        price: row.get(19)?,
        dark_fiber: row.get(10)?,
        layers: row.get(11)?,
        milliseconds: row.get(12)?,
        turnover: match row.get_ref(13)?.data_type() {
            rusqlite::types::Type::Null => None,
            _ => Some(Turnover { jobs_in: parsed(row, 13, ids)?, jobs_out: parsed(row, 14, ids)? }),
        },
    })
}

fn ids(text: String) -> Option<Vec<JobId>> {
    serde_json::from_str(&text).ok()
}

fn parsed<S: rusqlite::types::FromSql, T>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(S) -> Option<T>,
) -> rusqlite::Result<T> {
    let kind = row.get_ref(column)?.data_type();
    let name = row.as_ref().column_name(column)?.to_string();
    parse(row.get(column)?).ok_or(rusqlite::Error::InvalidColumnType(column, name, kind))
}

/// Brings the index up to date with the newest epoch; if it is damaged, puts it aside as `history.db.damaged` and makes it
/// anew. Only under the lock. A full disk or a lack of rights passes, and what only the index remembers stays.
///
/// A failure is only logged here: the epochs are what counts, and the next reader is told.
pub(super) fn index(store: &EpochStore, newest: &HistoryRow) {
    let path = store.history_path();
    match add_missing(store, &path, newest) {
        Ok(()) => {}
        Err(e) if !is_damage(&e) => {}
        Err(damage) => {
            let file = |suffix: &str| {
                let mut file = path.clone().into_os_string();
                file.push(suffix);
                PathBuf::from(file)
            };
            let aside = file(".damaged");
            warn!("{}: {damage}: it is kept as {}, and begun anew", path.display(), aside.display());
            let _ = fs::rename(&path, aside);
            for suffix in ["-journal", "-wal", "-shm"] {
                let _ = fs::remove_file(file(suffix));
            }
            if let Err(error) = add_missing(store, &path, newest) {
                warn!("{}: {error}", path.display());
            }
        }
    }
}

/// Whether an index must be made anew: it is no database, or not one of ours.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
    error.sqlite_error_code().is_none_or(|code| matches!(code, DatabaseCorrupt | NotADatabase | Unknown))
}

fn add_missing(store: &EpochStore, path: &Path, newest: &HistoryRow) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    let transaction = begin(&mut connection)?;
    // A state directory that was emptied counts from 1 again: its rows of then are void.
    let stale = i64::try_from(newest.epoch.get()).unwrap_or(i64::MAX);
    transaction.execute("DELETE FROM epochs WHERE epoch >= ?1", [stale])?;
    // What cannot be read is written again.
    let known = |epoch: &EpochNumber| has(&transaction, *epoch).unwrap_or(false);
    for epoch in missing(store, known).unwrap_or_default() {
        if epoch == newest.epoch {
            insert(&transaction, newest)?;
        } else if let Ok(epoch) = store.epoch(epoch) {
            insert(&transaction, &HistoryRow::of(&epoch))?;
        }
    }
    transaction.commit()
}

/// A transaction in which the table is there.
fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "cache_size", super::snapshots::CACHE)?;
    let transaction = connection.transaction()?;
    let version = version(&transaction)?;
    if version != VERSION {
        let add =
            |(_, name, kind): &(i64, &str, &str)| format!("ALTER TABLE epochs ADD COLUMN {name} {kind};");
        let change: String = match (OLDEST..VERSION).contains(&version) {
            true => ADDED.iter().filter(|(since, ..)| version < *since).map(add).collect(),
            false => format!("DROP TABLE IF EXISTS epochs; {SCHEMA}"),
        };
        transaction.execute_batch(&format!("{change}; PRAGMA user_version = {VERSION}"))?;
    }
    Ok(transaction)
}

/// Adds changes that are no epochs on the disk: those of a direct torus.
pub(super) fn add(store: &EpochStore, rows: &[HistoryRow]) -> rusqlite::Result<()> {
    let mut connection = Connection::open(store.history_path())?;
    let transaction = begin(&mut connection)?;
    rows.iter().try_for_each(|row| insert(&transaction, row))?;
    transaction.commit()
}

fn insert(connection: &Connection, row: &HistoryRow) -> rusqlite::Result<()> {
    let reason = serde_json::to_value(row.reason).ok();
    let ids = |jobs: &[JobId]| serde_json::to_string(jobs).unwrap_or_default();
    connection.execute(
        "INSERT OR REPLACE INTO epochs
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        params![
            i64::try_from(row.epoch.get()).unwrap_or(i64::MAX),
            row.created.to_rfc3339(),
            reason.as_ref().and_then(serde_json::Value::as_str),
            row.engine,
            row.fabric,
            row.multi_switch_jobs,
            row.slowdown_before,
            row.slowdown_after,
            row.effective_max_before,
            row.effective_max_after,
            row.dark_fiber,
            row.layers,
            row.milliseconds,
            row.turnover.as_ref().map(|t| ids(&t.jobs_in)),
            row.turnover.as_ref().map(|t| ids(&t.jobs_out)),
            row.slowdown_oblivious,
            row.effective_bound,
            row.difference.as_ref().and_then(|difference| serde_json::to_string(difference).ok()),
            row.gain,
            row.price,
        ],
    )?;
    Ok(())
}
