//! The program itself: `plan`, `tick` and `serve` with a `squeue` that is a script.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    /// A fabric file of 16 nodes on 4 leaves, and a squeue that prints the file `jobs`.
    fn new(service: &str) -> Self {
        let site = Self { dir: tempfile::tempdir().unwrap() };
        site.write_fabric(|_| false);
        site.squeue("cat \"$(dirname \"$0\")/jobs\"");
        site.jobs("1|RUNNING|n[1,5,9]|100\n");
        let text = format!(
            "[state]\ndirectory = \"state\"\n[fabric]\nsource = \"fabric.net\"\n\
             [slurm]\nsqueue = \"{}\"\n[routing]\nengine = \"dfsssp\"\n[opensm]\nwatch = false\n[service]\n{service}\n",
            site.path("squeue").display()
        );
        std::fs::write(site.path("sarouter.toml"), text).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write_fabric(&self, cut: impl Fn(usize) -> bool) {
        let fabric = sarouter::generate::generate("fattree:4x4,2").unwrap();
        let fabric = fabric.without(|c| cut(c.index()), |_| false).unwrap();
        self.replace("fabric.net", &sarouter::observe::ibnetdiscover::to_ibnetdiscover(&fabric));
    }

    fn squeue(&self, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let new = self.path("squeue.new");
        std::fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(new, self.path("squeue")).unwrap();
    }

    fn jobs(&self, text: &str) {
        self.replace("jobs", text);
    }

    fn replace(&self, name: &str, text: &str) {
        let new = self.path(&format!("{name}.new"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.args(arguments).arg("--config").arg(self.path("sarouter.toml")).args(["--format", "json"]);
        command.env_remove("SAROUTER_STATE");
        command
    }

    /// Exit code and standard output.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let Output { status, stdout, .. } = self.command(arguments).output().unwrap();
        (status.code().unwrap(), String::from_utf8(stdout).unwrap())
    }

    fn current(&self) -> Option<PathBuf> {
        std::fs::read_link(self.path("state/current")).ok()
    }

    fn health(&self) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.path("state/health.json")).unwrap()).unwrap()
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
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
    site.jobs("7|RUNNING|n[9,1,5]|100\n8|RUNNING|n[2-3]|100\n");
    assert_eq!(site.run(&["tick"]), (0, String::new()));
    site.jobs("7|RUNNING|n[9,1,5]|100\n8|RUNNING|n[2-6]|100\n");
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

/// A running service; killed when dropped.
struct Serving {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

const LONG: Duration = Duration::from_secs(120);

impl Serving {
    fn start(site: &Site) -> Self {
        let mut child =
            site.command(&["serve"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
        Self { child, lines }
    }

    /// The next line it prints.
    fn line(&self) -> Value {
        json(&self.lines.recv_timeout(LONG).unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit code after SIGTERM.
    fn stop(mut self) -> i32 {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status.code().unwrap(),
                None => assert!(begun.elapsed() < LONG, "it does not stop"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
