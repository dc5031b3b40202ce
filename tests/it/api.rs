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

use crate::site::{LONG, Serving, Site};

/// A site whose service looks only when asked.
fn site() -> Site {
    Site::new("interval_seconds = 3600")
}

fn client(site: &Site) -> Client {
    Client::new(&site.path("state/api.sock"), LONG)
}

fn get(site: &Site, path: &str) -> Result<Value, ClientError> {
    let client = client(site);
    client.wait(client.get(path))
}

fn post(site: &Site, path: &str, body: &Value) -> Result<Value, ClientError> {
    let client = client(site);
    client.wait(client.post(path, body))
}

/// HTTP status and words of a refusal.
fn refusal(result: Result<Value, ClientError>) -> (u16, String) {
    match result {
        Err(ClientError::Refused { status, message }) => (status, message),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn health_is_told_and_a_look_can_be_asked_for() {
    let site = site();
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    let client = client(&site);
    let health: HealthAnswer = client.wait(client.get("/v1/health")).unwrap();
    assert_eq!((health.healthy, health.problems, health.health.epoch), (true, vec![], Some(1)));
    site.jobs("2|RUNNING|n[2,6]|100\n");
    assert_eq!(post(&site, "/v1/look", &json!({})).unwrap(), json!({}));
    assert_eq!(serving.line()["epoch"]["reason"], "jobs_changed");
    assert_eq!(refusal(get(&site, "/v1/nothing")).0, 404);
    assert_eq!(refusal(get(&site, "/v1/look")).0, 405);
    assert_eq!(serving.stop(), 0);
    assert!(!site.path("state/api.sock").exists());
    assert!(matches!(get(&site, "/v1/health"), Err(ClientError::Connect { .. })));
}

const SOCKET: &str = "SAROUTER_TEST_SOCKET";

/// What another user's process is told: prints the answers of two requests.
#[test]
fn the_other_user() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let client = Client::new(Path::new(&socket), LONG);
    let health = client.wait(client.get::<Value>("/v1/health"));
    let look = client.wait(client.post::<Value>("/v1/look", &json!({})));
    println!("\nhealth: {health:?}\nlook: {look:?}");
}

/// Runs [`the_other_user`] as nobody; `None` if this cannot be done here.
fn as_nobody(site: &Site) -> Option<String> {
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
        let serving = Serving::start(&site);
        assert_eq!(serving.line()["epoch"]["epoch"], 1);
        site.jobs("2|RUNNING|n[2,6]|100\n");
        let Some(told) = as_nobody(&site) else { return };
        assert!(told.contains(health) && told.contains(look), "{settings}: {told}");
        if look == "look: Ok" {
            assert_eq!(serving.line()["epoch"]["epoch"], 2);
        } else {
            // Nothing was looked at.
            assert_eq!(get(&site, "/v1/health").unwrap()["passes"], 1);
            let log = site.log();
            assert!(log.contains("refused") && log.contains("uid 65534"), "{log}");
        }
    }
}

/// Sends bytes and returns what comes back until the service closes.
fn raw(site: &Site, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(site.path("state/api.sock")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // It may close before all is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_second_service_is_refused_and_a_dead_ones_socket_is_replaced() {
    let site = site();
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    let second = site.command(&["serve"]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("another service listens on it"), "{said}");
    drop(serving);
    assert!(site.path("state/api.sock").exists(), "killed, it cannot clear up");
    let serving = Serving::start(&site);
    site.jobs("2|RUNNING|n[2,6]|100\n");
    let begun = Instant::now();
    while get(&site, "/v1/health").is_err() {
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
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    assert!(raw(&site, b"\x16\x03\x01 not http\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(raw(&site, &[b'A'; 1 << 20]).starts_with("HTTP/1.1 4"));
    // Many connections that say nothing: those who may write still get through.
    let idle: Vec<UnixStream> =
        (0..200).map(|_| UnixStream::connect(site.path("state/api.sock")).unwrap()).collect();
    assert_eq!(get(&site, "/v1/health").unwrap()["healthy"], true);
    drop(idle);
}
