//! What users who may only ask cost those who may more, and files that somebody has put something else in the place of.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
use sarouter::service::api::listen::for_writers;
use sarouter::service::client::Client;
use serde_json::{Value, json};

use crate::attacks::{ATTACKS, TOKEN, Target};
use crate::site::{LONG, Serving, Site};

const NOBODY: u32 = 65534;

/// A service that others reach, which looks only when asked or told of a change.
fn open() -> (Site, Serving) {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::routed(&site);
    for path in [site.path(""), site.path("state")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    (site, serving)
}

/// Does something as a user who may only ask: a thread has a user of its own.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let nobody = scope.spawn(|| {
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        nobody.join().unwrap()
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The niceness of a service's thread of this name.
fn niceness(serving: &Serving, name: &str) -> i64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", serving.pid())).unwrap();
    let stats = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let of = |stat: &str| {
        let rest = stat.split_once(&format!("({name}) "))?.1;
        rest.split_whitespace().nth(16)?.parse().ok()
    };
    stats.filter_map(|stat| of(&stat)).next().unwrap_or_else(|| panic!("no thread {name}"))
}

#[test]
fn whoever_only_asks_waits_for_a_turn_beside_the_loop() {
    if !is_root() {
        return;
    }
    let (site, serving) = open();
    // Nothing is nicer than 19: the test may be run under nice.
    assert_eq!(niceness(&serving, "readers"), (niceness(&serving, "sarouter") + 10).min(19));
    const ASKED: usize = 250;
    let mut asked = "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(ASKED - 1);
    asked += "GET /v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let (answers, taken) = as_nobody(|| {
        let begun = Instant::now();
        (site.raw(asked.as_bytes()), begun.elapsed())
    });
    // All are answered, the first hundred at once.
    assert_eq!(answers.matches("HTTP/1.1 200").count(), ASKED);
    assert!(taken >= Duration::from_millis(10) * (ASKED as u32 - 110), "{taken:?}");
    // Whoever may change something has no pace.
    assert_eq!(site.raw(asked.as_bytes()).matches("HTTP/1.1 200").count(), ASKED);
    let refused = as_nobody(|| {
        let post =
            b"POST /v1/look HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        site.raw(post)
    });
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert_eq!(site.told_health()["healthy"], true);
    assert_eq!(serving.stop(), 0);
}

/// As many as the system lets wait want in: a prolog then is told to try again.
#[test]
fn a_crowd_before_the_door_keeps_no_prolog_out() {
    if !is_root() {
        return;
    }
    let (site, serving) = open();
    serving.signal(Signal::STOP);
    let path = site.path("state/api.sock");
    sarouter::service::api::listen::allow_many_files();
    let crowd = as_nobody(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut crowd = Vec::new();
            while let Ok(stream) = tokio::net::UnixStream::connect(&path).await {
                crowd.push(stream.into_std().unwrap());
            }
            crowd
        })
    });
    assert!(crowd.len() > 100, "{}", crowd.len());
    let answer = std::thread::scope(|scope| {
        let prolog = scope.spawn(|| {
            let client = Client::new(&path, LONG);
            let asked = json!({ "nodes": "n[2-3]", "patience_seconds": 60 });
            client.wait(client.post::<Value>("/v1/jobs/7/start", &asked))
        });
        std::thread::sleep(Duration::from_millis(100));
        serving.signal(Signal::CONT);
        prolog.join().unwrap()
    });
    assert_eq!(answer.unwrap()["start"], "one_switch");
    drop(crowd);
    // The door beside the crowd's is not open to strangers, and goes with the other one.
    let own = for_writers(&path);
    let refused = as_nobody(|| UnixStream::connect(&own).unwrap_err());
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(site.told_health()["healthy"], true);
    assert_eq!(serving.stop(), 0);
    assert!(!own.exists() && !path.exists());
}

/// Ends the attacks when the answers were had, and when one failed: otherwise nobody would ever read its message.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each way of attacking, by two at once, as often as it goes while jobs start and end. The figures are those of
/// `cargo bench --bench attack`.
#[test]
fn attacks_keep_nobody_waiting_for_ever_and_change_nothing() {
    if !is_root() {
        return;
    }
    let site = Site::new("interval_seconds = 3600");
    let port = site.open_port(&format!("{TOKEN} read\n"));
    let serving = Serving::routed(&site);
    for path in [site.path(""), site.path("state")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let target = Target { socket: site.path("state/api.sock"), port };
    let files = || std::fs::read_dir(format!("/proc/{}/fd", serving.pid())).unwrap().count();
    let before = files();
    let client = Client::new(&target.socket, LONG);
    assert!(ATTACKS.len() >= 30);
    for (job, (_, attack)) in ATTACKS.iter().enumerate() {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    as_nobody(|| {
                        while !over.load(Ordering::Relaxed) {
                            let _ = attack(&target);
                        }
                    });
                });
            }
            let _ends = Ends(&over);
            for _ in 0..5 {
                let asked = json!({ "nodes": "n[2-3]", "patience_seconds": 60 });
                let path = |what: &str| format!("/v1/jobs/{}/{what}", job + 10);
                let said: Value = client.wait(client.post(&path("start"), &asked)).unwrap();
                assert_eq!(said["start"], "one_switch");
                let _: Value = client.wait(client.post(&path("end"), &json!({}))).unwrap();
            }
        });
        site.is_well();
    }
    serving.until(|| files() <= before + 4);
    let peak = serving.peak_kib();
    assert!(peak < 256 << 10, "{peak} KiB");
    assert_eq!(serving.stop(), 0);
}

fn pipe(path: &Path) {
    let _ = std::fs::remove_file(path);
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// To open a pipe waits for its writer: neither the loop nor a look does.
#[test]
fn a_pipe_in_the_place_of_a_file_is_told_and_hangs_nothing() {
    let site = Site::new("interval_seconds = 3600");
    site.alter("source = \"fabric.net\"", "source = \"fabric.net\"\nnode_map = \"map\"");
    site.replace("map", "# as the adapters are called\n");
    let port = site.open_port(&format!("{TOKEN} read\n"));
    let serving = Serving::routed(&site);
    for name in ["fabric.net", "map"] {
        let good = std::fs::read_to_string(site.path(name)).unwrap();
        pipe(&site.path(name));
        serving.signal(Signal::HUP);
        serving.until(|| site.told_health()["problems"].to_string().contains("not a regular file"));
        site.replace(name, &good);
        serving.until(|| site.told_health()["healthy"] == true);
    }
    pipe(&site.path("tokens"));
    std::fs::set_permissions(site.path("tokens"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let asked = "GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer 0123456789abcdef-read";
    stream.write_all(format!("{asked}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert_eq!(site.told_health()["healthy"], true);
    assert_eq!(serving.stop(), 0);
}
