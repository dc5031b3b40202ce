//! `sarouter survive throughput`: Tables 4.4 to 4.6, and the advice of section 4.4.2.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::advice::{Advice, Candidate, advise};
use super::damage::{DAMAGED_FABRICS, Damage, Level};
use super::network::{Network, torus_engines};
use crate::cli::common::write_json;
use crate::cli::html::Html;
use crate::cli::{Answer, Context, Failure, Format, number};
use crate::lab::generate::faults::Amount;
use crate::lab::replay::files::Shard;
use crate::model::LayerBudget;
use crate::report::align;
use crate::report::sheet::{Cells, Sheet};
use crate::simulate::stats::{Line, mean_ci95, regression};
use crate::simulate::{Ended, Settings};

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:
  sarouter survive throughput --fabric random:32,256,256,seed=1 \\
      --engines dfsssp,updown,balanced --faults 0,1%,3%,5%,10% \\
      --seeds 10 --out survive
  sarouter survive throughput --fabric tsubame2:rail=1 \\
      --engines dfsssp,fattree --faults 0,2%,4% --what 1:13 --out survive

Each run is a line of runs.jsonl as soon as it is done: the same command goes on where it stopped.

With --shard I/N every N-th run is done, into runs-I-of-N.jsonl. Shards may share a directory; the
command without --shard then finds their runs done. As a Slurm array:
  sbatch --array=1-10 --wrap 'sarouter survive throughput --fabric site.net \\
      --engines dfsssp,updown --faults 0,1%,3% --threads 1 --out survive \\
      --shard $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT'
  sarouter survive throughput --fabric site.net --engines dfsssp,updown \\
      --faults 0,1%,3% --out survive")]
pub struct Args {
    /// Fabric: a file or a spec, a direct torus too
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: String,
    /// Engines, separated by commas [default: dfsssp,lash,updown,minhop,balanced; on a direct torus all but
    /// angara-genetic]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    engines: Vec<String>,
    #[command(flatten)]
    damage: Damage,
    /// Virtual layers that may be used
    #[arg(long, value_name = "K", default_value = "8")]
    layers: LayerBudget,
    /// Packets per message: 10 up to 300 hosts, else 1 (as in section 4.3.3.2), unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    packets: Option<u32>,
    /// Change a figure of the hardware (QDR, or Angara on a direct torus); may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Only every N-th run, beginning with the I-th (from 1), and no report
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Directory for runs.jsonl and survive.json
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Threads; all processors unless given
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::threads)]
    threads: usize,
    #[command(flatten)]
    html: Html,
}

/// The engines of a switched fabric if none is named.
const USUAL: [&str; 5] = ["dfsssp", "lash", "updown", "minhop", "balanced"];

/// One damaged fabric, routed and loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Run {
    fabric: String,
    /// Of the fabric before damage. Lines without it may be of another one that had the name.
    #[serde(default)]
    fingerprint: String,
    engine: String,
    #[serde(flatten)]
    level: Level,
    seed: u64,
    packets: u32,
    layers: u8,
    set: Vec<String>,
    /// Gbyte/s by Equation 4.2; `None` if there was none.
    throughput: Option<f64>,
    /// `deadlock`, or why the engine made no tables.
    failed: Option<String>,
}

/// Something to do: engine, level, seed.
type Task = (String, Level, u64);

pub fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let network = Network::load(&args.fabric)?;
    let settings = network.hardware(&args.set)?;
    let named = !args.engines.is_empty();
    let usual = match network {
        Network::Switched(_) => USUAL.map(String::from).to_vec(),
        Network::Direct(_) => torus_engines(),
    };
    let args = &Args { engines: if named { args.engines.clone() } else { usual }, ..args.clone() };
    args.engines.iter().try_for_each(|name| network.knows(name))?;
    let default = [0.0, 1.0, 3.0, 5.0, 10.0].map(Amount::Percent);
    let levels = network.bearable(&args.damage, args.damage.levels(network.parts(), &default)?);
    let packets = args.packets.unwrap_or(if network.hosts() <= 300 { 10 } else { 1 });
    let fingerprint = network.fingerprint();
    let is_ours = |run: &Run| is_of(run, args, packets) && run.fingerprint == fingerprint;
    fs::create_dir_all(&args.out).map_err(|e| format!("{}: {e}", args.out.display()))?;
    let path = match args.shard {
        Some(Shard { index, of }) => args.out.join(format!("runs-{index}-of-{of}.jsonl")),
        None => args.out.join("runs.jsonl"),
    };
    end_last_line(&path)?;
    let runs = read(&args.out)?;
    let tasks: Vec<Task> =
        tasks(args, &levels).into_iter().filter(|t| !runs.iter().any(|r| is_ours(r) && same(r, t))).collect();
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = Mutex::new(file.map_err(|e| format!("{}: {e}", path.display()))?);
    let bar = context.bar(tasks.len(), "runs");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads).build()?;
    let done: Result<(), String> = pool.install(|| {
        let one = |task: &Task| {
            let run = measured(&network, args, settings, packets, task).map_err(|e| e.to_string())?;
            append(&file, &run).map_err(|e| format!("{}: {e}", path.display()))?;
            bar.inc(1);
            Ok(())
        };
        tasks.par_iter().with_max_len(1).try_for_each(one)
    });
    bar.finish_and_clear();
    done?;
    if args.shard.is_some() {
        if context.format == Format::Json {
            println!("{}", serde_json::to_string_pretty(&Part { path, done: tasks.len() })?);
        }
        return Ok(Answer::Yes);
    }
    // What was read back may differ in the last bit from what was written: all runs are read back.
    let mut runs = read(&args.out)?;
    runs.retain(|r| is_ours(r) && levels.contains(&r.level) && args.engines.contains(&r.engine));
    // The order in which runs were done must not reach the sums.
    runs.sort_by(|a, b| (&a.engine, a.level.faults(), a.seed).cmp(&(&b.engine, b.level.faults(), b.seed)));
    runs.dedup_by(|a, b| (&a.engine, a.level, a.seed) == (&b.engine, b.level, b.seed));
    finish(args, &runs, context)
}

/// All runs in a fixed order, or a shard of them. Undamaged, all seeds are the same.
fn tasks(args: &Args, levels: &[Level]) -> Vec<Task> {
    let mut all = Vec::new();
    for level in levels {
        for seed in 1..=if level.faults() == 0 { 1 } else { args.damage.seeds } {
            all.extend(args.engines.iter().map(|e| (e.clone(), *level, seed)));
        }
    }
    match args.shard {
        Some(shard) => shard.of(all),
        None => all,
    }
}

fn is_of(run: &Run, args: &Args, packets: u32) -> bool {
    run.fabric == args.fabric
        && run.packets == packets
        && run.layers == args.layers.get()
        && run.set == args.set
}

fn same(run: &Run, task: &Task) -> bool {
    run.engine == task.0 && run.level == task.1 && run.seed == task.2
}

/// Cuts off a last line without end: it was being written when an earlier call died.
fn end_last_line(path: &Path) -> Result<(), Failure> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(format!("{}: {e}", path.display()).into()),
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    Ok(())
}

/// Runs of earlier calls and of other shards, whose last line may be on its way.
fn read(directory: &Path) -> Result<Vec<Run>, Failure> {
    let entries = fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut paths = entries.map(|e| Ok(e?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    let mut runs = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !(name.starts_with("runs") && name.ends_with(".jsonl")) {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        for (i, line) in text[..text.rfind('\n').map_or(0, |end| end + 1)].lines().enumerate() {
            let run = serde_json::from_str(line).map_err(|e| format!("{}:{}: {e}", path.display(), i + 1))?;
            runs.push(run);
        }
    }
    Ok(runs)
}

fn append(file: &Mutex<File>, run: &Run) -> std::io::Result<()> {
    let line = serde_json::to_string(run)? + "\n";
    let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    file.write_all(line.as_bytes())
}

fn measured(
    network: &Network,
    args: &Args,
    settings: Settings,
    packets: u32,
    (engine, level, seed): &Task,
) -> Result<Run, Failure> {
    let mut run = Run {
        fabric: args.fabric.clone(),
        fingerprint: network.fingerprint(),
        engine: engine.clone(),
        level: *level,
        seed: *seed,
        packets,
        layers: args.layers.get(),
        set: args.set.clone(),
        throughput: None,
        failed: None,
    };
    let damaged = network.damaged(*level, *seed)?;
    match damaged.route(engine, args.layers)? {
        Err(reason) => run.failed = Some(reason),
        Ok(made) => {
            let outcome = damaged.exchange(&made, settings, packets)?;
            if outcome.ended == Ended::Deadlock {
                run.failed = Some("deadlock".into());
            } else {
                run.throughput = Some(outcome.throughput);
            }
        }
    }
    Ok(run)
}

/// One engine at one level.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct LevelThroughput {
    engine: String,
    #[serde(flatten)]
    level: Level,
    runs: usize,
    failed: usize,
    /// Of the runs that worked; null if none did.
    mean: Option<f64>,
    /// Half of the 95 % confidence interval; null if fewer than two worked.
    ci95: Option<f64>,
}

/// One engine over all levels.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Summary {
    engine: String,
    #[serde(flatten)]
    line: Option<Line>,
    fails_at: Option<usize>,
}

/// What is printed of a part.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Part {
    /// Where its runs are.
    path: PathBuf,
    /// Runs that were not there before.
    done: usize,
}

/// What is printed, and kept as `survive.json`.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Told<'a> {
    fabric: &'a str,
    rows: &'a [LevelThroughput],
    regression: &'a [Summary],
    advice: &'a [Advice],
}

fn finish(args: &Args, runs: &[Run], context: &Context) -> Result<Answer, Failure> {
    let mut by: BTreeMap<(usize, usize, usize), Vec<&Run>> = BTreeMap::new();
    for r in runs {
        let engine = args.engines.iter().position(|e| *e == r.engine).unwrap_or(0);
        by.entry((engine, r.level.faults(), r.level.switches)).or_default().push(r);
    }
    let row = |group: &Vec<&Run>| {
        let values: Vec<f64> = group.iter().filter_map(|r| r.throughput).collect();
        let (mean, ci95) = (!values.is_empty()).then(|| mean_ci95(&values)).unzip();
        let ci95 = ci95.flatten();
        let (engine, level) = (group[0].engine.clone(), group[0].level);
        LevelThroughput { engine, level, runs: group.len(), failed: group.len() - values.len(), mean, ci95 }
    };
    let rows: Vec<LevelThroughput> = by.values().map(row).collect();
    let summary = |engine: &String| {
        let own = runs.iter().filter(|r| r.engine == *engine);
        let mut points: Vec<(f64, f64)> =
            own.clone().filter_map(|r| Some((r.level.faults() as f64, r.throughput?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let fails_at = own.filter(|r| r.failed.is_some()).map(|r| r.level.faults()).min();
        Summary { engine: engine.clone(), line: regression(&points), fails_at }
    };
    let summaries: Vec<Summary> = args.engines.iter().map(summary).collect();
    let candidate =
        |s: &Summary| Some(Candidate { engine: s.engine.clone(), line: s.line?, fails_at: s.fails_at });
    let candidates: Vec<Candidate> = summaries.iter().filter_map(candidate).collect();
    let advice = advise(&candidates, runs.iter().map(|r| r.level.faults()).max().unwrap_or(0));
    let told = Told { fabric: &args.fabric, rows: &rows, regression: &summaries, advice: &advice };
    write_json(&args.out.join("survive.json"), &told)?;
    let (lines, second) = (levels(&rows), regressions(&summaries));
    args.html.write(|| {
        let tables =
            vec![("Throughput by damage".into(), lines.clone()), ("Regression".into(), second.clone())];
        sheet(&told, tables)
    })?;
    context.print(&told, || [align(&lines), align(&second), in_words(&advice)].join("\n"))?;
    Ok(Answer::Yes)
}

/// The page: which engine to run at which damage.
fn sheet(told: &Told<'_>, tables: Vec<Cells>) -> Sheet {
    let Told { fabric, rows, advice, .. } = told;
    let bar = |r: &LevelThroughput| Some((format!("{}, {}", r.engine, r.level), r.mean?));
    let bars: Vec<(String, f64)> = rows.iter().filter_map(bar).collect();
    let verdict = match *advice {
        [] => "No engine works at any of these levels of damage.".to_string(),
        advice => in_words(advice).trim().replace('\n', "; ") + ".",
    };
    Sheet {
        title: "Throughput of a damaged fabric".into(),
        verdict,
        lead: format!(
            "{fabric}, a full exchange in the packet simulator, Gbyte/s by Equation 4.2 of the thesis. An engine is advised \
             where its line is the highest and no run failed, if the 95 % intervals of the lines tell it from others."
        ),
        tables,
        json: serde_json::to_string_pretty(told).unwrap_or_default(),
        for_whom: DAMAGED_FABRICS.into(),
        ..Sheet::default()
    }
    .with_bars("Gbyte/s, mean of the runs that worked", &bars, None)
}

fn levels(rows: &[LevelThroughput]) -> Vec<Vec<String>> {
    let head = ["engine", "cables", "switches", "runs", "failed", "Gbyte/s", "± 95 %"];
    let mut lines = vec![head.map(String::from).to_vec()];
    let figure = |f: Option<f64>| f.map_or("-".into(), |f| format!("{f:.2}"));
    for r in rows {
        lines.push(vec![
            r.engine.clone(),
            r.level.cables.to_string(),
            r.level.switches.to_string(),
            r.runs.to_string(),
            r.failed.to_string(),
            figure(r.mean),
            figure(r.ci95),
        ]);
    }
    lines
}

fn regressions(summaries: &[Summary]) -> Vec<Vec<String>> {
    let mut second = vec![["engine", "intercept", "slope", "R²", "fails at"].map(String::from).to_vec()];
    for s in summaries {
        let figure = |f: fn(&Line) -> f64| s.line.as_ref().map_or("-".into(), |l| format!("{:.2}", f(l)));
        let fails = s.fails_at.map_or("-".into(), |f| f.to_string());
        second.push(vec![
            s.engine.clone(),
            figure(|l| l.intercept),
            figure(|l| l.slope),
            figure(|l| l.r2),
            fails,
        ]);
    }
    second
}

fn in_words(advice: &[Advice]) -> String {
    advice.iter().map(|a| format!("{} to {} faults: {}\n", a.from, a.until, a.choice())).collect()
}
