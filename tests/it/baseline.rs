//! The engine without jobs that the settings name is what all figures are compared with.

use serde_json::Value;

use crate::fabrics::metrics;
use crate::site::{Serving, Site};

/// Slow-down with tables that know no jobs: as status, interface, epoch and metrics tell it, and the engine's name.
fn told(baseline: &str) -> (String, [f64; 4]) {
    let site = Site::new("interval_seconds = 3600");
    site.alter("engine = \"dfsssp\"", &format!("engine = \"balanced\"\n{baseline}"));
    site.jobs("1|RUNNING|n[1,2,5,6,9]|100\n");
    let serving = Serving::routed(&site);
    let jobs = site.get("/v1/jobs").unwrap();
    let load = site.get("/v1/load?against=opensm").unwrap();
    assert_eq!(load["against"]["engine"], jobs["baseline"]["engine"]);
    assert_eq!(jobs["baseline"]["named"], !baseline.is_empty());
    let epochs = site.get("/v1/epochs").unwrap();
    let metrics = metrics(&site);
    let sample = "sarouter_slowdown{tables=\"without_jobs\"} ";
    let sample = metrics.lines().find_map(|line| line.strip_prefix(sample)).unwrap();
    let (_, status) = site.run(&["status"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    let figures = [
        status["epoch"]["slowdown_oblivious"].as_f64().unwrap(),
        jobs["baseline"]["slowdown_mean"].as_f64().unwrap(),
        epochs["epochs"][0]["slowdown_oblivious"].as_f64().unwrap(),
        sample.parse().unwrap(),
    ];
    assert_eq!(serving.stop(), 0);
    (jobs["baseline"]["engine"].as_str().unwrap().to_string(), figures)
}

#[test]
fn page_status_epochs_and_metrics_follow_the_setting() {
    let (best, of_best) = told("");
    let (named, of_named) = told("baseline = \"updown\"");
    assert!(["fattree", "dfsssp", "nue"].contains(&best.as_str()), "{best}");
    assert_eq!(named, "updown");
    for figures in [of_best, of_named] {
        assert!(figures.iter().all(|figure| (figure - figures[0]).abs() < 1e-9), "{figures:?}");
    }
    // Worse than the best, or the two could not be told apart.
    assert!(of_best[0] < of_named[0], "{of_best:?} {of_named:?}");
}
