//! Rows of a trace that are one job, and tables of a site that are no good.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{report, sarouter};

/// A trace of these rows, replayed.
fn replayed(dir: &Path, rows: &str, words: &str) -> Value {
    fs::write(dir.join("t"), format!("{HEAD}{rows}")).unwrap();
    report(dir, format!("replay --every 1h --trace t {words}").split(' '))
}

const HEAD: &str = "JobID|Start|End|NodeList\n";
const NIGHT: &str = "2026-03-02T00:00:00|2026-03-02T04:00:00";

#[test]
fn a_row_that_is_there_twice_is_one_job() {
    let dir = tempfile::tempdir().unwrap();
    let rows = format!("1|{NIGHT}|n[1,5,9]\n2|{NIGHT}|n[2,6,10]\n");
    // The first dump was taken while they ran.
    let running = rows.replace("2026-03-02T04:00:00", "Unknown");
    let words = "--fabric fattree:4x4,4 --engines balanced";
    let once = replayed(dir.path(), &rows, words);
    let twice = replayed(dir.path(), &format!("{running}{rows}"), words);
    assert_eq!(once["summaries"], twice["summaries"]);
    assert_eq!(twice["run"]["trace"]["faults"], serde_json::json!({"repeated": 2}));
    assert_eq!(once["summaries"][0]["jobs_mean"], 2.0);
    // Another start of the same job is another run.
    let later = rows.replace("03-02", "03-03");
    let requeued = replayed(dir.path(), &format!("{rows}{later}"), words);
    assert_eq!(requeued["run"]["trace"]["faults"], serde_json::json!({}));
    assert_eq!(requeued["run"]["trace"]["entries"], 4);
}

#[test]
fn components_of_a_heterogeneous_job_are_one_job() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--fabric fattree:4x4,4 --engines dfsssp,balanced";
    let components = replayed(dir.path(), &format!("7+1|{NIGHT}|n[5,9]\n7+0|{NIGHT}|n1\n"), words);
    let whole = replayed(dir.path(), &format!("7|{NIGHT}|n[1,5,9]\n"), words);
    assert_eq!(components["summaries"], whole["summaries"]);
    assert_eq!(whole["summaries"][0]["multi_switch_mean"], 1.0);
}

#[test]
fn where_no_job_is_on_several_switches_all_is_as_good_as_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let answer = replayed(
        dir.path(),
        &format!("7|{NIGHT}|n[1-4]\n"),
        "--fabric fattree:4x4,4 --engines dfsssp,balanced",
    );
    let means = &answer["summaries"][0]["engines"][0]["means"];
    assert_eq!((&means[0], &means[4]), (&1.0.into(), &100.0.into()), "slow-down and dark fiber: {means}");
}

#[test]
fn tables_that_deadlock_are_said_to_whatever_time_they_take() {
    let dir = tempfile::tempdir().unwrap();
    let ring = "torus:6x6,hosts=2";
    let route = format!("route --fabric {ring} --engine minhop --layers 1 --out d");
    assert_eq!(sarouter(dir.path(), route.split(' ')).status.code(), Some(1));
    let words = format!("--fabric {ring} --tables now=d --engines balanced,minhop --layers 1");
    let answer = replayed(dir.path(), &format!("1|{NIGHT}|n[1,9,17,25]\n"), &words);
    let why = answer["run"]["rejected"]["now"].as_str().unwrap();
    assert!(why.starts_with("deadlock: "), "{why}");
    // An engine whose tables are rejected does not take part.
    assert_eq!(answer["run"]["engines"], serde_json::json!(["now", "balanced"]));
    let why = answer["run"]["refused"]["minhop"].as_str().unwrap();
    assert!(why.starts_with("its tables were rejected: deadlock: "), "{why}");
    let said = sarouter(dir.path(), format!("replay --every 1h --trace t {words} --html r.html").split(' '));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let page = fs::read_to_string(dir.path().join("r.html")).unwrap();
    for text in [said, page] {
        assert!(
            text.contains("The checker rejects the tables now, whatever time they take: deadlock: "),
            "{text}"
        );
    }
    fs::write(dir.path().join("jobs"), "1 n[1,9,17,25]\n").unwrap();
    let compare = format!("compare --fabric {ring} --jobs jobs --tables now=d --engines balanced --layers 1");
    let said = String::from_utf8_lossy(&sarouter(dir.path(), compare.split(' ')).stdout).into_owned();
    assert!(said.contains("The checker rejects the tables now, whatever time they take"), "{said}");
}
