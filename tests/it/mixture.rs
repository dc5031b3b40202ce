//! A direct torus beside switches, in one service.

use crate::fabrics::{metrics, two};
use crate::prolog::prolog;
use crate::site::{Serving, Site, json};
use crate::together::passes;

/// A torus for the exchange of jobs beside the switches of [`Site`]: nodes 1 to 8 are on both.
fn mixture() -> Site {
    let site = two("[fabric.routing]\nengine = \"angara-sar\"\n");
    site.alter("ib1", "mpi");
    site.alter("fattree:2x8,2", "angara:4x2");
    site.jobs("");
    site
}

#[test]
fn a_torus_beside_switches_serves_the_same_jobs() {
    let site = mixture();
    let serving = Serving::start(&site);
    serving.ready(&site);
    serving.until(|| passes(&site, "ib0") > 0 && passes(&site, "mpi") > 0);
    let (code, answer, _) = prolog(&site, &["--job", "7", "--nodes", "n[1-8]"]);
    let both = serde_json::json!({"ib0": "in_force", "mpi": "in_force"});
    assert_eq!((code, &answer["fabrics"]), (0, &both), "{answer}");
    // The nodes find their tables where the service keeps what jobs are told, with the rest.
    let read = |path: &str| std::fs::read_to_string(site.path(path)).unwrap();
    let told = read("state/jobs/7/routing.env");
    let lines = ["SAROUTER_ROUTED=yes\n", "SAROUTER_TABLES=8\n", "SAROUTER_EPOCH_IB0="];
    assert!(lines.iter().all(|line| told.contains(line)), "{told}");
    assert_eq!(read("state/jobs/7/nodes.txt"), read("state/mpi/jobs/7/nodes.txt"));
    let table = read("state/jobs/7/nodes.txt").lines().next().unwrap().split_once(' ').unwrap().1.to_string();
    assert!(read("state/jobs/7/SHA256SUMS").contains(&format!("  {table}\n")), "{table}");
    assert!(read(&format!("state/jobs/7/{table}")).starts_with("sarouter-angara-table 1\n"));
    // Partly on the torus, not at all, and on a node that is nowhere.
    let (_, answer, _) = prolog(&site, &["--job", "8", "--nodes", "n[1,2,13]"]);
    assert_eq!(answer["fabrics"], both, "{answer}");
    assert_eq!(read("state/mpi/jobs/8/nodes.txt").lines().count(), 2);
    let (_, answer, _) = prolog(&site, &["--job", "9", "--nodes", "n[12,14]"]);
    assert_eq!(answer["fabrics"], serde_json::json!({"ib0": "in_force", "mpi": "one_switch"}), "{answer}");
    assert!(read("state/jobs/9/routing.env").contains("SAROUTER_ROUTED=yes\n"));
    let (_, answer, _) = prolog(&site, &["--job", "10", "--nodes", "n[4,77]"]);
    assert_eq!(answer["fabrics"]["mpi"], "unrouted", "{answer}");
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    assert!(!site.path("state/jobs/7").exists() && !site.path("state/mpi/jobs/7").exists());
}

#[test]
fn commands_and_the_interface_speak_of_a_mixture() {
    let site = mixture();
    site.jobs("1|RUNNING|n[1-8]|7200\n2|RUNNING|n[9,16]|7200\n");
    assert_eq!(site.run(&["tick"]).0, 0);
    let (code, text) = site.run(&["plan"]);
    let planned = json(&text)["fabrics"].take();
    assert_eq!(
        (code, &planned["mpi"]["torus"], &planned["mpi"]["due"]),
        (0, &"4x2".into(), &false.into()),
        "{text}"
    );
    assert_eq!(planned["mpi"]["starting"], serde_json::json!(["1"]), "{text}");
    assert!(planned["mpi"]["refused"].as_array().unwrap().is_empty(), "{text}");
    assert!(planned["ib0"]["engine"].is_string(), "{text}");
    let serving = Serving::start(&site);
    serving.ready(&site);
    serving.until(|| passes(&site, "ib0") > 0 && passes(&site, "mpi") > 0);
    // n9 and n16 are on the switches alone: nothing is wrong with that.
    let health = site.told_health();
    assert_eq!((&health["healthy"], &health["problems"]), (&true.into(), &serde_json::json!([])), "{health}");
    let (_, answer, _) = prolog(&site, &["--job", "3", "--nodes", "n[3,4]"]);
    assert_eq!(answer["fabrics"]["mpi"], "in_force", "{answer}");
    let (code, text) = site.run(&["status"]);
    let fabrics = json(&text)["fabrics"].take();
    assert_eq!((code, &fabrics["mpi"]["torus"]["sizes"]), (0, &"4x2".into()), "{text}");
    assert!(
        fabrics["ib0"]["epoch"]["number"].as_u64() > Some(0) && fabrics["mpi"]["epoch"].is_null(),
        "{text}"
    );
    let metrics = metrics(&site);
    let has = |line: &str| metrics.lines().any(|other| other.starts_with(line));
    for line in [
        "sarouter_healthy{fabric=\"ib0\"} 1",
        "sarouter_healthy{fabric=\"mpi\"} 1",
        "sarouter_jobs_with_tables{fabric=\"mpi\"}",
    ] {
        assert!(has(line), "{line}: {metrics}");
    }
    assert!(!has("sarouter_jobs_with_tables{fabric=\"ib0\"}"), "{metrics}");
    for path in
        ["/v1/fabric", "/v1/load", "/v1/jobs", "/v1/epochs", "/v1/nodes/n3", "/v1/jobs/3/nodes/n3/table"]
    {
        let mpi = format!("/fabrics/mpi{path}");
        assert!(!site.text(&mpi).contains("\"error\""), "{mpi}");
    }
    for path in ["/v1/fabric", "/v1/load", "/v1/jobs", "/v1/epochs", "/v1/nodes/n3"] {
        let answer = site.get(&format!("/fabrics/ib0{path}"));
        assert!(answer.is_ok(), "{path}: {answer:?}");
    }
    for words in [&["job"][..], &["job", "3"], &["node", "n3"], &["hold"], &["resume"]] {
        let (code, text) = site.run(words);
        assert_eq!(code, 0, "{words:?}: {text}");
    }
    let (_, text) = site.run(&["doctor"]);
    let names = json(&text).as_array().unwrap().clone();
    let names = names.iter().filter(|check| check["name"] == "node names" && check["fabric"] == "mpi");
    assert!(names.clone().count() == 1 && names.clone().all(|check| check["good"] == true), "{text}");
    for words in [&["history"][..], &["show", "1"]] {
        assert_eq!(site.run(&[words, &["--fabric-name", "mpi"]].concat()).0, 0, "{words:?}");
    }
    for words in [&["rollback", "1"][..], &["trial", "--days", "14"]] {
        let output = site.command(&[words, &["--fabric-name", "mpi"]].concat()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
    }
}

#[test]
fn two_tori_of_one_service_are_refused() {
    let site = mixture();
    site.alter("\"fabric.net\"", "\"angara:2x2\"\n[fabric.routing]\nengine = \"angara-sar\"");
    let output = site.command(&["serve"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("one may be a direct torus, and there are ib0, mpi"), "{error}");
}
