//! Several `[[fabric]]`: their settings, one service for all, a job that waits for each, and what commands say.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use sarouter::config::{self, FabricSource, Settings};
use sarouter::model::{JobId, Sl};
use sarouter::publish::job::{self, JobEnvironment, OnFabric, publish_of_several};
use sarouter::service::handoff::Outcome;

use crate::prolog::prolog;
use crate::site::{Serving, Site, json};

const TWO: &str = "\
[state]
directory = \"state\"
keep_epochs = 7
[opensm]
stale_seconds = 9
[routing]
layers = 4
[[fabric]]
name = \"ib0\"
source = \"opensm\"
[fabric.opensm]
conf = \"ib0.conf\"
[[fabric]]
name = \"ib1\"
command = [\"ibnetdiscover\", \"-P\", \"2\"]
node_map = \"nodes\"
[fabric.routing]
layers = 2
[fabric.state]
directory = \"/var/lib/other\"
[api]
write_users = [7]
";

fn site(text: &str) -> Result<config::Site, String> {
    config::Site::parse(text, Path::new("/etc/s.toml")).map_err(|e| e.to_string())
}

#[test]
fn each_fabric_has_its_own_and_what_the_file_says_for_all() {
    let site = site(TWO).unwrap();
    assert_eq!(site.names(), ["ib0", "ib1"]);
    assert_eq!(site.api.as_ref().unwrap().socket, Path::new("/etc/state/api.sock"));
    assert_eq!(site.api.as_ref().unwrap().write_users, [7]);
    let [ib0, ib1] = &site.fabrics[..] else { panic!("{site:?}") };
    assert_eq!((&ib0.api, &ib1.api), (&None, &None));
    let of = |s: &Settings| (s.state.directory.clone(), s.state.keep_epochs, s.routing.layers.get());
    assert_eq!(of(ib0), ("/etc/state/ib0".into(), 7, 4));
    assert_eq!(of(ib1), ("/var/lib/other".into(), 7, 2));
    let status = |s: &Settings| s.opensm.as_ref().unwrap().status_file.clone();
    assert_eq!(status(ib0), Path::new("/etc/state/ib0/opensm-status.json"));
    assert_eq!(status(ib1), Path::new("/var/lib/other/opensm-status.json"));
    let conf = |s: &Settings| s.opensm.as_ref().unwrap().conf.clone();
    assert_eq!((conf(ib0), conf(ib1)), ("/etc/ib0.conf".into(), "/etc/opensm/opensm.conf".into()));
    assert!(site.fabrics.iter().all(|s| s.opensm.as_ref().unwrap().stale.as_secs() == 9));
    let Some(FabricSource::OpenSm { directory, .. }) = &ib0.fabric else { panic!("{:?}", ib0.fabric) };
    assert_eq!(directory, Path::new("/etc/state/ib0"));
    assert!(matches!(&ib1.fabric, Some(FabricSource::Command { argv, .. }) if argv.len() == 3));
    assert_eq!((&ib0.node_map, &ib1.node_map), (&None, &Some("/etc/nodes".into())));
    // One is meant, or all.
    assert_eq!(site.clone().only(Some("ib1")).unwrap(), *ib1);
    let error = site.clone().only(None).unwrap_err().to_string();
    assert_eq!(error, "the settings have several fabrics: say which by --fabric-name: ib0, ib1");
    let error = site.only(Some("ib2")).unwrap_err().to_string();
    assert_eq!(error, "the settings have no fabric \"ib2\"; there are: ib0, ib1");
}

#[test]
fn one_fabric_is_as_it_was() {
    let text = "[fabric]\nsource = \"fabric.net\"\n[routing]\nlayers = 2\n";
    let one = site(text).unwrap();
    assert!(!one.is_several());
    let settings = Settings::parse(text, Path::new("/etc/s.toml")).unwrap();
    assert_eq!((&one.fabrics[0], &settings.name), (&settings, &None));
    assert_eq!((&one.api, one.state.as_path()), (&settings.api, Path::new("/var/lib/sarouter")));
    assert_eq!(
        one.only(Some("ib0")).unwrap_err().to_string(),
        "the settings have no fabric \"ib0\": it is one, and has no name"
    );
}

/// Each with its line and what was meant.
#[test]
fn fabrics_that_share_what_each_needs_are_refused() {
    let two = |first: &str, second: &str| {
        format!("[[fabric]]\nname = \"a\"\n{first}\n[[fabric]]\nname = \"b\"\n{second}\n")
    };
    let directory = "[fabric.state]\ndirectory = \"/x\"";
    let status = "[fabric.opensm]\nstatus_file = \"/x/s.json\"";
    let lft = "[fabric.opensm]\nwatch = false\nlft_file = \"/x/lft\"";
    for (text, line, words) in [
        (two("", "").replace("\"b\"", "\"a\""), 5, "another fabric has the name \"a\""),
        (two(directory, directory), 8, "the state directory of fabric \"a\": each needs its own"),
        (two("", "").replace("[[fabric]]\nname = \"b\"", "[[fabric]]\n"), 4, "each [[fabric]] needs a name"),
        (two(status, status), 8, "the OpenSM status file of fabric \"a\""),
        (two("", &format!("[opensm]\n{}", &status[16..])), 7, "each needs its own"),
        (two(lft, lft), 10, "the lft_file of fabric \"a\""),
        (two("[fabric.state]\ndirectory = \"/var/lib/sarouter\"", ""), 4, "state directory of the service"),
        (two("", "").replace("\"b\"", "\"../b\""), 5, "small letters, digits and -"),
        (two("", "").replace("\"b\"", "\"jobs\""), 5, "directory of the service itself"),
        (two("", "").replace("\"b\"", "\"lock\""), 5, "directory of the service itself"),
        (two("", "").replace("\"b\"", "\"trial\""), 5, "directory of the service itself"),
        (two("", "layers = 3"), 6, "there is no key \"layers\" here"),
        (two("", "[fabric.routing]\nlayers = 99"), 7, ""),
        (two("", "[fabric.api]\nenable = false"), 6, "there is no key \"api\" here"),
        (two("", "routing = 3"), 6, "fabric.routing is a table"),
        ("fabric = []\n".to_string(), 1, "there is no fabric"),
        ("fabric = [1]\n".to_string(), 1, "a fabric is a table"),
        (two("", "[slurm]\nsource = \"spool\""), 7, "needs spool.directory"),
    ] {
        let error = site(&text).unwrap_err();
        assert!(error.starts_with(&format!("/etc/s.toml:{line}: ")), "{text}\n{error}");
        assert!(error.contains(words), "{text}\n{error}");
    }
}

#[test]
fn the_fabric_that_serves_a_job_worst_says_how_it_starts() {
    use Outcome::{Deadline, InForce, NextPass, OneSwitch, OpensmGone};
    assert_eq!(Outcome::worst([OneSwitch, InForce]), Some(InForce));
    assert_eq!(Outcome::worst([NextPass, InForce]), Some(NextPass));
    assert_eq!(Outcome::worst([OpensmGone, InForce, Deadline]), Some(Deadline));
    assert_eq!(Outcome::worst([]), None);
}

/// The 16 nodes of [`Site`] with an adapter on each of two fabrics; the second may have more settings.
pub fn two(more: &str) -> Site {
    let site = Site::new("");
    let text = format!(
        "[state]\ndirectory = \"state\"\n[slurm]\nsqueue = \"{}\"\nmin_job_age_seconds = 3600\n\
         [routing]\nengine = \"dfsssp\"\nmin_gain_seconds = 0\n[opensm]\nwatch = false\n\
         [service]\ninterval_seconds = 3600\n\
         [handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\ndeadline_seconds = 100\n\
         [[fabric]]\nname = \"ib0\"\nsource = \"fabric.net\"\n\
         [[fabric]]\nname = \"ib1\"\nsource = \"fattree:2x8,2\"\n{more}",
        site.path("squeue").display()
    );
    site.replace("sarouter.toml", &text);
    site
}

pub const JOB: [&str; 4] = ["--job", "7", "--nodes", "n[2,10]"];

#[test]
fn one_service_serves_two_fabrics_and_a_job_waits_for_both() {
    let site = two("");
    let serving = Serving::start(&site);
    let mut first = [serving.line(), serving.line()].map(|line| line["fabric"].as_str().unwrap().to_string());
    first.sort();
    assert_eq!(first, ["ib0", "ib1"]);
    let (code, answer, _) = prolog(&site, &JOB);
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer}");
    assert_eq!(answer["fabrics"], serde_json::json!({"ib0": "in_force", "ib1": "in_force"}));
    // Nodes 1 to 4 share a switch of the one, 1 to 8 of the other.
    let (_, answer, _) = prolog(&site, &["--job", "8", "--nodes", "n[1,5]"]);
    assert_eq!(answer["fabrics"], serde_json::json!({"ib0": "in_force", "ib1": "one_switch"}));
    // What the job is told: of both in one place, of each in its own.
    let told = std::fs::read_to_string(site.path("state/jobs/7/routing.env")).unwrap();
    assert!(told.contains("SAROUTER_ROUTED=yes\n") && told.contains("SAROUTER_EPOCH_IB1="), "{told}");
    assert!(site.path("state/ib0/jobs/7/routing.env").exists());
    let (code, text) = site.run(&["status"]);
    let fabrics = json(&text)["fabrics"].take();
    assert_eq!(code, 0, "{text}");
    assert!(fabrics["ib0"]["epoch"]["number"].as_u64() > Some(0), "{text}");
    assert!(fabrics["ib1"]["epoch"]["number"].as_u64() > Some(0), "{text}");
    // One that is held holds no job up, and is told by its name.
    assert_eq!(site.run(&["hold", "--fabric-name", "ib1"]).0, 0);
    let (_, answer, _) = prolog(&site, &["--job", "9", "--nodes", "n[3,11]"]);
    assert_eq!(answer["fabrics"], serde_json::json!({"ib0": "in_force", "ib1": "held"}), "{answer}");
    let (code, text) = site.run(&["status"]);
    let healthy = |name: &str| json(&text)["fabrics"][name]["healthy"].as_bool();
    assert_eq!((code, healthy("ib0"), healthy("ib1")), (1, Some(true), Some(false)), "{text}");
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    assert!(!site.path("state/jobs/7").exists());
    assert_eq!(serving.stop(), 0);
    assert!(!site.path("state/api.sock").exists());
}

/// What a job is told stands in the directory of the service, not in that of a fabric.
#[test]
fn a_job_on_two_fabrics_whose_directory_cannot_be_written_is_late() {
    let site = two("");
    let serving = Serving::start(&site);
    serving.line();
    serving.line();
    let _ = std::fs::remove_dir_all(site.path("state/jobs"));
    std::fs::write(site.path("state/jobs"), "").unwrap();
    let (code, answer, _) = prolog(&site, &[&JOB[..], &["--strict"]].concat());
    assert_eq!((code, &answer["outcome"]), (1, &"untold".into()), "{answer}");
    assert_eq!(serving.stop(), 0);
}

/// The Python package asks the one that is meant.
#[test]
fn python_asks_one_of_two_fabrics() {
    let site = two("");
    let serving = Serving::start(&site);
    serving.line();
    serving.line();
    let asked = "import sys; from sarouter import Service\n\
                 for name in ['ib0', 'ib1']: print(len(Service(sys.argv[1], fabric=name).fabric()['names']))";
    let mut python = std::process::Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", asked]).arg(site.path("state/api.sock"));
    python.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("python"));
    let output = python.output().expect("Debian's python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "6\n4\n", "switches: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_job_waits_for_no_fabric_whose_opensm_is_gone() {
    let site = two("[fabric.opensm]\nwatch = true\nacknowledge_seconds = 100\n");
    let serving = Serving::start(&site);
    serving.line();
    serving.line();
    let (code, answer, _) = prolog(&site, &JOB);
    assert_eq!((code, &answer["outcome"]), (0, &"opensm_gone".into()), "{answer}");
    assert_eq!(answer["fabrics"], serde_json::json!({"ib0": "in_force", "ib1": "opensm_gone"}));
    let told = std::fs::read_to_string(site.path("state/jobs/7/routing.env")).unwrap();
    let why = "ib1: started without routes of its own (OpensmGone)";
    assert!(told.contains("SAROUTER_ROUTED=no\n") && told.contains(why), "{told}");
    let strict = [&["--job", "8", "--nodes", "n[3,11]"][..], &["--strict"]].concat();
    assert_eq!(prolog(&site, &strict).0, 1);
}

#[test]
fn what_needs_one_fabric_says_which_there_are() {
    let site = two("");
    let (code, text) = site.run(&["tick"]);
    assert_eq!((code, text.lines().count()), (0, 2), "{text}");
    for words in [&["history"][..], &["show", "1"], &["rollback", "1"], &["explain", "1"]] {
        let output = site.command(words).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains("say which by --fabric-name: ib0, ib1"), "{words:?}: {error}");
        let named = [words, &["--fabric-name", "ib1"]].concat();
        assert_eq!(site.run(&named).0, 0, "{named:?}");
    }
    // Which of them has the directory that is typed?
    for words in [&["plan"][..], &["plan", "--fabric-name", "ib1"], &["hold", "--fabric-name", "ib1"]] {
        let output = site.command(&[words, &["--state", "elsewhere"]].concat()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains("--state"), "{words:?}: {error}");
    }
}

/// What a job is told that two fabrics told so.
fn told(each: [(&str, Option<u64>, bool, bool); 2]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let job = JobId::new("7").unwrap();
    let roots = each.map(|(name, level, routed, _)| {
        let environment = JobEnvironment {
            service_level: level.map(|level| Sl::new(level).unwrap()),
            routed,
            epoch: Some(3),
            note: if routed { String::new() } else { "late".into() },
            ..JobEnvironment::default()
        };
        let root = dir.path().join(name);
        job::publish(&root, &job, &environment).unwrap();
        root
    });
    let on = |i: usize| OnFabric { name: each[i].0, root: &roots[i], matters: each[i].3, direct: false };
    let root = dir.path().join("jobs");
    publish_of_several(&root, &job, &[on(0), on(1)]).unwrap();
    std::fs::read_to_string(root.join("7/routing.env")).unwrap()
}

#[test]
fn a_job_is_told_what_holds_on_all_its_fabrics() {
    let same = told([("ib0", Some(2), true, true), ("ib-1", Some(2), true, true)]);
    assert_eq!(
        same,
        "SAROUTER_FORMAT=1\nSAROUTER_JOB=7\nSAROUTER_ROUTED=yes\nSAROUTER_SL=2\n\
         SAROUTER_SL_IB0=2\nSAROUTER_EPOCH_IB0=3\nSAROUTER_SL_IB_1=2\nSAROUTER_EPOCH_IB_1=3\n"
    );
    let other = told([("a", Some(2), true, true), ("b", Some(1), true, true)]);
    assert!(!other.contains("SAROUTER_SL=") && other.contains("SAROUTER_SL_B=1\n"), "{other}");
    assert!(other.contains("SAROUTER_NOTE=its service level differs by fabric"), "{other}");
    let none = told([("a", Some(2), true, true), ("b", None, true, true)]);
    assert!(!none.contains("SAROUTER_SL=") && !none.contains("NOTE"), "{none}");
    // Where it is on one switch any level will do.
    let one = told([("a", Some(2), true, true), ("b", Some(0), true, false)]);
    assert!(one.contains("SAROUTER_SL=2\n") && one.contains("SAROUTER_ROUTED=yes\n"), "{one}");
    let late = told([("a", Some(2), true, true), ("b", Some(2), false, true)]);
    assert!(late.contains("SAROUTER_ROUTED=no\n") && late.contains("SAROUTER_NOTE=b: late\n"), "{late}");
}

#[test]
fn commands_and_the_interface_speak_of_each_fabric() {
    let site = two("");
    let (code, text) = site.run(&["plan"]);
    let due = |text: &str, name: &str| json(text)["fabrics"][name]["due"].clone();
    assert_eq!((code, due(&text, "ib0"), due(&text, "ib1")), (1, true.into(), true.into()), "{text}");
    assert_eq!(site.run(&["tick", "--fabric-name", "ib1"]).0, 0);
    let (code, text) = site.run(&["plan"]);
    assert_eq!((code, due(&text, "ib0"), due(&text, "ib1")), (1, true.into(), false.into()), "{text}");
    let serving = Serving::start(&site);
    serving.line();
    let (code, answer, _) = prolog(&site, &JOB);
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer}");
    let ask = |path: &str| site.get(path).unwrap();
    assert_eq!(ask("/v1/fabrics")["fabrics"], serde_json::json!(["ib0", "ib1"]));
    let health = ask("/v1/health");
    assert_eq!((&health["healthy"], &health["problems"]), (&true.into(), &serde_json::json!([])), "{health}");
    assert!(health["fabrics"]["ib1"]["passes"].as_u64() > Some(0), "{health}");
    assert_eq!(ask("/v1/jobs/7/environment")["SAROUTER_ROUTED"], "yes");
    // Everything of one fabric is below its name; elsewhere it is said where.
    let switches = |name: &str| ask(&format!("/fabrics/{name}/v1/fabric"))["names"].as_array().unwrap().len();
    assert_eq!((switches("ib0"), switches("ib1")), (6, 4));
    for path in ["/v1/jobs", "/fabrics/ib2/v1/jobs", "/fabrics/ib2/"] {
        let refused = site.get(path).unwrap_err().to_string();
        assert!(refused.contains("404") && refused.contains("/fabrics/ib0/, /fabrics/ib1/"), "{refused}");
    }
    // People in a browser find the pages.
    let led = site.get("/fabrics/ib0").unwrap_err().to_string();
    assert!(led.contains("308"), "{led}");
    let list = site.text("/");
    assert!(list.contains("<a href=\"/fabrics/ib1/\">ib1</a>"), "{list}");
    // A family stands once, with a sample of each fabric.
    let metrics = metrics(&site);
    let lines = |start: &str| metrics.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(lines("# TYPE sarouter_healthy "), 1, "{metrics}");
    assert_eq!(lines("sarouter_healthy{fabric=\"ib0\"} 1"), 1, "{metrics}");
    assert_eq!(lines("sarouter_healthy{fabric=\"ib1\"} 1"), 1, "{metrics}");
    assert_eq!(lines("sarouter_handoff_started_total{fabric=\"ib1\",reason=\"in_force\"} "), 1, "{metrics}");
    assert_eq!(lines("process_open_fds "), 1, "{metrics}");
    // Slurm does not list the job, whose routes are there: it is known from its prolog.
    let (code, text) = site.run(&["job", "7"]);
    let told = json(&text)["fabrics"].take();
    assert_eq!((code, &told["ib1"]["environment"]["SAROUTER_ROUTED"]), (0, &"yes".into()), "{text}");
    // Lists, and where a node is, come of each fabric that has them.
    let (code, text) = site.run(&["job"]);
    let listed = |name: &str| {
        let told = json(&text);
        told["fabrics"][name].as_array().map(|jobs| jobs.iter().any(|job| job["id"] == "7"))
    };
    assert_eq!((code, listed("ib0"), listed("ib1")), (0, Some(true), Some(true)), "{text}");
    let (code, text) = site.run(&["node", "n2"]);
    let told = json(&text)["fabrics"].take();
    assert_eq!((code, &told["ib0"]["node"], &told["ib1"]["node"]), (0, &"n2".into(), &"n2".into()), "{text}");
    let (_, text) = site.run(&["doctor"]);
    let checks = json(&text);
    let of = |name: &str| checks.as_array().unwrap().iter().filter(|check| check["fabric"] == name).count();
    assert!(of("ib0") > 0 && of("ib1") > 0, "{text}");
    // A change for one fabric is followed; another list of them wants a restart.
    site.alter("name = \"ib1\"", "name = \"ib2\"");
    let refused = || {
        let health = ask("/v1/health");
        let message = &health["fabrics"]["ib0"]["settings_refused"]["message"];
        message.to_string().contains("another list of [[fabric]] needs a restart")
    };
    serving.until(refused);
    assert_eq!(serving.stop(), 0);
}

/// What Prometheus gets.
pub fn metrics(site: &Site) -> String {
    let mut socket = UnixStream::connect(site.path("state/api.sock")).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_node_without_an_adapter_on_one_fabric_is_known_from_another() {
    let site = two("");
    site.alter("fattree:2x8,2", "fattree:3x8,2");
    site.jobs("1|RUNNING|n[1,20]|7200\n2|RUNNING|n[2,99]|7200\n");
    let serving = Serving::start(&site);
    serving.line();
    serving.line();
    serving.until(|| {
        site.look();
        let health = site.told_health();
        let told = health["problems"].to_string();
        // n20 has an adapter on the second alone, n99 on none.
        assert!(!told.contains("n20"), "{told}");
        ["ib0: ", "ib1: "].iter().all(|name| told.contains(&format!("{name}jobs run on nodes")))
            && told.contains("n99")
    });
}

/// Slurm's controller repeats prologs after a restart.
#[test]
fn prologs_of_one_job_at_one_time_are_not_in_each_others_way() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..20 {
        let job = sarouter::model::JobId::new(format!("{n}")).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| job::publish(root.path(), &job, &JobEnvironment::default()).unwrap());
            }
        });
        assert!(root.path().join(job.as_str()).join(job::ENVIRONMENT_FILE).is_file(), "{n}");
    }
    let left = std::fs::read_dir(root.path()).unwrap().count();
    assert_eq!(left, 20, "nothing is left beside them");
}
