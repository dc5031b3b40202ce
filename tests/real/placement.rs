//! Node selection on a real Slurm: both ways, and everything that can go wrong with them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sarouter::lab::generate::generate;
use sarouter::model::NodeName;
use sarouter::observe::hostlist::expand;
use serde_json::Value;

use crate::script::script;
use crate::testbed::{Running, Testbed, await_some, plugin_dir, root, run};

/// A Slurm of 32 nodes under eight leaves, with the rule that tags jobs.
pub struct Cluster {
    service: Option<Running>,
    pub bed: Testbed,
}

pub const NODES: &str = "fattree:8x4,2";

/// So long a set that was given counts as taken, and a little more.
const LENT: Duration = Duration::from_secs(7);

impl Cluster {
    pub fn up(fabric: &str, options: &[&str], placement: &str) -> Self {
        let fabric = generate(fabric).unwrap();
        let rule = root().join("config/job_submit.lua");
        let rule = ["--slurm-line", "JobSubmitPlugins=lua", "--slurm-file", rule.to_str().unwrap()];
        let environment = vec![("SAROUTER_SELECT_SOCKET", "unset".to_string())];
        let bed = Testbed::with(&fabric, &[&["--no-opensm"], &rule[..], options].concat(), environment);
        let mut settings = fs::read_to_string(bed.path().join("sarouter.toml")).unwrap();
        settings.push_str(&format!("watch = false\n[placement]\n{placement}\n"));
        fs::write(bed.path().join("sarouter.toml"), settings).unwrap();
        Self { bed, service: None }
    }

    fn sarouter(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.args(words).arg("--config").arg(self.bed.path().join("sarouter.toml"));
        command.env("SLURM_CONF", self.bed.path().join("slurm/slurm.conf"));
        command
    }

    pub fn serve(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.bed.path().join("log/service.log"));
        let mut command = self.sarouter(&["serve", "-v"]);
        self.service = Some(Running::spawn(command.stdout(Stdio::null()).stderr(log.unwrap())));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.service.as_ref().unwrap()), signal).unwrap();
    }

    /// Without a chance to tidy up.
    fn kill_service(&mut self) {
        self.signal(Signal::KILL);
        self.service.take().unwrap().wait().unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.bed.path().join("log/service.log")).unwrap_or_default()
    }

    /// Submits a job; `tag` is what it asks of the routing.
    pub fn submit(&self, words: &[&str], tag: Option<&str>) -> String {
        let comment = tag.map(|t| format!("--comment=routing={t}"));
        let fixed = ["--parsable", "-o", "/dev/null", "--wrap", "sleep 1000"];
        let comment: Vec<&str> = comment.as_deref().into_iter().collect();
        self.bed.slurm("sbatch", &[words, &comment, &fixed].concat()).trim().to_string()
    }

    pub fn state(&self, job: &str) -> (String, String) {
        let line = self.bed.slurm("squeue", &["-h", "-j", job, "-o", "%T|%r"]);
        let (state, reason) = line.trim().split_once('|').unwrap_or_default();
        (state.to_string(), reason.to_string())
    }

    /// Waits until a job has nodes and returns them.
    pub fn nodes(&self, job: &str) -> BTreeSet<NodeName> {
        await_some(&format!("job {job} to start"), || {
            let line = self.bed.slurm("squeue", &["-h", "-t", "R,CF", "-j", job, "-o", "%N"]);
            let list = line.trim();
            (!list.is_empty()).then(|| expand(list).unwrap().into_iter().collect())
        })
    }

    /// Waits until a job waits for this reason.
    pub fn await_reason(&self, job: &str, reason: &str) {
        await_some(&format!("job {job} to wait for {reason}"), || {
            (self.state(job).1 == reason).then_some(())
        });
    }

    /// A job of eight nodes, held until its set has been chosen, gets that set and is gone after.
    pub fn prefers_when_released(&self, set: &BTreeSet<NodeName>) {
        self.follows(set, 2, || {
            let job = self.submit(&["-N8", "--hold"], Some("prefer"));
            std::thread::sleep(Duration::from_secs(3));
            self.bed.slurm("scontrol", &["release", &job]);
            let nodes = self.nodes(&job);
            self.bed.slurm("scancel", &[&job]);
            nodes
        });
        std::thread::sleep(LENT);
    }

    /// A job gets these nodes, at the latest when its question was answered in time: on a busy machine
    /// one may not be, which the controller says. So often the service may not have looked for a while and have no set
    /// ready.
    pub fn follows(
        &self,
        wanted: &BTreeSet<NodeName>,
        unready: usize,
        mut place: impl FnMut() -> BTreeSet<NodeName>,
    ) {
        let mut tries = 0;
        await_some("the preferred nodes", || {
            let nodes = place();
            tries += 1;
            let log = self.slurmctld_log();
            let (is_right, may_be_late) =
                (nodes == *wanted, tries <= unready || log.contains("sarouter: no answer"));
            assert!(is_right || may_be_late, "{nodes:?}, not {wanted:?}\n{log}");
            is_right.then_some(()).or_else(|| {
                std::thread::sleep(LENT);
                None
            })
        });
    }

    /// What `sarouter place` says beside these running jobs.
    pub fn preferred(&self, running: &str, nodes: usize) -> BTreeSet<NodeName> {
        let jobs = self.bed.path().join("jobs.txt");
        fs::write(&jobs, running).unwrap();
        let (fabric, nodes) = (self.bed.path().join("fabric.net"), nodes.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        let words = ["place", "--format", "json", "--nodes", &nodes];
        let text = run(command.args(words).arg("--fabric").arg(fabric).arg("--jobs").arg(jobs));
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert!(answer["predicted"]["max"].as_u64() < answer["usual"]["max"].as_u64(), "{answer}");
        serde_json::from_value(answer["nodes"].clone()).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// A job across six leaves: the usual choice for eight more nodes is not the best one.
pub const BUSY: &str = "n[1,5,9,13,17,21]";
pub const BUSY_LINE: &str = "1 n[1,5,9,13,17,21]\n";

pub fn names(list: &str) -> BTreeSet<NodeName> {
    expand(list).unwrap().into_iter().collect()
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_held_job_gets_the_set_the_service_prefers() {
    let mut cluster = Cluster::up(NODES, &[], "hold = true");
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    cluster.serve();
    let preferred = cluster.preferred(BUSY_LINE, 8);
    let job = cluster.submit(&["-N8"], Some("prefer"));
    assert_eq!(cluster.nodes(&job), preferred);
    assert!(cluster.log().contains("gain"), "{}", cluster.log());
    // A job that names its nodes is not touched, nor is one that does not ask.
    let own = names("n[2,6]");
    assert!(own.is_disjoint(&preferred), "{preferred:?}");
    let job = cluster.submit(&["-N2", "-w", "n[2,6]"], Some("require"));
    assert_eq!(cluster.nodes(&job), own);
}

/// By comment, by the plugin's option, by a rule for its name: a set for the pattern. Without: one for everybody with
/// everybody. Slurm by itself would take the first six.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_held_job_gets_the_set_for_what_it_exchanges() {
    let rules = "hold = true\n[traffic]\nrules = [{ name = \"cfd-*\", pattern = \"halo2d\" }]";
    let mut cluster = Cluster::up("torus:6x6,hosts=1", &[], rules);
    let line = format!("optional {}\n", crate::spank::plugin().display());
    fs::write(cluster.bed.path().join("slurm/plugstack.conf"), line).unwrap();
    cluster.serve();
    let halo = names("n[1-2,7-8,13-14]");
    let said: [(&[&str], &BTreeSet<NodeName>); 4] = [
        (&["--comment=routing=prefer sarouter:pattern=halo2d"], &halo),
        (&["--comment=routing=prefer", "--traffic=halo2d"], &halo),
        (&["--comment=routing=prefer", "-J", "cfd-7"], &halo),
        (&["--comment=routing=prefer"], &names("n[1-3,7-9]")),
    ];
    for (words, want) in said {
        let fixed = ["--parsable", "-N6", "-o", "/dev/null", "--wrap", "sleep 1000"];
        let job = cluster.bed.slurm("sbatch", &[&fixed[..4], words, &fixed[4..]].concat()).trim().to_string();
        assert_eq!(cluster.nodes(&job), *want, "{words:?}");
        cluster.bed.slurm("scancel", &[&job]);
        // A job that completes is on its nodes.
        await_some("no job", || cluster.bed.slurm("squeue", &["-h"]).trim().is_empty().then_some(()));
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_job_changed_or_cancelled_while_it_is_held_is_treated_as_what_it_is_now() {
    let mut cluster = Cluster::up(NODES, &[], "hold = true");
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    cluster.serve();
    // More than are idle: it is held until they are.
    let job = cluster.submit(&["-N30"], Some("prefer"));
    let gone = cluster.submit(&["-N31"], Some("prefer"));
    cluster.await_reason(&job, "JobHeldAdmin");
    cluster.await_reason(&gone, "JobHeldAdmin");
    cluster.bed.slurm("scancel", &[&gone]);
    let preferred = cluster.preferred(BUSY_LINE, 8);
    // The nodes have one processor each, and Slurm leaves the number of processors as it was.
    let change = ["update", &format!("JobId={job}"), "NumNodes=8-8", "NumCPUs=8-8"];
    cluster.bed.slurm("scontrol", &change);
    assert_eq!(cluster.nodes(&job), preferred);
    let ledger = cluster.bed.state().join("held-jobs.json");
    await_some("an empty ledger", || {
        fs::read_to_string(&ledger).ok().filter(|t| !t.contains(&job) && !t.contains(&gone))
    });
}

/// Slurm prints new lines in comments as they are: here, a line that looks like the next job, and one like none.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn new_lines_in_a_comment_neither_stop_placement_nor_speak_for_other_jobs() {
    let mut cluster = Cluster::up(NODES, &[], "hold = true");
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    let first: u32 = cluster.submit(&["-N1", "-H"], None).parse().unwrap();
    // This one looks like itself, and cannot be read.
    let name = format!("x UserId=a JobState=PENDING\nJobId={}", first + 1);
    assert_eq!(cluster.submit(&["-N1", "-H", "-J", &name], None), (first + 1).to_string());
    let next = first + 3;
    let forged = format!("--comment=x\nJobId={next} UserId=root(0) JobState=PENDING NumNodes=x\n=?");
    let forger = cluster.submit(&["-N1", "-H", &forged], None);
    assert!(
        cluster.bed.slurm("scontrol", &["-o", "show", "job", &forger]).contains(&format!("\nJobId={next} "))
    );
    cluster.serve();
    let preferred = cluster.preferred(BUSY_LINE, 8);
    let job = cluster.submit(&["-N8"], Some("prefer"));
    assert_eq!(job, next.to_string());
    assert_eq!(cluster.nodes(&job), preferred);
    assert!(cluster.log().contains("has new lines in it"), "{}", cluster.log());
}

/// A `scontrol` that, before it releases the first job, starts another one on a node meant for it.
fn meddling(cluster: &Cluster) -> PathBuf {
    let path = cluster.bed.path().join("scontrol-meddling");
    let once = cluster.bed.path().join("meddled");
    let text = format!(
        "#!/bin/bash\nif [[ $1 == release && ! -e {once} ]]; then\n\
         touch {once}\n\
         node=$(scontrol -o show job $2 | sed -E 's/.* ReqNodeList=([^ ]*).*/\\1/')\n\
         node=$(scontrol show hostnames $node | head -1)\n\
         job=$(sbatch --parsable -N1 -w $node -o /dev/null --wrap 'sleep 1000')\n\
         for i in {{1..400}}; do [[ $(squeue -h -j $job -o %T) == RUNNING ]] && break; sleep 0.05; done\n\
         fi\nexec scontrol \"$@\"\n",
        once = once.display()
    );
    script(&path, &text);
    path
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn nodes_taken_between_decision_and_start_are_replaced() {
    let mut cluster = Cluster::up(NODES, &[], "hold = true\nstart_seconds = 600");
    let settings = cluster.bed.path().join("sarouter.toml");
    let scontrol = meddling(&cluster);
    let text = fs::read_to_string(&settings).unwrap() + &format!("scontrol = \"{}\"\n", scontrol.display());
    fs::write(&settings, text).unwrap();
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    cluster.serve();
    let first = cluster.preferred(BUSY_LINE, 8);
    let job = cluster.submit(&["-N8"], Some("prefer"));
    let got = cluster.nodes(&job);
    let taken = first.difference(&got).count();
    assert!(taken > 0 && got.len() == 8, "{got:?} instead of {first:?}");
    assert!(cluster.log().contains("its nodes were taken"), "{}", cluster.log());
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn nobody_stays_held_when_the_service_dies() {
    let mut cluster = Cluster::up(NODES, &[], "hold = true\ndeadline_seconds = 6");
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    cluster.serve();
    let first = cluster.submit(&["-N30"], Some("require"));
    cluster.await_reason(&first, "JobHeldAdmin");
    cluster.kill_service();
    // From cron, with nobody serving: nothing before the deadline, the job after it.
    let released = |cluster: &Cluster| -> u64 {
        let text = run(&mut cluster.sarouter(&["release-held", "--format", "json"]));
        serde_json::from_str::<Value>(&text).unwrap()["released"].as_u64().unwrap()
    };
    assert_eq!(released(&cluster), 0, "released before its deadline");
    await_some("the deadline", || (released(&cluster) == 1).then_some(()));
    cluster.await_reason(&first, "Resources");

    // A service that comes back after the deadline lets it go, and does not hold it again.
    cluster.serve();
    let second = cluster.submit(&["-N31"], Some("prefer"));
    cluster.await_reason(&second, "JobHeldAdmin");
    cluster.kill_service();
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(cluster.state(&second).1, "JobHeldAdmin");
    cluster.serve();
    await_some("the release", || (cluster.state(&second).1 != "JobHeldAdmin").then_some(()));

    // A service that is stopped in order leaves nobody behind.
    let third = cluster.submit(&["-N32"], Some("prefer"));
    cluster.await_reason(&third, "JobHeldAdmin");
    cluster.signal(Signal::TERM);
    cluster.service.take().unwrap().wait().unwrap();
    assert_ne!(cluster.state(&third).1, "JobHeldAdmin");
    // All of them start once the nodes are free, as far as they fit.
    cluster.bed.slurm("scancel", &["-w", "n1"]);
    cluster.bed.slurm("scancel", &[&second, &third]);
    assert_eq!(cluster.nodes(&first).len(), 30);
}

/// Builds the plugin once for all tests.
pub fn plugin() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("select");
        run(Command::new(root().join("plugin/slurm/select/build")).arg(&out));
        out
    })
}

/// A cluster with a plugin whose service, if there is one, is at `socket` in the bed's directory.
pub fn with_plugin(fabric: &str, more: &[&str], plugin: &Path) -> Cluster {
    let line = plugin_dir(plugin);
    let options = [&["--slurm-line", &line][..], more].concat();
    let cluster = Cluster::up(fabric, &options, "select_socket = \"select.sock\"");
    // The plugin reads the name of the socket when slurmctld starts.
    let rule = cluster.bed.path().join("slurm/job_submit.lua");
    let text = fs::read_to_string(&rule).unwrap();
    // Without a delay: the plugin is asked when the job is there.
    fs::write(&rule, text.replace("local delay = 5", "local delay = 0")).unwrap();
    cluster.restart_slurmctld();
    cluster
}

impl Cluster {
    pub fn socket(&self) -> PathBuf {
        self.bed.path().join("select.sock")
    }

    fn restart_slurmctld(&self) {
        self.testbed("stop");
        self.testbed("start");
    }

    /// Starts or stops slurmctld.
    pub fn testbed(&self, verb: &str) {
        let mut command = Command::new(root().join("scripts/testbed"));
        command.args([verb, "slurmctld"]).env("SAROUTER_BED", self.bed.path());
        run(command.env("SAROUTER_SELECT_SOCKET", self.socket()));
    }

    pub fn slurmctld_log(&self) -> String {
        fs::read_to_string(self.bed.path().join("log/slurmctld.log")).unwrap()
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn the_plugin_gives_a_job_the_set_the_service_prefers() {
    let mut cluster = with_plugin(NODES, &[], plugin());
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    cluster.serve();
    await_some("the socket", || cluster.socket().exists().then_some(()));
    let preferred = cluster.preferred(BUSY_LINE, 8);
    cluster.prefers_when_released(&preferred);
    // And at once, for a number of nodes that is kept ready: one leaf that is idle again.
    let preferred = cluster.preferred(BUSY_LINE, 4);
    cluster.follows(&preferred, 2, || {
        let newcomer = cluster.submit(&["-N4"], Some("prefer"));
        let nodes = cluster.nodes(&newcomer);
        if nodes != preferred {
            cluster.bed.slurm("scancel", &[&newcomer]);
        }
        nodes
    });
    // One that requires what cannot be had waits; the plugin never takes more than was offered. It
    // asks by the option that the nodes' plugin gives to sbatch.
    let line = format!("optional {}\n", crate::spank::plugin().display());
    fs::write(cluster.bed.path().join("slurm/plugstack.conf"), line).unwrap();
    let large = cluster.submit(&["-N24", "--routing=require"], None);
    let shown = cluster.bed.slurm("scontrol", &["show", "job", &large]);
    assert!(shown.contains("AdminComment=sarouter:require"), "{shown}");
    cluster.await_reason(&large, "Resources");
}

/// The bytes of a plugin, with a `plugin_version` one higher than that of the Slurm it was built for.
pub fn with_changed_version(plugin: &Path) -> Vec<u8> {
    let mut bytes = fs::read(plugin).unwrap();
    let version = run(Command::new("slurmctld").arg("-V"));
    let numbers: Vec<u8> = version
        .trim()
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .split('.')
        .map(|n| n.parse().unwrap())
        .collect();
    let wanted = [numbers[2], numbers[1], numbers[0], 0];
    // Where `nm` says that plugin_version is. Read-only data is mapped at the offset that it has in the file.
    let symbols = run(Command::new("nm").arg("-D").arg(plugin));
    let line = symbols.lines().find(|l| l.ends_with(" plugin_version")).unwrap();
    let at = usize::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    assert_eq!(bytes[at..at + 4], wanted, "plugin_version is not at {at:#x}");
    bytes[at] += 1;
    bytes
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_plugin_for_another_version_is_refused_and_the_stock_one_used() {
    let other = tempfile::tempdir().unwrap();
    let bytes = with_changed_version(&plugin().join("select_cons_tres.so"));
    fs::write(other.path().join("select_cons_tres.so"), bytes).unwrap();
    let cluster = with_plugin(NODES, &[], other.path());
    assert!(cluster.slurmctld_log().contains("Incompatible Slurm plugin"), "{}", cluster.slurmctld_log());
    let listener = UnixListener::bind(cluster.socket()).unwrap();
    listener.set_nonblocking(true).unwrap();
    cluster.nodes(&cluster.submit(&["-N8"], Some("prefer")));
    assert!(listener.accept().is_err(), "the refused plugin asked");
}
