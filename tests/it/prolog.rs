//! Prolog and epilog as Slurm's controller calls them, with and without a service; an
//! administrator's hold.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use sarouter::service::client::Client;

use crate::site::{LONG, Serving, Site, json};

/// A site whose service looks only when asked, and whose jobs must be old to count.
fn site(handoff: &str) -> Site {
    let site = Site::new("interval_seconds = 3600");
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    let text = text.replace("[slurm]\n", "[slurm]\nmin_job_age_seconds = 3600\n");
    site.replace("sarouter.toml", &text);
    site.settings(&format!("[handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\n{handoff}"));
    site
}

/// Exit code, the answer, and what it complained about.
fn prolog(site: &Site, words: &[&str]) -> (i32, serde_json::Value, String) {
    let mut command = site.command(&["prolog"]);
    let Output { status, stdout, stderr } = command.args(words).env_remove("SLURM_JOB_ID").output().unwrap();
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
    assert!(worth["gain"].as_f64().unwrap() < 384.0, "{worth}");
    let output = site.command(&["status"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(json(&text)["service"]["not_worth_count"] == 1, "{text}");
}

/// By comment, by the option of the plugin, by hand; what cannot be understood says nothing and costs nothing.
#[test]
fn what_a_job_says_of_its_traffic_arrives_with_its_announcement() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    serving.line();
    let announce = |id: &str, comment: &str, option: &str, words: &[&str]| {
        let mut command = site.command(&["prolog", "--job", id, "--nodes", "n[2,6]"]);
        command.args(words).env("SLURM_JOB_COMMENT", comment).env("SPANK_SAROUTER_TRAFFIC", option);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let job = json(&site.run(&["job", id]).1);
        let told = std::fs::read_to_string(site.path(&format!("state/jobs/{id}/routing.env"))).unwrap();
        let kept = told.lines().find_map(|l| l.strip_prefix("SAROUTER_TRAFFIC=")).map(str::to_string);
        let job = &job["job"];
        let word = |key: &str| job[key].as_str().unwrap().to_string();
        assert_eq!(kept.is_some(), job["pattern_from"] == "job", "{job}");
        assert_eq!(kept.unwrap_or("default".into()), word("pattern"), "{job}");
        assert_eq!(site.run(&["epilog", "--job", id]).0, 0);
        (word("pattern"), String::from_utf8(output.stderr).unwrap())
    };
    let said = |pattern: &str| (pattern.to_string(), String::new());
    assert_eq!(announce("21", "", "", &[]), said("default"));
    assert_eq!(announce("22", "", "3*ring+halo:2x2", &[]), said("3*ring+halo:2x2"));
    assert_eq!(announce("23", "night; sarouter:pattern=ring", "linear", &[]), said("ring"));
    assert_eq!(announce("24", "night", "linear", &["--traffic", "halo2d"]), said("halo2d"));
    let (pattern, why) = announce("25", "sarouter:pattern=rings", "bogus", &[]);
    assert_eq!(pattern, "default");
    assert!(why.contains("did you mean ring?") && why.contains("\"bogus\"; it is not heeded"), "{why}");
    let output =
        site.command(&["prolog", "--job", "26", "--nodes", "n1", "--traffic", "rnig"]).output().unwrap();
    // No job is held for a slip in the command line of a prolog.
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stderr).unwrap().contains("did you mean ring?"));
    assert_eq!(serving.stop(), 0);
}

/// The order is in the job's directory before the job starts, and the service tells it; none of a job that did not ask.
#[test]
fn ranks_are_put_in_order_for_a_job_that_asks() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    serving.line();
    let client = Client::new(&site.path("state/api.sock"), LONG);
    let ask = |job: &str| client.wait(client.get::<serde_json::Value>(&format!("/v1/jobs/{job}/order")));
    let words = ["--nodes", "n[1,5,2,6,3,7,9-10]", "--traffic", "groups:2"];
    let (code, answer, _) = prolog(&site, &[&["--job", "31", "--rank-order"], &words[..]].concat());
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer}");
    let order = ask("31").unwrap();
    let nodes: Vec<&str> = order["nodes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    let text = std::fs::read_to_string(site.path("state/jobs/31/order.txt")).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), nodes);
    let mut sorted = nodes.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["n1", "n10", "n2", "n3", "n5", "n6", "n7", "n9"]);
    let (list, ordered) = (order["list"].as_f64().unwrap(), order["ordered"].as_f64().unwrap());
    assert!((1.0..=list).contains(&ordered), "{order}");
    assert_eq!((&order["pattern"], &order["epoch"]), (&"groups:2".into(), &2.into()));
    assert_eq!(json(&site.run(&["job", "31"]).1)["order"], order);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    let output = command.args(["job", "31", "--config"]).arg(site.path("sarouter.toml")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("ranks       in the order {}", nodes.join(","))), "{text}");

    assert_eq!(prolog(&site, &[&["--job", "32"], &words[..]].concat()).0, 0);
    let refused = ask("32").unwrap_err().to_string();
    assert!(refused.contains("--rank-order=fabric") && refused.contains("job 32"), "{refused}");
    assert!(!site.path("state/jobs/32/order.txt").exists());
    // Its plugin says the same by the environment.
    let mut command = site.command(&["prolog", "--job", "33", "--nodes", "n[1,5,2,6]"]);
    assert!(command.env("SPANK_SAROUTER_RANK_ORDER", "fabric").output().unwrap().status.success());
    assert_eq!(ask("33").unwrap()["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(site.run(&["epilog", "--job", "33"]).0, 0);
    serving.until(|| ask("33").is_err());
    assert_eq!(serving.stop(), 0);
}

/// By rules of the site, if the job does not say it; the guess stays when the service is another one.
#[test]
fn what_a_job_does_not_say_is_guessed_from_who_submitted_it() {
    let site = site("deadline_seconds = 100");
    site.settings("[traffic]\nrules = [{ account = \"cfd\", name = \"run-?\", pattern = \"halo2d\" }]");
    let told = |id: &str| {
        let job = &json(&site.run(&["job", id]).1)["job"];
        (job["pattern"].as_str().unwrap().to_string(), job["pattern_from"].as_str().unwrap().to_string())
    };
    let announce = |id: &str, account: &str, option: &str| {
        let mut command = site.command(&["prolog", "--job", id, "--nodes", "n[2,6]"]);
        command
            .env("SLURM_JOB_ACCOUNT", account)
            .env("SLURM_JOB_NAME", "run-7")
            .env("SLURM_JOB_PARTITION", "all");
        let output = command.env("SPANK_SAROUTER_TRAFFIC", option).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        told(id)
    };
    let serving = Serving::start(&site);
    serving.line();
    let by = |pattern: &str, who: &str| (pattern.to_string(), who.to_string());
    assert_eq!(announce("21", "cfd", ""), by("halo2d", "rule"));
    assert_eq!(announce("22", "cfd", "ring"), by("ring", "job"));
    assert_eq!(announce("23", "(null)", ""), by("default", "nobody"));
    assert_eq!(serving.stop(), 0);
    // The batch system tells of no account here, and of the job itself.
    site.jobs("21|RUNNING|n[2,6]|100\n22|RUNNING|n[2,6]|100\n23|RUNNING|n[2,6]|100\n");
    let serving = Serving::start(&site);
    serving.until(|| site.run(&["job", "23"]).0 == 0);
    assert_eq!([told("21"), told("22")], [by("halo2d", "rule"), by("ring", "job")]);
    assert_eq!(told("23"), by("default", "nobody"));
    assert_eq!(serving.stop(), 0);
    let checks = json(&site.run(&["doctor"]).1);
    let row = checks.as_array().unwrap().iter().find(|check| check["name"] == "traffic").unwrap();
    assert!(row["found"].as_str().unwrap().contains("account cfd, name run-?: halo2d"), "{row}");
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
        command.args(JOB).env_remove("SLURM_JOB_ID").env("SPANK_ROUTING", word);
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
    site.replace("sarouter.toml", &good.replace("deadline_seconds = 0.5", "deadline_seconds = 100"));
    let serving = Serving::start(&site);
    serving.line();
    assert_eq!(code("require"), 0, "with its routes it starts");
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
    ] {
        let (code, answer, error) = prolog(&site, words);
        assert_eq!(code, 0, "{words:?}: {answer} {error}");
        assert!(!error.is_empty(), "{words:?}");
    }
    site.settings("[nonsense]\n");
    assert_eq!(prolog(&site, &JOB).0, 0);
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
}

#[test]
fn a_rollback_that_is_held_stays_until_resumed() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    site.jobs("2|RUNNING|n[2,6]|100\n");
    serving.signal(rustix::process::Signal::HUP);
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
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
    assert_eq!(site.run(&["tick"]), (0, String::new()));
    assert_eq!(site.current().unwrap(), std::path::Path::new("epochs/000001"));
    let (_, text) = site.run(&["status"]);
    assert!(json(&text)["held"]["reason"].as_str().unwrap().contains("epoch 1"), "{text}");
    assert_eq!(site.run(&["resume"]).0, 0);
    assert_eq!(serving.line()["epoch"]["epoch"], 3);
    assert_eq!(site.run(&["resume"]).0, 1);
    assert_eq!(serving.stop(), 0);
}

/// A site whose fabric is a direct torus of 16 nodes.
fn torus(handoff: &str) -> Site {
    let site = site(handoff);
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    site.replace("sarouter.toml", &text.replace("fabric.net", "torus.toml").replace("dfsssp", "angara-sar"));
    site.replace("torus.toml", "sizes = [4, 2, 2]\n");
    site
}

fn told(site: &Site, job: &str) -> Option<String> {
    std::fs::read_to_string(site.path(&format!("state/jobs/{job}/routing.env"))).ok()
}

#[test]
fn on_a_direct_torus_each_job_gets_tables_that_go_with_it() {
    let site = torus("deadline_seconds = 100");
    site.jobs("7|CONFIGURING|n[1-4]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    let (code, answer, error) = prolog(&site, &["--job", "7", "--nodes", "n[1-4]"]);
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer} {error}");
    let directory = site.path("state/jobs/7");
    let tables = std::fs::read_dir(&directory).unwrap().flatten().map(|e| e.file_name());
    let tables: Vec<_> = tables.filter(|n| n.to_string_lossy().ends_with(".table")).collect();
    assert_eq!(tables.len(), 4);
    assert!(told(&site, "7").unwrap().contains("SAROUTER_ROUTED=yes"));
    let before = std::fs::read(directory.join("nodes.txt")).unwrap();
    // Restarted on other nodes: theirs take the place.
    let again = ["--job", "7", "--nodes", "n[5-8]", "--restart", "1"];
    assert_eq!(prolog(&site, &again).1["outcome"], "in_force");
    assert_ne!(std::fs::read(directory.join("nodes.txt")).unwrap(), before);
    // A node that is not there.
    let (code, answer, _) = prolog(&site, &["--job", "8", "--nodes", "n[16-17]"]);
    assert_eq!((code, &answer["outcome"]), (0, &"unrouted".into()));
    let text = told(&site, "8").unwrap();
    assert!(text.contains("SAROUTER_ROUTED=no") && text.contains("no node n17"), "{text}");
    assert_eq!(prolog(&site, &["--job", "8", "--nodes", "n[16-17]", "--restart", "1", "--strict"]).0, 1);
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    assert!(!directory.exists());
    // The end of job 8 is not announced; job 9, which runs, keeps its tables.
    assert_eq!(prolog(&site, &["--job", "9", "--nodes", "n[9-10]"]).1["outcome"], "in_force");
    site.jobs("9|RUNNING|n[9-10]|100\n");
    serving.until(|| {
        serving.signal(rustix::process::Signal::HUP);
        told(&site, "8").is_none()
    });
    assert!(told(&site, "9").is_some());
    assert_eq!(serving.stop(), 0);
    // What a service that was killed left behind goes with the next one, or with a tick.
    site.jobs("");
    assert_eq!(site.run(&["tick"]).0, 0);
    assert!(told(&site, "9").is_none());
}

#[test]
fn a_hold_keeps_a_direct_torus_as_it_is() {
    let site = torus("deadline_seconds = 100");
    // What Slurm does not know has no tables for long.
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[5-8]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(prolog(&site, &["--job", "7", "--nodes", "n[1-4]"]).1["outcome"], "in_force");
    assert_eq!(site.run(&["hold", "--reason", "links are measured"]).0, 0);
    assert_eq!(prolog(&site, &["--job", "8", "--nodes", "n[5-8]"]).1["outcome"], "held");
    assert!(told(&site, "8").unwrap().contains("SAROUTER_ROUTED=no"));
    assert_eq!(site.run(&["resume"]).0, 0);
    assert_eq!(prolog(&site, &["--job", "9", "--nodes", "n[5-8]"]).1["outcome"], "in_force");
    assert_eq!(serving.stop(), 0);
}

/// A link fails under a job that runs, and heals.
#[test]
fn a_failed_link_of_a_direct_torus_is_routed_around_and_told() {
    let site = torus("deadline_seconds = 100");
    site.replace("torus.toml", "sizes = [4, 4]\ntransit = \"any\"\n");
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[9-12]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    for (job, nodes) in [("7", "n[1-4]"), ("8", "n[9-12]")] {
        assert_eq!(prolog(&site, &["--job", job, "--nodes", nodes]).1["outcome"], "in_force");
    }
    let (_, text) = site.run(&["status"]);
    let status = json(&text);
    assert_eq!((&status["healthy"], &status["torus"]["jobs"]), (&true.into(), &2.into()), "{text}");
    let routes =
        |job: &str| std::fs::read_to_string(site.path(&format!("state/jobs/{job}/routes.txt"))).unwrap();
    let before = (routes("7"), routes("8"));
    let (code, text) = site.run(&["plan"]);
    assert_eq!((code, &json(&text)["running"]), (0, &2.into()), "{text}");
    site.replace("more", "7 n[1-4]\n9 n[5-8],n13\n10 n[16-17]\n");
    let (code, text) = site.run(&["plan", "--jobs", site.path("more").to_str().unwrap()]);
    let dry = json(&text);
    assert_eq!(
        (code, &dry["due"], dry["starting"].to_string()),
        (1, &true.into(), "[\"9\"]".into()),
        "{text}"
    );
    assert_eq!((dry["over"].to_string(), &dry["refused"][0][0]), ("[\"8\"]".into(), &"10".into()), "{text}");
    assert!(dry["load_after"].as_u64() > dry["load_before"].as_u64(), "{text}");
    // Between the first two nodes of job 7.
    site.replace("torus.toml", "sizes = [4, 4]\ntransit = \"any\"\nfailed = [\"0.0+Y\"]\n");
    serving.until(|| routes("7") != before.0);
    assert!(!routes("7").contains("0.0 0.1 +Y\n"), "{}", routes("7"));
    assert_eq!(routes("8"), before.1, "nothing failed there");
    let (code, text) = site.run(&["status"]);
    assert!(code == 1 && text.contains("routes of job 7 led over what has failed"), "{text}");
    // A service that starts again knows both jobs, and whom the failure touched.
    assert_eq!(serving.stop(), 0);
    let serving = Serving::start(&site);
    serving.ready(&site);
    serving.until(|| site.health()["torus"]["load_max"].as_u64().is_some_and(|max| max > 0));
    assert_eq!(site.health()["torus"]["jobs"], 2);
    assert!(site.run(&["status"]).1.contains("of job 7"));
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    site.jobs("8|RUNNING|n[9-12]|100\n");
    serving.until(|| site.health()["torus"]["jobs"] == 1);
    assert_eq!(site.run(&["status"]).0, 0);
    assert_eq!(serving.stop(), 0);
}

#[test]
fn an_engine_that_a_direct_torus_has_not_is_refused() {
    let site = torus("");
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    for (name, says) in [
        ("nonsense", "no engine \"nonsense\""),
        ("dfsssp", "for a direct torus"),
        ("angara-ssp", "did you mean angara-sssp?"),
    ] {
        site.replace("sarouter.toml", &text.replace("angara-sar", name));
        let output = site.command(&["serve"]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(says), "{:?} {error}", output.status);
        let (_, text) = site.run(&["doctor"]);
        assert!(text.replace('\\', "").contains(says), "{text}");
    }
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
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    site.replace("sarouter.toml", &text.replace("[routing]\n", "[routing]\nlayers = 1\n"));
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
