//! The page of `sarouter compare`.

use super::{EngineReport, Map, best, cells, verdict};
use crate::cli::common::less;
use crate::cli::input::Input;
use crate::pass::baseline::Baseline;
use crate::report::Report;
use crate::report::heat_map::heat_map;
use crate::report::sheet::Sheet;

/// The engines beside each other, and what each job gains with the best.
pub fn sheet(rows: &[EngineReport], input: &Input, baseline: Option<&Baseline>, maps: &[Map]) -> Sheet {
    let reports: Vec<&Report> = rows.iter().filter_map(EngineReport::report).collect();
    let (title, value): (_, fn(&Report) -> f64) = match baseline {
        Some(_) => {
            ("Slow-down of jobs, geometric mean (1: nobody waits for anybody)", |r| r.time.all.slowdown_mean)
        }
        None => ("Routes on the fullest channel", |r| r.load.max as f64),
    };
    let bars: Vec<(String, f64)> = reports.iter().map(|r| (r.engine.clone(), value(r))).collect();
    let bound = reports.first().map(|r| (r.load.lower_bound as f64, "no tables have less than"));
    let mark = baseline.map(|b| (b.time.slowdown_mean, "best without jobs:")).or(bound);
    let mut tables = vec![("Engines".to_string(), cells(rows))];
    tables.extend(gains(input, baseline.zip(best(rows))));
    let full = maps.iter().flat_map(|(_, loads)| loads).max().copied().unwrap_or(1);
    let folded =
        maps.iter().map(|(title, loads)| (title.clone(), heat_map(&input.fabric, loads, full, title)));
    Sheet {
        title: "Routing engines compared".into(),
        verdict: match baseline {
            Some(_) => verdict(rows, baseline, &input.fabric).trim().to_string(),
            None => without_jobs(&reports),
        },
        lead: lead(input),
        for_whom: for_whom(input),
        tables,
        folded: folded.collect(),
        json: serde_json::to_string_pretty(rows).unwrap_or_default(),
        ..Sheet::default()
    }
    .with_bars(title, &bars, mark)
}

fn lead(input: &Input) -> String {
    format!(
        "{} switches, {} hosts. Slow-down: predicted time of a job's exchange beside what its hosts' own cables need. \
         EFI: routes inside jobs on a channel. Dark fiber: channels that no job uses.",
        input.fabric.switches().len(),
        input.fabric.host_ids().count()
    )
}

fn without_jobs(reports: &[&Report]) -> String {
    let accepted = reports.iter().filter(|r| r.verdict.accepted);
    let Some(best) = accepted.min_by_key(|r| r.load.max) else {
        return "No engine's tables are accepted.".into();
    };
    format!(
        "{} has the least load on its fullest channel: {} routes; no tables have less than {}. No job was given, so this \
         says nothing of jobs.",
        best.engine, best.load.max, best.load.lower_bound
    )
}

fn for_whom(input: &Input) -> String {
    let several = input.placed.iter().filter(|job| job.ranks.is_multi_switch(&input.fabric));
    let (jobs, nodes) = several.fold((0, 0), |(jobs, nodes), job| (jobs + 1, nodes + job.ranks.nodes));
    let all: usize = input.placed.iter().map(|job| job.ranks.nodes).sum();
    if all == 0 {
        return String::new();
    }
    let share = 100.0 * nodes as f64 / all as f64;
    let advice = match nodes {
        0 => " It is not for you: no exchange of theirs passes a cable between switches.",
        _ => " Only their exchanges can gain, by as much as they communicate.",
    };
    format!(
        "{jobs} of {} jobs are on several switches, with {share:.0} % of the nodes of all jobs.{advice}",
        input.placed.len()
    )
}

/// What each job gains, those with the most first.
fn gains(input: &Input, found: Option<(&Baseline, &Report)>) -> Option<(String, Vec<Vec<String>>)> {
    let (baseline, best) = found?;
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for job in &best.time.jobs {
        let placed = input.placed.iter().find(|p| p.id == job.id)?;
        let wanted = placed.ranks.group().terminals;
        let at = input.demand.groups.iter().position(|g| g.terminals == wanted)?;
        let before = baseline.slowdowns[at];
        let gain = less(before, job.slowdown, 1).unwrap_or_else(|| "none".into());
        let cells = [
            job.id.to_string(),
            placed.ranks.nodes.to_string(),
            job.pattern.clone(),
            format!("{before:.3}"),
            format!("{:.3}", job.slowdown),
            gain,
        ];
        rows.push((job.slowdown / before, cells.into()));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let head = ["job", "nodes", "exchange", baseline.engine, best.engine.as_str(), "time"]
        .map(String::from)
        .to_vec();
    let cells = std::iter::once(head).chain(rows.into_iter().map(|r| r.1)).collect();
    Some((format!("Gain by job: slow-down with {}, and with {}", baseline.engine, best.engine), cells))
}
