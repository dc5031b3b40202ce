//! `sarouter bench adversary`: where an engine is behind another one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::common::{write_file, write_json};
use crate::cli::html::Html;
use crate::cli::{Answer, Context, Failure};
use crate::lab::adversary::{BesideBest, Case, Contest, Summary, cases, jobs};
use crate::lab::generate::generate;
use crate::model::{Fabric, LayerBudget, Promise, Tables};
use crate::report::align;
use crate::report::sheet::Sheet;
use crate::route::{EngineOptions, engine};

/// Arguments of `bench adversary`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter bench adversary --specs 200 --seed 7 --layers 1,2
  sarouter bench adversary --fabric torus:6x3x6,hosts=4 --layers 1 --mix 17

Fabrics of all families, a part of them damaged, are drawn at random; every second one has jobs on 95 % of
its hosts. Each is routed by the engine in question and by all others. With jobs the lowest predicted
slow-down wins; without jobs, the lowest maximum load. If the engine in question is behind with few jobs,
seven exchanges are simulated with both tables, and it is behind only if these take longer, too. Only tables
that keep the same promise are compared. The rows in which the engine is behind come with the command that
shows them again. Exit 1 if it is behind by more than 2 % somewhere.")]
pub struct AdversaryArgs {
    /// Cases that are drawn
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "fabric")]
    specs: usize,
    /// Seed of the draw
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "fabric")]
    seed: u64,
    /// Virtual layers that may be used, taken in turn
    #[arg(long, value_name = "K,…", value_delimiter = ',', default_values = ["1", "2", "4", "8"])]
    layers: Vec<LayerBudget>,
    /// Hosts of the largest fabric that is drawn
    #[arg(long, value_name = "N", default_value_t = 300, conflicts_with = "fabric")]
    max_hosts: usize,
    /// Seconds after which no more cases are begun; the same ones come first whatever it is
    #[arg(long, value_name = "S")]
    deadline: Option<u64>,
    /// The engine in question
    #[arg(long, value_name = "E", default_value = "balanced")]
    engine: String,
    /// What the tables must be proved for: told, untold, any, reply, joined by +. Beyond `told`, balanced
    /// routes inside the lanes of the fabric, and other engines that do not keep it get one layer
    #[arg(long, value_name = "P", default_value = "told")]
    promise: Promise,
    /// One fabric instead of those that are drawn
    #[arg(long, value_name = "SPEC")]
    fabric: Option<String>,
    /// Jobs on that fabric, by their seed; none unless given
    #[arg(long, value_name = "N", requires = "fabric")]
    mix: Option<u64>,
    /// File for these jobs, as `--jobs` of other commands reads it
    #[arg(long, value_name = "FILE", requires = "mix")]
    jobs_out: Option<PathBuf>,
    /// OpenSM's own tables beside, from its engines on ibsim
    #[arg(long)]
    opensm: bool,
    /// Seconds that one engine of OpenSM's may take
    #[arg(long, value_name = "S", default_value_t = 60, requires = "opensm")]
    opensm_deadline: u64,
    /// File for the rows as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    html: Html,
}

/// Rows of the text, at most.
const MOST_ROWS: usize = 20;
/// So few are all printed, behind or not.
const ALL_ROWS: usize = 4;

/// What is printed as JSON.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Report<'a> {
    engine: &'a str,
    seed: u64,
    #[serde(flatten)]
    summary: &'a Summary,
    /// For each of `worst` what shows it again.
    commands: Vec<String>,
}

pub(super) fn run(args: &AdversaryArgs, context: &Context) -> Result<Answer, Failure> {
    engine(&args.engine, &EngineOptions::default())?;
    let rows = match &args.fabric {
        Some(fabric) => {
            let case = |layers: &LayerBudget| Case { fabric: fabric.clone(), layers: *layers, mix: args.mix };
            look(args, args.layers.iter().map(case), context)?
        }
        None => look(args, cases(args.seed, &args.layers, args.max_hosts).take(args.specs), context)?,
    };
    if let (Some(spec), Some(seed), Some(path)) = (&args.fabric, args.mix, &args.jobs_out) {
        write_jobs(&generate(spec)?, seed, path)?;
    }
    if rows.is_empty() {
        return Err("no case was drawn: no fabric is that small, or there was no time".into());
    }
    let summary = Summary::new(rows);
    let commands = summary.worst.iter().map(|row| command(args, row)).collect();
    let report = Report { engine: &args.engine, seed: args.seed, summary: &summary, commands };
    if let Some(path) = &args.out {
        write_json(path, &report)?;
    }
    args.html.write(|| sheet(&report))?;
    context.print(&report, || text(&report))?;
    Ok(if summary.far_behind > 0 { Answer::No } else { Answer::Yes })
}

/// The rows of cases, until they or the time are over.
fn look(
    args: &AdversaryArgs,
    mut cases: impl Iterator<Item = Case>,
    context: &Context,
) -> Result<Vec<BesideBest>, Failure> {
    let contest = Contest { engine: args.engine.clone(), promise: args.promise };
    let begun = Instant::now();
    let most = args.deadline.map_or(Duration::MAX, Duration::from_secs);
    let at_once = if args.opensm { 1 } else { 2 * rayon::current_num_threads() };
    let bar = context.bar(if args.fabric.is_some() { args.layers.len() } else { args.specs }, "cases");
    let mut rows = Vec::new();
    while begun.elapsed() < most {
        let next: Vec<Case> = cases.by_ref().take(at_once).collect();
        if next.is_empty() {
            break;
        }
        let row = |case: &Case| -> Result<BesideBest, Failure> {
            let given = if args.opensm { opensm(case, args.opensm_deadline)? } else { Vec::new() };
            Ok(contest.row(case, &given)?)
        };
        let found: Result<Vec<BesideBest>, Failure> = next.par_iter().map(row).collect();
        rows.extend(found?);
        bar.set_position(rows.len() as u64);
    }
    bar.finish_and_clear();
    Ok(rows)
}

/// OpenSM's own tables.
fn opensm(case: &Case, deadline: u64) -> Result<Vec<(String, Tables)>, Failure> {
    super::time::opensm(&generate(&case.fabric)?, deadline)
}

/// Lines of node names, a job each.
fn write_jobs(fabric: &Fabric, seed: u64, path: &Path) -> Result<(), Failure> {
    let mut text = String::new();
    for (id, group) in jobs(fabric, seed).iter().enumerate() {
        let names: Vec<&str> = group.ranks.iter().map(|t| fabric.terminal(*t).description.as_str()).collect();
        text += &format!("{} {}\n", id + 1, names.join(","));
    }
    write_file(path, text.as_bytes())
}

/// What shows a row again.
fn command(args: &AdversaryArgs, row: &BesideBest) -> String {
    let Case { fabric, layers, mix } = &row.case;
    let mut text = format!("sarouter bench adversary --fabric '{fabric}' --layers {layers}");
    if let Some(mix) = mix {
        text += &format!(" --mix {mix}");
    }
    if args.engine != "balanced" {
        text += &format!(" --engine {}", args.engine);
    }
    if !args.promise.is_told_only() {
        text += &format!(" --promise {}", args.promise);
    }
    text + if args.opensm { " --opensm" } else { "" }
}

/// The page: how often another engine is ahead, and where.
fn sheet(report: &Report<'_>) -> Sheet {
    let rows = shown(report);
    let bars = rows.iter().filter_map(|row| Some((row.case.fabric.clone(), row.ratio?))).collect::<Vec<_>>();
    let found = in_words(report);
    let (verdict, rest) = found.split_once('\n').unwrap_or((&found, ""));
    let commands = report.commands.iter().map(|c| vec![c.clone()]);
    Sheet {
        title: "Is another engine ahead anywhere?".into(),
        verdict: format!("{verdict}."),
        lead: rest.trim().replace('\n', ". "),
        tables: vec![
            (
                "Cases".into(),
                std::iter::once(head(report.engine)).chain(rows.iter().map(|row| cells(row))).collect(),
            ),
            (
                "What shows each of them again".into(),
                std::iter::once(vec!["command".to_string()]).chain(commands.take(MOST_ROWS)).collect(),
            ),
        ],
        json: serde_json::to_string_pretty(report).unwrap_or_default(),
        for_whom: "Whoever develops an engine, and whoever doubts that the default one is never behind."
            .into(),
        ..Sheet::default()
    }
    .with_bars("Figure over that of the best other engine, worst first", &bars, Some((1.0, "level")))
}

/// The worst cases; of few all.
fn shown<'a>(report: &Report<'a>) -> Vec<&'a BesideBest> {
    match report.summary.rows.as_slice() {
        few if few.len() <= ALL_ROWS => few.iter().collect(),
        _ => report.summary.worst.iter().take(MOST_ROWS).collect(),
    }
}

/// Of [`cells`].
fn head(engine: &str) -> Vec<String> {
    ["ratio", "simulated", engine, "best other", "", "bound", "layers", "jobs", "fabric"]
        .map(String::from)
        .to_vec()
}

fn in_words(report: &Report<'_>) -> String {
    let Report { engine, summary, .. } = report;
    let mut text = format!(
        "{} cases: {engine} is behind by more than 2 % in {}, by at most that in {}\n",
        summary.specs, summary.far_behind, summary.behind
    );
    let [much, little] = summary.only_predicted;
    if much + little > 0 {
        text += &format!(
            "predicted to be behind, but not in the simulator: by more than 2 % in {much}, by at most that in {little}\n"
        );
    }
    let [without, with] = summary.mean_ratio;
    text + &format!(
        "geometric mean over the best other engine: largest load {without:.3}, slow-down with jobs {with:.3}; \
         largest load over the bound {:.3}\n",
        summary.mean_to_bound
    )
}

fn text(report: &Report<'_>) -> String {
    let Report { engine, commands, .. } = report;
    let mut text = in_words(report);
    let rows = shown(report);
    if rows.is_empty() {
        return text;
    }
    let mut lines = vec![head(engine)];
    lines.extend(rows.iter().map(|row| cells(row)));
    text += "\n";
    text += &align(&lines);
    if !commands.is_empty() {
        text += "\n";
    }
    commands.iter().take(MOST_ROWS).for_each(|command| text += &format!("{command}\n"));
    text
}

fn cells(row: &BesideBest) -> Vec<String> {
    let none = || "–".to_string();
    let figure = |value: Option<f64>| match (value, row.case.mix) {
        (Some(value), Some(_)) => format!("{value:.4}"),
        (Some(value), None) => format!("{value:.0}"),
        (None, _) => "refused".to_string(),
    };
    vec![
        row.ratio.map_or_else(none, |ratio| format!("{ratio:.4}")),
        row.simulated.map_or_else(none, |ratio| format!("{ratio:.4}")),
        figure(row.figure),
        figure(row.best_figure),
        row.best.clone().unwrap_or_else(none),
        row.bound.map_or_else(none, |bound| bound.to_string()),
        row.case.layers.to_string(),
        row.case.mix.map_or_else(none, |mix| format!("mix {mix}")),
        row.case.fabric.clone(),
    ]
}
