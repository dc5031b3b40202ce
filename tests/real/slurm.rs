//! The service beside a real Slurm, and beside a real OpenSM with the plugin.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use chrono::Utc;
use rustix::process::{Pid, Signal, kill_process};
use sarouter::lab::generate::generate;
use sarouter::model::{JobMap, JobState};
use sarouter::observe;
use sarouter::observe::jobs::JobsError;
use sarouter::observe::slurm::{Squeue, SqueueFormat};
use sarouter::observe::source::{JobSource, PollError};
use sarouter::publish::EpochStore;
use serde_json::Value;

use crate::script::script;
use crate::testbed::{Running, Testbed, assert_in_force, await_some, root, slurm_version};

fn slurm_conf(bed: &Testbed) -> String {
    bed.path().join("slurm/slurm.conf").to_str().unwrap().to_string()
}

/// Submits a job on exactly these nodes and returns its id.
fn submit(bed: &Testbed, nodes: &str) -> String {
    let count = observe::hostlist::expand(nodes).unwrap().len().to_string();
    let arguments = ["--parsable", "-N", &count, "-w", nodes, "-o", "/dev/null", "--wrap", "sleep 600"];
    bed.slurm("sbatch", &arguments).trim().to_string()
}

fn await_running(bed: &Testbed, id: &str) {
    await_some("a running job", || {
        (bed.slurm("squeue", &["-h", "-j", id, "-o", "%T"]).trim() == "RUNNING").then_some(())
    });
}

fn ask(bed: &Testbed, format: SqueueFormat, deadline: Duration) -> Result<JobMap, PollError> {
    let mut squeue =
        Squeue::new("squeue", format, deadline, 64 << 20).with_variable("SLURM_CONF", &slurm_conf(bed));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(squeue.poll(chrono::DateTime::<Utc>::UNIX_EPOCH))
}

const LONG: Duration = Duration::from_secs(60);

/// What both forms say, which must be the same. In JSON Slurm 23.02 without slurmdbd tells of the first job alone, and
/// of an error: that is no answer.
fn both_forms(bed: &Testbed) -> JobMap {
    let (json, text) = (ask(bed, SqueueFormat::Json, LONG), ask(bed, SqueueFormat::Text, LONG).unwrap());
    match json {
        Err(PollError::Jobs(JobsError::Slurm { .. })) if slurm_version() == (23, 2) => {}
        json => assert_eq!(json.unwrap(), text),
    }
    text
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn both_forms_of_squeue_give_the_same_jobs_and_a_dead_controller_is_noticed() {
    let fabric = generate("fattree:2x4,2").unwrap();
    let bed = Testbed::with(&fabric, &["--no-opensm"], Vec::new());
    let first = submit(&bed, "n[1-2,5-6]");
    let second = submit(&bed, "n[3,7]");
    let array = bed.slurm(
        "sbatch",
        &["--parsable", "-N1", "-w", "n4", "--array=1-2", "-o", "/dev/null", "--wrap", "sleep 600"],
    );
    for id in [&first, &second, array.trim()] {
        await_some("a running job", || {
            bed.slurm("squeue", &["-h", "-j", id, "-o", "%T"]).contains("RUNNING").then_some(())
        });
    }
    let map = both_forms(&bed);
    let found: Vec<(String, Vec<&str>)> =
        map.jobs.iter().map(|j| (j.id.to_string(), j.nodes.iter().map(|n| n.as_str()).collect())).collect();
    assert!(found.contains(&(first, vec!["n1", "n2", "n5", "n6"])), "{found:?}");
    assert!(found.contains(&(second, vec!["n3", "n7"])), "{found:?}");
    // One task of the array runs, the other waits for the node.
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(map.jobs.iter().all(|j| j.state == JobState::Running && j.start.is_some()));

    bed.script(&["stop", "slurmctld"]);
    for format in [SqueueFormat::Json, SqueueFormat::Text] {
        let error = ask(&bed, format, LONG).unwrap_err();
        assert!(matches!(error, PollError::Child(_) | PollError::Jobs(_)), "{error}");
        let begun = Instant::now();
        let error = ask(&bed, format, Duration::from_millis(500)).unwrap_err();
        assert!(error.to_string().contains("killed"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_heterogeneous_job_is_one_and_a_suspended_one_is_served() {
    let fabric = generate("fattree:2x4,2").unwrap();
    let bed = Testbed::with(&fabric, &["--no-opensm"], Vec::new());
    let words = "--parsable -o /dev/null -N2 -w n[1-2] : -N2 -w n[5-6] -o /dev/null --wrap".split(' ');
    let words: Vec<&str> = words.chain(["sleep 600"]).collect();
    let whole = bed.slurm("sbatch", &words).trim().to_string();
    let suspended = submit(&bed, "n[3,7]");
    for (id, count) in [(&whole, 2), (&suspended, 1)] {
        await_some("running jobs", || {
            let states = bed.slurm("squeue", &["-h", "-j", id, "-o", "%T"]);
            (states.lines().filter(|state| *state == "RUNNING").count() == count).then_some(())
        });
    }
    bed.slurm("scontrol", &["suspend", &suspended]);
    let map = both_forms(&bed);
    let states: Vec<JobState> = map.jobs.iter().map(|j| j.state).collect();
    assert_eq!(states, [JobState::Running, JobState::Running, JobState::Suspended]);
    let nodes = observe::nodes::name_hosts(&fabric, &observe::nodes::NodeNames::default());
    let demand = nodes.place(&map).demand(&fabric, Vec::new());
    let sizes: Vec<usize> = demand.groups.iter().map(|g| g.terminals.len()).collect();
    assert_eq!(sizes, [4, 2], "the components together, and the suspended job");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_user_without_rights_sees_jobs_of_hidden_and_of_closed_partitions() {
    let fabric = generate("fattree:2x4,2").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let more = directory.path().join("more.conf");
    let partitions = "PartitionName=hidden Nodes=ALL Hidden=YES State=UP\n\
                      PartitionName=closed Nodes=ALL AllowGroups=root State=UP\n";
    std::fs::write(&more, partitions).unwrap();
    let options =
        ["--no-opensm", "--slurm-file", more.to_str().unwrap(), "--slurm-line", "Include more.conf"];
    let bed = Testbed::with(&fabric, &options, Vec::new());
    let jobs: Vec<String> = ([("all", "n[1,5]"), ("hidden", "n[2,6]"), ("closed", "n[3,7]")].iter())
        .map(|(partition, nodes)| {
            let words =
                ["--parsable", "-p", partition, "-N2", "-w", nodes, "-o", "/dev/null", "--wrap", "sleep 600"];
            bed.slurm("sbatch", &words).trim().to_string()
        })
        .collect();
    for id in &jobs {
        await_some("a running job", || {
            (bed.slurm("squeue", &["-a", "-h", "-j", id, "-o", "%T"]).trim() == "RUNNING").then_some(())
        });
    }
    // As nobody, who is in no group.
    let squeue = bed.path().join("squeue");
    script(&squeue, "#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups squeue \"$@\"\n");
    for format in [SqueueFormat::Text, SqueueFormat::Json] {
        let mut source = Squeue::new(squeue.to_str().unwrap(), format, LONG, 64 << 20)
            .with_variable("SLURM_CONF", &slurm_conf(&bed));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let seen = runtime.block_on(source.poll(chrono::DateTime::<Utc>::UNIX_EPOCH));
        if format == SqueueFormat::Json && slurm_version() == (23, 2) {
            assert!(matches!(seen, Err(PollError::Jobs(JobsError::Slurm { .. }))), "{seen:?}");
            continue;
        }
        let seen = seen.unwrap();
        let seen: Vec<String> = seen.jobs.iter().map(|j| j.id.to_string()).collect();
        assert_eq!(seen, jobs, "{format:?}");
    }
}

/// `sarouter serve` on a bed.
struct Serving {
    child: Running,
    lines: Receiver<String>,
}

impl Serving {
    fn start(bed: &Testbed, config: &PathBuf) -> Self {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        serve.args(["serve", "--format", "json", "--config"]).arg(config).stdout(Stdio::piped());
        serve.env("SLURM_CONF", slurm_conf(bed)).env("SAROUTER_BED", bed.path());
        let mut child = Running::spawn(&mut serve);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
        Self { child, lines }
    }

    /// Looks now.
    fn look(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
    }

    /// The next line, which must be of this kind.
    fn line(&self, kind: &str) -> Value {
        let line = self.lines.recv_timeout(LONG).unwrap();
        let value: Value = serde_json::from_str(&line).unwrap();
        eprintln!("{line}");
        value.get(kind).unwrap_or_else(|| panic!("wanted {kind}: {line}")).clone()
    }
}

fn write_settings(bed: &Testbed) -> PathBuf {
    let path = bed.path().join("sarouter.toml");
    let text = format!(
        "[state]\ndirectory = \"{}\"\n[fabric]\ncommand = [\"{}\", \"ib\", \"ibnetdiscover\"]\n\
         [slurm]\nmin_job_age_seconds = 0\ndeadline_seconds = 15\n\
         [routing]\nengine = \"dfsssp\"\nmin_gain_seconds = 0\n[service]\ninterval_seconds = 3600\n[opensm]\nacknowledge_seconds = 5\n",
        bed.state().display(),
        root().join("scripts/testbed").display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn status(bed: &Testbed, config: &PathBuf) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    let output =
        command.args(["status", "--config"]).arg(config).env("SAROUTER_STATE", bed.state()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Passes of the service that ended well.
fn passes(bed: &Testbed) -> Option<u64> {
    let text = std::fs::read_to_string(bed.state().join("health.json")).ok()?;
    serde_json::from_str::<Value>(&text).ok()?["passes"].as_u64()
}

/// Asserts that every switch has exactly the tables of the epoch in force.
fn assert_epoch_is_in_force(bed: &Testbed, epoch: u64) {
    let text = bed.script(&["ib", "ibnetdiscover"]);
    let fabric = observe::fabric::parse("ibnetdiscover".as_ref(), &text).unwrap().fabric;
    let store = EpochStore::open(&bed.state()).unwrap();
    assert_eq!(store.current().unwrap().unwrap().get(), epoch);
    assert_in_force(bed, &fabric, &store.published(&fabric).unwrap().unwrap().tables);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn jobs_of_slurm_become_routes_in_opensm() {
    let fabric = generate("fattree:4x4,2").unwrap();
    let bed = Testbed::with(&fabric, &[], Vec::new());
    let config = write_settings(&bed);
    let jobs: Vec<String> =
        ["n[1,5,9,13]", "n[2,6,10]", "n[3-4,7-8]"].iter().map(|nodes| submit(&bed, nodes)).collect();
    jobs.iter().for_each(|id| await_running(&bed, id));

    let serving = Serving::start(&bed, &config);
    let epoch = serving.line("epoch");
    assert_eq!(
        (&epoch["epoch"], &epoch["reason"], &epoch["multi_switch"]),
        (&1.into(), &"first".into(), &3.into())
    );
    assert_eq!(serving.line("acknowledged")["epoch"], 1);
    assert_epoch_is_in_force(&bed, 1);
    assert_eq!(status(&bed, &config).0, 0, "{}", status(&bed, &config).1);

    // A fourth job on the nodes of a finished one: what comes next is about the cable, not the job.
    bed.slurm("scancel", &[&jobs[0]]);
    await_running(&bed, &submit(&bed, "n[1,5,9,13]"));
    let before = passes(&bed);
    serving.look();
    // A cable that is cut while the fabric is discovered is seen by half.
    await_some("a look", || (passes(&bed) > before).then_some(()));
    bed.cut("S0000", 5);
    serving.look();
    let epoch = std::iter::repeat_with(|| serving.look())
        .find_map(|()| serving.lines.recv_timeout(Duration::from_secs(3)).ok());
    let epoch: Value = serde_json::from_str(&epoch.unwrap()).unwrap();
    assert_eq!(
        (&epoch["epoch"]["epoch"], &epoch["epoch"]["reason"]),
        (&2.into(), &"fabric_changed".into()),
        "{epoch}"
    );
    assert_eq!(serving.line("acknowledged")["epoch"], 2);
    assert_epoch_is_in_force(&bed, 2);

    // Without OpenSM an epoch is published, and missed.
    bed.script(&["kill", "opensm"]);
    await_running(&bed, &submit(&bed, "n[11,15]"));
    serving.look();
    assert_eq!(serving.line("epoch")["epoch"], 3);
    assert_eq!(serving.line("failed")["stage"], "acknowledge");
    let (code, text) = status(&bed, &config);
    let missed = ["OpenSM has not put epoch 3 in force", "OpenSM has not been heard of"];
    assert!(code == 1 && missed.iter().any(|missed| text.contains(missed)), "{text}");
    bed.script(&["start", "opensm"]);
    serving.look();
    assert_eq!(serving.line("acknowledged")["epoch"], 3);
    assert_epoch_is_in_force(&bed, 3);

    // Without slurmctld what is in force stays.
    bed.script(&["stop", "slurmctld"]);
    serving.look();
    assert_eq!(serving.line("failed")["stage"], "jobs");
    assert_epoch_is_in_force(&bed, 3);
    let (code, text) = status(&bed, &config);
    assert!(code == 1 && text.contains("asking for jobs failed"), "{text}");
}
