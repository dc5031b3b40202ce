//! Every route of the API on every kind of network: a switched fabric and a direct torus.

use sarouter::service::client::ClientError;
use serde_json::{Value, json};

use crate::site::{Serving, Site};

/// What must be true of an answer: its status, and a value at a pointer into it (or words of a refusal).
struct Wanted {
    status: u16,
    at: &'static str,
    is: Value,
}

fn good(at: &'static str, is: impl Into<Value>) -> Wanted {
    Wanted { status: 200, at, is: is.into() }
}

/// Refused, with this among the words.
fn refused(status: u16, words: &'static str) -> Wanted {
    Wanted { status, at: words, is: Value::Null }
}

/// A route, what is posted to it, what a switched fabric answers, what a direct torus.
type Row = (&'static str, Option<Value>, Wanted, Wanted);

/// In this order, on a service with one epoch for job 1 on n1, n5 and n9, and on one with tables of job 1 on the
/// same nodes.
fn routes() -> Vec<Row> {
    let get = |path, switched, direct| (path, None, switched, direct);
    let post = |path, body: Value, switched, direct| (path, Some(body), switched, direct);
    vec![
        get("/v1/health", good("/healthy", true), good("/healthy", true)),
        get("/v1/health", good("/epoch", 1), good("/torus/jobs", 1)),
        get("/v1/fabric", good("/direct", false), good("/direct", true)),
        get("/v1/fabric", good("/layout", "levels"), good("/layout", "grid")),
        get("/v1/fabric", good("/cables/0/0", 0), good("/names/4", "n5")),
        get("/v1/epochs?limit=5", good("/current", 1), good("/current", 1)),
        get("/v1/epochs?limit=5", good("/epochs/0/engine", "dfsssp"), good("/epochs/0/jobs_in/0", "1")),
        get("/v1/epochs/current", good("/in_force", true), good("/in_force", true)),
        get("/v1/epochs/1", good("/plan/epoch", 1), good("/change/reason", "first")),
        get("/v1/epochs/9", refused(404, "epoch 9"), refused(404, "no change 9")),
        get("/v1/epochs/x", refused(400, "x"), refused(400, "x")),
        get("/v1/load", good("/epoch", 1), good("/epoch", 1)),
        get("/v1/load?job=1", good("/engine", "dfsssp"), good("/engine", "angara-sar")),
        get("/v1/load?epoch=9", refused(404, "9"), refused(404, "keeps the tables of now")),
        get("/v1/load?job=77", refused(404, "77"), refused(404, "job 77 has no tables")),
        get("/v1/jobs", good("/jobs/0/id", "1"), good("/jobs/0/nodes", "n[1,5,9]")),
        get("/v1/jobs", good("/jobs/0/switches", 3), good("/jobs/0/switches", 3)),
        get("/v1/jobs", good("/baseline/named", false), good("/baseline/engine", "angara-sssp")),
        get("/v1/health", good("/state", "dry_run"), good("/state", "live")),
        get("/v1/jobs?epoch=9", refused(404, "9"), refused(404, "keeps the tables of now")),
        get("/v1/nodes/n5", good("/jobs/0", "1"), good("/tables/0", "1")),
        get("/v1/nodes/n5", good("/node", "n5"), good("/at", "1.0")),
        get("/v1/nodes/n77", refused(404, "n77"), refused(404, "no node n77")),
        get("/v1/snapshots?last=1", good("/snapshots/0/jobs", 1), good("/snapshots/0/jobs", 1)),
        get("/v1/follow", good("/current", 1), refused(404, "nothing to follow")),
        get("/v1/epochs/1/files", good("/files/3/name", "SHA256SUMS"), refused(404, "nothing to follow")),
        get("/v1/epochs/1/switches/1", refused(404, "no switch"), refused(404, "no switches")),
        get("/v1/jobs/77/environment", refused(404, "77"), refused(404, "77")),
        get("/v1/jobs/77/order", refused(404, "77"), refused(404, "77")),
        get("/v1/jobs/77/nodes/n1/table", refused(404, "no table"), refused(404, "no table")),
        post("/v1/plan", json!({}), good("/due", false), good("/due", false)),
        post(
            "/v1/plan",
            json!({"jobs": "1 n[1,5,9]\n2 n[2,6]\n"}),
            good("/due", true),
            good("/starting/0", "2"),
        ),
        post(
            "/v1/plan",
            json!({"jobs": "1 n[1,5,9]\n2 n[2,6]\n"}),
            good("/per_job/1/job", "2"),
            good("/per_job/1/after/links", 2),
        ),
        post(
            "/v1/plan",
            json!({"jobs": "2 n[2,77]\n"}),
            good("/unknown_nodes/0", "n77"),
            good("/refused/0/0", "2"),
        ),
        post("/v1/plan", json!({"jobs": "2 n[2,\n"}), refused(400, "jobs:1"), refused(400, "jobs:1")),
        post("/v1/look", json!({}), good("", json!({})), good("", json!({}))),
        get("/v1/epochs?limit=1", good("/may_change", true), good("/may_change", true)),
        post("/v1/hold", json!({"reason": "test"}), good("/reason", "test"), good("/reason", "test")),
        get("/v1/epochs?limit=1", good("/acts/0/act", "hold"), good("/acts/0/reason", "test")),
        post(
            "/v1/hold",
            json!({"reason": "two\nlines"}),
            refused(400, "must be a line"),
            refused(400, "must be a line"),
        ),
        post(
            "/v1/hold",
            json!({"why": "test"}),
            refused(422, "unknown field"),
            refused(422, "unknown field"),
        ),
        post("/v1/resume", json!({}), good("/was_held", true), good("/was_held", true)),
        post("/v1/resume", json!({}), good("/was_held", false), good("/was_held", false)),
        post("/v1/epochs/1/rollback", json!({}), good("/held", false), refused(409, "tables belong to jobs")),
        post("/v1/epochs/9/rollback", json!({}), refused(404, "epoch 9"), refused(409, "tables belong")),
        post("/v1/jobs/1/end", json!({}), good("", json!({})), good("", json!({}))),
        get("/v1/nothing", refused(404, "no such path"), refused(404, "no such path")),
        get("/v1/look", refused(405, "another method"), refused(405, "another method")),
    ]
}

fn check(kind: &str, site: &Site, path: &str, body: Option<&Value>, wanted: &Wanted) {
    match site.ask(path, body) {
        Ok(found) => {
            assert_eq!(wanted.status, 200, "{kind} {path}: {found}");
            assert_eq!(found.pointer(wanted.at), Some(&wanted.is), "{kind} {path}: {found}");
        }
        Err(ClientError::Refused { status, message }) => {
            assert_eq!(status, wanted.status, "{kind} {path}: {message}");
            assert!(message.contains(wanted.at), "{kind} {path}: {message}");
        }
        Err(error) => panic!("{kind} {path}: {error}"),
    }
}

#[test]
fn every_route_answers_on_every_kind_of_network() {
    let switched = Site::new("interval_seconds = 3600");
    let serving_switched = Serving::routed(&switched);
    let direct = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    let serving_direct = Serving::start(&direct);
    serving_direct.ready(&direct);
    assert_eq!(direct.starts("1", "n[1,5,9]"), "in_force");
    for (serving, site) in [(&serving_switched, &switched), (&serving_direct, &direct)] {
        serving.until(|| {
            let rows = site.get("/v1/epochs").unwrap();
            let looks = site.get("/v1/snapshots").unwrap();
            rows["epochs"][0].is_object() && looks["snapshots"][0].is_object()
        });
    }
    for (path, body, on_switches, on_nodes) in routes() {
        check("switched", &switched, path, body.as_ref(), &on_switches);
        check("direct", &direct, path, body.as_ref(), &on_nodes);
    }
    for (serving, site, samples) in [
        (
            &serving_switched,
            &switched,
            ["sarouter_epoch 1", "sarouter_jobs 1", "sarouter_jobs_multi_switch 1"],
        ),
        (&serving_direct, &direct, ["sarouter_epoch", "sarouter_jobs 1", "sarouter_fabric_cables 32"]),
    ] {
        // Until the loop has seen that nothing is held any more.
        serving.until(|| site.text("/metrics").contains("\nsarouter_healthy 1"));
        let metrics = site.text("/metrics");
        samples
            .iter()
            .for_each(|sample| assert!(metrics.contains(&format!("\n{sample}")), "{sample}: {metrics}"));
        for file in
            ["/", "/page.js", "/more.js", "/page.css", "/picture.js", "/matrix.js", "/hand.js", "/strip.js"]
        {
            site.text(file);
        }
    }
    assert_eq!((serving_switched.stop(), serving_direct.stop()), (0, 0));
}

/// What is drawn of a direct torus is what its tables say.
#[test]
fn the_load_of_a_direct_torus_is_that_of_its_tables() {
    let site = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.get("/v1/load").map_err(|e| e.to_string().contains("no job has got tables")), Err(true));
    assert_eq!(site.starts("1", "n[1,5,9]"), "in_force");
    assert_eq!(site.starts("2", "n[2,6]"), "in_force");
    // Every hop of every route is one route on one channel.
    let hops = |job: &str| {
        let routes = std::fs::read_to_string(site.path(&format!("state/jobs/{job}/routes.txt"))).unwrap();
        routes.lines().map(|line| line.split(' ').nth(2).unwrap().split(',').count() as u64).sum::<u64>()
    };
    let sum = |path: &str, key: &str| {
        let load = site.get(path).unwrap();
        load[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(sum("/v1/load", "now"), hops("1") + hops("2"));
    assert_eq!(sum("/v1/load", "before"), hops("1"));
    assert_eq!(sum("/v1/load?job=2", "now"), hops("2"));
    assert_eq!(sum("/v1/load?job=2", "before"), 0);
    let jobs = site.get("/v1/jobs").unwrap();
    assert_eq!((&jobs["jobs"][1]["id"], &jobs["jobs"][1]["now"]["max"]), (&"2".into(), &1.into()), "{jobs}");
    assert_eq!(
        (&jobs["jobs"][0]["before"]["links"], &jobs["jobs"][1]["before"]),
        (&jobs["jobs"][0]["now"]["links"], &Value::Null)
    );
    assert_eq!(serving.stop(), 0);
}
