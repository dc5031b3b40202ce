//! `sarouter demo`: the whole job on a built-in cluster, nothing to install.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::common::{need_writable, write_file};
use super::{Answer, Context, Failure, Format};
use crate::lab::generate;
use crate::lab::workload::Workload;
use crate::measure::{self, Figures};
use crate::model::LayerBudget;
use crate::observe;
use crate::observe::nodes::NodeNames;
use crate::pass::baseline::Baseline;
use crate::pass::plan::Policy;
use crate::pass::step::View;
use crate::publish::EpochStore;
use crate::report::demo_page::{Moment, PublishedEpoch, Sample, demo_page};
use crate::route;
use crate::service::pass::pass;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sarouter demo --hours 6 --seed 3 --out demo.html")]
pub struct Args {
    /// Simulated hours.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=24))]
    hours: u32,
    /// Seed of the simulated batch system.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Routing engine.
    #[arg(long, default_value = "balanced")]
    engine: String,
    /// Page to write.
    #[arg(long, default_value = "sarouter-demo.html", value_name = "FILE")]
    out: PathBuf,
    /// Keep the epochs in this state directory (default: a temporary one).
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// The 180-node island of thesis Figure 5.2.
const ISLAND: &str = "fattree:10x18,5";
const POLL_MINUTES: u32 = 5;
/// Epochs kept in the state directory.
const KEEP: usize = 10;

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let scratch = std::env::temp_dir().join(format!("sarouter-demo-{}", std::process::id()));
    let state = args.state.clone().unwrap_or_else(|| scratch.clone());
    let result = simulate(&args, &state, context.format);
    if args.state.is_none() {
        // What is left of a temporary directory harms nobody.
        let _ = std::fs::remove_dir_all(&scratch);
    }
    result
}

fn simulate(args: &Args, state: &Path, format: Format) -> Result<Answer, Failure> {
    need_writable(&args.out)?;
    let mut demo = Demo::new(args, state)?;
    if format == Format::Text {
        println!(
            "180 hosts on 15 switches ({ISLAND}); every {POLL_MINUTES} minutes the batch system is polled.\n\
             Slow-down: predicted time of the jobs' exchanges beside what their hosts' cables need, geometric mean over\n\
             jobs; max EFI: routes between nodes of one job on the most loaded channel; \"oblivious\" is\n\
             the engine that knows no jobs and is best for those of the moment.\n\n\
             {:28}  ------ slow-down ------  ------ max EFI ------",
            ""
        );
        println!(
            "{:>5} {:>6} {:>7} {:>6}   {:>9} {:>6} {:>6}   {:>9} {:>5} {:>5}  {:>11}  {:>6}",
            "time",
            "epoch",
            "change",
            "jobs",
            "oblivious",
            "before",
            "after",
            "oblivious",
            "after",
            "bound",
            "dark fiber",
            "ms"
        );
    }
    for _ in 0..args.hours * 60 / POLL_MINUTES {
        demo.poll()?;
        if format == Format::Text {
            demo.print_last();
        }
    }
    demo.finish(args, format)
}

/// A cluster, its routes, and what was seen so far.
struct Demo {
    view: View,
    workload: Workload,
    store: EpochStore,
    samples: Vec<Sample>,
    best: Option<Best>,
}

/// The moment at which job-aware routes gained most.
struct Best {
    sample: usize,
    oblivious: Vec<u64>,
    ours: Vec<u64>,
}

impl Demo {
    fn new(args: &Args, state: &Path) -> Result<Self, Failure> {
        let fabric = generate::generate(ISLAND)?;
        let nodes = observe::nodes::name_hosts(&fabric, &NodeNames::default());
        let start: DateTime<Utc> = DateTime::UNIX_EPOCH + TimeDelta::hours(8);
        let mut workload = Workload::new(nodes.names().cloned().collect(), start, args.seed);
        // The cluster has been running for a while when the demo begins.
        workload.advance(6 * 60);
        let budget = LayerBudget::new(8)?;
        let policy = Policy::new(&args.engine, budget, route::default_promise(&args.engine, false));
        let jobs = workload.snapshot();
        let view = View::new(Arc::new(fabric), Arc::new(nodes), jobs, policy);
        Ok(Self { view, workload, store: EpochStore::open(state)?, samples: Vec::new(), best: None })
    }

    /// One poll: the same pass as on a live site.
    fn poll(&mut self) -> Result<(), Failure> {
        self.workload.advance(POLL_MINUTES);
        self.view.jobs = self.workload.snapshot();
        let passed = pass(&self.store, KEEP, &self.view, None)?;
        let epoch = passed.epoch.map(|line| PublishedEpoch {
            number: line.epoch,
            added: line.jobs_added,
            removed: line.jobs_removed,
            before: line.before,
            milliseconds: line.route_ms + line.verify_ms + line.publish_ms,
        });
        self.look(epoch)
    }

    /// Measures what is in force, and oblivious routes, for the jobs of now.
    fn look(&mut self, epoch: Option<PublishedEpoch>) -> Result<(), Failure> {
        let fabric = &self.view.fabric;
        let published = self.store.published(fabric)?.ok_or("nothing was published")?;
        let demand = self.view.nodes.place(&self.view.jobs).demand(fabric, Vec::new());
        let ours = measure::measure(fabric, &published.tables, &demand);
        let (oblivious_engine, theirs) = Baseline::tables(fabric, &demand.groups, None, LayerBudget::MOST)
            .ok_or("no engine routes the island")?;
        let oblivious = measure::measure(fabric, &theirs, &demand);
        let time = self.view.jobs.time.format("%H:%M").to_string();
        let sample =
            Sample { time, multi_switch: demand.groups.len(), oblivious_engine, oblivious, ours, epoch };
        if self.best.as_ref().is_none_or(|b| gain(&sample) > gain(&self.samples[b.sample])) {
            self.best = Some(Best {
                sample: self.samples.len(),
                oblivious: measure::effective_loads(fabric, &theirs, &demand.groups),
                ours: measure::effective_loads(fabric, &published.tables, &demand.groups),
            });
        }
        self.samples.push(sample);
        Ok(())
    }

    fn print_last(&self) {
        let Some(s) = self.samples.last() else { return };
        let Some(epoch) = s.epoch else { return };
        let slow = |f: &Figures| format!("{:.2}", f.time.slowdown_mean);
        let dark = |f: &Figures| format!("{:.0}", 100.0 * f.effective.dark_fiber);
        println!(
            "{:>5} {:>6} {:>7} {:>6}   {:>9} {:>6} {:>6}   {:>9} {:>5} {:>5}  {:>11}  {:>6.1}",
            s.time,
            epoch.number,
            format!("+{} -{}", epoch.added, epoch.removed),
            s.multi_switch,
            slow(&s.oblivious),
            epoch.before.as_ref().map_or("-".to_string(), slow),
            slow(&s.ours),
            s.oblivious.effective.max,
            s.ours.effective.max,
            s.ours.effective.lower_bound,
            format!("{} -> {} %", epoch.before.as_ref().map_or("-".into(), dark), dark(&s.ours)),
            epoch.milliseconds
        );
    }

    fn finish(self, args: &Args, format: Format) -> Result<Answer, Failure> {
        let best = self.best.ok_or("no poll happened")?;
        let moment =
            Moment { sample: &self.samples[best.sample], oblivious: &best.oblivious, ours: &best.ours };
        let mean = |value: &dyn Fn(&Sample) -> f64| {
            self.samples.iter().map(value).sum::<f64>() / self.samples.len() as f64
        };
        let [slow_theirs, slow_ours] =
            [mean(&|s| s.oblivious.time.slowdown_mean), mean(&|s| s.ours.time.slowdown_mean)];
        let theirs = mean(&|s| s.oblivious.effective.max as f64);
        let ours = mean(&|s| s.ours.effective.max as f64);
        let epochs = self.samples.iter().filter(|s| s.epoch.is_some()).count();
        let verdict = format!(
            "{epochs} epochs in {} polls. Mean slow-down: {slow_theirs:.2} oblivious, {slow_ours:.2} with {} ({:+.0} %); \
             max effective EFI: {theirs:.0} and {ours:.0}.",
            self.samples.len(),
            args.engine,
            100.0 * (slow_ours / slow_theirs - 1.0)
        );
        let mut told = serde_json::json!({
            "engine": args.engine, "polls": self.samples.len(), "epochs": epochs,
            "mean_slowdown": {"oblivious": slow_theirs, "ours": slow_ours},
            "mean_max_effective": {"oblivious": theirs, "ours": ours}, "samples": self.samples,
        });
        let words = [verdict.clone(), super::html::command(), serde_json::to_string_pretty(&told)?];
        let page = demo_page(&self.view.fabric, &args.engine, &self.samples, &moment, words);
        write_file(&args.out, page.as_bytes())?;
        let path = args.out.canonicalize().unwrap_or_else(|_| args.out.clone());
        match format {
            Format::Json => {
                told["page"] = serde_json::to_value(path)?;
                println!("{told}");
            }
            Format::Text => println!("\n{verdict}\nPage: {}", path.display()),
        }
        Ok(Answer::Yes)
    }
}

fn gain(s: &Sample) -> f64 {
    s.oblivious.time.slowdown_mean - s.ours.time.slowdown_mean
}
