//! Who submitted the jobs that run: told to those who may know it, and written nowhere.

use std::path::Path;

use serde_json::{Value, json};

use crate::api::as_nobody;
use crate::site::{Serving, Site};

/// What `squeue --json` says of two jobs.
const SQUEUE: &str = r#"{"errors": [], "jobs": [
    {"job_id": 7, "job_state": "RUNNING", "nodes": "n[1,5,9]", "start_time": 100,
     "user_name": "qx-ann", "name": "qx-train", "partition": "qx-gpu", "account": "qx-cfd", "command": "/home/qx-lmp"},
    {"job_id": 8, "job_state": "RUNNING", "nodes": "n[2,6]", "start_time": 100, "user_name": "qx-bob", "partition": null}]}"#;

fn asks_for_json(site: &Site) {
    site.alter("[slurm]\n", "[slurm]\nsqueue_format = \"json\"\n");
    site.jobs(SQUEUE);
}

fn both() -> Value {
    json!([
        { "job": "7", "user": "qx-ann", "name": "qx-train", "partition": "qx-gpu" },
        { "job": "8", "user": "qx-bob", "name": "", "partition": "" },
    ])
}

/// Files below a directory that have such letters in them, or in their names.
fn with_letters(root: &Path, letters: &str, found: &mut Vec<String>) -> usize {
    let mut read = 0;
    for entry in std::fs::read_dir(root).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let content = if kind.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        let name = path.display().to_string();
        if name.contains(letters) || content.windows(letters.len()).any(|part| part == letters.as_bytes()) {
            found.push(name);
        }
        read += content.len();
        if kind.is_dir() {
            read += with_letters(&path, letters, found);
        }
    }
    read
}

#[test]
fn whoever_may_write_is_told_and_readers_where_the_settings_say_so() {
    let words = "uid 65534 may not see whose jobs run here: api.show_users = true in the settings lets readers see it";
    let refused = format!("submissions: Err(Refused {{ status: 403, message: {words:?} }})");
    for (settings, told) in [
        ("", refused.as_str()),
        ("show_users = true", "String(\"qx-ann\")"),
        ("write_users = [\"nobody\"]", "String(\"qx-ann\")"),
    ] {
        let site = Site::new("interval_seconds = 3600");
        asks_for_json(&site);
        site.settings(&format!("[api]\n{settings}\n"));
        let _serving = Serving::routed(&site);
        assert_eq!(site.get("/v1/submissions").unwrap()["jobs"], both());
        assert_eq!(site.get("/v1/epochs").unwrap()["sees_users"], true);
        let Some(said) = as_nobody(&site) else { return };
        let said = said.lines().find(|line| line.starts_with("submissions: ")).unwrap();
        assert!(said.contains(told), "{settings}: {said}");
    }
}

/// By the service, and by what it asks and starts.
#[test]
fn nobody_writes_who_submitted_a_job() {
    let site = Site::new("interval_seconds = 3600");
    asks_for_json(&site);
    site.settings("[traffic]\nrules = [{ user = \"qx-*\", pattern = \"ring\" }]\n");
    let serving = Serving::routed(&site);
    for path in ["/v1/jobs", "/v1/epochs/1", "/v1/load", "/v1/snapshots", "/v1/health", "/v1/nodes/n5"] {
        let said = site.get(path).unwrap().to_string();
        assert!(!said.contains("qx-"), "{path}: {said}");
    }
    assert_eq!(site.get("/v1/jobs").unwrap()["jobs"][0]["pattern_from"], "rule");
    // Other jobs, so that the record says who went and came.
    site.jobs(&SQUEUE.replace("n[2,6]", "n[2,6,10]"));
    site.look();
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
    let (_, text) = site.run(&["status"]);
    assert!(text.contains("epoch") && !text.contains("qx-"), "{text}");
    assert_eq!(serving.stop(), 0);
    let mut found = Vec::new();
    let read = with_letters(&site.path("state"), "qx-", &mut found);
    assert!(read > 10_000, "{read}");
    assert_eq!(found, [""; 0]);
    // One pass of the program alone, too.
    site.jobs(SQUEUE);
    assert_eq!(site.run(&["tick"]).0, 0);
    with_letters(&site.path("state"), "qx-", &mut found);
    assert_eq!(found, [""; 0]);
    assert!(!site.log().contains("qx-"), "{}", site.log());
    // The search does find what is there.
    with_letters(&site.path(""), "qx-", &mut found);
    assert!(found.iter().any(|path| path.ends_with("/jobs")), "{found:?}");
}

#[test]
fn it_is_told_on_a_direct_torus_and_of_each_of_several_fabrics() {
    let torus = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    asks_for_json(&torus);
    let serving = Serving::start(&torus);
    serving.ready(&torus);
    serving.until(|| torus.get("/v1/submissions").is_ok_and(|answer| answer["jobs"] == both()));
    assert_eq!(serving.stop(), 0);

    let site = crate::fabrics::two("");
    asks_for_json(&site);
    let serving = Serving::start(&site);
    serving.line();
    serving.line();
    for fabric in ["ib0", "ib1"] {
        let answer = site.get(&format!("/fabrics/{fabric}/v1/submissions")).unwrap();
        assert_eq!(answer["jobs"], both(), "{fabric}");
    }
    assert_eq!(serving.stop(), 0);
}
