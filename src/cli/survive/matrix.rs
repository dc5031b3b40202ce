//! `sarouter survive matrix`: Table 4.3.

use rayon::prelude::*;
use serde::Serialize;

use crate::cli::simulate::hardware;
use crate::cli::{Answer, Context, Failure, Format};
use crate::model::{Demand, Fabric, LayerBudget, Pattern, Tables};
use crate::observe::fabric;
use crate::report::align;
use crate::route::{self, EngineOptions};
use crate::simulate::run::{self, Load, Windows};
use crate::simulate::traffic::open::Destinations;
use crate::simulate::traffic::script::Script;
use crate::simulate::{Ended, Net, Settings, TableRouter};
use crate::verify::judge;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter survive matrix
  sarouter survive matrix --fabric torus:4x4,hosts=4 --engines dor,balanced

o: routed, and traffic found no deadlock; c: so too, but the checker finds a circle in the channel
dependency graph, so other traffic may deadlock; d: deadlock seen; r: the engine cannot route it.
Traffic is uniform at full load and a full exchange.")]
pub struct Args {
    /// Fabrics; the eleven of Tables 4.2 and 4.3 unless given
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: Vec<String>,
    /// Engines, separated by commas; all unless given
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    engines: Vec<String>,
    /// Virtual layers that may be used
    #[arg(long, value_name = "K", default_value = "8")]
    layers: LayerBudget,
    /// Nanoseconds of uniform traffic
    #[arg(long, value_name = "NS", default_value_t = 100_000.0)]
    time: f64,
    /// Messages of the exchange, in packets
    #[arg(long, value_name = "N", default_value_t = 2)]
    packets: u32,
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

#[derive(Debug, Clone, Serialize)]
struct Cell {
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
    let engines: Vec<String> = if args.engines.is_empty() {
        route::names().into_iter().map(String::from).collect()
    } else {
        args.engines.clone()
    };
    for name in &engines {
        route::engine(name, &EngineOptions::default())?;
    }
    let bar = super::bar(fabrics.len() * engines.len());
    let mut cells = Vec::new();
    for (name, spec) in &fabrics {
        let fabric = fabric::load(spec)?;
        let row: Result<Vec<Cell>, String> = engines
            .par_iter()
            .map(|engine| {
                let cell = cell(name, &fabric, engine, args).map_err(|e| e.to_string());
                bar.inc(1);
                cell
            })
            .collect();
        cells.push(row?);
    }
    bar.finish_and_clear();
    match context.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&cells.concat())?),
        Format::Text => {
            let mut lines = vec![std::iter::once("fabric".to_string()).chain(engines).collect::<Vec<_>>()];
            for ((name, _), row) in fabrics.iter().zip(&cells) {
                let results = row.iter().map(|c| c.result.to_string());
                lines.push(std::iter::once((*name).to_string()).chain(results).collect());
            }
            print!("{}", align(&lines));
        }
    }
    Ok(Answer::Yes)
}

fn cell(name: &str, fabric: &Fabric, engine: &str, args: &Args) -> Result<Cell, Failure> {
    let cell = |result, reason| Cell { fabric: name.to_string(), engine: engine.to_string(), result, reason };
    let made = route::engine(engine, &EngineOptions::default())?;
    let tables = match made.route(fabric, &Demand::oblivious(), args.layers) {
        Ok(tables) => tables,
        Err(error) => return Ok(cell('r', Some(error.to_string()))),
    };
    if let Some(channel) = deadlock(fabric, &tables, args)? {
        return Ok(cell('d', Some(channel)));
    }
    let accepted = judge(fabric, &tables, args.layers).accepted;
    Ok(cell(if accepted { 'o' } else { 'c' }, None))
}

/// The first channel of a deadlock, if traffic finds one.
fn deadlock(fabric: &Fabric, tables: &Tables, args: &Args) -> Result<Option<String>, Failure> {
    let settings: Settings = hardware("qdr", &[])?;
    let net = Net::of_fabric(fabric);
    let router = TableRouter::new(fabric, &net, tables)?;
    let load = Load {
        members: net.hosts().to_vec(),
        destinations: Destinations::Uniform,
        bytes: settings.mtu,
        offered: None,
        windows: Windows::Given { warm_up_ns: 0.0, measure_ns: args.time },
        drain: true,
    };
    let uniform = run::load(&net, settings, &router, &load, 1)?;
    let bytes = settings.mtu * args.packets.max(1);
    let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, bytes, 0);
    let outcome = if uniform.ended == Ended::Deadlock {
        uniform
    } else {
        run::exchange(&net, settings, &router, script, 1)?
    };
    let seen = outcome.ended == Ended::Deadlock;
    Ok(seen.then(|| outcome.deadlock.first().map_or_else(String::new, |w| w.channel.clone())))
}
