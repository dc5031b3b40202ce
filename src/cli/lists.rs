//! `sarouter engines`, `sarouter patterns`: what there is, one row each.

use serde_json::{Value, json};

use super::{Answer, Context, Failure, Format};
use crate::model::PATTERNS;
use crate::route;

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

pub fn engines(_: EnginesArgs, context: &Context) -> Result<Answer, Failure> {
    let rows = route::ENGINES.iter().map(|row| {
        let jobs = if route::serves_jobs(row.0) { "jobs" } else { "all hosts" };
        ([row.0, jobs, row.1].map(String::from), json!({"name": row.0, "serves": jobs, "what": row.1}))
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
