//! `sarouter compare`: several engines on one fabric, one row each.

use super::input::{self, Input, Source};
use super::{Answer, Context, Failure, Format};
use crate::report::{Refusal, Report};
use crate::route::{self, EngineOptions};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter compare --fabric fattree:10x18,5 --jobs jobs.txt --engines dfsssp,sar,balanced")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Engines, separated by commas; all unless given
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    engines: Vec<String>,
}

/// A row: a report, or why there is none.
#[derive(Debug, serde::Serialize)]
#[serde(untagged)]
enum Row {
    Report(Box<Report>),
    Refused(Refusal),
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let input = args.source.load()?;
    let all = || route::names().into_iter().map(String::from).collect();
    let engines: Vec<String> = if args.engines.is_empty() { all() } else { args.engines.clone() };
    for name in &engines {
        route::engine(name, &EngineOptions::default())?;
    }
    let mut rows = Vec::new();
    for name in &engines {
        rows.push(args.source.in_pool(|| row(name, &input))?);
    }
    match context.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => print!("{}", table(&rows)),
    }
    Ok(Answer::Yes)
}

fn row(name: &str, input: &Input) -> Row {
    let routed = input::route(name, &EngineOptions::default(), input);
    match routed.answer {
        Ok(tables) => Row::Report(Box::new(input::report(name, input, &tables, routed.compute).0)),
        Err(error) => Row::Refused(Refusal::new(name, &error)),
    }
}

fn table(rows: &[Row]) -> String {
    let head = ["engine", "CPU s", "layers", "verdict", "EFI max", "mean", "bound", "γᵉ max", "bound"];
    let more = ["dark", "per job", "links", "hops", "minimal"];
    let mut lines = vec![head.into_iter().chain(more).map(String::from).collect::<Vec<_>>()];
    let mut refusals = Vec::new();
    for row in rows {
        match row {
            Row::Report(r) => lines.push(cells(r)),
            Row::Refused(r) => refusals.push(format!("{}: {}\n", r.engine, r.refused.message)),
        }
    }
    crate::report::align(&lines) + &refusals.concat()
}

fn cells(r: &Report) -> Vec<String> {
    let verdict = if r.verdict.accepted { "accepted" } else { "rejected" };
    vec![
        r.engine.clone(),
        format!("{:.3}", r.compute.cpu_seconds),
        format!("{}/{}", r.layers.used, r.layers.budget),
        verdict.to_string(),
        r.load.max.to_string(),
        format!("{:.1}", r.load.mean),
        r.load.lower_bound.to_string(),
        r.effective.max.to_string(),
        r.effective.lower_bound.to_string(),
        format!("{:.1} %", 100.0 * r.effective.dark_fiber),
        format!("{:.1}", r.effective.max_per_job_mean),
        format!("{:.1}", r.effective.links_per_job_mean),
        format!("{:.2}", r.paths.mean_hops),
        format!("{:.1} %", 100.0 * r.paths.minimal_share),
    ]
}
