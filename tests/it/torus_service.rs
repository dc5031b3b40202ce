//! The service of a direct torus: what it keeps of what happened.

use serde_json::Value;

use crate::site::{Serving, Site, json};

/// The changes of the history, oldest first.
fn history(site: &Site) -> Vec<Value> {
    let (code, text) = site.run(&["history"]);
    assert_eq!(code, 0, "{text}");
    json(&text)["epochs"].as_array().unwrap().clone()
}

fn words(row: &Value, key: &str) -> Vec<String> {
    row[key].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_string()).collect()
}

#[test]
fn each_change_of_tables_is_in_the_history() {
    let site = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[9-12]|100\n");
    assert_eq!(history(&site), [Value::Null; 0]);
    let serving = Serving::start(&site);
    serving.ready(&site);
    for (job, nodes) in [("7", "n[1-4]"), ("8", "n[9-12]")] {
        assert_eq!(site.starts(job, nodes), "in_force");
    }
    // Between the first two nodes of job 7.
    site.replace("torus.toml", "sizes = [4, 4]\ntransit = \"any\"\nfailed = [\"0.0+Y\"]\n");
    serving.until(|| history(&site).len() == 3);
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    site.jobs("");
    serving.until(|| {
        serving.signal(rustix::process::Signal::HUP);
        history(&site).len() == 5
    });
    assert_eq!(serving.stop(), 0);
    let rows = history(&site);
    let told = rows.iter().map(|row| {
        let reason = row["reason"].as_str().unwrap();
        let jobs = [words(row, "jobs_in"), words(row, "jobs_out")].map(|ids| ids.join(" "));
        format!("{reason} in {} out {}, {}", jobs[0], jobs[1], row["multi_switch_jobs"])
    });
    let told: Vec<String> = told.collect();
    let expected = [
        "first in 7 out , 1",
        "jobs_changed in 8 out , 2",
        "fabric_changed in  out , 2",
        "jobs_changed in  out 7, 1",
        "jobs_changed in  out 8, 0",
    ];
    assert_eq!(told, expected);
    // Each begins where the one before ended; the last leaves nothing.
    let load = |row: &Value, key: &str| row[key].as_u64().unwrap();
    for pair in rows.windows(2) {
        assert_eq!(load(&pair[0], "effective_max_after"), load(&pair[1], "effective_max_before"));
    }
    assert_eq!((load(&rows[0], "effective_max_before"), load(&rows[4], "effective_max_after")), (0, 0));
    assert!(load(&rows[0], "effective_max_after") > 0);
    assert_eq!((rows[0]["engine"].as_str(), rows[4]["dark_fiber"].as_f64()), (Some("angara-sar"), Some(1.0)));
    assert!(rows[0]["dark_fiber"].as_f64().unwrap() < 1.0 && rows[0]["fabric"] != rows[2]["fabric"]);
    // The next service counts on.
    site.jobs("9|RUNNING|n[1-2]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("9", "n[1-2]"), "in_force");
    assert_eq!(serving.stop(), 0);
    let rows = history(&site);
    assert_eq!((&rows[5]["epoch"], &rows[5]["reason"]), (&6.into(), &"jobs_changed".into()));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sarouter"));
    let text = command.args(["history", "--state"]).arg(site.path("state")).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("+9") && text.contains("-7") && text.contains("*      6"), "{text}");
    let (_, text) = site.run(&["status"]);
    assert_eq!(json(&text)["service"]["epoch"], 6, "{text}");
}
