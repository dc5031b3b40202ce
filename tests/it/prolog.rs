//! Prolog and epilog as Slurm's controller calls them, with and without a service; an
//! administrator's hold.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::site::{LONG, Serving, Site, json};

/// A site whose service looks only when asked, and whose jobs must be old to count.
pub fn site(handoff: &str) -> Site {
    let site = Site::new("interval_seconds = 3600");
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    let text = text.replace("[slurm]\n", "[slurm]\nmin_job_age_seconds = 3600\n");
    site.replace("sarouter.toml", &text);
    site.settings(&format!("[handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\n{handoff}"));
    site
}

/// Exit code, the answer, and what it complained about.
pub fn prolog(site: &Site, words: &[&str]) -> (i32, serde_json::Value, String) {
    let mut command = site.command(&["prolog"]);
    let Output { status, stdout, stderr } = command.args(words).output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    let answer = if text.is_empty() { serde_json::Value::Null } else { json(&text) };
    (status.code().unwrap(), answer, String::from_utf8(stderr).unwrap())
}

/// The same, with the time it took.
fn timed(site: &Site, words: &[&str]) -> ((i32, serde_json::Value, String), Duration) {
    let begun = Instant::now();
    (prolog(site, words), begun.elapsed())
}

const JOB: [&str; 4] = ["--job", "7", "--nodes", "n[2,6]"];

#[test]
fn settings_that_cannot_be_read_keep_no_job_but_one_that_wants_no_start_without_routes() {
    let site = site("deadline_seconds = 2");
    site.settings("x = [");
    let strict = [&JOB[..], &["--strict"]].concat();
    for (words, expected) in [(&JOB[..], 0), (&strict[..], 1)] {
        let (code, _, complaint) = prolog(&site, words);
        assert_eq!(code, expected, "{complaint}");
        assert!(complaint.contains("sarouter.toml"), "{complaint}");
    }
}

#[test]
fn what_is_said_of_a_start_is_what_becomes_of_it() {
    let site = site("deadline_seconds = 2");
    let serving = Serving::start(&site);
    serving.ready(&site);
    for (strict, exit, so) in [(false, 0, "starts on the last"), (true, 1, "does not start without routes")] {
        let mut command = site.in_words(["prolog", "--job", "7", "--nodes", "n[2-"]);
        let output = command.args(strict.then_some("--strict")).output().unwrap();
        let [said, complaint] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(exit), "{said}{complaint}");
        assert!(complaint.contains("brackets do not match") && complaint.contains(so), "{complaint}");
        let starts = if strict { "job 7 does not start after" } else { "job 7 starts after" };
        assert!(said.starts_with(starts) && said.contains("the service gave no answer for it"), "{said}");
    }
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_job_is_served_before_it_starts_though_slurm_does_not_list_it() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["multi_switch"], 1);
    let (code, answer, _) = prolog(&site, &JOB);
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer}");
    let line = serving.line();
    assert_eq!((&line["epoch"]["epoch"], &line["epoch"]["jobs_added"]), (&2.into(), &1.into()), "{line}");
    // A restarted controller asks again; what is there is not made again.
    let (code, answer, _) = prolog(&site, &JOB);
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()));
    assert_eq!(prolog(&site, &["--job", "8", "--nodes", "n[2-3]"]).1["outcome"], "one_switch");
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    assert_eq!(serving.stop(), 0);
    let handoff = &site.health()["handoff"];
    assert_eq!((&handoff["announced"], &handoff["repeated"]), (&3.into(), &1.into()), "{handoff}");
    assert_eq!((&handoff["ended"], &handoff["ended_unknown"]), (&1.into(), &0.into()), "{handoff}");
}

#[test]
fn a_job_whose_routes_are_not_worth_their_price_does_not_wait() {
    let site = site("deadline_seconds = 100");
    site.alter("min_gain_seconds = 0", "min_gain_seconds = 86400\nmin_pause_seconds = 0");
    let serving = Serving::start(&site);
    serving.line();
    let (code, answer, _) = prolog(&site, &JOB);
    assert_eq!((code, &answer["outcome"]), (0, &"good_enough".into()), "{answer}");
    assert_eq!(serving.stop(), 0);
    let health = site.health();
    assert_eq!((&health["published"], &health["not_worth_count"]), (&1.into(), &1.into()), "{health}");
    // A day of 16 nodes.
    let worth = &health["not_worth"];
    assert_eq!(worth["price"], 384.0, "{worth}");
    // Not even routed: nothing could save so much until the next change.
    assert!(worth["gain"].is_null() && worth["at_most"].as_f64().unwrap() < 384.0, "{worth}");
    let output = site.command(&["status"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(json(&text)["service"]["not_worth_count"] == 1, "{text}");
}

#[test]
fn what_slurm_sets_in_the_environment_is_enough() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    serving.line();
    let mut command = site.command(&["prolog"]);
    command.env("SLURM_JOB_ID", "9").env("SLURM_JOB_NODELIST", "n[3,7]").env("SLURM_RESTART_COUNT", "2");
    let answer = json(&String::from_utf8(command.output().unwrap().stdout).unwrap());
    assert_eq!((&answer["job"], &answer["outcome"]), (&"9".into(), &"in_force".into()));
    assert_eq!(serving.line()["epoch"]["jobs_added"], 1);
}

#[test]
fn routes_that_do_not_come_in_time_hold_no_job() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    serving.line();
    site.squeue("sleep 1000");
    let waits = [&JOB[..], &["--timeout", "4"]].concat();
    let ((code, answer, _), took) = timed(&site, &waits);
    assert_eq!((code, &answer["outcome"]), (0, &"deadline".into()), "{answer}");
    assert!(took >= Duration::from_secs(3), "{took:?}");
    let strict = ["--job", "8", "--nodes", "n[3,7]", "--timeout", "3", "--strict"];
    assert_eq!(prolog(&site, &strict).0, 1);
    assert_eq!(serving.stop(), 0);
    assert_eq!(site.health()["handoff"]["started"]["deadline"], 2);
}

/// Answers each connection to the service's socket with this, and keeps it open.
fn impostor(site: &Site, says: &'static [u8]) {
    let _ = std::fs::create_dir(site.path("state"));
    let _ = std::fs::remove_file(site.path("state/api.sock"));
    let listener = UnixListener::bind(site.path("state/api.sock")).unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(says);
            kept.push(stream);
        }
    });
}

#[test]
fn without_a_service_jobs_start_soon() {
    let site = site("deadline_seconds = 100\naway_seconds = 0.3");
    let starts = |what: &str, site: &Site| {
        let ((code, answer, error), took) = timed(site, &JOB);
        assert_eq!((code, &answer["outcome"]), (0, &serde_json::Value::Null), "{what}: {answer}");
        assert!(!error.is_empty(), "{what}");
        assert!(took < Duration::from_secs(60), "{what}: {took:?}");
    };
    starts("stopped", &site);
    impostor(&site, b"");
    starts("hung", &site);
    impostor(&site, b"\x00\xff rubbish\n\n");
    starts("rubbish", &site);
    impostor(&site, b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"start\": 17");
    starts("almost right", &site);
    impostor(&site, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    let (code, answer, _) = prolog(&site, &[&JOB[..], &["--timeout", "0.5"]].concat());
    assert_eq!((code, &answer["outcome"]), (0, &"deadline".into()), "never an outcome");
    let (code, _, _) = prolog(&site, &[&JOB[..], &["--timeout", "3", "--strict"]].concat());
    assert_eq!(code, 1);
}

/// Here it has no node that Slurm would take out of service for it.
#[test]
fn a_job_that_requires_routes_goes_back_into_the_queue_without_them_and_no_other_does() {
    let site = site("deadline_seconds = 0.5\naway_seconds = 0.2");
    let code = |word: &str| {
        let mut command = site.command(&["prolog"]);
        command.args(JOB).env("SPANK_ROUTING", word);
        command.output().unwrap().status.code().unwrap()
    };
    // No service.
    assert_eq!(code("require"), 1);
    for word in ["default", "none", "", "Require", "require\n", "require --strict"] {
        assert_eq!(code(word), 0, "{word:?}");
    }
    // Settings that cannot be read.
    let good = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    site.settings("[nonsense]\n");
    assert_eq!((code("require"), code("default")), (1, 0));
    let good = good.replace("deadline_seconds = 0.5", "deadline_seconds = 100");
    site.replace("sarouter.toml", &good);
    let serving = Serving::start(&site);
    serving.line();
    assert_eq!(code("require"), 0, "with its routes it starts");
    // The service goes on by the settings of before, and a mistake in those of now keeps nobody from it.
    for mistake in ["[service]\nintervall_seconds = 3\n", "[slurm]\nsqueue = \"unended\n"] {
        site.replace("sarouter.toml", &format!("{good}\n{mistake}"));
        let (code, answer, error) = prolog(&site, &JOB);
        assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{error}");
        assert!(error.contains("the rest of the settings is followed"), "{error}");
        assert_eq!(site.run(&["epilog", "--job", "7"]), (0, String::new()));
    }
    assert_eq!(serving.stop(), 0);
}

#[test]
fn no_slip_in_a_command_line_or_in_the_settings_holds_a_job() {
    let site = site("");
    for words in [
        &["--jbo", "3"] as &[&str],
        &["--job", "7"],
        &["--nodes", "n1"],
        &["--job", "7", "--nodes", "n[1", "--timeout", "0.2"],
        &["--job", "7", "--nodes", "n1", "--timeout", "-3"],
        &["--job", "7", "--nodes", "n1", "--timeout", "1e19"],
    ] {
        let (code, answer, error) = prolog(&site, words);
        assert_eq!(code, 0, "{words:?}: {answer} {error}");
        assert!(!error.is_empty(), "{words:?}");
    }
    site.settings("[nonsense]\n");
    assert_eq!(prolog(&site, &JOB).0, 0);
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
}

/// A service that has published a second epoch for another job.
fn with_two_epochs() -> (Site, Serving) {
    let site = site("deadline_seconds = 100");
    let serving = Serving::routed(&site);
    site.jobs("2|RUNNING|n[2,6]|100\n");
    serving.signal(rustix::process::Signal::HUP);
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
    (site, serving)
}

#[test]
fn a_rollback_that_is_held_stays_until_resumed() {
    let (site, serving) = with_two_epochs();
    let (code, text) = site.run(&["rollback", "1", "--hold"]);
    assert_eq!((code, &json(&text)["held"]), (0, &true.into()), "{text}");
    // Neither the service nor a tick publishes, and nobody waits in vain.
    site.jobs("3|RUNNING|n[3,7]|100\n");
    let begun = Instant::now();
    while site.health()["held"].is_null() {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(prolog(&site, &JOB).1["outcome"], "held");
    assert_eq!(site.run(&["tick"]), (0, "{\"epoch\":null}\n".to_string()));
    assert_eq!(site.current().unwrap(), std::path::Path::new("epochs/000001"));
    let (_, text) = site.run(&["status"]);
    assert!(json(&text)["held"]["reason"].as_str().unwrap().contains("epoch 1"), "{text}");
    assert_eq!(site.run(&["resume"]).0, 0);
    assert_ne!(prolog(&site, &["--job", "11", "--nodes", "n[4,8]"]).1["outcome"], "held", "at once");
    assert_eq!(serving.line()["epoch"]["epoch"], 3);
    assert_eq!(site.run(&["resume"]).0, 1);
    assert_eq!(serving.stop(), 0);
}

/// Without a hold the next look routes for the jobs of the moment again, whether they have changed or not.
#[test]
fn an_epoch_put_in_force_by_hand_or_lost_is_replaced_at_the_next_look() {
    let (site, serving) = with_two_epochs();
    assert_eq!(site.run(&["rollback", "1"]).0, 0);
    // A job that is there already is not told of routes that are not in force.
    let (_, answer, _) = prolog(&site, &["--job", "2", "--nodes", "n[2,6]", "--restart", "1"]);
    assert_eq!(answer["outcome"], "in_force", "{answer}");
    assert_eq!(site.current().unwrap(), std::path::Path::new("epochs/000003"));
    assert!(told(&site, "2").unwrap().contains("SAROUTER_EPOCH=3\n"));
    assert_eq!(serving.line()["epoch"]["epoch"], 3);
    std::fs::remove_file(site.path("state/current")).unwrap();
    serving.signal(rustix::process::Signal::HUP);
    assert_eq!(serving.line()["epoch"]["epoch"], 4);
    assert_eq!(serving.stop(), 0);
}

/// What the job is told.
pub fn told(site: &Site, job: &str) -> Option<String> {
    std::fs::read_to_string(site.path(&format!("state/jobs/{job}/routing.env"))).ok()
}

/// Routes spread over all layers, and the next ones may be spread otherwise.
#[test]
fn a_job_with_routes_on_several_layers_is_told_why_it_has_no_level() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    serving.line();
    assert_eq!(prolog(&site, &JOB).1["outcome"], "in_force");
    let text = told(&site, "7").unwrap();
    assert!(!text.contains("SAROUTER_SL") && text.contains("set routing.layer_per_job"), "{text}");
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_job_is_told_the_layer_of_its_routes() {
    let site = site("deadline_seconds = 100");
    site.alter("[routing]\n", "[routing]\nlayers = 1\n");
    let serving = Serving::start(&site);
    serving.line();
    assert_eq!(prolog(&site, &JOB).1["outcome"], "in_force");
    let text = told(&site, "7").unwrap();
    assert!(text.contains("SAROUTER_ROUTED=yes") && text.contains("SAROUTER_SL=0"), "{text}");
    assert!(text.contains("SAROUTER_EPOCH=2"), "{text}");
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    serving.until(|| told(&site, "7").is_none());
    assert_eq!(serving.stop(), 0);
}
