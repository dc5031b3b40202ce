//! The doors of the service: who gets in, with what share, and what hostile callers cost others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::site::{LONG, Serving, Site};

const READ: &str = "0123456789abcdef-read";

/// A service on a socket and a port; it looks only when asked.
fn on_both(more: &str) -> (Site, Serving, u16) {
    let site = Site::new("interval_seconds = 3600");
    let port = site.open_port(&format!("{READ} read\n"));
    site.settings(more);
    let serving = Serving::routed(&site);
    (site, serving, port)
}

/// All that comes back; a connection that is cut ends it.
fn answer(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap_or("none")
}

fn get(headers: &str) -> Vec<u8> {
    format!("GET /v1/health HTTP/1.1\r\nconnection: close\r\n{headers}\r\n").into_bytes()
}

#[test]
fn a_page_under_another_name_is_refused_whatever_its_browser_says() {
    let (site, _serving, port) = on_both("");
    for headers in [
        "host: localhost\r\n",
        "host: localhost:8080\r\nsec-fetch-site: same-origin\r\norigin: http://localhost:8080\r\n",
        "host: 127.0.0.1:8080\r\nsec-fetch-site: none\r\n",
        "host: [::1]:8080\r\n",
    ] {
        assert_eq!(status(&site.raw(&get(headers))), "200", "{headers}");
    }
    for headers in [
        "host: evil.com\r\n",
        "host: evil.com\r\nsec-fetch-site: same-origin\r\n",
        "host: evil.com:8080\r\nsec-fetch-site: same-origin\r\norigin: http://evil.com:8080\r\n",
        "host: localhost\r\nsec-fetch-site: cross-site\r\n",
        "host: localhost\r\nsec-fetch-site: same-site\r\n",
        "host: localhost\r\norigin: http://evil.com\r\n",
        "host: localhost\r\norigin: null\r\n",
        "host: localhost\r\nhost: evil.com\r\n",
        "host: localhost.evil.com\r\n",
    ] {
        assert_eq!(status(&site.raw(&get(headers))), "403", "{headers}");
    }
    let absolute = b"GET http://evil.com/v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(status(&site.raw(absolute)), "403");
    // Over a network a token says who asks, and the machine may have any name; pages of others may not.
    let over_tcp = |headers: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&get(&format!("authorization: Bearer {READ}\r\n{headers}"))).unwrap();
        answer(stream)
    };
    assert_eq!(status(&over_tcp("host: manager.site.org:6830\r\n")), "200");
    assert_eq!(status(&over_tcp("host: manager\r\norigin: http://evil.com\r\n")), "403");
    site.is_well();
}

#[test]
fn idle_strangers_keep_nobody_with_a_token_out() {
    let (site, _serving, port) = on_both("");
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(&get(&format!("host: x\r\nauthorization: Bearer {READ}\r\n"))).unwrap();
        answer(stream)
    };
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(("127.0.0.1", port)).unwrap());
        if idle.len() % 50 == 0 {
            assert_eq!(status(&ask()), "200", "after {}", idle.len());
        }
    }
    // With a token that is not known they are strangers too.
    for stream in &mut idle {
        let _ =
            stream.write_all(b"GET /v1/health HTTP/1.1\r\nhost: x\r\nauthorization: Bearer wrong\r\n\r\n");
    }
    assert_eq!(status(&ask()), "200");
    site.is_well();
}

#[test]
fn one_who_uses_up_a_shared_token_keeps_others_out_at_his_address_alone() {
    let (_site, _serving, port) = on_both("");
    let ask = |keep: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let request = format!(
            "GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: {keep}\r\nauthorization: bearer {READ}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        (stream, String::from_utf8_lossy(&first[9..]).into_owned())
    };
    let all: Vec<_> = (0..32).map(|_| ask("keep-alive")).collect();
    assert!(all.iter().all(|(_, status)| status == "200"));
    assert_eq!(ask("close").1, "503");
    let header = format!("Authorization: Bearer {READ}");
    let curl = |from: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--interface", from, "-H", &header]);
        String::from_utf8(curl.arg(format!("http://127.0.0.1:{port}/v1/health")).output().unwrap().stdout)
            .unwrap()
    };
    assert_eq!([curl("127.0.0.1"), curl("127.0.0.2")], ["503", "200"]);
}

#[test]
fn whoever_changes_something_is_in_the_log() {
    let (site, _serving, _) = on_both("");
    for (path, body, line) in [
        ("/v1/look", json!({}), "audit: look"),
        ("/v1/hold", json!({ "reason": "row 3" }), "audit: hold: \"row 3\""),
        ("/v1/resume", json!({}), "audit: resume"),
        (
            "/v1/jobs/7/start",
            json!({ "nodes": "n[2-3]", "patience_seconds": 10 }),
            "audit: start of job 7: OneSwitch",
        ),
        ("/v1/jobs/7/end", json!({}), "audit: end of job 7"),
    ] {
        site.post(path, &body).unwrap();
        let log = site.log();
        let found = log.lines().find(|l| l.contains(line)).unwrap_or_else(|| panic!("{line}: {log}"));
        assert!(found.contains("caller=\"uid "), "{found}");
    }
}

/// Waits as a prolog does: asks again until there is an answer.
fn prolog(site: &Site, job: usize) -> String {
    let begun = Instant::now();
    loop {
        let left = 60.0 - begun.elapsed().as_secs_f64();
        let nodes = format!("n[{},{}]", job % 8 + 1, job % 8 + 9);
        let asked = json!({ "nodes": nodes, "patience_seconds": left.max(0.1) });
        let path = format!("/v1/jobs/{job}/start");
        let said = site.post(&path, &asked).unwrap();
        if let Some(outcome) = said["start"].as_str() {
            return outcome.to_string();
        }
        assert!(begun.elapsed() < LONG, "job {job} waits for ever");
    }
}

/// A thousand jobs start at once while two others ask for pictures and dry runs and hang up.
#[test]
fn a_thousand_prologs_at_once_are_all_served_under_attack() {
    let handoff = "[handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\ndeadline_seconds = 100\n";
    let (site, serving, port) = on_both(&format!("\n{handoff}"));
    sarouter::service::api::listen::allow_many_files();
    let over = AtomicBool::new(false);
    let outcomes: Vec<String> = std::thread::scope(|scope| {
        for attacker in 0..2 {
            let (site, over) = (&site, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let mut stream = site.connect();
                    let path = ["POST /v1/plan", "GET /v1/fabric"][attacker];
                    let head = format!("{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
                    let _ = stream.write_all(head.as_bytes());
                    let _idle = TcpStream::connect(("127.0.0.1", port));
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let prologs: Vec<_> = (0..1000)
            .map(|job| {
                let builder = std::thread::Builder::new().stack_size(1 << 20);
                let site = &site;
                builder.spawn_scoped(scope, move || prolog(site, job)).unwrap()
            })
            .collect();
        let outcomes: Vec<_> = prologs.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        outcomes.into_iter().map(|outcome| outcome.expect("a prolog without an answer")).collect()
    });
    let of = |name: &str| outcomes.iter().filter(|outcome| *outcome == name).count();
    assert_eq!(of("in_force") + of("deadline"), 1000, "{:?}", outcomes.first());
    assert!(of("in_force") > 0);
    assert_eq!(serving.stop(), 0);
    let handoff = &site.health()["handoff"];
    assert!(handoff["announced"].as_u64().unwrap() >= 1000, "{handoff}");
}
