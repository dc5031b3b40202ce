//! What the report of a run shows.

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{Outcome, Run};
use super::moment::{Loads, Moment};
use super::series::EngineSnapshot;
use super::summary::{METRICS, Metric, Summary, grid};
use crate::report::replay_page::{Picture, Plot, ReplayPage};
use crate::report::sheet::Cells;

/// Points of a curve at most: about as many as a screen shows.
const POINTS: usize = 720;

/// The page of a run.
pub fn page(outcome: &Outcome) -> ReplayPage {
    let summaries = outcome.summaries();
    let engines = outcome.run.engines.clone();
    let mut plots = Vec::new();
    for placement in &outcome.run.placements {
        plots.extend(METRICS.iter().map(|metric| plot(outcome, placement, metric)));
    }
    let pictures = outcome.moment.iter().flat_map(pictures).collect();
    let verdicts: Vec<&str> = summaries.iter().map(|s| s.verdict.as_str()).collect();
    ReplayPage {
        json: json(outcome, &summaries),
        verdict: outcome.run.warnings() + &verdicts.join(" "),
        lead: lead(&outcome.run, &summaries),
        for_whom: for_whom(&summaries),
        engines,
        tables: tables(&summaries),
        plots,
        pictures,
    }
}

/// A run and what came of it, for programs.
pub fn json(outcome: &Outcome, summaries: &[Summary]) -> String {
    serde_json::to_string_pretty(&Told { run: &outcome.run, summaries }).unwrap_or_default()
}

/// What a replay found, for programs.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Told<'a> {
    /// What was replayed.
    run: &'a Run,
    /// Placement by placement.
    summaries: &'a [Summary],
}

/// How many jobs could gain.
fn for_whom(summaries: &[Summary]) -> String {
    let Some(first) = summaries.first().filter(|s| s.jobs_mean > 0.0) else { return String::new() };
    format!(
        "On average {:.1} of {:.1} jobs are on several switches. Only their exchanges can gain, by as much as they \
         communicate; in {} of {} snapshots there is no such job.",
        first.multi_switch_mean, first.jobs_mean, first.idle, first.snapshots
    )
}

fn lead(run: &Run, summaries: &[Summary]) -> String {
    let Run { fabric, trace, .. } = run;
    let faults: usize = trace.faults.values().sum();
    let snapshots = summaries.first().map_or(0, |s| s.snapshots);
    let jobs = summaries.first().map_or(0.0, |s| s.multi_switch_mean);
    format!(
        "{} ({}, {} entries, {faults} faults) on {}: {} switches, {} terminals. {snapshots} snapshots, one every {} s, with {jobs:.1} \
         multi-switch jobs on average. Placement: {}. Slow-down is the predicted time of jobs' exchanges beside what \
         their hosts' cables need. Counted are routes between terminals of the same job (effective EFI); dark fiber is the share of channels that no job uses. Engines that follow the jobs: {}; all others are asked once.",
        trace.name,
        trace.format,
        trace.entries,
        run.fabric_source,
        fabric.switches,
        fabric.terminals,
        run.every_seconds,
        run.placements.join(", "),
        run.job_aware.join(", ")
    )
}

fn tables(summaries: &[Summary]) -> Vec<Cells> {
    let mut tables = Vec::new();
    for (title, cells) in grid(summaries) {
        tables.push((format!("Placement against routing: {title}, mean over snapshots"), cells));
    }
    for summary in summaries {
        let placement = &summary.placement;
        tables.push((format!("Engines by themselves, placement {placement}"), summary.engine_table()));
        let mut engines: Vec<&str> = summary.comparisons.iter().map(|c| c.engine.as_str()).collect();
        engines.dedup();
        for engine in engines {
            let title = format!("Improvements by {engine}, placement {placement}: absolute / in %");
            tables.push((title, summary.comparison_table(engine)));
        }
    }
    tables
}

fn plot(outcome: &Outcome, placement: &str, metric: &Metric) -> Plot {
    let of = |engine: &str| -> Vec<&EngineSnapshot> {
        outcome.rows.iter().filter(|r| r.placement == placement && r.engine == engine).collect()
    };
    let series: Vec<Vec<&EngineSnapshot>> = outcome.run.engines.iter().map(|e| of(e)).collect();
    let first = series.first().map_or(&[][..], Vec::as_slice);
    let group = first.len().div_ceil(POINTS).max(1);
    let long = outcome.run.every_seconds * first.len() as i64 > 3 * 86_400;
    let format = if long { "%d %b" } else { "%d %b %H:%M" };
    let times = first.chunks(group).map(|rows| rows[0].time.format(format).to_string()).collect();
    // Of a maximum the largest is kept, so that no spike is lost.
    let point = |rows: &[&EngineSnapshot]| -> f64 {
        let values = rows.iter().map(|r| metric.of(r));
        if metric.key == "max_effective" {
            values.fold(0.0, f64::max)
        } else {
            values.sum::<f64>() / rows.len() as f64
        }
    };
    let values = series.iter().map(|rows| rows.chunks(group).map(point).collect()).collect();
    let better = if metric.less_is_better { "lower is better" } else { "higher is better" };
    let title = match outcome.run.placements.len() {
        1 => format!("{} ({better})", metric.title),
        _ => format!("{} ({better}), placement {placement}", metric.title),
    };
    Plot { title, times, values }
}

fn pictures(moment: &Moment) -> [Picture; 2] {
    let maps = |loads: &dyn Fn(&Loads) -> &Vec<u64>| -> Vec<(String, Vec<u64>)> {
        let map = |l: &Loads| {
            let loads = loads(l).clone();
            let max = loads.iter().max().copied().unwrap_or(0);
            let lit = loads.iter().filter(|n| **n > 0).count();
            (
                format!(
                    "{}: at most {max} routes on a channel, {lit} of {} channels used",
                    l.engine,
                    loads.len()
                ),
                loads,
            )
        };
        moment.loads.iter().map(map).collect()
    };
    let at = format!("{}, placement {}", moment.time.format("%Y-%m-%d %H:%M"), moment.placement);
    let largest = format!(
        "The largest job then: {} terminals on {} leaf switches",
        moment.largest_job, moment.largest_job_leaves
    );
    [
        Picture { title: format!("Where most was gained: all jobs at {at}"), maps: maps(&|l| &l.all) },
        Picture { title: largest, maps: maps(&|l| &l.largest_job) },
    ]
}
