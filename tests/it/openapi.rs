//! What is told to programs: the document of the interface and the schemas of commands, held against what a running
//! service and the commands really say.

use std::collections::BTreeSet;

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use crate::site::{Serving, Site};

/// Refuses keys that a schema does not name, which the contract allows to programs but not to us.
fn forbid_more(schema: &mut Value, is_part: bool) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(|one| forbid_more(one, is_part)),
        Value::Object(keys) => {
            let names_keys = keys.get("properties").is_some_and(Value::is_object);
            for (key, below) in keys.iter_mut() {
                // A part of an object has the keys of the whole beside its own.
                let is_part = names_keys && ["anyOf", "oneOf", "allOf"].contains(&key.as_str());
                forbid_more(below, is_part);
            }
            if names_keys && !is_part && !keys.contains_key("additionalProperties") {
                keys.insert("unevaluatedProperties".into(), json!(false));
            }
        }
        _ => {}
    }
}

/// Why a value is not what the schema at a place of a document says.
fn misfit(document: &Value, place: &str, value: &Value) -> Option<String> {
    let mut document = document.clone();
    forbid_more(&mut document, false);
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("http://localhost/document", document).unwrap();
    let schema = compiler.compile(&format!("http://localhost/document#{place}"), &mut schemas);
    let schema = schema.unwrap_or_else(|e| panic!("{place}: {e:#}"));
    schemas.validate(value, schema).err().map(|e| format!("{e:#}"))
}

/// Status, media type and body of an answer.
fn ask(site: &Site, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let length = body.len();
    let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
    let asked = format!("{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    let answer = site.raw(asked.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
    (status, kind.split(';').next().unwrap().to_string(), body.to_string())
}

fn document(site: &Site) -> Value {
    let (status, kind, body) = ask(site, "GET", "/v1/openapi.json", "");
    assert_eq!((status, kind.as_str()), (200, "application/json"));
    serde_json::from_str(&body).unwrap()
}

/// Place of a schema below an operation of the document.
fn place(path: &str, method: &str, status: u16) -> String {
    let path = path.replace('~', "~0").replace('/', "~1");
    format!("/paths/{path}/{method}/responses/{status}/content/application~1json/schema")
}

const ERROR: &str = "/components/responses/Error/content/application~1json/schema";

/// Asks all that the document tells, with `values` in the place of names, and returns what was not answered with 200.
fn try_all(site: &Site, document: &Value, values: &[(&str, &str)]) -> Vec<(String, u16)> {
    let mut refused = Vec::new();
    let start = json!({ "nodes": "n[1,5,9]", "patience_seconds": 5.0 });
    for (path, operations) in document["paths"].as_object().unwrap() {
        let mut asked = path.clone();
        values.iter().for_each(|(name, value)| asked = asked.replace(&format!("{{{name}}}"), value));
        assert!(!asked.contains('{'), "{asked}: no value");
        if path.ends_with("/v1/find") {
            asked += "?what=n5";
        }
        if path.ends_with("/v1/place") {
            asked += "?nodes=2";
        }
        for (method, told) in operations.as_object().unwrap() {
            let body = match path.as_str() {
                "/v1/plan" => json!({ "jobs": "99 n[2,6]\n" }).to_string(),
                path if path.ends_with("/start") => start.to_string(),
                _ if method == "post" => "{}".to_string(),
                _ => String::new(),
            };
            let (status, kind, said) = ask(site, &method.to_uppercase(), &asked, &body);
            assert!(
                told["responses"].get(status.to_string()).is_some(),
                "{asked}: {status} is not told: {said}"
            );
            if status == 200 {
                let content = &told["responses"]["200"]["content"];
                let media = |named: &String| named.split(';').next() == Some(&kind);
                assert!(content.as_object().unwrap().keys().any(media), "{asked}: {kind}: {content}");
                if kind == "application/json" {
                    let value = serde_json::from_str(&said).unwrap();
                    let why = misfit(document, &place(path, method, 200), &value);
                    assert!(why.is_none(), "{asked}: {}\n{said:.2000}", why.unwrap());
                }
            } else {
                let error = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{asked}: {e}: {said}"));
                assert_eq!(misfit(document, ERROR, &error), None, "{asked}");
                refused.push((asked.clone(), status));
            }
        }
        // What is not told is not there.
        for method in ["get", "post"].into_iter().filter(|method| operations.get(*method).is_none()) {
            assert_eq!(ask(site, &method.to_uppercase(), &asked, "").0, 405, "{method} {asked}");
        }
    }
    refused
}

#[test]
fn a_service_of_switches_answers_all_that_its_document_tells_as_it_tells_it() {
    let site = Site::new("interval_seconds = 3600");
    site.jobs("1|RUNNING|n[1,5,9]|100\n2|RUNNING|n[2,6]|100\n3|RUNNING|n[3-4]|100\n");
    let serving = Serving::routed(&site);
    site.jobs("1|RUNNING|n[1,5,9]|100\n4|RUNNING|n[7,11,15]|100\n");
    site.look();
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
    let document = document(&site);
    let (code, printed) = site.run(&["openapi"]);
    assert_eq!((code, serde_json::from_str::<Value>(&printed).unwrap()), (0, document.clone()));
    let switch = std::fs::read_to_string(site.path("fabric.net")).unwrap();
    let guid =
        switch.split("switchguid=").nth(1).unwrap().split(['\n', '(', ' ']).next().unwrap().to_string();
    let values = [
        ("epoch", "current"),
        ("guid", &guid),
        ("node", "n5"),
        ("id", "1"),
        ("job", "1"),
        ("name", "plan.json"),
        ("engine", "updown"),
    ];
    let refused = try_all(&site, &document, &values);
    let refused: Vec<(&str, u16)> = refused.iter().map(|(path, status)| (path.as_str(), *status)).collect();
    // No prolog has announced job 1, and switches have no tables of nodes.
    let no_such = ["/v1/jobs/1/environment", "/v1/jobs/1/order", "/v1/jobs/1/nodes/n5/table"];
    assert_eq!(refused, no_such.map(|path| (path, 404)));
    // A schema that is wrong is noticed: the test above could fail.
    let health = serde_json::from_str(&ask(&site, "GET", "/v1/health", "").2).unwrap();
    let jobs_schema = place("/v1/jobs", "get", 200);
    assert!(misfit(&document, &jobs_schema, &health).is_some());
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_service_of_a_direct_torus_answers_as_the_document_tells() {
    let site = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("1", "n[1,5,9]"), "in_force");
    serving.until(|| site.run(&["history"]).1.contains("first"));
    let document = document(&site);
    let values = [
        ("epoch", "current"),
        ("guid", "0x1"),
        ("node", "n5"),
        ("id", "1"),
        ("job", "1"),
        ("name", "plan.json"),
        ("engine", "updown"),
    ];
    let refused = try_all(&site, &document, &values);
    let refused: Vec<&str> = refused.iter().map(|(path, _)| path.as_str()).collect();
    let no_such = [
        "/v1/jobs/1/order",
        "/v1/engines/updown",
        "/v1/place?nodes=2",
        "/v1/epochs/current/switches/0x1",
        "/v1/follow",
        "/v1/epochs/current/files",
        "/v1/epochs/current/files/plan.json",
        "/v1/epochs/current/rollback",
    ];
    assert_eq!(refused, no_such);
    assert_eq!(serving.stop(), 0);
}

/// What commands print that have a schema: on `fattree:4x4,2` and `angara:4x4`.
const PRINTED: &[&str] = &[
    "route --fabric NET --jobs MORE --engine ENGINE --out TABLES",
    "verify --fabric NET --jobs MORE --tables TABLES",
    "compare --fabric NET --jobs MORE --engines ENGINE",
    "plan --fabric NET --jobs MORE",
    "simulate --fabric NET --jobs MORE --engine ENGINE --traffic shift",
    "simulate --fabric NET --engine ENGINE --traffic pingpong",
    "simulate --fabric NET --engine ENGINE --traffic uniform --load 0.5 --warm-up 2000 --measure 2000",
    "simulate --fabric NET --engine ENGINE --traffic bisection --load 1 --seeds 2 --warm-up 2000 --measure 2000",
    "status",
    "history",
    "show 1",
    "explain current",
    "place --fabric NET --nodes 3 --jobs MORE --pattern ring",
    "order --fabric NET --nodes n[1,5,9] --pattern ring",
    "doctor",
    "survive lost --fabric NET --jobs MORE --faults 1 --seeds 2",
    "route --fabric NET --jobs MISSING --engine ENGINE --out TABLES",
];

/// The same of what is not for direct tori, or of no fabric in particular.
const PRINTED_ONCE: &[&str] = &[
    "verify --fabric NET --jobs MORE --layer-per-job --tables TABLES",
    "compare --fabric torus:3x3,hosts=1 --engines lash,fattree",
    "route --fabric torus:3x3,hosts=1 --engine fattree --out TABLES",
    "verify --fabric torus:3x3,hosts=1 --tables lost",
    "simulate --fabric torus:3x3,hosts=2 --traffic uniform --load 0.5 --changes 2",
    "path n1 n5",
    "path n1 nobody",
    "hold",
    "resume",
    "resume",
    "rollback 1",
    "trial",
    "trial --days 14",
    "trial",
    "trial --report ACCOUNTS",
    "trial --end",
    "fabric show NET --connectivity",
    "fabric nodes NET",
    "fabric nodes NET --jobs nobody,n1",
    "fabric generate torus:3x3,hosts=1 --out FRESH/net",
    "survive lost --fabric torus:3x3,hosts=1 --engines dfsssp --faults 1 --seeds 2",
    "survive matrix --fabric torus:3x3,hosts=1 --engines dor,dfsssp --time 10000",
    "survive throughput --fabric torus:3x3,hosts=1 --engines dfsssp --faults 0,1 --seeds 2 --packets 1 --out FRESH/survive",
    "survive throughput --fabric torus:3x3,hosts=1 --engines dfsssp --faults 0,1 --seeds 1 --packets 1 --out FRESH/shards --shard 1/2",
    "replay --fabric fattree:4x4,2 --trace generated:taurus,days=1 --every 12h --engines dfsssp,sar",
    "replay-events RECORD --out FRESH/again",
    "capture RECORD --out FRESH/captured",
    "bench time --fabric fattree:4x4,2 --seeds 1 --sizes 4 --patterns ring",
    "bench adversary --specs 4 --seed 1 --max-hosts 20",
    "angara sweep --samples 1 --max-nodes 20 --out FRESH/sweep",
    "angara curve --max-nodes 30",
    "engines",
    "patterns",
    "sources",
    "deliveries",
    "measures",
];

/// A recording of a service.
const RECORD: &str = "tests/data/record/000001.jsonl";

/// A dump of Slurm's accounting without jobs.
const ACCOUNTS: &str = "JobID|User|NNodes|State|Start|End|JobName\n";

#[test]
fn commands_print_what_their_schemas_say() {
    let site = Site::new("");
    site.replace("more", "1 n[1,5,9]\n2 n[2,6]\n");
    let more = site.path("more").display().to_string();
    let missing = site.path("missing").display().to_string();
    site.replace("accounts", ACCOUNTS);
    let accounts = site.path("accounts").display().to_string();
    // Something for `status` to say.
    assert_eq!(site.run(&["tick"]).0, 0);
    let fresh = site.path("fresh").display().to_string();
    let mut tried = BTreeSet::new();
    for (net, engine) in [("fattree:4x4,2", "dfsssp"), ("angara:4x4", "angara-sar")] {
        let tables = site.path(engine).display().to_string();
        let all = PRINTED.iter().copied();
        for line in all.chain(PRINTED_ONCE.iter().copied().filter(|_| net.starts_with("fattree"))) {
            let words = line.replace("NET", net).replace("ENGINE", engine);
            let words = words.split(' ').map(|word| {
                word.replace("ACCOUNTS", &accounts)
                    .replace("MORE", &more)
                    .replace("MISSING", &missing)
                    .replace("TABLES", &tables)
                    .replace("FRESH", &fresh)
                    .replace("RECORD", RECORD)
            });
            let words: Vec<String> = words.collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (code, said) = site.run(&words);
            let value: Value =
                serde_json::from_str(&said).unwrap_or_else(|e| panic!("{words:?}: {e}: {said}"));
            assert_eq!(value.get("error").is_some(), code == 2, "{words:?}: {said}");
            let (zero, schema) = site.run(&["schema", words[0]]);
            assert_eq!(zero, 0);
            let schema: Value = serde_json::from_str(&schema).unwrap();
            let why = misfit(&schema, "", &value);
            assert!(why.is_none(), "{words:?}: {}\n{said:.2000}", why.unwrap());
            assert!(misfit(&schema, "", &json!({ "no": 1 })).is_some(), "{words:?}");
            tried.insert(words[0].to_string());
        }
    }
    assert_eq!(tried.len(), 29, "{tried:?}");
}
