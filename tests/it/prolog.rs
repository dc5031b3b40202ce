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

/// Has jobs 7 and 8 run on a torus of 4x4 with tables of the service.
fn with_two_jobs(site: &Site) -> Serving {
    site.replace("torus.toml", "sizes = [4, 4]\ntransit = \"any\"\n");
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[9-12]|100\n");
    let serving = Serving::start(site);
    serving.ready(site);
    for (job, nodes) in [("7", "n[1-4]"), ("8", "n[9-12]")] {
        assert_eq!(prolog(site, &["--job", job, "--nodes", nodes]).1["outcome"], "in_force");
    }
    serving
}

/// A link fails under a job that runs, and heals.
#[test]
fn a_failed_link_of_a_direct_torus_is_routed_around_and_told() {
    let site = torus("deadline_seconds = 100");
    let serving = with_two_jobs(&site);
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

/// The site's command brings new tables of a job that runs to its nodes. One that fails is told, and called again.
#[test]
fn a_command_brings_new_tables_to_the_nodes() {
    let site = torus("deadline_seconds = 100");
    let at = |name: &str| site.path(name).display().to_string();
    let (bring, nodes) = (at("bring"), at("nodes"));
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    let with = |program: &str| text.replace("[handoff]", &format!("[handoff]\nbring_command = {program:?}"));
    site.replace("sarouter.toml", &with("bring"));
    let (code, said) = site.run(&["plan"]);
    assert!(code == 2 && said.contains("from the root"), "{said}");
    site.replace("sarouter.toml", &with(&bring));
    crate::script::script(
        &bring,
        &format!(
            "#!/bin/sh\n[ -d {nodes} ] || {{ echo no way there >&2; exit 3; }}\n\
             while read -r node file; do cp \"$2/$file\" {nodes}/$node; done <\"$2/nodes.txt\"\n\
             echo $1 >>{nodes}/brought\n"
        ),
    );
    let serving = with_two_jobs(&site);
    site.replace("torus.toml", "sizes = [4, 4]\ntransit = \"any\"\nfailed = [\"0.0+Y\"]\n");
    let told = |site: &Site| site.health()["torus"]["cut"]["7"]["text"].as_str().map(String::from);
    serving.until(|| told(&site).is_some_and(|text| text.contains("no way there")));
    let (code, said) = site.run(&["status"]);
    assert!(code == 1 && said.contains("of job 7") && said.contains("are not on its nodes"), "{said}");
    std::fs::create_dir(&nodes).unwrap();
    serving.signal(rustix::process::Signal::HUP);
    serving.until(|| told(&site).is_none());
    assert_eq!(site.run(&["status"]).0, 0);
    let read = |path: String| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(at("nodes/brought")), "7\n", "nothing failed under job 8");
    let new = read(at("nodes/n1"));
    assert_eq!(new, read(at("state/jobs/7/node-0.0.table")));
    assert!(!new.contains("0.1 n2 +Y\n"), "{new}");
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
