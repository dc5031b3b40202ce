//! All jobs, and what each gains.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::report::align;
use crate::service::handoff::Waits;

/// A line for each job, those first that gain least from routes for jobs; jobs under one switch come last.
pub(super) fn text(jobs: &[Value]) -> String {
    let number = |value: &Value| value.as_f64();
    let mut jobs: Vec<(&Value, Option<f64>, Option<f64>)> =
        jobs.iter().map(|job| (job, number(&job["now"]["slowdown"]), number(&job["baseline"]))).collect();
    let gain = |now: Option<f64>, without: Option<f64>| Some(100.0 * (1.0 - now? / without?));
    let rank = |job: &(&Value, Option<f64>, Option<f64>)| {
        (job.1.is_none(), gain(job.1, job.2).unwrap_or(f64::INFINITY), -job.1.unwrap_or(0.0))
    };
    jobs.sort_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
    });
    let head = ["job", "state", "nodes", "switches", "slow-down", "without jobs", "gain, %", "pattern"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (job, now, without) in jobs {
        let word = |key: &str| job[key].as_str().unwrap_or_default().to_string();
        let two = |figure: Option<f64>| figure.map_or("-".to_string(), |figure| format!("{figure:.2}"));
        rows.push(vec![
            word("id"),
            word("state").to_lowercase(),
            job["node_count"].to_string(),
            job["switches"].to_string(),
            two(now),
            two(without),
            gain(now, without).map_or("-".to_string(), |gain| format!("{gain:.0}")),
            word("pattern"),
        ]);
    }
    align(&rows)
}

/// A line for each job that waits before its start.
pub(super) fn waiting(jobs: &[Waits], now: DateTime<Utc>) -> String {
    let line = |wait: &Waits| {
        let Waits { job, nodes, since, deadline } = wait;
        let [since, left] = [now - *since, *deadline - now].map(|time| time.num_seconds().max(0));
        format!(
            "\njob {job}, {nodes} nodes, has waited for routes for {since} s, and starts in {left} s at the latest"
        )
    };
    match jobs.is_empty() {
        true => "\nno job waits for routes".to_string(),
        false => jobs.iter().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_gains_least_comes_first_and_who_needs_no_routes_last() {
        let job = |id: &str, now: Value, baseline: Value| {
            json!({"id": id, "state": "RUNNING", "node_count": 8, "switches": 2, "pattern": "default",
                   "now": {"slowdown": now}, "baseline": baseline})
        };
        let under_one = json!({"id": "4", "state": "RUNNING", "node_count": 1, "switches": 1,
                               "pattern": "default", "now": null, "baseline": null});
        let jobs = [
            under_one,
            job("1", json!(1.2), json!(1.5)),
            job("2", json!(1.3), json!(1.3)),
            job("3", json!(1.6), json!(1.5)),
        ];
        let text = text(&jobs);
        let lines: Vec<&str> = text.lines().collect();
        let ids: Vec<&str> = lines[1..].iter().map(|l| l.split_whitespace().next().unwrap()).collect();
        assert_eq!(ids, ["3", "2", "1", "4"], "{text}");
        assert!(lines[3].contains(" 20 "), "{text}");
    }
}
