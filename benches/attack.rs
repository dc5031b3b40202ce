//! How long the service takes while two users attack it: for a question after its health, for a prolog on one switch,
//! and for a job that gets an epoch of its own. Beside it the same with nobody else there, and with the same attack on
//! another service of this machine: what is slower then is the processors that the attackers take.
//!
//! `cargo bench --bench attack [SECONDS [KIND…]]`, as root: the attackers are users 65533 and 65534.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
use sarouter::lab::generate::generate;
use sarouter::observe::ibnetdiscover::to_ibnetdiscover;
use sarouter::service::client::Client;
use serde_json::{Value, json};

#[path = "../tests/shared/attacks.rs"]
mod attacks;

use attacks::{ATTACKS, TOKEN, Target};

const LONG: Duration = Duration::from_secs(60);
/// Threads of each of the two.
const THREADS: usize = 16;

/// The attacker's process: never ends by itself.
fn attack(words: &[String]) {
    let [kind, uid, socket, port] = words else { panic!("{words:?}") };
    let (uid, kind): (u32, usize) = (uid.parse().unwrap(), kind.parse().unwrap());
    let target = Target { socket: socket.into(), port: port.parse().unwrap() };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
                set_thread_res_gid(group, group, group).unwrap();
                set_thread_res_uid(user, user, user).unwrap();
                loop {
                    if ATTACKS[kind].1(&target).is_err() {
                        sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
}

/// Ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn attackers(kind: usize, at: &Site) -> Vec<Running> {
    let one = |uid: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("attacker").arg(kind.to_string()).arg(uid.to_string()).arg(at.socket());
        Running(command.arg(at.port.to_string()).stdout(Stdio::null()).spawn().unwrap())
    };
    [65533, 65534].map(one).into()
}

/// A service on 1,008 hosts with 60 jobs.
struct Site {
    dir: tempfile::TempDir,
    port: u16,
    _service: Option<Running>,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut site = Self { dir, port, _service: None };
        let fabric = generate("fattree:56x18,18").unwrap();
        site.write("fabric.net", &to_ibnetdiscover(&fabric), 0o644);
        let jobs = (0..60).map(|i| format!("echo '{i}|RUNNING|n[{}-{}]|100'\n", 16 * i + 1, 16 * i + 16));
        site.write("squeue", &format!("#!/bin/sh\n{}", jobs.collect::<String>()), 0o755);
        site.write("tokens", &format!("{TOKEN} read\n"), 0o600);
        let settings = format!(
            "[state]\ndirectory = \"state\"\n[fabric]\nsource = \"fabric.net\"\n[slurm]\nsqueue = \"{}\"\n\
             [routing]\nmin_gain_seconds = 0\n[opensm]\nwatch = false\n[service]\ninterval_seconds = 3600\n\
             [api]\ntcp = \"127.0.0.1:{port}\"\ntoken_file = \"tokens\"\n\
             [handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\ndeadline_seconds = 100\n",
            site.dir.path().join("squeue").display()
        );
        site.write("sarouter.toml", &settings, 0o644);
        let log = std::fs::File::create(site.dir.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.args(["serve", "--config"]).arg(site.dir.path().join("sarouter.toml"));
        site._service = Some(Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap()));
        let begun = Instant::now();
        while !site.dir.path().join("state/current").exists() {
            assert!(begun.elapsed() < LONG, "no epoch");
            sleep(Duration::from_millis(20));
        }
        site
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("state/api.sock")
    }

    /// Milliseconds of each question for a while: of health, of prologs on one switch, of jobs with an epoch.
    fn ask(&self, time: Duration, next: &mut usize) -> [Vec<f64>; 3] {
        let mut taken = [const { Vec::new() }; 3];
        let begun = Instant::now();
        while begun.elapsed() < time {
            let asked = Instant::now();
            let client = Client::new(&self.socket(), LONG);
            let health: Value = client.wait(client.get("/v1/health")).unwrap();
            taken[0].push(asked.elapsed().as_secs_f64() * 1e3);
            assert_eq!(health["healthy"], true, "{health}");
            for which in [1, 2] {
                *next += 1;
                let far = format!("n[{},{},{}]", *next % 17 + 1, *next % 300 + 100, *next % 400 + 600);
                let (nodes, outcome) =
                    if which == 1 { ("n[1-2]", "one_switch") } else { (&*far, "in_force") };
                let asked = Instant::now();
                assert_eq!(start(&client, *next, nodes), outcome);
                taken[which].push(asked.elapsed().as_secs_f64() * 1e3);
                let _: Value =
                    client.wait(client.post(&format!("/v1/jobs/1{next}/end"), &json!({}))).unwrap();
            }
        }
        taken
    }
}

/// As a prolog asks.
fn start(client: &Client, job: usize, nodes: &str) -> String {
    let asked = json!({ "nodes": nodes, "patience_seconds": 60 });
    loop {
        let said: Value = client.wait(client.post(&format!("/v1/jobs/1{job}/start"), &asked)).unwrap();
        if let Some(outcome) = said["start"].as_str() {
            return outcome.to_string();
        }
    }
}

/// Median and 99 %.
fn of(taken: &mut [f64]) -> [f64; 2] {
    taken.sort_by(f64::total_cmp);
    [0.5, 0.99].map(|share| taken[((taken.len() as f64 * share) as usize).min(taken.len() - 1)])
}

fn line(what: &str, taken: &mut [Vec<f64>; 3]) -> [[f64; 2]; 3] {
    let figures = [0, 1, 2].map(|i| of(&mut taken[i]));
    let text: Vec<String> = figures.iter().map(|[half, most]| format!("{half:8.1} {most:8.1}")).collect();
    println!("{what:28} {:5} {}", taken[0].len(), text.join("  "));
    figures
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if words.first().is_some_and(|word| word == "attacker") {
        return attack(&words[1..]);
    }
    let seconds: f64 = words.first().map_or(5.0, |word| word.parse().unwrap());
    let is_wanted =
        |kind: &str| words.len() < 2 || words[1..].iter().any(|word| kind.contains(word.as_str()));
    sarouter::service::api::listen::allow_many_files();
    let (site, other, time) = (Site::new(), Site::new(), Duration::from_secs_f64(seconds));
    let mut next = 0;
    println!("ms, median and 99 %          asked   health             prolog, one switch  job with an epoch");
    let mut all = [const { [const { Vec::new() }; 3] }; 3];
    let mut ask = |what: &str, into: &mut [Vec<f64>; 3]| {
        let mut taken = site.ask(time, &mut next);
        line(what, &mut taken);
        taken.into_iter().zip(into).for_each(|(taken, all)| all.extend(taken));
    };
    for (kind, (name, _)) in ATTACKS.iter().enumerate().filter(|(_, (name, _))| is_wanted(name)) {
        ask("nobody else", &mut all[0]);
        let there = attackers(kind, &other);
        ask("on another service", &mut all[1]);
        drop(there);
        let there = attackers(kind, &site);
        ask(name, &mut all[2]);
        drop(there);
    }
    println!();
    let [quiet, beside, attacked] = ["all: nobody else", "all: on another service", "all: attacked"]
        .into_iter()
        .zip(&mut all)
        .map(|(what, taken)| line(what, taken))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let times = |of: &[[f64; 2]; 3]| {
        let each = (0..3).map(|i| format!("{:.2}", attacked[i][1] / of[i][1]));
        each.collect::<Vec<_>>().join(", ")
    };
    println!("99 % of the attacked beside a quiet one: {}", times(&quiet));
    println!("99 % of the attacked beside an attack on another one: {}", times(&beside));
}
