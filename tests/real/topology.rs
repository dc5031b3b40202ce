//! Node selection through a topology plugin, on a Slurm that has the hook (24.05 and later): the shadow of
//! the site's own `topology/tree`, what it leaves to it, and what happens without it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use sarouter::model::NodeName;

use crate::placement::{BUSY, BUSY_LINE, Cluster, NODES, names, with_changed_version, with_plugin};
use crate::testbed::{await_some, plugin_dir, root, run, slurm_version};

/// Two islands of 16 nodes, four leaves of the fabric each.
const ISLANDS: &str = "SwitchName=island0 Nodes=n[1-16]\nSwitchName=island1 Nodes=n[17-32]\n\
                       SwitchName=top Switches=island[0-1]\n";

fn build(out: &Path) -> Command {
    let mut command = Command::new(root().join("plugin/slurm/topology/build"));
    command.arg(out);
    command
}

/// The plugins, built once for all tests; `None` on a Slurm without the hook, which is told so.
fn plugins() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("topology");
        if slurm_version() >= (24, 5) {
            run(&mut build(&out));
            return Some(out);
        }
        let refused = build(&out).output().unwrap();
        let reason = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{reason}");
        assert!(reason.contains("from Slurm 24.05 on") && reason.contains("plugin/slurm/select"), "{reason}");
        None
    });
    built.as_deref()
}

/// A cluster of two islands with `topology/tree`, ours from `first` before the stock one.
fn islands(first: &Path) -> Cluster {
    islands_with(first, &[])
}

fn islands_with(first: &Path, lines: &[&str]) -> Cluster {
    let conf = tempfile::tempdir().unwrap();
    let conf = conf.path().join("topology.conf");
    fs::write(&conf, ISLANDS).unwrap();
    let more = ["--slurm-file", conf.to_str().unwrap(), "--slurm-line", "TopologyPlugin=topology/tree"];
    let debug = ["--slurm-line", "SlurmdDebug=debug3", "--slurm-line", "SlurmctldDebug=debug3"];
    with_plugin(NODES, &[&more[..], &debug, lines].concat(), first)
}

/// The nodes of a job that is cancelled again, and how long it waited for them.
fn placed(cluster: &Cluster, words: &[&str], tag: Option<&str>) -> (BTreeSet<NodeName>, Duration) {
    let begun = Instant::now();
    let job = cluster.submit(words, tag);
    let nodes = cluster.nodes(&job);
    let waited = begun.elapsed();
    cluster.bed.slurm("scancel", &[&job]);
    await_some("its nodes to be idle", || {
        let state = cluster.bed.slurm("squeue", &["-h", "-j", &job, "-t", "all", "-o", "%T"]);
        state.contains("CANCELLED").then_some(())
    });
    (nodes, waited)
}

/// A job that requires its set, of which it is told that there is none, and waits. The plugin waits 20 ms for an answer: on
/// a busy machine one may come too late, and that job starts.
fn waiting(cluster: &Cluster, nodes: &str) -> String {
    let job = (0..8).find_map(|_| {
        let job = cluster.submit(&[nodes], Some("require"));
        std::thread::sleep(Duration::from_secs(5));
        let waits = cluster.state(&job).0 == "PENDING";
        if !waits {
            cluster.bed.slurm("scancel", &[&job]);
        }
        waits.then_some(job)
    });
    job.expect("its set was not there")
}

/// The process of a daemon of the bed and the files that it has mapped.
fn maps(cluster: &Cluster, daemon: &str) -> String {
    let pid = fs::read_to_string(cluster.bed.path().join(format!("run/{daemon}.pid"))).unwrap();
    fs::read_to_string(format!("/proc/{}/maps", pid.trim())).unwrap()
}

/// Takes questions and answers none; how many connections came.
fn hang(socket: &Path) -> &'static AtomicUsize {
    let count: &'static AtomicUsize = Box::leak(Box::default());
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut open: Vec<UnixStream> = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::SeqCst);
            open.push(stream);
        }
    });
    count
}

/// A service that answers a question by the number of nodes asked for; ends, with its connections, when the
/// result is called.
fn answer(socket: PathBuf, words: fn(&str) -> &'static str) -> impl FnOnce() {
    let listener = UnixListener::bind(&socket).unwrap();
    let open: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
    let streams = Arc::clone(&open);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut answer = stream.try_clone().unwrap();
            streams.lock().unwrap().push(stream.try_clone().unwrap());
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let asked: Vec<&str> = line.split(' ').collect();
                    let _ = answer.write_all(format!("1 {} {}\n", asked[1], words(asked[2])).as_bytes());
                }
            });
        }
    });
    move || {
        fs::remove_file(socket).unwrap();
        // One that the plugin has closed before is not there to be closed.
        open.lock().unwrap().iter().for_each(|s| drop(s.shutdown(Shutdown::Both)));
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_job_follows_the_preference_through_the_topology_plugin() {
    let Some(plugins) = plugins() else { return };
    let mut cluster = islands(plugins);
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    let (stock, _) = placed(&cluster, &["-N8"], None);
    let (island, _) = placed(&cluster, &["-N8", "--switches=1"], None);
    cluster.serve();
    await_some("the socket", || cluster.socket().exists().then_some(()));
    let preferred = cluster.preferred(BUSY_LINE, 8);
    assert_ne!(stock, preferred, "the stock plugin would have done");
    cluster.prefers_when_released(&preferred);
    // At once, for a number of nodes that is kept ready; one that does not ask goes where it went.
    let preferred = cluster.preferred(BUSY_LINE, 4);
    cluster.follows(&preferred, 2, || placed(&cluster, &["-N4"], Some("prefer")).0);
    assert_eq!(placed(&cluster, &["-N8"], None).0, stock);
    // Whoever asks for few switches is left to the stock plugin.
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(placed(&cluster, &["-N8", "--switches=1"], Some("prefer")).0, island);
    // One that requires what cannot be had is taken, and waits.
    let large = cluster.submit(&["-N27"], Some("require"));
    cluster.await_reason(&large, "Resources");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(cluster.state(&large).0, "PENDING");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_job_that_requires_its_set_waits_for_it_and_for_no_dead_service() {
    let Some(plugins) = plugins() else { return };
    let cluster = islands(plugins);
    // A service that never has anything to recommend.
    let stop = answer(cluster.socket(), |_| "none");
    let (_, prompt) = placed(&cluster, &["-N8"], Some("prefer"));
    assert!(prompt < Duration::from_secs(20), "{prompt:?}");
    let job = waiting(&cluster, "-N8");
    // The tag is taken away, then the service.
    let other = waiting(&cluster, "-N4");
    cluster.bed.slurm("scontrol", &["update", &format!("JobId={job}"), "AdminComment=none"]);
    assert_eq!(cluster.nodes(&job).len(), 8);
    stop();
    assert_eq!(cluster.nodes(&other).len(), 4);
}

/// Its set is on nodes of jobs that it may preempt, and others are free.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_job_that_requires_its_set_preempts_nobody_for_it() {
    let Some(plugins) = plugins() else { return };
    let low = tempfile::tempdir().unwrap();
    let low = low.path().join("low.conf");
    fs::write(&low, "PartitionName=low Nodes=ALL PriorityTier=0 MaxTime=INFINITE State=UP\n").unwrap();
    let preemption = ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", "Include low.conf"];
    let lines = preemption.iter().flat_map(|line| ["--slurm-line", *line]);
    let lines: Vec<&str> = ["--slurm-file", low.to_str().unwrap()].into_iter().chain(lines).collect();
    let cluster = islands_with(plugins, &lines);
    let _stop = answer(cluster.socket(), |_| "nodes n1,n2,n3,n4,n5,n6,n7,n8");
    let other = cluster.submit(&["-p", "low", "-N16", "-w", "n[1-16]"], None);
    cluster.nodes(&other);
    let job = waiting(&cluster, "-N8");
    assert_eq!(cluster.state(&other).0, "RUNNING");
    // Nothing keeps it from free nodes, nor from others', without the tag.
    cluster.bed.slurm("scontrol", &["update", &format!("JobId={job}"), "AdminComment=none"]);
    assert_eq!(cluster.nodes(&job).len(), 8);
    assert_eq!(cluster.state(&other).0, "RUNNING");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn without_a_service_or_without_the_plugin_jobs_start_as_stock_ones() {
    let Some(plugins) = plugins() else { return };
    let cluster = islands(plugins);
    let ours = plugins.join("topology_tree.so");
    for daemon in ["slurmctld", "slurmd-n1", "slurmd-n32"] {
        assert!(maps(&cluster, daemon).contains(ours.to_str().unwrap()), "{daemon} has not loaded it");
    }
    // Clients load it too, and complain of nothing.
    let conf = cluster.bed.path().join("slurm/slurm.conf");
    let client =
        Command::new("scontrol").args(["-vvvvv", "show", "topology"]).env("SLURM_CONF", &conf).output();
    let client = client.unwrap();
    let errors = String::from_utf8_lossy(&client.stderr).into_owned();
    assert!(client.status.success() && !errors.contains("error"), "{errors}");
    let shown = String::from_utf8_lossy(&client.stdout).into_owned();
    assert!(shown.contains("SwitchName=island1") && shown.contains("Nodes=n[17-32]"), "{shown}");
    let steps = cluster.bed.slurm("srun", &["-N8", "--comment=routing=prefer", "hostname"]);
    assert_eq!(steps.lines().count(), 8);

    let (stock, _) = placed(&cluster, &["-N8"], None);
    let (stopped, waited) = placed(&cluster, &["-N8"], Some("prefer"));
    assert_eq!(stopped, stock);
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    assert!(cluster.slurmctld_log().contains("sarouter: no answer"), "nobody was asked");
    let connections = hang(&cluster.socket());
    // What a question without an answer has used up is back after 2 s.
    std::thread::sleep(Duration::from_secs(3));
    let (hanging, waited) = placed(&cluster, &["-N8"], Some("require"));
    assert_eq!(hanging, stock);
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    assert!(connections.load(Ordering::SeqCst) > 0, "the hanging service was not asked");

    // A job runs on while it is taken out.
    let job = cluster.submit(&["-N4"], Some("prefer"));
    let nodes = cluster.nodes(&job);
    let text = fs::read_to_string(&conf).unwrap();
    let none = tempfile::tempdir().unwrap();
    let lines = text.lines().map(|l| match l.starts_with("PluginDir=") {
        true => plugin_dir(none.path()),
        false => l.to_string(),
    });
    fs::write(&conf, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    cluster.testbed("stop");
    cluster.testbed("start");
    assert!(!maps(&cluster, "slurmctld").contains(ours.to_str().unwrap()));
    assert_eq!(cluster.nodes(&job), nodes);
    cluster.bed.slurm("scancel", &[&job]);
    let states = || cluster.bed.slurm("sinfo", &["-h", "-o", "%t %D"]);
    await_some("all nodes to be idle", || (states().trim() == "idle 32").then_some(()));
    assert_eq!(placed(&cluster, &["-N8"], Some("prefer")).0, stock);
    let errors: Vec<String> = ["slurmctld", "slurmd-n1"]
        .iter()
        .flat_map(|name| {
            let log = fs::read_to_string(cluster.bed.path().join(format!("log/{name}.log"))).unwrap();
            let about = log.lines().filter(|l| l.contains("error") && l.contains("topology"));
            about.map(String::from).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn topology_plugins_for_another_version_are_refused_and_the_stock_ones_used() {
    let Some(plugins) = plugins() else { return };
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("topology_tree.so"), with_changed_version(&plugins.join("topology_tree.so")))
        .unwrap();
    let cluster = islands(other.path());
    let log = cluster.slurmctld_log();
    let refused =
        log.lines().find(|l| l.contains("Incompatible Slurm plugin")).unwrap_or_else(|| panic!("{log}"));
    assert!(refused.contains("topology_tree.so"), "{refused}");
    let connections = hang(&cluster.socket());
    cluster.nodes(&cluster.submit(&["-N8"], Some("prefer")));
    assert_eq!(connections.load(Ordering::SeqCst), 0, "the refused plugin asked");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn other_topologies_are_shadowed_too_and_keep_the_last_word() {
    let Some(plugins) = plugins() else { return };
    let blocks = tempfile::tempdir().unwrap();
    let blocks = blocks.path().join("topology.conf");
    fs::write(&blocks, "BlockName=b0 Nodes=n[1-16]\nBlockName=b1 Nodes=n[17-32]\nBlockSizes=16,32\n")
        .unwrap();
    let stock = PathBuf::from(plugin_dir(Path::new("/")).rsplit(':').next().unwrap());
    // What Slurm 25.05 calls flat was default before.
    let flat =
        ["default", "flat"].into_iter().find(|n| stock.join(format!("topology_{n}.so")).exists()).unwrap();
    for kind in ["block", flat] {
        let line = format!("TopologyPlugin=topology/{kind}");
        let mut more = vec!["--slurm-line", &line];
        if kind == "block" {
            more.extend(["--slurm-file", blocks.to_str().unwrap()]);
        }
        let cluster = with_plugin(NODES, &more, plugins);
        let ours = plugins.join(format!("topology_{kind}.so"));
        assert!(maps(&cluster, "slurmctld").contains(ours.to_str().unwrap()), "{kind}");
        // Blocks are filled from the last one.
        let first = cluster.nodes(&cluster.submit(&["-N8"], None));
        assert_eq!(first, names(if kind == "block" { "n[17-24]" } else { "n[1-8]" }), "{kind}");
        let stop = answer(cluster.socket(), |nodes| match nodes {
            "6" => "nodes n11,n12,n13,n14,n15,n16",
            _ => "nodes n9,n10,n25,n26",
        });
        cluster.follows(&names("n[11-16]"), 1, || placed(&cluster, &["-N6"], Some("prefer")).0);
        // A set across blocks does not do where blocks decide, and everything is as without it.
        // Within one attempt: `--immediate` gets no other.
        let words = ["-I1", "-N4", "-J", "across", "--comment=routing=prefer", "--no-shell"];
        let across = || {
            cluster.bed.slurm("salloc", &words);
            let job = cluster.bed.slurm("squeue", &["-h", "-n", "across", "-o", "%A"]);
            let nodes = cluster.nodes(job.trim());
            cluster.bed.slurm("scancel", &[job.trim()]);
            let free = || cluster.bed.slurm("squeue", &["-h", "-n", "across"]).is_empty().then_some(());
            await_some("its end", free);
            nodes
        };
        if kind == "block" {
            let second = names("n[17-32]");
            let across = across();
            assert!(across.len() == 4 && across != names("n[9-10,25-26]"), "{across:?}");
            assert!(across.is_subset(&second) || across.is_disjoint(&second), "{across:?}");
        } else {
            cluster.follows(&names("n[9-10,25-26]"), 1, across);
        }
        stop();
    }
}
