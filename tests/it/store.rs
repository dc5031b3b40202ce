//! The commands on the epoch store, as programs and cron jobs call them.

use std::path::Path;
use std::process::Output;

use chrono::{DateTime, TimeDelta, Utc};
use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, JobMap, LayerBudget, NodeMap, Promise};
use sarouter::observe::jobs;
use sarouter::pass::plan::{Decision, Policy, Repair, plan};
use sarouter::publish::EpochStore;
use sarouter::report::{JobsSummary, Layers, Report, VerdictSummary};
use sarouter::verify;
use serde_json::Value;

use crate::program::command;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_790_000_000, 0).unwrap() + TimeDelta::seconds(seconds)
}

/// Plans, checks and publishes as the service does; false if nothing is due.
fn publish(store: &EpochStore, fabric: &Fabric, engine: &str, lines: &str, time: DateTime<Utc>) -> bool {
    let jobs: JobMap = jobs::parse(lines, "jobs", time).unwrap();
    let by_name = fabric
        .host_ids()
        .map(|t| (fabric.description(fabric.dest_of_terminal(t)).parse().unwrap(), vec![t]))
        .collect();
    let policy =
        Policy { may_wait: true, ..Policy::new(engine, LayerBudget::new(8).unwrap(), Promise::TOLD) };
    let published = store.published(fabric).unwrap();
    let nodes = NodeMap::new(by_name, vec![]);
    match plan(fabric, &nodes, &jobs, published.as_ref(), &policy).unwrap().decision {
        Decision::Keep | Decision::NotWorth(_) => false,
        Decision::Publish(plan) => {
            let summary =
                JobsSummary { running: plan.jobs.jobs.len(), multi_switch: plan.demand.groups.len() };
            let layers = Layers { budget: plan.budget.get(), used: plan.after.layers_used };
            let verdict = VerdictSummary { accepted: true, findings: vec![] };
            let report = Report::new(&plan.engine, fabric, summary, layers, verdict, plan.after);
            let plan = verify::accept(fabric, *plan, policy.budget).unwrap();
            store.lock().unwrap().publish(fabric, &plan, &report, time).unwrap();
            true
        }
    }
}

fn sarouter(state: &Path, arguments: &str) -> Output {
    command(".", arguments.split_whitespace()).env("SAROUTER_STATE", state).output().unwrap()
}

/// Runs a command with `--format json` and expects an exit code.
fn json(state: &Path, arguments: &str, code: i32) -> Value {
    let output = sarouter(state, &format!("{arguments} --format json"));
    assert_eq!(output.status.code(), Some(code), "{arguments}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_job_map_becomes_an_epoch_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    let fabric = generate("fattree:4x4,2").unwrap();
    assert!(publish(&store, &fabric, "sssp", "1 n[1-8]", at(0)));
    assert!(!publish(&store, &fabric, "sssp", "1 n[1-8]", at(60)), "the same jobs");
    assert!(!publish(&store, &fabric, "sssp", "7 n[1-8]\n8 n[9-10]", at(120)), "another on the same nodes");
    assert!(publish(&store, &fabric, "sssp", "7 n[1-8]\n9 n[9-16]", at(180)));
    assert!(publish(&store, &fabric, "dfsssp", "7 n[1-8]\n9 n[9-16]", at(240)));
    let cut = fabric.without(|c| c.index() == 0, |_| false).unwrap();
    assert!(publish(&store, &cut, "dfsssp", "7 n[1-8]\n9 n[9-16]", at(300)));
    assert!(!publish(&store, &cut, "dfsssp", "9 n[9-16]\n7 n[1-8]", at(360)));

    let history = json(store.path(), "history", 0);
    let reasons: Vec<&str> =
        history["epochs"].as_array().unwrap().iter().map(|e| e["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["first", "jobs_changed", "engine_changed", "fabric_changed"]);
    assert_eq!(history["current"], 4);
    let status = json(store.path(), "status", 0);
    assert_eq!((&status["healthy"], &status["epoch"]["number"]), (&Value::Bool(true), &Value::from(4)));
    assert_eq!(status["epoch"]["multi_switch_jobs"], 2);
    let shown = json(store.path(), "show 2", 0);
    assert_eq!(shown["plan"]["jobs"]["jobs"][1]["nodes"].as_array().unwrap().len(), 8);
    assert_eq!(shown["in_force"], false);
    assert_eq!(json(store.path(), "show current", 0)["plan"]["epoch"], 4);
}

#[test]
fn what_the_plugin_changed_of_an_epoch_is_in_force_and_asks_for_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    let fabric = generate("fattree:4x4,2").unwrap();
    assert!(publish(&store, &fabric, "sssp", "1 n[1-8]", at(0)));
    let before = store.published(&fabric).unwrap().unwrap();
    let (s, d) = (fabric.switch_ids().nth(1).unwrap(), fabric.dest_ids().last().unwrap());
    assert!(before.tables.port(s, d).is_some() && !before.halfway);
    let (switch, dest) = (s.index() as u32, d.index() as u32);
    let repair =
        |epoch| Repair { epoch, entries: vec![[0, switch, dest, 255], [0, 9999, 9999, 1], [1, 0, 0, 1]] };
    let after = store.published_as(&fabric, Some(&repair(1))).unwrap().unwrap();
    assert!(after.tables.port(s, d).is_none() && after.halfway);
    let others = fabric.dest_ids().flat_map(|d| fabric.switch_ids().map(move |s| (s, d)));
    let changed = others.filter(|(s, d)| after.tables.port(*s, *d) != before.tables.port(*s, *d)).count();
    assert_eq!(changed, 1);
    // Of another epoch it says nothing.
    let other = store.published_as(&fabric, Some(&repair(2))).unwrap().unwrap();
    assert!(other.tables == before.tables && !other.halfway);
}

#[test]
fn exit_codes_say_yes_no_or_failed() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    assert_eq!(json(&state, "status", 1)["problems"][0], "no epoch has been published");
    assert_eq!(json(&state, "history", 0)["epochs"], Value::Array(vec![]));
    let nothing = sarouter(&state, "show current");
    assert_eq!(nothing.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&nothing.stderr), "sarouter: no epoch has been published\n");

    let store = EpochStore::open(&state).unwrap();
    let fabric = generate("fattree:4x4,2").unwrap();
    publish(&store, &fabric, "sssp", "1 n[1-8]", at(0));
    publish(&store, &fabric, "sssp", "2 n[5-12]", at(60));
    let rejected = json(&state, "rollback 1 --fabric fattree:4x3,2 --force", 1);
    assert_eq!(rejected["done"], false);
    assert_eq!(rejected["refused"], "the tables are rejected on this fabric");
    assert!(!rejected["findings"].as_array().unwrap().is_empty());
    assert_eq!(json(&state, "rollback 1 --fabric fattree:4x4,2", 0)["from"], 2);
    assert_eq!(store.current().unwrap().map(|n| n.get()), Some(1));

    let damaged = state.join("epochs/000001/lft.bin");
    std::fs::write(&damaged, "").unwrap();
    let status = json(&state, "status", 1);
    assert!(status["problems"][0].as_str().unwrap().contains("epochs/000001/lft.bin is damaged"), "{status}");
    assert_eq!(sarouter(&state, "rollback 1").status.code(), Some(2));
    assert_eq!(sarouter(&state, "rollback 2").status.code(), Some(1), "nobody knows the fabric of now");
    assert_eq!(sarouter(&state, "rollback 2 --fabric fattree:4x4,2").status.code(), Some(0));
    assert_eq!(json(&state, "status", 0)["epoch"]["number"], 2);

    let holder = store.lock().unwrap();
    let refused = sarouter(&state, "rollback 2");
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.ends_with(&format!("is held by process {}\n", std::process::id())), "{message}");
    drop(holder);
}
