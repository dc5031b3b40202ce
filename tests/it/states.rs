//! How the service is, in one word.

use chrono::Utc;
use sarouter::publish::Hold;
use sarouter::service::health::{Health, Reader, State};

use crate::site::{Serving, Site};

#[test]
fn the_state_is_the_word_that_matters_most() {
    let now = Utc::now();
    let mut health = Health::new(now, true);
    assert_eq!(health.state(), State::Live);
    health.reader = Some(Reader::Nobody);
    assert_eq!(health.state(), State::DryRun);
    health.reader = Some(Reader::Opensm);
    assert_eq!(health.state(), State::Live);
    health.waits_for_opensm = Some(now);
    assert_eq!(health.state(), State::WaitingForOpensm);
    // Who reads a file, or fetches tables of a job, acknowledges nothing.
    for reader in [Reader::File, Reader::Nodes] {
        let health = Health { reader: Some(reader), ..health.clone() };
        assert_eq!(health.state(), State::Live);
    }
    health.held = Some(Hold { since: now, epoch: None, reason: String::new(), by: None });
    assert_eq!(health.state(), State::Held);
    health.ended = Some(now);
    assert_eq!(health.state(), State::Stopped);
    let words = [State::DryRun, State::WaitingForOpensm].map(|state| serde_json::to_value(state).unwrap());
    assert_eq!(words, ["dry_run", "waiting_for_opensm"]);
}

/// Killed, it cannot say so.
#[test]
fn a_service_that_was_killed_is_told_at_once() {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::start(&site);
    serving.line();
    let status = || {
        let output = site.command(&["status"]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(status().0, Some(0), "{}", status().1);
    drop(serving);
    let (code, text) = status();
    assert!(code == Some(1) && text.contains("has ended without a word"), "{text}");
}

/// What stops everything must work whatever is wrong with the settings, which the service does not follow either.
#[test]
fn a_mistake_in_the_settings_keeps_nobody_from_holding_what_is_in_force() {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::start(&site);
    serving.line();
    site.settings("[routing]\nbogus = 1\n");
    for words in [&["hold"][..], &["history"], &["explain", "1"], &["resume"], &["status"]] {
        let output = site.command(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("sarouter.toml"), "{words:?}: {said}");
    }
    assert_eq!(serving.stop(), 0);
}

#[test]
fn sockets_that_somebody_removed_are_opened_again() {
    let site = Site::new("interval_seconds = 1");
    site.settings("[placement]\nselect_socket = \"select.sock\"\n");
    let serving = Serving::start(&site);
    serving.line();
    let sockets = ["state/api.sock", "state/api-writers.sock", "select.sock"].map(|name| site.path(name));
    for again in 0..2 {
        sockets.iter().for_each(|socket| std::fs::remove_file(socket).unwrap());
        serving.until(|| sockets.iter().all(|socket| socket.exists()));
        // They answer, and the job's routes are in force.
        assert_eq!(site.starts("1", "n[1,5,9]"), "in_force", "{again}");
        sockets[1..].iter().for_each(|socket| drop(std::os::unix::net::UnixStream::connect(socket).unwrap()));
    }
    // One of the two alone.
    for socket in &sockets[..2] {
        std::fs::remove_file(socket).unwrap();
        serving
            .until(|| sockets.iter().all(|socket| std::os::unix::net::UnixStream::connect(socket).is_ok()));
        assert_eq!(site.starts("1", "n[1,5,9]"), "in_force");
    }
    assert_eq!(serving.stop(), 0);
    assert!(sockets.iter().all(|socket| !socket.exists()), "all are gone with the service");
}

#[test]
fn a_tick_beside_a_service_does_not_speak_for_it() {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::start(&site);
    serving.line();
    site.squeue("exit 1");
    assert_ne!(site.run(&["tick"]).0, 0, "it cannot look");
    let health = site.health();
    assert_eq!(
        (&health["serving"], &health["failing"]),
        (&true.into(), &serde_json::Value::Null),
        "{health}"
    );
    assert_eq!(serving.stop(), 0);
}

/// Without its directory a job would not learn its service level.
#[test]
fn a_job_whose_directory_cannot_be_written_is_late() {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::start(&site);
    serving.line();
    // In the place of the directory of directories.
    let jobs = site.path("state/jobs");
    let _ = std::fs::remove_dir_all(&jobs);
    std::fs::write(&jobs, "").unwrap();
    assert_eq!(site.starts("1", "n[1,5,9]"), "untold");
    let mut strict = site.command(&["prolog", "--strict", "--job", "1", "--nodes", "n[1,5,9]"]);
    assert_eq!(strict.output().unwrap().status.code(), Some(1));
    assert_eq!(serving.stop(), 0);
}

/// Nobody reads what a prolog says: a wrapper's log on a full disk.
#[test]
fn a_job_starts_whether_or_not_its_prolog_can_say_why() {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::start(&site);
    serving.line();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut prolog = site.command(&["prolog", "--job", "1", "--nodes", "n[1,5,9]"]);
    assert_eq!(prolog.stdout(full).status().unwrap().code(), Some(0));
    assert!(site.path("state/jobs/1/routing.env").exists());
    assert_eq!(serving.stop(), 0);
}

/// Of a service that was killed while it wrote or removed a job's directory.
#[test]
fn half_written_directories_of_jobs_are_removed_at_the_next_start() {
    let site = Site::new("interval_seconds = 3600");
    let left = [".7.4711.0.tmp", ".8.4711.1.gone"].map(|name| site.path("state/jobs").join(name));
    for directory in &left {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("routing.env"), "").unwrap();
    }
    let serving = Serving::start(&site);
    serving.line();
    assert!(!left.iter().any(|directory| directory.exists()));
    assert_eq!(serving.stop(), 0);
}

#[test]
fn root_does_not_serve_a_state_directory_of_another_user() {
    let site = Site::new("interval_seconds = 3600");
    let state = site.path("state");
    std::fs::create_dir_all(&state).unwrap();
    std::os::unix::fs::chown(&state, Some(65_534), None).unwrap();
    for words in [["serve"], ["tick"]] {
        let output = site.command(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains("belongs to user 65534"),
            "{words:?}: {said}"
        );
    }
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "nothing is left there");
}

/// Whether an administrator holds the tables is not known: health says so, and a job does not start without its own.
#[test]
fn on_a_direct_torus_a_hold_that_cannot_be_read_keeps_no_job_from_its_tables() {
    let site = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    std::fs::create_dir(site.path("state/hold.json")).unwrap();
    serving.until(|| site.health().to_string().contains("the hold cannot be read"));
    assert_eq!(site.starts("7", "n[1-4]"), "in_force");
    assert_eq!(serving.stop(), 0);
}

/// The batch system does not answer, and the file of the hold is gone: what was told of it is over.
#[test]
fn a_hold_is_looked_at_while_looks_fail() {
    let site = Site::new("interval_seconds = 0.2\nbackoff_max_seconds = 0.2");
    let serving = Serving::start(&site);
    serving.line();
    let tells_hold = || site.health().to_string().contains("the hold cannot be read");
    std::fs::create_dir(site.path("state/hold.json")).unwrap();
    serving.until(tells_hold);
    site.squeue("exit 7");
    serving.until(|| !site.health()["failing"].is_null());
    assert!(tells_hold());
    std::fs::remove_dir(site.path("state/hold.json")).unwrap();
    serving.until(|| !tells_hold());
    assert_eq!(serving.stop(), 0);
}
