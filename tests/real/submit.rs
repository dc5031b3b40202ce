//! What users may write when they submit: none of it takes a node out of service.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use sarouter::lab::generate::generate;

use crate::script::script;
use crate::spank::plugin;
use crate::testbed::{Testbed, run};

/// Only so that a broken test ends.
const PATIENCE: Duration = Duration::from_secs(600);

/// An ordinary user of any machine.
const NOBODY: u32 = 65534;

/// What the controller runs before a job. There is no service: who can do without routes starts at once.
const PROLOG: &str = "#!/bin/sh\nexec @SAROUTER@ prolog --config @BED@/sarouter.toml 2>>@BED@/log/hook.log\n";

/// Eight nodes whose slurmds load the plugin.
struct Bed(Testbed);

impl Bed {
    fn up() -> Self {
        let plugin = plugin();
        let prepare = |state: &Path| {
            let dir = state.parent().unwrap();
            let bed = dir.to_str().unwrap();
            let text = PROLOG.replace("@SAROUTER@", env!("CARGO_BIN_EXE_sarouter")).replace("@BED@", bed);
            script(dir.join("prolog"), &text);
            fs::create_dir(dir.join("slurm")).unwrap();
            // Where other users find it: the checkout may be in a home directory that is closed to them.
            fs::copy(&plugin, dir.join("spank.so")).unwrap();
            let line = format!("optional {bed}/spank.so state={bed}/state\n");
            fs::write(dir.join("slurm/plugstack.conf"), line).unwrap();
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let lines = ["PrologFlags=Alloc", "PrologSlurmctld=@BED@/prolog", "PrologEpilogTimeout=120"];
        let more = lines.iter().flat_map(|line| ["--slurm-line", line]);
        let options: Vec<&str> = std::iter::once("--no-opensm").chain(more).collect();
        let bed = Testbed::start(&generate("fattree:4x2,2").unwrap(), &options, Vec::new(), prepare);
        let dir = bed.path().display();
        let text = format!(
            "[state]\ndirectory = \"{dir}/state\"\n[fabric]\nsource = \"{dir}/given.net\"\n\
             [handoff]\ndeadline_seconds = 0.5\naway_seconds = 0.3\n"
        );
        fs::write(bed.path().join("sarouter.toml"), text).unwrap();
        Self(bed)
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).env("SLURM_CONF", self.0.path().join("slurm/slurm.conf")).current_dir("/tmp");
        command
    }

    fn slurm(&self, program: &str, words: &[&str]) -> String {
        run(&mut self.command(program, words))
    }

    fn as_user(&self, program: &str, words: &[&str]) -> Output {
        let mut command = self.command(program, words);
        command.uid(NOBODY).gid(NOBODY).output().unwrap()
    }

    /// The id of a job that a user submits, if it is taken.
    fn submit(&self, words: &[&str]) -> Option<String> {
        self.submit_of("true", words)
    }

    /// The same of a job that does something.
    fn submit_of(&self, script: &str, words: &[&str]) -> Option<String> {
        let fixed = ["--parsable", "-o", "/dev/null", "--wrap", script];
        let output = self.as_user("sbatch", &[&fixed[..], words].concat());
        let id = String::from_utf8_lossy(&output.stdout).trim().to_string();
        output.status.success().then_some(id)
    }

    /// Waits until no job runs or is about to: what is left has gone back into the queue.
    fn settle(&self) {
        let begun = Instant::now();
        loop {
            let left = self.slurm("squeue", &["-h", "-r", "-o", "%A %T %r"]);
            // A requeued job has to wait two minutes: "BeginTime".
            let waits = |line: &str| line.contains("PENDING") && line.contains("BeginTime");
            if left.lines().all(waits) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{left}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// No node is out of service, and none had to fail.
    fn is_whole(&self) {
        assert_eq!(self.slurm("sinfo", &["-h", "-R"]).trim(), "");
        let bad = ["-h", "-N", "-t", "drain,down,fail,maint,no_respond", "-o", "%n %T"];
        assert_eq!(self.slurm("sinfo", &bad).trim(), "");
        for entry in fs::read_dir(self.0.path().join("log")).unwrap().flatten() {
            let log = String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default()).into_owned();
            for sign in
                ["prolog failed", "Prolog error", "Prolog launch failure", "spank_prolog returned status"]
            {
                let found = log.lines().find(|line| line.contains(sign));
                assert_eq!(found, None, "{}", entry.path().display());
            }
        }
    }
}

#[test]
#[ignore = "needs root and Debian's packages: run scripts/test"]
fn fifty_ways_to_submit_a_job_cost_no_node() {
    let bed = Bed::up();
    let long = "x".repeat(3000);
    // Slurm itself takes no comment that is much longer.
    let comment = format!("--comment=routing=require {}", &long[..900]);
    let words = "--export=ALL,SPANK_ROUTING=require";
    let shapes: [&[&str]; 12] = [
        &["-N8"],
        &["-N8", "-t1"],
        &["-N1", "-t1"],
        &["-N2", "--exclusive"],
        &["-N2", "--array=1-2"],
        &["-N2", "--no-requeue"],
        &["-N2", "--requeue"],
        &["-N2", "--export=NONE"],
        &["-N2", words],
        &["-N2", "--export=ALL,ROUTING=require,SAROUTER_SL=99,LD_PRELOAD=/none"],
        &["-N2", &comment],
        &["-N2", "-x", "n1", "--signal=B:KILL@1"],
    ];
    let (mut ways, mut taken) = (0, 0);
    for shape in shapes {
        for routing in [&[] as &[&str], &["--routing=default"], &["--routing=none"], &["--routing=require"]] {
            ways += 1;
            taken += usize::from(bed.submit(&[shape, routing].concat()).is_some());
        }
    }
    assert_eq!(taken, ways, "all of these are in order");
    // Words that are none, and who cannot wait for routes: refused at once.
    for word in ["--routing=", "--routing=Require", "--routing=require,none", "--routing=\u{1b}[2J", &long] {
        ways += 1;
        let word = if word == long { format!("--routing={long}") } else { word.to_string() };
        assert_eq!(bed.submit(&["-N8", &word]), None, "{word}");
    }
    for program in ["srun", "salloc"] {
        ways += 1;
        let output = bed.as_user(program, &["-N8", "-t1", "--routing=require", "true"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("only for sbatch"), "{program}: {said}");
    }
    assert!(ways >= 50, "{ways}");
    bed.settle();
    bed.is_whole();
    // Those who require routes that nobody makes are in the queue, and no job of others is.
    let queued = bed.slurm("squeue", &["-h", "-r", "-o", "%A"]);
    assert!(queued.lines().count() >= 10, "{queued}");
    let output = bed.as_user("srun", &["-N8", "-t1", "--routing=none", "true"]);
    assert!(output.status.success(), "{output:?}");

    // Files that hang whoever opens them, where the nodes look for a job's.
    for (name, file) in [("SHA256SUMS", "SHA256SUMS"), ("a directory", ""), ("routing.env", "routing.env")] {
        let id = bed.submit(&["-N8", "-t1", "--hold"]).unwrap();
        let directory = bed.0.state().join("jobs").join(&id);
        fs::create_dir_all(&directory).unwrap();
        match file {
            "" => fs::create_dir(directory.join("SHA256SUMS")).unwrap(),
            file => {
                run(Command::new("mkfifo").arg(directory.join(file)));
                let sums = format!("{}  routing.env\n", "0".repeat(64));
                if file != "SHA256SUMS" {
                    fs::write(directory.join("SHA256SUMS"), sums).unwrap();
                }
            }
        }
        bed.slurm("scontrol", &["release", &id]);
        bed.settle();
        let shown = bed.slurm("scontrol", &["show", "job", &id]);
        assert!(shown.contains("JobState=COMPLETED"), "{name}: {shown}");
    }
    bed.is_whole();
}

/// What jobs say of their traffic and their ranks, in options, comments, names and the environment, in order or not. Those
/// that are taken run, their steps too.
#[test]
#[ignore = "needs root and Debian's packages: run scripts/test"]
fn fifty_more_words_of_users_cost_no_node() {
    let bed = Bed::up();
    let long = "9*ring+".repeat(400);
    let words = [
        "ring",
        "3*ring+halo:2x2",
        "alltoall",
        "halo:0x0",
        "halo:99999999999999999999x2",
        "halo:4294967296x4294967296",
        "halo:1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1",
        "1e308*ring",
        "-1*ring",
        "NaN*ring",
        "",
        "+",
        "*",
        "../../etc/shadow",
        "$(touch /tmp/x)",
        "%s%n%d",
        "\u{1b}[2J",
        "\u{202e}gnir",
        "ring\nJobId=1 JobState=RUNNING",
        "ring\tring",
        &long,
    ];
    let mut ids = Vec::new();
    let mut ways = 0;
    let mut tries = |words: &[&str]| {
        ways += 1;
        ids.extend(bed.submit_of("srun -n2 true; srun --mpi=none -m cyclic true", words));
    };
    for word in words {
        tries(&["-N2", "-t1", &format!("--traffic={word}")]);
        tries(&["-N2", "-t1", &format!("--comment=sarouter:pattern={word}"), "--rank-order=fabric"]);
    }
    for order in ["fabric", "", "Fabric", "fabric,fabric", "\u{1b}c", &long] {
        tries(&["-N4", "-n8", "-t1", "--traffic=ring", &format!("--rank-order={order}")]);
    }
    let exports = [
        "SPANK_SAROUTER_RANK_ORDER=fabric,SPANK_SAROUTER_TRAFFIC=\u{1b}c",
        "SLURM_HOSTFILE=/etc/shadow",
        "SAROUTER_STATE=/proc/self/fd/0,SAROUTER_ROUTED=no",
        "SLURM_SPANK__SLURM_SPANK_OPTION_sarouter_routing=require",
        "_SLURM_SPANK_OPTION_sarouter_traffic=halo:0x0",
        "LD_PRELOAD=/proc/self/fd/0,TMPDIR=/none",
    ];
    for export in exports {
        let export = format!("--export=ALL,{export}");
        tries(&["-N2", "-t1", &export, "--traffic=ring", "--rank-order=fabric"]);
    }
    tries(&["-N2", "-J", "\u{1b}[2J\u{202e}", "--traffic=ring"]);
    tries(&["-N2", "-J", "a\nb|c", "--rank-order=fabric"]);
    tries(&["-N1", "-t1", "--traffic=ring", ":", "-N2", "-t1", "--rank-order=fabric"]);
    assert!(ways >= 50, "{ways}");
    assert!(ids.len() >= 20, "{ids:?}");
    bed.settle();
    bed.is_whole();
    let output = bed.as_user("srun", &["-N8", "-t1", "--traffic=ring", "true"]);
    assert!(output.status.success(), "{output:?}");
    bed.is_whole();
}
