//! What jobs say of their traffic when they are submitted to a real Slurm, and what comes of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use sarouter::lab::generate::generate;
use sarouter::model::Mix;
use sarouter::observe::ibnetdiscover::to_net;
use sarouter::publish::EpochStore;
use sarouter::publish::job::RankOrder;
use serde_json::Value;

use crate::script;
use crate::spank::plugin;
use crate::testbed::{Running, Testbed, await_some, print_logs, slurm_version};

/// Only so that a broken test ends.
const PATIENCE: Duration = Duration::from_secs(600);

/// What Slurm's controller runs before and after a job.
const HOOK: &str = "#!/bin/sh\nexport SLURM_CONF=@BED@/slurm/slurm.conf\nexec @SAROUTER@ @WORD@ --config @BED@/sarouter.toml 2>>@BED@/log/hook.log\n";

/// Eight nodes under four leaves, a service that each job is announced to, and slurmds with the plugin.
struct Bed {
    service: RefCell<Option<Running>>,
    bed: Testbed,
}

impl Bed {
    fn up() -> Self {
        Self::with(&to_net(&generate("fattree:4x2,2").unwrap()))
    }

    /// The same, the service taking this for the fabric.
    fn with(fabric: &str) -> Self {
        let plugin = plugin();
        let prepare = |state: &Path| {
            let dir = state.parent().unwrap();
            let bed = dir.to_str().unwrap();
            for word in ["prolog", "epilog"] {
                let text = HOOK.replace("@SAROUTER@", env!("CARGO_BIN_EXE_sarouter")).replace("@WORD@", word);
                script::script(dir.join(word), &text.replace("@BED@", bed));
            }
            fs::create_dir(dir.join("slurm")).unwrap();
            fs::write(dir.join("service.net"), fabric).unwrap();
            let line = format!("optional {} state={bed}/state\n", plugin.display());
            fs::write(dir.join("slurm/plugstack.conf"), line).unwrap();
        };
        let lines = [
            "PrologFlags=Alloc",
            "PrologSlurmctld=@BED@/prolog",
            "EpilogSlurmctld=@BED@/epilog",
            "PrologEpilogTimeout=120",
        ];
        let more = lines.iter().flat_map(|line| ["--slurm-line", line]);
        let options: Vec<&str> = std::iter::once("--no-opensm").chain(more).collect();
        let bed = Testbed::start(&generate("fattree:4x2,2").unwrap(), &options, Vec::new(), prepare);
        let bed = Self { bed, service: RefCell::new(None) };
        let dir = bed.bed.path().display();
        // Jobs never get old here: only announcements make them count.
        let text = format!(
            "[state]\ndirectory = \"{dir}/state\"\n[fabric]\nsource = \"{dir}/service.net\"\n[opensm]\nwatch = false\n\
             [slurm]\nmin_job_age_seconds = 86400\n[service]\ninterval_seconds = 1\n[routing]\nmin_gain_seconds = 0\n\
             [handoff]\ndeadline_seconds = 60\naway_seconds = 60\nmin_length_seconds = 0\nreroute_interval_seconds = 0\n\
             [traffic]\nrules = [{{ name = \"weather-?\", pattern = \"halo2d\" }}, \
             {{ executable = \"lmp_?\", pattern = \"double-tree\" }}]\n"
        );
        fs::write(bed.bed.path().join("sarouter.toml"), text).unwrap();
        bed.serve();
        bed
    }

    fn serve(&self) {
        let dir = self.bed.path();
        let log = fs::File::options().create(true).append(true).open(dir.join("log/service.log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.args(["serve", "-v", "--config"]).arg(dir.join("sarouter.toml"));
        command.env("SLURM_CONF", dir.join("slurm/slurm.conf")).stderr(log).stdout(Stdio::null());
        self.service.replace(Some(Running::spawn(&mut command)));
        await_some("the service", || self.ask(&["status"]).map(drop));
    }

    fn kill_service(&self) {
        drop(self.service.take());
    }

    fn run(&self, program: &str, words: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(words).env("SLURM_CONF", self.bed.path().join("slurm/slurm.conf"));
        command.current_dir(self.bed.path()).output().unwrap()
    }

    fn slurm(&self, program: &str, words: &[&str]) -> String {
        let output = self.run(program, words);
        assert!(output.status.success(), "{program} {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    /// What a command of ours answers, if it is there to be answered.
    fn ask(&self, words: &[&str]) -> Option<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.args(words).args(["--format", "json", "--config"]).arg(self.bed.path().join("sarouter.toml"));
        let output = command.env("SLURM_CONF", self.bed.path().join("slurm/slurm.conf")).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The pattern of a job, once the service knows the job.
    fn pattern(&self, id: &str) -> String {
        await_some("the job", || self.ask(&["job", id])?["job"]["pattern"].as_str().map(str::to_string))
    }

    /// The patterns of the epoch in force, once there is one that somebody waits for.
    fn await_demand(&self, pattern: &str) {
        await_some(pattern, || {
            let store = EpochStore::open(&self.bed.state()).unwrap();
            let epoch = store.epoch(store.current().ok()??).ok()?;
            epoch.plan().demand.groups.iter().any(|g| g.mix.to_string() == pattern).then_some(())
        });
    }

    fn await_state(&self, id: &str, state: &str) {
        await_some(state, || self.slurm("scontrol", &["show", "job", id]).contains(state).then_some(()));
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_logs(self.bed.path(), &["hook.log", "service.log", "slurmctld.log"]);
        }
    }
}

/// Twenty wrong words, each with what was meant or what is wanted.
const WRONG: [(&str, &str); 20] = [
    ("rings", "did you mean ring?"),
    ("rnig", "did you mean ring?"),
    ("Ring", "did you mean ring?"),
    ("alltoal", "did you mean alltoall?"),
    ("allotall", "did you mean alltoall?"),
    ("lienar", "did you mean linear?"),
    ("shfit", "did you mean shift?"),
    ("neighbour", "did you mean neighbor?"),
    ("doubletree", "did you mean double-tree?"),
    ("binomail", "did you mean binomial?"),
    ("permutation", "did you mean permutations?"),
    ("halo", "halo2d, halo3d"),
    ("halo:4", "halo:AxB"),
    ("halo:4x4x4x4", "halo:AxB"),
    ("groups", "groups:G"),
    ("groups:0", "groups:G"),
    ("0*ring", "is no weight"),
    ("70000*ring", "is no weight"),
    ("ring+", "there is no pattern"),
    ("", "there is no pattern"),
];

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn what_a_job_says_when_it_is_submitted_is_routed_for_while_it_runs() {
    let bed = Bed::up();
    // Refused where they are submitted, and nothing is left in the queue.
    for (i, (wrong, want)) in WRONG.iter().enumerate() {
        let word = format!("--traffic={wrong}");
        let output = match i % 3 {
            0 => bed.run("srun", &["-N2", &word, "true"]),
            1 => bed.run("salloc", &["-N2", &word, "true"]),
            _ => bed.run("sbatch", &["-N2", &word, "-o", "/dev/null", "--wrap", "true"]),
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(want), "{wrong}: {said}");
    }
    assert_eq!(bed.slurm("squeue", &["-h"]), "");

    // By the option, in the script, in the comment (though squeue prints none here), and not at all.
    let wrap = ["-o", "/dev/null", "--wrap", "sleep 600"];
    let submit = |words: &[&str]| bed.slurm("sbatch", &[&["--parsable"], words, &wrap].concat());
    let option = submit(&["-w", "n[1,3]", "-N2", "--traffic=3*ring+halo:2x1"]);
    let comment = submit(&["-w", "n[2,4]", "-N2", "--comment=night;sarouter:pattern=linear"]);
    let nothing = submit(&["-w", "n[5,7]", "-N2"]);
    let script = bed.bed.path().join("script");
    fs::write(&script, "#!/bin/sh\n#SBATCH --traffic=bruck\n#SBATCH -o /dev/null\nsleep 600\n").unwrap();
    let written = bed.slurm("sbatch", &["--parsable", "-w", "n[6,8]", "-N2", script.to_str().unwrap()]);
    let all =
        [(&option, "3*ring+halo:2x1"), (&comment, "linear"), (&nothing, "default"), (&written, "bruck")];
    for (id, pattern) in all {
        bed.await_state(id, "JobState=RUNNING");
        assert_eq!(bed.pattern(id), pattern);
        bed.await_demand(pattern);
    }
    // A service that comes later knows it too.
    bed.kill_service();
    bed.serve();
    for (id, pattern) in all {
        assert_eq!(bed.pattern(id), pattern);
    }
    // Nothing is left of it when the job is over: this one has the number of nobody that was there before.
    bed.slurm("scancel", &[&option]);
    await_some("the epilog", || (!bed.bed.state().join("jobs").join(&option).exists()).then_some(()));
    // Of this one a rule of the site guesses it by its name.
    let guessed = submit(&["-w", "n[1,3]", "-N2", "-J", "weather-7"]);
    bed.await_state(&guessed, "JobState=RUNNING");
    assert_eq!(bed.pattern(&guessed), "halo2d");
    bed.await_demand("halo2d");
    bed.slurm("scancel", &[&guessed]);
    // And of these by what they run, as Slurm says it: a script with words after it, a program of srun.
    let program = bed.bed.path().join("lmp_1");
    script::script(&program, "#!/bin/sh\nsleep ${1:-600}\n");
    let program = program.to_str().unwrap();
    let fixed = ["-w", "n[1,3]", "-N2"];
    let words = ["-J", "lmp_7", "-o", "/dev/null", program, "600", "/x/lmp"];
    let guessed = bed.slurm("sbatch", &[&["--parsable"][..], &fixed, &words].concat());
    bed.await_state(&guessed, "JobState=RUNNING");
    assert_eq!(bed.pattern(&guessed), "double-tree");
    bed.await_demand("double-tree");
    bed.slurm("scancel", &[&guessed]);
    let other = submit(&["-w", "n[1,3]", "-N2", "-J", "lmp_7"]);
    bed.await_state(&other, "JobState=RUNNING");
    assert_eq!(bed.pattern(&other), "default", "a job without a program of its own");
    bed.slurm("scancel", &[&other]);
    let prints = bed.bed.path().join("lmp_2");
    script::script(&prints, "#!/bin/sh\nexec $* printenv SAROUTER_TRAFFIC\n");
    let prints = prints.to_str().unwrap();
    let told = bed.slurm("srun", &[&fixed[..], &["-n2", prints]].concat());
    assert_eq!(told, "double-tree\ndouble-tree", "srun");
    let told = bed.run("salloc", &[&fixed[..], &[prints, "srun"]].concat());
    if slurm_version() >= (23, 2) {
        assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), "double-tree\ndouble-tree", "{told:?}");
    } else {
        // It knows no command of an allocation: nothing is guessed, and there is no such variable.
        assert!(told.stdout.is_empty() && !told.status.success(), "{told:?}");
    }
    // The others that submit: their tasks find it in their environment.
    let print = ["printenv", "SAROUTER_TRAFFIC"];
    let fixed = ["-N2", "-n2", "-w", "n[1,3]"];
    let srun = bed.slurm("srun", &[&fixed[..], &["--traffic=halving"], &print].concat());
    assert_eq!(srun, "halving\nhalving");
    let salloc = bed.slurm("salloc", &[&fixed[..], &["--traffic=2*halo2d+ring", "srun"], &print].concat());
    let mut mixes = salloc.lines().map(|mix| mix.parse::<Mix>().unwrap());
    assert!(mixes.all(|mix| mix == "2*halo2d+ring".parse().unwrap()), "{salloc}");
}

/// Eight nodes under four leaves with one cable up each, and names that say nothing of it: n1 and n5 under one leaf,
/// n2 and n6, and so on.
fn shuffled() -> String {
    let mut text = to_net(&generate("xgft:2;2,4;1,1").unwrap());
    for place in 0..8 {
        let name = place / 2 + 4 * (place % 2) + 1;
        text = text.replace(&format!("\"n{}\"", place + 1), &format!("\"m{name}\""));
    }
    text.replace("\"m", "\"n")
}

/// Says where ranks are: step by step, with their words first.
const STEPS: &str = r#"#!/bin/sh
cp -r @BED@/state/jobs/$SLURM_JOB_ID @BED@/kept.$SLURM_JOB_ID
step() {
    srun -O "$@" sh -c 'echo "$SLURM_PROCID $SLURMD_NODENAME"' >@BED@/step 2>>@BED@/log/steps.log || exit 1
    echo "$*:" $(sort -n @BED@/step | cut -d' ' -f2)
}
step
step -n32
step --ntasks-per-node=2
step -n16 -m block
step -n16 -m cyclic
step -n16 -m plane=2
step -N2 -n2 -w n3,n4
step -n16 --rank-order=list
echo "order file: $SAROUTER_ORDER_FILE ${SLURM_HOSTFILE:-none}"
"#;

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn ranks_start_in_the_order_found_for_them_where_the_job_asks() {
    let bed = Bed::with(&shuffled());
    let dir = bed.bed.path();
    let script = dir.join("steps");
    fs::write(&script, STEPS.replace("@BED@", dir.to_str().unwrap())).unwrap();
    let begun = Instant::now();
    let run = |words: &[&str]| {
        let out = dir.join("out.%j").display().to_string();
        let fixed = ["--parsable", "-N8", "--traffic=ring", "-o", &out];
        let id = bed.slurm("sbatch", &[&fixed, words, &[script.to_str().unwrap()]].concat());
        // Many steps, one after the other: as long as it takes.
        loop {
            let shown = bed.slurm("scontrol", &["show", "job", &id]);
            if shown.contains("JobState=COMPLETED") {
                break;
            }
            assert!(!shown.contains("JobState=FAILED") && begun.elapsed() < PATIENCE, "{shown}");
            std::thread::sleep(Duration::from_millis(100));
        }
        let text = fs::read_to_string(dir.join(format!("out.{id}"))).unwrap();
        let lines = text.lines().map(|line| line.split_once(':').unwrap_or_else(|| panic!("{text}")));
        let steps = lines.map(|(step, nodes)| (step.to_string(), nodes.trim().to_string())).collect();
        (dir.join(format!("kept.{id}")), steps)
    };
    let (kept, asked): (PathBuf, BTreeMap<String, String>) = run(&["--rank-order=fabric"]);
    let order: RankOrder = serde_json::from_slice(&fs::read(kept.join("order.json")).unwrap()).unwrap();
    assert!(order.ordered < order.list, "{order:?}");
    let list: Vec<String> = (1..=8).map(|n| format!("n{n}")).collect();
    let names: Vec<String> = order.nodes.iter().map(ToString::to_string).collect();
    let mut sorted = names.clone();
    sorted.sort();
    assert!(sorted == list && names != list, "{names:?}");
    let each = |nodes: &[String], ranks: usize| {
        let ranks = nodes.iter().flat_map(|node| std::iter::repeat_n(node.as_str(), ranks));
        ranks.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(asked[""], each(&names, 1));
    assert_eq!(asked["-n32"], each(&names, 4));
    assert_eq!(asked["--ntasks-per-node=2"], each(&names, 2));
    assert_eq!(asked["order file"].split(' ').nth(1), Some("none"), "no file of srun's is left to the tasks");
    // What a step says itself is not touched, and no step of a job that did not ask.
    let (kept, usual) = run(&[]);
    assert!(!kept.join("order.json").exists());
    assert_eq!((&usual[""], &usual["-n32"]), (&each(&list, 1), &each(&list, 4)));
    for step in ["-n16 -m block", "-n16 -m cyclic", "-n16 -m plane=2", "-N2 -n2 -w n3,n4"] {
        assert_eq!(asked[step], usual[step], "{step}");
    }
    assert_eq!(asked["-n16 --rank-order=list"], each(&list, 2));
    assert_ne!(usual["-n16 -m block"], usual["-n16 -m cyclic"]);
    // A program that starts ranks by itself has the order in a file.
    assert!(asked["order file"].ends_with("none") && asked["order file"].contains("/order.txt"));
    // Refused where it can have no effect, or means nothing.
    for (program, word, why) in [
        ("srun", "--rank-order=fabric", "only for sbatch and salloc"),
        ("salloc", "--rank-order=fabrik", "wants fabric or list"),
        ("srun", "--rank-order=", "wants fabric or list"),
    ] {
        let output = bed.run(program, &["-N2", word, "true"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{program} {word}: {said}");
    }
}
