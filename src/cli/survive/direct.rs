//! `sarouter survive lost` on a direct torus: whose routes a failure cuts, and whether the pass that serves running
//! jobs finds others for them.

use std::collections::BTreeMap;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::damage::{DAMAGED_FABRICS, Level};
use super::lost::Args;
use crate::cli::route_angara::{Site as Asked, TorusArgs};
use crate::cli::{Answer, Context, Failure};
use crate::measure::angara::channel_loads;
use crate::model::rng::Rng;
use crate::model::{Direction, JobId, NodeId, Torus, TorusJob, Transit};
use crate::pass::torus::{Site, dead_routes, plan};
use crate::report::align;
use crate::report::sheet::Sheet;
use crate::route::angara::{Limits, TorusEngine, engine};

/// The engines if none is named.
const USUAL: [&str; 2] = ["angara-balanced", "angara-sar"];

/// Nodes and links that fail together, each link by one of its ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Broken {
    pub(super) nodes: Vec<NodeId>,
    pub(super) links: Vec<(NodeId, Direction)>,
}

/// What becomes of the routes of the jobs.
#[derive(Debug, Default)]
struct Outcome {
    lost: usize,
    mended: usize,
    /// Jobs that lose routes, and whether they cannot go on.
    jobs: Vec<(JobId, bool)>,
}

/// Share of the jobs' pairs that lose their route, over the failures, and what the pass makes of it.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct LostRoutes {
    engine: String,
    /// Links are cables; the nodes are the switches.
    #[serde(flatten)]
    level: Level,
    /// Failures that were tried: each one, or so many by lot.
    tried: usize,
    /// Least, first quartile, median, third quartile, most.
    lost: [f64; 5],
    mean: f64,
    /// By Proposition 4.2.
    expected: f64,
    /// Share of the lost pairs that get another route; null if none was lost.
    mended: Option<f64>,
    /// What fails where most pairs are lost.
    worst: Vec<String>,
    jobs: Vec<OfJob>,
}

/// One job.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct OfJob {
    job: JobId,
    /// Failures after which it goes on with other routes.
    mended: usize,
    /// Failures after which it cannot go on.
    over: usize,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    args.source.none_on_torus(&[])?;
    let typed = TorusArgs { transit: args.transit.clone(), ..TorusArgs::default() };
    let asked = Asked::load(&args.source.fabric, args.source.jobs.as_deref(), &typed)?;
    let links = links(&asked.torus);
    let levels = args.damage.levels([links.len(), asked.torus.len()], &[])?;
    if let Some(level) = levels.iter().find(|l| l.cables > links.len() || l.switches > asked.torus.len()) {
        let all = Level { cables: links.len(), switches: asked.torus.len() };
        return Err(format!("{} of {} cannot fail", failed(*level), failed(all)).into());
    }
    let engines = args.engines(&USUAL);
    let mut rows = Vec::new();
    for name in &engines {
        let engine = engine(name)?;
        let running = running(&asked, engine.as_ref())?;
        let failures: Vec<(Level, Vec<Broken>)> = match levels.is_empty() {
            true => one_by_one(&asked.torus, &links),
            false => {
                let by_lot = |seed, level| by_lot(&asked.torus, &links, level, seed);
                let all = |level: &Level| (1..=args.damage.seeds).map(|s| by_lot(s, *level)).collect();
                levels.iter().map(|level| (*level, all(level))).collect()
            }
        };
        for (level, failures) in failures {
            let one = |broken: &Broken| outcome(&asked, &running, engine.as_ref(), broken);
            let found = args.source.in_pool(|| failures.par_iter().map(one).collect::<Vec<_>>())?;
            rows.push(row(engine.name(), level, &asked.torus, &running, (&failures, &found)));
        }
    }
    let lines = cells(&rows);
    args.html.write(|| sheet(&rows, &lines))?;
    context.print(&rows, || align(&lines))?;
    Ok(Answer::Yes)
}

/// Every job with its routes. Where no jobs are named, one on all nodes.
fn running(asked: &Asked, engine: &dyn TorusEngine) -> Result<Vec<TorusJob>, Failure> {
    let tables = engine.route(&asked.torus, &asked.demand, &Limits::default())?;
    let whole = JobId::new("whole")?;
    let jobs = tables.demand.jobs.into_iter().map(|mut job| {
        job.id.get_or_insert_with(|| whole.clone());
        job
    });
    Ok(jobs.zip(tables.routes).map(|(job, routes)| job.keeping(routes.into())).collect())
}

/// The links that work.
pub(super) fn links(torus: &Torus) -> Vec<(NodeId, Direction)> {
    let all = torus.nodes().flat_map(|node| Direction::all().map(move |d| (node, d)));
    all.filter(|(node, d)| !d.is_negative() && torus.neighbour(*node, *d).is_some()).collect()
}

/// Each link alone, then each node alone.
fn one_by_one(torus: &Torus, links: &[(NodeId, Direction)]) -> Vec<(Level, Vec<Broken>)> {
    let link = |link: &(NodeId, Direction)| Broken { links: vec![*link], nodes: Vec::new() };
    let node = |node| Broken { nodes: vec![node], links: Vec::new() };
    let nodes = torus.healthy_nodes().into_iter().map(node).collect();
    vec![
        (Level { cables: 1, switches: 0 }, links.iter().map(link).collect()),
        (Level { cables: 0, switches: 1 }, nodes),
    ]
}

/// So many nodes and links, drawn by a seed.
pub(super) fn by_lot(torus: &Torus, links: &[(NodeId, Direction)], level: Level, seed: u64) -> Broken {
    let mut rng = Rng::new(seed);
    let (mut links, mut nodes) = (links.to_vec(), torus.healthy_nodes());
    rng.shuffle(&mut links);
    rng.shuffle(&mut nodes);
    links.truncate(level.cables);
    nodes.truncate(level.switches);
    Broken { nodes, links }
}

fn outcome(asked: &Asked, running: &[TorusJob], engine: &dyn TorusEngine, broken: &Broken) -> Outcome {
    let torus = asked.torus.failing(&broken.nodes, &broken.links);
    let transit: Transit = asked.demand.transit;
    let dead = |job: &TorusJob| dead_routes(&torus, transit, job);
    let cut: BTreeMap<&JobId, usize> = running
        .iter()
        .filter_map(|job| Some((job.id.as_ref()?, dead(job))))
        .filter(|cut| cut.1 > 0)
        .collect();
    if cut.is_empty() {
        return Outcome::default();
    }
    let site = Site { steady: torus.clone(), torus, transit };
    let plan = plan(&site, running, &[], engine, &Limits::default());
    // Where there are no tables that go together, no job gets any.
    let cuts = plan.as_ref().map(|plan| plan.cut.as_slice()).unwrap_or_default();
    let is_mended = |job: &JobId| cuts.iter().any(|cut| cut.job == *job && cut.lost.is_none());
    Outcome {
        lost: cut.values().sum(),
        mended: cut.iter().filter(|(job, _)| is_mended(job)).map(|(_, routes)| routes).sum(),
        jobs: cut.into_keys().map(|job| (job.clone(), !is_mended(job))).collect(),
    }
}

fn row(
    engine: &str,
    level: Level,
    torus: &Torus,
    running: &[TorusJob],
    (failures, found): (&[Broken], &[Outcome]),
) -> LostRoutes {
    let pairs = running.iter().map(|job| job.nodes().len() * (job.nodes().len() - 1)).sum::<usize>().max(1);
    let mut shares: Vec<f64> = found.iter().map(|o| o.lost as f64 / pairs as f64).collect();
    shares.sort_by(f64::total_cmp);
    let quarter = |q: usize| shares.get(q * (shares.len().saturating_sub(1)) / 4).copied().unwrap_or(0.0);
    let (lost, mended): (usize, usize) =
        found.iter().fold((0, 0), |sum, o| (sum.0 + o.lost, sum.1 + o.mended));
    let worst = failures.iter().zip(found).rev().max_by_key(|(_, o)| o.lost);
    let of_job = |job: &TorusJob| {
        let id = job.id.clone()?;
        let of = |over: bool| found.iter().filter(|o| o.jobs.contains(&(id.clone(), over))).count();
        Some(OfJob { mended: of(false), over: of(true), job: id })
    };
    LostRoutes {
        engine: engine.to_string(),
        level,
        tried: found.len(),
        lost: [0, 1, 2, 3, 4].map(quarter),
        mean: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
        expected: expected(torus, running, level, pairs as f64),
        mended: (lost > 0).then(|| mended as f64 / lost as f64),
        worst: worst.map(|(broken, _)| names(torus, broken)).unwrap_or_default(),
        jobs: running.iter().filter_map(of_job).collect(),
    }
}

/// Proposition 4.2 with nodes for switches: a route of h links has h + 1 nodes.
fn expected(torus: &Torus, running: &[TorusJob], level: Level, pairs: f64) -> f64 {
    let loads = channel_loads(torus, running.iter().filter_map(TorusJob::kept));
    let hops = loads.iter().map(|load| f64::from(*load)).sum::<f64>();
    let by_links = level.cables as f64 * hops / links(torus).len().max(1) as f64;
    let by_nodes = level.switches as f64 * (hops + pairs) / torus.healthy_nodes().len().max(1) as f64;
    ((by_links + by_nodes) / pairs).min(1.0)
}

/// Links as in `failed` of a description, and nodes by name.
fn names(torus: &Torus, broken: &Broken) -> Vec<String> {
    let links = broken.links.iter().map(|(node, direction)| format!("{}{direction}", torus.coords(*node)));
    links.chain(broken.nodes.iter().map(|node| torus.name(*node).to_string())).collect()
}

/// The page: what a failed link or node costs, and whom.
fn sheet(rows: &[LostRoutes], lines: &[Vec<String>]) -> Sheet {
    let bar = |r: &LostRoutes| (format!("{}, {}", r.engine, failed(r.level)), 100.0 * r.mean);
    let bars: Vec<(String, f64)> = rows.iter().map(bar).collect();
    let over = rows.iter().map(|r| r.jobs.iter().filter(|job| job.over > 0).count()).max().unwrap_or(0);
    let best = rows.iter().min_by(|a, b| a.mean.total_cmp(&b.mean));
    let verdict = best.map(|r| {
        let rest = match over {
            0 => "Every job goes on with other routes.".to_string(),
            1 => "One job cannot go on after some failure.".to_string(),
            jobs => format!("{jobs} jobs cannot go on after some failure."),
        };
        format!(
            "{} cuts {:.2} % of the jobs' pairs with {}, the least. {rest}",
            failed(r.level),
            100.0 * r.mean,
            r.engine
        )
    });
    Sheet {
        title: "Routes lost on a direct torus".into(),
        verdict: verdict.unwrap_or_default(),
        lead: "Share of the pairs of nodes inside jobs whose route passes what failed, over all failures tried. Mended: of \
               those the share that gets another route."
            .into(),
        tables: vec![("Lost routes".into(), lines.to_vec())],
        json: serde_json::to_string_pretty(rows).unwrap_or_default(),
        for_whom: DAMAGED_FABRICS.into(),
        ..Sheet::default()
    }
    .with_bars("Mean of lost pairs, %", &bars, None)
}

/// What fails on a torus.
fn failed(level: Level) -> String {
    level.in_words([["link", "links"], ["node", "nodes"]])
}

fn cells(rows: &[LostRoutes]) -> Vec<Vec<String>> {
    let head = [
        "engine",
        "links",
        "nodes",
        "tried",
        "least",
        "median",
        "most",
        "mean",
        "Prop. 4.2",
        "mended",
        "jobs cut",
        "jobs over",
    ];
    let mut lines = vec![head.map(String::from).to_vec()];
    let percent = |v: f64| format!("{:.3} %", 100.0 * v);
    for r in rows {
        let count = |of: fn(&OfJob) -> usize| r.jobs.iter().filter(|job| of(job) > 0).count().to_string();
        let mut line = vec![r.engine.clone()];
        line.extend([r.level.cables, r.level.switches, r.tried].map(|n| n.to_string()));
        line.extend([r.lost[0], r.lost[2], r.lost[4], r.mean, r.expected].map(percent));
        line.push(r.mended.map_or("-".into(), percent));
        line.extend([count(|job| job.mended + job.over), count(|job| job.over)]);
        lines.push(line);
    }
    lines
}
