//! `sarouter route`: one computation, written as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::common::write_json;
use super::input::{self, Input, Routed, Source};
use super::route_angara::{self, SearchArgs, is_torus};
use super::route_polarized;
use super::{Answer, Context, Failure};
use crate::measure::{Time, slowdowns};
use crate::model::{Demand, Fabric, FabricLanes, Promise, Tables};
use crate::pass::baseline::Baseline;
use crate::report::time::JobTimes;
use crate::report::{Refusal, Report};
use crate::route::lanes::fabric_lanes;
use crate::route::{self, EngineOptions};
use crate::verify::Verdict;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter route --fabric fattree:10x18,5 --jobs jobs.txt --out tables

Writes lft.txt (opensm -R file -U tables/lft.txt), layers.txt and report.json. Tables that the
checker rejects are written for study; report.json says so and the exit status is 1.")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Routing engine
    #[arg(long, default_value = "balanced")]
    engine: String,
    /// Directory for the files
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Root switches of updown, which balanced asks as well: GUIDs or descriptions, separated by commas
    #[arg(long, value_name = "SWITCHES", default_value = "")]
    roots: String,
    /// Tables of an earlier run on the same fabric: balanced keeps what need not change
    #[arg(long, value_name = "DIR")]
    previous: Option<PathBuf>,
    /// What must be proved: told (programs use the SLs that they are told), or parts joined by +; any+mixed:
    /// every SL, answers, old connections, changes. With any but told, balanced routes inside the closure
    /// of a lane map, which is written to lanes.txt
    #[arg(long, value_name = "PROMISE", default_value = "told")]
    promise: Promise,
    #[command(flatten)]
    search: SearchArgs,
}

/// Whose tables are not those of an engine.
const POLARIZED: &str = "polarized";

/// What the bar counts: the lane map, the tables, the check, and the figures beside other engines.
const STEPS: usize = 4;

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    if is_torus(&args.source.fabric) {
        args.source.none_on_torus(&[
            ("--roots", !args.roots.is_empty()),
            ("--previous", args.previous.is_some()),
            ("--promise", args.promise != Promise::TOLD),
        ])?;
        let (fabric, jobs) = (&args.source.fabric, args.source.jobs.as_deref());
        return route_angara::route(fabric, jobs, &args.engine, &args.search, &args.out, context);
    }
    args.search.none_on_switches()?;
    let input = args.source.load()?;
    if args.engine != POLARIZED {
        route::engine(&args.engine, &EngineOptions::default())?;
    }
    refuse_unused(&args)?;
    if args.engine == POLARIZED {
        return route_polarized::route(&input.fabric, &args.out, context);
    }
    let previous = args.previous.as_deref().map(|dir| input::read_tables(&input.fabric, dir, None));
    let options = EngineOptions {
        roots: input::switches(&input.fabric, &args.roots)?,
        previous: previous.transpose()?.map(Arc::new),
        promise: args.promise,
        ..EngineOptions::default()
    };
    let bar = context.bar(STEPS, "steps");
    let found = args.source.in_pool(|| lanes(&args, &input))?;
    bar.inc(1);
    let options = EngineOptions { lanes: found, ..options };
    let routed = args.source.in_pool(|| route_both(&args.engine, &options, &input))?;
    let tables = match routed.answer {
        Ok(tables) => tables,
        Err(error) => {
            bar.finish_and_clear();
            if args.out.join("report.json").exists() {
                eprintln!("sarouter: {} still has the tables of before", args.out.display());
            }
            return refused(&Refusal::new(&args.engine, &error), context);
        }
    };
    bar.inc(1);
    let (mut report, verdict) =
        args.source.in_pool(|| input::report(&args.engine, &input, &tables, routed.compute, args.promise))?;
    bar.inc(1);
    report.time =
        args.source.in_pool(|| JobTimes::with_jobs(&input.fabric, &tables, &input.demand, &input.placed))?;
    let baseline =
        args.source.in_pool(|| Baseline::of(&input.fabric, &input.demand.groups, None, input.budget))?;
    report.time.oblivious = baseline.map(|b| b.time.slowdown_mean);
    bar.finish_and_clear();
    write_files(&args.out, &input.fabric, &tables, &report)?;
    show(&report, &verdict, &args.out, context)?;
    Ok(input.answer(if verdict.accepted { Answer::Yes } else { Answer::No }))
}

/// Refuses options that the engine would pass over.
fn refuse_unused(args: &Args) -> Result<(), Failure> {
    let (engine, has_engine) = (args.engine.as_str(), args.engine != POLARIZED);
    let keeps = route::reads_lanes(engine);
    // `balanced` asks `updown` as well.
    let has_roots = ["updown", "balanced"].contains(&engine);
    let options = [
        ("--roots", !args.roots.is_empty(), has_roots, "for updown and balanced only"),
        ("--previous", args.previous.is_some(), keeps, "for balanced and balanced-efi only"),
        ("--jobs", args.source.jobs.is_some(), has_engine, "tables of polarized know no jobs"),
        ("--promise", args.promise != Promise::TOLD, has_engine, "polarized has lanes of its own"),
    ];
    match options.into_iter().find(|(_, is_given, is_of_use, _)| *is_given && !is_of_use) {
        Some((option, _, _, why)) => Err(format!("{option}: {why}").into()),
        None => Ok(()),
    }
}

/// What new routes of jobs must be predicted to save where there are old ones.
const WORTH_MOVING: f64 = 0.02;

/// The tables of an engine. Nobody knows whose routes those of before were: they are kept for all jobs, and for none, and
/// the latter are the answer where that pays.
fn route_both(engine: &str, options: &EngineOptions, input: &Input) -> Routed {
    let mut kept = input::route(engine, options, input);
    if options.previous.is_none() || input.demand.is_oblivious() {
        return kept;
    }
    let served = Some(Demand::oblivious());
    let anew = input::route(engine, &EngineOptions { served, ..options.clone() }, input);
    let time = |routed: &Routed| {
        let tables = routed.answer.as_ref().ok()?;
        Some(Time::of(&slowdowns(&input.fabric, tables, &input.demand)).slowdown_mean)
    };
    let pays = match (time(&kept), time(&anew)) {
        (Some(kept), Some(anew)) => anew < kept * (1.0 - WORTH_MOVING),
        (kept, anew) => kept.is_none() && anew.is_some(),
    };
    kept.compute.cpu_seconds += anew.compute.cpu_seconds;
    kept.compute.wall_seconds += anew.compute.wall_seconds;
    if pays { Routed { answer: anew.answer, ..kept } } else { kept }
}

/// The lanes that a promise needs, if the engine reads them and the fabric is no tree.
fn lanes(args: &Args, input: &Input) -> Option<Arc<FabricLanes>> {
    if args.promise.is_told_only() || !route::reads_lanes(&args.engine) {
        return None;
    }
    let start = Instant::now();
    let found = fabric_lanes(&input.fabric, input.budget);
    tracing::info!("lanes: {} ({:.2} s)", found.way, start.elapsed().as_secs_f64());
    found.needs_map().then(|| Arc::new(found.lanes))
}

pub(super) fn refused(refusal: &Refusal, context: &Context) -> Result<Answer, Failure> {
    context.print(refusal, || format!("refused: {}", refusal.refused.message))?;
    Ok(Answer::No)
}

fn show(report: &Report, verdict: &Verdict, out: &Path, context: &Context) -> Result<(), Failure> {
    let findings: String = verdict.findings.iter().map(|finding| format!("  {finding}\n")).collect();
    context.print(report, || format!("{}{findings}files         {}", report.text(), out.display()))
}

/// The report comes last: where it is, the files beside it are its own.
fn write_files(out: &Path, fabric: &Fabric, tables: &Tables, report: &Report) -> Result<(), Failure> {
    let report_path = out.join("report.json");
    input::remove_if_there(&report_path)?;
    input::write_tables(fabric, tables, out)?;
    write_json(&report_path, report)
}
