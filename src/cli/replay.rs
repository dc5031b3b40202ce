//! `sarouter replay`: job history through every engine; `replay merge`: parts of one joined.

mod faults;
mod given;
mod span;
mod torus;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use self::faults::{fault_lines, report_faults};
use self::given::{need_different, rejected};
use self::span::span;
use self::torus::on_torus;
use super::common::{print, write_file};
use super::input::{Given, StorageArgs, complain_of_strangers, need_hosts};
use super::{Answer, Context, Failure, Format, html};
use crate::lab::replay::files::{FAULTS, Outcome, Run, Shard, TraceSummary};
use crate::lab::replay::history::{History, Nodes};
use crate::lab::replay::pages::{json, page};
use crate::lab::replay::run::{Engines, Results, replay};
use crate::lab::replay::setup::{Setup, Simulated};
use crate::lab::replay::summary::{cost_table, grid};
use crate::lab::replay::trace::{self, Content, Fault, Trace, TraceError};
use crate::lab::workload::placement::Placement;
use crate::model::{Fabric, JobId, LayerBudget, Pattern};
use crate::observe::fabric;
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::observe::torus_toml;
use crate::pass::worth::Price;
use crate::report::{FabricSummary, align};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  sarouter replay --fabric site.ibnetdiscover --trace sacct.txt \\
      --engines dfsssp,fattree,sar,balanced --out month
  sarouter replay --fabric tsubame2 --trace generated:tsubame2,days=30,seed=1 \\
      --placement linear,tree,random
  sarouter replay --fabric site.ibnetdiscover --trace sacct.txt \\
      --tables now=opensm-lfts.dump --engines balanced
  sarouter replay --fabric site.net --trace sacct.txt --shard 3/10 --out part-3
  sarouter replay merge part-* --out month

Shards may run on ten machines; `replay merge` then puts them together.

Traces, recognised by content: sacct --parsable2 (with a header, or name the --fields), SWF with or without node
lists in braces, snapshots (one JSON document a line, or a directory with a file each), generated:MIX[,days=][,seed=].
On a direct torus (angara:6x6x5, or a description) the trace must say on which nodes jobs ran; --engines and --fields
count there: each job is routed when it starts, around those that run.
Improvements are positive where the job-aware engine is better; means are over snapshots with multi-switch jobs."
)]
pub struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    replay: Replay,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Join all parts of a run that was shared out with --shard
    Merge(Merge),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sarouter replay merge part-1 part-2 --out month")]
struct Merge {
    /// Directories that the parts left
    #[arg(required = true, value_name = "DIR")]
    parts: Vec<PathBuf>,
    /// The fabric, if it is no longer where the parts found it
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: Option<String>,
    /// Directory for the result
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

const DEFAULT_ENGINES: &str = "dfsssp,fattree,updown,sar,balanced";

#[derive(Debug, clap::Args)]
struct Replay {
    /// Fabric: ibnetdiscover output, ibsim .net file, or a spec such as tsubame2
    #[arg(long, value_name = "FILE|SPEC", required = true)]
    fabric: Option<String>,
    /// Job history
    #[arg(long, value_name = "FILE|DIR|SPEC", required = true)]
    trace: Option<String>,
    /// Engines, separated by commas; NAME:static for a job-aware one that is asked once, for everybody; NAME:gain=SECONDS for one that changes its routes if that saves so much time of the whole machine
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = DEFAULT_ENGINES
    )]
    engines: Vec<String>,
    #[command(flatten)]
    given: Given,
    /// Time between snapshots: seconds, or with s, min, h
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = duration)]
    every: i64,
    /// First snapshot (RFC 3339) [default: the first multiple of --every since the first start in the trace]
    #[arg(long, value_name = "TIME")]
    from: Option<DateTime<Utc>>,
    /// End; the last end in the trace unless given
    #[arg(long, value_name = "TIME")]
    to: Option<DateTime<Utc>>,
    /// Where the jobs' nodes come from, separated by commas: linear, consecutive, tree, partitions, random, interleaved, routed (ours) or isolated (ours, alone on its channels); as recorded unless given
    #[arg(long, value_name = "MODEL,…", value_delimiter = ',')]
    placement: Vec<Nodes>,
    /// The trace's nodes, sorted, stand for those of the fabric, switch by switch
    #[arg(long, conflicts_with = "placement")]
    nodes_in_order: bool,
    /// Names of the fields of a sacct dump without a header, separated by commas
    #[arg(long, value_name = "FIELDS")]
    fields: Option<String>,
    /// Stop at the first bad line or unknown node
    #[arg(long)]
    strict: bool,
    /// Node names of adapters: lines "GUID NAME"
    #[arg(long, value_name = "FILE")]
    node_map: Option<PathBuf>,
    #[command(flatten)]
    storage: StorageArgs,
    /// Virtual layers that may be used, 1 to 15
    #[arg(long, value_name = "K", default_value = "8")]
    layers: LayerBudget,
    /// All routes inside one job on one layer
    #[arg(long)]
    layer_per_job: bool,
    /// What a change for jobs alone must save: seconds of the whole machine; 0 publishes every difference.
    /// NAME:gain=SECONDS among the engines says it for one of them
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    min_gain: u32,
    /// Changes a day for jobs alone, those of the largest gains; 0: no such bound. NAME:epochs=NUMBER says it for one
    /// engine
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    epochs_per_day: u16,
    /// Least seconds between two changes for jobs alone, where a gain is asked for
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    min_pause: u32,
    /// Percent of its time that a job communicates where no other traffic is in its way
    #[arg(long, value_name = "PERCENT", default_value_t = 30, value_parser = clap::value_parser!(u8).range(1..=100))]
    communication: u8,
    /// Seed of random placement
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Snapshots per chunk: each chunk starts with fresh routes, and shards are made of chunks
    #[arg(long, value_name = "N", default_value_t = 144, value_parser = clap::value_parser!(u32).range(1..))]
    chunk: u32,
    /// Simulate all jobs at once in so many snapshots, evenly over the run, with the tables of each engine
    #[arg(long, value_name = "N", default_value_t = 0)]
    simulate: u32,
    /// What jobs exchange in simulated snapshots, separated by commas
    #[arg(
        long,
        value_name = "PATTERN,…",
        value_delimiter = ',',
        default_value = "alltoall",
        requires = "simulate"
    )]
    traffic: Vec<Pattern>,
    /// Largest message in simulated snapshots
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = super::simulate::size, requires = "simulate")]
    bytes: u32,
    /// Only this part of the run, I from 1 to N
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Threads; all processors unless given
    #[arg(long, value_name = "N", value_parser = super::number::threads)]
    threads: Option<usize>,
    /// Directory for the time series, tables, plots and report
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// One self-contained report
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    html: Option<PathBuf>,
}

impl Replay {
    fn price(&self) -> Price {
        Price {
            min_gain: TimeDelta::seconds(self.min_gain.into()),
            min_pause: TimeDelta::seconds(self.min_pause.into()),
            communication: self.communication,
            epochs_per_day: self.epochs_per_day,
        }
    }
}

/// `600`, `600s`, `10min`, `1h`, in seconds.
fn duration(text: &str) -> Result<i64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err("units are s, min, h and d".to_string()),
    };
    let number: i64 = digits.parse().map_err(|_| format!("{digits:?} is not a number"))?;
    number
        .checked_mul(unit)
        .filter(|s| (1..=31_536_000).contains(s))
        .ok_or("must be 1 s to 365 d".to_string())
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    match args.part {
        Some(Part::Merge(merge)) => run_merge(&merge, context),
        None => run_replay(&args.replay, context),
    }
}

fn run_merge(args: &Merge, context: &Context) -> Result<Answer, Failure> {
    let parts: Result<Vec<Outcome>, _> = args.parts.iter().map(|p| Outcome::read(p)).collect();
    let outcome = Outcome::merge(parts?)?;
    let source = args.fabric.as_deref().unwrap_or(&outcome.run.fabric_source);
    let fabric = fabric::load(source)?;
    if fabric.fingerprint().to_string() != outcome.run.fabric.fingerprint {
        return Err(format!("{source} is not the fabric of these parts").into());
    }
    // The faults are the same in every part.
    let faults = std::fs::read(args.parts[0].join(FAULTS)).unwrap_or_default();
    write_out(&outcome, &fabric, &args.out, &faults)?;
    show(&outcome, context)
}

/// What `--fabric` and `--trace` must be: clap demands them.
fn given(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}

fn run_replay(args: &Replay, context: &Context) -> Result<Answer, Failure> {
    let source = given(&args.fabric);
    if torus_toml::is_torus(source) {
        return on_torus(args, source, context);
    }
    let fabric = Arc::new(fabric::load(source)?);
    need_hosts(&fabric, source)?;
    let names = args.node_map.as_deref().map(NodeNames::load).transpose()?.unwrap_or_default();
    let nodes = Arc::new(name_hosts(&fabric, &names));
    let trace = trace::load(given(&args.trace), args.fields.as_deref())?;
    let history = |placement| History::new(&trace, &fabric, &nodes, placement, args.seed);
    let histories: Vec<History> =
        placements(args, &trace).into_iter().map(history).collect::<Result<_, TraceError>>()?;
    let faults: Vec<&Fault> = trace.faults.iter().chain(histories.iter().flat_map(|h| &h.faults)).collect();
    report_faults(&trace, &faults, args.strict)?;
    let (from, samples) = span(args, &trace, &histories)?;
    let setup = Setup {
        fabric: Arc::clone(&fabric),
        nodes: Arc::clone(&nodes),
        engines: args.engines.clone(),
        given: args.given.read(&fabric)?.into_iter().map(|(name, tables)| (name, Arc::new(tables))).collect(),
        budget: args.layers,
        layer_per_job: args.layer_per_job,
        storage: args.storage.on(&nodes)?,
        price: args.price(),
        from,
        every: args.every,
        samples,
        chunk: args.chunk as usize,
        simulated: Simulated {
            snapshots: args.simulate as usize,
            patterns: args.traffic.clone(),
            bytes: args.bytes,
        },
    };
    need_different(args, &setup.given)?;
    let engines = Engines::new(&setup)?;
    for (engine, reason) in &engines.refused {
        tracing::warn!("{engine} does not take part: {reason}");
    }
    if engines.names().is_empty() {
        return Err("no engine can route this fabric".into());
    }
    let results = compute(args, context, &setup, &engines, &histories)?;
    let run = describe(args, &setup, &engines, &trace, &histories);
    let outcome = Outcome::new(run, results);
    if let Some(out) = &args.out {
        write_out(&outcome, &fabric, out, &fault_lines(&trace, &faults))?;
    }
    if let Some(html) = &args.html {
        write_file(html, page(&outcome).html(&fabric, html::command()).as_bytes())?;
    }
    show(&outcome, context)?;
    let strangers: Vec<JobId> = histories.iter().flat_map(|h| h.strangers.iter().cloned()).collect();
    if strangers.is_empty() {
        return Ok(Answer::Yes);
    }
    complain_of_strangers(&strangers);
    Ok(Answer::No)
}

/// Replays this part of the run, with a progress bar.
fn compute(
    args: &Replay,
    context: &Context,
    setup: &Setup,
    engines: &Engines,
    histories: &[History],
) -> Result<Results, Failure> {
    let chunks = setup.chunks(histories.len());
    let chunks = match args.shard {
        Some(shard) => shard.of(chunks),
        None => chunks,
    };
    let bar = context.bar(chunks.iter().map(|c| c.end - c.first).sum(), "looks");
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.filter(|n| *n > 0).unwrap_or_else(all);
    let results = replay(setup, engines, histories, &chunks, threads, &|| bar.inc(1))?;
    bar.finish_and_clear();
    for (engine, reason) in &results.refusals {
        tracing::warn!("{engine} kept earlier routes: {reason}");
    }
    Ok(results)
}

fn placements(args: &Replay, trace: &Trace) -> Vec<Nodes> {
    if !args.placement.is_empty() {
        return args.placement.clone();
    }
    let has_nodes = match &trace.content {
        Content::Jobs(jobs) => jobs.iter().all(|j| j.nodes.is_some()),
        Content::Snapshots(_) => true,
        Content::Generated(..) => false,
    };
    match (has_nodes, args.nodes_in_order) {
        (true, true) => vec![Nodes::InOrder],
        (true, false) => vec![Nodes::Recorded],
        (false, _) => vec![Nodes::Placed(Placement::Tree)],
    }
}

fn describe(args: &Replay, setup: &Setup, engines: &Engines, trace: &Trace, histories: &[History]) -> Run {
    let mut counts = BTreeMap::new();
    for fault in trace.faults.iter().chain(histories.iter().flat_map(|h| &h.faults)) {
        *counts.entry(fault.kind).or_default() += 1;
    }
    Run {
        fabric_source: given(&args.fabric).to_string(),
        fabric: FabricSummary::of(&setup.fabric),
        trace: TraceSummary {
            name: trace.name.clone(),
            format: trace.format.to_string(),
            digest: trace.digest.clone(),
            entries: histories.first().map_or(0, History::entries),
            passed_over: trace.passed_over,
            faults: counts,
        },
        placements: histories.iter().map(|h| h.nodes.to_string()).collect(),
        seed: args.seed,
        engines: engines.names(),
        job_aware: engines.job_aware(),
        refused: engines.refused.iter().cloned().collect(),
        rejected: rejected(setup),
        layers: setup.budget.get(),
        layer_per_job: setup.layer_per_job,
        from: DateTime::UNIX_EPOCH + TimeDelta::seconds(setup.from),
        every_seconds: setup.every,
        snapshots: setup.samples,
        chunk: setup.chunk,
        shard: args.shard,
    }
}

fn write_out(outcome: &Outcome, fabric: &Fabric, out: &Path, faults: &[u8]) -> Result<(), Failure> {
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    for (name, bytes) in outcome.files(fabric)? {
        write_file(&out.join(name), &bytes)?;
    }
    write_file(&out.join(FAULTS), faults)
}

fn show(outcome: &Outcome, context: &Context) -> Result<Answer, Failure> {
    let summaries = outcome.summaries();
    if context.format == Format::Json {
        print(&json(outcome, &summaries))?;
        return Ok(Answer::Yes);
    }
    let Run { trace, fabric, fabric_source, .. } = &outcome.run;
    let faults: Vec<String> = trace
        .faults
        .iter()
        .map(|(kind, n)| {
            format!(
                "{n} {}",
                serde_json::to_value(kind)
                    .map_or(String::new(), |k| k.as_str().unwrap_or_default().replace('_', " "))
            )
        })
        .collect();
    let mut text = format!(
        "{} ({}): {} entries, {} passed over; faults: {}\n{fabric_source}: {} switches, {} terminals\n\n",
        trace.name,
        trace.format,
        trace.entries,
        trace.passed_over,
        if faults.is_empty() { "none".to_string() } else { faults.join(", ") },
        fabric.switches,
        fabric.terminals
    );
    for summary in &summaries {
        text += &summary.text();
        text.push('\n');
    }
    for (title, table) in grid(&summaries) {
        text += &format!("placement against routing, {title}, mean over snapshots\n{}\n", align(&table));
    }
    text += &align(&cost_table(&outcome.costs, &outcome.run.job_aware));
    let verdicts = summaries.iter().filter_map(|summary| summary.worth_it());
    let verdicts: Vec<String> = verdicts.collect();
    let verdict = format!("{}\n{}", outcome.run.warnings(), verdicts.join("\n"));
    print(format!("{}\n\n{}", text.trim_end(), verdict.trim()).trim_end())?;
    Ok(Answer::Yes)
}
