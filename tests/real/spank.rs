//! The node side on a real Slurm: a torus of 16 slurmds, each with its own sink.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sarouter::lab::generate::generate;
use sarouter::model::{JobId, Torus, TorusBuilder, TorusDemand, TorusJob, Transit};
use sarouter::publish::{angara, job};
use sarouter::route::angara::{Limits, engine};
use sarouter::verify::angara::accept;

use crate::script::script;
use crate::testbed::{Running, Testbed, await_some, root, run};

/// The plugin, built if it is not.
pub fn plugin() -> PathBuf {
    let crate_dir = root().join("plugin/slurm/spank");
    let mut build = Command::new(env!("CARGO"));
    // Its own place, whatever CARGO_TARGET_DIR says.
    build.args(["build", "--release", "--quiet", "--target-dir", "target"]);
    run(build.current_dir(&crate_dir));
    crate_dir.join("target/release/libsarouter.so")
}

struct Bed {
    bed: Testbed,
    torus: Torus,
}

/// Has Slurm load the plugin, with more options than those that say where things are.
fn load(dir: &Path, plugin: &Path, more: &str) {
    let [state, sink, report] = ["state", "sink/%n", "report"].map(|n| dir.join(n).display().to_string());
    let line =
        format!("optional {} state={state} sink=file:{sink} report={report} {more}\n", plugin.display());
    fs::write(dir.join("slurm/plugstack.conf"), line).unwrap();
}

/// What Slurm's controller runs where the service is part of a test.
const HOOK: &str = "#!/bin/sh\nexec @SAROUTER@ @WORD@ --config @BED@/sarouter.toml 2>>@BED@/log/hook.log\n";

/// Lays out a bed of a direct torus: the controller's hooks, and where the plugin reads and writes.
pub fn prepare(dir: &Path, plugin: &Path) {
    for word in ["prolog", "epilog"] {
        let text = HOOK.replace("@SAROUTER@", env!("CARGO_BIN_EXE_sarouter")).replace("@WORD@", word);
        script(dir.join(word), &text.replace("@BED@", dir.to_str().unwrap()));
    }
    for name in ["slurm", "sink", "report"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    load(dir, plugin, "");
}

impl Bed {
    /// 16 nodes n1..n16 as angara:4x2x2; all prologs end before the batch script starts.
    fn up() -> Self {
        Self::with(&[])
    }

    /// The same, the controller announcing each job to a service.
    fn announcing() -> Self {
        let bed = Self::with(&[
            "PrologSlurmctld=@BED@/prolog",
            "EpilogSlurmctld=@BED@/epilog",
            "PrologEpilogTimeout=60",
        ]);
        let dir = bed.bed.path().display();
        let text = format!(
            "[state]\ndirectory = \"{dir}/state\"\n[fabric]\nsource = \"{dir}/torus.toml\"\n\
             [service]\ninterval_seconds = 1\n[handoff]\ndeadline_seconds = 30\naway_seconds = 30\n"
        );
        fs::write(bed.bed.path().join("sarouter.toml"), text).unwrap();
        fs::write(bed.bed.path().join("torus.toml"), "sizes = [4, 2, 2]\n").unwrap();
        bed
    }

    fn with(lines: &[&str]) -> Self {
        let plugin = plugin();
        let lay_out = |state: &Path| prepare(state.parent().unwrap(), &plugin);
        let fabric = generate("fattree:4x4,2").unwrap();
        let fixed = ["--no-opensm", "--slurm-line", "PrologFlags=Alloc,DeferBatch"];
        let more = lines.iter().flat_map(|line| ["--slurm-line", line]);
        let options: Vec<&str> = fixed.into_iter().chain(more).collect();
        let bed = Testbed::start(&fabric, &options, Vec::new(), lay_out);
        Self { bed, torus: TorusBuilder::new(&[4, 2, 2]).unwrap().build().unwrap() }
    }

    fn slurm(&self, program: &str, arguments: &[&str]) -> String {
        self.slurm_in(&[], program, arguments)
    }

    /// The same with more variables.
    fn slurm_in(&self, variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> String {
        let conf = self.bed.path().join("slurm/slurm.conf");
        let variables = variables.iter().copied();
        run(Command::new(program).args(arguments).env("SLURM_CONF", conf).envs(variables))
    }

    /// Submits a held job on all nodes; its script keeps what the sinks hold before anything else,
    /// and its environment. Started again, it keeps what it sees then.
    fn submit(&self, options: &[&str]) -> String {
        self.submit_in(&[], options)
    }

    /// The same, submitted where these variables are.
    fn submit_in(&self, variables: &[(&str, &str)], options: &[&str]) -> String {
        let dir = self.bed.path().display();
        let script = format!(
            "rm -rf {dir}/seen.$SLURM_JOB_ID; cp -r {dir}/sink {dir}/seen.$SLURM_JOB_ID; \
             env > {dir}/env.$SLURM_JOB_ID"
        );
        let fixed = ["--parsable", "--hold", "-N16", "-o", "/dev/null", "--wrap", &script];
        self.slurm_in(variables, "sbatch", &[&fixed[..], options].concat()).trim().to_string()
    }

    fn jobs(&self) -> PathBuf {
        self.bed.state().join("jobs")
    }

    /// Computes, checks and publishes the tables of a job.
    fn publish(&self, id: &str) {
        let nodes = self.torus.healthy_nodes();
        let the_job = TorusJob::new(Some(JobId::new(id).unwrap()), nodes);
        let demand = TorusDemand { jobs: vec![the_job], transit: Transit::Job };
        let tables = engine("angara-sar").unwrap().route(&self.torus, &demand, &Limits::default()).unwrap();
        let tables = accept(&self.torus, tables, false).unwrap();
        angara::publish(&self.jobs(), &self.torus, &tables, 0, &|_| true).unwrap();
    }

    /// What each node should have, by its name.
    fn published(&self, id: &str) -> BTreeMap<String, String> {
        let dir = self.jobs().join(id);
        let nodes = fs::read_to_string(dir.join(angara::NODES_FILE)).unwrap();
        let pairs = nodes.lines().map(|l| l.split_once(' ').unwrap());
        pairs.map(|(node, file)| (node.to_string(), fs::read_to_string(dir.join(file)).unwrap())).collect()
    }

    /// The files of a directory, by name. An epilog may remove some while they are read.
    fn files(&self, name: &str) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.bed.path().join(name)).unwrap().map(Result::unwrap);
        let read = |entry: fs::DirEntry| match fs::read_to_string(entry.path()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            text => Some((entry.file_name().into_string().unwrap(), text.unwrap())),
        };
        entries.filter_map(read).collect()
    }

    /// Runs a job that is told service level 5; what its script found in its environment.
    fn environment_on_level_5(&self, id: &str) -> String {
        let environment = job::JobEnvironment {
            service_level: Some(sarouter::model::Sl::new(5).unwrap()),
            routed: true,
            ..Default::default()
        };
        job::publish(&self.jobs(), &JobId::new(id).unwrap(), &environment).unwrap();
        self.release(id);
        self.await_state(id, "COMPLETED");
        fs::read_to_string(self.bed.path().join(format!("env.{id}"))).unwrap()
    }

    fn release(&self, id: &str) {
        self.slurm("scontrol", &["release", id]);
    }

    fn await_state(&self, id: &str, state: &str) {
        await_some(state, || self.slurm("scontrol", &["show", "job", id]).contains(state).then_some(()));
    }

    /// Nothing is left on any node, once the epilogs have run.
    fn await_clean(&self) {
        await_some("the epilogs", || (self.files("sink").is_empty()).then_some(()));
    }

    /// The table of n5, something else by the time it gets there.
    fn damage(&self, id: &str, how: impl Fn(&str) -> String) {
        let path = self.jobs().join(id).join("node-1.0.0.table");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("node 1.0.0 n5\n"));
        fs::write(&path, how(&text)).unwrap();
    }

    /// A job whose table on n5 is damaged is held, and goes through once it is whole.
    fn is_held(&self, id: &str, how: impl Fn(&str) -> String) {
        self.publish(id);
        self.damage(id, how);
        self.release(id);
        self.await_state(id, "launch_failed_requeued_held");
        self.await_clean();
        // Slurm's controller may send the script off in the moment in which it hears of the failed prolog,
        // and stops it then.
        let seen = format!("seen.{id}");
        let begun = self.bed.path().join(&seen).exists();
        assert!(!begun || !self.files(&seen).contains_key("n5"));
        self.publish(id);
        self.slurm("scontrol", &["update", "NodeName=n5", "State=RESUME"]);
        let idle = || self.slurm("sinfo", &["-h", "-n", "n5", "-o", "%T"]).trim() == "idle";
        await_some("n5", || idle().then_some(()));
        // Slurm would wait two minutes before it starts a requeued job again. Its nodes take a start in the second in which
        // they ended the job for part of that: the script then waits in vain for the prolog.
        self.slurm("scontrol", &["update", &format!("JobId={id}"), "StartTime=now+3"]);
        self.release(id);
        self.await_state(id, "COMPLETED");
        assert_eq!(self.files(&seen), self.published(id));
        self.await_clean();
    }
}

fn cut_short(table: &str) -> String {
    table[..table.len() / 2].to_string()
}

/// Another step in one route: as long, and each line of the right form.
fn altered(table: &str) -> String {
    let at = table.find("+X").unwrap();
    format!("{}-X{}", &table[..at], &table[at + 2..])
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn each_node_has_its_table_before_the_first_task_and_nothing_after() {
    let bed = Bed::up();
    let id = bed.submit(&["--export=ALL,NCCL_IB_SL=9"]);
    bed.publish(&id);
    bed.release(&id);
    bed.await_state(&id, "COMPLETED");
    let published = bed.published(&id);
    assert_eq!(published.len(), 16);
    assert_eq!(bed.files(&format!("seen.{id}")), published);
    bed.await_clean();

    // A truncated one is refused by its node alone, which says so; the job starts.
    let id = bed.submit(&[]);
    bed.publish(&id);
    bed.damage(&id, cut_short);
    bed.release(&id);
    bed.await_state(&id, "COMPLETED");
    let seen = bed.files(&format!("seen.{id}"));
    assert!(seen.len() == 15 && !seen.contains_key("n5"), "{:?}", seen.keys());
    let log = fs::read_to_string(bed.bed.path().join("log/slurmd-n5.log")).unwrap();
    assert!(log.contains("refused, the job starts without its routes"), "{log}");
    bed.await_clean();

    // So does that of somebody who requires routes: no word of a user's costs a node.
    let id = bed.submit(&["--routing=require"]);
    bed.publish(&id);
    bed.damage(&id, cut_short);
    bed.release(&id);
    bed.await_state(&id, "COMPLETED");
    assert_eq!(bed.slurm("sinfo", &["-h", "-t", "drain", "-o", "%n"]).trim(), "");
    bed.await_clean();
    // Where the site wants it, everybody is held instead.
    load(bed.bed.path(), &plugin(), "on_failure=hold");
    bed.is_held(&bed.submit(&[]), altered);

    // Who wants none gets none.
    let id = bed.submit(&["--routing=none"]);
    bed.publish(&id);
    bed.release(&id);
    bed.await_state(&id, "COMPLETED");
    assert!(bed.files(&format!("seen.{id}")).is_empty());
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn tasks_find_the_service_level_of_their_job() {
    let bed = Bed::up();
    let id = bed.submit(&["--export=ALL,NCCL_IB_SL=9"]);
    let text = bed.environment_on_level_5(&id);
    let value = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
    for name in
        ["SAROUTER_SL", "UCX_IB_SL", "OMPI_MCA_btl_openib_ib_service_level", "MV2_DEFAULT_SERVICE_LEVEL"]
    {
        assert_eq!(value(name), Some("5"), "{name}");
    }
    assert_eq!(value("NCCL_IB_SL"), Some("9"), "the user's own word stands");
    assert!(bed.files(&format!("seen.{id}")).is_empty());
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_job_that_a_job_submits_keeps_nothing_of_it() {
    let bed = Bed::up();
    let outer = [
        ("SAROUTER_JOB", "999"),
        ("SAROUTER_SL", "7"),
        ("SAROUTER_ORDER_FILE", "elsewhere"),
        ("UCX_IB_SL", "7"),
        ("NCCL_IB_SL", "2"),
    ];
    for (option, level) in [("--routing=default", Some("5")), ("--routing=none", None)] {
        let id = bed.submit_in(&outer, &[option]);
        let text = bed.environment_on_level_5(&id);
        let value = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
        assert_eq!(value("SAROUTER_JOB"), level.map(|_| &*id), "{option}");
        assert_eq!((value("SAROUTER_SL"), value("UCX_IB_SL")), (level, level), "{option}");
        assert_eq!(value("SAROUTER_ORDER_FILE"), None, "{option}");
        assert_eq!(value("NCCL_IB_SL"), Some("2"), "{option}: the user's own word stands");
    }
}

/// The service, by the settings of a bed; its socket is there.
pub fn serve(bed: &Testbed) -> Running {
    let dir = bed.path();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    command.args(["serve", "-v", "--config"]).arg(dir.join("sarouter.toml"));
    command.env("SLURM_CONF", dir.join("slurm/slurm.conf")).stdout(Stdio::null());
    let log = fs::File::create(dir.join("log/service.log")).unwrap();
    let service = Running::spawn(command.stderr(log));
    await_some("the service", || bed.state().join("api.sock").exists().then_some(()));
    service
}

/// From the announcement to the first task with the running service: two jobs at once, each on half of
/// the torus.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn with_the_service_each_node_has_its_table_before_the_first_task_and_nothing_after() {
    let bed = Bed::announcing();
    let dir = bed.bed.path();
    let _service = serve(&bed.bed);
    // Both hold their nodes until both have been looked at.
    let d = dir.display();
    let script = format!(
        "cp -r {d}/state/jobs/$SLURM_JOB_ID {d}/published.$SLURM_JOB_ID; \
         mkdir {d}/seen.$SLURM_JOB_ID; for n in $(scontrol show hostnames); do \
         cp {d}/sink/$n {d}/seen.$SLURM_JOB_ID; done; env > {d}/env.$SLURM_JOB_ID.new; \
         mv {d}/env.$SLURM_JOB_ID.new {d}/env.$SLURM_JOB_ID; while [ ! -e {d}/over ]; do sleep 0.1; done"
    );
    let submit = |nodes: &str| {
        let words = ["--parsable", "--exclusive", "-N8", "-w", nodes, "-o", "/dev/null", "--wrap", &script];
        bed.slurm("sbatch", &words).trim().to_string()
    };
    let jobs = [submit("n[1-8]"), submit("n[9-16]")];
    for id in &jobs {
        await_some("the first task", || dir.join(format!("env.{id}")).exists().then_some(()));
    }
    fs::write(dir.join("over"), "").unwrap();
    for id in &jobs {
        let published = dir.join(format!("published.{id}"));
        let nodes = fs::read_to_string(published.join(angara::NODES_FILE)).unwrap();
        let wanted: BTreeMap<String, String> = nodes
            .lines()
            .map(|l| l.split_once(' ').unwrap())
            .map(|(node, file)| (node.to_string(), fs::read_to_string(published.join(file)).unwrap()))
            .collect();
        assert_eq!(wanted.len(), 8);
        assert!(wanted.values().all(|table| table.contains("routes 7\n")), "{wanted:?}");
        assert_eq!(bed.files(&format!("seen.{id}")), wanted);
        let environment = fs::read_to_string(dir.join(format!("env.{id}"))).unwrap();
        assert!(environment.contains("\nSAROUTER_ROUTED=yes\n"), "{environment}");
    }
    for id in &jobs {
        bed.await_state(id, "COMPLETED");
    }
    bed.await_clean();
    let left = || fs::read_dir(bed.jobs()).unwrap().flatten().map(|e| e.file_name()).collect::<Vec<_>>();
    await_some("the service's epilogs", || {
        let left = left();
        jobs.iter().all(|id| !left.contains(&id.into())).then_some(())
    });
}
