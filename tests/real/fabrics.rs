//! Two subnets, an OpenSM each, one service: real jobs wait through `PrologSlurmctld` until both have their routes,
//! and go on when one OpenSM is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, Guid};
use sarouter::publish::EpochStore;
use serde_json::Value;

use crate::coverage::elsewhere;
use crate::prolog::EPILOG;
use crate::script::script;
use crate::testbed::{Running, Testbed, assert_in_force, await_some, print_logs, run};

/// Seconds that a job may wait.
const DEADLINE: f64 = 40.0;

/// What Slurm's controller runs. What both OpenSMs have in force is noted the moment the prolog has ended.
const PROLOG: &str = r#"#!/bin/sh
PATH=/usr/bin:/bin
seen=@BED@/seen/$SLURM_JOB_ID
@SAROUTER@ prolog --format json --config @BED@/sarouter.toml >"$seen.said.new" 2>>@BED@/log/prolog.log
code=$?
cp @BED@/state/opensm-status.*.json "$seen.ib0"
cp @OTHER@/state/opensm-status.*.json "$seen.ib1"
mv "$seen.said.new" "$seen.said"
exit $code
"#;

/// Each with a script in the directory of the bed.
const LINES: [&str; 4] = [
    "PrologSlurmctld=@BED@/prolog",
    "EpilogSlurmctld=@BED@/epilog",
    "PrologEpilogTimeout=90",
    "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1",
];

/// 16 nodes with an adapter on each of two subnets: two nodes share a leaf of the one, four of the other.
struct Cluster {
    service: Option<Running>,
    /// With Slurm.
    ib0: (Testbed, Fabric),
    ib1: (Testbed, Fabric),
}

impl Cluster {
    fn up() -> Self {
        let there = elsewhere(&generate("fattree:4x4,2").unwrap());
        let ib1 = Testbed::fabric(&there, &[]);
        let here = generate("fattree:8x2,2").unwrap();
        let options: Vec<&str> = LINES.iter().flat_map(|l| ["--slurm-line", l]).collect();
        let prepare = |state: &Path| hooks(state.parent().unwrap(), ib1.path());
        let ib0 = Testbed::start(&here, &options, Vec::new(), prepare);
        let mut cluster = Self { ib0: (ib0, here), ib1: (ib1, there), service: None };
        cluster.settings();
        cluster.serve();
        cluster
    }

    /// Jobs never get old here: only announcements make them count.
    fn settings(&self) {
        let (ib0, ib1) = (self.ib0.0.path().display(), self.ib1.0.path().display());
        let text = format!(
            "[state]\ndirectory = \"{ib0}/service\"\n[slurm]\nmin_job_age_seconds = 86400\n\
             squeue = \"{ib0}/squeue\"\n\
             [service]\ninterval_seconds = 5\nbackoff_max_seconds = 1\n\
             [handoff]\ndeadline_seconds = {DEADLINE}\naway_seconds = {DEADLINE}\nmin_length_seconds = 0\n\
             reroute_interval_seconds = 0.2\n[routing]\nmin_gain_seconds = 0\n\
             [[fabric]]\nname = \"ib0\"\nsource = \"{ib0}/fabric.net\"\n\
             [fabric.state]\ndirectory = \"{ib0}/state\"\n\
             [[fabric]]\nname = \"ib1\"\nsource = \"{ib1}/fabric.net\"\n\
             [fabric.state]\ndirectory = \"{ib1}/state\"\n"
        );
        fs::write(self.path("sarouter.toml"), text).unwrap();
    }

    /// How often Slurm was asked for its jobs.
    fn asked(&self) -> u64 {
        fs::read_to_string(self.path("asked")).unwrap_or_default().lines().count() as u64
    }

    /// Good looks of each fabric.
    fn looks(&self) -> [u64; 2] {
        ["ib0", "ib1"].map(|name| self.status(name)["service"]["passes"].as_u64().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.ib0.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.args(words).arg("--config").arg(self.path("sarouter.toml")).env_remove("SAROUTER_STATE");
        command.env("SLURM_CONF", self.path("slurm/slurm.conf"));
        command
    }

    fn serve(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.path("log/service.log")).unwrap();
        let mut command = self.command(&["serve", "-v"]);
        self.service = Some(Running::spawn(command.stderr(log).stdout(Stdio::null())));
        await_some("the service", || self.path("service/api.sock").exists().then_some(()));
    }

    fn beds(&self) -> [(&str, &Testbed, &Fabric); 2] {
        [("ib0", &self.ib0.0, &self.ib0.1), ("ib1", &self.ib1.0, &self.ib1.1)]
    }

    /// What the prolog of a job on these nodes said; the job runs until it is cancelled.
    fn submit(&self, nodes: &str) -> (String, Value) {
        let words = ["--parsable", "--exclusive", "-o", "/dev/null", "-N2", "-w", nodes, "--wrap=sleep 1000"];
        let conf = self.path("slurm/slurm.conf");
        let id =
            run(Command::new("sbatch").args(words).env("SLURM_CONF", conf).current_dir(self.ib0.0.path()));
        let id = id.trim().to_string();
        let said = self.path(&format!("seen/{id}.said"));
        await_some("the prolog", || said.exists().then_some(()));
        let said: Value = serde_json::from_str(&fs::read_to_string(said).unwrap()).unwrap();
        eprintln!("{said}");
        (id, said)
    }

    /// The epoch that the OpenSM of a fabric had in force when the prolog of a job had ended.
    fn in_force(&self, job: &str, name: &str) -> u64 {
        let text = fs::read_to_string(self.path(&format!("seen/{job}.{name}"))).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["generation"].as_u64().unwrap()
    }

    /// What `status` says of a fabric.
    fn status(&self, name: &str) -> Value {
        let output = self.command(&["status", "--format", "json", "--fabric-name", name]).output().unwrap();
        let mut all: Value = serde_json::from_slice(&output.stdout).unwrap();
        all["fabrics"][name].take()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_logs(self.ib0.0.path(), &["prolog.log", "service.log", "slurmctld.log"]);
        }
    }
}

/// Slurm's own `squeue`, and a line for each time it is asked.
const SQUEUE: &str = "#!/bin/sh\necho asked >>@BED@/asked\nexec squeue \"$@\"\n";

/// The scripts, and a directory for what they note: the controller ignores scripts that are not there when it starts.
fn hooks(bed: &Path, other: &Path) {
    for (name, text) in [("prolog", PROLOG), ("epilog", EPILOG), ("squeue", SQUEUE)] {
        let text = text.replace("@BED@", bed.to_str().unwrap()).replace("@OTHER@", other.to_str().unwrap());
        script(bed.join(name), &text.replace("@SAROUTER@", env!("CARGO_BIN_EXE_sarouter")));
    }
    fs::create_dir(bed.join("seen")).unwrap();
}

/// Asserts that an epoch was made for a job on these nodes too, and that the switches have it.
fn assert_serves((name, bed, fabric): (&str, &Testbed, &Fabric), epoch: u64, nodes: [&str; 2]) {
    let store = EpochStore::open(&bed.state()).unwrap();
    let epoch = store.epoch(epoch.to_string().parse().unwrap()).unwrap();
    let of = |t: &sarouter::model::Terminal| nodes.contains(&t.description.as_str()).then_some(t.port_guid);
    let wanted: Vec<Guid> = fabric.terminals().iter().filter_map(of).collect();
    let groups = &epoch.plan().demand.groups;
    assert!(groups.iter().any(|g| g.terminals == wanted), "{name}: {groups:?} without {wanted:?}");
    assert_in_force(bed, fabric, &epoch.tables(fabric).unwrap());
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_job_waits_for_both_subnets_and_not_for_one_whose_opensm_was_killed() {
    let cluster = Cluster::up();
    let (job, said) = cluster.submit("n1,n16");
    assert_eq!(said["outcome"], "in_force", "{said}");
    assert_eq!(said["fabrics"], serde_json::json!({"ib0": "in_force", "ib1": "in_force"}));
    for bed in cluster.beds() {
        assert_serves(bed, cluster.in_force(&job, bed.0), ["n1", "n16"]);
    }
    // On one switch of the second subnet: it waits for the first alone.
    let (job, said) = cluster.submit("n5,n8");
    assert_eq!(said["fabrics"], serde_json::json!({"ib0": "in_force", "ib1": "one_switch"}));
    assert_serves(cluster.beds()[0], cluster.in_force(&job, "ib0"), ["n5", "n8"]);
    // What a job is told, of both.
    let told = fs::read_to_string(cluster.path(&format!("service/jobs/{job}/routing.env"))).unwrap();
    assert!(told.contains("SAROUTER_ROUTED=yes\n") && told.contains("SAROUTER_EPOCH_IB1="), "{told}");

    cluster.ib1.0.script(&["kill", "opensm"]);
    let (job, said) = cluster.submit("n2,n15");
    let waited = said["waited_ms"].as_f64().unwrap() / 1000.0;
    assert_eq!(said["fabrics"]["ib0"], "in_force", "{said}");
    // It is gone once it was silent for three heartbeats; on a slow machine the deadline may come first.
    let late = said["fabrics"]["ib1"].as_str().unwrap();
    assert!(["opensm_gone", "deadline"].contains(&late), "{said}");
    assert!(waited <= DEADLINE + 5.0, "{said}");
    assert_serves(cluster.beds()[0], cluster.in_force(&job, "ib0"), ["n2", "n15"]);
    await_some("what is wrong", || {
        let told = cluster.status("ib1")["problems"].to_string();
        told.contains("OpenSM has not been heard of").then_some(())
    });
    assert_eq!(cluster.status("ib0")["problems"], serde_json::json!([]));
    // The service names it, and the next job does not wait for it.
    let health = run(Command::new("curl")
        .args(["-s", "--unix-socket"])
        .arg(cluster.path("service/api.sock"))
        .arg("http://localhost/v1/health"));
    let problems = serde_json::from_str::<Value>(&health).unwrap()["problems"].take();
    let problems: Vec<&str> = problems.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(!problems.is_empty() && problems.iter().all(|p| p.starts_with("ib1: ")), "{problems:?}");
    let (_, said) = cluster.submit("n3,n14");
    assert_eq!(said["fabrics"], serde_json::json!({"ib0": "in_force", "ib1": "opensm_gone"}));

    // It comes back, and with it the routes of all that run.
    cluster.ib1.0.script(&["start", "opensm"]);
    await_some("OpenSM", || (cluster.status("ib1")["healthy"] == true).then_some(()));
    let (job, said) = cluster.submit("n4,n13");
    assert_eq!(said["fabrics"], serde_json::json!({"ib0": "in_force", "ib1": "in_force"}), "{said}");
    for bed in cluster.beds() {
        assert_serves(bed, cluster.in_force(&job, bed.0), ["n4", "n13"]);
    }
    asks_once(&cluster);
}

/// Slurm's controller is asked as often as one fabric looks, not as two do.
fn asks_once(cluster: &Cluster) {
    let (asked, before) = (cluster.asked(), cluster.looks());
    await_some("four looks of each", || {
        let now = cluster.looks();
        (now[0] >= before[0] + 4 && now[1] >= before[1] + 4).then_some(())
    });
    let (asked, now) = (cluster.asked() - asked, cluster.looks());
    let looks = [now[0] - before[0], now[1] - before[1]];
    eprintln!("asked {asked} times for {looks:?} looks");
    // One look may have begun before, or be under way.
    assert!(asked <= looks[0].max(looks[1]) + 1, "asked {asked} times for {looks:?} looks");
}
