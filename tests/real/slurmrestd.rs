//! slurmrestd as the source of jobs, beside squeue, on a slurmctld with 2,000 jobs; in short with 480.
//!
//! The nodes exist only on paper (`State=CLOUD`): placement is real, jobs stay CONFIGURING.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sarouter::config::{Rest, RestUrl};
use sarouter::model::{JobId, JobMap, JobState};
use sarouter::observe::slurm::{Squeue, SqueueFormat};
use sarouter::observe::slurmrestd::{RestError, Slurmrestd};
use sarouter::observe::source::{JobSource, PollError};

use crate::often::often;
use crate::testbed::{Running, await_some, free_port, run, slurm_version};

const LONG: Duration = Duration::from_secs(120);
/// Nodes that stay free for jobs that come while others ask.
const SPARE: usize = 40;
/// How often the jobs are changed under the questions.
const ROUNDS: usize = 10;

/// Nodes that are taken.
fn node_count() -> usize {
    often(1600, 480)
}

/// munged, slurmctld and slurmrestd in a directory of their own; they end with this.
struct Cluster {
    dir: tempfile::TempDir,
    daemons: Vec<Child>,
    rest: Option<Running>,
    port: u16,
    runtime: tokio::runtime::Runtime,
}

/// The command without the addresses that it listens on; its log goes on where it was.
pub fn slurmrestd(conf: &Path, log: &Path, auth: &str) -> Command {
    let log = fs::File::options().create(true).append(true).open(log).unwrap();
    // Without those of the accounting database, which is not here. Later ones have one plugin for all versions.
    let plugins = match slurm_version() {
        (22, 5) => "openapi/v0.0.36,openapi/v0.0.37,openapi/v0.0.38",
        (23, 2) => "openapi/v0.0.37,openapi/v0.0.38,openapi/v0.0.39",
        _ => "slurmctld",
    };
    let mut command = Command::new("slurmrestd");
    command.args(["-s", plugins, "-a", auth]).env("SLURM_CONF", conf);
    // Not root: it refuses that.
    command.uid(65534).gid(65534);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command
}

impl Cluster {
    fn up() -> Self {
        let dir = tempfile::Builder::new().prefix("sarouter-rest.").tempdir().unwrap();
        // slurmrestd runs as somebody else, and munge wants its socket to be reachable.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut cluster = Self { dir, daemons: Vec::new(), rest: None, port: free_port(), runtime };
        cluster.write_settings();
        let path = |name: &str| cluster.path(name).to_str().unwrap().to_string();
        let munged = Command::new("munged")
            .args(["--foreground", "--force"])
            .args([format!("--key-file={}", path("munge.key")), format!("--socket={}", path("munge.socket"))])
            .args([
                format!("--pid-file={}", path("munged.pid")),
                format!("--seed-file={}", path("munge.seed")),
            ])
            .arg(format!("--log-file={}", path("munged.log")))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        cluster.daemons.push(munged);
        await_some("munged", || cluster.path("munge.socket").exists().then_some(()));
        // Under another name than this one JWT breaks.
        let real = ["/usr/sbin/slurmctld", "/usr/sbin/slurmctld-wlm"].map(Path::new);
        let real = fs::canonicalize(real.iter().find(|p| p.exists()).unwrap()).unwrap();
        symlink(real, cluster.path("slurmctld")).unwrap();
        let slurmctld = Command::new(cluster.path("slurmctld"))
            .arg("-D")
            .env("SLURM_CONF", cluster.conf())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        cluster.daemons.push(slurmctld);
        await_some("slurmctld", || {
            let ping = Command::new("scontrol").arg("ping").env("SLURM_CONF", cluster.conf()).output();
            String::from_utf8_lossy(&ping.unwrap().stdout).contains("is UP").then_some(())
        });
        cluster.start_rest();
        cluster
    }

    /// One whose nodes are all taken, with more jobs that wait, and how many have nodes.
    fn crowded() -> (Self, usize) {
        let cluster = Self::up();
        cluster.token(600);
        let submit = |nodes: &str, more: &[&str]| {
            let arguments =
                [&["--parsable", "-N", nodes, "-o", "/dev/null", "--wrap", "sleep 600"], more].concat();
            cluster.slurm("sbatch", &arguments).trim().to_string()
        };
        (0..20).for_each(|_| drop(submit("8", &[])));
        let nodes = node_count();
        submit("1", &[&format!("--array=1-{}", nodes + nodes / 4)]);
        // All nodes are taken, the rest of the array waits.
        let jobs = 20 + nodes - 160;
        await_some("placement", || (cluster.squeue().jobs.len() == jobs).then_some(()));
        (cluster, jobs)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn conf(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    fn write_settings(&self) {
        for key in ["munge.key", "jwt.key"] {
            let mut bytes = vec![0; 1024];
            let mut random = fs::File::open("/dev/urandom").unwrap();
            std::io::Read::read_exact(&mut random, &mut bytes).unwrap();
            fs::write(self.path(key), bytes).unwrap();
            fs::set_permissions(self.path(key), fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::create_dir(self.path("state")).unwrap();
        let dir = self.dir.path().display();
        let host = run(Command::new("hostname").arg("-s"));
        let text = format!(
            "ClusterName=rest\nSlurmctldHost={}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={dir}/munge.socket\nCredType=cred/munge\n\
             AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={dir}/jwt.key\n\
             StateSaveLocation={dir}/state\nSlurmctldPidFile={dir}/slurmctld.pid\nSlurmctldLogFile={dir}/slurmctld.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             MpiDefault=none\nSwitchType=switch/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             MaxJobCount=20000\nMaxArraySize=10001\nMailProg=/bin/true\nSchedulerParameters=defer_batch,sched_min_interval=0,sched_interval=2,default_queue_depth=5000,bf_interval=2,bf_max_job_test=5000\n\
             ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=3600\nResumeTimeout=3600\nTreeWidth=65533\n\
             NodeName=n[1-{nodes}],spare[1-{SPARE}] CPUs=1 RealMemory=64 State=CLOUD\n\
             PartitionName=all Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP\n\
             PartitionName=spare Nodes=spare[1-{SPARE}] MaxTime=INFINITE State=UP\n",
            host.trim(),
            free_port(),
            nodes = node_count()
        );
        fs::write(self.conf(), text).unwrap();
    }

    fn start_rest(&mut self) {
        let dir = self.dir.path().display().to_string();
        let socket = self.path("restd");
        if !socket.exists() {
            fs::create_dir(&socket).unwrap();
            fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let _ = fs::remove_file(socket.join("socket"));
        let mut rest = slurmrestd(&self.conf(), &self.path("slurmrestd.log"), "rest_auth/jwt");
        rest.args([format!("127.0.0.1:{}", self.port), format!("unix:{dir}/restd/socket")]);
        self.rest = Some(Running::spawn(rest.env("SLURM_JWT", "daemon")));
        await_some("slurmrestd", || std::net::TcpStream::connect(("127.0.0.1", self.port)).ok());
    }

    fn stop_rest(&mut self) {
        self.rest = None;
    }

    fn slurm(&self, program: &str, arguments: &[&str]) -> String {
        run(Command::new(program).args(arguments).env("SLURM_CONF", self.conf()))
    }

    /// Writes a token that is good for so many seconds.
    fn token(&self, seconds: u32) {
        let text = self.slurm("scontrol", &["token", "username=root", &format!("lifespan={seconds}")]);
        fs::write(self.path("token"), text).unwrap();
        fs::set_permissions(self.path("token"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn rest(&self, pause: Duration, unix: bool) -> Slurmrestd {
        let url = match unix {
            true => RestUrl::Unix(self.path("restd/socket")),
            false => RestUrl::Tcp(format!("http://127.0.0.1:{}", self.port)),
        };
        let settings = Rest { url, user: Some("root".into()), token_file: Some(self.path("token")) };
        Slurmrestd::new(settings, LONG, 256 << 20, pause)
    }

    fn poll(&self, source: &mut dyn JobSource) -> Result<JobMap, PollError> {
        self.runtime.block_on(source.poll(DateTime::<Utc>::UNIX_EPOCH))
    }

    fn squeue(&self) -> JobMap {
        let conf = self.conf();
        let mut squeue = Squeue::new("squeue", SqueueFormat::Text, LONG, 256 << 20)
            .with_variable("SLURM_CONF", conf.to_str().unwrap());
        self.poll(&mut squeue).unwrap()
    }

    /// Asserts that both sources see the same, in a moment in which squeue sees no change.
    fn assert_same(&self, rest: &mut Slurmrestd) -> usize {
        await_some("a moment without changes", || {
            let before = self.squeue();
            let found = self.poll(rest).unwrap();
            (before == self.squeue()).then(|| {
                assert_eq!(found, before);
                found.jobs.len()
            })
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop_rest();
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Starts a job on free nodes, cancels one that has nodes and, from the second round on, takes the
/// nodes of the round before away, which ends their job. Returns squeue's map before and after.
fn change(cluster: &Cluster, round: usize, last: &mut Option<JobId>) -> (JobMap, JobMap) {
    let before = cluster.squeue();
    // Nobody is there to clean up after a cancelled job: it may look the same for a while.
    let mut waiting = before.jobs.iter().filter(|j| j.state == JobState::Configuring);
    let victim = waiting.nth(node_count() / 16 * round).unwrap();
    cluster.slurm("scancel", &[victim.id.as_str()]);
    let arguments = ["--parsable", "-p", "spare", "-N", "2", "-o", "/dev/null", "--wrap", "sleep 600"];
    let new = cluster.slurm("sbatch", &arguments).trim().parse::<JobId>().unwrap();
    if let Some(last) = &last {
        let job = before.jobs.iter().find(|j| j.id == *last).unwrap();
        let names: Vec<&str> = job.nodes.iter().map(|n| n.as_str()).collect();
        let nodes = format!("NodeName={}", names.join(","));
        cluster.slurm("scancel", &[last.as_str()]);
        cluster.slurm("scontrol", &["update", &nodes, "State=DOWN", "Reason=away"]);
    }
    let after = await_some("the change in squeue", || {
        let now = cluster.squeue();
        let has = |id: &JobId| now.jobs.iter().any(|j| j.id == *id);
        (has(&new) && !last.as_ref().is_some_and(has)).then_some(now)
    });
    *last = Some(new);
    (before, after)
}

/// Asks without a break while jobs begin and end: at most one full query per interval, and after
/// each interval everything is there.
fn nothing_is_missed(cluster: &Cluster) {
    let interval = Duration::from_secs(1);
    let mut storm = cluster.rest(interval, false);
    let begun = Instant::now();
    let (mut polls, mut seen, mut last) = (0, 0, None);
    for round in 0..ROUNDS {
        let (before, after) = change(cluster, round, &mut last);
        assert_ne!(before, after);
        let changed = Instant::now();
        while changed.elapsed() < interval {
            cluster.poll(&mut storm).unwrap();
            polls += 1;
            std::thread::sleep(Duration::from_millis(40));
        }
        let begun = Instant::now();
        loop {
            polls += 1;
            let now = cluster.squeue();
            let found = cluster.poll(&mut storm).unwrap();
            if found == now {
                seen += usize::from(found != before);
                break;
            }
            let other = |a: &JobMap, b: &JobMap| {
                a.jobs.iter().filter(|j| !b.jobs.contains(j)).take(3).cloned().collect::<Vec<_>>()
            };
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "squeue has {:?}, slurmrestd {:?}, {:?}",
                other(&now, &found),
                other(&found, &now),
                storm.queries()
            );
        }
    }
    let intervals = begun.elapsed().as_secs_f64() / interval.as_secs_f64();
    let asked = storm.queries();
    eprintln!("{polls} polls in {intervals:.1} intervals, {seen} changes seen: {asked:?}");
    assert!(asked.full as f64 <= intervals + 1.0, "{asked:?} in {intervals} intervals");
    assert!(seen >= 5, "only {seen} changes, {asked:?}");
    assert!(polls > asked.full, "each look was a full query: {polls}, {asked:?}");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn slurmrestd_and_squeue_tell_the_same() {
    let (cluster, jobs) = Cluster::crowded();
    for unix in [false, true] {
        let mut rest = cluster.rest(Duration::ZERO, unix);
        // The second time it tells when it asked before.
        (0..2).for_each(|_| assert_eq!(cluster.assert_same(&mut rest), jobs));
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn of_slurmrestd_nothing_is_missed_and_little_is_asked() {
    let (mut cluster, jobs) = Cluster::crowded();
    let mut rest = cluster.rest(Duration::ZERO, false);
    cluster.assert_same(&mut rest);

    // Nothing changes: 304.
    let full = rest.queries().full;
    // Not asked at all: those of the answer before, and as old.
    let mut seldom = cluster.rest(Duration::from_secs(3600), false);
    let [first, again] = [(); 2].map(|()| cluster.poll(&mut seldom).unwrap());
    assert_eq!((seldom.queries().full, again.known_at(), &again.jobs), (1, first.time, &first.jobs));
    await_some("an answer 304", || {
        cluster.poll(&mut rest).unwrap();
        (rest.queries().unchanged >= 3).then_some(())
    });
    eprintln!("{jobs} jobs, {:?} after {full} full answers", rest.queries());

    nothing_is_missed(&cluster);

    // It goes away and comes back.
    cluster.stop_rest();
    assert!(matches!(cluster.poll(&mut rest), Err(PollError::Source(error)) if error.is::<RestError>()));
    cluster.start_rest();
    cluster.assert_same(&mut rest);

    // A token that has expired, one that others can read, and a new one.
    cluster.token(1);
    std::thread::sleep(Duration::from_secs(3));
    // It answers, but with no jobs.
    let error = cluster.poll(&mut rest).unwrap_err();
    eprintln!("expired: {error}");
    let PollError::Source(error) = error else { panic!("{error:?}") };
    assert!(matches!(error.downcast_ref(), Some(RestError::Refused { .. })), "{error:?}");
    fs::set_permissions(cluster.path("token"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = cluster.poll(&mut rest).unwrap_err().to_string();
    assert!(error.contains("mode is 644"), "{error}");
    cluster.token(600);
    cluster.assert_same(&mut rest);
}
