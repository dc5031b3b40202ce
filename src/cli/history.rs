//! `sarouter history`: a line for each epoch.

use std::fmt::Write;

use serde::Serialize;

use super::common::print;
use super::state::{StateArgs, percent, reason};
use super::{Answer, Context, Failure, Format};
use crate::publish::{EpochNumber, EpochStore, HistoryRow, Page, Turnover};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sarouter history --state /var/lib/sarouter")]
pub struct Args {
    #[command(flatten)]
    state: StateArgs,
}

/// What is printed.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    /// The epoch in force.
    current: Option<EpochNumber>,
    epochs: Vec<Line>,
    /// What could not be read.
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    row: HistoryRow,
    /// Whether the epoch can still be shown and rolled back to.
    stored: bool,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    Table::read(&args.state.store(context)?)?.print(context)
}

/// Whether the history is that of a direct torus, whose changes are no epochs on the disk.
pub(super) fn is_of_a_torus(store: &EpochStore) -> bool {
    let page = Page { before: None, limit: Some(1) };
    let rows = store.history_page(page).map(|history| history.rows).unwrap_or_default();
    rows.iter().any(|row| row.turnover.is_some())
}

impl Table {
    /// One change of a direct torus; the newest unless there is a number.
    pub(super) fn of_change(store: &EpochStore, number: Option<EpochNumber>) -> Result<Self, Failure> {
        let mut table = Self::read(store)?;
        let wanted = number.or(table.current);
        table.epochs.retain(|line| Some(line.row.epoch) == wanted);
        match (table.epochs.is_empty(), wanted) {
            (true, Some(wanted)) => Err(format!("there is no change {wanted} in the history").into()),
            _ => Ok(table),
        }
    }

    pub(super) fn read(store: &EpochStore) -> Result<Self, Failure> {
        let stored = store.epochs()?;
        let mut history = store.history()?;
        let current = store.current().unwrap_or_else(|e| {
            history.notes.push(e.to_string());
            None
        });
        // On a direct torus what was written last is on the nodes.
        let newest = history.rows.last().filter(|row| row.turnover.is_some()).map(|row| row.epoch);
        let current = current.or(newest);
        let line = |row: HistoryRow| Line { stored: stored.contains(&row.epoch), row };
        Ok(Self { current, epochs: history.rows.into_iter().map(line).collect(), notes: history.notes })
    }

    pub(super) fn print(&self, context: &Context) -> Result<Answer, Failure> {
        match context.format {
            Format::Text => print(&self.text())?,
            Format::Json => print(&serde_json::to_string_pretty(self)?)?,
        }
        Ok(Answer::Yes)
    }

    pub(super) fn text(&self) -> String {
        if self.epochs.is_empty() && self.notes.is_empty() {
            return "no epoch has been published".to_string();
        }
        let mut out = format!(
            "{:>8}  {:20}  {:14}  {:10}  {:>5}  {:>16}  {:>12}  {:>17}  {:>10}  {:>6}  {:>8}",
            "epoch",
            "published",
            "reason",
            "engine",
            "jobs",
            "mean slow-down",
            "without jobs",
            "max effective EFI",
            "dark fiber",
            "layers",
            "ms"
        );
        for line in &self.epochs {
            let row = &line.row;
            let mark = match (self.current == Some(row.epoch), line.stored) {
                (true, _) => '*',
                (false, true) => ' ',
                (false, false) if row.turnover.is_some() => ' ',
                (false, false) => '-',
            };
            let slowdown = |figure: Option<f64>| figure.map_or("?".to_string(), |s| format!("{s:.3}"));
            let slowdown = match (&row.turnover, row.slowdown_after) {
                // Written before slow-down was known of a direct torus.
                (Some(_), None) => "-".to_string(),
                _ => format!("{} -> {}", slowdown(row.slowdown_before), slowdown(row.slowdown_after)),
            };
            let before = row.effective_max_before.map_or("?".to_string(), |n| n.to_string());
            let _ = write!(
                out,
                "\n{mark}{:>7}  {:20}  {:14}  {:10}  {:>5}  {:>16}  {:>12}  {:>17}  {:>10}  {:>6}  {:>8.1}",
                row.epoch,
                row.created.format("%Y-%m-%dT%H:%M:%SZ"),
                reason(row.reason),
                row.engine,
                row.multi_switch_jobs,
                slowdown,
                row.slowdown_oblivious.map_or("-".to_string(), |s| format!("{s:.3}")),
                format!("{before} -> {}", row.effective_max_after),
                percent(row.dark_fiber),
                row.layers,
                row.milliseconds
            );
            if let Some(Turnover { jobs_in, jobs_out }) = &row.turnover {
                jobs_in.iter().for_each(|job| out.push_str(&format!(" +{job}")));
                jobs_out.iter().for_each(|job| out.push_str(&format!(" -{job}")));
            }
        }
        out.push_str(match self.epochs.iter().any(|line| line.row.turnover.is_some()) {
            false => "\n* in force, - deleted; jobs: those on more than one switch; without jobs: slow-down with the best engine that knows none; ms: to compute the routes",
            true => "\n* in force; jobs: those that have tables; +JOB got tables, -JOB lost them; ms: to compute them",
        });
        for note in &self.notes {
            let _ = write!(out, "\nnote: {note}");
        }
        out
    }
}
