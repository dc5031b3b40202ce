//! The program itself: `plan`, `tick` and `serve` with a `squeue` that is a script.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::site::{LONG, Serving, Site, json};

/// What the service alone knows of.
#[test]
fn a_tick_beside_a_service_leaves_the_directories_of_jobs_that_start() {
    let torus = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    for (site, has_epochs) in [(torus, false), (Site::new("interval_seconds = 3600"), true)] {
        let serving = Serving::start(&site);
        serving.ready(&site);
        if has_epochs {
            serving.line();
        }
        let outcome = site.starts("2", "n[2-3]");
        let told = site.path("state/jobs/2/routing.env");
        assert!(told.exists(), "{outcome}");
        assert_eq!(site.run(&["tick"]).0, 0);
        assert!(told.exists(), "{outcome}");
        assert_eq!(serving.stop(), 0);
    }
}

#[test]
fn plan_asks_for_a_change_until_tick_has_made_it() {
    let site = Site::new("");
    let (code, text) = site.run(&["plan"]);
    assert_eq!((code, &json(&text)["reason"]), (1, &Value::from("first")), "{text}");
    assert_eq!(json(&text)["per_job"][0]["job"], "1");
    assert_eq!(site.current(), None);
    let (code, text) = site.run(&["tick"]);
    assert_eq!((code, &json(&text)["epoch"]["epoch"]), (0, &Value::from(1)), "{text}");
    assert_eq!(site.current().unwrap(), Path::new("epochs/000001"));
    let (code, text) = site.run(&["plan"]);
    assert_eq!((code, &json(&text)["due"]), (0, &Value::from(false)), "{text}");
    // Another job on the same nodes, and one on a single switch: no epoch.
    site.jobs("7|RUNNING|n1,n[5,9]|100\n8|RUNNING|n[2-3]|100\n");
    assert_eq!(site.run(&["tick"]), (0, "{\"epoch\":null}\n".to_string()));
    site.jobs("7|RUNNING|n1,n[5,9]|100\n8|RUNNING|n[2-6]|100\n");
    let (code, text) = site.run(&["plan"]);
    let answer = json(&text);
    assert_eq!((code, &answer["reason"]), (1, &Value::from("jobs_changed")), "{text}");
    assert!(answer["before"]["effective"]["max"].as_u64() > Some(0), "{text}");
    assert_eq!(site.current().unwrap(), Path::new("epochs/000001"));
}

#[test]
fn a_failing_tick_leaves_the_epoch_in_force_and_says_why() {
    let site = Site::new("");
    assert_eq!(site.run(&["tick"]).0, 0);
    for (break_it, stage, word) in [
        (&(|s: &Site| s.squeue("echo no controller >&2; exit 1")) as &dyn Fn(&Site), "jobs", "no controller"),
        (
            &|s: &Site| {
                s.squeue("echo '3|RUNNING|n[1,13]|5'");
                let whole = std::fs::read_to_string(s.path("fabric.net")).unwrap();
                s.replace("fabric.net", &whole[..whole.len() / 2]);
            },
            "fabric",
            "fabric.net:",
        ),
        (
            &|s: &Site| {
                s.write_fabric(|_| false);
                std::fs::remove_dir_all(s.path("state/epochs/000001")).unwrap();
                std::fs::remove_dir(s.path("state/epochs")).unwrap();
                std::fs::write(s.path("state/epochs"), "not a directory").unwrap();
            },
            "publish",
            "epochs",
        ),
    ] {
        break_it(&site);
        let (code, text) = site.run(&["tick"]);
        assert_eq!(code, 2, "{stage}: {text}");
        let health = site.health();
        let message = health["failing"]["message"].as_str().unwrap();
        assert!(message.contains(word), "{message}");
        if stage != "publish" {
            assert_eq!(health["failing"]["stage"], stage, "{health}");
        }
        assert_eq!(site.current().unwrap(), Path::new("epochs/000001"));
        let (code, text) = site.run(&["status"]);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(site.health()["failures_in_row"], 3);
}

#[test]
fn serve_follows_jobs_and_cables_and_survives_failures() {
    let site = Site::new("interval_seconds = 0.2\nbackoff_max_seconds = 0.2");
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["reason"], "first");
    site.jobs("2|RUNNING|n[2,6]|100\n");
    let line = serving.line();
    assert_eq!(line["epoch"]["reason"], "jobs_changed", "{line}");
    assert_eq!((&line["epoch"]["jobs_added"], &line["epoch"]["jobs_removed"]), (&1.into(), &1.into()));
    site.write_fabric(|c| c == 0);
    assert_eq!(serving.line()["epoch"]["reason"], "fabric_changed");
    site.squeue("exit 3");
    assert_eq!(serving.line()["failed"]["stage"], "jobs");
    site.squeue("echo '4|RUNNING|n[3,7,11]|100'");
    let line = std::iter::repeat_with(|| serving.line()).find(|l| l.get("failed").is_none()).unwrap();
    assert_eq!(line["epoch"]["epoch"], 4, "{line}");
    assert_eq!(serving.stop(), 0);
    let health = site.health();
    assert_eq!(
        (&health["serving"], &health["published"], &health["failing"]),
        (&false.into(), &4.into(), &Value::Null)
    );
    assert!(health["failures"]["jobs"].as_u64() >= Some(1));
}

#[test]
fn a_hangup_makes_serve_look_at_once() {
    // Without the signal nothing would happen for an hour.
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["reason"], "first");
    site.jobs("2|RUNNING|n[2,6]|100\n");
    serving.signal(Signal::HUP);
    assert_eq!(serving.line()["epoch"]["reason"], "jobs_changed");
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_young_job_is_served_when_it_is_old_enough_though_the_interval_is_long() {
    let site = Site::new("interval_seconds = 3600");
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    let text = text.replace("[slurm]\n", "[slurm]\nmin_job_age_seconds = 3\n");
    std::fs::write(site.path("sarouter.toml"), text).unwrap();
    let start = chrono::Utc::now().timestamp();
    site.jobs(&format!("2|RUNNING|n[2,6]|{start}\n"));
    let serving = Serving::start(&site);
    let line = serving.line();
    assert_eq!(
        (&line["epoch"]["reason"], &line["epoch"]["multi_switch"]),
        (&"first".into(), &0.into()),
        "{line}"
    );
    let line = serving.line();
    assert_eq!(
        (&line["epoch"]["reason"], &line["epoch"]["multi_switch"]),
        (&"jobs_changed".into(), &1.into())
    );
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_hanging_squeue_does_not_keep_serve_from_stopping() {
    let site = Site::new("interval_seconds = 3600");
    site.squeue("touch \"$(dirname \"$0\")/asked\"; sleep 1000");
    let serving = Serving::start(&site);
    let begun = Instant::now();
    while !site.path("asked").exists() {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(serving.stop(), 0);
}
