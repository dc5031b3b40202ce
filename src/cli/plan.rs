//! `sarouter plan`: what would change, for whom, how much better.

use std::fmt::Write;
use std::sync::Arc;

use chrono::Utc;
use schemars::JsonSchema;
use serde::Serialize;

use super::common::{less, time_than};
use super::input::none_on_torus;
use super::state::{StateArgs, print_each};
use super::{Answer, Context, Failure};
use crate::config::{FabricSource, Settings};
use crate::measure::{JobFigures, Measure};
use crate::model::{JobId, LayerBudget, NodeName};
use crate::observe::jobs;
use crate::observe::source::job_source;
use crate::pass::step::View;
use crate::pass::worth::Worth;
use crate::publish::EpochStore;
use crate::publish::job::{JOBS_DIRECTORY, add_traffic};
use crate::service::dry_run::DryRun;
use crate::service::kind::direct::{self, Gets, Predicted, TorusDryRun, TorusPerJob};
use crate::service::look::{FabricReader, LookError, Looker, Sight, view};
use crate::service::pass::{PassError, decide, published};
use crate::service::placing::{Outlook, outlook};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit 1 if a change is due. Nothing is written.\n\n\
                        Examples:\n  sarouter plan\n  \
                        squeue --json | sarouter plan --fabric site.ibnetdiscover --jobs -")]
pub struct Args {
    /// Fabric instead of that of the settings: file or generated spec
    #[arg(long, value_name = "FABRIC")]
    fabric: Option<String>,
    /// Jobs instead of asking Slurm: squeue --json, a snapshot, or lines `ID HOSTLIST [PATTERN]`; - is
    /// standard input
    #[arg(long, value_name = "FILE")]
    jobs: Option<String>,
    /// Engine instead of that of the settings
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Layer budget instead of that of the settings
    #[arg(long, value_name = "1..15")]
    layers: Option<LayerBudget>,
    #[command(flatten)]
    state: StateArgs,
}

/// What is printed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Answered {
    #[serde(flatten)]
    dry: DryRun,
    /// Tagged jobs that wait, if placement is on and Slurm was asked.
    placement: Vec<Outlook>,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let fabrics = args.settings(context)?;
    let mut answers = Vec::new();
    for settings in &fabrics {
        let answered = match direct::source(settings) {
            Some(_) => Each::Direct(Box::new(args.on_a_torus(settings, context)?)),
            None => Each::Switched(Box::new(args.answer(settings, &fabrics, context)?)),
        };
        answers.push((settings.name.clone(), answered));
    }
    print_each(&answers, |i| answers[i].1.text(), context)?;
    Ok(if answers.iter().any(|(_, each)| each.is_due()) { Answer::No } else { Answer::Yes })
}

/// What is printed of a fabric.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(super) enum Each {
    Switched(Box<Answered>),
    Direct(Box<TorusDryRun>),
}

impl Each {
    fn is_due(&self) -> bool {
        match self {
            Self::Switched(answered) => answered.dry.due,
            Self::Direct(dry) => dry.due,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Switched(answered) => text(&answered.dry) + &to_be_placed(&answered.placement),
            Self::Direct(dry) => torus_text(dry),
        }
    }
}

impl Args {
    /// What would change on a switched fabric.
    fn answer(
        &self,
        settings: &Settings,
        others: &[Settings],
        context: &Context,
    ) -> Result<Answered, Failure> {
        let view = self.look(settings)?;
        let store = match &settings.name {
            Some(_) => EpochStore::open(&settings.state.directory)?,
            None => self.state.store(context)?,
        };
        let published = published(&store, &view)?;
        let decided = decide(&view, published.as_ref()).map_err(in_words)?;
        let epoch = store.current()?.map(|n| n.get());
        let dry = DryRun::new(&view, published.as_ref(), epoch, &decided);
        Ok(Answered { dry, placement: self.placement(settings, others, &view)? })
    }

    /// The settings of each fabric that is meant, with what the command line says instead. With a fabric and jobs
    /// given, no settings file is needed.
    fn settings(&self, context: &Context) -> Result<Vec<Settings>, Failure> {
        let mut fabrics = match (&self.fabric, &self.jobs) {
            (Some(_), Some(_)) => vec![context.settings_or_default()?],
            // One that is named in the place of several, or jobs that can be read once.
            (Some(_), None) | (None, Some(_)) => vec![context.settings()?],
            (None, None) => context.site()?.among(context.fabric_name.as_deref())?,
        };
        if self.state.is_typed() && fabrics.iter().any(|settings| settings.name.is_some()) {
            return Err(
                "--state: fabrics with a name have a state directory each, which the settings say".into()
            );
        }
        for settings in &mut fabrics {
            if let Some(fabric) = &self.fabric {
                settings.fabric = Some(FabricSource::Source(fabric.clone()));
            }
            if let Some(engine) = &self.engine {
                settings.routing.engine.clone_from(engine);
                settings.routing.then.clear();
            }
            if let Some(layers) = self.layers {
                settings.routing.layers = layers;
            }
        }
        Ok(fabrics)
    }

    /// What placement would do, unless the jobs come from a file: that has none that wait.
    fn placement(
        &self,
        settings: &Settings,
        others: &[Settings],
        view: &View,
    ) -> Result<Vec<Outlook>, Failure> {
        let placement = &settings.placement;
        if self.jobs.is_some() || !(placement.hold || placement.select_socket.is_some()) {
            return Ok(Vec::new());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(outlook(settings, others, view))?)
    }

    /// What would change on a direct torus.
    fn on_a_torus(&self, settings: &Settings, context: &Context) -> Result<TorusDryRun, Failure> {
        // Of several fabrics the others have layers.
        none_on_torus(&[("--layers", self.layers.is_some() && settings.name.is_none())])?;
        let mut jobs = match &self.jobs {
            Some(source) => jobs::load(source)?,
            None => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(job_source(settings).poll(Utc::now()))?
            }
        };
        let mut settings = settings.clone();
        if settings.name.is_none() {
            settings.state.directory = self.state.store(context)?.path().to_path_buf();
        }
        add_traffic(&settings.state.directory.join(JOBS_DIRECTORY), &mut jobs)?;
        let mut dry = direct::dry_run(&direct::Terms::of(&settings)?, &jobs)?;
        // Jobs of a file may be to come.
        dry.due |= self.jobs.is_some() && !dry.starting.is_empty();
        Ok(dry)
    }

    fn look(&self, settings: &Settings) -> Result<Arc<View>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if let Some(source) = &self.jobs {
            let jobs = jobs::load(source)?;
            let mut reader = FabricReader::of(settings).ok_or(LookError::NoFabric)?;
            let named = runtime.block_on(reader.read())?;
            return Ok(Arc::new(view(settings, named, jobs)?.0));
        }
        let mut looker = Looker::new(settings.clone())?.reading_traffic();
        let sight: Sight = runtime.block_on(looker.look(Utc::now()))?;
        Ok(sight.view)
    }
}

/// What the checker found, as `verify` says it: logs have it as JSON.
fn in_words(error: PassError) -> Failure {
    let PassError::Rejected { engine, verdict } = error else { return error.into() };
    format!("the tables of {engine} were rejected: {}", verdict.in_words()).into()
}

fn torus_text(dry: &TorusDryRun) -> String {
    let due = if dry.due { "a change is due" } else { "nothing to do" };
    let mut out = format!("{due}\ntorus         {}\njobs          {} with tables", dry.torus, dry.running);
    let mut line = |name: &str, text: String| {
        let _ = write!(out, "\n{name:14}{text}");
    };
    let new = |job: &JobId| format!("job {job}, when its start is announced; none if it runs already");
    dry.starting.iter().for_each(|job| line("new tables", new(job)));
    dry.over.iter().for_each(|job| line("over", format!("job {job}: its tables go")));
    dry.refused.iter().for_each(|(job, why)| line("no tables", format!("job {job}: {why}")));
    for (job, routes, lost) in &dry.cut {
        let then = lost.as_ref().map_or("others are found".to_string(), |why| format!("requeue it, {why}"));
        line("cut", format!("job {job}: {routes} routes lead over what has failed: {then}"));
    }
    let slow = |p: Option<Predicted>| p.map_or("-".to_string(), |p| format!("{:.3}", p.time.slowdown_mean));
    line("slow-down", format!("{} -> {}", slow(dry.before), slow(dry.after)));
    line("largest load", format!("{} -> {}", dry.load_before, dry.load_after));
    if !dry.per_job.is_empty() {
        out.push_str("\n\njob         nodes        slow-down   routes on its fullest channel   channels");
    }
    for TorusPerJob { job, nodes, before, after } in &dry.per_job {
        let pair = |pick: &dyn Fn(&Gets) -> u64| {
            let before = before.as_ref().map_or("-".to_string(), |b| pick(b).to_string());
            format!("{before} -> {}", pick(after))
        };
        let slow = |gets: &Gets| gets.slowdown.map_or("-".to_string(), |slow| format!("{slow:.2}"));
        let time = format!("{} -> {}", before.as_ref().map_or("-".to_string(), slow), slow(after));
        let (max, links) = (pair(&|gets| gets.own.max), pair(&|gets| gets.own.links));
        let _ = write!(out, "\n{:10}{nodes:>7}   {time:>14}   {max:>29}   {links}", job.as_str());
    }
    out
}

fn to_be_placed(jobs: &[Outlook]) -> String {
    let mut out = String::new();
    for job in jobs {
        let usual = job.usual.map_or("unroutable".to_string(), |u| u.max.to_string());
        let advice = match (&job.nodes, job.predicted) {
            (Some(nodes), Some(predicted)) => {
                let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
                format!("max effective EFI {usual} -> {} on {}", predicted.max, names.join(","))
            }
            _ => format!("waits for {} nodes", job.wants),
        };
        let _ = write!(out, "\nto be placed  job {}: {advice}", job.job);
    }
    out
}

/// Measures that are shown before and after a change.
const FIGURES: [&str; 5] =
    ["time.slowdown_mean", "time.slowdown_max", "effective.max", "effective.dark_fiber", "load.max"];

fn text(dry: &DryRun) -> String {
    let mut out = match (dry.reason, dry.epoch) {
        (Some(why), _) => format!("a change is due: {}", why.words()),
        (None, Some(epoch)) if dry.worth.is_some() => {
            let why = match dry.worth.is_some_and(|worth| is_too_soon(&worth)) {
                true => "it is too soon for other routes",
                false => "other routes are not worth the change",
            };
            format!("nothing to do: epoch {epoch} stays, {why}")
        }
        (None, Some(epoch)) => format!("nothing to do: epoch {epoch} serves the jobs of now"),
        (None, None) => "nothing to do".to_string(),
    };
    let _ = write!(out, "\njobs          {}, on more than one switch {}", dry.jobs, dry.multi_switch);
    if dry.waiting > 0 {
        let _ = write!(out, ", too young to count {}", dry.waiting);
    }
    if !dry.unknown_nodes.is_empty() {
        let names: Vec<&str> = dry.unknown_nodes.iter().map(NodeName::as_str).collect();
        let _ = write!(out, "\nunknown nodes {}", names.join(","));
    }
    if let Some(worth) = &dry.worth {
        let _ = write!(out, "\ngain          {worth}");
        if let Some(not_before) = worth.not_before {
            let _ = write!(out, "; not before {}", not_before.format("%Y-%m-%dT%H:%M:%SZ"));
        }
    }
    let Some(after) = &dry.after else { return out + &verdict(dry) };
    let _ = write!(out, "\nengine        {}, {} layers", dry.engine, after.layers_used);
    if let Some(blocks) = dry.changed_blocks {
        let _ = write!(out, ", {blocks} LFT blocks differ");
    }
    if let Some(transition) = &dry.transition {
        let _ = write!(out, "\nmixed         {transition}");
    }
    for measure in FIGURES.into_iter().filter_map(Measure::of) {
        let before = dry.before.as_ref().map_or("-".to_string(), |f| measure.shown(f));
        let _ = write!(out, "\n{:24}{before:>10} -> {}", measure.title, measure.shown(after));
    }
    if !dry.per_job.is_empty() {
        out.push_str("\n\njob         hosts   routes on its fullest channel   channels");
    }
    for job in &dry.per_job {
        let pair = |pick: &dyn Fn(&JobFigures) -> u64| {
            let before = job.before.as_ref().map_or("-".to_string(), |b| pick(b).to_string());
            format!("{before} -> {}", pick(&job.after))
        };
        let (max, links) = (pair(&|f| f.max), pair(&|f| f.links));
        let _ = write!(out, "\n{:10}{:>7}   {max:>29}   {links}", job.job.as_str(), job.terminals);
    }
    out + &verdict(dry)
}

/// Whether a change could be worth it but for the pause.
fn is_too_soon(worth: &Worth) -> bool {
    worth.not_before.is_some() && worth.at_most >= worth.price
}

/// Whether the change is worth it, in a sentence; nothing where that is not the question.
fn verdict(dry: &DryRun) -> String {
    let time = dry
        .before
        .zip(dry.after)
        .map(|(before, after)| (before.time.slowdown_mean, after.time.slowdown_mean));
    match (dry.due, &dry.worth, time) {
        (false, Some(worth), _) if is_too_soon(worth) => {
            format!("\n\nToo soon after the last change, whatever it is worth: it would gain {worth}.")
        }
        (false, Some(worth), _) => format!("\n\nNot worth it: a change would gain {worth}."),
        (true, worth, Some((before, after))) => {
            let gain = worth.map(|worth| format!("; gain {worth}")).unwrap_or_default();
            let fewer = less(before, after, 1).filter(|_| after < before);
            let judged = if fewer.is_some() { "Worth it" } else { "Due all the same" };
            format!("\n\n{judged}: jobs' exchanges take {} now{gain}.", time_than(before, after))
        }
        (true, _, None) => "\n\nWorth it: no routes of this fabric are in force.".to_string(),
        (false, None, _) => String::new(),
    }
}
