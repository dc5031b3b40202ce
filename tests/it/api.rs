//! The service's socket: who may ask what, and what is refused.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sarouter::service::api::state::HealthAnswer;
use sarouter::service::client::{Client, ClientError};
use serde_json::{Value, json};

use rustix::process::Signal;

use crate::site::{LONG, Serving, Site, free_port, refusal};

/// A site whose service looks only when asked.
fn site() -> Site {
    Site::new("interval_seconds = 3600")
}

#[test]
fn health_is_told_and_a_look_can_be_asked_for() {
    let site = site();
    let serving = Serving::routed(&site);
    let client = Client::new(&site.path("state/api.sock"), LONG);
    let health: HealthAnswer = client.wait(client.get("/v1/health")).unwrap();
    assert_eq!((health.healthy, health.problems, health.health.epoch), (true, vec![], Some(1)));
    site.jobs("2|RUNNING|n[2,6]|100\n");
    assert_eq!(site.post("/v1/look", &json!({})).unwrap(), json!({}));
    assert_eq!(serving.line()["epoch"]["reason"], "jobs_changed");
    assert_eq!(refusal(site.get("/v1/nothing")).0, 404);
    assert_eq!(refusal(site.get("/v1/look")).0, 405);
    assert_eq!(serving.stop(), 0);
    assert!(!site.path("state/api.sock").exists());
    assert!(matches!(site.get("/v1/health"), Err(ClientError::Connect { .. })));
}

#[test]
fn jobs_are_told_with_their_slow_down_and_what_it_would_be_without_routes_for_them() {
    let site = site();
    // Two on four switches, one on one switch.
    site.jobs("1|RUNNING|n[1,5,9,13]|100\n2|RUNNING|n[2,6,10,14]|100\n3|RUNNING|n[3-4]|100\n");
    let serving = Serving::routed(&site);
    let jobs = site.get("/v1/jobs").unwrap();
    let plan: Value =
        serde_json::from_slice(&std::fs::read(site.path("state/epochs/000001/plan.json")).unwrap()).unwrap();
    assert_eq!(jobs["now"], plan["after"]["time"]);
    assert_eq!(jobs["before"], Value::Null, "nothing was in force before");
    let engine = jobs["baseline"]["engine"].as_str().unwrap();
    assert!(["fattree", "updown", "dfsssp"].contains(&engine), "{engine}");
    let without = |i: usize| jobs["jobs"][i]["baseline"].as_f64().unwrap();
    let mean = (without(0) * without(1)).sqrt();
    assert!((mean - jobs["baseline"]["slowdown_mean"].as_f64().unwrap()).abs() < 1e-9, "{jobs}");
    assert!(jobs["jobs"][0]["now"]["slowdown"].as_f64().unwrap() >= 1.0, "{jobs}");
    assert_eq!((&jobs["jobs"][2]["now"], &jobs["jobs"][2]["baseline"]), (&Value::Null, &Value::Null));

    // For its owner, in words.
    let say = |id: &str| site.in_words(["job", id]).output().unwrap();
    let text = |id: &str| String::from_utf8(say(id).stdout).unwrap();
    let told = text("1");
    assert!(told.starts_with("job         1, running, 4 nodes under 4 switches: n[1,5,9,13]"), "{told}");
    let slow = format!("takes {:.2} times", jobs["jobs"][0]["now"]["slowdown"].as_f64().unwrap());
    let beside = format!("{:.2} with {engine}, which knows no jobs", without(0));
    assert!(told.contains(&slow) && told.contains(&beside), "{told}");
    assert!(text("3").contains("under one switch: routes do not matter"), "{}", text("3"));
    assert_eq!(say("99").status.code(), Some(1));
    assert!(text("99").contains("has seen no job 99"), "{}", text("99"));
    assert_eq!(serving.stop(), 0);
}

const SOCKET: &str = "SAROUTER_TEST_SOCKET";

/// What another user's process is told: prints the answers of three requests.
#[test]
fn the_other_user() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let client = Client::new(Path::new(&socket), LONG);
    let health = client.wait(client.get::<Value>("/v1/health"));
    let look = client.wait(client.post::<Value>("/v1/look", &json!({})));
    let submissions = client.wait(client.get::<Value>("/v1/submissions"));
    println!("\nhealth: {health:?}\nlook: {look:?}\nsubmissions: {submissions:?}");
}

/// Runs [`the_other_user`] as nobody; `None` if this cannot be done here.
pub fn as_nobody(site: &Site) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(site.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    let nobody = 65534;
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "api::the_other_user", "--nocapture"])
        .env(SOCKET, site.path("state/api.sock"))
        .uid(nobody)
        .gid(nobody)
        .output();
    match output {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        other => {
            println!("skipped: this program cannot run as another user: {other:?}");
            None
        }
    }
}

#[test]
fn another_user_may_ask_but_not_change_unless_the_settings_say_so() {
    for (settings, health, look) in [
        ("", "health: Ok", "look: Err(Refused { status: 403, message: \"uid 65534 may not do this\" })"),
        ("others_read = false", "health: Err(", "look: Err("),
        ("write_users = [\"nobody\"]", "health: Ok", "look: Ok"),
        ("write_groups = [65534]", "health: Ok", "look: Ok"),
    ] {
        let site = site();
        site.settings(&format!("[api]\n{settings}\n"));
        let serving = Serving::routed(&site);
        site.jobs("2|RUNNING|n[2,6]|100\n");
        let Some(told) = as_nobody(&site) else { return };
        assert!(told.contains(health) && told.contains(look), "{settings}: {told}");
        if look == "look: Ok" {
            assert_eq!(serving.line()["epoch"]["epoch"], 2);
        } else {
            // Nothing was looked at.
            assert_eq!(site.told_health()["passes"], 1);
            let log = site.log();
            assert!(log.contains("refused") && log.contains("uid 65534"), "{log}");
        }
    }
}

#[test]
fn a_service_whose_directory_was_emptied_leaves_it_to_the_one_that_began_there() {
    let site = Site::new("interval_seconds = 3600");
    let first = Serving::routed(&site);
    first.ready(&site);
    // The first one sleeps, or it may begin anew there before the second.
    first.signal(Signal::STOP);
    let empty = || first.until(|| std::fs::remove_dir_all(site.path("state")).is_ok());
    empty();
    let second = Serving::start(&site);
    let line = second.line();
    assert_eq!(line["epoch"]["epoch"], 1, "{line}");
    first.signal(Signal::CONT);
    first.signal(Signal::HUP);
    assert_eq!(first.ended(), 2);
    assert!(site.log().contains("service.lock is held by process"), "{}", site.log());
    assert_eq!((second.stop(), site.current().is_some()), (0, true));
}

#[test]
fn a_second_service_is_refused_and_a_dead_ones_socket_is_replaced() {
    let site = site();
    let serving = Serving::routed(&site);
    let second = site.command(&["serve"]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("service.lock is held by process"), "{said}");
    drop(serving);
    assert!(site.path("state/api.sock").exists(), "killed, it cannot clear up");
    let serving = Serving::start(&site);
    site.jobs("2|RUNNING|n[2,6]|100\n");
    let begun = Instant::now();
    while site.get("/v1/health").is_err() {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(serving.stop(), 0);
    // Something else in its place is left alone.
    std::fs::write(site.path("state/api.sock"), "mine").unwrap();
    assert_eq!(site.command(&["serve"]).output().unwrap().status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(site.path("state/api.sock")).unwrap(), "mine");
}

#[test]
fn what_is_not_http_does_no_harm() {
    let site = site();
    let _serving = Serving::routed(&site);
    assert!(site.raw(b"\x16\x03\x01 not http\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(site.raw(&[b'A'; 1 << 20]).starts_with("HTTP/1.1 4"));
    // Many connections that say nothing: those who may write still get through.
    let idle: Vec<UnixStream> = (0..200).map(|_| site.connect()).collect();
    assert_eq!(site.told_health()["healthy"], true);
    drop(idle);
}

#[test]
fn the_api_tells_epochs_nodes_tables_and_plans() {
    let site = site();
    let serving = Serving::routed(&site);
    site.jobs("7|RUNNING|n[1,5,9]|100\n8|RUNNING|n[2-3]|100\n9|CONFIGURING|n[4,8]|100\n");
    site.look();
    assert_eq!(serving.line()["epoch"]["epoch"], 2);

    assert_eq!(site.get("/v1/nodes/n5").unwrap()["jobs"], json!(["7"]));
    assert_eq!(site.get("/v1/nodes/N5.hpc.example").unwrap()["jobs"], json!(["7"]), "as in any other case");
    assert_eq!(site.get("/v1/nodes/n5").unwrap()["terminals"].as_array().unwrap().len(), 1);
    let epoch = site.get("/v1/epochs/2").unwrap();
    assert_eq!(epoch["in_force"], true);
    assert_eq!(epoch["plan"]["reason"], "jobs_changed");
    let load = site.get("/v1/load?epoch=2").unwrap();
    for (key, when) in [("now", "after"), ("before", "before")] {
        let loads = load[key].as_array().unwrap().iter().map(|l| l.as_u64().unwrap());
        assert_eq!(loads.max(), epoch["plan"][when]["effective"]["max"].as_u64(), "{key}");
    }
    let looks = site.get("/v1/snapshots").unwrap();
    assert!(!looks["snapshots"].as_array().unwrap().is_empty(), "{looks}");

    // A switch's table has a port for every destination.
    let fabric = sarouter::lab::generate::generate("fattree:4x4,2").unwrap();
    let guid = fabric.switches()[0].guid.to_string();
    let table = site.get(&format!("/v1/epochs/2/switches/{guid}")).unwrap();
    let entries = table["entries"].as_array().unwrap();
    assert!(
        entries.len() == 16 + 6 && entries.iter().all(|e| e[2].as_u64() > Some(0) || e[0] == guid.as_str()),
        "{table}"
    );

    // A dry run changes nothing.
    assert_eq!(site.post("/v1/plan", &json!({})).unwrap()["due"], false);
    let plan = site.post("/v1/plan", &json!({ "jobs": "1 n[1,6,11]" })).unwrap();
    assert_eq!(
        (&plan["due"], &plan["reason"], &plan["per_job"][0]["job"]),
        (&true.into(), &"jobs_changed".into(), &"1".into())
    );
    assert_eq!(site.current().unwrap(), Path::new("epochs/000002"));
    assert_eq!(refusal(site.get("/v1/epochs/3")).0, 404);
    assert_eq!(refusal(site.get("/v1/epochs/0")).0, 400);
    let unknown = (404, "no host of the fabric is called n99; did you mean n9?".to_string());
    assert_eq!(refusal(site.get("/v1/nodes/n99")), unknown);
}

#[test]
fn paths_that_lead_elsewhere_and_huge_bodies_are_refused_and_change_nothing() {
    let site = site();
    std::fs::create_dir(site.path("spool")).unwrap();
    std::fs::write(site.path("outside"), "1 n[1,6]").unwrap();
    std::fs::write(site.path("spool/inside"), "1 n[1,6]").unwrap();
    std::os::unix::fs::symlink("../outside", site.path("spool/link")).unwrap();
    site.settings("[spool]\ndirectory = \"spool\"\n");
    let _serving = Serving::routed(&site);
    assert_eq!(site.post("/v1/plan", &json!({ "spool_file": "inside" })).unwrap()["due"], true);
    for name in ["../outside", "link", "/etc/passwd", "..", ""] {
        assert_eq!(refusal(site.post("/v1/plan", &json!({ "spool_file": name }))).0, 400, "{name}");
    }
    for path in [
        "/v1/nodes/..%2F..%2Fetc%2Fpasswd",
        "/v1/jobs/..%2F..%2Fstate/nodes/n1/table",
        "/v1/jobs/7/nodes/..%2F..%2Fhealth.json/table",
        "/v1/epochs/..%2F000001",
    ] {
        assert_eq!(refusal(site.get(path)).0, 400, "{path}");
    }
    // A job on a node with such a name is no job; nor is a dry run for one.
    assert_eq!(refusal(site.post("/v1/plan", &json!({ "jobs": "1 n[1,6],../x" }))).0, 400);
    // 100 MB are not read to their end.
    let mut stream = UnixStream::connect(site.path("state/api.sock")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let head = format!("POST /v1/plan HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", 100 << 20);
    stream.write_all(head.as_bytes()).unwrap();
    let mut sent = 0;
    while sent < 100 << 20 && stream.write_all(&[b' '; 1 << 16]).is_ok() {
        sent += 1 << 16;
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(
        answer.starts_with("HTTP/1.1 413") || (answer.is_empty() && sent < 50 << 20),
        "{sent} sent: {answer}"
    );
    assert_eq!(site.told_health()["passes"], 1);
    assert_eq!(site.current().unwrap(), Path::new("epochs/000001"));
    assert!(site.log().contains("refused"), "{}", site.log());
}

/// One request over TCP: status line and body.
#[test]
fn what_is_refused_before_it_is_read_is_refused_as_json_too() {
    let site = site();
    let serving = Serving::start(&site);
    serving.line();
    let ask = |head: &str, body: &str| {
        let head = format!("{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        site.raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
    };
    for (head, body, status) in [
        ("GET /v1/epochs?limit=-1", "", 400),
        ("GET /v1/place?nodes=-1", "", 400),
        ("GET /v1/snapshots?last=x", "", 400),
        ("GET /v1/nodes/%ff", "", 400),
        ("POST /v1/hold", "{}", 415),
        ("POST /v1/hold", "[", 415),
        ("GET /v1/no/such/path", "", 404),
        ("DELETE /v1/health", "", 405),
    ] {
        let answer = ask(head, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{answer}");
        assert!(!crate::site::json(body)["error"].as_str().unwrap().is_empty(), "{answer}");
    }
    assert_eq!(serving.stop(), 0);
}

fn over_tcp(port: u16, method: &str, path: &str, token: Option<&str>) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let token = token.map_or(String::new(), |t| format!("authorization: Bearer {t}\r\n"));
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{token}content-length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn on_a_network_only_a_good_token_is_let_in() {
    use std::os::unix::fs::PermissionsExt;
    const READ: &str = "0123456789abcdef-read";
    const WRITE: &str = "0123456789abcdef-write";
    const OLD: &str = "0123456789abcdef-old";
    let site = site();
    let port = free_port();
    site.settings(&format!("[api]\ntcp = \"127.0.0.1:{port}\"\ntoken_file = \"tokens\"\n"));
    let write_tokens = |text: &str, mode| {
        site.replace("tokens", text);
        std::fs::set_permissions(site.path("tokens"), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let text = format!("{READ} read\n{WRITE} write\n{OLD} write 2020-01-01T00:00:00Z\n");
    // Others could read it: the service does not start.
    write_tokens(&text, 0o644);
    let output = site.command(&["serve"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("mode is 644"), "{output:?}");
    write_tokens(&text, 0o600);
    let serving = Serving::routed(&site);
    let ask = |method, path, token| over_tcp(port, method, path, token);
    for token in [None, Some("wrong"), Some(OLD), Some("")] {
        for (method, path) in
            [("GET", "/v1/health"), ("POST", "/v1/look"), ("GET", "/metrics"), ("GET", "/none")]
        {
            let answer = ask(method, path, token);
            assert!(answer.starts_with("HTTP/1.1 401"), "{path} {token:?}: {answer}");
        }
    }
    assert!(ask("GET", "/v1/health", Some(OLD)).contains("expired"));
    assert!(ask("GET", "/v1/health", Some(READ)).starts_with("HTTP/1.1 200"));
    assert!(ask("POST", "/v1/look", Some(READ)).starts_with("HTTP/1.1 403"));
    assert_eq!(site.told_health()["passes"], 1);
    site.jobs("2|RUNNING|n[2,6]|100\n");
    assert!(ask("POST", "/v1/look", Some(WRITE)).starts_with("HTTP/1.1 200"));
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
    // A token that is taken away is worth nothing at once.
    write_tokens(&format!("{READ} read\n"), 0o600);
    assert!(ask("POST", "/v1/look", Some(WRITE)).starts_with("HTTP/1.1 401"));
    let log = site.log();
    assert!(log.contains("has expired") && log.contains("not known"), "{log}");
    assert!(!log.contains(WRITE) && !log.contains(OLD), "tokens are not logged: {log}");
}

#[test]
fn metrics_are_samples_under_their_headings() {
    let site = site();
    // Worse than the best engine that knows no jobs, so that the two are told apart.
    site.alter("dfsssp", "updown");
    site.jobs("1|RUNNING|n[1,2,5,6,9]|100\n");
    let _serving = Serving::routed(&site);
    let answer = site.raw(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    for line in ["sarouter_healthy 1", "sarouter_epoch 1", "sarouter_jobs 1", "sarouter_fabric_cables 16"] {
        assert!(body.contains(&format!("\n{line}\n")), "{line}: {body}");
    }
    // What the tables are worth is what the epoch says.
    let plan: Value =
        serde_json::from_slice(&std::fs::read(site.path("state/epochs/000001/plan.json")).unwrap()).unwrap();
    let slow = plan["after"]["time"]["slowdown_mean"].as_f64().unwrap();
    let load = &plan["after"]["effective"]["max"];
    for line in [
        format!("sarouter_slowdown{{tables=\"now\"}} {slow}"),
        "sarouter_slowdown{tables=\"bound\"} 1".to_string(),
        format!("sarouter_largest_load{{tables=\"now\"}} {load}"),
        format!("sarouter_largest_load{{tables=\"bound\"}} {}", plan["after"]["effective"]["lower_bound"]),
    ] {
        assert!(body.contains(&format!("\n{line}\n")), "{line}: {body}");
    }
    let without =
        body.lines().find_map(|line| line.strip_prefix("sarouter_slowdown{tables=\"without_jobs\"} "));
    assert!(without.unwrap().parse::<f64>().unwrap() < slow, "{body}");
    assert!(!body.contains("{tables=\"before\"}"), "nothing was in force before: {body}");
    let mut typed = std::collections::BTreeSet::new();
    for line in body.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => assert!(typed.insert(rest.split(' ').next().unwrap()), "{line}"),
            None if line.starts_with('#') => {}
            None => assert!(typed.contains(line.split(['{', ' ']).next().unwrap()), "{line}"),
        }
    }
}
