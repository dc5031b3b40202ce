//! The directories of jobs: written before a job is let go, removed when it is over. A thread of its
//! own does it, so that a slow disk delays starts and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use chrono::{DateTime, TimeDelta, Utc};
use tracing::warn;

use crate::measure::Predictor;
use crate::model::{
    Demand, Fabric, Group, JobId, Layer, LayerBudget, LidSet, NodeMap, Ranks, Sl, SplitLids, Tables,
    TerminalId, Traffic,
};
use crate::placement::order::{Question, order};
use crate::publish::StoreError;
use crate::publish::job::{self, JobEnvironment, RankOrder};
use crate::service::chain;
use crate::service::command::Reply;
use crate::service::handoff::{Outcome, StartId};
use crate::service::run::waiting::answer;
use crate::verify;

/// Directories that are not older than this stay, whatever the batch system said of their jobs.
const JUST_NOW: TimeDelta = TimeDelta::seconds(5);

/// What is in force on a switched fabric, as far as jobs are told of it.
pub(super) struct InForce {
    pub(super) epoch: u64,
    pub(super) fabric: Arc<Fabric>,
    pub(super) nodes: Arc<NodeMap>,
    pub(super) tables: Arc<Tables>,
    /// The other LIDs, where these have routes of their own.
    pub(super) lids: Option<SplitLids>,
    pub(super) budget: LayerBudget,
    /// Whether jobs get a layer of their own, and keep it.
    pub(super) layer_per_job: bool,
    /// Whom the routes are for.
    pub(super) demand: Arc<Demand>,
}

/// What the thread is asked.
enum Work {
    /// Write the directory of a job, then let it go.
    Start {
        start: StartId,
        outcome: Outcome,
        in_force: Option<Arc<InForce>>,
        lids: Option<LidSet>,
        then: Vec<Reply<Outcome>>,
    },
    /// The job is over.
    End(JobId),
    /// These jobs alone were there when the batch system was asked.
    Sweep(BTreeSet<JobId>, DateTime<Utc>),
}

/// Largest job whose ranks are put in order, in nodes, and hops that may be looked at for it: other jobs wait
/// meanwhile.
const MOST_ORDERED: usize = 2048;
const ORDER_WORK: u64 = 1 << 23;

/// Work that may wait; what comes then is not written.
const QUEUE: usize = 8192;

/// Writes and removes directories of jobs; its thread ends with it, after what was asked.
pub(super) struct JobFiles(SyncSender<Work>);

impl JobFiles {
    pub(super) fn new(root: PathBuf) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        // Without a thread everything is answered at once, as if the queue were full.
        let _ = std::thread::Builder::new().name("job files".into()).spawn(move || work(&root, &receiver));
        Self(sender)
    }

    /// Writes a job's directory, with the LIDs that it is to use, and then answers those who wait for it.
    pub(super) fn start(
        &self,
        start: StartId,
        outcome: Outcome,
        in_force: Option<Arc<InForce>>,
        lids: Option<LidSet>,
        then: Vec<Reply<Outcome>>,
    ) {
        self.ask(Work::Start { start, outcome, in_force, lids, then });
    }

    /// Removes the directory of a job that is over.
    pub(super) fn end(&self, job: JobId) {
        self.ask(Work::End(job));
    }

    /// Removes the directories of all other jobs, if they are not newer than this.
    pub(super) fn sweep(&self, jobs: BTreeSet<JobId>, asked: DateTime<Utc>) {
        self.ask(Work::Sweep(jobs, asked));
    }

    fn ask(&self, work: Work) {
        if let Err(TrySendError::Full(work) | TrySendError::Disconnected(work)) = self.0.try_send(work) {
            warn!("the directory of a job is not written: too much waits");
            if let Work::Start { outcome, then, .. } = work {
                answer(then, outcome);
            }
        }
    }
}

/// What a directory was written for, with what the job is taken to exchange: the same again would be the same bytes.
type Written = (StartId, Option<Traffic>, Outcome, Option<u64>, Option<LidSet>);

fn work(root: &Path, queue: &Receiver<Work>) {
    let mut written: BTreeMap<JobId, (DateTime<Utc>, Option<Written>)> = BTreeMap::new();
    while let Ok(work) = queue.recv() {
        let done = match work {
            Work::Start { start, outcome, in_force, lids, then } => {
                let what = (
                    start.clone(),
                    start.traffic.clone(),
                    outcome,
                    in_force.as_ref().map(|in_force| in_force.epoch),
                    lids,
                );
                // Many prologs at once wait for their directories longer than they wait for an answer, and
                // ask again: if each time were written, those that ask would stay behind for ever.
                let again =
                    written.get(&what.0.job).is_some_and(|(_, before)| before.as_ref() == Some(&what));
                let environment =
                    if again { None } else { environment(&what.0, outcome, in_force.as_deref(), lids) };
                let job = what.0.job.clone();
                let done = match environment {
                    Some(environment) => {
                        let order = rank_order(&what.0, in_force.as_deref());
                        let done = tell(root, &job, environment, order);
                        written.insert(job, (Utc::now(), done.is_ok().then_some(what)));
                        done
                    }
                    None if again || matches!(outcome, Outcome::Gone | Outcome::Superseded) => Ok(()),
                    // What was told at a former start is of other nodes.
                    None => job::remove(root, &job),
                };
                answer(then, outcome.told(done.is_ok()));
                done
            }
            Work::End(id) => {
                written.remove(&id);
                job::remove(root, &id)
            }
            Work::Sweep(jobs, asked) => {
                // The answer may be older than a job that starts now.
                written.retain(|_, (time, _)| *time > asked - JUST_NOW);
                let gone = |id: &&JobId| !jobs.contains(*id) && !written.contains_key(*id);
                job::published(root)
                    .and_then(|found| found.iter().filter(gone).try_for_each(|id| job::remove(root, id)))
            }
        };
        if let Err(error) = done {
            warn!("{}", chain(&error));
        }
    }
}

/// Writes the directory of a job. What it was told at a former start does not stay: to remove it takes no space.
fn tell(
    root: &Path,
    job: &JobId,
    mut environment: JobEnvironment,
    order: Option<Result<RankOrder, String>>,
) -> Result<(), StoreError> {
    if let Some(Err(why)) = &order {
        let note = std::mem::take(&mut environment.note);
        environment.note = format!("{why}; {note}").trim_end_matches("; ").to_string();
    }
    let order = order.and_then(Result::ok);
    let written = job::publish_with(root, job, &environment, order.as_ref());
    written.inspect_err(|_| drop(job::remove(root, job)))
}

/// The order of a job's ranks, if it asked for one, or why there is none.
fn rank_order(start: &StartId, in_force: Option<&InForce>) -> Option<Result<RankOrder, String>> {
    let in_force = in_force.filter(|_| start.rank_order)?;
    let InForce { fabric, nodes: map, tables, demand, epoch, .. } = in_force;
    let terminals: Vec<&[TerminalId]> = start.nodes.iter().map(|node| map.terminals(node)).collect();
    let unit = terminals.first().map_or(0, |first| first.len());
    if unit == 0 || terminals.iter().any(|t| t.len() != unit) || terminals.len() > MOST_ORDERED {
        return Some(Err(format!(
            "no order of ranks: for up to {MOST_ORDERED} nodes with as many adapter ports each"
        )));
    }
    let mix = start.traffic.clone().map(|t| t.mix).unwrap_or_default();
    let own = Ranks { mix: mix.clone(), ..map.ranks(&start.nodes) }.group();
    // Those beside it as the routes know them, without itself.
    let mut groups = vec![own.clone()];
    groups.extend(demand.groups.iter().filter(|group| group.terminals != own.terminals).cloned());
    let Some(mut predictor) = Predictor::new(fabric, tables, &groups, 0).filter(|_| own.ranks.len() > 1)
    else {
        return Some(Err("no order of ranks: a route does not arrive".into()));
    };
    let question = Question { fabric, ranks: &own.ranks, unit, mix: &mix, work: ORDER_WORK };
    let found = order(question, &mut predictor);
    if !found.after.is_finite() {
        return Some(Err("no order of ranks: a route does not arrive".into()));
    }
    let places = found.places.iter().step_by(unit).map(|place| *place as usize / unit);
    let nodes = places.map(|place| start.nodes[place].clone()).collect();
    Some(Ok(RankOrder { nodes, pattern: mix, epoch: Some(*epoch), list: found.before, ordered: found.after }))
}

/// For a job whose program cannot be told one service level for all its routes.
const NO_SAFE_LEVEL: &str = "its routes are on several layers and no one service level is safe for it: ask the subnet \
                             manager for each path";

/// The same, where one level for all was not asked for.
const SEVERAL_LEVELS: &str = "its routes are on several layers: programs that ask the subnet manager are told each; for one \
                              level set routing.layer_per_job";

/// The layer on which all routes of a job may be, if there is one, and what is to be said of it.
fn layer_of(
    group: Group,
    fabric: &Fabric,
    tables: &Tables,
    (budget, layer_per_job): (LayerBudget, bool),
) -> (Option<Layer>, &'static str) {
    let safe = |group| verify::safe_layers(fabric, tables, budget, &[], &[group]).pop().flatten();
    match verify::layers_of_group(fabric, tables, &group)[..] {
        [one] if layer_per_job || tables.layers_used() <= 1 => (Some(one), ""),
        // Any is safe there, and SL 0 is the one that is spread over all VLs without being chosen for each route.
        _ if tables.lanes().is_some() => (Some(Layer::ZERO), ""),
        _ if !layer_per_job => (None, SEVERAL_LEVELS),
        _ => match safe(group) {
            None => (None, NO_SAFE_LEVEL),
            safe => (safe, "its routes are on several layers; one service level is safe for all of them"),
        },
    }
}

/// What a job is told; `None` if nothing can be said of it.
fn environment(
    start: &StartId,
    outcome: Outcome,
    in_force: Option<&InForce>,
    lids: Option<LidSet>,
) -> Option<JobEnvironment> {
    if matches!(outcome, Outcome::Gone | Outcome::Superseded) {
        return None;
    }
    let traffic = start.traffic.clone();
    let Some(InForce { epoch, fabric, nodes: map, tables, lids: split, budget, layer_per_job, .. }) =
        in_force
    else {
        // What it says is kept here for the services to come.
        let note = "no routes of ours were in force".to_string();
        return traffic.is_some().then(|| JobEnvironment { traffic, note, ..JobEnvironment::default() });
    };
    let ranks = map.ranks(&start.nodes);
    let routed = matches!(outcome, Outcome::InForce | Outcome::OneSwitch | Outcome::GoodEnough);
    let tables = split.as_ref().zip(lids).map_or(&**tables, |(split, set)| split.of(tables, set));
    let epoch = Some(*epoch);
    let level = |layer: Layer| Sl::new(u64::from(layer.get())).ok();
    if !ranks.is_multi_switch(fabric) {
        return Some(JobEnvironment {
            service_level: Sl::new(0).ok(),
            lids,
            routed,
            epoch,
            traffic,
            ..JobEnvironment::default()
        });
    }
    let group = Ranks { mix: traffic.clone().map(|t| t.mix).unwrap_or_default(), ..ranks }.group();
    let (layer, note) = layer_of(group, fabric, tables, (*budget, *layer_per_job));
    let mut note = note.to_string();
    if !routed {
        let why = format!("started without routes of its own ({outcome:?})");
        note = if note.is_empty() { why } else { format!("{why}; {note}") };
    }
    let is_old = split.as_ref().zip(lids).is_some_and(|(split, set)| set != split.fresh);
    if is_old && routed {
        note = "its LIDs have the routes of before: those of the others are being changed".to_string();
    }
    Some(JobEnvironment {
        service_level: layer.and_then(level),
        lids,
        routed: routed && !is_old,
        epoch,
        traffic,
        note,
        ..JobEnvironment::default()
    })
}
