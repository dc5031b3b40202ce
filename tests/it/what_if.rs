//! Other engines' tables and nodes for a job, as the service tells them.

use std::collections::BTreeSet;

use sarouter::observe::hostlist;
use serde_json::{Value, json};

use crate::site::{Serving, Site, refusal};

#[test]
fn another_engine_stands_beside_what_is_in_force_and_nodes_are_chosen_among_free_ones() {
    let site = Site::new("interval_seconds = 3600");
    site.jobs("1|RUNNING|n[1,2,5,6,9]|100\n2|RUNNING|n[3,7]|100\n");
    let serving = Serving::routed(&site);
    let (get, post) = (|path: &str| site.get(path), |path: &str, body: Value| site.post(path, &body));

    let plan = std::fs::read(site.path("state/epochs/000001/plan.json")).unwrap();
    let after = serde_json::from_slice::<Value>(&plan).unwrap()["after"].take();
    let tried = post("/v1/engines/updown", json!({})).unwrap();
    assert_eq!(tried["now"]["engine"], "dfsssp");
    assert_eq!(tried["now"]["time"], after["time"]);
    assert_eq!(tried["now"]["largest_load"], after["effective"]["max"]);
    assert_eq!((&tried["bound"], &tried["multi_switch"]), (&after["effective"]["lower_bound"], &json!(2)));
    let slow = |given: &Value| given["time"]["slowdown_mean"].as_f64().unwrap();
    assert!(slow(&tried["tried"]) > slow(&tried["baseline"]), "{tried}");
    // The same engine gives the same.
    let again = post("/v1/engines/dfsssp", json!({})).unwrap();
    assert_eq!(again["tried"], again["now"]);
    let other = post("/v1/engines/updown", json!({"jobs": "9 n[1,5,9,13]\n"})).unwrap();
    assert_eq!(other["multi_switch"], 1);
    let (status, why) = refusal(post("/v1/engines/updwn", json!({})));
    assert!(status == 404 && why.contains("did you mean updown?"), "{why}");
    let names = get("/v1/engines").unwrap();
    assert!(names["engines"].as_array().unwrap().iter().any(|row| row["name"] == "updown"));

    let placed = get("/v1/place?nodes=4&pattern=ring").unwrap();
    let nodes = hostlist::expand(placed["nodes"].as_str().unwrap()).unwrap();
    let busy: BTreeSet<_> = hostlist::expand("n[1,2,5,6,9,3,7]").unwrap().into_iter().collect();
    assert!(nodes.len() == 4 && nodes.iter().all(|node| !busy.contains(node)), "{placed}");
    assert_eq!(placed["free"], 9);
    assert!(placed["predicted"]["slowdown"].as_f64().unwrap() >= 1.0, "{placed}");
    let none = get("/v1/place?nodes=10").unwrap();
    assert_eq!((&none["nodes"], &none["why"]), (&Value::Null, &json!("only 9 of 10 nodes are free")));
    assert_eq!(refusal(get("/v1/place?nodes=0")).0, 400);
    assert_eq!(refusal(get("/v1/place?nodes=2&pattern=rings")).0, 400);
    assert_eq!(serving.stop(), 0);
}

/// What Slurm says of the nodes that no job has, and of one whose job is over there and not yet here.
const STATES: &str = "n3|all||idle\nn4|all||drained\nn8|all||reserved\nn10|all||idle\nn10|fast||idle\nn11|all||idle*\n\
                      n12|all||idle\nn13|all||idle\nn14|all||idle\nn15|all||idle\nn16|all||idle\n";

#[test]
fn only_nodes_that_slurm_calls_idle_are_free_where_it_says_so() {
    let site = Site::new("interval_seconds = 3600");
    site.jobs("1|RUNNING|n[1,2,5,6,9]|100\n2|RUNNING|n[3,7]|100\n");
    let here = site.path("").display().to_string();
    let sinfo = |text: &str| crate::script::script(site.path("sinfo"), &format!("#!/bin/sh\n{text}\n"));
    site.replace("states", STATES);
    sinfo(&format!("echo >>{here}/asked; cat {here}/states"));
    site.settings(&format!("[placement]\nsinfo = \"{here}/sinfo\"\n"));
    let serving = Serving::routed(&site);
    let place =
        |nodes: usize| -> Value { site.get(&format!("/v1/place?nodes={nodes}&pattern=ring")).unwrap() };
    let asked = || std::fs::read_to_string(site.path("asked")).unwrap().lines().count();
    let free: BTreeSet<_> = hostlist::expand("n[10,12-16]").unwrap().into_iter().collect();
    for count in [2, 3, 4, 5, 6] {
        let placed = place(count);
        assert_eq!((&placed["free"], &placed["free_from"]), (&json!(6), &json!("slurm")), "{placed}");
        let nodes = hostlist::expand(placed["nodes"].as_str().unwrap()).unwrap();
        assert!(nodes.len() == count && nodes.iter().all(|node| free.contains(node)), "{placed}");
    }
    assert_eq!(place(7)["why"], "only 6 of 7 nodes are free");
    // The answer counts for a while.
    assert!((1..6).contains(&asked()), "{}", asked());
    // Jobs of somebody else: Slurm is not asked.
    std::fs::create_dir(site.path("spool")).unwrap();
    site.replace("spool/jobs", "1 n[1,2]\n");
    site.alter("[slurm]\n", "[spool]\ndirectory = \"spool\"\n[slurm]\nsource = \"spool\"\n");
    serving.until(|| place(2)["free_from"] == "jobs");
    let before = asked();
    assert_eq!((place(2)["free_from"].take(), asked()), (json!("jobs"), before));
    site.alter("source = \"spool\"\n", "");
    serving.until(|| place(2)["free_from"] == "slurm");
    // Slurm does not answer: what no job has, as long as that is all there is.
    sinfo("echo no controller >&2; exit 1");
    serving.until(|| place(2)["free_from"] == "jobs");
    serving.until(|| place(2)["free"] == 9);
    assert!(site.log().contains("idle nodes are not known"), "{}", site.log());
    assert_eq!(serving.stop(), 0);
}
