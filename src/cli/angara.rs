//! `sarouter angara sweep`, the paper's synthetic study (section 5.1, Figure 5), and `sarouter angara curve`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::common::write_file;
use super::{Answer, Context, Failure};
use crate::measure::angara::{first_unroutable, lower_bound, measure};
use crate::model::rng::Rng;
use crate::model::{Torus, TorusBuilder, TorusDemand, TorusJob, Transit};
use crate::report::align;
use crate::report::cost::{cpu_seconds, forget_peak_rss, peak_rss_bytes};
use crate::route::angara::{Limits, engine};
use crate::verify::angara::judge;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    study: Study,
}

#[derive(Debug, clap::Subcommand)]
enum Study {
    /// Quality and run time of the engines on many tori, beside angara-bfs
    Sweep(Sweep),
    /// Run time and memory from 8 to 4,096 nodes: healthy, 1 % of the links failed, half the nodes
    Curve(Curve),
}

/// Arguments of the sweep.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter angara sweep --samples 20 --max-nodes 300 --out sweep

All 49 two-dimensional systems with sizes 2 to 8, and as many seeded samples of three and four
dimensions as asked (with --max-nodes 420 there are 339 systems of three dimensions). Writes
sweep.csv and sweep.svg. The exit status is 1 if a table is rejected.")]
struct Sweep {
    /// Systems drawn in three and in four dimensions
    #[arg(long, default_value_t = 20)]
    samples: usize,
    /// Largest system drawn
    #[arg(long, default_value_t = 300, value_name = "N")]
    max_nodes: usize,
    /// Seed of the draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Include angara-genetic (slow)
    #[arg(long)]
    genetic: bool,
    /// Directory for sweep.csv and sweep.svg
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Arguments of the curve.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sarouter angara curve --max-nodes 625")]
struct Curve {
    /// Largest system
    #[arg(long, default_value_t = 4096, value_name = "N")]
    max_nodes: usize,
    /// Engines, separated by commas
    #[arg(long, default_value = "angara-sssp,angara-sar")]
    engines: String,
}

/// One engine on one system.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub(super) struct SystemFigures {
    system: String,
    kind: String,
    dims: usize,
    nodes: usize,
    engine: String,
    max: u32,
    mean: f64,
    sigma4: f64,
    /// No table of legal minimal routes has a smaller maximum.
    lower_bound: u32,
    cpu_seconds: f64,
    /// Largest resident set while it was computed.
    peak_rss_bytes: u64,
    accepted: bool,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    match args.study {
        Study::Sweep(sweep) => run_sweep(&sweep, context),
        Study::Curve(curve) => run_curve(&curve, context),
    }
}

fn run_sweep(args: &Sweep, context: &Context) -> Result<Answer, Failure> {
    let mut engines = vec!["angara-bfs", "angara-sssp", "angara-sar"];
    if args.genetic {
        engines.push("angara-genetic");
    }
    // What is wrong with it is said before minutes have passed.
    fs::create_dir_all(&args.out)?;
    let systems = systems(args);
    let bar = context.bar(systems.len() * engines.len(), "tables");
    let mut rows = Vec::new();
    for sizes in &systems {
        let torus = TorusBuilder::new(sizes)?.build()?;
        let demand = TorusDemand::whole(&torus);
        let bound = lower_bound(&torus, &demand);
        for name in &engines {
            rows.push(measured(&torus, &demand, name, "healthy", bound)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    write_file(&args.out.join("sweep.csv"), csv(&rows).as_bytes())?;
    write_file(&args.out.join("sweep.svg"), svg(&rows, &engines).as_bytes())?;
    context.print(&rows, || groups(&rows, &engines))?;
    Ok(if rows.iter().all(|r| r.accepted) { Answer::Yes } else { Answer::No })
}

/// All 2D systems, then seeded samples of all 3D and 4D systems that are not too large, in order of
/// their sizes.
fn systems(args: &Sweep) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![vec![]];
    let mut systems = Vec::new();
    let mut rng = Rng::new(args.seed);
    for dims in 1..=4 {
        let longer = |sizes: &Vec<usize>| (2..=8).map(|d| [&sizes[..], &[d]].concat()).collect::<Vec<_>>();
        all = all.iter().flat_map(longer).collect();
        let mut drawn = all.clone();
        if dims > 2 {
            drawn.retain(|sizes| sizes.iter().product::<usize>() <= args.max_nodes);
            rng.shuffle(&mut drawn);
            drawn.truncate(args.samples);
            drawn.sort();
        }
        systems.extend(drawn.into_iter().filter(|_| dims > 1));
    }
    systems
}

fn measured(
    torus: &Torus,
    demand: &TorusDemand,
    name: &str,
    kind: &str,
    lower_bound: u32,
) -> Result<SystemFigures, Failure> {
    forget_peak_rss();
    let before = cpu_seconds();
    let tables = engine(name)?.route(torus, demand, &Limits::default())?;
    let (cpu_seconds, peak_rss_bytes) = (cpu_seconds() - before, peak_rss_bytes());
    let figures = measure(torus, &tables, None);
    Ok(SystemFigures {
        system: torus.size_text(),
        kind: kind.to_string(),
        dims: torus.dims(),
        nodes: demand.jobs.iter().map(|j| j.nodes().len()).sum(),
        engine: name.to_string(),
        max: figures.max,
        mean: figures.mean,
        sigma4: figures.sigma4,
        lower_bound,
        cpu_seconds,
        peak_rss_bytes,
        accepted: judge(torus, &tables, false).accepted,
    })
}

fn csv(rows: &[SystemFigures]) -> String {
    let mut text = String::from(
        "system,kind,dims,nodes,engine,max,lower_bound,mean,sigma4,cpu_seconds,peak_rss_bytes,accepted\n",
    );
    for r in rows {
        let SystemFigures { system, kind, dims, nodes, engine, max, lower_bound, accepted, .. } = r;
        let _ = write!(text, "{system},{kind},{dims},{nodes},{engine},{max},{lower_bound},");
        let _ = write!(text, "{:.3},{:.4},{:.5},", r.mean, r.sigma4, r.cpu_seconds);
        let _ = writeln!(text, "{},{accepted}", r.peak_rss_bytes);
    }
    text
}

/// Per number of dimensions, engine and group of Figure 5 (maximum less than, equal to, greater than that of
/// angara-bfs). Systems, total maximum as a share of angara-bfs, angara-sssp and the lower bounds, and systems where
/// it is the lower bound.
fn groups(rows: &[SystemFigures], engines: &[&str]) -> String {
    let head = ["dims", "engine", "than bfs", "systems", "to bfs", "to sssp", "to bound", "at bound"];
    let mut lines = vec![head.map(String::from).to_vec()];
    for dims in 2..=4 {
        for name in &engines[1..] {
            let all: Vec<[u64; 4]> = maxima(rows, dims, name);
            let less: Vec<_> = all.iter().filter(|t| t[0] < t[1]).copied().collect();
            let equal: Vec<_> = all.iter().filter(|t| t[0] == t[1]).copied().collect();
            let greater: Vec<_> = all.iter().filter(|t| t[0] > t[1]).copied().collect();
            for (label, group) in [("less", less), ("equal", equal), ("greater", greater), ("all", all)] {
                let total = |i: usize| group.iter().map(|t| t[i]).sum::<u64>().max(1) as f64;
                let mut line =
                    vec![dims.to_string(), name.to_string(), label.into(), group.len().to_string()];
                line.extend((1..4).map(|other| format!("{:.4}", total(0) / total(other))));
                line.push(group.iter().filter(|t| t[0] == t[3]).count().to_string());
                lines.push(line);
            }
        }
    }
    align(&lines)
}

/// Maxima of an engine, of angara-bfs, of angara-sssp, and the lower bound, by system.
fn maxima(rows: &[SystemFigures], dims: usize, name: &str) -> Vec<[u64; 4]> {
    let of = |name: &str| -> Vec<u64> {
        rows.iter().filter(|r| r.dims == dims && r.engine == name).map(|r| u64::from(r.max)).collect()
    };
    let bounds = rows.iter().filter(|r| r.dims == dims && r.engine == name).map(|r| u64::from(r.lower_bound));
    let others = of("angara-bfs").into_iter().zip(of("angara-sssp"));
    let own = of(name).into_iter().zip(others).zip(bounds);
    own.map(|((own, (bfs, sssp)), bound)| [own, bfs, sssp, bound]).collect()
}

const COLOURS: [&str; 4] = ["#888888", "#1b6ca8", "#c0392b", "#27803b"];

/// Left: maximum load as a share of angara-bfs; right: CPU time. Both over nodes, logarithmic.
fn svg(rows: &[SystemFigures], engines: &[&str]) -> String {
    let most = rows.iter().map(|r| r.nodes).max().unwrap_or(2) as f64;
    let x = |nodes: usize| 340.0 * (nodes as f64 / 4.0).ln() / (most / 4.0).ln().max(0.1);
    let mut body = String::new();
    for (number, name) in engines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let y = 40 + 16 * number;
        let _ = writeln!(body, "<text x=\"70\" y=\"{y}\" fill=\"{colour}\">{name}</text>");
        for r in rows.iter().filter(|r| r.engine == *name) {
            let bfs =
                rows.iter().find(|b| b.system == r.system && b.engine == "angara-bfs").map_or(1, |b| b.max);
            let ratio = f64::from(r.max) / f64::from(bfs.max(1));
            let decades = (r.cpu_seconds.max(1e-6).log10() + 6.0) / 8.0;
            for (left, share) in
                [(60.0, (ratio - 0.4).clamp(0.0, 0.8) / 0.8), (480.0, decades.clamp(0.0, 1.0))]
            {
                let (cx, cy) = (left + x(r.nodes), 360.0 - 260.0 * share);
                let _ = writeln!(
                    body,
                    "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"2.5\" fill=\"{colour}\" fill-opacity=\"0.7\"/>"
                );
            }
        }
    }
    for (left, labels) in [(60, ["0.4", "0.8", "1.2"]), (480, ["1 µs", "10 ms", "100 s"])] {
        for (i, label) in labels.iter().enumerate() {
            let y = 360 - 130 * i;
            let _ = writeln!(body, "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{label}</text>", left - 6);
            let _ = writeln!(body, "<path d=\"M{left} {y}h340\" stroke=\"#ddd\"/>");
        }
        let _ = writeln!(body, "<text x=\"{left}\" y=\"378\">4 nodes</text>");
        let _ =
            writeln!(body, "<text x=\"{}\" y=\"378\" text-anchor=\"end\">{most} nodes</text>", left + 340);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 840 390\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<text x=\"60\" y=\"20\">Largest channel load as a share of angara-bfs</text>\n\
         <text x=\"480\" y=\"20\">CPU time</text>\n{body}</svg>\n"
    )
}

/// Cubes in three and four dimensions, from 8 nodes up.
const CUBES: [&[usize]; 13] = [
    &[2, 2, 2],
    &[3, 3, 3],
    &[4, 4, 4],
    &[3, 3, 3, 3],
    &[5, 5, 5],
    &[6, 6, 6],
    &[4, 4, 4, 4],
    &[8, 8, 8],
    &[5, 5, 5, 5],
    &[10, 10, 10],
    &[6, 6, 6, 6],
    &[16, 16, 16],
    &[8, 8, 8, 8],
];

fn run_curve(args: &Curve, context: &Context) -> Result<Answer, Failure> {
    let mut rows = Vec::new();
    let head =
        ["system", "kind", "nodes", "engine", "CPU s", "max", "at least", "mean", "peak MiB", "B/route"];
    let mut lines = vec![head.map(String::from).to_vec()];
    for sizes in CUBES.iter().filter(|s| s.iter().product::<usize>() <= args.max_nodes) {
        for kind in [Damage::None, Damage::Links(100), Damage::Half] {
            let (torus, demand, kind) = damaged(sizes, kind)?;
            let bound = lower_bound(&torus, &demand);
            for name in args.engines.split(',') {
                let row = measured(&torus, &demand, name, &kind, bound)?;
                let routes = (row.nodes * row.nodes.saturating_sub(1)).max(1);
                lines.push(vec![
                    row.system.clone(),
                    kind.clone(),
                    row.nodes.to_string(),
                    name.to_string(),
                    format!("{:.4}", row.cpu_seconds),
                    row.max.to_string(),
                    row.lower_bound.to_string(),
                    format!("{:.1}", row.mean),
                    (row.peak_rss_bytes >> 20).to_string(),
                    // Of smaller ones the program itself takes most.
                    if routes < 100_000 {
                        "-".into()
                    } else {
                        (row.peak_rss_bytes / routes as u64).to_string()
                    },
                ]);
                rows.push(row);
            }
        }
    }
    context.print(&rows, || format!("{}{}", align(&lines), growth(&rows, &args.engines)))?;
    Ok(if rows.iter().all(|r| r.accepted) { Answer::Yes } else { Answer::No })
}

/// Exponents of the growth with the nodes, from 64 on, by least squares in logarithms.
fn growth(rows: &[SystemFigures], engines: &str) -> String {
    let mut lines =
        vec![["engine", "kind", "CPU grows as nodes^", "memory as nodes^"].map(String::from).to_vec()];
    for name in engines.split(',') {
        for kind in ["healthy", "links", "half"] {
            let all = || rows.iter().filter(|r| r.engine == name && r.kind.ends_with(kind) && r.nodes >= 64);
            if all().count() > 2 {
                let time = slope(all().map(|r| (r.nodes as f64, r.cpu_seconds)));
                // Below some MiB the program itself is measured.
                let large = || all().filter(|r| r.peak_rss_bytes > 16 << 20);
                let memory = slope(large().map(|r| (r.nodes as f64, r.peak_rss_bytes as f64)));
                let memory = if large().count() > 2 { format!("{memory:.2}") } else { "-".into() };
                lines.push(vec![name.into(), kind.into(), format!("{time:.2}"), memory]);
            }
        }
    }
    align(&lines)
}

fn slope(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let logs: Vec<(f64, f64)> = points.map(|(x, y)| (x.ln(), y.max(1e-9).ln())).collect();
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / logs.len().max(1) as f64;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    mean(&|p| (p.0 - x) * (p.1 - y)) / mean(&|p| (p.0 - x).powi(2))
}

/// What is wrong with a system of the curve.
#[derive(Clone, Copy)]
enum Damage {
    None,
    /// One link in so many has failed.
    Links(usize),
    /// A job on a random half of the nodes, over which others forward.
    Half,
}

/// Links fail at random such that every pair can still be routed; if ten draws do not give that,
/// half as many fail.
fn damaged(sizes: &[usize], damage: Damage) -> Result<(Torus, TorusDemand, String), Failure> {
    let mut rng = Rng::new(7);
    let whole = |torus: &Torus| TorusDemand { transit: Transit::Any, ..TorusDemand::whole(torus) };
    let torus = TorusBuilder::new(sizes)?.build()?;
    match damage {
        Damage::None => Ok((torus.clone(), whole(&torus), "healthy".into())),
        Damage::Half => {
            let mut nodes = torus.healthy_nodes();
            rng.shuffle(&mut nodes);
            nodes.truncate(nodes.len() / 2);
            let demand = TorusDemand { jobs: vec![TorusJob::new(None, nodes)], transit: Transit::Any };
            Ok((torus, demand, "half".into()))
        }
        Damage::Links(one_in) => {
            for _ in 0..10 {
                let mut builder = TorusBuilder::new(sizes)?;
                let mut cables = builder.links();
                rng.shuffle(&mut cables);
                for (at, direction) in cables.iter().take(cables.len() / one_in) {
                    builder.fail_link(*at, *direction)?;
                }
                let torus = builder.build()?;
                let demand = whole(&torus);
                if first_unroutable(&torus, &demand).is_none() {
                    let share = 100.0 / one_in as f64;
                    return Ok((torus, demand, format!("{share} % links")));
                }
            }
            damaged(sizes, Damage::Links(2 * one_in))
        }
    }
}
