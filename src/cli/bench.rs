//! `sarouter bench peers`: OpenSM's engines and ours side by side, on the same fabrics, in one run.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::{Answer, Context, Failure, Format};
use crate::measure::measure;
use crate::model::{Demand, Fabric, LayerBudget};
use crate::observe::fabric;
use crate::peers;
use crate::report::{Report, align};
use crate::verify::{Checks, judge_all};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// OpenSM on the fabric simulator ibsim, and the same engines of ours
    Peers(PeersArgs),
}

/// Arguments of `bench peers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter bench peers --quick --engines dfsssp,nue,balanced

CPU seconds are those of the engine alone, one thread. Needs Debian's opensm, ibsim-utils,
libopensm-dev and gcc.")]
struct PeersArgs {
    /// Fabrics; the six of the documentation unless given
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: Vec<String>,
    /// Our names of engines, separated by commas
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', default_values = DEFAULT_ENGINES)]
    engines: Vec<String>,
    /// Leave out the two big tori
    #[arg(long)]
    quick: bool,
    /// Seconds that one engine of OpenSM's may take
    #[arg(long, value_name = "S", default_value_t = 300)]
    deadline: u64,
    /// File for the rows as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const FABRICS: [&str; 6] = [
    "fattree:10x18,5",
    "kary:10,3,hosts=11",
    "random:125,1000,1000,seed=1",
    "dragonfly:12,6,6,15",
    "torus:8x8x8,hosts=4,faults=1%,seed=7",
    "torus:10x10x10,hosts=4,faults=1%,seed=7",
];
const QUICK: usize = 4;
const DEFAULT_ENGINES: [&str; 10] =
    ["minhop", "updown", "fattree", "dor", "lash", "torus", "sssp", "dfsssp", "nue", "balanced"];
/// Virtual lanes of ibsim's ports.
const LAYERS: u8 = 8;

/// OpenSM's name of an engine; `None` if it has none like it.
fn opensm_name(ours: &str) -> Option<&str> {
    match ours {
        "updown" => Some("updn"),
        "fattree" => Some("ftree"),
        "torus" => Some("torus-2QoS"),
        "minhop" | "dor" | "lash" | "sssp" | "dfsssp" | "nue" => Some(ours),
        _ => None,
    }
}

/// One engine on one fabric. Figures are null where there are no tables.
#[derive(Debug, Serialize)]
struct Row {
    fabric: String,
    engine: String,
    /// No tables have a smaller largest load.
    lower_bound: u64,
    opensm: Option<Side>,
    ours: Side,
    /// CPU time of OpenSM's engine in units of ours; both must have made tables.
    speedup: Option<f64>,
}

/// What one side did.
#[derive(Debug, Default, Serialize)]
struct Side {
    /// `routed`, or why not.
    answer: String,
    cpu_seconds: Option<f64>,
    peak_rss_bytes: Option<u64>,
    figures: Option<SideFigures>,
}

#[derive(Debug, Serialize)]
struct SideFigures {
    load_max: u64,
    load_mean: f64,
    mean_hops: f64,
    layers: u8,
    /// Whether the checker accepts host-to-host routes: all reached, no deadlock.
    accepted: bool,
    lower_bound: u64,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let What::Peers(args) = args.what;
    let count = if args.quick { QUICK } else { FABRICS.len() };
    let default = || FABRICS[..count].iter().map(ToString::to_string).collect();
    let specs: Vec<String> = if args.fabric.is_empty() { default() } else { args.fabric.clone() };
    let mut rows = Vec::new();
    for spec in &specs {
        let fabric = fabric::load(spec)?;
        for engine in &args.engines {
            tracing::info!("{engine} on {spec}");
            rows.push(row(&args, spec, &fabric, engine)?);
        }
    }
    let json = serde_json::to_string_pretty(&rows)?;
    if let Some(path) = &args.out {
        std::fs::write(path, format!("{json}\n")).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let mut stdout = std::io::stdout().lock();
    match context.format {
        Format::Json => writeln!(stdout, "{json}")?,
        Format::Text => write!(stdout, "{}", table(&rows))?,
    }
    Ok(Answer::Yes)
}

fn row(args: &PeersArgs, spec: &str, fabric: &Fabric, engine: &str) -> Result<Row, Failure> {
    let ours = ours(spec, engine)?;
    let deadline = Duration::from_secs(args.deadline);
    let opensm = opensm_name(engine).map(|name| theirs(fabric, name, deadline)).transpose()?;
    let bounds = [Some(&ours), opensm.as_ref()].into_iter().flatten().filter_map(|s| s.figures.as_ref());
    let speedup = opensm.as_ref().filter(|t| t.figures.is_some() && ours.figures.is_some());
    let speedup = speedup.and_then(|t| Some(t.cpu_seconds? / ours.cpu_seconds?.max(1e-6)));
    let lower_bound = bounds.map(|f| f.lower_bound).max().unwrap_or(0);
    Ok(Row { fabric: spec.to_string(), engine: engine.to_string(), lower_bound, opensm, ours, speedup })
}

/// OpenSM's engine.
fn theirs(fabric: &Fabric, name: &str, deadline: Duration) -> Result<Side, Failure> {
    let routed = match peers::run(fabric, name, &[], deadline)? {
        peers::Answer::Deadline => return Ok(Side { answer: "deadline".to_string(), ..Side::default() }),
        peers::Answer::Failed { cpu_seconds } => {
            let cpu_seconds = Some(cpu_seconds);
            return Ok(Side { answer: "failed".to_string(), cpu_seconds, ..Side::default() });
        }
        peers::Answer::Routed(routed) => routed,
    };
    let checks = Checks { hosts_only: true, ..Checks::default() };
    let verdict = judge_all(fabric, &routed.tables, LayerBudget::new(LAYERS.into())?, checks);
    let figures = measure(fabric, &routed.tables[0], &Demand::oblivious());
    let layers = routed.tables.iter().map(crate::model::Tables::layers_used).max().unwrap_or(0);
    Ok(Side {
        answer: "routed".to_string(),
        cpu_seconds: Some(routed.cpu_seconds),
        peak_rss_bytes: Some(routed.peak_rss_bytes),
        figures: Some(SideFigures {
            load_max: figures.load.max,
            load_mean: figures.load.mean,
            mean_hops: figures.paths.mean_hops,
            layers,
            accepted: verdict.accepted,
            lower_bound: figures.load.lower_bound,
        }),
    })
}

/// Our engine, on one thread, in a process of its own so that its memory can be told.
fn ours(spec: &str, engine: &str) -> Result<Side, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["compare", "--format", "json", "--threads", "1", "--fabric", spec, "--engines", engine]);
    let output = command.arg("--layers").arg(LAYERS.to_string()).output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Ok(Side { answer: message, ..Side::default() });
    }
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout)?;
    let row = rows.into_iter().next().ok_or("compare printed no row")?;
    if let Some(message) = row["refused"]["message"].as_str() {
        return Ok(Side { answer: message.to_string(), ..Side::default() });
    }
    let report: Report = serde_json::from_value(row)?;
    Ok(Side {
        answer: "routed".to_string(),
        cpu_seconds: Some(report.compute.cpu_seconds),
        peak_rss_bytes: Some(report.compute.peak_rss_bytes),
        figures: Some(SideFigures {
            load_max: report.load.max,
            load_mean: report.load.mean,
            mean_hops: report.paths.mean_hops,
            layers: report.layers.used,
            accepted: report.verdict.accepted,
            lower_bound: report.load.lower_bound,
        }),
    })
}

/// One block per fabric; of two numbers the first is OpenSM's.
fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for block in rows.chunk_by(|a, b| a.fabric == b.fabric) {
        let bound = block.iter().map(|r| r.lower_bound).max().unwrap_or(0);
        text += &format!("\n{}: no tables below {bound}; OpenSM's figure | ours\n", block[0].fabric);
        let head = ["engine", "CPU s", "speed-up", "max EFI", "mean EFI", "layers", "accepted", "peak MiB"];
        let mut lines = vec![head.map(String::from).to_vec()];
        lines.extend(block.iter().map(cells));
        text += &align(&lines);
        for row in block.iter().filter(|r| r.ours.figures.is_none()) {
            text += &format!("ours, {}: {}\n", row.engine, row.ours.answer);
        }
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let both = |show: &dyn Fn(&Side) -> Option<String>| {
        let theirs = row.opensm.as_ref().map_or(Some("–".to_string()), show);
        let none = |side: Option<&Side>| side.map_or("–".to_string(), |s| s.answer.clone());
        let theirs = theirs.unwrap_or_else(|| none(row.opensm.as_ref()));
        format!("{theirs} | {}", show(&row.ours).unwrap_or_else(|| "–".to_string()))
    };
    let figure = |show: fn(&SideFigures) -> String| both(&move |side: &Side| side.figures.as_ref().map(show));
    vec![
        row.engine.clone(),
        both(&|side| side.cpu_seconds.map(|s| format!("{s:.4}"))),
        row.speedup.map_or("–".to_string(), |s| format!("{s:.1}×")),
        figure(|f| f.load_max.to_string()),
        figure(|f| format!("{:.1}", f.load_mean)),
        figure(|f| f.layers.to_string()),
        figure(|f| if f.accepted { "yes".to_string() } else { "no".to_string() }),
        both(&|side| side.peak_rss_bytes.map(|b| (b >> 20).to_string())),
    ]
}
