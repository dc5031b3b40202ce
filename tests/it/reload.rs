//! Changed files while the service runs, and what it tells systemd.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

use sarouter::service::client::{Client, ClientError};
use serde_json::Value;

use crate::site::{LONG, Serving, Site};

/// A site whose service looks once in an hour by itself.
fn quiet() -> Site {
    Site::new("interval_seconds = 3600")
}

/// Waits until the health file says so.
fn await_health(site: &Site, what: &str, good: impl Fn(&Value) -> bool) -> Value {
    let begun = std::time::Instant::now();
    loop {
        let health = site.health();
        if good(&health) {
            return health;
        }
        assert!(begun.elapsed() < LONG, "waited in vain for {what}: {health}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn new_settings_are_followed_and_bad_ones_change_nothing() {
    let site = quiet();
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["reason"], "first");
    site.alter("dfsssp", "updown");
    let line = serving.line();
    assert_eq!(
        (&line["epoch"]["reason"], &line["epoch"]["engine"]),
        (&"engine_changed".into(), &"updown".into())
    );
    for (good, bad, word) in [
        ("updown", "no-such-engine", "no-such-engine"),
        ("[routing]", "[rooting]", "sarouter.toml:"),
        ("directory = \"state\"", "directory = \"elsewhere\"", "needs a restart"),
    ] {
        site.alter(good, bad);
        let line = serving.line();
        assert_eq!(line["failed"]["stage"], "settings", "{line}");
        assert!(line["failed"]["message"].as_str().unwrap().contains(word), "{line}");
        let health = await_health(&site, "the complaint", |h| !h["settings_refused"].is_null());
        assert_eq!(health["serving"], true);
        let (code, text) = site.run(&["status", "--state", site.path("state").to_str().unwrap()]);
        assert!(code == 1 && text.contains(word), "{text}");
        site.alter(bad, good);
        await_health(&site, "the end of the complaint", |h| h["settings_refused"].is_null());
    }
    // The old engine still serves new jobs.
    site.jobs("2|RUNNING|n[2,6]|100\n");
    serving.signal(rustix::process::Signal::HUP);
    let line = serving.line();
    assert_eq!(
        (&line["epoch"]["reason"], &line["epoch"]["engine"]),
        (&"jobs_changed".into(), &"updown".into())
    );
    assert!(!site.path("elsewhere").exists());
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_changed_fabric_or_spool_is_looked_at_at_once() {
    let site = quiet();
    std::fs::create_dir(site.path("spool")).unwrap();
    site.alter("[slurm]\n", "[slurm]\nsource = \"spool\"\n");
    site.settings("[spool]\ndirectory = \"spool\"\n");
    let spooled = |text: &str, mode| {
        std::fs::write(site.path("spool/.new"), text).unwrap();
        std::fs::set_permissions(site.path("spool/.new"), std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::rename(site.path("spool/.new"), site.path("spool/jobs")).unwrap();
    };
    spooled("1 n[1,5,9]\n", 0o644);
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["multi_switch"], 1);
    site.write_fabric(|c| c == 0);
    assert_eq!(serving.line()["epoch"]["reason"], "fabric_changed");
    spooled("1 n[1,5,9]\n2 n[2,6]\n", 0o644);
    assert_eq!(serving.line()["epoch"]["multi_switch"], 2);
    // A file that anybody may have written is not believed.
    spooled("3 n[3,7]\n", 0o666);
    let line = serving.line();
    assert_eq!(line["failed"]["stage"], "jobs", "{line}");
    assert!(line["failed"]["message"].as_str().unwrap().contains("others may write it"), "{line}");
    assert_eq!(serving.stop(), 0);
    assert_eq!(site.current().unwrap(), std::path::Path::new("epochs/000003"));
}

/// Gives the settings an impossible part; the complaint has this word.
fn refused(site: &Site, serving: &Serving, good: &str, bad: &str, word: &str) {
    site.alter(good, bad);
    let line = std::iter::repeat_with(|| serving.line()).find(|l| !l["failed"].is_null()).unwrap();
    assert_eq!(line["failed"]["stage"], "settings", "{line}");
    assert!(line["failed"]["message"].as_str().unwrap().contains(word), "{line}");
    await_health(site, "the complaint", |h| !h["settings_refused"].is_null());
}

/// Waits until new settings are in force for the `times`-th time.
fn followed(site: &Site, serving: &Serving, times: usize) {
    serving.until(|| site.log().matches("new settings").count() >= times);
}

fn listens(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// A connection that stays.
struct Connected(BufReader<UnixStream>);

impl Connected {
    fn to(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self(BufReader::new(stream))
    }

    /// Asks once more; false if the other end has gone.
    fn answers(&mut self) -> bool {
        let asked = self.0.get_mut().write_all(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut length = 0;
        loop {
            let mut line = String::new();
            match self.0.read_line(&mut line) {
                Ok(read) if read > 0 && asked.is_ok() => {}
                _ => return false,
            }
            if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line == "\r\n" {
                return self.0.read_exact(&mut vec![0; length]).is_ok();
            }
        }
    }
}

#[test]
fn the_interface_follows_its_settings_without_a_restart() {
    let site = quiet();
    site.settings("[api]\nbody_limit_kib = 1\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    let old = site.path("state/api.sock");
    // Connected while the rules change: one more answer at most. What listens stays.
    let mut connected = Connected::to(&old);
    assert!(connected.answers());
    let mut not_yet = Connected::to(&old);
    let plan = || {
        let client = Client::new(&old, LONG);
        client.wait(client.post::<Value>("/v1/plan", &serde_json::json!({ "jobs": " ".repeat(2000) })))
    };
    assert!(matches!(plan(), Err(ClientError::Refused { status: 413, .. })));
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    let before = inode(&old);
    site.alter("body_limit_kib = 1", "body_limit_kib = 65\nothers_read = false");
    followed(&site, &serving, 1);
    assert!((0..5).filter(|_| connected.answers()).count() <= 1);
    // Who has not asked yet is answered, once.
    assert!(not_yet.answers() && !not_yet.answers());
    assert!(!matches!(plan(), Err(ClientError::Refused { status: 413, .. })));
    assert!(listens(&old) && inode(&old) == before);
    // All or nothing: this socket could be had, this port could not.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(site.path("tokens"), "0123456789abcdef read\n").unwrap();
    std::fs::set_permissions(site.path("tokens"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let bad = format!(
        "socket = \"new.sock\"\ntcp = \"{}\"\ntoken_file = \"tokens\"\nothers_read = false",
        taken.local_addr().unwrap()
    );
    refused(&site, &serving, "others_read = false", &bad, "127.0.0.1");
    assert!(listens(&old) && !site.path("new.sock").exists());
    drop(taken);
    // The address is free, but nothing in the file says so.
    serving.signal(rustix::process::Signal::HUP);
    let port = bad.split('"').nth(3).unwrap();
    site.alter("socket = \"new.sock\"", "socket = \"newer.sock\"");
    serving.until(|| listens(&site.path("newer.sock")) && std::net::TcpStream::connect(port).is_ok());
    serving.until(|| !old.exists());
    await_health(&site, "the end of the complaint", |h| h["settings_refused"].is_null());
    site.alter("socket = \"newer.sock\"", "enable = false");
    serving.until(|| !site.path("newer.sock").exists() && std::net::TcpStream::connect(port).is_err());
    assert_eq!(serving.stop(), 0);
}

#[test]
fn the_recording_follows_its_settings_without_a_restart() {
    let site = quiet();
    site.settings("[record]\nfile_mib = 1\n");
    let serving = Serving::routed(&site);
    let recorded = || std::fs::read_to_string(site.path("state/record/000001.jsonl")).unwrap();
    let next = |jobs: &str| {
        site.jobs(jobs);
        serving.signal(rustix::process::Signal::HUP);
        assert_eq!(serving.line()["epoch"]["reason"], "jobs_changed");
    };
    site.alter("file_mib = 1", "enable = false");
    followed(&site, &serving, 1);
    let before = recorded();
    next("2|RUNNING|n[2,6]|100\n");
    next("3|RUNNING|n[3,7]|100\n");
    assert!(recorded() == before, "recorded though it is switched off");
    site.alter("enable = false", "file_mib = 1\nfiles = 2");
    followed(&site, &serving, 2);
    next("4|RUNNING|n[4,8]|100\n");
    assert_eq!(serving.stop(), 0);
    assert!(recorded() == before, "a new file begins after the gap");
    let out = site.path("again");
    let record = site.path("state/record");
    let words = ["replay-events", record.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let (code, text) = site.run(&words);
    let found = crate::site::json(&text);
    // The first epoch and the last; not those of the gap, though the last rests on them.
    assert_eq!((code, &found["recorded"], &found["same"]), (0, &2.into(), &2.into()), "{text}");
}

#[test]
fn the_hand_off_follows_its_settings_without_a_restart() {
    let site = quiet();
    site.settings("[handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\nmin_nodes = 5\n");
    let serving = Serving::routed(&site);
    let outcome = |nodes: &str| {
        let (code, text) = site.run(&["prolog", "--job", "7", "--nodes", nodes]);
        assert_eq!(code, 0, "{text}");
        crate::site::json(&text)["outcome"].as_str().unwrap().to_string()
    };
    assert_eq!(outcome("n[2,6]"), "next_pass");
    site.alter("min_nodes = 5", "min_nodes = 2");
    followed(&site, &serving, 1);
    assert_eq!(outcome("n[2,6]"), "in_force");
    site.alter("min_nodes = 2", "min_nodes = 3");
    followed(&site, &serving, 2);
    assert_eq!(outcome("n[3,7]"), "next_pass");
    assert_eq!(serving.stop(), 0);
}

/// What the node selection plugin would be answered; `None` without a socket.
fn select(site: &Site) -> Option<String> {
    let mut stream = UnixStream::connect(site.path("select.sock")).ok()?;
    stream.write_all(b"1 7 2 prefer\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    Some(line)
}

#[test]
fn node_selection_follows_its_settings_without_a_restart() {
    let site = quiet();
    let script = |name: &str, text: &str| {
        crate::script::script(site.path(name), &format!("#!/bin/sh\n{text}\n"));
    };
    let here = site.path("");
    let here = here.display();
    let job = "JobId=7 JobName=x UserId=u JobState=PENDING Reason=Priority EligibleTime=1 Partition=all \
               NumNodes=2 AdminComment=sarouter:prefer";
    script("scontrol", &format!("case $1 in -o) echo '{job}';; *) echo \"$@\" >>{here}/told;; esac"));
    script("sinfo", "for n in 1 2 3 4 5 6 7 8; do echo \"n$n|all||idle\"; done");
    site.settings(&format!(
        "[placement]\nscontrol = \"{here}/scontrol\"\nsinfo = \"{here}/sinfo\"\ninterval_seconds = 0.01\n"
    ));
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!((select(&site), site.path("told").exists()), (None, false));
    site.alter("[placement]\n", "[placement]\nselect_socket = \"select.sock\"\n");
    serving.until(|| select(&site).is_some_and(|answer| answer.starts_with("1 7 nodes n")));
    // A slip must not cost a file, nor what there is.
    std::fs::write(site.path("precious"), "x").unwrap();
    refused(&site, &serving, "select.sock", "precious", "not a socket");
    assert_eq!(std::fs::read_to_string(site.path("precious")).unwrap(), "x");
    assert!(select(&site).is_some());
    assert!(!site.path("told").exists(), "nobody was to be held");
    site.alter("select_socket = \"precious\"", "hold = true");
    let told = || std::fs::read_to_string(site.path("told")).unwrap_or_default();
    serving.until(|| told().contains("hold 7"));
    serving.until(|| select(&site).is_none());
    // Switched off, the held job is let go; the script never shows it as held.
    site.alter("hold = true", "hold = false");
    serving.until(|| told().contains("release 7"));
    assert_eq!(serving.stop(), 0);
}

#[test]
fn the_service_of_a_direct_torus_follows_its_settings_too() {
    let site = quiet();
    site.alter("fabric.net", "torus.toml");
    site.alter("dfsssp", "angara-sar");
    site.replace("torus.toml", "sizes = [4, 2, 2]\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    site.settings("[api]\nsocket = \"new.sock\"\n");
    serving.until(|| listens(&site.path("new.sock")) && !site.path("state/api.sock").exists());
    refused(&site, &serving, "torus.toml", "fabric.net", "another kind of fabric needs a restart");
    site.replace("other.toml", "sizes = [2, 2]\n");
    let outcome = |job: &str| {
        let (code, text) = site.run(&["prolog", "--job", job, "--nodes", "n[15-16]"]);
        assert_eq!(code, 0, "{text}");
        crate::site::json(&text)["outcome"].as_str().unwrap().to_string()
    };
    site.alter("fabric.net", "torus.toml");
    assert_eq!(outcome("7"), "in_force");
    site.alter("torus.toml", "other.toml");
    followed(&site, &serving, 2);
    assert_eq!(outcome("8"), "unrouted", "the smaller torus has no such nodes");
    assert_eq!(serving.stop(), 0);
}

#[test]
fn systemd_is_told_of_readiness_life_state_and_end() {
    let site = quiet();
    let socket = UnixDatagram::bind(site.path("notify")).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let serving = Serving::with(&site, |command| {
        // The watchdog is meant for one process, which systemd names.
        let mut named = std::process::Command::new("sh");
        named.args(["-c", "WATCHDOG_PID=$$ exec \"$0\" \"$@\""]);
        named.arg(command.get_program()).args(command.get_args()).env_remove("SAROUTER_STATE");
        named.env("NOTIFY_SOCKET", site.path("notify")).env("WATCHDOG_USEC", "100000");
        *command = named;
    });
    let next = || {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let until = |wanted: &str| {
        std::iter::repeat_with(next).take(1000).find(|text| text.contains(wanted)).expect(wanted)
    };
    until("READY=1");
    // Nothing happens for an hour, yet the loop says that it lives.
    for _ in 0..5 {
        until("WATCHDOG=1");
    }
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    site.squeue("echo no controller >&2; exit 1");
    serving.signal(rustix::process::Signal::HUP);
    assert!(until("STATUS=epoch 1, asking for jobs failed").contains("no controller"));
    serving.signal(rustix::process::Signal::TERM);
    until("STOPPING=1");
}
