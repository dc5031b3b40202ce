//! `report.json` of a direct torus.

use schemars::JsonSchema;
use serde::Serialize;

use super::Site;

use crate::measure::angara::{
    TorusFigures, channel_loads, dark_fiber, lower_bound, measure, per_job, unique_share,
};
use crate::measure::{Effective, Load, Paths};
use crate::model::{Fingerprint, JobId, Torus, TorusJob, TorusTables};
use crate::report::sheet::Sheet;
use crate::report::time::JobTimes;
use crate::report::{Compute, JobsSummary, Layers};
use crate::verify::angara::TorusVerdict;

/// What a routing engine made of a direct torus.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TorusReport")]
pub struct Report {
    /// The engine.
    engine: String,
    /// The torus.
    fabric: TorusSummary,
    /// How many jobs; those on several nodes count as on several switches.
    jobs: JobsSummary,
    /// What it took.
    compute: Compute,
    /// One of one: the order of directions keeps routes free of cycles.
    layers: Layers,
    /// What the checker says.
    pub(super) verdict: TorusVerdict,
    /// Predicted slow-down.
    time: JobTimes,
    /// Routes over channels that routes may use.
    load: Load,
    /// Routes inside jobs over channels that work; all zero (dark fiber 1) without jobs.
    effective: Effective,
    /// Lengths of routes, over pairs of nodes of a job.
    paths: Paths,
    /// Fourth root of the mean fourth power of the difference from the mean load.
    sigma4: f64,
    /// Share of pairs that have one route alone.
    unique_share: f64,
    /// As in `load`.
    lower_bound: u32,
    /// Of each job alone.
    per_job: Vec<TorusJobRow>,
}

/// A direct torus.
#[derive(Debug, Serialize, JsonSchema)]
struct TorusSummary {
    /// `direct torus`.
    kind: &'static str,
    /// As `4x2x2`.
    sizes: String,
    /// Its nodes.
    nodes: usize,
    /// Those that work.
    healthy_nodes: usize,
    /// As `nodes`: each has a router.
    switches: usize,
    /// As `healthy_nodes`: what may send.
    terminals: usize,
    /// Channels that work, whether routes may use them or not.
    inter_switch_channels: usize,
    /// Channels that routes may use.
    channels: usize,
    /// Changes with the torus.
    fingerprint: Fingerprint,
}

/// A job's routes over channels.
#[derive(Debug, Serialize, JsonSchema)]
struct TorusLoad {
    /// On the fullest.
    max: u32,
    /// On the emptiest.
    min: u32,
    /// Mean over channels.
    mean: f64,
    /// Standard deviation.
    sd: f64,
}

/// A job alone.
#[derive(Debug, Serialize, JsonSchema)]
struct TorusJobRow {
    /// Slurm's id; null of the one job on all nodes.
    id: Option<JobId>,
    /// How many nodes it has.
    nodes: usize,
    /// Its routes over channels.
    load: TorusLoad,
    /// As of all jobs.
    sigma4: f64,
    /// Its longest route.
    max_hops: u32,
    /// Mean over its pairs.
    mean_hops: f64,
}

impl TorusLoad {
    fn of(figures: &TorusFigures) -> Self {
        Self { max: figures.max, min: figures.min, mean: figures.mean, sd: figures.sd }
    }
}

/// Channels that work.
fn working_channels(torus: &Torus) -> usize {
    torus.nodes().map(|node| torus.exits(node).count_ones() as usize).sum()
}

/// Of jobs that have an id: without, all nodes are one job that nobody runs.
fn effective(site: &Site, tables: &TorusTables, bound: u64) -> Effective {
    if site.demand.jobs.iter().all(|job| job.id.is_none()) {
        return Effective { dark_fiber: 1.0, ..Effective::default() };
    }
    let load = channel_loads(&site.torus, &tables.routes);
    let jobs = per_job(&site.torus, &tables.routes);
    let mean = |total: u64, of: usize| total as f64 / of.max(1) as f64;
    Effective {
        max: load.iter().copied().max().unwrap_or(0).into(),
        mean: mean(load.iter().map(|l| u64::from(*l)).sum(), working_channels(&site.torus)),
        lower_bound: bound,
        dark_fiber: dark_fiber(&site.torus, &load),
        max_per_job_mean: mean(jobs.iter().map(|(own, _)| own.max).sum(), jobs.len()),
        links_per_job_mean: mean(jobs.iter().map(|(own, _)| own.links).sum(), jobs.len()),
    }
}

impl Report {
    pub(super) fn new(site: &Site, tables: &TorusTables, compute: Compute, verdict: TorusVerdict) -> Self {
        let figures = measure(&site.torus, tables, None);
        let pairs: usize =
            tables.routes.iter().map(|r| r.nodes().len() * r.nodes().len().saturating_sub(1)).sum();
        let minimal_share = 1.0 - verdict.detours as f64 / pairs.max(1) as f64;
        let (max_hops, mean_hops) = (figures.max_hops, figures.mean_hops);
        let row = |(job, the_job): (usize, &TorusJob)| {
            let f = measure(&site.torus, tables, Some(job));
            let (id, nodes, load) = (the_job.id.clone(), the_job.nodes().len(), TorusLoad::of(&f));
            let (sigma4, max_hops, mean_hops) = (f.sigma4, f.max_hops, f.mean_hops);
            TorusJobRow { id, nodes, load, sigma4, max_hops, mean_hops }
        };
        let jobs = &site.demand.jobs;
        let bound = lower_bound(&site.torus, &site.demand);
        Self {
            engine: tables.engine.clone(),
            fabric: TorusSummary {
                kind: "direct torus",
                sizes: site.torus.size_text(),
                nodes: site.torus.len(),
                healthy_nodes: site.torus.healthy_nodes().len(),
                switches: site.torus.len(),
                terminals: site.torus.healthy_nodes().len(),
                inter_switch_channels: working_channels(&site.torus),
                channels: figures.channels,
                fingerprint: site.torus.fingerprint(),
            },
            jobs: JobsSummary {
                running: jobs.len(),
                multi_switch: jobs.iter().filter(|job| job.nodes().len() > 1).count(),
            },
            compute,
            layers: Layers { budget: 1, used: 1 },
            verdict,
            time: JobTimes::on_torus(&site.torus, tables),
            load: Load {
                max: figures.max.into(),
                min: figures.min.into(),
                mean: figures.mean,
                sd: figures.sd,
                lower_bound: bound.into(),
            },
            effective: effective(site, tables, bound.into()),
            paths: Paths { max_hops, mean_hops, minimal_share },
            sigma4: figures.sigma4,
            unique_share: unique_share(&site.torus, &site.demand),
            lower_bound: bound,
            per_job: jobs.iter().enumerate().map(row).collect(),
        }
    }

    fn verdict_word(&self) -> &'static str {
        if self.verdict.accepted { "accepted" } else { "rejected" }
    }

    /// A row of a comparison.
    pub(super) fn cells(&self) -> Vec<String> {
        vec![
            self.engine.clone(),
            format!("{:.3}", self.compute.cpu_seconds),
            self.verdict_word().to_string(),
            format!("{:.3}", self.time.all.slowdown_mean),
            format!("{:.3}", self.time.all.slowdown_max),
            self.load.max.to_string(),
            self.lower_bound.to_string(),
            format!("{:.2}", self.load.mean),
            format!("{:.2}", self.load.sd),
            format!("{:.2}", self.sigma4),
            format!("{:.2}", self.paths.mean_hops),
        ]
    }

    pub(super) fn text(&self) -> String {
        format!(
            "engine        {}\ntorus         {}, {} healthy nodes, {} channels\ncompute       {:.3} s CPU\n\
             verdict       {}\nslow-down     mean {:.3} worst {:.3}\nload          max {} min {} mean {:.2}, at least {} for any table\n\
             deviation     {:.3} (k = 4)\nhops          max {} mean {:.2}\none route     {:.1} % of pairs\n",
            self.engine,
            self.fabric.sizes,
            self.fabric.healthy_nodes,
            self.fabric.channels,
            self.compute.cpu_seconds,
            self.verdict_word(),
            self.time.all.slowdown_mean,
            self.time.all.slowdown_max,
            self.load.max,
            self.load.min,
            self.load.mean,
            self.lower_bound,
            self.sigma4,
            self.paths.max_hops,
            self.paths.mean_hops,
            100.0 * self.unique_share,
        )
    }
}

/// Of [`Report::cells`].
pub const HEAD: [&str; 11] =
    ["engine", "CPU s", "verdict", "slow-down", "worst", "max", "bound", "mean", "sd", "σ(4)", "hops"];

/// The engines of a direct torus beside each other, as a page.
pub fn sheet(site: &Site, reports: &[Report], lines: &[Vec<String>]) -> Sheet {
    let bars: Vec<(String, f64)> =
        reports.iter().map(|r| (r.engine.clone(), r.time.all.slowdown_mean)).collect();
    let best = bars.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let verdict = best.map(|(name, time)| {
        format!("With {name} jobs' exchanges take least: {time:.3} times what their own cables need.")
    });
    Sheet {
        title: "Routing engines compared".into(),
        verdict: verdict.unwrap_or_default(),
        lead: format!(
            "A direct torus of {} nodes, {} jobs. Max: the largest load γ of a channel; bound: the least that any legal \
             minimal routes have.",
            site.torus.len(),
            site.demand.jobs.len()
        ),
        tables: vec![("Engines".into(), lines.to_vec())],
        json: serde_json::to_string_pretty(reports).unwrap_or_default(),
        ..Sheet::default()
    }
    .with_bars("Slow-down of jobs, geometric mean (1: nobody waits for anybody)", &bars, None)
}
