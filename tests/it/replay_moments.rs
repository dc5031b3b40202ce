//! Replays of a few moments: what one change does, and who computes just then.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use sarouter::model::rng::Rng;

use crate::program::sarouter;

/// Jobs of a moment: id, state, nodes.
type Moment = Vec<(u32, &'static str, Vec<usize>)>;

/// The moments, ten minutes apart, as a trace. A replay ends before the last, so that stands there twice.
fn trace(moments: &[Moment]) -> String {
    let mut out = String::new();
    for (i, jobs) in moments.iter().chain(moments.last()).enumerate() {
        let job = |(id, state, nodes): &(u32, &str, Vec<usize>)| {
            let nodes: Vec<String> = nodes.iter().map(|n| format!("n{n}")).collect();
            serde_json::json!({"id": id.to_string(), "state": state, "nodes": nodes})
        };
        let jobs: Vec<_> = jobs.iter().map(job).collect();
        let time = format!("2026-03-01T00:{:02}:00Z", 10 * i);
        writeln!(out, "{}", serde_json::json!({"time": time, "jobs": jobs})).unwrap();
    }
    out
}

fn replay(dir: &Path, trace: &str, engines: &str) -> Output {
    fs::write(dir.join("trace.jsonl"), trace).unwrap();
    let words = ["replay", "--fabric", "fattree:5x8,4", "--trace", "trace.jsonl", "--every", "10min"];
    sarouter(dir, [&words[..], &["--engines", engines, "--out", "out"]].concat())
}

/// The slow-downs of an engine, moment by moment.
fn slowdowns(dir: &Path, moments: &[Moment], engine: &str) -> Vec<f64> {
    let output = replay(dir, &trace(moments), engine);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut series = csv::Reader::from_path(dir.join("out/series.csv")).unwrap();
    let at = series.headers().unwrap().iter().position(|name| name == "slowdown_mean").unwrap();
    series.records().map(|row| row.unwrap()[at].parse().unwrap()).collect()
}

#[test]
fn a_change_for_other_jobs_is_not_predicted_worse_than_no_change() {
    let dir = tempfile::tempdir().unwrap();
    let seen: Moment = vec![(1, "RUNNING", (1..13).collect()), (2, "RUNNING", (13..33).collect())];
    let then: Moment =
        vec![(1, "RUNNING", (1..13).collect()), (3, "RUNNING", (13..20).chain(25..37).collect())];
    let mut cases = vec![[seen, then]];
    let mut rng = Rng::new(5);
    for _ in 0..8 {
        let mut nodes: Vec<usize> = (1..41).collect();
        rng.shuffle(&mut nodes);
        let job = |id, nodes: &[usize]| (id, "RUNNING", nodes.to_vec());
        let stays = job(1, &nodes[..12]);
        cases.push([vec![stays.clone(), job(2, &nodes[12..26])], vec![stays, job(3, &nodes[20..36])]]);
    }
    for case in cases {
        let [changed, left] = ["balanced", "balanced:gain=1000000"].map(|e| slowdowns(dir.path(), &case, e));
        assert!(changed[1] <= left[1] * 1.000_001, "{changed:?} {left:?} {case:?}");
    }
}

#[test]
fn a_job_that_is_suspended_loses_nothing_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let at = |state| vec![(1, "RUNNING", (1..13).collect()), (2, state, (13..33).collect())];
    let found = slowdowns(dir.path(), &[at("RUNNING"), at("SUSPENDED"), at("RUNNING")], "updown");
    let alone = slowdowns(dir.path(), &[at("SUSPENDED")], "updown");
    assert!(found[0] > 1.05 && found[2] == found[0] && found[1] == alone[0], "{found:?} {alone:?}");
}

#[test]
fn times_in_other_units_and_moments_that_are_none_are_refused_with_words() {
    let dir = tempfile::tempdir().unwrap();
    let dump = "JobID|Start|End|NodeList\n1|9000000000000|9000000001000|n[1-12]\n";
    let output = replay(dir.path(), dump, "updown");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("9000000000000 is no time in seconds since 1970"), "{said}");
    // One that took no time does not make a replay last until then.
    let dump = "JobID|Start|End|NodeList\n1|2026-03-01T00:00:00|2026-03-01T01:00:00|n[1-12]\n\
                2|2099-03-01T00:00:00|2099-03-01T00:00:00|n[13-20]\n";
    let output = replay(dir.path(), dump, "updown");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(dir.path().join("out/series.csv")).unwrap().lines().count(), 1 + 6);
}
