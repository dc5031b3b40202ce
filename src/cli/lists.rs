//! `sarouter engines`, `patterns`, `sources`, `deliveries`, `measures`: what there is, one row each.

use serde_json::{Value, json};

use super::{Answer, Context, Failure, Format};
use crate::measure::MEASURES;
use crate::model::PATTERNS;
use crate::observe::source::JOB_SOURCES;
use crate::route;
use crate::service::kind::DELIVERIES;

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

pub fn engines(_: EnginesArgs, context: &Context) -> Result<Answer, Failure> {
    let rows = route::ENGINES.iter().map(|row| {
        let jobs = if row.serves_jobs { "jobs" } else { "all hosts" };
        let what = match row.paper {
            "" => row.what.to_string(),
            paper => format!("{} ({paper})", row.what),
        };
        let value =
            json!({"name": row.name, "serves": jobs, "what": what, "layer_per_job": row.layer_per_job});
        ([row.name.to_string(), jobs.to_string(), what], value)
    });
    let tori = route::angara::ENGINES.iter().map(|name| {
        let what = "on a direct torus";
        ([name, "jobs", what].map(String::from), json!({"name": name, "serves": "jobs", "what": what}))
    });
    show(rows.chain(tori).unzip(), context)
}

pub fn patterns(_: PatternsArgs, context: &Context) -> Result<Answer, Failure> {
    let rows = PATTERNS.iter().map(|row| {
        let cells = [row.form, row.what, row.source].map(String::from);
        (cells, json!({"form": row.form, "what": row.what, "source": row.source}))
    });
    show(rows.unzip(), context)
}

pub fn sources(_: SourcesArgs, context: &Context) -> Result<Answer, Failure> {
    let rows = JOB_SOURCES.iter().map(|row| {
        let cells = [row.name, row.what, row.settings].map(String::from);
        (cells, json!({"name": row.name, "what": row.what, "settings": row.settings}))
    });
    show(rows.unzip(), context)
}

pub fn deliveries(_: DeliveriesArgs, context: &Context) -> Result<Answer, Failure> {
    let rows = DELIVERIES.iter().map(|row| {
        let cells = [row.name, row.what, row.setting].map(String::from);
        (cells, json!({"name": row.name, "what": row.what, "setting": row.setting}))
    });
    show(rows.unzip(), context)
}

pub fn measures(_: MeasuresArgs, context: &Context) -> Result<Answer, Failure> {
    let rows = MEASURES.iter().map(|row| {
        let better = row.better.name();
        let counts = format!("{}, {better}", row.unit);
        let value = json!({"name": row.name, "what": row.what, "unit": row.unit, "better": better});
        ([row.name.to_string(), row.what.to_string(), counts], value)
    });
    show(rows.unzip(), context)
}

fn show((cells, values): (Vec<[String; 3]>, Vec<Value>), context: &Context) -> Result<Answer, Failure> {
    match context.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&values)?),
        Format::Text => {
            let width = cells.iter().map(|c| c[0].len()).max().unwrap_or(0);
            cells.iter().for_each(|[name, first, second]| println!("{name:width$}  {first}; {second}"));
        }
    }
    Ok(Answer::Yes)
}
