//! Changed files while the service runs, and what it tells systemd.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

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
        ("directory = \"state\"", "directory = \"elsewhere\"", "need a restart"),
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
    assert!(until("STATUS=epoch 1, asking Slurm failed").contains("no controller"));
    serving.signal(rustix::process::Signal::TERM);
    until("STOPPING=1");
}
