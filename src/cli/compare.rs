//! `sarouter compare`: several engines on one fabric, one row each.

mod sheet;

use std::path::PathBuf;

use super::common::{less, write_file};
use super::html::Html;
use super::input::{self, Given, Input, Source};
use super::route_angara::{self, is_torus};
use super::{Answer, Context, Failure, Format};
use crate::measure::{self, Effective, MEASURES, Measure};
use crate::model::{Fabric, Promise, Tables};
use crate::pass::baseline::Baseline;
use crate::report::heat_map::heat_sheet;
use crate::report::time::JobTimes;
use crate::report::{Compute, Refusal, Report, rejected_sentence};
use crate::route::{self, EngineOptions};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter compare --fabric fattree:10x18,5 --jobs jobs.txt --engines dfsssp,sar
  sarouter compare --fabric angara:6x6x5 --engines angara-sssp,angara-sar
  sarouter compare --fabric site.ibnetdiscover --tables now=opensm-lfts.dump \\
      --engines updown,balanced")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Engines, separated by commas; all unless given
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    engines: Vec<String>,
    #[command(flatten)]
    given: Given,
    /// Draw each engine's load on the fabric: routes inside jobs, or all if there are no jobs
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    html: Html,
}

/// A row: a report, or why there is none.
#[derive(Debug, schemars::JsonSchema, serde::Serialize)]
#[serde(untagged)]
pub enum EngineReport {
    Report(Box<Report>),
    Refused(Refusal),
}

impl EngineReport {
    fn report(&self) -> Option<&Report> {
        match self {
            Self::Report(report) => Some(report),
            Self::Refused(_) => None,
        }
    }
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    if is_torus(&args.source.fabric) {
        args.source.none_on_torus(&[("--tables", !args.given.is_empty()), ("--svg", args.svg.is_some())])?;
        return route_angara::compare(
            &args.source.fabric,
            args.source.jobs.as_deref(),
            &args.engines,
            &args.html,
            context,
        );
    }
    let input = args.source.load()?;
    let all = || route::names().into_iter().map(String::from).collect();
    let engines: Vec<String> = if args.engines.is_empty() { all() } else { args.engines.clone() };
    for name in &engines {
        route::engine(name, &EngineOptions::default())?;
    }
    let (mut rows, mut maps) = (Vec::new(), Vec::new());
    let groups = &input.demand.groups;
    let mut baseline = args.source.in_pool(|| Baseline::of(&input.fabric, groups, None, input.budget))?;
    let is_json = context.format == Format::Json;
    let detail = Detail {
        draw: args.svg.is_some() || args.html.is_wanted(),
        each_job: is_json || args.html.is_wanted(),
    };
    let given = args.given.read(&input.fabric)?;
    let bar = context.bar(given.len() + engines.len() + 1, "tables");
    for (name, tables) in given {
        let (row, map) =
            args.source.in_pool(|| measured(&name, &input, &tables, Compute::default(), detail))?;
        rows.push(row);
        maps.extend(map);
        bar.inc(1);
    }
    for name in &engines {
        let (row, map) = args.source.in_pool(|| row(name, &input, detail, &mut baseline))?;
        rows.push(row);
        maps.extend(map);
        bar.inc(1);
    }
    bar.finish_and_clear();
    for row in &mut rows {
        if let EngineReport::Report(report) = row {
            report.time.oblivious = baseline.as_ref().map(|b| b.time.slowdown_mean);
        }
    }
    if let Some(path) = &args.svg {
        write_file(path, heat_sheet(&input.fabric, &maps).as_bytes())?;
    }
    args.html.write(|| sheet::sheet(&rows, &input, baseline.as_ref(), &maps))?;
    context
        .print(&rows, || format!("{}{}", table(&rows), verdict(&rows, baseline.as_ref(), &input.fabric)))?;
    let is_routed = rows.iter().any(|row| row.report().is_some());
    Ok(input.answer(if is_routed { Answer::Yes } else { Answer::No }))
}

/// What is wanted of an engine beside its row.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// A heat map.
    draw: bool,
    /// The slow-down of each job, which no text has.
    each_job: bool,
}

/// Of the time with an engine that knows no jobs: nobody notices less than one percent.
const NOT_LESS: f64 = 0.99;

/// A heat map: title and loads by channel.
type Map = (String, Vec<u64>);

/// An engine's row and, to draw, its heat map. One that knows no jobs may be a better `baseline`.
fn row(
    name: &str,
    input: &Input,
    detail: Detail,
    baseline: &mut Option<Baseline>,
) -> (EngineReport, Option<Map>) {
    // What `measured` judges.
    let options = EngineOptions { promise: Promise::TOLD, ..EngineOptions::default() };
    let routed = input::route(name, &options, input);
    match routed.answer {
        Ok(tables) => {
            let measured = measured(name, input, &tables, routed.compute, detail);
            let is_accepted = measured.0.report().is_some_and(|report| report.verdict.accepted);
            if let Some(row) = route::row(name).filter(|row| is_accepted && !row.serves_jobs) {
                let groups = &input.demand.groups;
                *baseline = Baseline::or_with(baseline.take(), row.name, &input.fabric, &tables, groups);
            }
            measured
        }
        Err(error) => (EngineReport::Refused(Refusal::new(name, &error)), None),
    }
}

fn measured(
    name: &str,
    input: &Input,
    tables: &Tables,
    compute: Compute,
    detail: Detail,
) -> (EngineReport, Option<Map>) {
    let mut report = input::report(name, input, tables, compute, Promise::TOLD).0;
    if detail.each_job {
        report.time = JobTimes::with_jobs(&input.fabric, tables, &input.demand, &input.placed);
    }
    let map = detail.draw.then(|| map(name, input, tables, &report));
    (EngineReport::Report(Box::new(report)), map)
}

fn map(name: &str, input: &Input, tables: &Tables, report: &Report) -> Map {
    if input.demand.is_oblivious() {
        let title = format!("{name}: at most {} routes on a channel", report.load.max);
        (title, measure::channel_loads(&input.fabric, tables))
    } else {
        let Effective { max, dark_fiber, .. } = report.effective;
        let dark = 100.0 * dark_fiber;
        let title = format!("{name}: at most {max} routes inside jobs on a channel, {dark:.1} % dark fiber");
        (title, measure::effective_loads(&input.fabric, tables, &input.demand.groups))
    }
}

/// A line for each engine that has tables, after the head.
fn cells(rows: &[EngineReport]) -> Vec<Vec<String>> {
    let reports: Vec<_> =
        rows.iter().filter_map(EngineReport::report).map(|report| (report, report.figures())).collect();
    let is_there = |m: &&Measure| !m.head.is_empty() && reports.iter().any(|(_, f)| (m.text)(f).is_some());
    let columns: Vec<&Measure> = MEASURES.iter().filter(is_there).collect();
    let head = ["engine", "CPU s", "layers", "verdict"].into_iter().chain(columns.iter().map(|m| m.head));
    let mut lines = vec![head.map(String::from).collect::<Vec<_>>()];
    for (report, figures) in &reports {
        let verdict = if report.verdict.accepted { "accepted" } else { "rejected" };
        let first = [
            report.engine.clone(),
            format!("{:.3}", report.compute.cpu_seconds),
            format!("{}/{}", report.layers.used, report.layers.budget),
            verdict.to_string(),
        ];
        lines.push(first.into_iter().chain(columns.iter().map(|m| m.shown(figures))).collect());
    }
    lines
}

fn table(rows: &[EngineReport]) -> String {
    let refused = rows.iter().filter_map(|row| match row {
        EngineReport::Report(_) => None,
        EngineReport::Refused(r) => Some(format!("{}: {}\n", r.engine, r.refused.message)),
    });
    crate::report::align(&cells(rows)) + &refused.collect::<String>()
}

/// With the least time of jobs among those that are accepted and are no engine's that knows no jobs.
fn best(rows: &[EngineReport]) -> Option<&Report> {
    let is_blind = |r: &Report| route::row(&r.engine).is_some_and(|row| !row.serves_jobs);
    let accepted =
        rows.iter().filter_map(EngineReport::report).filter(|r| r.verdict.accepted && !is_blind(r));
    accepted.min_by(|a, b| a.time.all.slowdown_mean.total_cmp(&b.time.all.slowdown_mean))
}

/// Whether any row is worth it for these jobs, in a sentence; nothing if no job is on several switches.
fn verdict(rows: &[EngineReport], baseline: Option<&Baseline>, fabric: &Fabric) -> String {
    let judged = baseline.map(|baseline| predicted(rows, baseline) + simulated(rows, baseline, fabric));
    judged.unwrap_or_default() + &rejected(rows)
}

/// Tables of a site that the checker rejects, a line each.
fn rejected(rows: &[EngineReport]) -> String {
    let given = rows.iter().filter_map(EngineReport::report).filter(|r| route::row(&r.engine).is_none());
    let rejected = given.filter(|r| !r.verdict.accepted);
    rejected.map(|r| rejected_sentence(&r.engine, "sarouter verify says why") + "\n").collect()
}

/// What to know where the default engine is not the one that is predicted best, as it does not choose by predictions.
fn simulated(rows: &[EngineReport], baseline: &Baseline, fabric: &Fabric) -> &'static str {
    let mut accepted = rows.iter().filter_map(EngineReport::report).filter(|r| r.verdict.accepted);
    let least = best(rows).map_or(f64::INFINITY, |best| best.time.all.slowdown_mean);
    let least = least.min(baseline.time.slowdown_mean);
    let is_behind = |r: &Report| r.engine == "balanced" && r.time.all.slowdown_mean * NOT_LESS > least;
    if !(route::is_chosen_by_simulator(fabric) && accepted.any(is_behind)) {
        return "";
    }
    "On this fabric the packet simulator chooses balanced's tables. It may differ from these predictions: \
     sarouter simulate shows how long the exchanges take with each engine.\n"
}

/// Whether any row is predicted to be worth it, in a sentence.
fn predicted(rows: &[EngineReport], baseline: &Baseline) -> String {
    let (engine, before) = (baseline.engine, baseline.time.slowdown_mean);
    let paid = best(rows).filter(|best| best.time.all.slowdown_mean <= NOT_LESS * before);
    let Some(best) = paid else {
        return format!(
            "\nNot worth it: none makes their exchanges faster than {engine}, which knows no jobs.\n"
        );
    };
    let (name, now) = (&best.engine, best.time.all.slowdown_mean);
    format!(
        "\nWorth it: with {name} jobs' exchanges take {now:.3} times what their own cables need, with the best engine that \
         knows no jobs ({engine}) {before:.3}: {}.\n",
        less(before, now, 1).unwrap_or_default()
    )
}
