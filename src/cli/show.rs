//! `sarouter show EPOCH`: everything about one epoch.

mod cables;
mod which;

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

pub(super) use self::cables::Cable;
pub(super) use self::which::Which;
use super::common::{print, wrapped};
use super::state::{StateArgs, percent};
use super::{Answer, Context, Failure, Format, history};
use crate::config::FabricSource;
use crate::measure::Figures;
use crate::model::LidSet;
use crate::observe::hostlist;
use crate::publish::{EpochStore, PlanRecord, dump};
use crate::report::Report;
use crate::service::look::{FabricReader, Named};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sarouter show current --state /var/lib/sarouter
  sarouter show current --cables 5
  sarouter show current --lft > epoch.fts; dump_fts > switches.fts
  diff <(grep ^0x epoch.fts | sort) <(grep ^0x switches.fts | sort)")]
pub struct Args {
    /// Number of an epoch, `current`, or a time at which it was in force: 14:05, 2026-12-01T14:05 (UTC)
    #[arg(value_name = "EPOCH")]
    epoch: Which,
    /// Print its forwarding tables as `dump_fts` prints those of the switches, for base LIDs
    #[arg(long, group = "tables")]
    lft: bool,
    /// Print so many of its cables, those first that most routes inside jobs lead over, with ports and jobs
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "12", group = "tables")]
    cables: Option<NonZeroUsize>,
    /// Fabric for --lft and --cables: a file or a spec [default: that of the settings]
    #[arg(long, value_name = "FILE|SPEC", requires = "tables")]
    fabric: Option<String>,
    #[command(flatten)]
    state: StateArgs,
}

/// What is printed.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Details {
    /// Its directory.
    path: PathBuf,
    in_force: bool,
    plan: PlanRecord,
    report: Report,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let store = args.state.existing(context)?;
    if history::is_of_a_torus(&store) {
        if args.lft || args.cables.is_some() {
            return Err(
                "a direct torus has no forwarding tables: its nodes route by the tables of their jobs".into(),
            );
        }
        return history::Table::of_change(&store, args.epoch.change(&store)?)?.print(context, false);
    }
    if args.lft && context.format == Format::Json {
        return Err("--lft is text, as dump_fts prints it: no --format json".into());
    }
    if args.lft {
        return print_tables(&store, &args, context);
    }
    if let Some(most) = args.cables {
        return print_cables(&store, &args, most.get(), context);
    }
    let details = Details::read(&store, args.epoch)?;
    context.print(&details, || details.text())?;
    Ok(Answer::Yes)
}

fn print_tables(store: &EpochStore, args: &Args, context: &Context) -> Result<Answer, Failure> {
    let epoch = store.epoch(args.epoch.of(store)?)?;
    let fabric = named(args.fabric.as_deref(), context)?.fabric;
    if epoch.plan().fabric != fabric.fingerprint() {
        tracing::warn!("the epoch was made for another fabric: what it does not know has no lines");
    }
    let mut text = Vec::new();
    dump::write_fts(&fabric, &epoch.tables_of(&fabric, LidSet::Base)?, &mut text)?;
    print(String::from_utf8_lossy(&text).trim_end_matches('\n'))?;
    Ok(Answer::Yes)
}

fn print_cables(store: &EpochStore, args: &Args, most: usize, context: &Context) -> Result<Answer, Failure> {
    let epoch = store.epoch(args.epoch.of(store)?)?;
    let named = named(args.fabric.as_deref(), context)?;
    if epoch.plan().fabric != named.fabric.fingerprint() {
        return Err("the epoch was made for another fabric: name that one with --fabric".into());
    }
    let cables = cables::fullest(&epoch, &named, most)?;
    context.print(&cables, || cables::text(&cables))?;
    Ok(if cables.is_empty() { Answer::No } else { Answer::Yes })
}

/// The fabric that is named, or that of the settings.
pub(super) fn named(fabric: Option<&str>, context: &Context) -> Result<Named, Failure> {
    let (source, node_map) = match fabric {
        Some(source) => (FabricSource::Source(source.to_string()), None),
        None => {
            let settings = context.settings()?;
            (settings.fabric.ok_or("the settings name no fabric: say --fabric")?, settings.node_map)
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(FabricReader::new(source, node_map).read())?)
}

impl Details {
    pub(super) fn read(store: &EpochStore, which: Which) -> Result<Self, Failure> {
        let number = which.of(store)?;
        let epoch = store.epoch(number)?;
        Ok(Self {
            path: store.epoch_path(number),
            in_force: store.current().is_ok_and(|current| current == Some(number)),
            plan: epoch.plan().clone(),
            report: epoch.report().clone(),
        })
    }

    pub(super) fn text(&self) -> String {
        let (plan, report) = (&self.plan, &self.report);
        let mut rows = vec![
            ("epoch", format!("{}{}", plan.epoch, if self.in_force { ", in force" } else { "" })),
            ("published", plan.created.format("%Y-%m-%dT%H:%M:%SZ").to_string()),
            ("reason", plan.reason.words().to_string()),
            ("epoch before", plan.previous.map_or("none".to_string(), |n| n.to_string())),
            ("engine", plan.engine.clone()),
            ("layers", format!("{} of {}", report.layers.used, report.layers.budget)),
            ("computed in", format!("{:.1} ms", report.compute.wall_seconds * 1000.0)),
        ];
        let fabric = &report.fabric;
        let size = format!(
            "{} switches, {} terminals, {} inter-switch channels",
            fabric.switches, fabric.terminals, fabric.inter_switch_channels
        );
        rows.push(("fabric", size));
        rows.push(("fingerprint", plan.fabric.to_string()));
        rows.push(("files", format!("{}, checksums right", self.path.display())));
        let mut out: String = rows.iter().map(|(key, value)| format!("{key:14}{value}\n")).collect();
        out.push_str(&comparison(plan.before.as_ref(), &plan.after));
        let jobs = &report.jobs;
        let _ =
            write!(out, "\njobs          {}, on more than one switch {}", jobs.running, jobs.multi_switch);
        for job in &plan.jobs.jobs {
            let head = format!("  {}{:>6} nodes  ", job.id, job.nodes.len());
            let _ = write!(out, "\n{head}{}", wrapped(&hostlist::fold(&job.nodes), head.len()));
        }
        out
    }
}

/// The figures of the tables before and of these.
fn comparison(before: Option<&Figures>, after: &Figures) -> String {
    type Figure = fn(&Figures) -> String;
    let rows: [(&str, Figure); 10] = [
        ("slow-down, mean", |f| format!("{:.3}", f.time.slowdown_mean)),
        ("slow-down, worst", |f| format!("{:.3}", f.time.slowdown_max)),
        ("max effective EFI", |f| f.effective.max.to_string()),
        ("mean effective EFI", |f| format!("{:.2}", f.effective.mean)),
        ("dark fiber", |f| percent(f.effective.dark_fiber)),
        ("links per job, mean", |f| format!("{:.2}", f.effective.links_per_job_mean)),
        ("max EFI", |f| f.load.max.to_string()),
        ("max hops", |f| f.paths.max_hops.to_string()),
        ("mean hops", |f| format!("{:.2}", f.paths.mean_hops)),
        ("minimal routes", |f| percent(f.paths.minimal_share)),
    ];
    let mut out = format!("\n{:22}{:>12}{:>12}\n", "", "before", "after");
    for (name, figure) in rows {
        let old = before.map_or("?".to_string(), figure);
        out.push_str(&format!("{name:22}{old:>12}{:>12}\n", figure(after)));
    }
    out
}
