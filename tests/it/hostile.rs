//! Requests that no program of ours makes: slow, huge, nested, half-closed, smuggled, replayed, many.
//! None ends the service, none is told anything, none leaves anything behind.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::site::{Serving, Site};

fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// A head with these lines, and no more.
fn head(lines: &str) -> Vec<u8> {
    format!("{lines}\r\nhost: localhost\r\nconnection: close\r\n\r\n").into_bytes()
}

fn plan(body: &str) -> Vec<u8> {
    request("POST", "/v1/plan", "", body)
}

fn start(body: &str) -> Vec<u8> {
    request("POST", "/v1/jobs/7/start", "content-type: application/json\r\n", body)
}

/// What is refused with 4xx, or by closing the connection.
fn refused() -> Vec<(&'static str, Vec<u8>)> {
    let post = "POST /v1/plan HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let with = |rest: &str| format!("{post}{rest}").into_bytes();
    let deep = |n: usize, open: &str| open.repeat(n);
    vec![
        ("a header of 1 MiB", head(&format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(1 << 20)))),
        ("5,000 headers", head(&format!("GET / HTTP/1.1{}", "\r\nx: y".repeat(5000)))),
        ("a path of 1 MiB", head(&format!("GET /{} HTTP/1.1", "a".repeat(1 << 20)))),
        ("100 GiB to come", with("content-length: 107374182400\r\n\r\n")),
        ("a length beyond numbers", with("content-length: 99999999999999999999999\r\n\r\n")),
        ("a negative length", with("content-length: -1\r\n\r\n")),
        ("two lengths", with("content-length: 2\r\ncontent-length: 40\r\n\r\n{}")),
        ("an unknown coding", with("transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n")),
        ("a chunk beyond numbers", with("transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}")),
        ("a chunk of no size", with("transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n")),
        ("a byte 0 in a header", head("GET /v1/health HTTP/1.1\r\nx: a\0b")),
        ("a blank before the colon", head("GET /v1/health HTTP/1.1\r\nx : y")),
        ("an unknown method", head("FROBNICATE /v1/health HTTP/1.1")),
        ("a tunnel", head("CONNECT localhost:22 HTTP/1.1")),
        ("a trace", head("TRACE /v1/health HTTP/1.1")),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec()),
        ("nothing but line ends", "\r\n".repeat(100_000).into_bytes()),
        ("a body that nests", plan(&deep(100_000, "["))),
        ("objects that nest", plan(&deep(100_000, "{\"jobs\":"))),
        ("jobs that nest", plan(&format!("{{\"jobs\": \"{{\\\"jobs\\\": {}\"}}", deep(100_000, "[")))),
        ("a key twice", plan(r#"{"jobs": "1 n1", "jobs": "1 n[1-2]"}"#)),
        ("an unknown key", plan(r#"{"__proto__": {}}"#)),
        ("half a character", plan(r#"{"jobs": "\ud800"}"#)),
        ("jobs of no kind", plan(r#"{"jobs": {"toString": 1}}"#)),
        (
            "an unending number",
            start(&format!("{{\"nodes\": \"n1\", \"patience_seconds\": {}}}", "9".repeat(1 << 16))),
        ),
        ("a negative restart", start(r#"{"nodes": "n1", "patience_seconds": 1, "restart": -1}"#)),
        ("nodes beyond all machines", start(r#"{"nodes": "n[1-9999999999]", "patience_seconds": 1}"#)),
        ("brackets that multiply", start(r#"{"nodes": "n[1-99][1-99][1-99][1-99]", "patience_seconds": 1}"#)),
        (
            "a start that is no JSON",
            request("POST", "/v1/jobs/7/start", "content-type: text/plain\r\n", "{}"),
        ),
        ("a way up", head("GET /v1/epochs/%2e%2e%2f%2e%2e HTTP/1.1")),
        ("a way up in a job", head("GET /v1/jobs/..%2F..%2Fhistory.db/environment HTTP/1.1")),
        ("a byte 0 in a path", head("GET /v1/nodes/n1%00.txt HTTP/1.1")),
        ("more epochs than numbers", head("GET /v1/epochs?limit=18446744073709551616 HTTP/1.1")),
        ("fewer than none", head("GET /v1/snapshots?last=-1 HTTP/1.1")),
        ("half a request", b"GET /v1/health HTTP/1.1\r\nhost: loc".to_vec()),
    ]
}

fn open_files(serving: &Serving) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", serving.pid())).unwrap().count()
}

#[test]
fn hostile_requests_cost_nobody_anything() {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::routed(&site);
    site.is_well();
    let before = open_files(&serving);

    // Slow ones, there all the time.
    let mut slow: Vec<UnixStream> = Vec::new();
    for begun in [
        "",
        "G",
        "GET /v1/health HTTP/1.1\r\nhost:",
        "POST /v1/plan HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n{",
    ] {
        for _ in 0..20 {
            let mut stream = site.connect();
            stream.write_all(begun.as_bytes()).unwrap();
            slow.push(stream);
        }
    }
    for (what, bytes) in refused() {
        let mut stream = site.connect();
        let _ = stream.write_all(&bytes);
        // Half-closed: no more will come.
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{what}: {answer}");
        site.is_well();
    }
    // What may look odd and is in order.
    for (what, bytes) in [
        ("all epochs that there are", head("GET /v1/epochs?limit=18446744073709551615 HTTP/1.1")),
        ("other bodies where none belongs", request("GET", "/v1/health", "", "{}{}{}")),
        ("an upgrade", head("GET /v1/health HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket")),
    ] {
        let answer = site.raw(&bytes);
        assert!(answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
    }
    // Replayed: the same start thrice is one job.
    for _ in 0..3 {
        let answer = site.raw(&start(r#"{"nodes": "n[2-3]", "patience_seconds": 1}"#));
        assert!(answer.contains(r#""start":"one_switch""#), "{answer}");
    }
    // Smuggled: what is behind a body in the length of the other header is no request of its own.
    let hidden = "POST /v1/look HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    let both = format!(
        "POST /v1/plan HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\
         transfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        hidden.len() + 5
    );
    site.raw(both.as_bytes());
    site.is_well();
    // Many at once on one connection, and many connections.
    let mut many = "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
    many += "GET /v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(site.raw(many.as_bytes()).matches("HTTP/1.1 200").count(), 201);
    for _ in 0..500 {
        drop(site.connect());
    }
    site.is_well();
    drop(slow);
    serving.until(|| open_files(&serving) <= before + 4);
    let peak = serving.peak_kib();
    assert!(peak < 192 << 10, "{peak} KiB");
    assert_eq!(serving.stop(), 0);
}

/// Requests in order with bytes changed, cut out, doubled: whatever they have become, they are answered
/// or the connection ends, and the service goes on.
#[test]
fn mutated_requests_end_nothing() {
    const REQUESTS: u64 = 400;
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::routed(&site);
    let good = [
        plan(r#"{"jobs": "7 n[1-4,9]\n8 n[05-06]"}"#),
        plan(r#"{"jobs": "{\"jobs\": [{\"job_id\": 7, \"job_state\": [\"RUNNING\"], \"nodes\": \"n[1-4]\"}]}"}"#),
        start(r#"{"nodes": "n[2-3]", "patience_seconds": 0.1, "restart": 2, "length_seconds": 1e3}"#),
        request("GET", "/v1/epochs?limit=3&before=2", "sec-fetch-site: none\r\n", ""),
        request("GET", "/v1/load?epoch=1&job=1", "origin: http://localhost\r\n", ""),
        b"POST /v1/plan HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".to_vec(),
    ];
    let mut rng = sarouter::model::rng::Rng::new(19);
    let mut below = |n: usize| rng.below(n.max(1));
    for _ in 0..REQUESTS {
        let mut bytes = good[below(good.len())].clone();
        for _ in 0..=below(4) {
            let (at, to) = (below(bytes.len()), below(256) as u8);
            match below(4) {
                0 => bytes[at] = to,
                1 => bytes[at] ^= 1 << (to % 8),
                2 => drop(bytes.drain(at..(at + 1 + usize::from(to % 16)).min(bytes.len()))),
                _ => {
                    let piece = bytes[at..(at + 1 + usize::from(to % 16)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
            if bytes.is_empty() {
                bytes.push(to);
            }
        }
        let mut stream = site.connect();
        // Some now announce more than comes: nobody waits for their answer.
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let fine = answer.is_empty() || answer.starts_with("HTTP/1.1 2") || answer.starts_with("HTTP/1.1 4");
        assert!(fine || answer.starts_with("HTTP/1.0"), "{}: {answer}", String::from_utf8_lossy(&bytes));
    }
    let health = site.told_health();
    assert_eq!(health["healthy"], true, "{health}");
    assert_eq!(serving.stop(), 0);
}
