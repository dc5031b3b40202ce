//! A day of jobs compressed into minutes, on real daemons: none is lost, each has the routes that it should have, the
//! service's memory stays as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sarouter::model::SwitchId;
use sarouter::model::rng::Rng;
use sarouter::pass::plan::Reason;
use sarouter::publish::EpochStore;
use serde_json::Value;

use crate::prolog::{Cluster, Seen};
use crate::testbed::await_some;

/// Jobs of the day; `SAROUTER_DAY` asks for another number.
const JOBS: usize = 240;

/// Submitted and not yet started, at most.
const QUEUE: usize = 120;

/// So much faster than a real day everything happens: 10,000 jobs in ten minutes on a quiet machine.
const FASTER: f64 = 144.0;

/// Changes a day that the settings of the service ask for, for which they say [`FASTER`] times as many.
const EPOCHS: f64 = 24.0;

/// Nodes, and how often jobs ask for so many: of 32, as on a machine that most jobs use a small part of.
const SIZES: [(usize, usize); 7] = [(1, 26), (2, 10), (3, 6), (4, 6), (6, 3), (8, 3), (16, 2)];

/// What Slurm itself notes of each job that has ended, and how soon it forgets it.
const LINES: [&str; 3] = ["JobCompType=jobcomp/filetxt", "JobCompLoc=@BED@/ended", "MinJobAge=10"];

/// One job, or an array of jobs alike.
struct Submission {
    nodes: usize,
    seconds: f64,
    jobs: usize,
}

impl Submission {
    fn drawn(rng: &mut Rng) -> Self {
        let total: usize = SIZES.iter().map(|(_, often)| often).sum();
        let mut ticket = rng.below(total);
        let nodes = SIZES
            .iter()
            .find(|(_, often)| {
                ticket < *often || {
                    ticket -= often;
                    false
                }
            })
            .unwrap()
            .0;
        // Log-normal about 0.5 s, and seldom long.
        let normal = (-2.0 * (1.0 - rng.unit()).ln()).sqrt() * (std::f64::consts::TAU * rng.unit()).cos();
        let seconds = (0.5 * (0.8 * normal).exp()).min(6.0);
        let jobs = if rng.below(4) == 0 { 2 + rng.below(9) } else { 1 };
        Self { nodes, seconds, jobs }
    }

    /// The time limit is that of the day as it would be.
    fn submit(&self, cluster: &Cluster) {
        let minutes = format!("--time={}", (self.seconds * FASTER / 60.0).ceil() as usize);
        let array = format!("--array=1-{}", self.jobs);
        let options: &[&str] = if self.jobs > 1 { &[&minutes, &array] } else { &[&minutes] };
        cluster.submit_as(self.nodes, &format!("{:.2}", self.seconds), options);
    }
}

/// Resident memory of a process, MiB.
fn memory(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// Memory of the service and of OpenSM, MiB, again and again.
#[derive(Default)]
struct Memory {
    service: Vec<f64>,
    opensm: Vec<f64>,
}

impl Memory {
    fn note(&mut self, cluster: &Cluster) {
        let opensm = fs::read_to_string(cluster.path("run/opensm.pid")).unwrap().trim().parse().unwrap();
        self.service.push(memory(cluster.service.as_ref().unwrap().id()));
        self.opensm.push(memory(opensm));
    }

    /// The largest of the second quarter and of the last one.
    fn early_and_late(samples: &[f64]) -> (f64, f64) {
        let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
        let n = samples.len();
        (most(&samples[n / 4..n / 2]), most(&samples[3 * n / 4..]))
    }
}

fn settings(cluster: &Cluster) {
    cluster.settings(20.0, 20.0);
    let path = cluster.path("sarouter.toml");
    let text = fs::read_to_string(&path).unwrap();
    let priced = format!("epochs_per_day = {}\nmin_pause_seconds = 0", EPOCHS * FASTER);
    fs::write(&path, text.replace("min_gain_seconds = 0", &priced)).unwrap();
}

/// Submits so many jobs, a queue's length ahead of their starts; how many there are, as arrays end where they end.
fn submit(cluster: &Cluster, total: usize, memory: &mut Memory) -> usize {
    let mut rng = Rng::new(20_261_126);
    let mut submitted = 0;
    while submitted < total {
        let mut submission = Submission::drawn(&mut rng);
        submission.jobs = submission.jobs.min(total - submitted);
        submission.submit(cluster);
        submitted += submission.jobs;
        if submitted % 10 < submission.jobs {
            memory.note(cluster);
            await_some("jobs to start", || (cluster.count("ran", "") + QUEUE >= submitted).then_some(()));
        }
    }
    submitted
}

/// Slurm's own notes of jobs that have ended: id and state.
fn ended(cluster: &Cluster) -> Vec<(String, String)> {
    let text = fs::read_to_string(cluster.path("ended")).unwrap_or_default();
    let word = |line: &str, key: &str| {
        let words = line.split(' ').find_map(|w| w.strip_prefix(key)?.strip_prefix('='));
        words.unwrap_or_else(|| panic!("{line}")).to_string()
    };
    text.lines().map(|line| (word(line, "JobId"), word(line, "JobState"))).collect()
}

/// Whether these nodes are on one switch.
fn on_one_switch(cluster: &Cluster, nodes: &[String]) -> bool {
    let fabric = &cluster.fabric;
    let at = |t: &sarouter::model::Terminal| nodes.contains(&t.description).then_some(t.switch);
    fabric.terminals().iter().filter_map(at).collect::<BTreeSet<SwitchId>>().len() == 1
}

/// Checks what one job was told against where it ran and what was in force.
fn judge(cluster: &Cluster, seen: &Seen) -> String {
    let outcome = seen.said["outcome"].as_str().unwrap_or("away").to_string();
    let (job, nodes) = (&seen.job, &seen.nodes);
    assert_eq!(
        outcome == "one_switch",
        on_one_switch(cluster, nodes),
        "job {job} on {nodes:?}: {}",
        seen.said
    );
    if outcome == "in_force" {
        let served = seen.generation.is_some_and(|epoch| cluster.serves(epoch, nodes));
        assert!(served, "job {job} on {nodes:?}: epoch {:?} was not made for it", seen.generation);
    }
    assert!(seen.ran >= seen.ended, "job {job} ran before its prolog had ended");
    outcome
}

/// Every epoch was made for a change that paid, but for the first one.
fn judge_epochs(state: &Path) -> usize {
    let store = EpochStore::open(state).unwrap();
    let rows = store.history().unwrap().rows;
    assert_eq!(rows[0].reason, Reason::First);
    for row in &rows[1..] {
        assert_eq!(row.reason, Reason::JobsChanged, "epoch {}", row.epoch);
        let epoch = store.epoch(row.epoch).unwrap();
        let worth = epoch.plan().worth.unwrap_or_else(|| panic!("epoch {} has no price", row.epoch));
        assert!(worth.is_paid(), "epoch {}: {worth}", row.epoch);
    }
    rows.len()
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_day_of_jobs_loses_none_and_publishes_what_pays() {
    let total = std::env::var("SAROUTER_DAY").ok().and_then(|n| n.parse().ok()).unwrap_or(JOBS);
    let mut cluster = Cluster::with("fattree:8x4,2", &LINES);
    settings(&cluster);
    cluster.serve();
    let (begun, mut memory) = (Instant::now(), Memory::default());
    let submitted = submit(&cluster, total, &mut memory);
    await_some("Slurm's notes of all jobs", || {
        std::thread::sleep(Duration::from_millis(200));
        (ended(&cluster).len() >= submitted).then_some(())
    });
    let took = begun.elapsed().as_secs_f64();
    memory.note(&cluster);

    let ended = ended(&cluster);
    let ids: BTreeSet<&String> = ended.iter().map(|(id, _)| id).collect();
    assert_eq!((ids.len(), ended.len()), (submitted, submitted));
    assert!(ended.iter().all(|(_, state)| state == "COMPLETED"), "{ended:?}");
    let (mut outcomes, mut waits) = (BTreeMap::<String, usize>::new(), Vec::new());
    for id in &ids {
        let seen = cluster.seen(id);
        *outcomes.entry(judge(&cluster, &seen)).or_default() += 1;
        waits.push((seen.ended - seen.begun) as f64 / 1e6);
    }
    waits.sort_by(f64::total_cmp);
    for outcome in outcomes.keys() {
        let is_good = ["one_switch", "in_force", "good_enough", "next_pass"].contains(&outcome.as_str());
        assert!(is_good, "{outcomes:?}");
    }

    cluster.stop_service();
    let health: Value =
        serde_json::from_str(&fs::read_to_string(cluster.path("state/health.json")).unwrap()).unwrap();
    assert_eq!(health["handoff"]["waiting"], 0, "{health}");
    let epochs = judge_epochs(&cluster.bed.state());
    let asked = EPOCHS * FASTER * took / 86_400.0;
    cluster.assert_in_force();

    let [service, opensm] = [&memory.service, &memory.opensm].map(|s| Memory::early_and_late(s));
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    eprintln!(
        "{submitted} jobs in {took:.0} s: {outcomes:?}; waited, ms: median {:.0}, 99 % {:.0}, most {:.0}; {epochs} epochs, \
         asked for {asked:.1}, {} changes not worth it, newest {}; MiB early and late: service {service:.1?}, OpenSM {opensm:.1?}",
        at(0.5),
        at(0.99),
        at(1.0),
        health["not_worth_count"],
        health["not_worth"],
    );
    // The price begins low.
    assert!(epochs as f64 <= 1.25 * asked + 8.0, "{epochs} epochs, asked for {asked}");
    for (early, late) in [service, opensm] {
        assert!(late <= 1.1 * early + 2.0, "memory grows: {early} MiB, then {late}");
    }
}
