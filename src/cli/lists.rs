//! `sarouter engines`, `patterns`, `sources`, `deliveries`, `measures`: what there is, one row each.

use schemars::JsonSchema;
use serde::Serialize;

use super::common::wrapped_words;
use super::{Answer, Context, Failure};
use crate::measure::{MEASURES, Measure};
use crate::model::PATTERNS;
use crate::observe::source::{JOB_SOURCES, JobSourceRow};
use crate::route;
use crate::service::kind::{DELIVERIES, DeliveryRow};

/// Arguments of `engines`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter engines --format json")]
pub struct EnginesArgs {}

/// Arguments of `patterns`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter patterns")]
pub struct PatternsArgs {}

/// Arguments of `sources`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The name is a value of slurm.source; behind it the settings that say where the source is, in \
                        brackets if there is a default.\n\nExample:\n  sarouter sources"
)]
pub struct SourcesArgs {}

/// Arguments of `deliveries`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Behind each the setting that switches it on.\n\nExample:\n  sarouter deliveries")]
pub struct DeliveriesArgs {}

/// Arguments of `measures`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Behind each what is counted, and whether less or more of it is better; what is given, the \
                        tables cannot change.\n\nExample:\n  sarouter measures"
)]
pub struct MeasuresArgs {}

/// An engine.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct EngineLine {
    name: &'static str,
    /// `jobs` or `all hosts`.
    serves: &'static str,
    what: String,
    /// Whether it may give each job a layer of its own; not said of direct tori.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer_per_job: Option<bool>,
}

/// A source of jobs.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct SourceLine {
    name: &'static str,
    what: &'static str,
    /// Settings that say where it is; those in brackets may be left out.
    settings: &'static str,
}

/// A way of delivery.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct DeliveryLine {
    name: &'static str,
    what: &'static str,
    /// The setting that switches it on.
    setting: &'static str,
}

/// A figure of tables.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct MeasureLine {
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    /// Which way it is better.
    better: &'static str,
}

pub fn engines(_: EnginesArgs, context: &Context) -> Result<Answer, Failure> {
    let rows = route::ENGINES.iter().map(|row| {
        let what = match row.paper {
            "" => row.what.to_string(),
            paper => format!("{} ({paper})", row.what),
        };
        let serves = if row.serves_jobs { "jobs" } else { "all hosts" };
        EngineLine { name: row.name, serves, what, layer_per_job: Some(row.layer_per_job) }
    });
    let tori = route::angara::ENGINES.iter().map(|name| {
        let what = "on a direct torus".to_string();
        EngineLine { name, serves: "jobs", what, layer_per_job: None }
    });
    show(rows.chain(tori).collect(), |row| [row.name, row.serves, &row.what].map(String::from), context)
}

pub fn patterns(_: PatternsArgs, context: &Context) -> Result<Answer, Failure> {
    show(PATTERNS.to_vec(), |row| [row.form, row.what, row.source].map(String::from), context)
}

pub fn sources(_: SourcesArgs, context: &Context) -> Result<Answer, Failure> {
    let line = |row: &JobSourceRow| SourceLine { name: row.name, what: row.what, settings: row.settings };
    let rows = JOB_SOURCES.iter().map(line).collect();
    show(rows, |row: &SourceLine| [row.name, row.what, row.settings].map(String::from), context)
}

pub fn deliveries(_: DeliveriesArgs, context: &Context) -> Result<Answer, Failure> {
    let line = |row: &DeliveryRow| DeliveryLine { name: row.name, what: row.what, setting: row.setting };
    let rows = DELIVERIES.iter().map(line).collect();
    show(rows, |row: &DeliveryLine| [row.name, row.what, row.setting].map(String::from), context)
}

pub fn measures(_: MeasuresArgs, context: &Context) -> Result<Answer, Failure> {
    let line = |row: &Measure| MeasureLine {
        name: row.name,
        what: row.what,
        unit: row.unit,
        better: row.better.name(),
    };
    let cells = |row: &MeasureLine| {
        [row.name.to_string(), row.what.to_string(), format!("{}, {}", row.unit, row.better)]
    };
    show(MEASURES.iter().map(line).collect(), cells, context)
}

/// A name for each, what it is, and what is behind it; what is too long for a line goes on below, without a name.
fn show<T: Serialize>(
    rows: Vec<T>,
    cells: impl Fn(&T) -> [String; 3],
    context: &Context,
) -> Result<Answer, Failure> {
    context.print(&rows, || {
        let cells: Vec<[String; 3]> = rows.iter().map(cells).collect();
        let width = cells.iter().map(|c| c[0].len()).max().unwrap_or(0);
        let line = |[name, first, second]: &[String; 3]| {
            format!("{name:width$}  {}\n", wrapped_words(&format!("{first}; {second}"), width + 2))
        };
        cells.iter().map(line).collect()
    })?;
    Ok(Answer::Yes)
}
