//! `sarouter bench`: OpenSM's engines and ours side by side, on the same fabrics, in one run; what jobs gain
//! in time; where the default engine is behind another.

mod adversary;
mod time;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use super::common::write_json;
use super::input;
use super::{Answer, Context, Failure, Format};
use crate::lab::DOCUMENTED;
use crate::lab::board::Summary;
use crate::lab::peers;
use crate::measure::measure;
use crate::model::{Demand, Fabric, LayerBudget, SwitchId};
use crate::observe::fabric;
use crate::report::Report;
use crate::route::fattree;
use crate::route::graph::Graph;
use crate::route::updown::{Distances, centre, histogram_roots};
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
    /// How long jobs' exchanges take, beside the best engine that knows no jobs
    Time(time::TimeArgs),
    /// Where an engine is behind another: fabrics, layers and jobs drawn by lot
    Adversary(adversary::AdversaryArgs),
}

/// Arguments of `bench peers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter bench peers --quick --engines dfsssp,nue,balanced

Prints a table per fabric as it is done: of two figures the first is OpenSM's. CPU seconds are
those of the engine alone, one thread. Needs Debian's opensm, ibsim-utils,
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
    /// Directory for OpenSM's tables: a directory for each fabric, by its place, with one for each engine, as of `route --out`
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// File for the rows as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const QUICK: usize = 4;
const DEFAULT_ENGINES: [&str; 10] =
    ["minhop", "updown", "fattree", "dor", "lash", "torus", "sssp", "dfsssp", "nue", "balanced"];
/// Virtual lanes of ibsim's ports.
const LAYERS: u8 = 8;

/// OpenSM's name of an engine; `None` if it has none like it.
fn opensm_name(ours: &str) -> Option<&str> {
    match ours {
        "updown" => Some("updn"),
        "downup" => Some("dnup"),
        "fattree" => Some("ftree"),
        "torus" => Some("torus-2QoS"),
        "minhop" | "dor" | "lash" | "sssp" | "dfsssp" | "nue" => Some(ours),
        _ => None,
    }
}

/// One engine on one fabric. Figures are null where there are no tables.
#[derive(Debug, JsonSchema, Serialize)]
struct PeerFigures {
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
#[derive(Debug, Default, JsonSchema, Serialize)]
struct Side {
    /// `routed`, or why not.
    answer: String,
    cpu_seconds: Option<f64>,
    peak_rss_bytes: Option<u64>,
    figures: Option<SideFigures>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct SideFigures {
    load_max: u64,
    load_mean: f64,
    mean_hops: f64,
    layers: u8,
    /// Whether the checker accepts host-to-host routes: all reached, no deadlock.
    accepted: bool,
    lower_bound: u64,
}

/// Schemas of what the benchmarks print.
pub(super) fn forms(shapes: &mut SchemaGenerator) -> Vec<Schema> {
    vec![
        shapes.subschema_for::<Vec<PeerFigures>>(),
        shapes.subschema_for::<Summary>(),
        shapes.subschema_for::<adversary::Report<'_>>(),
    ]
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let args = match args.what {
        What::Peers(args) => args,
        What::Time(args) => return time::run(&args, context),
        What::Adversary(args) => return adversary::run(&args, context),
    };
    for name in &args.engines {
        crate::route::engine(name, &crate::route::EngineOptions::default())?;
    }
    let count = if args.quick { QUICK } else { DOCUMENTED.len() };
    let default = || DOCUMENTED[..count].iter().map(ToString::to_string).collect();
    let specs: Vec<String> = if args.fabric.is_empty() { default() } else { args.fabric.clone() };
    watch_signals()?;
    let text = context.format == Format::Text;
    let mut rows = Vec::new();
    for (place, spec) in specs.iter().enumerate() {
        let fabric = fabric::load(spec)?;
        let first = rows.len();
        for engine in &args.engines {
            eprintln!("{engine} on {spec} …");
            let keep = args.keep.as_ref().map(|dir| dir.join((place + 1).to_string()).join(engine));
            rows.push(row(&args, spec, &fabric, engine, keep.as_deref())?);
        }
        if text {
            print(&table(spec, &rows[first..]))?;
        }
    }
    if let Some(path) = &args.out {
        write_json(path, &rows)?;
    }
    if !text {
        print(&(serde_json::to_string_pretty(&rows)? + "\n"))?;
    }
    Ok(Answer::Yes)
}

fn print(text: &str) -> Result<(), Failure> {
    super::common::say(format_args!("{text}"));
    match std::io::stdout().flush() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// SIGTERM and SIGINT end the run under way, which then removes its processes and files.
fn watch_signals() -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        });
        peers::stop();
    });
    Ok(())
}

fn row(
    args: &PeersArgs,
    spec: &str,
    fabric: &Fabric,
    engine: &str,
    keep: Option<&Path>,
) -> Result<PeerFigures, Failure> {
    let ours = ours(spec, engine)?;
    let deadline = Duration::from_secs(args.deadline);
    let opensm = opensm_name(engine).map(|name| theirs(fabric, name, deadline, keep)).transpose()?;
    let bounds = [Some(&ours), opensm.as_ref()].into_iter().flatten().filter_map(|s| s.figures.as_ref());
    let speedup = opensm.as_ref().filter(|t| t.figures.is_some() && ours.figures.is_some());
    let speedup = speedup.and_then(|t| Some(t.cpu_seconds? / ours.cpu_seconds?.max(1e-6)));
    let lower_bound = bounds.map(|f| f.lower_bound).max().unwrap_or(0);
    Ok(PeerFigures {
        fabric: spec.to_string(),
        engine: engine.to_string(),
        lower_bound,
        opensm,
        ours,
        speedup,
    })
}

/// Roots for OpenSM's `updn`: the top of a tree, of which it finds but a part where boards hide it;
/// elsewhere, if it finds none, the one of ours.
fn root(fabric: &Fabric) -> Vec<SwitchId> {
    let top = fattree::roots(fabric);
    if !top.is_empty() {
        return top;
    }
    let graph = Graph::new(fabric);
    let distances = Distances::new(&graph);
    let found = histogram_roots(&graph, &distances);
    if found.is_empty() { vec![graph.switch_id(centre(&graph, &distances))] } else { Vec::new() }
}

/// What OpenSM's engine answers.
fn asked(fabric: &Fabric, name: &str, deadline: Duration) -> Result<peers::PeerRouting, Failure> {
    let roots = if name == "updn" { root(fabric) } else { Vec::new() };
    let mut answer = peers::run(fabric, name, &roots, deadline)?;
    if name == "ftree" && matches!(answer, peers::PeerRouting::Failed { .. }) {
        // Told the roots, it does not ask for a pure fat tree; without any it would fail once more.
        let roots = fattree::roots(fabric);
        if !roots.is_empty() {
            answer = peers::run(fabric, name, &roots, deadline)?;
        }
    }
    Ok(answer)
}

/// OpenSM's engine.
fn theirs(fabric: &Fabric, name: &str, deadline: Duration, keep: Option<&Path>) -> Result<Side, Failure> {
    let routed = match asked(fabric, name, deadline)? {
        peers::PeerRouting::Deadline => {
            let answer = format!("> {} s", deadline.as_secs());
            return Ok(Side { answer, ..Side::default() });
        }
        peers::PeerRouting::Died => return Ok(Side { answer: "died".to_string(), ..Side::default() }),
        peers::PeerRouting::Failed { cpu_seconds } => {
            let cpu_seconds = Some(cpu_seconds);
            return Ok(Side { answer: "failed".to_string(), cpu_seconds, ..Side::default() });
        }
        peers::PeerRouting::Routed(routed) => routed,
    };
    if let Some(dir) = keep {
        // Hosts of one switch may differ in their layers: those of the first.
        input::write_tables(fabric, &routed.tables[0], dir)?;
    }
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
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.args(["compare", "--format", "json", "--threads", "1", "--fabric", spec, "--engines", engine]);
    command.arg("--layers").arg(LAYERS.to_string());
    let output = output(command)?;
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

/// What a process prints; it ends early with [`peers::stop`].
fn output(mut command: tokio::process::Command) -> Result<Output, Failure> {
    let stopped = async {
        while !peers::stopped() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        tokio::select! {
            output = command.kill_on_drop(true).output() => Ok(output?),
            () = stopped => Err(peers::PeerError::Stopped.into()),
        }
    })
}

/// The rows of one fabric as a table of Markdown: what docs/results/engines.md shows.
fn table(spec: &str, rows: &[PeerFigures]) -> String {
    let bound = rows.iter().map(|r| r.lower_bound).max().unwrap_or(0);
    let mut text = format!("**`{spec}`**; no tables have a max EFI below {}:\n\n", thousands(bound));
    text += "| engine | CPU s | speed-up | max EFI | mean EFI | layers | accepted | peak MiB |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|---:|\n";
    rows.iter().for_each(|row| text += &format!("| {} |\n", cells(row).join(" | ")));
    for row in rows.iter().filter(|r| r.ours.figures.is_none()) {
        text += &format!("\nOurs, {}: {}.\n", row.engine, row.ours.answer);
    }
    text + "\n"
}

/// A number with commas between groups of three digits.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn cells(row: &PeerFigures) -> Vec<String> {
    let both = |show: &dyn Fn(&Side) -> Option<String>| {
        let theirs = row.opensm.as_ref().map_or(Some("–".to_string()), show);
        let none = |side: Option<&Side>| side.map_or("–".to_string(), |s| s.answer.clone());
        let theirs = theirs.unwrap_or_else(|| none(row.opensm.as_ref()));
        format!("{theirs} / {}", show(&row.ours).unwrap_or_else(|| "–".to_string()))
    };
    let figure = |show: fn(&SideFigures) -> String| {
        both(&move |side: &Side| Some(side.figures.as_ref().map_or("–".to_string(), show)))
    };
    let seconds = |side: &Side| match &side.figures {
        Some(_) => side.cpu_seconds.map(|s| format!("{s:.4}")),
        None => Some(if side.answer.len() > 12 { "refused".to_string() } else { side.answer.clone() }),
    };
    vec![
        row.engine.clone(),
        both(&seconds),
        row.speedup.map_or("–".to_string(), |s| format!("{s:.1}×")),
        figure(|f| thousands(f.load_max)),
        figure(|f| format!("{:.1}", f.load_mean)),
        figure(|f| f.layers.to_string()),
        figure(|f| if f.accepted { "yes".to_string() } else { "no".to_string() }),
        both(&|side| Some(side.peak_rss_bytes.map_or("–".to_string(), |b| (b >> 20).to_string()))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_markdown_with_both_sides() {
        let figures = |load_max| SideFigures {
            load_max,
            load_mean: 12.25,
            mean_hops: 3.0,
            layers: 1,
            accepted: true,
            lower_bound: 1199,
        };
        let ours = Side {
            answer: "routed".to_string(),
            cpu_seconds: Some(0.004),
            peak_rss_bytes: Some(8 << 20),
            figures: Some(figures(10_890)),
        };
        let opensm = Some(Side { answer: "> 30 s".to_string(), ..Side::default() });
        let row = PeerFigures {
            fabric: "kary:10,3".to_string(),
            engine: "minhop".to_string(),
            lower_bound: 1199,
            opensm,
            ours,
            speedup: None,
        };
        let text = table("kary:10,3", &[row]);
        assert!(text.starts_with("**`kary:10,3`**; no tables have a max EFI below 1,199:\n\n| engine |"));
        let last = "| minhop | > 30 s / 0.0040 | – | – / 10,890 | – / 12.2 | – / 1 | – / yes | – / 8 |\n\n";
        assert!(text.ends_with(last), "{text}");
        assert_eq!([999, 1000, 1_234_567].map(thousands), ["999", "1,000", "1,234,567"]);
    }
}
