//! The service of a direct torus: what it keeps of what happened.

use std::collections::BTreeMap;

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
        assert_eq!(pair[0]["slowdown_after"], pair[1]["slowdown_before"]);
    }
    let slowdown = |row: usize| rows[row]["slowdown_after"].as_f64().unwrap();
    assert!(slowdown(1) >= 1.0 && slowdown(4) == 1.0, "{rows:?}");
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
    let text = site.in_words(["history"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("+9") && text.contains("-7") && text.contains("*      6"), "{text}");
    let (_, text) = site.run(&["status"]);
    assert_eq!(json(&text)["service"]["epoch"], 6, "{text}");
}

/// A service that starts while the torus cannot be read knows the jobs that run as soon as it can.
#[test]
fn jobs_that_run_are_known_although_the_torus_could_not_be_read_at_the_start() {
    let whole = "sizes = [4, 4]\ntransit = \"any\"\n";
    let site = Site::torus(whole);
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[5-8]|100\n9|RUNNING|n[9-12]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("7", "n[1-4]"), "in_force");
    assert_eq!(serving.stop(), 0);
    site.replace("torus.toml", "sizes = [4\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("8", "n[5-8]"), "unrouted");
    site.replace("torus.toml", whole);
    assert_eq!(site.starts("9", "n[9-12]"), "in_force");
    serving.until(|| site.health()["torus"]["jobs"] == 2);
    // Its routes are mended as those of any job that runs.
    let routes = || std::fs::read_to_string(site.path("state/jobs/7/routes.txt")).unwrap();
    let before = routes();
    site.replace("torus.toml", &format!("{whole}failed = [\"0.0+Y\"]\n"));
    serving.until(|| routes() != before);
    assert_eq!(serving.stop(), 0);
}

/// New tables of a job that runs are written with a later look, and nobody is told before that they are there.
#[test]
fn new_tables_that_could_not_be_written_are_written_later() {
    let whole = "sizes = [4, 4]\ntransit = \"any\"\n";
    let site = Site::torus(whole);
    site.jobs("7|RUNNING|n[1-4]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("7", "n[1-4]"), "in_force");
    let (jobs, away) = (site.path("state/jobs"), site.path("away"));
    std::fs::rename(&jobs, &away).unwrap();
    std::fs::write(&jobs, "").unwrap();
    let told = |words: &str| {
        let text = site.health()["torus"]["cut"]["7"]["text"].as_str().map(String::from);
        text.is_some_and(|text| text.contains(words))
    };
    site.replace("torus.toml", &format!("{whole}failed = [\"0.0+Y\"]\n"));
    serving.until(|| told("could not be written"));
    std::fs::remove_file(&jobs).unwrap();
    std::fs::rename(&away, &jobs).unwrap();
    let routes = || std::fs::read_to_string(jobs.join("7/routes.txt")).unwrap();
    assert!(routes().contains("0.0 0.1 +Y\n"));
    serving.until(|| {
        serving.signal(rustix::process::Signal::HUP);
        told("install its new tables")
    });
    assert!(!routes().contains("0.0 0.1 +Y\n"));
    assert_eq!(serving.stop(), 0);
}

/// Nor is it after a restart, when the text of before alone is known.
#[test]
fn a_job_that_could_not_go_on_is_not_told_any_more_after_the_repair() {
    let whole = "sizes = [4, 4]\ntransit = \"job\"\n";
    let site = Site::torus(whole);
    site.jobs("7|RUNNING|n[1-2]|100\n");
    let told = || site.health()["torus"]["cut"]["7"]["text"].as_str().map(String::from);
    let cannot_go_on = || told().is_some_and(|text| text.starts_with("job 7 cannot go on"));
    let mut serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("7", "n[1-2]"), "in_force");
    for restarts in [false, true] {
        site.replace("torus.toml", &format!("{whole}failed = [\"0.0+Y\"]\n"));
        serving.until(cannot_go_on);
        if restarts {
            assert_eq!(serving.stop(), 0);
            serving = Serving::start(&site);
            serving.ready(&site);
            assert!(cannot_go_on(), "{:?}", told());
        }
        site.replace("torus.toml", whole);
        serving.until(|| told().is_none());
    }
    assert_eq!(serving.stop(), 0);
}

/// What was repaired under jobs that run waits for them, and does so after a restart.
#[test]
fn what_was_repaired_waits_for_jobs_that_run_although_the_service_starts_again() {
    let whole = "sizes = [4, 4]\ntransit = \"any\"\n";
    let site = Site::torus(&format!("{whole}failed = [\"0.0+Y\"]\n"));
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[9-12]|100\n");
    let closed = || json(&std::fs::read_to_string(site.path("state/torus.json")).unwrap())["closed"].take();
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("7", "n[1-4]"), "in_force");
    assert_eq!(closed(), json("[]"));
    site.replace("torus.toml", whole);
    let waits = json("[\"0.0+Y\", \"0.1-Y\"]");
    serving.until(|| closed() == waits);
    assert_eq!(serving.stop(), 0);
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("8", "n[9-12]"), "in_force");
    assert_eq!(closed(), waits);
    for job in ["7", "8"] {
        assert_eq!(site.run(&["epilog", "--job", job]).0, 0);
    }
    assert_eq!(site.starts("9", "n[1-2]"), "in_force");
    assert_eq!(closed(), json("[]"));
    assert_eq!(serving.stop(), 0);
}

/// The prolog of a component, and the pairs of nodes of its tables.
fn component_starts(site: &Site, job: &str, nodes: &str) -> usize {
    let mut command = site.command(&["prolog", "--job", job, "--nodes", nodes]);
    let output = command.env("SLURM_HET_JOB_ID", "8").output().unwrap();
    assert_eq!(json(&String::from_utf8(output.stdout).unwrap())["outcome"], "in_force");
    let routes = std::fs::read_to_string(site.path(&format!("state/jobs/{job}/routes.txt"))).unwrap();
    routes.lines().count()
}

#[test]
fn components_of_a_heterogeneous_job_have_routes_to_each_other() {
    let site = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("7", "n[1-2]"), "in_force");
    // Slurm does not know the others.
    assert_eq!(component_starts(&site, "6", "n[13-14]"), 2);
    let told = || site.log().matches("no table has routes to the others").count();
    assert_eq!(told(), 1, "{}", site.log());
    site.jobs(
        "7|RUNNING|n[1-2]|100\n8|CONFIGURING|n[3-4]|100|N/A|8+0\n9|CONFIGURING|n[9-11]|100|N/A|8+1\n\
         10|CONFIGURING|elsewhere|100|N/A|8+2\n",
    );
    assert_eq!(component_starts(&site, "9", "n[9-11]"), 5 * 4);
    assert_eq!(component_starts(&site, "8", "n[3-4]"), 5 * 4);
    // A node finds its own table below the job that runs on it.
    let nodes = std::fs::read_to_string(site.path("state/jobs/9/nodes.txt")).unwrap();
    assert_eq!(nodes.lines().count(), 5);
    let table = std::fs::read_to_string(site.path("state/jobs/9/node-2.0.table")).unwrap();
    assert!(table.contains("\njob 9\n") && table.contains("\nroutes 4\n"), "{table}");
    assert_eq!(told(), 1, "{}", site.log());
    // The others go on when one is over.
    site.jobs("7|RUNNING|n[1-2]|100\n8|RUNNING|n[3-4]|100|N/A|8+0\n");
    assert_eq!(site.run(&["epilog", "--job", "9"]).0, 0);
    assert!(!site.path("state/jobs/9").exists() && site.path("state/jobs/8").exists());
    assert_eq!(site.starts("11", "n[9-11]"), "in_force");
    assert_eq!(serving.stop(), 0);
}

/// A node has one table. That the first job is over is known although nobody said so.
#[test]
fn a_job_on_a_node_of_another_one_that_runs_has_no_tables_and_leaves_those_of_the_other() {
    let site = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[4-6]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("7", "n[1-4]"), "in_force");
    assert_eq!(site.starts("8", "n[4-6]"), "unrouted");
    let told = std::fs::read_to_string(site.path("state/jobs/8/routing.env")).unwrap();
    assert!(told.contains("SAROUTER_ROUTED=no") && told.contains("node n4 has the table of job 7"), "{told}");
    assert!(!site.path("state/jobs/8/nodes.txt").exists() && site.path("state/jobs/7/nodes.txt").exists());
    assert!(site.health()["failing"]["message"].as_str().unwrap().contains("OverSubscribe=EXCLUSIVE"));
    site.jobs("8|RUNNING|n[4-6]|100\n9|RUNNING|n[1-3]|100\n");
    assert_eq!(site.starts("9", "n[1-3]"), "in_force");
    // As long as Slurm does not answer, nobody goes without for that.
    site.squeue("exit 1");
    assert_eq!(site.starts("10", "n[3-4]"), "in_force");
    assert_eq!(serving.stop(), 0);
}

/// Requeued onto a node that is not there: what fails of its former nodes does not matter to it.
#[test]
fn a_job_that_starts_again_without_tables_keeps_none_of_its_former_start() {
    let whole = "sizes = [4, 4]\ntransit = \"any\"\n";
    let site = Site::torus(whole);
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[9-12]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    for (job, nodes) in [("7", "n[1-4]"), ("8", "n[9-12]")] {
        assert_eq!(site.starts(job, nodes), "in_force");
    }
    let again = ["prolog", "--job", "7", "--nodes", "n[16-17]", "--restart", "1"];
    let output = site.command(&again).output().unwrap();
    assert_eq!(json(&String::from_utf8(output.stdout).unwrap())["outcome"], "unrouted");
    assert_eq!(site.health()["torus"]["jobs"], 1);
    let routes = || std::fs::read_to_string(site.path("state/jobs/8/routes.txt")).unwrap();
    let before = routes();
    site.replace("torus.toml", &format!("{whole}failed = [\"0.0+Y\", \"2.0+Y\"]\n"));
    serving.until(|| routes() != before);
    let told = std::fs::read_to_string(site.path("state/jobs/7/routing.env")).unwrap();
    assert!(told.contains("SAROUTER_ROUTED=no"), "{told}");
    assert!(!site.path("state/jobs/7/routes.txt").exists());
    assert_eq!(serving.stop(), 0);
}

/// The disk is slow, so the deadline comes while tables are written.
#[test]
fn a_job_let_go_while_its_tables_are_written_is_told_that_it_has_none() {
    let site = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    site.alter("deadline_seconds = 100", "deadline_seconds = 2");
    let (library, gate) = (site.path("slow.so"), site.path("gate"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/slow.c");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().unwrap().success());
    std::fs::write(&gate, "").unwrap();
    let serving = Serving::with(&site, |command| {
        command.env("LD_PRELOAD", &library).env("SAROUTER_TEST_SLOW", &gate);
    });
    serving.ready(&site);
    assert_eq!(site.starts("7", "n[1-4]"), "deadline");
    std::fs::remove_file(&gate).unwrap();
    // One after the other: what was written for job 7 is settled then.
    let mut job = 7;
    serving.until(|| {
        job += 1;
        site.starts(&job.to_string(), "n[5-8]") == "in_force"
    });
    let told = std::fs::read_to_string(site.path("state/jobs/7/routing.env")).unwrap();
    assert!(told.contains("SAROUTER_ROUTED=no") && told.contains("no tables at the deadline"), "{told}");
    assert_eq!(site.health()["torus"]["jobs"], 1);
    assert_eq!(serving.stop(), 0);
}

/// Names and bytes of the tables of all jobs.
fn tables(site: &Site, state: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for job in std::fs::read_dir(site.path(state).join("jobs")).unwrap() {
        let job = job.unwrap().path();
        for file in std::fs::read_dir(&job).unwrap() {
            let file = file.unwrap().path();
            let name = file.strip_prefix(site.path(state)).unwrap().display().to_string();
            found.insert(name, std::fs::read(&file).unwrap());
        }
    }
    found
}

fn replay(site: &Site, recording: &str, out: &str) -> (i32, Value) {
    let (recording, out) = (site.path(recording), site.path(out));
    let words = ["replay-events", recording.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let (code, text) = site.run(&words);
    (code, json(&text))
}

/// Jobs come and go, a link fails and heals, the service is killed, the first file is full.
#[test]
fn a_recording_of_a_direct_torus_fed_back_makes_the_same_tables_byte_for_byte() {
    let whole = "sizes = [4, 4]\ntransit = \"any\"\n";
    let site = Site::torus(whole);
    site.settings("[record]\nfile_mib = 1\nfiles = 10\n");
    site.jobs("7|RUNNING|n[1-4]|9\n8|RUNNING|n[9-12]|9\n9|RUNNING|n[5-8]|9\n10|RUNNING|n[13-14]|9\n11|RUNNING|n[1-2]|9\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    for (job, nodes) in [("7", "n[1-4]"), ("8", "n[9-12]")] {
        assert_eq!(site.starts(job, nodes), "in_force");
    }
    // Between the first two nodes of job 7; the description fills the file of the recording.
    let long = format!("{whole}failed = [\"0.0+Y\"]\n# {}\n", "x".repeat(1_200_000));
    site.replace("torus.toml", &long);
    serving.until(|| history(&site).len() == 3);
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    assert_eq!(site.starts("9", "n[5-8]"), "in_force");
    assert!(
        site.path("state/record/000002.jsonl").exists() && site.path("state/record/000002.epoch/8").is_dir()
    );
    // Killed, and half a line left behind.
    drop(serving);
    let file = site.path("state/record/000002.jsonl");
    let mut text = std::fs::read(&file).unwrap();
    text.extend_from_slice(b"{\"event\":\"comp");
    std::fs::write(&file, text).unwrap();
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(site.starts("10", "n[13-14]"), "in_force");
    site.replace("torus.toml", whole);
    assert_eq!(site.starts("11", "n[1-2]"), "in_force");
    assert_eq!(serving.stop(), 0);

    let (code, found) = replay(&site, "state/record", "again");
    assert_eq!((code, &found["recorded"], &found["same"]), (0, &6.into(), &6.into()), "{found}");
    let (ours, again) = (tables(&site, "state"), tables(&site, "again"));
    assert_eq!(ours.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
    assert!(ours == again && ours.len() > 20, "{} files", ours.len());
    // Each file stands by itself.
    let files = std::fs::read_dir(site.path("state/record")).unwrap().map(|e| e.unwrap().file_name());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.retain(|name| name.ends_with(".jsonl"));
    files.sort();
    for name in &files {
        let (code, found) = replay(&site, &format!("state/record/{name}"), &format!("alone-{name}"));
        assert_eq!((code, &found["recorded"]), (0, &found["same"]), "{name}: {found}");
    }
    assert!(tables(&site, &format!("alone-{}", files[files.len() - 1])) == ours);
    // What is recorded otherwise is noticed.
    let text = |name: &String| std::fs::read_to_string(site.path("state/record").join(name)).unwrap();
    let name = files.iter().find(|name| text(name).contains("\"n14\"")).unwrap();
    let (file, lines) = (site.path("state/record").join(name), text(name));
    let at = lines.find("\"n14\"").unwrap();
    std::fs::write(&file, format!("{}\"n15\"{}", &lines[..at], &lines[at + 5..])).unwrap();
    let (code, found) = replay(&site, "state/record", "changed");
    assert_eq!(code, 1, "{found}");
    assert!(found["different"][0].as_str().unwrap().contains("job 10"), "{found}");
}
