//! One health: a planted trouble is told in every place within a look, and in none when it is over.

use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};

use crate::opensm_status::opensm_status;
use crate::site::{LONG, Serving, Site, json as parsed};

/// A trouble: its kind, words that tell it, how it comes and how it goes.
struct Trouble {
    kind: &'static str,
    words: &'static str,
    plant: Box<dyn Fn(&Site)>,
    heal: Box<dyn Fn(&Site)>,
}

fn trouble(
    kind: &'static str,
    words: &'static str,
    plant: impl Fn(&Site) + 'static,
    heal: impl Fn(&Site) + 'static,
) -> Trouble {
    Trouble { kind, words, plant: Box::new(plant), heal: Box::new(heal) }
}

const SQUEUE: &str = "cat \"$(dirname \"$0\")/jobs\"";
const JOBS: &str = "1|RUNNING|n[1,5,9]|100\n";

/// Those that every kind of network can have. `broken`: its description as nobody can read it.
fn of_every_kind(source: &'static str, words: &'static str) -> Vec<Trouble> {
    let text = |site: &Site| std::fs::read_to_string(site.path(source)).unwrap();
    vec![
        trouble(
            "held",
            "holds what is in force",
            |site| assert_eq!(site.run(&["hold", "--reason", "a test"]).0, 0),
            |site| assert_eq!(site.run(&["resume"]).0, 0),
        ),
        trouble(
            "failing",
            "asking for jobs failed",
            |site| site.squeue("echo no controller >&2; exit 1"),
            |site| site.squeue(SQUEUE),
        ),
        trouble(
            "failing",
            words,
            move |site| {
                site.replace("whole", &text(site));
                site.replace(source, "no network\n");
            },
            move |site| site.replace(source, &std::fs::read_to_string(site.path("whole")).unwrap()),
        ),
        trouble(
            "settings",
            "the settings file is not in force",
            |site| site.alter("[state]", "nonsense = 1\n[state]"),
            |site| site.alter("nonsense = 1\n", ""),
        ),
        trouble(
            "unknown_nodes",
            "jobs run on nodes that are not in the fabric: n77",
            |site| site.jobs(&format!("{JOBS}2|RUNNING|n77|100\n")),
            |site| site.jobs(JOBS),
        ),
    ]
}

/// What the plugin in OpenSM says when all is well, and what it says else.
fn opensm(site: &Site, edit: &[(&str, Value)]) {
    let current = std::fs::read_link(site.path("state/current")).unwrap();
    let epoch: u64 = current.file_name().unwrap().to_str().unwrap().parse().unwrap();
    site.replace("state/opensm-status.json", &opensm_status(epoch, edit));
}

/// Those that the plugin in OpenSM tells.
fn of_opensm() -> Vec<Trouble> {
    let long_ago = || json!(Utc::now() - TimeDelta::seconds(100_000));
    let row = |kind, words, edit: Vec<(&'static str, Value)>| {
        trouble(kind, words, move |site| opensm(site, &edit), |site| opensm(site, &[]))
    };
    vec![
        trouble(
            "opensm_status",
            "opensm-status.json",
            |site| site.replace("state/opensm-status.json", "{\"format\": 1, "),
            |site| opensm(site, &[]),
        ),
        row("opensm_silent", "OpenSM has not been heard of", vec![("written", long_ago())]),
        row(
            "clock",
            "the clock was set back: OpenSM's plugin wrote its status at",
            vec![("written", json!(Utc::now() + TimeDelta::hours(1)))],
        ),
        row("opensm_ended", "OpenSM has ended", vec![("running", json!(false))]),
        row("opensm_deaf", "OpenSM was asked to route", vec![("asked", long_ago())]),
        row(
            "opensm_not_routed",
            "OpenSM has not routed the fabric yet",
            vec![("engine", Value::Null), ("generation", Value::Null)],
        ),
        row(
            "opensm_fell_back",
            "OpenSM has fallen back to its engine updn",
            vec![("engine", json!("updn")), ("generation", Value::Null)],
        ),
        row(
            "opensm_refused",
            "OpenSM refused epoch 2: a cycle",
            vec![("refused_generation", json!(2)), ("refused_reason", json!("a cycle"))],
        ),
        row("opensm_behind", "OpenSM has epoch 77 in force", vec![("generation", json!(77))]),
        row("opensm_lost", "12 table entries are dead", vec![("lost_entries", json!(12))]),
        row("opensm_missing", "does not see 2 switches", vec![("missing_switches", json!(2))]),
        row("opensm_repaired", "has replaced 34 table entries", vec![("repaired_entries", json!(34))]),
        row("opensm_stranded", "3 pairs of a switch and a host", vec![("stranded_pairs", json!(3))]),
        row("opensm_uncovered", "4 LIDs on switches", vec![("uncovered_lids", json!(4))]),
        row(
            "opensm_rival",
            "another process writes it",
            vec![("warning", json!("another process writes it"))],
        ),
    ]
}

/// Those that come when nobody answers: Slurm, or OpenSM while epochs go on.
fn of_those_who_hang() -> Vec<Trouble> {
    let late = |kind, words, nodes: &'static str| {
        let plant = move |site: &Site| site.jobs(&format!("{JOBS}2|RUNNING|{nodes}|100\n"));
        let heal = |site: &Site| {
            site.jobs(JOBS);
            opensm(site, &[]);
        };
        trouble(kind, words, plant, heal)
    };
    vec![
        trouble(
            "failing",
            "killed after 5 s without an answer",
            |site| site.squeue("exec sleep 1000"),
            |site| site.squeue(SQUEUE),
        ),
        late("unacknowledged", "OpenSM has not put epoch", "n[2,6]"),
        late("lagging", "OpenSM has put no new epoch in force since", "n[3,7,11]"),
    ]
}

/// A file system of 8 MiB as the state directory of a site; `None`, with a message, where none can be mounted.
struct Tiny(std::path::PathBuf);

impl Tiny {
    fn mount(site: &Site) -> Option<Self> {
        let path = site.path("state");
        std::fs::create_dir(&path).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs"]).arg(&path);
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self(path)),
            other => {
                println!("skipped: cannot mount a small file system: {other:?}");
                None
            }
        }
    }

    /// Until nothing fits any more.
    fn fill(site: &Site) {
        use std::io::Write;
        let mut ballast = std::fs::File::create(site.path("state/ballast")).unwrap();
        while ballast.write_all(&[0; 4096]).is_ok() {}
    }

    fn empty(site: &Site) {
        std::fs::remove_file(site.path("state/ballast")).unwrap();
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|s| s.success()), "{} stays mounted", self.0.display());
    }
}

/// What `systemctl status` would show.
pub struct Line(pub Arc<Mutex<String>>);

impl Line {
    pub fn listen(site: &Site) -> Self {
        let socket = UnixDatagram::bind(site.path("notify")).unwrap();
        let line = Arc::new(Mutex::new(String::new()));
        let said = Arc::clone(&line);
        std::thread::spawn(move || {
            let mut bytes = [0; 65536];
            while let Ok(length) = socket.recv(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                if let Some(status) = text.lines().find_map(|line| line.strip_prefix("STATUS=")) {
                    *said.lock().unwrap() = status.to_string();
                }
            }
        });
        Self(line)
    }
}

fn get(site: &Site, path: &str) -> String {
    match path {
        "/metrics" => site.text(path),
        path => site.get(path).unwrap().to_string(),
    }
}

/// Whether the answer of the interface has this trouble with the command that helps.
fn has_remedy(api: &Value, kind: &str) -> bool {
    let helps = |trouble: &&Value| trouble["remedy"].as_str().is_some_and(|command| command.len() > 5);
    let is_it = |trouble: &Value| trouble["kind"] == kind;
    api["troubles"].as_array().unwrap().iter().find(|trouble| is_it(trouble)).filter(helps).is_some()
}

/// Places that do not say (or, when it is over, still say) this trouble. `log`: where its part of the log begins.
fn behind(site: &Site, line: &Line, log: usize, trouble: &Trouble, is_there: bool) -> Vec<String> {
    let Trouble { kind, words, .. } = trouble;
    let problems = |answer: &Value| answer["problems"].to_string();
    let api = parsed(&get(site, "/v1/health"));
    // Also while the settings name no state directory because they cannot be read.
    let (code, text) = site.run(&["status", "--state", &site.path("state").display().to_string()]);
    let status = parsed(&text);
    let metrics = get(site, "/metrics");
    let log = &site.log()[log..];
    let logged = |over: bool| {
        let of_it = log.lines().filter(|line| line.contains(&format!("trouble=\"{kind}\"")));
        of_it.filter(|line| line.contains("over: ") == over).count()
    };
    let says = |text: &str| text.contains(words);
    let healthy = i32::from(is_there) == code && status["healthy"] == json!(!is_there);
    let sample = format!("sarouter_trouble_since_seconds{{kind=\"{kind}\"}}");
    let systemd = line.0.lock().unwrap().clone();
    let places = [
        ("status", says(&problems(&status)) == is_there && healthy, text),
        // The page shows these, word for word.
        (
            "API and page",
            says(&problems(&api)) == is_there
                && has_remedy(&api, kind) == is_there
                && api["healthy"] == json!(!is_there),
            api.to_string(),
        ),
        (
            "metrics",
            metrics.contains(&sample) == is_there
                && metrics.contains(&format!("\nsarouter_healthy {}\n", u8::from(!is_there))),
            metrics,
        ),
        ("systemd", says(&systemd) == is_there, systemd),
        ("log", logged(false) == 1 && logged(true) == usize::from(!is_there), log.to_string()),
    ];
    let silent = places.into_iter().filter(|(_, well, _)| !well);
    silent.map(|(place, _, said)| format!("{place}: {said}")).collect()
}

fn every_place_tells(site: &Site, line: &Line, troubles: &[Trouble]) {
    for trouble in troubles {
        let log = site.log().len();
        for (is_there, act) in [(true, &trouble.plant), (false, &trouble.heal)] {
            act(site);
            let begun = Instant::now();
            loop {
                let behind = behind(site, line, log, trouble, is_there);
                if behind.is_empty() {
                    break;
                }
                let what = format!("{} ({}), there: {is_there}", trouble.kind, trouble.words);
                assert!(begun.elapsed() < LONG, "{what}\n{}", behind.join("\n"));
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn serve(site: &Site) -> (Serving, Line) {
    let line = Line::listen(site);
    let notify = site.path("notify");
    let serving = Serving::with(site, |command| {
        command.env("NOTIFY_SOCKET", &notify);
    });
    serving.ready(site);
    (serving, line)
}

const RHYTHM: &str = "interval_seconds = 0.2\nbackoff_max_seconds = 0.2";

#[test]
fn each_trouble_of_a_switched_fabric_is_told_in_every_place_and_gone_after() {
    let site = Site::new(RHYTHM);
    site.alter("watch = false", "watch = true\nacknowledge_seconds = 1");
    site.alter("[slurm]", "[slurm]\ndeadline_seconds = 5");
    let (serving, line) = serve(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    opensm(&site, &[]);
    assert_eq!(serving.line()["acknowledged"]["epoch"], 1);
    let page = site.text("/strip.js");
    assert!(
        page.contains("troubles.map(({ text, since, remedy })"),
        "the page shows what is wrong, word for word"
    );
    let mut troubles = of_every_kind("fabric.net", "reading the fabric failed");
    troubles.extend(of_opensm());
    troubles.extend(of_those_who_hang());
    assert_eq!(troubles.len(), 23);
    every_place_tells(&site, &line, &troubles);
    // A service that was ended says so where it still can.
    assert_eq!(serving.stop(), 0);
    let (code, text) = site.run(&["status"]);
    assert!(code == 1 && text.contains("the service was ended at"), "{text}");
}

#[test]
fn each_trouble_of_a_direct_torus_is_told_in_every_place_and_gone_after() {
    let whole = "sizes = [4, 4]\ntransit = \"any\"\n";
    let site = Site::torus(whole);
    site.alter("interval_seconds = 3600", RHYTHM);
    let (serving, line) = serve(&site);
    assert_eq!(site.starts("1", "n[1,5,9]"), "in_force");
    let mut troubles = of_every_kind("torus.toml", "torus.toml:1:");
    troubles.push(trouble(
        "jobs_cut",
        "routes of job 3 led over what has failed",
        move |site| {
            site.jobs(&format!("{JOBS}3|RUNNING|n[2-3]|100\n"));
            assert_eq!(site.starts("3", "n[2-3]"), "in_force");
            site.replace("torus.toml", &format!("{whole}failed = [\"0.1+Y\"]\n"));
        },
        move |site| {
            site.jobs(JOBS);
            site.replace("torus.toml", whole);
            assert_eq!(site.run(&["epilog", "--job", "3"]).0, 0);
        },
    ));
    every_place_tells(&site, &line, &troubles);
    assert_eq!(serving.stop(), 0);
    let (code, text) = site.run(&["status"]);
    assert!(code == 1 && text.contains("the service was ended at"), "{text}");
}

#[test]
fn a_full_disk_is_told_in_every_place_and_gone_after() {
    let site = Site::new(RHYTHM);
    let Some(_tiny) = Tiny::mount(&site) else { return };
    site.settings("[record]\n");
    let (serving, line) = serve(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    // What it says first is on the disk before that is full.
    serving.until(|| site.path("state/health.json").exists());
    let full = |kind, words| trouble(kind, words, Tiny::fill, Tiny::empty);
    let troubles = [
        full("no_space", "the file system of the state directory is nearly full"),
        full("unrecorded", "No space left"),
    ];
    every_place_tells(&site, &line, &troubles);
    assert_eq!(serving.stop(), 0);
}

/// What was not recorded is not missed afterwards: the recording goes on in a file that stands by itself.
#[test]
fn a_full_disk_of_a_direct_torus_is_told_in_every_place_and_its_recording_goes_on() {
    let site = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    site.alter("interval_seconds = 3600", RHYTHM);
    let Some(_tiny) = Tiny::mount(&site) else { return };
    site.settings("[record]\n");
    let (serving, line) = serve(&site);
    assert_eq!(site.starts("1", "n[1,5,9]"), "in_force");
    let full = |kind, words| trouble(kind, words, Tiny::fill, Tiny::empty);
    every_place_tells(&site, &line, &[full("unrecorded", "No space left")]);
    assert!(site.path("state/record/000002.jsonl").exists());
    assert_eq!(site.starts("2", "n[2,6]"), "in_force");
    assert_eq!(serving.stop(), 0);
    let [record, out] = ["state/record", "again"].map(|name| site.path(name).display().to_string());
    let (code, text) = site.run(&["replay-events", &record, "--out", &out]);
    assert!(code == 0 && text.contains("\"same\": 2"), "{text}");
}

/// A clock of its own for a service: see `clock.c`.
fn set_clock(site: &Site, ahead: i64) {
    // In place: it is mapped.
    let mut file =
        std::fs::File::options().create(true).write(true).truncate(false).open(site.path("clock")).unwrap();
    std::io::Write::write_all(&mut file, &ahead.to_ne_bytes()).unwrap();
}

/// An hour back: passes go on, jobs start, and every place tells.
#[test]
fn a_clock_that_is_set_back_is_told_in_every_place_and_stops_nothing() {
    let site = Site::new(RHYTHM);
    let library = site.path("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clock.c");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([source, "-ldl"]);
    assert!(compiler.status().unwrap().success());
    set_clock(&site, 0);
    let line = Line::listen(&site);
    let (notify, clock) = (site.path("notify"), site.path("clock"));
    let serving = Serving::with(&site, |command| {
        command.env("NOTIFY_SOCKET", &notify).env("LD_PRELOAD", &library).env("SAROUTER_TEST_CLOCK", &clock);
    });
    serving.ready(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    let back = |site: &Site| {
        set_clock(site, -3600);
        let passes = || site.health()["passes"].as_u64().unwrap();
        let (before, begun) = (passes(), Instant::now());
        while passes() < before + 2 {
            assert!(begun.elapsed() < LONG, "no pass ends any more");
            std::thread::sleep(Duration::from_millis(50));
        }
        let (code, text) = site.run(&["prolog", "--job", "7", "--nodes", "n[2,6,10]", "--strict"]);
        assert!(code == 0 && text.contains("in_force"), "{text}");
    };
    let words = "the clock was set back: the epoch in force was published at";
    every_place_tells(&site, &line, &[trouble("clock", words, back, |site| set_clock(site, 0))]);
    assert_eq!(serving.stop(), 0);
}

/// It cannot say so itself, but to those who ask the file.
#[test]
fn a_service_that_hangs_is_told_by_status_until_it_goes_on() {
    let site = Site::new(RHYTHM);
    let (serving, _line) = serve(&site);
    // Before it has published anything there is nothing to say of it, and `status` says yes.
    serving.until(|| site.current().is_some() && !site.health()["last_success"].is_null());
    serving.until(|| site.run(&["status"]).0 == 0);
    serving.signal(rustix::process::Signal::STOP);
    let mut health = site.health();
    health["next_pass"] = json!(Utc::now() - TimeDelta::seconds(121));
    site.replace("state/health.json", &health.to_string());
    let (code, text) = site.run(&["status"]);
    assert!(code == 1 && text.contains("was last heard of"), "{text}");
    serving.signal(rustix::process::Signal::CONT);
    serving.until(|| site.run(&["status"]).0 == 0);
    assert_eq!(serving.stop(), 0);
}
