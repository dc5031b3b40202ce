//! `sarouter plan`: what would change, for whom, how much better.

use std::fmt::Write;
use std::sync::Arc;

use chrono::Utc;
use serde::Serialize;

use super::common::print;
use super::state::{StateArgs, percent, reason};
use super::{Answer, Context, Failure, Format};
use crate::config::{FabricSource, Settings};
use crate::measure::{self, Figures, JobFigures};
use crate::model::{Fabric, Group, JobId, LayerBudget, NodeName};
use crate::observe::jobs;
use crate::plan::{Published, Reason};
use crate::service::look::{FabricReader, LookError, Looker, Sight, view};
use crate::service::pass::{Checked, Decided, decide};
use crate::service::step::View;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit 1 if a change is due. Nothing is written.\n\n\
                        Examples: sarouter plan\n          \
                        squeue --json | sarouter plan --fabric site.ibnetdiscover --jobs -")]
pub struct Args {
    /// Fabric instead of that of the settings: file or generated spec
    #[arg(long, value_name = "FABRIC")]
    fabric: Option<String>,
    /// Jobs instead of asking Slurm: squeue --json, a snapshot, or lines `ID HOSTLIST`; - is
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
#[derive(Debug, Serialize)]
struct Answered {
    /// Whether new routes are due.
    due: bool,
    reason: Option<Reason>,
    engine: String,
    /// Epoch in force.
    epoch: Option<u64>,
    /// Jobs that own nodes.
    jobs: usize,
    /// Multi-switch jobs that count.
    multi_switch: usize,
    /// Multi-switch jobs that are too young to count.
    waiting: usize,
    unknown_nodes: Vec<NodeName>,
    /// Blocks of 64 entries that OpenSM would send.
    changed_blocks: Option<usize>,
    /// What is in force, under the jobs of now; null if it is of another fabric.
    before: Option<Figures>,
    after: Option<Figures>,
    per_job: Vec<PerJob>,
    route_ms: Option<f64>,
    verify_ms: Option<f64>,
}

/// One multi-switch job.
#[derive(Debug, Serialize)]
struct PerJob {
    job: JobId,
    terminals: usize,
    before: Option<JobFigures>,
    after: JobFigures,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let settings = args.settings(context)?;
    let view = args.look(&settings)?;
    let store = args.state.store(context)?;
    let published = store.published(&view.fabric)?;
    let decided = decide(&view, published.as_ref())?;
    let epoch = store.current()?.map(|n| n.get());
    let answered = Answered::new(&view, published.as_ref(), epoch, &decided);
    match context.format {
        Format::Text => print(&answered.text())?,
        Format::Json => print(&serde_json::to_string_pretty(&answered)?)?,
    }
    Ok(if answered.due { Answer::No } else { Answer::Yes })
}

impl Args {
    /// The settings, with what the command line says instead. With a fabric and jobs given, no
    /// settings file is needed.
    fn settings(&self, context: &Context) -> Result<Settings, Failure> {
        let path = context.config.as_deref();
        let mut settings = match (&self.fabric, &self.jobs) {
            (Some(_), Some(_)) => Settings::load_or_default(path)?,
            _ => Settings::load(path)?,
        };
        if let Some(fabric) = &self.fabric {
            settings.fabric = Some(FabricSource::Source(fabric.clone()));
        }
        if let Some(engine) = &self.engine {
            settings.routing.engine.clone_from(engine);
        }
        if let Some(layers) = self.layers {
            settings.routing.layers = layers;
        }
        Ok(settings)
    }

    fn look(&self, settings: &Settings) -> Result<Arc<View>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if let Some(source) = &self.jobs {
            let jobs = jobs::load(source)?;
            let fabric = settings.fabric.clone().ok_or(LookError::NoFabric)?;
            let mut reader = FabricReader::new(fabric, settings.node_map.clone());
            let named = runtime.block_on(reader.read())?;
            return Ok(Arc::new(view(settings, named, jobs)?.0));
        }
        let mut looker = Looker::new(settings.clone())?;
        let sight: Sight = runtime.block_on(looker.look(Utc::now()))?;
        Ok(sight.view)
    }
}

impl Answered {
    fn new(view: &View, published: Option<&Published>, epoch: Option<u64>, decided: &Decided) -> Self {
        let mut answered = Self {
            due: false,
            reason: None,
            engine: view.policy.engine.clone(),
            epoch,
            jobs: view.jobs.jobs.len(),
            multi_switch: decided.demand.groups.len(),
            waiting: decided.waiting,
            unknown_nodes: decided.unknown_nodes.clone(),
            changed_blocks: None,
            before: None,
            after: None,
            per_job: Vec::new(),
            route_ms: None,
            verify_ms: None,
        };
        if let Some(checked) = &decided.plan {
            answered.add(view, published, checked);
        }
        answered
    }

    fn add(&mut self, view: &View, published: Option<&Published>, checked: &Checked) {
        let plan = checked.plan.get();
        let fabric: &Fabric = &view.fabric;
        let in_force = published.filter(|p| p.fabric == fabric.fingerprint());
        let placed = view.nodes.place(&plan.jobs).jobs;
        let multi: Vec<(JobId, Group)> = placed
            .into_iter()
            .map(|(id, t)| (id, Group::new(t)))
            .filter(|(_, g)| plan.demand.groups.contains(g))
            .collect();
        let groups: Vec<Group> = multi.iter().map(|(_, group)| group.clone()).collect();
        let before = in_force.map(|p| measure::per_job(fabric, &p.tables, &groups));
        let after = measure::per_job(fabric, &plan.tables, &groups);
        self.per_job = multi
            .into_iter()
            .zip(after)
            .enumerate()
            .map(|(i, ((job, group), after))| PerJob {
                job,
                terminals: group.terminals.len(),
                before: before.as_ref().and_then(|b| b.get(i).copied()),
                after,
            })
            .collect();
        self.due = true;
        self.reason = Some(plan.reason);
        self.changed_blocks = in_force.and_then(|p| plan.tables.changed_blocks(fabric, &p.tables));
        self.before = plan.before;
        self.after = Some(plan.after);
        self.route_ms = Some(checked.routing.as_secs_f64() * 1000.0);
        self.verify_ms = Some(checked.verifying.as_secs_f64() * 1000.0);
    }

    fn text(&self) -> String {
        let mut out = match (self.reason, self.epoch) {
            (Some(why), _) => format!("a change is due: {}", reason(why)),
            (None, Some(epoch)) => format!("nothing to do: epoch {epoch} serves the jobs of now"),
            (None, None) => "nothing to do".to_string(),
        };
        let _ = write!(out, "\njobs          {}, on more than one switch {}", self.jobs, self.multi_switch);
        if self.waiting > 0 {
            let _ = write!(out, ", too young to count {}", self.waiting);
        }
        if !self.unknown_nodes.is_empty() {
            let names: Vec<&str> = self.unknown_nodes.iter().map(NodeName::as_str).collect();
            let _ = write!(out, "\nunknown nodes {}", names.join(","));
        }
        let Some(after) = &self.after else { return out };
        let _ = write!(out, "\nengine        {}, {} layers", self.engine, after.layers_used);
        if let Some(blocks) = self.changed_blocks {
            let _ = write!(out, ", {blocks} LFT blocks differ");
        }
        let figure = |name: &str, pick: &dyn Fn(&Figures) -> String| {
            let before = self.before.as_ref().map_or("-".to_string(), pick);
            format!("\n{name:24}{before:>10} -> {}", pick(after))
        };
        out.push_str(&figure("max effective EFI", &|f| f.effective.max.to_string()));
        out.push_str(&figure("dark fiber", &|f| percent(f.effective.dark_fiber)));
        out.push_str(&figure("max EFI", &|f| f.load.max.to_string()));
        if !self.per_job.is_empty() {
            out.push_str("\n\njob         hosts   routes on its fullest channel   channels");
        }
        for job in &self.per_job {
            let pair = |pick: &dyn Fn(&JobFigures) -> u64| {
                let before = job.before.as_ref().map_or("-".to_string(), |b| pick(b).to_string());
                format!("{before} -> {}", pick(&job.after))
            };
            let (max, links) = (pair(&|f| f.max), pair(&|f| f.links));
            let _ = write!(out, "\n{:10}{:>7}   {max:>29}   {links}", job.job.as_str(), job.terminals);
        }
        out
    }
}
