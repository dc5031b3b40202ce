//! `sarouter survive lost`: Figure 4.2.

use std::collections::BTreeSet;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::damage::{DAMAGED_FABRICS, Damage, Level};
use super::direct;
use crate::cli::html::Html;
use crate::cli::input::{self, Source, none_on_switches};
use crate::cli::{Answer, Context, Failure};
use crate::lab::generate::faults::{Amount, FaultError};
use crate::measure::{channel_loads, lost_pairs};
use crate::model::{Fabric, Tables};
use crate::observe::torus_toml::is_torus;
use crate::report::align;
use crate::report::sheet::Sheet;
use crate::route::EngineOptions;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter survive lost --fabric kary:10,3,hosts=11 \\
      --engines dfsssp,fattree,updown --faults 1,2,5,10,20 --seeds 100
  sarouter survive lost --fabric site.toml --jobs jobs.txt

On a direct torus each link and each node is lost alone.")]
pub struct Args {
    #[command(flatten)]
    pub(super) source: Source,
    /// Engines, separated by commas [default: dfsssp,updown,balanced; on a direct torus
    /// angara-balanced,angara-sar]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    engines: Vec<String>,
    #[command(flatten)]
    pub(super) damage: Damage,
    /// Direct torus: nodes that may forward a job's packets [default: what the description says, else job
    /// with --jobs and any without]
    #[arg(long, value_name = "job|any")]
    pub(super) transit: Option<String>,
    #[command(flatten)]
    pub(super) html: Html,
}

impl Args {
    /// Those named, else the usual ones.
    pub(super) fn engines(&self, usual: &[&str]) -> Vec<String> {
        match self.engines.is_empty() {
            true => usual.iter().map(|name| name.to_string()).collect(),
            false => self.engines.clone(),
        }
    }
}

/// Share of connections lost, over the seeds, and what Proposition 4.2 says.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct LostConnections {
    engine: String,
    #[serde(flatten)]
    level: Level,
    /// Least, first quartile, median, third quartile, most.
    lost: [f64; 5],
    mean: f64,
    expected: f64,
}

pub fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    if is_torus(&args.source.fabric) {
        return direct::run(args, context);
    }
    none_on_switches(&[("--transit", args.transit.is_some())])?;
    let input = args.source.load()?;
    let counts = [input.fabric.channels().len() / 2, input.fabric.switches().len()];
    let engines = args.engines(&["dfsssp", "updown", "balanced"]);
    let levels = args.damage.levels(counts, &[1, 2, 5, 10, 20].map(Amount::Count))?;
    let levels = args.damage.bearable(&input.fabric, levels);
    let bar = context.bar(engines.len() * levels.len(), "runs");
    let mut rows = Vec::new();
    for name in &engines {
        let tables = input::route(name, &EngineOptions::default(), &input).answer?;
        let pairs = pairs(&input.fabric, &tables);
        for level in &levels {
            let one = |seed| Ok(lost(&input.fabric, &tables, *level, seed)? / pairs);
            let seeds = 1..=args.damage.seeds;
            let found: Result<Vec<f64>, FaultError> =
                args.source.in_pool(|| seeds.into_par_iter().map(one).collect())?;
            let mut found = found?;
            found.sort_by(f64::total_cmp);
            rows.push(LostConnections {
                engine: name.clone(),
                level: *level,
                lost: [0, 1, 2, 3, 4].map(|q| found[q * (found.len() - 1) / 4]),
                mean: found.iter().sum::<f64>() / found.len() as f64,
                expected: expected(&input.fabric, &tables, *level, pairs),
            });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let lines = cells(&rows);
    args.html.write(|| sheet(&rows, &lines))?;
    context.print(&rows, || align(&lines))?;
    Ok(Answer::Yes)
}

fn lost(fabric: &Fabric, tables: &Tables, level: Level, seed: u64) -> Result<f64, FaultError> {
    let damaged = level.with(seed).apply(fabric)?;
    let switches: BTreeSet<_> = damaged.switches().iter().map(|s| s.guid).collect();
    let channels: BTreeSet<_> =
        damaged.channels().iter().map(|c| (damaged.switch(c.from).guid, c.from_port)).collect();
    let dead: Vec<bool> = fabric.switches().iter().map(|s| !switches.contains(&s.guid)).collect();
    let gone = |c: &crate::model::Channel| !channels.contains(&(fabric.switch(c.from).guid, c.from_port));
    let cut: Vec<bool> = fabric.channels().iter().map(gone).collect();
    Ok(lost_pairs(fabric, tables, &cut, &dead) as f64)
}

/// Ordered pairs of hosts that have a route: what is lost if everything is.
fn pairs(fabric: &Fabric, tables: &Tables) -> f64 {
    let all = (vec![true; fabric.channels().len()], vec![true; fabric.switches().len()]);
    lost_pairs(fabric, tables, &all.0, &all.1).max(1) as f64
}

/// Proposition 4.2: n faults cut n times the mean number of routes over a cable, both directions.
/// For switches, what passes a switch or ends there: a route of h channels has h + 1 switches.
fn expected(fabric: &Fabric, tables: &Tables, level: Level, pairs: f64) -> f64 {
    let load: u64 = channel_loads(fabric, tables).iter().sum();
    let cables = (fabric.channels().len() / 2).max(1) as f64;
    let by_cables = level.cables as f64 * load as f64 / cables;
    let by_switches = level.switches as f64 * (load as f64 + pairs) / fabric.switches().len().max(1) as f64;
    ((by_cables + by_switches) / pairs).min(1.0)
}

/// The page: what a fault costs until the tables are made anew.
fn sheet(rows: &[LostConnections], lines: &[Vec<String>]) -> Sheet {
    let bar = |r: &LostConnections| (format!("{}, {}", r.engine, r.level), 100.0 * r.mean);
    let bars: Vec<(String, f64)> = rows.iter().map(bar).collect();
    let least = rows.iter().map(|r| r.level.faults()).min();
    let first = rows.iter().filter(|r| Some(r.level.faults()) == least);
    let best = first.min_by(|a, b| a.mean.total_cmp(&b.mean));
    let verdict = best.map(|r| {
        format!(
            "With {} {} cut {:.2} % of all connections until the tables are made anew, the least of these engines; at most \
             {:.2} % in one draw.",
            r.engine,
            r.level,
            100.0 * r.mean,
            100.0 * r.lost[4]
        )
    });
    Sheet {
        title: "Connections lost to faults".into(),
        verdict: verdict.unwrap_or_default(),
        lead: "Share of ordered pairs of hosts whose route passes a cable or a switch that failed, tables as before. Prop. \
               4.2: what the thesis' proposition expects."
            .into(),
        tables: vec![("Lost connections".into(), lines.to_vec())],
        json: serde_json::to_string_pretty(rows).unwrap_or_default(),
        for_whom: DAMAGED_FABRICS.into(),
        ..Sheet::default()
    }
    .with_bars("Mean of lost connections, %", &bars, None)
}

fn cells(rows: &[LostConnections]) -> Vec<Vec<String>> {
    let head =
        ["engine", "cables", "switches", "least", "25 %", "median", "75 %", "most", "mean", "Prop. 4.2"];
    let mut lines = vec![head.map(String::from).to_vec()];
    let percent = |v: f64| format!("{:.3} %", 100.0 * v);
    for r in rows {
        let mut line = vec![r.engine.clone(), r.level.cables.to_string(), r.level.switches.to_string()];
        line.extend(r.lost.map(percent));
        line.extend([r.mean, r.expected].map(percent));
        lines.push(line);
    }
    lines
}
