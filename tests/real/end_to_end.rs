//! The whole way: Slurm's daemons, the service, OpenSM on a simulated fabric. And what happens when
//! parts of it fail.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, Guid, LayerBudget, Promise, TerminalId};
use sarouter::publish::{Epoch, EpochStore};
use sarouter::verify::{Beside, Checks, judge_beside};
use serde_json::Value;

use crate::handoff::lanes_of;
use crate::lanes::assert_lanes;
use crate::testbed::{
    Running, Testbed, assert_in_force, assert_sls, await_some, pairs, read_fts, run, unreached,
};

/// A bed with Slurm, and the service on it.
pub struct Cluster {
    service: Running,
    pub bed: Testbed,
    pub fabric: Fabric,
    config: PathBuf,
}

impl Cluster {
    /// 16 nodes under 4 leaves. `prepare` sees the state directory before anything is in it.
    fn up(prepare: impl FnOnce(&Path)) -> Self {
        let fabric = generate("fattree:4x4,2").unwrap();
        Self::on(fabric, prepare, |text| text)
    }

    /// The same, with other settings than the bed's.
    pub fn with_settings(edit: impl FnOnce(String) -> String) -> Self {
        Self::on(generate("fattree:4x4,2").unwrap(), |_| {}, edit)
    }

    /// On this fabric; both see their part before anything starts.
    pub fn on(fabric: Fabric, prepare: impl FnOnce(&Path), edit: impl FnOnce(String) -> String) -> Self {
        let bed = Testbed::prepared(&fabric, prepare);
        let config = bed.path().join("sarouter.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, edit(text)).unwrap();
        let service = Running::spawn(&mut Self::sarouter(&bed, &config, &["serve"]));
        Self { bed, fabric, config, service }
    }

    fn sarouter(bed: &Testbed, config: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.args(words).arg("--config").arg(config);
        command.env("SLURM_CONF", bed.path().join("slurm/slurm.conf"));
        let log = fs::File::options().create(true).append(true).open(bed.path().join("log/service.log"));
        command.stderr(log.unwrap()).stdout(Stdio::null());
        command
    }

    /// Kills the service, if it runs, and starts it anew.
    pub fn serve_again(&mut self, environment: &[(&str, PathBuf)]) {
        let _ = self.service.kill();
        let _ = self.service.wait();
        let mut command = Self::sarouter(&self.bed, &self.config, &["serve"]);
        self.service = Running::spawn(command.envs(environment.iter().map(|(k, v)| (k, v))));
    }

    /// Whether the service has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.service.try_wait().unwrap().is_some()
    }

    /// Ends the service in order.
    pub fn stop(&mut self) {
        self.signal("-TERM");
        assert!(self.service.wait().unwrap().success());
    }

    /// Submits a job for these nodes alone; returns its id.
    pub fn submit(&self, nodes: &str, count: usize) -> String {
        let (count, wrap) = (count.to_string(), "--wrap=sleep 1000");
        let words = ["--parsable", "--exclusive", "-o", "/dev/null", "-w", nodes, "-N", &count, wrap];
        self.bed.slurm("sbatch", &words).trim().to_string()
    }

    pub fn await_running(&self, job: &str) {
        await_some(&format!("job {job}"), || {
            let jobs = self.bed.slurm("squeue", &["-h", "-t", "R", "-o", "%A"]);
            jobs.lines().any(|l| l == job).then_some(())
        });
    }

    pub fn current(&self) -> Option<Epoch> {
        let store = EpochStore::open(&self.bed.state()).unwrap();
        store.current().unwrap().map(|n| store.epoch(n).unwrap())
    }

    /// Waits until there is an epoch for exactly these groups of hosts, and OpenSM has it in force.
    pub fn await_epoch_for(&self, groups: &[&[usize]]) -> Epoch {
        let wanted: BTreeSet<Vec<_>> = groups.iter().map(|g| self.guids(g)).collect();
        let epoch = await_some(&format!("an epoch for {groups:?}"), || {
            let found = |e: &Epoch| e.plan().demand.groups.iter().map(|g| g.terminals.clone()).collect();
            self.current().filter(|e| wanted == found(e))
        });
        self.bed.await_epoch(epoch.number().get());
        epoch
    }

    /// Port GUIDs of nodes by number, ascending.
    fn guids(&self, nodes: &[usize]) -> Vec<Guid> {
        let name = |n: &usize| format!("n{n}");
        let names: Vec<_> = nodes.iter().map(name).collect();
        let terminals = self.fabric.terminals().iter();
        terminals.filter(|t| names.contains(&t.description)).map(|t| t.port_guid).collect()
    }

    fn health(&self) -> Value {
        let text = fs::read(self.bed.state().join("health.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Waits until the service has looked at Slurm, from beginning to end, after this call.
    fn await_look(&self) {
        let passes = || self.health()["passes"].as_u64().unwrap_or(0);
        // One pass may have begun before.
        let before = passes();
        await_some("the service's next look", || (passes() >= before + 2).then_some(()));
    }

    /// What `sarouter status` prints, and whether it says that all is well.
    pub fn status(&self) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        let output = command.args(["status", "--config"]).arg(&self.config).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.code().is_some_and(|c| c < 2), "{text}{output:?}");
        (output.status.success(), text)
    }

    /// Waits until `status` reports this as a problem.
    pub fn await_problem(&self, problem: &str) {
        let mut last = String::new();
        await_some(&format!("status to say {problem:?}"), || {
            let (healthy, text) = self.status();
            last.clone_from(&text);
            (!healthy && text.contains(problem)).then_some(())
        });
    }

    pub fn await_healthy(&self) {
        await_some("status to say that all is well", || {
            let (healthy, text) = self.status();
            (healthy && text.starts_with("healthy")).then_some(())
        });
    }

    pub fn signal(&self, signal: &str) {
        run(Command::new("kill").args([signal, &self.service.id().to_string()]));
    }

    /// Asserts that the switches have the tables of this epoch, which is still the current one.
    fn assert_stands(&self, epoch: &Epoch) {
        assert_eq!(self.current().unwrap().number(), epoch.number());
        self.assert_programmed(epoch);
    }

    fn assert_programmed(&self, epoch: &Epoch) {
        assert_in_force(&self.bed, &self.fabric, &epoch.tables(&self.fabric).unwrap());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.bed.path().join("log/service.log")).unwrap_or_default();
            eprintln!("the service said:\n{log}\nhealth: {}", self.health());
        }
    }
}

const A: &[usize] = &[1, 5, 9, 13];
const B: &[usize] = &[2, 6, 10, 14];
const C: &[usize] = &[3, 7, 11];

/// Three jobs, each on nodes under several leaves, between each other.
fn three_jobs(cluster: &Cluster) -> (String, Epoch) {
    let first = cluster.submit("n[1,5,9,13]", 4);
    let jobs = [first.clone(), cluster.submit("n[2,6,10,14]", 4), cluster.submit("n[3,7,11]", 3)];
    jobs.iter().for_each(|job| cluster.await_running(job));
    (first, cluster.await_epoch_for(&[A, B, C]))
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn jobs_get_their_routes() {
    let cluster = Cluster::up(|_| {});
    let (first, epoch) = three_jobs(&cluster);
    cluster.assert_stands(&epoch);
    let tables = epoch.tables(&cluster.fabric).unwrap();
    let host = |n: &usize| {
        let called = |t: &TerminalId| cluster.fabric.terminal(*t).description == format!("n{n}");
        cluster.fabric.host_ids().find(called).unwrap()
    };
    let inside = |job: &[usize]| pairs(&job.iter().map(host).collect::<Vec<_>>());
    let pairs = [A, B, C].map(inside).concat();
    assert_sls(&cluster.bed, &cluster.fabric, &tables, &pairs);
    cluster.await_healthy();
    // What the administrator compares by hand.
    let mut show = Cluster::sarouter(&cluster.bed, &cluster.config, &["show", "current", "--lft"]);
    assert_eq!(read_fts(&run(show.stdout(Stdio::piped()))), cluster.bed.read_back());

    // A fourth job takes the place of the first one between two looks of the service.
    cluster.signal("-STOP");
    cluster.bed.slurm("scancel", &[&first]);
    let fourth = cluster.submit("n[1,5,9,13]", 4);
    cluster.await_running(&fourth);
    cluster.signal("-CONT");
    cluster.await_look();
    cluster.assert_stands(&epoch);

    // A job on one switch changes nothing; one more job on several does.
    let small = cluster.submit("n[15,16]", 2);
    cluster.await_running(&small);
    cluster.await_look();
    cluster.assert_stands(&epoch);
    let fifth = cluster.submit("n[4,8]", 2);
    cluster.await_running(&fifth);
    let next = cluster.await_epoch_for(&[A, B, C, &[4, 8]]);
    assert!(next.number() > epoch.number());
    cluster.assert_stands(&next);

    // A job's end alone moves nothing.
    cluster.bed.slurm("scancel", &[&fifth]);
    await_some("the end of the job", || {
        (!cluster.bed.slurm("squeue", &["-h", "-o", "%A"]).contains(&fifth)).then_some(())
    });
    cluster.await_look();
    cluster.assert_stands(&next);
}

/// Off trees switches choose the VL by in port and out port, unless settings promise less.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn on_a_torus_every_service_level_is_safe() {
    let cluster = Cluster::on(generate("torus:4x3,hosts=1").unwrap(), |_| {}, |text| text);
    let fabric = &cluster.fabric;
    let first = cluster.submit("n[1,6,11]", 3);
    cluster.await_running(&first);
    let before = cluster.await_epoch_for(&[&[1, 6, 11]]).tables(fabric).unwrap();
    let second = cluster.submit("n[2,7,8,12]", 4);
    cluster.await_running(&second);
    let epoch = cluster.await_epoch_for(&[&[1, 6, 11], &[2, 7, 8, 12]]);
    assert_eq!(epoch.plan().promise, Promise::EVERYTHING);
    let tables = epoch.tables(fabric).unwrap();
    assert!(tables.lanes().is_some() && tables.lanes() == before.lanes());
    cluster.assert_stands(&epoch);
    assert_lanes(&cluster.bed, fabric, |s, from, to| lanes_of(fabric, &tables, s, from, to));
    let checks = Checks { promise: Promise::EVERYTHING, hosts_only: false };
    let beside = Beside { mixed: &[before], ..Beside::default() };
    let verdict = judge_beside(fabric, &[tables], LayerBudget::new(8).unwrap(), checks, beside);
    assert!(verdict.accepted, "{:?}", verdict.findings);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn whatever_fails_the_last_good_epoch_stays() {
    let cluster = Cluster::up(|_| {});
    let (_, epoch) = three_jobs(&cluster);
    cluster.await_healthy();

    // A cable is cut.
    let first_leaf = cluster.fabric.terminals()[0].switch;
    let up = *cluster.fabric.channel(cluster.fabric.out(first_leaf)[0]);
    let (leaf, port) = (&cluster.fabric.switch(up.from).description, up.from_port.get());
    cluster.bed.cut(leaf, port);
    cluster.await_problem("has replaced");
    let cut = cluster.fabric.out(first_leaf)[0];
    let damaged = cluster.fabric.without(|c| c == cut || c.reverse() == cut, |_| false).unwrap();
    assert_eq!(unreached(&cluster.bed, &damaged), []);
    assert_eq!(cluster.current().unwrap().number(), epoch.number());
    cluster.bed.mend(leaf, port);
    cluster.await_healthy();
    cluster.assert_stands(&epoch);

    // OpenSM is killed.
    cluster.bed.script(&["kill", "opensm"]);
    cluster.await_problem("OpenSM has not been heard of");
    cluster.assert_stands(&epoch);
    cluster.bed.script(&["start", "opensm"]);
    cluster.await_healthy();
    cluster.assert_stands(&epoch);

    // Slurm's controller is stopped.
    cluster.bed.script(&["stop", "slurmctld"]);
    cluster.await_problem("squeue");
    cluster.assert_stands(&epoch);
    cluster.bed.script(&["start", "slurmctld"]);
    cluster.await_healthy();
    cluster.assert_stands(&epoch);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_full_disk_leaves_the_last_good_epoch() {
    let mut mounted = None;
    let cluster = Cluster::up(|state| mounted = Some(Mount::small(state)));
    let (_, epoch) = three_jobs(&cluster);
    cluster.await_healthy();

    // An old epoch makes room for the next one.
    assert!(epoch.number().get() > 1);
    let old = cluster.bed.state().join("epochs/000001");
    let filler = cluster.bed.state().join("filler");
    fs::write(old.join("ballast"), vec![1; 1 << 20]).unwrap();
    fill(&filler);
    let job = cluster.submit("n[4,12]", 2);
    cluster.await_running(&job);
    let epoch = cluster.await_epoch_for(&[A, B, C, &[4, 12]]);
    assert!(!old.exists());

    // Where there is none left, nothing comes into force.
    for entry in fs::read_dir(cluster.bed.state().join("epochs")).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with(format!("{:06}", epoch.number().get())) {
            fs::remove_dir_all(path).unwrap();
        }
    }
    fill(&filler);
    let job = cluster.submit("n[8,16]", 2);
    cluster.await_running(&job);
    cluster.await_problem("No space left");
    cluster.assert_stands(&epoch);

    fs::remove_file(filler).unwrap();
    let next = cluster.await_epoch_for(&[A, B, C, &[4, 12], &[8, 16]]);
    cluster.await_healthy();
    cluster.assert_stands(&next);
    drop(cluster);
    drop(mounted);
}

/// Makes a file longer until the disk is full.
pub fn fill(path: &Path) {
    let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
    let full = (0..1 << 20).find_map(|_| std::io::Write::write_all(&mut file, &[1; 4096]).err());
    assert_eq!(full.unwrap().kind(), std::io::ErrorKind::StorageFull);
}

/// A file system of its own.
pub struct Mount(PathBuf);

impl Mount {
    pub fn small(path: &Path) -> Self {
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(path));
        Self(path.to_path_buf())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}
