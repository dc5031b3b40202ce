//! `sarouter simulate`: traffic on a fabric with a routing.

mod case;
mod changes;
mod epochs;
mod pairs;
mod printed;
mod refused;
mod sheet;
mod text;

use std::path::PathBuf;
use std::time::Instant;

use self::case::{Case, Io, Kind};
pub use self::printed::Simulated;
use self::printed::{JobRow, MeanRow, More};
use super::html::Html;
use super::input::{self, Input, Source};
use super::route_angara::{Site, TorusArgs, is_torus};
use super::{Answer, Context, Failure, number};
use crate::model::{Adapters, JobId, Tables, TorusJob};
use crate::publish::angara::{ROUTES_FILE, read_routes, tables_of_files};
use crate::report::cost::cpu_seconds;
use crate::route::EngineOptions;
use crate::route::angara::{Limits, engine};
use crate::simulate::adaptive::Distances;
use crate::simulate::run::{self, Load, Outcome, Windows};
use crate::simulate::traffic::jobs::Jobs;
use crate::simulate::traffic::open::Destinations;
use crate::simulate::traffic::script::Script;
use crate::simulate::{ADAPTIVE, AnyRouter, Net, Settings, TableRouter, TorusRouter};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter simulate --fabric fattree:10x18,5 --jobs jobs.txt --traffic shift
  sarouter simulate --fabric random:720,5040,6120 --engine polarized \\
      --hardware phits --traffic uniform --load 0.1,0.5,0.9,1 \\
      --warm-up 20000 --measure 10000
  sarouter simulate --fabric deimos --engine dfsssp \\
      --traffic bisection --load 1 --seeds 20
  sarouter simulate --fabric torus:4x4x4,hosts=2 \\
      --traffic uniform --load 0.9 --changes 1000
  sarouter simulate --fabric torus:4x4x4,hosts=2 \\
      --traffic uniform --changes 10 --update property-preserving \\
      --series throughput.csv
  sarouter simulate --fabric fattree:10x18,5 --jobs jobs.txt \\
      --storage 'n[163-180]' --reads 64KiB --traffic none

Traffic: exchanges of jobs (shift, linear, random, alltoall: all to all in several orders; ring,
double-tree, doubling, halving, bruck, binomial, halo2d, halo3d, halo:AxBxC, groups:G, permutations,
rail-alltoall:G, hierarchical:G), uniform, server-permutation, switch-permutation, bisection (half of the
hosts with the other half), transpose, neighbor, tornado, grid-transpose, grid-neighbor, grid-tornado,
pingpong, bulk.

With --jobs each job runs the first one given, or its own: --traffic shift,17=tornado. With --storage and
--reads or --writes, hosts of jobs also read from each server and write to each; with --traffic none they do
nothing else. Without --load patterns run once, message by message; with it (or uniform) they run without end.
With --changes, tables change while packets fly. The exit status is 1 after a deadlock, or if a change lost
something.")]
pub struct Args {
    #[command(flatten)]
    pub source: Source,
    /// Tables: what `route --out` wrote, or a dump
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "engine")]
    tables: Option<PathBuf>,
    /// Layers of the routes, beside a dump
    #[arg(long, value_name = "FILE", requires = "tables")]
    layers_file: Option<PathBuf>,
    /// Routing engine, or polarized, minimal, valiant, ugal, ksp, ksp-ugal, all-paths, omni-dimensional, rdr,
    /// dor-lanes
    #[arg(long, default_value = "balanced")]
    engine: String,
    /// What is sent
    #[arg(long, value_name = "T", default_value = "shift", value_delimiter = ',')]
    traffic: Vec<String>,
    /// Offered loads as shares of a cable's rate, for traffic without end
    #[arg(long, value_name = "L,…", value_delimiter = ',', value_parser = number::some_share)]
    load: Vec<f64>,
    /// Payload of a message: a number, 64KiB, 1MiB [default: one packet; RDR's 8 KiB for pingpong and bulk]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    bytes: Option<u32>,
    /// Payload that each host of a job reads from each server of --storage
    #[arg(long, value_name = "BYTES", value_parser = size, requires = "servers")]
    reads: Option<u32>,
    /// Payload that each host of a job writes to each server of --storage
    #[arg(long, value_name = "BYTES", value_parser = size, requires = "servers")]
    writes: Option<u32>,
    /// Hardware: qdr, phits, caminos, rdr, angara
    #[arg(long, default_value = "qdr")]
    hardware: String,
    /// Change a figure of the hardware, such as input_flits=64; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Nanoseconds (cycles of phits) before measuring; without it until steady
    #[arg(long, value_name = "NS", requires = "measure", value_parser = number::from_zero)]
    warm_up: Option<f64>,
    /// Nanoseconds to measure
    #[arg(long, value_name = "NS", requires = "warm_up", value_parser = number::above_zero)]
    measure: Option<f64>,
    /// Nanoseconds after which traffic that is not steady is measured as it is [default: 2000000]
    #[arg(long, value_name = "NS", conflicts_with = "warm_up", value_parser = number::above_zero)]
    most: Option<f64>,
    /// Hosts that take part in pingpong and bulk, drawn by the seed; all unless given
    #[arg(long, value_name = "N")]
    active: Option<usize>,
    /// Paths per pair of ksp and ksp-ugal [default: 8]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1024))]
    paths: Option<u16>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs for each load, with seeds from --seed on, and their mean
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    #[command(flatten)]
    changes: changes::ChangesArgs,
    #[command(flatten)]
    html: Html,
}

impl Args {
    fn paths(&self) -> usize {
        self.paths.unwrap_or(8).into()
    }
}

/// `8192`, `64KiB`, `1MiB`.
pub(super) fn size(text: &str) -> Result<u32, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[split..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        other => return Err(format!("{other:?} is not KiB or MiB")),
    };
    let number = text[..split].parse::<u32>().ok().and_then(|n| n.checked_mul(unit));
    number.filter(|n| *n > 0).ok_or_else(|| "must be 1 to 4294967295 bytes".to_string())
}

/// The settings of that name with changes `key=value`.
pub fn hardware(name: &str, changes: &[String]) -> Result<Settings, Failure> {
    let base = match name {
        "qdr" => Settings::qdr(),
        "phits" => Settings::phits(),
        "caminos" => Settings::caminos(),
        "rdr" => Settings::rdr(),
        "angara" => Settings::angara(),
        _ => return Err(format!("--hardware {name}: qdr, phits, caminos, rdr or angara").into()),
    };
    let mut value = serde_json::to_value(base)?;
    for change in changes {
        let (key, to) = change.split_once('=').ok_or_else(|| format!("--set {change}: KEY=VALUE"))?;
        let entry = value.get_mut(key).ok_or_else(|| format!("--set {change}: there is no {key}"))?;
        *entry = serde_json::from_str(to).map_err(|_| format!("--set {change}: {to} is not a number"))?;
    }
    let settings: Settings = serde_json::from_value(value).map_err(|e| format!("--set: {e}"))?;
    settings.check()?;
    Ok(settings)
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    if is_torus(&args.source.fabric) && args.changes.is_asked() {
        return Err("--changes: the routes of a direct torus do not change while packets fly".into());
    }
    if is_torus(&args.source.fabric) {
        args.source.none_on_torus(&[("--layers-file", args.layers_file.is_some())])?;
        return on_torus(&args, context);
    }
    let fabric_input = args.source.load()?;
    input::need_hosts(&fabric_input.fabric, &args.source.fabric)?;
    let net = Net::of_fabric(&fabric_input.fabric);
    let (jobs, adapters) = args.source.jobs.as_ref().map(|_| placed(&fabric_input)).unzip();
    let mut case = Case::new(&args, &net, jobs)?;
    case.adapters = adapters.unwrap_or_default();
    let servers = fabric_input.demand.storage.servers.iter().map(|t| t.index() as u32).collect();
    case.io = Io { servers, reads: args.reads, writes: args.writes };
    if args.changes.is_asked() {
        let clock = Clock::new();
        let outcomes = changes::run(&args, &case, &fabric_input, &net)?;
        return show(&args, &case, &args.engine, (outcomes, More::default()), clock, context);
    }
    if ADAPTIVE.contains(&args.engine.as_str()) && args.tables.is_none() {
        let far = Distances::new(&net)?;
        let router = args
            .source
            .in_pool(|| AnyRouter::adaptive(&args.engine, &net, &far, args.paths(), args.seed))??;
        return simulate(&args, &case, &net, &router, &args.engine, context);
    }
    let tables = tables(&args, &fabric_input)?;
    let router = AnyRouter::Table(TableRouter::new(&fabric_input.fabric, &net, &tables)?);
    simulate(&args, &case, &net, &router, tables.engine(), context)
}

fn tables(args: &Args, input: &Input) -> Result<Tables, Failure> {
    match &args.tables {
        Some(path) => input::read_tables(&input.fabric, path, args.layers_file.as_deref()),
        None => {
            let routed =
                args.source.in_pool(|| input::route(&args.engine, &EngineOptions::default(), input))?;
            Ok(routed.answer?)
        }
    }
}

/// A job, and its terminals.
type PlacedJob = (Option<JobId>, Vec<u32>);

/// Jobs as terminals, and how these are on their nodes; jobs on fewer than two nodes are left out.
fn placed(input: &Input) -> (Vec<PlacedJob>, Vec<Adapters>) {
    let terminals = |t: &[crate::model::TerminalId]| t.iter().map(|t| t.index() as u32).collect();
    let jobs = input.placed.iter().filter(|job| job.ranks.nodes > 1);
    let placed = |job: &crate::model::PlacedJob| {
        ((Some(job.id.clone()), terminals(&job.ranks.terminals)), job.ranks.group().adapters)
    };
    jobs.map(placed).unzip()
}

fn on_torus(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let (fabric, jobs) = (&args.source.fabric, args.source.jobs.as_deref());
    let Site { torus, demand } = Site::load(fabric, jobs, &TorusArgs::default())?;
    let net = Net::of_torus(&torus);
    let members = |job: &TorusJob| job.ranks().iter().map(|node| node.index() as u32).collect();
    let named = demand.jobs.iter().filter(|job| job.ranks().len() > 1);
    let placed = jobs.map(|_| named.map(|job| (job.id.clone(), members(job))).collect());
    let case = Case::new(args, &net, placed)?;
    if ADAPTIVE.contains(&args.engine.as_str()) {
        let far = Distances::new(&net)?;
        let router = AnyRouter::adaptive(&args.engine, &net, &far, args.paths(), args.seed)?;
        return simulate(args, &case, &net, &router, &args.engine, context);
    }
    let tables = match &args.tables {
        Some(_) if jobs.is_some() => {
            return Err("--tables on a direct torus are of one job on all its nodes: no --jobs".into());
        }
        Some(path) => {
            let file = if path.is_dir() { path.join(ROUTES_FILE) } else { path.clone() };
            let routes = read_routes(&file, &torus, demand.jobs[0].nodes())?;
            tables_of_files(&torus, demand, vec![routes])
        }
        None => engine(&args.engine)?.route(&torus, &demand, &Limits::default())?,
    };
    let router = AnyRouter::Torus(TorusRouter::new(&net, &tables)?);
    simulate(args, &case, &net, &router, &tables.engine, context)
}

/// One run of `simulate`, or one for each load.
fn simulate(
    args: &Args,
    case: &Case,
    net: &Net,
    router: &AnyRouter<'_>,
    engine: &str,
    context: &Context,
) -> Result<Answer, Failure> {
    let clock = Clock::new();
    let outcomes = outcomes(args, case, net, router, context)?;
    show(args, case, engine, outcomes, clock, context)
}

/// When work began.
struct Clock {
    wall: Instant,
    cpu: f64,
}

impl Clock {
    fn new() -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds() }
    }
}

fn show(
    args: &Args,
    case: &Case,
    engine: &str,
    (outcomes, more): (Vec<Outcome>, More),
    clock: Clock,
    context: &Context,
) -> Result<Answer, Failure> {
    let hops: u64 = outcomes.iter().map(|o| o.packet_hops).sum();
    tracing::info!(
        "{:.2} s CPU, {:.2} s, {:.2} million packet-hops",
        cpu_seconds() - clock.cpu,
        clock.wall.elapsed().as_secs_f64(),
        hops as f64 / 1e6
    );
    let printed = Simulated {
        fabric: &args.source.fabric,
        engine,
        traffic: &args.traffic,
        seed: args.seed,
        settings: case.settings,
        runs: &outcomes,
        more,
    };
    args.html.write(|| sheet::sheet(&printed))?;
    context.print(&printed, || text::of(&outcomes, &printed.more))?;
    Ok(if outcomes.iter().all(changes::is_whole) { Answer::Yes } else { Answer::No })
}

fn outcomes(
    args: &Args,
    case: &Case,
    net: &Net,
    router: &AnyRouter<'_>,
    context: &Context,
) -> Result<(Vec<Outcome>, More), Failure> {
    let (settings, seed) = (case.settings, args.seed);
    if let Kind::Ping { bulk } = case.default {
        return pairs::run(args, case, net, router, bulk);
    }
    if case.default == Kind::Uniform || !args.load.is_empty() {
        return loads(args, case, net, router, context);
    }
    let mut scripts: Vec<Script> = Vec::with_capacity(case.jobs.len());
    let mut rows: Vec<JobRow> = Vec::with_capacity(case.jobs.len());
    for (j, (id, members)) in case.jobs.iter().enumerate() {
        if case.kind(j) != Kind::None {
            scripts.push(case.script(net, j, seed)?);
            rows.push(JobRow::new(id.as_ref(), members.len(), None));
        }
    }
    for (id, members) in &case.jobs {
        for (what, script) in case.io.scripts(net, members, seed) {
            scripts.push(script);
            rows.push(JobRow::new(id.as_ref(), members.len(), Some(what)));
        }
    }
    if case.jobs.is_empty() {
        return Err("no job of --jobs is on several nodes of this fabric: nothing is sent".into());
    }
    if scripts.is_empty() {
        return Err("--traffic none: nothing is sent without --storage and --reads or --writes".into());
    }
    let jobs = Jobs::new(scripts, net.terminals());
    let bar = context.bar(1, "run");
    let run = run::jobs(net, settings, router, jobs, seed);
    bar.finish_and_clear();
    let (outcome, finished) = run?;
    rows.iter_mut().zip(&finished).for_each(|(row, ns)| row.finished_ns = *ns);
    Ok((vec![outcome], More { jobs: Some(rows), ..More::default() }))
}

/// Who takes part in traffic without end.
fn members(case: &Case) -> Result<&[u32], Failure> {
    match case.jobs.as_slice() {
        [(_, members)] => Ok(members),
        _ => Err("traffic without end runs on all hosts or in one job".into()),
    }
}

/// Offered loads, one run for each; `None` for as much as possible.
fn shares(args: &Args) -> Vec<Option<f64>> {
    if args.load.is_empty() { vec![None] } else { args.load.iter().copied().map(Some).collect() }
}

fn loads(
    args: &Args,
    case: &Case,
    net: &Net,
    router: &AnyRouter<'_>,
    context: &Context,
) -> Result<(Vec<Outcome>, More), Failure> {
    use rayon::prelude::*;
    let members = members(case)?.to_vec();
    let drawn = |seed| match case.default {
        Kind::OneToOne(pattern) => Ok(Destinations::Fixed(pattern.destinations(net, &members, seed)?)),
        Kind::Uniform => Ok(Destinations::Uniform),
        _ => Err("an exchange has an end: no --load".to_string()),
    };
    let windows = match (args.warm_up, args.measure) {
        (Some(warm_up_ns), Some(measure_ns)) => Windows::Given { warm_up_ns, measure_ns },
        _ => Windows::UntilSteady { most_ns: args.most.unwrap_or(2_000_000.0) },
    };
    let shares = shares(args);
    let bytes = case.bytes.unwrap_or(case.settings.mtu);
    let one = |(offered, seed): &(Option<f64>, u64)| {
        let (members, destinations, offered) = (members.clone(), drawn(*seed)?, *offered);
        let load = Load { members, destinations, bytes, offered, windows, drain: true };
        run::load(net, case.settings, router, &load, *seed)
    };
    let last = args.seed.checked_add(args.seeds).ok_or("--seed: too large for so many --seeds")?;
    let seeds = args.seed..last;
    let all = shares.iter().flat_map(|share| seeds.clone().map(|seed| (*share, seed)));
    let all: Vec<(Option<f64>, u64)> = all.collect();
    let bar = context.bar(all.len(), "runs");
    let counted = |run: &(Option<f64>, u64)| one(run).inspect(|_| bar.inc(1));
    let runs: Result<Vec<Outcome>, String> = args.source.in_pool(|| all.par_iter().map(counted).collect())?;
    bar.finish_and_clear();
    let runs = runs?;
    let means = (args.seeds > 1).then(|| runs.chunks(args.seeds as usize).map(MeanRow::of).collect());
    Ok((runs, More { means, ..More::default() }))
}
