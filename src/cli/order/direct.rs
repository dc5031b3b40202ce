//! The same for a job on a direct torus. Its routes lead between all its nodes, whatever the order of its ranks: an
//! order needs no others.

use std::collections::BTreeSet;

use chrono::Utc;

use super::{Answered, Args, RoutedOrder, Seats};
use crate::cli::route_angara::{Site as Routed, transit};
use crate::cli::{Answer, Context, Failure};
use crate::measure::Predictor;
use crate::model::{
    JobId, JobMap, Mix, NodeId, NodeName, Routes, Torus, TorusDemand, TorusJob, TorusTables, did_you_mean,
    nearest,
};
use crate::observe::source::job_source;
use crate::observe::{hostlist, torus_toml};
use crate::placement::order::{self, Job};
use crate::publish::angara::{read_job, write_job};
use crate::publish::job::{self, JOBS_DIRECTORY};
use crate::route::angara::{ENGINES, Limits, engine};
use crate::verify::angara::judge;

/// The job, then those beside it, each with its routes.
struct Found {
    torus: Torus,
    /// As given.
    nodes: Vec<NodeName>,
    jobs: Vec<(TorusJob, Routes)>,
    /// Whose routes these are.
    routes: String,
    /// They, where they were made here.
    made: Option<TorusTables>,
}

/// Of a torus with this description.
pub(super) fn run(args: &Args, source: &str, context: &Context) -> Result<Answer, Failure> {
    if args.tables.is_some() || args.node_map.is_some() {
        return Err("--tables and --node-map are for switched fabrics, and this is a direct torus".into());
    }
    let found = match &args.job {
        Some(job) => args.running_on_torus(job, source, context)?,
        None => args.given_on_torus(source)?,
    };
    let per_node = args.ranks_per_node.map_or(1, usize::from);
    if found.nodes.len() * per_node < 2 {
        return Err("one rank exchanges nothing: the job has one node".into());
    }
    let with_routes: Vec<(&TorusJob, &Routes)> =
        found.jobs.iter().map(|(job, routes)| (job, routes)).collect();
    let predictor = Predictor::on_torus(&found.torus, &with_routes, per_node);
    let mut predictor = predictor.ok_or("a job beside it has a route that does not arrive")?;
    let unit = if args.scatter { 1 } else { per_node };
    let (torus, job) = (&found.torus, with_routes[0].0);
    let question = Job { torus, job, per_node, unit, work: order::WORK };
    let best = order::on_torus(question, &mut predictor);
    if best.before.is_infinite() {
        return Err(format!("{}: a route between these nodes does not arrive", found.routes).into());
    }
    let given = question.places();
    let ordered: Vec<u32> = best.places.iter().map(|place| given[*place as usize]).collect();
    let mut row = |what, time, places: &[u32]| RoutedOrder {
        what,
        routes: found.routes.clone(),
        time,
        contention: predictor.contention_at(places),
    };
    let answered = Answered {
        nodes: found.nodes.len(),
        ranks_per_node: per_node,
        pattern: job.mix.clone(),
        routes: found.routes.clone(),
        choices: vec![row("the list", best.before, &given), row("order alone", best.after, &ordered)],
        tried: best.tried,
        order: best.places.iter().map(|place| found.nodes[*place as usize / per_node].clone()).collect(),
    };
    args.show(&answered, &Seats::new(&answered.order, per_node), context)?;
    if let (Some(out), Some(tables)) = (&args.out, &found.made) {
        write_job(out, &found.torus, tables, 0)?;
    }
    Ok(Answer::Yes)
}

impl Args {
    /// As the command line says: routes are made for the job and those beside it.
    fn given_on_torus(&self, source: &str) -> Result<Found, Failure> {
        let source = torus_toml::load(source)?;
        let transit = transit(self.transit.as_deref())?.or(source.transit).unwrap_or_default();
        let torus = source.torus;
        let nodes = hostlist::expand(self.nodes.as_deref().unwrap_or_default())?;
        let mut jobs = vec![placed(&torus, &nodes, None, self.pattern.clone())?];
        if let Some(source) = &self.jobs {
            jobs.extend(Routed::jobs(&torus, source)?);
        }
        let name = self.engine.as_deref().unwrap_or(ENGINES[0]);
        let engine = engine(name)?;
        let tables = engine.route(&torus, &TorusDemand { jobs, transit }, &Limits::default())?;
        if !judge(&torus, &tables, false).accepted {
            return Err(format!("{name}: the checker rejects its routes for this torus").into());
        }
        let routes = format!("{}, for the jobs", engine.name());
        let made = self.out.is_some().then(|| tables.clone());
        let jobs = tables.demand.jobs.into_iter().zip(tables.routes).collect();
        Ok(Found { torus, nodes, jobs, routes, made })
    }

    /// As the settings and the batch system say: routes are those that the jobs have.
    fn running_on_torus(&self, id: &JobId, source: &str, context: &Context) -> Result<Found, Failure> {
        if self.engine.is_some() {
            return Err("--engine: a job that runs on a direct torus keeps its routes".into());
        }
        let settings = context.settings()?;
        let torus = torus_toml::load(source)?.torus;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let running: JobMap = runtime.block_on(job_source(&settings).poll(Utc::now()))?;
        let own = running.jobs.iter().find(|job| job.id == *id);
        let nodes = own.ok_or_else(|| format!("Slurm knows no job {id} that runs"))?.nodes.clone();
        let root = settings.state.directory.join(JOBS_DIRECTORY);
        let (mut jobs, mut beside) = (Vec::new(), Vec::new());
        let is_running = |other: &JobId| running.jobs.iter().any(|job| job.id == *other);
        for other in job::published(&root)?.into_iter().filter(is_running) {
            let Some(known) = read_job(&root, &other, &torus)? else { continue };
            let Some(routes) = known.kept().cloned() else { continue };
            if other != *id {
                beside.push((known, routes));
            } else if routes.nodes().len() == nodes.len() {
                let mix = self.pattern.clone().unwrap_or_else(|| known.mix.clone());
                jobs.push((placed(&torus, &nodes, Some(other), Some(mix))?, routes));
            }
        }
        if jobs.iter().all(|(job, routes)| routes.nodes() != job.nodes()) {
            return Err(format!("job {id} has no tables for its nodes").into());
        }
        jobs.extend(beside);
        Ok(Found { torus, nodes, jobs, routes: "its tables".into(), made: None })
    }
}

/// A job on these nodes, in this order.
fn placed(
    torus: &Torus,
    nodes: &[NodeName],
    id: Option<JobId>,
    mix: Option<Mix>,
) -> Result<TorusJob, Failure> {
    let mut seen = BTreeSet::new();
    let at = |name: &NodeName| match torus.node_named(name) {
        Some(node) if seen.insert(node) => Ok(node),
        Some(_) => Err(format!("--nodes names {name} twice")),
        None => {
            let names: Vec<&str> = torus.nodes().map(|node| torus.name(node).as_str()).collect();
            let meant = did_you_mean(nearest(name.as_str(), names));
            Err(format!("the torus has no node {name}{meant}"))
        }
    };
    let nodes: Result<Vec<NodeId>, String> = nodes.iter().map(at).collect();
    Ok(TorusJob::new(id, nodes?).exchanging(mix))
}
