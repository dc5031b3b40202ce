//! Random faults of everything there is: cables, OpenSM, Slurm's controller, slurmrestd, the service, its disk, its
//! clock. In the end all is well again, nobody is without a way, no job is lost, and the recording tells how it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sarouter::lab::generate::generate;
use sarouter::model::ChannelId;
use sarouter::model::rng::Rng;

use crate::end_to_end::{Cluster, Mount, fill};
use crate::slurmrestd::slurmrestd;
use crate::testbed::{root, run, unreached};

/// Only so that a broken test ends.
const PATIENCE: Duration = Duration::from_secs(240);

/// What is broken at the moment.
struct Storm {
    cluster: Cluster,
    rng: Rng,
    /// One per leaf at most, of two that lead to each spine.
    cut: BTreeSet<usize>,
    /// Jobs by the nodes that they have: each fourth one.
    jobs: BTreeMap<usize, String>,
    opensm: bool,
    slurm: bool,
    /// slurmrestd, of which the service hears of jobs.
    rest: Option<Child>,
    full: bool,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.stop_rest();
    }
}

impl Storm {
    fn fault(&mut self) -> String {
        match self.rng.below(13) {
            0..=3 => self.cable(),
            4 => {
                self.opensm = !self.opensm;
                self.cluster.bed.script(&[if self.opensm { "start" } else { "kill" }, "opensm"]);
                format!("OpenSM runs: {}", self.opensm)
            }
            5 => {
                self.slurm = !self.slurm;
                self.cluster.bed.script(&[if self.slurm { "start" } else { "stop" }, "slurmctld"]);
                format!("slurmctld runs: {}", self.slurm)
            }
            6 => {
                self.cluster.serve_again(&self.environment);
                "the service was killed".into()
            }
            7 => {
                self.full = !self.full;
                let filler = self.cluster.bed.state().join("filler");
                if self.full {
                    fill(&filler)
                } else {
                    fs::remove_file(filler).unwrap()
                }
                format!("the disk is full: {}", self.full)
            }
            8 => {
                let ahead = [0, -3600, 3600][self.rng.below(3)];
                self.set_clock(ahead);
                format!("the service's clock is {ahead} s ahead")
            }
            9 => {
                if !self.stop_rest() {
                    self.start_rest();
                }
                format!("slurmrestd runs: {}", self.rest.is_some())
            }
            _ => self.job(),
        }
    }

    /// Whether there was one.
    fn stop_rest(&mut self) -> bool {
        let Some(mut rest) = self.rest.take() else { return false };
        let _ = rest.kill();
        let _ = rest.wait();
        true
    }

    /// On a socket that knows its peer.
    fn start_rest(&mut self) {
        let bed = self.cluster.bed.path();
        let socket = bed.join("restd/socket");
        let _ = fs::remove_file(&socket);
        let (conf, log) = (bed.join("slurm/slurm.conf"), bed.join("log/slurmrestd.log"));
        let rest =
            slurmrestd(&conf, &log, "rest_auth/local").arg(format!("unix:{}", socket.display())).spawn();
        self.rest = Some(rest.unwrap());
    }

    fn cable(&mut self) -> String {
        let fabric = &self.cluster.fabric;
        let leaves: Vec<_> = fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty()).collect();
        let leaf = self.rng.below(leaves.len());
        let cable = fabric.channel(fabric.out(leaves[leaf])[leaf]);
        let (name, port) = (&fabric.switch(cable.from).description, cable.from_port.get());
        if self.cut.remove(&leaf) {
            self.cluster.bed.mend(name, port);
            return format!("{name}[{port}] is back");
        }
        self.cut.insert(leaf);
        self.cluster.bed.cut(name, port);
        format!("{name}[{port}] is cut")
    }

    fn job(&mut self) -> String {
        let first = 1 + self.rng.below(4);
        if !self.slurm {
            return "nothing".into();
        }
        if let Some(job) = self.jobs.remove(&first) {
            self.cluster.slurm("scancel", &[&job]);
            return format!("job {job} is over");
        }
        let nodes = format!("n[{},{},{},{}]", first, first + 4, first + 8, first + 12);
        let job = self.cluster.submit(&nodes, 4);
        self.jobs.insert(first, job.clone());
        format!("job {job} for {nodes}")
    }

    /// In place: it is mapped.
    fn set_clock(&self, ahead: i64) {
        let path = self.cluster.bed.path().join("clock");
        let mut file = fs::File::options().create(true).truncate(false).write(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, &ahead.to_ne_bytes()).unwrap();
    }

    /// As systemd would.
    fn tend(&mut self) {
        if self.cluster.has_ended() {
            self.cluster.serve_again(&self.environment);
        }
    }

    /// Everything is put right that an administrator would put right.
    fn heal(&mut self) {
        self.set_clock(0);
        if std::mem::take(&mut self.full) {
            fs::remove_file(self.cluster.bed.state().join("filler")).unwrap();
        }
        if !std::mem::replace(&mut self.slurm, true) {
            self.cluster.bed.script(&["start", "slurmctld"]);
        }
        if !std::mem::replace(&mut self.opensm, true) {
            self.cluster.bed.script(&["start", "opensm"]);
        }
        if self.rest.is_none() {
            self.start_rest();
        }
    }

    fn until(&mut self, what: &str, mut so: impl FnMut(&Cluster) -> Result<(), String>) {
        let begun = Instant::now();
        while let Err(found) = so(&self.cluster) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {found}");
            self.tend();
            sleep(Duration::from_millis(100));
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn after_a_storm_of_faults_all_is_well_again() {
    let (faults, seed) = (number("SAROUTER_STORM", 30), number("SAROUTER_STORM_SEED", 1));
    let mut mounted = None;
    let settings = |text: String| {
        let own = text.lines().find(|l| l.starts_with("source =")).unwrap();
        let text = text.replace(own, "source = \"opensm\"");
        text.replace("[slurm]", "[slurm]\nsource = \"slurmrestd\"")
            + "\n[record]\n[slurmrestd]\nurl = \"unix:restd/socket\"\n"
    };
    let fabric = generate("fattree:4x4,2").unwrap();
    let cluster = Cluster::on(fabric, |state| mounted = Some(Mount::small(state)), settings);
    let library = cluster.bed.path().join("clock.so");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(root().join("tests/it/clock.c"))
        .arg("-ldl");
    run(&mut compiler);
    let clock = cluster.bed.path().join("clock");
    let environment = vec![("LD_PRELOAD", library), ("SAROUTER_TEST_CLOCK", clock)];
    let (cut, jobs) = (BTreeSet::new(), BTreeMap::new());
    let rng = Rng::new(seed);
    let mut storm =
        Storm { cluster, rng, cut, jobs, opensm: true, slurm: true, rest: None, full: false, environment };
    let (bed, restd) = (storm.cluster.bed.path(), storm.cluster.bed.path().join("restd"));
    fs::create_dir(&restd).unwrap();
    for (path, mode) in [(bed, 0o755), (restd.as_path(), 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    storm.start_rest();
    storm.set_clock(0);
    storm.cluster.serve_again(&storm.environment);
    storm.cluster.await_healthy();
    for n in 1..=faults {
        let what = storm.fault();
        eprintln!("fault {n} of {faults}, seed {seed}: {what}");
        storm.tend();
        sleep(Duration::from_millis(storm.rng.below(400) as u64));
    }
    storm.heal();
    storm.until("all is well", |cluster| match cluster.status() {
        (true, text) if text.starts_with("healthy") => Ok(()),
        (_, text) => Err(text),
    });
    let ids: Vec<String> = storm.jobs.values().cloned().collect();
    storm.until("all jobs run", |cluster| {
        let running = cluster.slurm("squeue", &["-h", "-t", "R", "-o", "%A"]);
        let lost = ids.iter().find(|id| !running.lines().any(|line| line == **id));
        lost.map_or(Ok(()), |id| Err(format!("job {id} does not")))
    });
    storm.until("slurmrestd tells the service of all jobs", |cluster| {
        let seen = run(Command::new("curl")
            .args(["-s", "--unix-socket"])
            .arg(cluster.bed.state().join("api.sock"))
            .arg("http://localhost/v1/jobs"));
        let lost = ids.iter().find(|id| !seen.contains(&format!("\"id\":\"{id}\"")));
        lost.map_or(Ok(()), |id| Err(format!("job {id} is not in {seen}")))
    });
    let (cluster, cut) = (&mut storm.cluster, &storm.cut);
    let fabric = &cluster.fabric;
    let leaves: Vec<_> = fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty()).collect();
    let gone: Vec<ChannelId> = cut.iter().map(|leaf| fabric.out(leaves[*leaf])[*leaf]).collect();
    let left = fabric.without(|c| gone.contains(&c) || gone.contains(&c.reverse()), |_| false).unwrap();
    assert_eq!(unreached(&cluster.bed, &left), []);
    cluster.stop();
    let again = cluster.bed.path().join("again");
    let mut replay = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    replay.arg("replay-events").arg(cluster.bed.state().join("record")).arg("--out").arg(again);
    eprintln!("{}", run(&mut replay));
    drop(storm);
    drop(mounted);
}
