//! `sarouter bench time`: what jobs gain in time, on the packet simulator.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::common::{complain, need_different, time_than, write_json};
use crate::cli::html::Html;
use crate::cli::number;
use crate::cli::{Answer, Context, Failure, input};
use crate::lab::board::{Board, Summary, WITH_PATTERN};
use crate::lab::peers;
use crate::model::{Fabric, Group, LayerBudget, Pattern, Promise, Tables};
use crate::observe::fabric;
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::report::sheet::Sheet;

/// Arguments of `bench time`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter bench time --fabric kary:6,3 --seeds 101 --patterns linear,ring
  sarouter bench time --fabric site.ibnetdiscover --jobs jobs.json

Jobs of several sizes fill 95 % of the hosts, in blocks from random places, and exchange all at once. Per
fabric and pattern: the best engine that knows no jobs, how much longer jobs take with it than on
one switch that joins all, and the other engines' times over its own.")]
pub struct TimeArgs {
    /// Fabrics; those of the documentation unless given
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: Vec<String>,
    /// Engines that are told the jobs, separated by commas
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', default_values = ["balanced"])]
    engines: Vec<String>,
    /// Exchanges: linear, shift, alltoall, random, ring, halo3d, groups:8, …
    #[arg(long, value_name = "P,…", value_delimiter = ',', default_values = PATTERNS)]
    patterns: Vec<Pattern>,
    /// Jobs on every fabric, instead of those that are drawn: squeue --json, a snapshot, or lines "ID HOSTLIST
    /// [PATTERN]"; may be repeated. What they say they exchange is what balanced routes for
    #[arg(long, value_name = "FILE")]
    jobs: Vec<String>,
    /// Node names of adapters: lines "GUID NAME"
    #[arg(long, value_name = "FILE", requires = "jobs")]
    node_map: Option<PathBuf>,
    /// Seeds of mixes of jobs [default: 101,102, with --jobs none]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Sizes of jobs, drawn from these
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values = ["16", "32", "64"], value_parser = number::several)]
    sizes: Vec<usize>,
    /// Virtual layers that may be used, 1 to 15
    #[arg(long, value_name = "K", default_value = "8")]
    layers: LayerBudget,
    /// What the tables must be proved for: told, untold, any, reply, joined by +. Beyond `told`, balanced
    /// routes inside the lanes of the fabric, and other engines that do not keep it get one layer
    #[arg(long, value_name = "P", default_value = "told")]
    promise: Promise,
    /// Payload of a pattern's largest message, bytes
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    bytes: u32,
    /// OpenSM's own tables beside, from its engines on ibsim
    #[arg(long)]
    opensm: bool,
    /// Seconds that one engine of OpenSM's may take
    #[arg(long, value_name = "S", default_value_t = 60, requires = "opensm")]
    deadline: u64,
    /// Leave out minimal adaptive routing
    #[arg(long)]
    no_adaptive: bool,
    /// Also jobs that say their pattern: routes for it alone, orders of ranks alone, and both together
    #[arg(long)]
    order: bool,
    /// File for the cells as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    html: Html,
}

/// 1:1 and tapered trees of two and three levels, a dragonfly, two tori, a random graph and a Slim Fly.
const FABRICS: [&str; 10] = [
    "fattree:10x18,5",
    "fattree:18x18,18",
    "kary:6,3",
    "kary:6,3,hosts=12",
    "xgft:2;12,8;4,6,hosts=6",
    "dragonfly:6,3,3,10",
    "torus:6x6x6,hosts=1",
    "torus:4x4x4,hosts=4",
    "random:40,240,200,seed=101",
    "slimfly:5,hosts=4",
];
/// Of mixes of jobs.
const SEEDS: [u64; 2] = [101, 102];
const PATTERNS: [&str; 7] = ["linear", "shift", "alltoall", "random", "neighbor", "halo3d", "doubling"];
/// OpenSM's engines that know no jobs.
const OPENSM: [&str; 5] = ["minhop", "updn", "ftree", "dfsssp", "nue"];

pub(super) fn run(args: &TimeArgs, context: &Context) -> Result<Answer, Failure> {
    need_different("--fabric", &args.fabric)?;
    need_different("--engines", &args.engines)?;
    need_different("--patterns", &args.patterns)?;
    need_different("--jobs", &args.jobs)?;
    need_different("--seeds", &args.seeds)?;
    for name in &args.engines {
        crate::route::engine(name, &crate::route::EngineOptions::default())?;
    }
    let board = Board {
        engines: args.engines.clone(),
        patterns: args.patterns.clone(),
        sizes: args.sizes.clone(),
        layers: args.layers,
        promise: args.promise,
        bytes: args.bytes,
        adaptive: !args.no_adaptive,
        orders: args.order,
    };
    let default = || FABRICS.iter().map(ToString::to_string).collect();
    let specs: Vec<String> = if args.fabric.is_empty() { default() } else { args.fabric.clone() };
    let (mut cells, mut answer) = (Vec::new(), Answer::Yes);
    let bar = context.bar(specs.len(), "fabrics");
    for spec in &specs {
        let fabric = fabric::load(spec)?;
        input::need_hosts(&fabric, spec)?;
        bar.suspend(|| eprintln!("{spec} …"));
        let mixes = mixes(args, &board, &fabric)?;
        if mixes.iter().any(|(_, jobs)| jobs.is_empty()) {
            answer = Answer::No;
            continue;
        }
        let given = if args.opensm { opensm(&fabric, args.deadline)? } else { Vec::new() };
        cells.extend(board.fabric(spec, &fabric, &mixes, &given)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let more = WITH_PATTERN.iter().filter(|_| args.order).map(ToString::to_string);
    let engines: Vec<String> = args.engines.iter().cloned().chain(more).collect();
    let summary = Summary::new(cells, &engines);
    if let Some(path) = &args.out {
        write_json(path, &summary)?;
    }
    args.html.write(|| sheet(&summary))?;
    context.print(&summary, || summary.text())?;
    Ok(answer)
}

/// The page: what jobs gain with the first engine that knows them.
fn sheet(summary: &Summary) -> Sheet {
    let bars: Vec<(String, f64)> =
        summary.engines.iter().map(|e| (e.engine.clone(), e.geometric_mean)).collect();
    let first = summary.engines.first();
    let verdict = first.map(|e| {
        let gain = time_than(1.0, e.geometric_mean);
        let behind = e.behind();
        format!(
            "With {} jobs' exchanges take {gain} with the best engine that knows no jobs; in {behind} of {} cells \
             they take more by 3 % or over.",
            e.engine,
            e.ratios.len()
        )
    });
    let tables = summary.tables().into_iter();
    Sheet {
        title: "What jobs gain in time".into(),
        verdict: verdict.unwrap_or_default(),
        lead: format!(
            "Packet simulator, all jobs at once. A cell is a fabric and a pattern: the time of jobs over that with the best \
             engine that knows no jobs. {}",
            summary.in_words().trim().replace('\n', ". ")
        ),
        tables: tables.map(|(fabric, lines)| (format!("Times on {fabric}"), lines)).collect(),
        json: serde_json::to_string_pretty(summary).unwrap_or_default(),
        for_whom: "Clusters whose jobs span several switches and exchange at the same time, as all of these do on 95 % of \
                   the hosts. Not for you if most jobs stay on one switch, or one job has the machine to itself. Your own \
                   share tells `sarouter replay` with your job history."
            .into(),
        ..Sheet::default()
    }
    .with_bars("Time over the best without jobs, geometric mean of the cells", &bars, Some((1.0, "the same time")))
}

/// The jobs of files, and those that are drawn. Says on stderr of which files there are none.
fn mixes(args: &TimeArgs, board: &Board, fabric: &Fabric) -> Result<Vec<(String, Vec<Group>)>, Failure> {
    let mut mixes = Vec::with_capacity(args.jobs.len() + args.seeds.len());
    let names = args.node_map.as_deref().map(NodeNames::load).transpose()?.unwrap_or_default();
    let nodes = name_hosts(fabric, &names);
    for source in &args.jobs {
        let groups = input::demand(fabric, &nodes, source)?.0.groups;
        if groups.is_empty() {
            complain(format_args!("sarouter: {source}: no job is on several switches of this fabric"));
        }
        mixes.push((source.clone(), groups));
    }
    let seeds = if args.jobs.is_empty() && args.seeds.is_empty() { &SEEDS } else { args.seeds.as_slice() };
    mixes.extend(seeds.iter().map(|seed| board.drawn(fabric, *seed)));
    Ok(mixes)
}

/// OpenSM's own tables, of the engines that route the fabric in time.
pub(super) fn opensm(fabric: &Fabric, deadline: u64) -> Result<Vec<(String, Tables)>, Failure> {
    super::watch_signals()?;
    let mut found = Vec::new();
    for name in OPENSM {
        if let peers::PeerRouting::Routed(routed) = super::asked(fabric, name, Duration::from_secs(deadline))?
        {
            found.extend(routed.tables.into_iter().next().map(|tables| (format!("opensm/{name}"), tables)));
        }
    }
    Ok(found)
}
