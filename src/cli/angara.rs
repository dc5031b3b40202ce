//! `sarouter angara sweep`: the paper's synthetic study (section 5.1, Figure 5).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use serde::Serialize;

use super::{Answer, Context, Failure, Format};
use crate::generate::rng::Rng;
use crate::measure::angara::measure;
use crate::model::{Torus, TorusBuilder, TorusDemand, TorusJob, Transit};
use crate::report::align;
use crate::report::cost::{cpu_seconds, peak_rss_bytes};
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
dimensions as asked. Writes sweep.csv and sweep.svg. The exit status is 1 if a table is rejected.")]
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
struct Curve {
    /// Largest system
    #[arg(long, default_value_t = 4096, value_name = "N")]
    max_nodes: usize,
    /// Engines, separated by commas
    #[arg(long, default_value = "angara-sssp,angara-sar")]
    engines: String,
}

/// One engine on one system.
#[derive(Debug, Clone, Serialize)]
struct Row {
    system: String,
    kind: String,
    dims: usize,
    nodes: usize,
    engine: String,
    max: u32,
    mean: f64,
    sigma4: f64,
    cpu_seconds: f64,
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
    let systems = systems(args);
    let bar = bar(systems.len() * engines.len(), context);
    let mut rows = Vec::new();
    for sizes in &systems {
        let torus = TorusBuilder::new(sizes)?.build()?;
        for name in &engines {
            rows.push(measured(&torus, &TorusDemand::whole(&torus), name, "healthy", true)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    fs::create_dir_all(&args.out)?;
    write(&args.out.join("sweep.csv"), &csv(&rows))?;
    write(&args.out.join("sweep.svg"), &svg(&rows, &engines))?;
    match context.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => print!("{}", groups(&rows, &engines)),
    }
    Ok(if rows.iter().all(|r| r.accepted) { Answer::Yes } else { Answer::No })
}

/// All 2D systems, then seeded samples of 3D and 4D without repetition (sorted sizes may repeat).
fn systems(args: &Sweep) -> Vec<Vec<usize>> {
    let mut systems: Vec<Vec<usize>> = (2..=8).flat_map(|x| (2..=8).map(move |y| vec![x, y])).collect();
    let mut rng = Rng::new(args.seed);
    for dims in [3, 4] {
        let wanted = systems.len() + args.samples;
        for _ in 0..args.samples * 1000 {
            let sizes: Vec<usize> = (0..dims).map(|_| 2 + rng.below(7)).collect();
            let small = sizes.iter().product::<usize>() <= args.max_nodes;
            if systems.len() < wanted && small && !systems.contains(&sizes) {
                systems.push(sizes);
            }
        }
    }
    systems
}

fn measured(
    torus: &Torus,
    demand: &TorusDemand,
    name: &str,
    kind: &str,
    check: bool,
) -> Result<Row, Failure> {
    let before = cpu_seconds();
    let tables = engine(name)?.route(torus, demand, &Limits::default())?;
    let cpu_seconds = cpu_seconds() - before;
    let figures = measure(torus, &tables, None);
    Ok(Row {
        system: torus.size_text(),
        kind: kind.to_string(),
        dims: torus.dims(),
        nodes: demand.jobs.iter().map(|j| j.nodes().len()).sum(),
        engine: name.to_string(),
        max: figures.max,
        mean: figures.mean,
        sigma4: figures.sigma4,
        cpu_seconds,
        accepted: !check || judge(torus, &tables, false).accepted,
    })
}

fn bar(steps: usize, context: &Context) -> ProgressBar {
    if context.format == Format::Json { ProgressBar::hidden() } else { ProgressBar::new(steps as u64) }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()).into())
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("system,kind,dims,nodes,engine,max,mean,sigma4,cpu_seconds,accepted\n");
    for r in rows {
        let Row { system, kind, dims, nodes, engine, max, mean, sigma4, cpu_seconds, accepted } = r;
        let _ = writeln!(
            text,
            "{system},{kind},{dims},{nodes},{engine},{max},{mean:.3},{sigma4:.4},{cpu_seconds:.5},{accepted}"
        );
    }
    text
}

/// Per number of dimensions, engine and group of Figure 5 (maximum less than, equal to, greater
/// than that of angara-bfs): systems, and total maximum as a share of angara-bfs and angara-sssp.
fn groups(rows: &[Row], engines: &[&str]) -> String {
    let mut lines =
        vec![["dims", "engine", "than bfs", "systems", "to bfs", "to sssp"].map(String::from).to_vec()];
    for dims in 2..=4 {
        for name in &engines[1..] {
            let all: Vec<[u64; 3]> = triples(rows, dims, name);
            let less: Vec<_> = all.iter().filter(|t| t[0] < t[1]).copied().collect();
            let equal: Vec<_> = all.iter().filter(|t| t[0] == t[1]).copied().collect();
            let greater: Vec<_> = all.iter().filter(|t| t[0] > t[1]).copied().collect();
            for (label, group) in [("less", less), ("equal", equal), ("greater", greater), ("all", all)] {
                let total = |i: usize| group.iter().map(|t| t[i]).sum::<u64>().max(1) as f64;
                lines.push(vec![
                    dims.to_string(),
                    name.to_string(),
                    label.into(),
                    group.len().to_string(),
                    format!("{:.3}", total(0) / total(1)),
                    format!("{:.3}", total(0) / total(2)),
                ]);
            }
        }
    }
    align(&lines)
}

/// Maxima of an engine, of angara-bfs and of angara-sssp, by system.
fn triples(rows: &[Row], dims: usize, name: &str) -> Vec<[u64; 3]> {
    let of = |name: &str| -> Vec<u64> {
        rows.iter().filter(|r| r.dims == dims && r.engine == name).map(|r| u64::from(r.max)).collect()
    };
    let others = of("angara-bfs").into_iter().zip(of("angara-sssp"));
    of(name).into_iter().zip(others).map(|(own, (bfs, sssp))| [own, bfs, sssp]).collect()
}

const COLOURS: [&str; 4] = ["#888888", "#1b6ca8", "#c0392b", "#27803b"];

/// Left: maximum load as a share of angara-bfs; right: CPU time. Both over nodes, logarithmic.
fn svg(rows: &[Row], engines: &[&str]) -> String {
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
const CUBES: [&[usize]; 12] = [
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
];

fn run_curve(args: &Curve, context: &Context) -> Result<Answer, Failure> {
    let mut rows = Vec::new();
    let head = ["system", "kind", "nodes", "engine", "CPU s", "max", "mean", "peak MB"];
    let mut lines = vec![head.map(String::from).to_vec()];
    for sizes in CUBES.iter().filter(|s| s.iter().product::<usize>() <= args.max_nodes) {
        for kind in ["healthy", "1% links", "half"] {
            let (torus, demand) = damaged(sizes, kind)?;
            for name in args.engines.split(',') {
                let row = measured(&torus, &demand, name, kind, false)?;
                lines.push(vec![
                    row.system.clone(),
                    kind.to_string(),
                    row.nodes.to_string(),
                    name.to_string(),
                    format!("{:.4}", row.cpu_seconds),
                    row.max.to_string(),
                    format!("{:.1}", row.mean),
                    (peak_rss_bytes() >> 20).to_string(),
                ]);
                rows.push(row);
            }
        }
    }
    match context.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => print!("{}", align(&lines)),
    }
    Ok(Answer::Yes)
}

fn damaged(sizes: &[usize], kind: &str) -> Result<(Torus, TorusDemand), Failure> {
    let mut builder = TorusBuilder::new(sizes)?;
    let mut rng = Rng::new(7);
    if kind == "1% links" {
        let mut cables = builder.links();
        rng.shuffle(&mut cables);
        for (at, direction) in cables.iter().take(cables.len() / 100) {
            builder.fail_link(*at, *direction)?;
        }
    }
    let torus = builder.build()?;
    let mut nodes = torus.healthy_nodes();
    if kind == "half" {
        rng.shuffle(&mut nodes);
        nodes.truncate(nodes.len() / 2);
    }
    Ok((torus, TorusDemand { jobs: vec![TorusJob::new(None, nodes)], transit: Transit::Any }))
}
