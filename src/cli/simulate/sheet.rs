//! The page of `sarouter simulate`.

use super::printed::{JobRow, Simulated};
use super::text;
use crate::report::sheet::{Cells, Sheet};
use crate::simulate::Ended;

/// How the packets fared.
pub fn sheet(run: &Simulated<'_>) -> Sheet {
    let jobs: Vec<&JobRow> = run.more.jobs.iter().flatten().collect();
    let (title, bars) = match jobs.is_empty() {
        true => ("Gbyte/s, by run", by_run(run)),
        false => {
            ("Microseconds until a job's last message arrived", jobs.iter().map(|job| of_job(job)).collect())
        }
    };
    let mut tables = vec![("Runs".to_string(), text::runs(run.runs))];
    tables.extend((!jobs.is_empty()).then(|| table(&jobs)));
    Sheet {
        title: "Packets simulated".into(),
        verdict: verdict(run),
        lead: format!(
            "{} routed by {}, traffic {}, seed {}. Waiting for a packet's turn is simulated buffer by buffer.",
            run.fabric,
            run.engine,
            run.traffic.join(","),
            run.seed
        ),
        tables,
        json: serde_json::to_string_pretty(run).unwrap_or_default(),
        for_whom: "Programs that send as this traffic does, in messages of this size, on adapters and switches with these \
                   settings. Programs that mostly compute gain by as little as they communicate."
            .into(),
        ..Sheet::default()
    }
    .with_bars(title, &bars, None)
}

fn verdict(run: &Simulated<'_>) -> String {
    let deadlocks = run.runs.iter().filter(|r| r.ended == Ended::Deadlock).count();
    if deadlocks > 0 {
        return format!(
            "Deadlock in {deadlocks} of {} runs: these routes are not safe with this traffic.",
            run.runs.len()
        );
    }
    let last = run.more.jobs.iter().flatten().filter_map(|job| Some((job.finished_ns?, job.id.as_ref())));
    match last.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((ns, Some(id))) => {
            format!("No deadlock. The last job, {id}, finished after {:.1} µs.", ns / 1000.0)
        }
        Some((ns, None)) => format!("No deadlock. The exchange took {:.1} µs.", ns / 1000.0),
        None => "No deadlock.".into(),
    }
}

fn by_run(run: &Simulated<'_>) -> Vec<(String, f64)> {
    let name =
        |offered: Option<f64>| offered.map_or("as much as possible".into(), |o| format!("offered {o:.3}"));
    run.runs.iter().map(|r| (name(r.steady.and_then(|s| s.offered)), r.throughput)).collect()
}

fn name(job: &JobRow) -> String {
    let id = job.id.as_ref().map_or("all hosts".to_string(), ToString::to_string);
    job.storage.map_or(id.clone(), |what| format!("{id} {what}"))
}

fn of_job(job: &JobRow) -> (String, f64) {
    (name(job), job.finished_ns.map_or(f64::INFINITY, |ns| ns / 1000.0))
}

fn table(jobs: &[&JobRow]) -> Cells {
    let head = ["job", "terminals", "finished after, µs"].map(String::from).to_vec();
    let row = |job: &&JobRow| {
        let (name, us) = of_job(job);
        vec![
            name,
            job.terminals.to_string(),
            if us.is_finite() { format!("{us:.1}") } else { "never".into() },
        ]
    };
    ("Jobs".into(), std::iter::once(head).chain(jobs.iter().map(row)).collect())
}
