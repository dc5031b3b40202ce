//! `sarouter history`: a line for each epoch.

use std::fmt::Write;
use std::num::{NonZeroU32, NonZeroUsize};

use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::common::wrapped;
use super::state::{StateArgs, percent};
use super::{Answer, Context, Failure};
use crate::publish::{Act, Deed, EpochNumber, EpochStore, HistoryRow, Page, Turnover};

/// As wide as what stands below it.
const HEAD: &str = "   epoch  published             reason          jobs  mean slow-down  oblivious";

/// The same with all figures.
const WIDE: &str = "   epoch  published             reason          engine      jobs  \
                    mean slow-down  oblivious  max effective EFI  dark fiber  layers        ms";

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  sarouter history --last 20\n  sarouter history --days 7 --worst 3")]
pub struct Args {
    /// Only so many, the newest
    #[arg(long, value_name = "N")]
    last: Option<NonZeroUsize>,
    /// Only those of so many days
    #[arg(long, value_name = "DAYS")]
    days: Option<NonZeroU32>,
    /// Only so many, those first in which jobs' exchanges took longest
    #[arg(long, value_name = "N")]
    worst: Option<NonZeroUsize>,
    /// All figures, in more than 80 columns
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    state: StateArgs,
}

/// What is printed.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Table {
    /// The epoch in force.
    current: Option<EpochNumber>,
    epochs: Vec<Line>,
    /// What administrators did by hand, oldest first.
    acts: Vec<Act>,
    /// What could not be read.
    notes: Vec<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Line {
    #[serde(flatten)]
    row: HistoryRow,
    /// Whether the epoch can still be shown and rolled back to.
    stored: bool,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    args.state.need_no_name(context)?;
    let mut table = Table::read(&args.state.existing(context)?)?;
    table.keep(&args, Utc::now());
    table.print(context, args.wide)
}

/// Whether the history is that of a direct torus, whose changes are no epochs on the disk.
pub(super) fn is_of_a_torus(store: &EpochStore) -> bool {
    let page = Page { before: None, limit: Some(1) };
    let rows = store.history_page(page).map(|history| history.rows).unwrap_or_default();
    rows.iter().any(|row| row.turnover.is_some())
}

impl Table {
    /// Leaves out what was not asked for.
    fn keep(&mut self, args: &Args, now: DateTime<Utc>) {
        let days = args.days.map(|days| TimeDelta::days(days.get().into()));
        // Before the first day that there is, nothing is left out.
        if let Some(from) = days.and_then(|days| now.checked_sub_signed(days)) {
            self.epochs.retain(|line| line.row.created >= from);
            self.acts.retain(|act| act.time >= from);
        }
        if let Some(last) = args.last.map(NonZeroUsize::get) {
            self.epochs.drain(..self.epochs.len().saturating_sub(last));
            let from = self.epochs.first().map(|line| line.row.created);
            self.acts.retain(|act| from.is_none_or(|from| act.time >= from));
        }
        if let Some(worst) = args.worst.map(NonZeroUsize::get) {
            let slow = |line: &Line| line.row.slowdown_after.unwrap_or(0.0);
            self.epochs.sort_by(|a, b| slow(b).total_cmp(&slow(a)).then(b.row.epoch.cmp(&a.row.epoch)));
            self.epochs.truncate(worst);
            self.acts.clear();
        }
    }

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
        let acts = store.acts().unwrap_or_else(|e| {
            history.notes.push(e.to_string());
            Vec::new()
        });
        let epochs = history.rows.into_iter().map(line).collect();
        Ok(Self { current, epochs, acts, notes: history.notes })
    }

    /// Prints it; `wide` has all figures, where text is wanted.
    pub(super) fn print(&self, context: &Context, wide: bool) -> Result<Answer, Failure> {
        context.print(self, || self.text(wide))?;
        Ok(Answer::Yes)
    }

    pub(super) fn text(&self, wide: bool) -> String {
        if self.epochs.is_empty() && self.notes.is_empty() {
            return "no epoch has been published".to_string();
        }
        let mut out = if wide { WIDE } else { HEAD }.to_string();
        let mut acts = self.acts.iter().peekable();
        for line in &self.epochs {
            while let Some(act) = acts.next_if(|act| act.time < line.row.created) {
                out.push_str(&by_hand(act));
            }
            out.push_str(&self.line(line, wide));
        }
        acts.for_each(|act| out.push_str(&by_hand(act)));
        let is_torus = self.epochs.iter().any(|line| line.row.turnover.is_some());
        let marks = if is_torus { TORUS_MARKS } else { MARKS };
        out.push_str(marks);
        if wide {
            out.push_str("\nms: to compute the routes");
        }
        for note in &self.notes {
            let _ = write!(out, "\nnote: {note}");
        }
        out
    }

    /// The line of an epoch.
    fn line(&self, Line { row, stored }: &Line, wide: bool) -> String {
        let mark = match (self.current == Some(row.epoch), stored) {
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
        let (time, why) = (row.created.format("%Y-%m-%dT%H:%M:%SZ"), row.reason.words());
        let oblivious = row.slowdown_oblivious.map_or("-".to_string(), |s| format!("{s:.3}"));
        let mut out = format!("\n{mark}{:>7}  {time:20}  {why:14}  ", row.epoch);
        if wide {
            let _ = write!(out, "{:10}  ", row.engine);
        }
        let _ = write!(out, "{:>4}  {slowdown:>14}  {oblivious:>9}", row.multi_switch_jobs);
        if wide {
            let before = row.effective_max_before.map_or("?".to_string(), |n| n.to_string());
            let loads = format!("{before} -> {}", row.effective_max_after);
            let dark = percent(row.dark_fiber);
            let _ = write!(out, "  {loads:>17}  {dark:>10}  {:>6}  {:>8.1}", row.layers, row.milliseconds);
        }
        if let Some(Turnover { jobs_in, jobs_out }) = &row.turnover {
            let came = jobs_in.iter().map(|job| format!("+{job}"));
            let jobs: Vec<String> = came.chain(jobs_out.iter().map(|job| format!("-{job}"))).collect();
            if !jobs.is_empty() {
                let _ = write!(out, "\n{:10}{}", "", wrapped(&jobs.join(", "), 10));
            }
        }
        out
    }
}

/// What marks and columns mean, below the table.
const MARKS: &str = "\n* in force, - deleted; jobs: those on more than one switch;\n\
                     oblivious: slow-down with the best engine that knows no jobs";
const TORUS_MARKS: &str = "\n* in force; jobs: those that have tables; +JOB got tables, -JOB lost them";

/// A line of what somebody did.
fn by_hand(act: &Act) -> String {
    let what = match act.act {
        Deed::Hold => "held",
        Deed::Resume => "resumed",
        Deed::Rollback => "rolled back",
    };
    let epoch = act.epoch.map_or("-".to_string(), |epoch| epoch.to_string());
    let by = act.by.as_deref().unwrap_or("somebody");
    let reason = if act.reason.is_empty() { String::new() } else { format!(": {}", act.reason) };
    format!("\n{epoch:>8}  {:20}  {what} by {by}{reason}", act.time.format("%Y-%m-%dT%H:%M:%SZ"))
}
