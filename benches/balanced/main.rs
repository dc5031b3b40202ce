//! What `balanced` costs and reaches, on one thread.
//!
//! `cargo bench --bench balanced [loads] [bounds] [incremental] [scale] [jobs]`: all unless named. CPU seconds
//! are those of the process. `incremental SPEC` and `jobs SPEC`, alone, are on another fabric. `scale` draws
//! `docs/growth.svg`. `passes SPEC`, alone, is what a service takes from jobs to published epochs, on all threads.

mod growth;
mod passes;

use std::error::Error;
use std::process::Command;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sarouter::lab::DOCUMENTED;
use sarouter::lab::board::mix;
use sarouter::lab::generate::generate;
use sarouter::measure::{lower_bound, measure, measure_since};
use sarouter::model::rng::Rng;
use sarouter::model::{
    Demand, Fabric, Group, Job, JobId, JobMap, JobState, LayerBudget, NodeMap, NodeName, Tables, TerminalId,
};
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::report::align;
use sarouter::report::cost::{cpu_seconds, peak_rss_bytes};
use sarouter::route::{self, EngineOptions};
use sarouter::verify::{judge, transition};

type Failure = Box<dyn Error + Send + Sync>;

const LAYERS: u64 = 8;

/// Where computing times with jobs are promised.
const WITH_JOBS: &[&str] =
    &["kary:10,3,hosts=20", "kary:20,3", "kary:27,3", "dragonfly:10,5,5,51", "torus:8x8x8,hosts=4"];
/// Sizes of those jobs.
const SIZES: [usize; 4] = [16, 32, 64, 128];

/// What one fabric took, in a process of its own.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Point {
    hosts: usize,
    switches: usize,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
    max: u64,
    bound: u64,
    minimal_share: f64,
    accepted: bool,
}

fn main() -> Result<(), Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if let [command, spec] = args.as_slice() {
        if command == "point" {
            println!("{}", serde_json::to_string(&pool.install(|| point(spec))?)?);
            return Ok(());
        }
        if command == "incremental" {
            return pool.install(|| incremental(spec));
        }
        if command == "passes" {
            return passes::passes(spec);
        }
        if command == "jobs" {
            return pool.install(|| with_jobs(&[spec]));
        }
    }
    let is_wanted = |part: &str| args.is_empty() || args.iter().any(|a| a == part);
    if is_wanted("loads") {
        loads()?;
    }
    if is_wanted("bounds") {
        bounds()?;
    }
    if is_wanted("incremental") {
        pool.install(|| incremental("kary:10,3,hosts=20"))?;
    }
    if is_wanted("scale") {
        scale()?;
    }
    if is_wanted("jobs") {
        pool.install(|| with_jobs(WITH_JOBS))?;
    }
    Ok(())
}

/// `since` are the tables in force and what they serve.
fn route(
    fabric: &Fabric,
    demand: &Demand,
    since: Option<(&Arc<Tables>, &Demand)>,
) -> Result<Tables, Failure> {
    let (previous, served) = (since.map(|s| Arc::clone(s.0)), since.map(|s| s.1.clone()));
    let options = EngineOptions { previous, served, ..EngineOptions::default() };
    Ok(route::engine("balanced", &options)?.route(fabric, demand, LayerBudget::new(LAYERS)?)?)
}

fn point(spec: &str) -> Result<Point, Failure> {
    let fabric = generate(spec)?;
    let start = cpu_seconds();
    let tables = route(&fabric, &Demand::oblivious(), None)?;
    let (cpu_seconds, peak_rss_bytes) = (cpu_seconds() - start, peak_rss_bytes());
    let figures = measure(&fabric, &tables, &Demand::oblivious());
    Ok(Point {
        hosts: fabric.host_ids().count(),
        switches: fabric.switches().len(),
        cpu_seconds,
        peak_rss_bytes,
        max: figures.load.max,
        bound: figures.load.lower_bound,
        minimal_share: figures.paths.minimal_share,
        accepted: judge(&fabric, &tables, LayerBudget::new(LAYERS)?).accepted,
    })
}

/// Runs [`point`] in another process, so that its memory can be told.
fn apart(spec: &str) -> Result<Point, Failure> {
    let output = Command::new(std::env::current_exe()?).args(["point", spec]).output()?;
    if !output.status.success() {
        return Err(format!("{spec}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn cells(spec: &str, p: &Point) -> Vec<String> {
    vec![
        spec.to_string(),
        p.hosts.to_string(),
        p.switches.to_string(),
        format!("{:.3}", p.cpu_seconds),
        format!("{:.0}", p.peak_rss_bytes as f64 / 1e6),
        p.max.to_string(),
        p.bound.to_string(),
        format!("{:.3}", p.minimal_share),
        if p.accepted { "accepted" } else { "rejected" }.to_string(),
    ]
}

fn head() -> Vec<String> {
    ["fabric", "hosts", "switches", "CPU s", "MB", "EFI max", "bound", "minimal", "verdict"]
        .map(String::from)
        .to_vec()
}

/// What many steps towards the optimum of the linear program add to the bounds.
fn bounds() -> Result<(), Failure> {
    let mut rows = vec![["fabric", "bound", "after 256 steps"].map(String::from).to_vec()];
    for spec in DOCUMENTED {
        let fabric = generate(spec)?;
        let found = [0, 256].map(|steps| lower_bound(&fabric, steps).to_string());
        rows.push([[spec.to_string()].as_slice(), &found].concat());
    }
    println!("{}", align(&rows));
    Ok(())
}

fn loads() -> Result<(), Failure> {
    let mut rows = vec![head()];
    for spec in DOCUMENTED {
        rows.push(cells(spec, &apart(spec)?));
    }
    println!("{}", align(&rows));
    Ok(())
}

/// The growth exponent is the slope of the least-squares line through the logarithms.
fn scale() -> Result<(), Failure> {
    let mut families = Vec::new();
    for (name, specs) in growth::FAMILIES {
        let (mut rows, mut points) = (vec![head()], Vec::new());
        for spec in *specs {
            let p = apart(spec)?;
            rows.push(cells(spec, &p));
            points.push(p);
        }
        let line = |y: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            points.iter().map(|p| ((p.hosts as f64).ln(), y(p).ln())).collect()
        };
        println!(
            "{}grows with hosts to the {:.2} in CPU time, to the {:.2} in memory\n",
            align(&rows),
            slope(&line(|p| p.cpu_seconds)),
            slope(&line(|p| p.peak_rss_bytes as f64))
        );
        families.push((*name, points));
    }
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/growth.svg"), growth::draw(&families))?;
    Ok(())
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let (xy, xx) = points
        .iter()
        .fold((0.0, 0.0), |(xy, xx), p| (xy + (p.0 - x) * (p.1 - y), xx + (p.0 - x) * (p.0 - x)));
    xy / xx
}

/// Twenty jobs at random places (2,000 hosts have room); one of 64 hosts ends and another of 64 starts
/// on any free hosts. Layers with a cycle while switches change are given of those in use.
fn incremental(spec: &str) -> Result<(), Failure> {
    let fabric = generate(spec)?;
    let nodes = name_hosts(&fabric, &NodeNames::default());
    let mut rows = vec![
        [
            "seed",
            "jobs",
            "hosts in jobs",
            "tables ms",
            "verified ms",
            "fresh ms",
            "blocks",
            "fresh",
            "of",
            "γᵉ max",
            "fresh",
            "bound",
            "EFI max",
            "fresh",
            "mixed",
            "fresh",
            "mixing ms",
        ]
        .map(String::from)
        .to_vec(),
    ];
    for seed in 1..=5 {
        rows.push(change(&fabric, &nodes, seed)?);
    }
    println!("{}", align(&rows));
    Ok(())
}

fn change(fabric: &Fabric, nodes: &NodeMap, seed: u64) -> Result<Vec<String>, Failure> {
    let mut rng = Rng::new(seed);
    let mut free: Vec<TerminalId> = fabric.host_ids().collect();
    rng.shuffle(&mut free);
    let sizes = std::iter::once(64).chain((1..20).map(|_| 32 + rng.below(129))).collect::<Vec<_>>();
    let mut placed: Vec<Vec<TerminalId>> = sizes
        .iter()
        .map(|n| free.split_off(free.len().saturating_sub(*n).max(100.min(free.len()))))
        .collect();
    let before = job_map(fabric, &placed)?;
    free.append(&mut placed[0]);
    rng.shuffle(&mut free);
    placed[0] = free.split_off(free.len() - 64);
    let in_jobs: usize = placed.iter().map(Vec::len).sum();
    let after = job_map(fabric, &placed)?;
    let demand = |jobs: &JobMap| nodes.place(jobs).demand(fabric, Vec::new());
    let served = demand(&before);
    let old = Arc::new(route(fabric, &served, None)?);
    let start = cpu_seconds();
    let wanted = demand(&after);
    let new = route(fabric, &wanted, Some((&old, &served)))?;
    let routed = cpu_seconds();
    let verdict = judge(fabric, &new, LayerBudget::new(LAYERS)?);
    let verified = cpu_seconds();
    let fresh = route(fabric, &wanted, None)?;
    let anew = cpu_seconds() - verified;
    if !verdict.accepted {
        return Err(format!("rejected: {:?}", verdict.findings).into());
    }
    let (got, best) = (measure(fabric, &new, &wanted), measure(fabric, &fresh, &wanted));
    let blocks = |tables: &Tables| old.changed_blocks(fabric, tables).unwrap_or(0).to_string();
    let mixed = |tables: &Tables| {
        transition(fabric, &old, tables).map_or(String::new(), |t| format!("{}/{}", t.cyclic, t.layers))
    };
    let start_mixing = cpu_seconds();
    let mixed_new = mixed(&new);
    let mixing = cpu_seconds() - start_mixing;
    let lids = fabric.dest_ids().map(|d| fabric.lid(d).get() / 64).collect::<std::collections::BTreeSet<_>>();
    let ms = |seconds: f64| format!("{:.0}", seconds * 1e3);
    Ok(vec![
        seed.to_string(),
        wanted.groups.len().to_string(),
        in_jobs.to_string(),
        ms(routed - start),
        ms(verified - start),
        ms(anew),
        blocks(&new),
        blocks(&fresh),
        (lids.len() * fabric.switches().len()).to_string(),
        got.effective.max.to_string(),
        best.effective.max.to_string(),
        got.effective.lower_bound.to_string(),
        got.load.max.to_string(),
        best.load.max.to_string(),
        mixed_new,
        mixed(&fresh),
        ms(mixing),
    ])
}

fn job_map(fabric: &Fabric, placed: &[Vec<TerminalId>]) -> Result<JobMap, Failure> {
    let mut jobs = Vec::new();
    for (id, terminals) in placed.iter().enumerate() {
        let names = terminals.iter().map(|t| NodeName::new(fabric.terminal(*t).description.clone()));
        jobs.push(Job::new(
            JobId::new(format!("{}", id + 1))?,
            JobState::Running,
            names.collect::<Result<_, _>>()?,
            None,
        ));
    }
    Ok(JobMap::new(DateTime::<Utc>::UNIX_EPOCH, jobs))
}

/// Jobs on 95 % of the hosts, routed anew, and when one of them starts beside all others: seconds for tables,
/// and for what a pass does with them.
fn with_jobs(specs: &[&str]) -> Result<(), Failure> {
    let head =
        ["fabric", "jobs", "", "tables s", "verified s", "measured s", "EFI max", "bound", "slow-down"];
    let mut rows =
        vec![[&head[..], &["blocks", "digest"]].concat().iter().map(ToString::to_string).collect()];
    for spec in specs {
        let fabric = generate(spec)?;
        let groups = mix(&fabric, 101, &SIZES);
        let wanted = Demand::new(groups.clone(), Vec::new());
        // Of middle size.
        let served = Demand::new(without(&groups, 64), Vec::new());
        let (fresh, figures) = costs(&fabric, &wanted, None)?;
        rows.push([&[spec.to_string(), groups.len().to_string(), "fresh".into()], &figures[..]].concat());
        drop(fresh);
        let before = Arc::new(route(&fabric, &served, None)?);
        let (_, figures) = costs(&fabric, &wanted, Some((&before, &served)))?;
        rows.push([&[String::new(), String::new(), "one more".into()], &figures[..]].concat());
    }
    println!("{}", align(&rows));
    Ok(())
}

fn without(groups: &[Group], size: usize) -> Vec<Group> {
    let one = groups.iter().position(|g| g.ranks.len() == size).unwrap_or(0);
    let rest = groups.iter().enumerate().filter(|(i, _)| *i != one);
    rest.map(|(_, group)| group.clone()).collect()
}

/// Tables, and what they cost and are worth.
fn costs(
    fabric: &Fabric,
    demand: &Demand,
    since: Option<(&Arc<Tables>, &Demand)>,
) -> Result<(Tables, Vec<String>), Failure> {
    let start = cpu_seconds();
    let tables = route(fabric, demand, since)?;
    let routed = cpu_seconds();
    let verdict = judge(fabric, &tables, LayerBudget::new(LAYERS)?);
    let verified = cpu_seconds();
    // As a pass does, which compares.
    let figures = match since {
        Some((before, _)) => measure_since(fabric, Some((before, None)), &tables, demand).1,
        None => measure(fabric, &tables, demand),
    };
    let measured = cpu_seconds();
    if !verdict.accepted {
        return Err(format!("rejected: {:?}", verdict.findings).into());
    }
    let blocks = since.and_then(|(before, _)| before.changed_blocks(fabric, &tables));
    let row = vec![
        format!("{:.3}", routed - start),
        format!("{:.3}", verified - routed),
        format!("{:.3}", measured - verified),
        figures.load.max.to_string(),
        figures.load.lower_bound.to_string(),
        format!("{:.4}", figures.time.slowdown_mean),
        blocks.map_or(String::new(), |n| n.to_string()),
        digest(fabric, &tables),
    ];
    Ok((tables, row))
}

/// To see whether tables are the same (Fowler, Noll and Vo's hash).
fn digest(fabric: &Fabric, tables: &Tables) -> String {
    let bytes = fabric.dest_ids().flat_map(|d| tables.ports_to(d).iter().chain(tables.layers_to(d)));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3_u64)
    });
    format!("{hash:016x}")
}
