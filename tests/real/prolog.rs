//! The hand-off before the job: real jobs through `PrologSlurmctld`, real tables in OpenSM.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, Group, Guid, LayerBudget, TerminalId};
use sarouter::publish::EpochStore;
use sarouter::verify::{Beside, Checks, judge_jobs, layers_of_group};
use serde_json::Value;

use crate::script::script;
use crate::testbed::{Running, Testbed, assert_in_force, assert_sls, await_some, print_logs};

/// Jobs that go through the hand-off in one run; `SAROUTER_JOBS` asks for another number.
const JOBS: usize = 200;

/// Seconds that a job may wait here, for the service as well as for routes.
const DEADLINE: f64 = 20.0;

/// What Slurm's controller runs. What OpenSM has in force is noted the moment the prolog has ended.
const PROLOG: &str = r#"#!/bin/sh
PATH=/usr/bin:/bin
seen=@BED@/seen/$SLURM_JOB_ID
echo "$SLURM_JOB_NODELIST" >"$seen.nodes"
begun=$(date +%s%N)
echo "$begun" >>"$seen.begun"
@SAROUTER@ prolog --format json --config @BED@/sarouter.toml >"$seen.said.new" 2>>@BED@/log/prolog.log
code=$?
ended=$(date +%s%N)
cp @BED@/state/opensm-status.*.json "$seen.status"
echo "$begun $ended $code" >>"$seen.times"
mv "$seen.said.new" "$seen.said"
exit $code
"#;
const PROGRAM: &str = env!("CARGO_BIN_EXE_sarouter");
pub const EPILOG: &str =
    "#!/bin/sh\nexec @SAROUTER@ epilog --config @BED@/sarouter.toml 2>>@BED@/log/prolog.log\n";

pub const LINES: [&str; 4] = [
    "PrologSlurmctld=@BED@/prolog",
    "EpilogSlurmctld=@BED@/epilog",
    "PrologEpilogTimeout=60",
    "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1",
];

/// The scripts, and directories for what they note: the controller ignores scripts that are not there
/// when it starts.
///
/// `program` is sarouter.
pub fn hooks(bed: &Path, program: &str) {
    for (name, text) in [("prolog", PROLOG), ("epilog", EPILOG)] {
        let text = text.replace("@BED@", bed.to_str().unwrap());
        script(bed.join(name), &text.replace("@SAROUTER@", program));
    }
    for directory in ["seen", "ran"] {
        fs::create_dir(bed.join(directory)).unwrap();
    }
}

/// A Slurm that announces each job, an OpenSM with the plugin, and a service. What each job saw is noted.
pub struct Cluster {
    pub service: Option<Running>,
    pub bed: Testbed,
    pub fabric: Fabric,
}

impl Cluster {
    /// 32 nodes under 16 leaves: jobs on three nodes are on several.
    fn up() -> Self {
        let mut cluster = Self::with("fattree:16x2,2", &[]);
        cluster.settings(DEADLINE, DEADLINE);
        cluster.serve();
        cluster
    }

    /// On this fabric, with more lines in `slurm.conf`; the service waits for its settings.
    pub fn with(fabric: &str, lines: &[&str]) -> Self {
        let fabric = generate(fabric).unwrap();
        let options: Vec<&str> = LINES.iter().chain(lines).flat_map(|l| ["--slurm-line", l]).collect();
        let prepare = |state: &Path| hooks(state.parent().unwrap(), PROGRAM);
        let bed = Testbed::start(&fabric, &options, Vec::new(), prepare);
        Self { bed, fabric, service: None }
    }

    /// Jobs never get old here: only announcements make them count.
    pub fn settings(&self, deadline: f64, away: f64) {
        let bed = self.bed.path().display();
        let text = format!(
            "[state]\ndirectory = \"{bed}/state\"\nkeep_epochs = 100000\n[fabric]\nsource = \"{bed}/fabric.net\"\n\
             [slurm]\nmin_job_age_seconds = 86400\n[service]\ninterval_seconds = 5\nbackoff_max_seconds = 1\n\
             [handoff]\ndeadline_seconds = {deadline}\naway_seconds = {away}\nmin_length_seconds = 0\n\
             reroute_interval_seconds = 0.2\n[routing]\nmin_gain_seconds = 0\n"
        );
        fs::write(self.path("sarouter.toml"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.bed.path().join(name)
    }

    pub fn serve(&mut self) {
        self.serve_with(Path::new(PROGRAM));
    }

    pub fn serve_with(&mut self, program: &Path) {
        let log = fs::File::options().create(true).append(true).open(self.path("log/service.log")).unwrap();
        let mut command = Command::new(program);
        command.args(["serve", "-v", "--config"]).arg(self.path("sarouter.toml"));
        command.env("SLURM_CONF", self.path("slurm/slurm.conf")).stderr(log).stdout(Stdio::null());
        self.service = Some(Running::spawn(&mut command));
        await_some("the service", || self.path("state/api.sock").exists().then_some(()));
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.service.as_ref().unwrap()), signal).unwrap();
    }

    /// As systemd would.
    pub fn stop_service(&mut self) {
        self.signal(Signal::TERM);
        self.service.take().unwrap().wait().unwrap();
    }

    /// As a machine that loses power would.
    pub fn kill_service(&mut self) {
        self.signal(Signal::KILL);
        self.service.take().unwrap().wait().unwrap();
    }

    /// Submits a job that notes that it ran.
    fn submit(&self, nodes: usize) -> String {
        self.submit_as(nodes, "0.3", &[])
    }

    /// The same with more options, for so many seconds.
    pub fn submit_as(&self, nodes: usize, seconds: &str, options: &[&str]) -> String {
        let bed = self.bed.path().display();
        let new = format!("{bed}/seen/$SLURM_JOB_ID.new");
        let script = format!("date +%s%N >{new} && mv {new} {bed}/ran/$SLURM_JOB_ID; sleep {seconds}");
        let (count, wrap) = (nodes.to_string(), format!("--wrap={script}"));
        let words = ["--parsable", "--exclusive", "-o", "/dev/null", "-N", &count, &wrap];
        self.bed.slurm("sbatch", &[&words, options].concat()).trim().to_string()
    }

    pub fn count(&self, directory: &str, ending: &str) -> usize {
        let names = fs::read_dir(self.path(directory)).unwrap().map(|e| e.unwrap().file_name());
        names.filter(|n| n.to_str().unwrap().ends_with(ending)).count()
    }

    /// Whether prologs wait and each job whose prolog has ended runs, for half a second: a controller
    /// that stops in between forgets to start the job's script (Slurm 22.05).
    fn only_waits(&self) -> bool {
        (0..10).all(|_| {
            std::thread::sleep(Duration::from_millis(50));
            let waits = self.count("seen", ".said.new") > 0;
            waits && self.count("seen", ".said") == self.count("ran", "")
        })
    }

    fn await_ran(&self, jobs: usize) {
        // As long as one starts after the other: a busy machine is slow.
        let (mut last, mut since) = (0, Instant::now());
        loop {
            let ran = self.count("ran", "");
            if ran >= jobs {
                break;
            }
            if ran > last {
                (last, since) = (ran, Instant::now());
            }
            let stuck = since.elapsed() > Duration::from_secs(90);
            assert!(!stuck, "{ran} of {jobs}\n{}", self.bed.slurm("squeue", &[]));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn seen(&self, job: &str) -> Seen {
        let read = |kind: &str| fs::read_to_string(self.path(&format!("seen/{job}.{kind}"))).unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let times = read("times");
        let last: Vec<u64> = times.lines().last().unwrap().split(' ').map(number).collect();
        let ran = number(fs::read_to_string(self.path(&format!("ran/{job}"))).unwrap().trim());
        let nodes = sarouter::observe::hostlist::expand(&read("nodes")).unwrap();
        Seen {
            job: job.to_string(),
            nodes: nodes.iter().map(|n| n.as_str().to_string()).collect(),
            said: serde_json::from_str(&read("said")).unwrap(),
            generation: serde_json::from_str::<Value>(&read("status")).unwrap()["generation"].as_u64(),
            begun: last[0],
            ended: last[1],
            ran,
        }
    }

    /// Whether an epoch was made for a job on these nodes too.
    pub fn serves(&self, epoch: u64, nodes: &[String]) -> bool {
        let store = EpochStore::open(&self.bed.state()).unwrap();
        let epoch = store.epoch(epoch.to_string().parse().unwrap()).unwrap();
        let of = |t: &sarouter::model::Terminal| nodes.contains(&t.description).then_some(t.port_guid);
        let wanted: Vec<Guid> = self.fabric.terminals().iter().filter_map(of).collect();
        epoch.plan().demand.groups.iter().any(|g| g.terminals == wanted)
    }

    /// The switches have the tables of the epoch that the store has in force.
    pub fn assert_in_force(&self) {
        let store = EpochStore::open(&self.bed.state()).unwrap();
        let epoch = store.epoch(store.current().unwrap().unwrap()).unwrap();
        assert_in_force(&self.bed, &self.fabric, &epoch.tables(&self.fabric).unwrap());
    }

    fn handoff(&self) -> Value {
        let text = fs::read_to_string(self.path("state/health.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["handoff"].take()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_logs(self.bed.path(), &["prolog.log", "service.log", "slurmctld.log"]);
        }
    }
}

/// What was noted of one job.
pub struct Seen {
    pub job: String,
    pub nodes: Vec<String>,
    /// The prolog's last words.
    pub said: Value,
    /// What OpenSM had in force when the prolog ended.
    pub generation: Option<u64>,
    /// Nanoseconds since 1970: the prolog, and the job's first command.
    pub begun: u64,
    pub ended: u64,
    pub ran: u64,
}

fn jobs() -> usize {
    std::env::var("SAROUTER_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(JOBS)
}

/// So many jobs; meanwhile the service is killed and started again, and then slurmctld.
fn submit_amid_restarts(cluster: &mut Cluster, total: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for k in 0..total {
        ids.push(cluster.submit(3 + k % 4));
        if k == total / 3 {
            cluster.kill_service();
            std::thread::sleep(Duration::from_millis(500));
            cluster.serve();
        }
        // The controller restarts while prologs wait: it runs them again.
        if k == 2 * total / 3 {
            cluster.signal(Signal::STOP);
            await_some("prologs that wait", || cluster.only_waits().then_some(()));
            cluster.bed.script(&["stop", "slurmctld"]);
            cluster.bed.script(&["start", "slurmctld"]);
            cluster.signal(Signal::CONT);
        }
    }
    ids
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn no_job_starts_before_its_routes_are_in_force_or_its_deadline_has_passed() {
    let mut cluster = Cluster::up();
    let total = jobs();
    let begun = Instant::now();
    let ids = submit_amid_restarts(&mut cluster, total);
    cluster.await_ran(total);
    eprintln!("{total} jobs in {:.1} s", begun.elapsed().as_secs_f64());

    let mut waits: Vec<f64> = Vec::new();
    let mut outcomes = std::collections::BTreeMap::<String, usize>::new();
    for id in &ids {
        let seen = cluster.seen(id);
        assert!(seen.ran >= seen.ended, "job {} ran before its prolog had ended", seen.job);
        let waited = (seen.ended - seen.begun) as f64 / 1e9;
        let outcome = seen.said["outcome"].as_str().unwrap_or("away").to_string();
        let served = seen.generation.is_some_and(|epoch| cluster.serves(epoch, &seen.nodes));
        assert!(
            served || waited >= DEADLINE * 0.95,
            "job {} on {:?} started after {waited} s as {outcome} with epoch {:?} in force",
            seen.job,
            seen.nodes,
            seen.generation
        );
        assert!(waited <= DEADLINE + 5.0, "job {} waited {waited} s", seen.job);
        waits.push(waited);
        *outcomes.entry(outcome).or_default() += 1;
    }
    waits.sort_by(f64::total_cmp);
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize] * 1000.0;
    eprintln!(
        "start latency of {total} jobs on 32 nodes, ms: least {:.0}, median {:.0}, 90 % {:.0}, 99 % {:.0}, most {:.0}; {outcomes:?}",
        at(0.0),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    // Nothing is stuck.
    await_some("an empty queue", || cluster.bed.slurm("squeue", &["-h"]).is_empty().then_some(()));
    cluster.stop_service();
    let handoff = cluster.handoff();
    eprintln!("{handoff}");
    assert_eq!(handoff["waiting"], 0);
    // The service need not have seen both: what a killed prolog had sent may be gone before it is read.
    let twice = |id: &&String| {
        let begun = fs::read_to_string(cluster.path(&format!("seen/{id}.begun"))).unwrap();
        begun.lines().count() > 1
    };
    assert!(ids.iter().any(|id| twice(&id)), "no prolog ran twice: {handoff}");
    assert!(outcomes.get("in_force") >= Some(&(total * 9 / 10)), "{outcomes:?}");
    without_a_service_jobs_start(&mut cluster);
}

/// A service that is stopped, hangs or answers rubbish delays a job by what the settings say.
fn without_a_service_jobs_start(cluster: &mut Cluster) {
    cluster.settings(6.0, 1.0);
    let mut took = Vec::new();
    let mut starts = |cluster: &Cluster, what: &str| {
        let id = cluster.submit(4);
        await_some(what, || cluster.path(&format!("ran/{id}")).exists().then_some(()));
        let seen = cluster.seen(&id);
        let waited = (seen.ended - seen.begun) as f64 / 1e9;
        assert_eq!(seen.said["outcome"], Value::Null, "{what}");
        assert!(waited <= 6.5, "{what}: {waited} s");
        took.push(format!("{what} {waited:.1} s"));
    };
    starts(cluster, "stopped");
    cluster.serve();
    cluster.signal(Signal::STOP);
    starts(cluster, "hung");
    cluster.kill_service();
    let socket = cluster.path("state/api.sock");
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"\xff\x00 rubbish\n\n");
        }
    });
    starts(cluster, "rubbish");
    eprintln!("without a service a job waits: {}", took.join(", "));
}

/// A slurmd per host, each with the plugin of the nodes; all routes of a job on one of four layers.
fn torus_with_the_nodes_plugin() -> Cluster {
    let fabric = generate("torus:5x5,hosts=1").unwrap();
    let spank = crate::spank::plugin();
    let prepare = |state: &Path| {
        let bed = state.parent().unwrap();
        hooks(bed, PROGRAM);
        fs::create_dir(bed.join("slurm")).unwrap();
        let line = format!("optional {} state={}\n", spank.display(), state.display());
        fs::write(bed.join("slurm/plugstack.conf"), line).unwrap();
    };
    let options: Vec<&str> = LINES.iter().flat_map(|l| ["--slurm-line", l]).collect();
    let bed = Testbed::start(&fabric, &options, Vec::new(), prepare);
    let cluster = Cluster { bed, fabric, service: None };
    cluster.settings(DEADLINE, DEADLINE);
    let mut text = fs::read_to_string(cluster.path("sarouter.toml")).unwrap();
    text.push_str("layers = 4\nlayer_per_job = true\n");
    fs::write(cluster.path("sarouter.toml"), text).unwrap();
    cluster
}

/// Two jobs whose shortest routes close cycles on a torus, each host with a slurmd: the tasks of each
/// find one service level in their environment, the checker finds no cycle, and OpenSM gives just
/// these levels for all paths inside the jobs.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn tasks_on_a_torus_find_the_level_that_opensm_gives_for_their_paths() {
    let mut cluster = torus_with_the_nodes_plugin();
    cluster.serve();
    // Every second host, and all others: both wind around all rings.
    let jobs: [Vec<usize>; 2] = [(1..=25).step_by(2).collect(), (2..=24).step_by(2).collect()];
    let dir = cluster.bed.path().display().to_string();
    let script = format!(
        "--wrap=srun -N1 -n1 env >{dir}/ran/$SLURM_JOB_ID.new; mv {dir}/ran/$SLURM_JOB_ID.new \
         {dir}/ran/$SLURM_JOB_ID; sleep 1000"
    );
    let ids = jobs.each_ref().map(|nodes| {
        let names: Vec<String> = nodes.iter().map(|n| format!("n{n}")).collect();
        let (count, list) = (nodes.len().to_string(), names.join(","));
        let words = ["--parsable", "--exclusive", "-o", "/dev/null", "-N", &count, "-w", &list, &script];
        cluster.bed.slurm("sbatch", &words).trim().to_string()
    });
    let mut levels = Vec::new();
    for id in &ids {
        let path = cluster.path(&format!("ran/{id}"));
        await_some("the first task", || path.exists().then_some(()));
        let environment = fs::read_to_string(path).unwrap();
        let value = |name: &str| environment.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
        let level = value("SAROUTER_SL").unwrap_or_else(|| panic!("job {id} has no level:\n{environment}"));
        assert_eq!((value("UCX_IB_SL"), value("NCCL_IB_SL")), (Some(level), Some(level)));
        let said = fs::read_to_string(cluster.path(&format!("seen/{id}.said"))).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["outcome"], "in_force", "{said}");
        levels.push(level.parse::<u8>().unwrap());
    }
    cluster.kill_service();
    let (bed, fabric) = (&cluster.bed, &cluster.fabric);
    let store = EpochStore::open(&bed.state()).unwrap();
    let epoch = store.epoch(store.current().unwrap().unwrap()).unwrap();
    let tables = epoch.tables(fabric).unwrap();
    let budget = LayerBudget::new(4).unwrap();
    let groups: Vec<Group> = jobs.iter().map(|nodes| Group::new(terminals(fabric, nodes))).collect();
    let verdict = judge_jobs(fabric, &tables, budget, Checks::default(), Beside::default(), &groups);
    assert!(verdict.accepted, "{verdict:?}");
    assert_in_force(bed, fabric, &tables);
    for (group, level) in groups.iter().zip(&levels) {
        let of = layers_of_group(fabric, &tables, group);
        assert_eq!(of.iter().map(|l| l.get()).collect::<Vec<_>>(), [*level]);
        let members = &group.terminals;
        // SA path records, for a part of the pairs: each takes a process.
        let pairs: Vec<_> = members.iter().zip(members.iter().skip(1)).map(|(a, b)| (*a, *b)).collect();
        let back = pairs.iter().map(|(a, b)| (*b, *a));
        assert_sls(bed, fabric, &tables, &pairs.iter().copied().chain(back).collect::<Vec<_>>());
    }
    eprintln!("levels of the two jobs: {levels:?}; layers in use: {}", tables.layers_used());
}

fn terminals(fabric: &Fabric, nodes: &[usize]) -> Vec<TerminalId> {
    let names: Vec<String> = nodes.iter().map(|n| format!("n{n}")).collect();
    fabric.host_ids().filter(|t| names.contains(&fabric.terminal(*t).description)).collect()
}
