//! `sarouter survive matrix`: Table 4.3.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::network::{Network, torus_engines};
use crate::cli::html::Html;
use crate::cli::{Answer, Context, Failure, number};
use crate::model::LayerBudget;
use crate::report::align;
use crate::report::sheet::Sheet;
use crate::route;
use crate::simulate::Ended;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter survive matrix
  sarouter survive matrix --fabric torus:4x4,hosts=4 --engines dor,balanced
  sarouter survive matrix --fabric angara:4x4x4 --fabric site.toml

Direct tori are routed by engines of their own.

o: routed, and traffic found no deadlock; c: the same, but the checker finds a cycle in the channel
dependency graph, so other traffic may deadlock; d: deadlock seen; r: the engine cannot route it.
Traffic is uniform at full load and a full exchange.")]
pub struct Args {
    /// Fabrics; the eleven of Tables 4.2 and 4.3 unless given
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: Vec<String>,
    /// Engines, separated by commas; all unless given (on direct tori all but angara-genetic)
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    engines: Vec<String>,
    /// Virtual layers that may be used
    #[arg(long, value_name = "K", default_value = "8")]
    layers: LayerBudget,
    /// Nanoseconds of uniform traffic
    #[arg(long, value_name = "NS", default_value_t = 100_000.0, value_parser = number::above_zero)]
    time: f64,
    /// Messages of the exchange, in packets
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    packets: u32,
    #[command(flatten)]
    html: Html,
}

/// The fabrics of Table 4.2 (balanced) and the two systems of section 4.1, by the table's names.
pub const FABRICS: [(&str, &str); 11] = [
    ("2D mesh", "mesh:5x5,hosts=11,redundancy=6"),
    ("3D mesh", "mesh:3x3x3,hosts=10,redundancy=4"),
    ("2D torus", "torus:5x5,hosts=11,redundancy=6"),
    ("3D torus", "torus:3x3x3,hosts=10,redundancy=4"),
    ("Kautz", "kautz:2,4,hosts=11,redundancy=6"),
    ("k-ary n-tree", "kary:16,2,hosts=16"),
    ("XGFT", "xgft:1;22;11,hosts=12"),
    ("Dragonfly", "dragonfly:10,7,5,4"),
    ("Random", "random:32,256,256,seed=1"),
    ("Deimos", "deimos"),
    ("TSUBAME2", "tsubame2:rail=1"),
];

#[derive(Debug, Clone, JsonSchema, Serialize)]
pub(super) struct Cell {
    fabric: String,
    engine: String,
    /// `o`, `c`, `d` or `r`.
    result: char,
    /// Why it is `r`, or the first channel of the circle that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let own: Vec<(&str, &str)> = args.fabric.iter().map(|f| (f.as_str(), f.as_str())).collect();
    let fabrics = if own.is_empty() { FABRICS.to_vec() } else { own };
    let loaded = fabrics.iter().map(|(name, spec)| Ok((*name, Network::load(spec)?)));
    let networks: Vec<(&str, Network)> = loaded.collect::<Result<_, Failure>>()?;
    let tori = networks.iter().filter(|(_, network)| matches!(network, Network::Direct(_))).count();
    if tori > 0 && tori < networks.len() {
        return Err("a direct torus has engines of its own: not in one table with switched fabrics".into());
    }
    let engines: Vec<String> = match (args.engines.is_empty(), tori) {
        (false, _) => args.engines.clone(),
        (true, 0) => route::names().into_iter().map(String::from).collect(),
        (true, _) => torus_engines(),
    };
    engines.iter().try_for_each(|name| networks[0].1.knows(name))?;
    let bar = context.bar(fabrics.len() * engines.len(), "runs");
    let mut cells = Vec::new();
    for (name, network) in &networks {
        let row: Result<Vec<Cell>, String> = engines
            .par_iter()
            .map(|engine| {
                let cell = cell(name, network, engine, args).map_err(|e| e.to_string());
                bar.inc(1);
                cell
            })
            .collect();
        cells.push(row?);
    }
    bar.finish_and_clear();
    let mut lines = vec![std::iter::once("fabric".to_string()).chain(engines).collect::<Vec<_>>()];
    for ((name, _), row) in fabrics.iter().zip(&cells) {
        let results = row.iter().map(|c| c.result.to_string());
        lines.push(std::iter::once((*name).to_string()).chain(results).collect());
    }
    let cells = cells.concat();
    args.html.write(|| sheet(&cells, &lines))?;
    context.print(&cells, || align(&lines))?;
    Ok(Answer::Yes)
}

/// The page: of how many fabrics each engine's tables work.
fn sheet(cells: &[Cell], lines: &[Vec<String>]) -> Sheet {
    let works = |engine: &str| cells.iter().filter(|c| c.engine == engine && c.result == 'o').count();
    let bars: Vec<(String, f64)> =
        lines[0].iter().skip(1).map(|engine| (engine.clone(), works(engine) as f64)).collect();
    let fabrics = lines.len() - 1;
    let all: Vec<&str> = bars.iter().filter(|b| b.1 as usize == fabrics).map(|b| b.0.as_str()).collect();
    let verdict = match all.as_slice() {
        [] => format!("No engine routes all {fabrics} fabrics without deadlock."),
        all => format!("Routed without deadlock on all {fabrics} fabrics: {}.", all.join(", ")),
    };
    let reasons = cells.iter().filter_map(|c| {
        Some(vec![c.fabric.clone(), c.engine.clone(), c.result.to_string(), c.reason.clone()?])
    });
    let head = ["fabric", "engine", "", "why"].map(String::from).to_vec();
    Sheet {
        title: "Which engine routes which fabric".into(),
        verdict,
        lead: "o: accepted by the checker, no deadlock seen. c: its routes have a cycle, none closed in traffic. d: \
               deadlock in traffic. r: refused."
            .into(),
        tables: vec![
            ("Fabrics and engines".into(), lines.to_vec()),
            ("Why not".into(), std::iter::once(head).chain(reasons).collect()),
        ],
        json: serde_json::to_string_pretty(cells).unwrap_or_default(),
        for_whom: "Whoever chooses an engine for a fabric of such a kind, before it is built or after cables broke. On a \
                   fabric that your engine routes, it says nothing of time."
            .into(),
        ..Sheet::default()
    }
    .with_bars("Fabrics that an engine routes without deadlock", &bars, None)
}

fn cell(name: &str, network: &Network, engine: &str, args: &Args) -> Result<Cell, Failure> {
    let cell = |result, reason| Cell { fabric: name.to_string(), engine: engine.to_string(), result, reason };
    let made = match network.route(engine, args.layers)? {
        Ok(made) => made,
        Err(reason) => return Ok(cell('r', Some(reason))),
    };
    let outcome = network.loaded(&made, network.hardware(&[])?, args.packets, args.time)?;
    if outcome.ended == Ended::Deadlock {
        // The first channel of it.
        let channel = outcome.deadlock.first().map_or_else(String::new, |wait| wait.channel.clone());
        return Ok(cell('d', Some(channel)));
    }
    Ok(cell(if network.accepts(&made, args.layers) { 'o' } else { 'c' }, None))
}
