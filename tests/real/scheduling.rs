//! What node selection inside the scheduler costs it when nobody answers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::placement::{Cluster, plugin, with_plugin};
use crate::testbed::{plugin_dir, root, run};

/// What is at the other end of the plugin's socket.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Service {
    Stopped,
    Hung,
    Rubbish,
}

/// Plays a service. Ends with the test.
fn play(service: Service, socket: &Path) {
    if service == Service::Stopped {
        return;
    }
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            if service == Service::Rubbish {
                let mut answer = stream.try_clone().unwrap();
                std::thread::spawn(move || {
                    let mut kinds =
                        ["1 7 nodes n1\n", "\0\0\0\n", "HTTP/1.1 200 OK\r\n\r\n", "1 "].iter().cycle();
                    for _ in BufReader::new(stream).lines().map_while(Result::ok) {
                        let _ = answer.write_all(kinds.next().unwrap().as_bytes());
                    }
                });
            } else {
                open.push(stream);
            }
        }
    });
}

/// What one run of the scheduler over the whole queue cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Milliseconds of processor time of slurmctld, all threads, from the release to the last start.
    cpu: f64,
    /// Milliseconds of its main scheduling cycles by the clock.
    cycles: f64,
}

/// A queue of jobs on paper nodes that can be scheduled again and again.
struct Queue {
    cluster: Cluster,
    jobs: usize,
}

impl Queue {
    /// Submits while the partition is down, and keeps slurmctld's state of then.
    fn new(fabric: &str, options: &[&str], jobs: usize) -> Self {
        let cluster = with_plugin(fabric, options, plugin());
        cluster.bed.slurm("scontrol", &["update", "PartitionName=all", "State=DOWN"]);
        let script = cluster.bed.path().join("job.sh");
        fs::write(&script, "#!/bin/sh\nsleep 1000\n").unwrap();
        let submit = format!(
            "for ((i = 0; i < {jobs}; i++)); do sbatch -N2 --comment=routing=prefer -o /dev/null {} >/dev/null || exit 1; done",
            script.display()
        );
        cluster.bed.slurm("bash", &["-c", &submit]);
        cluster.testbed("stop");
        let queue = Self { cluster, jobs };
        run(Command::new("cp").arg("-a").arg(queue.state()).arg(queue.saved()));
        queue
    }

    fn state(&self) -> PathBuf {
        self.cluster.bed.path().join("slurm/state")
    }

    fn saved(&self) -> PathBuf {
        self.cluster.bed.path().join("slurm/saved")
    }

    /// Lets slurmctld at the queue once more, with plugins from `first` before the stock ones; where
    /// the jobs went, and what it cost. Ends with slurmctld stopped.
    fn schedule(&self, first: &Path) -> (Vec<String>, Cost) {
        let cluster = &self.cluster;
        let conf = cluster.bed.path().join("slurm/slurm.conf");
        let text = fs::read_to_string(&conf).unwrap();
        let line = plugin_dir(first);
        let lines = text.lines().map(|l| if l.starts_with("PluginDir=") { line.as_str() } else { l });
        fs::write(&conf, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
        fs::remove_dir_all(self.state()).unwrap();
        run(Command::new("cp").arg("-a").arg(self.saved()).arg(self.state()));
        cluster.testbed("start");
        let pid = fs::read_to_string(cluster.bed.path().join("run/slurmctld.pid")).unwrap();
        cluster.bed.slurm("sdiag", &["--reset"]);
        let before = cpu_milliseconds(pid.trim());
        cluster.bed.slurm("scontrol", &["update", "PartitionName=all", "State=UP"]);
        // Asked seldom: answering costs slurmctld processor time too.
        let begun = Instant::now();
        while cluster.bed.slurm("squeue", &["-h", "-t", "R,CF", "-o", "%A"]).lines().count() < self.jobs {
            assert!(begun.elapsed() < Duration::from_secs(240), "not all jobs start");
            std::thread::sleep(Duration::from_secs(1));
        }
        let cpu = cpu_milliseconds(pid.trim()) - before;
        let text = cluster.bed.slurm("sdiag", &[]);
        let main = text.split("Main schedule statistics").nth(1).unwrap();
        let number = |key: &str| -> f64 {
            let line = main.lines().find(|l| l.trim_start().starts_with(key));
            line.unwrap_or_else(|| panic!("{text}")).split(':').nth(1).unwrap().trim().parse().unwrap()
        };
        let cycles = number("Total cycles:") * number("Mean cycle:") / 1000.0;
        let placed = cluster.bed.slurm("squeue", &["-h", "-t", "R,CF", "-o", "%A %N"]);
        let mut places: Vec<String> = placed.lines().map(String::from).collect();
        places.sort();
        cluster.testbed("stop");
        (places, Cost { cpu, cycles })
    }
}

/// Processor time of all threads of a process so far, as the kernel's scheduler counts it.
fn cpu_milliseconds(pid: &str) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0)
    };
    tasks.flatten().map(of).sum::<f64>() / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What `ask_check` says of one kind of service.
#[derive(Debug)]
struct Asked {
    questions: u64,
    answered: u64,
    /// Microseconds spent in all, and the most in any 1.2 s.
    spent: u64,
    most: u64,
    /// Milliseconds until the first answer.
    first: Option<u64>,
}

/// The plugin's own code and counters, on a clock that only the other side moves.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn waiting_for_a_service_is_bounded_whatever_it_does() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("ask_check");
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-fsanitize=address,undefined", "-o"])
        .arg(&program)
        .arg(root().join("plugin/slurm/common/ask_check.c")));
    let bad = ["hangs", "slow", "rubbish", "trickles", "stopped"];
    let mut command = Command::new(program);
    command.arg(directory.path().join("select.sock")).arg("answers:3000");
    command.args(bad.iter().flat_map(|how| [format!("{how}:60000"), "answers:5000".to_string()]));
    let text = run(&mut command);
    let mut lines = text.lines().map(|line| {
        let (how, numbers) = line.split_once(' ').unwrap();
        let n: Vec<i64> = numbers.split(' ').map(|n| n.parse().unwrap()).collect();
        let asked = Asked {
            questions: n[0] as u64,
            answered: n[1] as u64,
            spent: n[2] as u64,
            most: n[3] as u64,
            first: u64::try_from(n[4]).ok(),
        };
        (how, asked)
    });
    let healthy = lines.next().unwrap().1;
    // A question at nearly every millisecond, each answered.
    assert!(healthy.questions > 2_800 && healthy.answered == healthy.questions, "{healthy:?}");
    for how in bad {
        let (name, asked) = lines.next().unwrap();
        assert_eq!(name, how);
        // 20 ms and 1 % of the span.
        assert!(asked.most <= 20_000 + 12_000 && asked.spent <= 20_000 + 600_000, "{how}: {asked:?}");
        match how {
            // In 60 s, asked again every 2 s.
            "hangs" | "rubbish" | "stopped" => {
                assert!(asked.answered == 0 && (30..=31).contains(&asked.questions), "{how}: {asked:?}");
            }
            // What there is to spend is spent on answers.
            "slow" => assert!(asked.answered >= 200, "{asked:?}"),
            _ => assert!(asked.answered > 0, "{asked:?}"),
        }
        let (_, after) = lines.next().unwrap();
        assert!(after.first.is_some_and(|ms| ms <= 2_000), "after {how}: {after:?}");
        assert!(after.answered == after.questions && after.questions > 2_500, "after {how}: {after:?}");
    }
}

/// Compares the places, and prints what scheduling costs: with `SAROUTER_JOBS=1000 SAROUTER_ROUNDS=7`
/// enough of it to tell.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn without_a_service_jobs_go_where_plain_cons_tres_puts_them() {
    let asked = |name: &str, usual: usize| std::env::var(name).map_or(usual, |n| n.parse().unwrap());
    let (jobs, rounds) = (asked("SAROUTER_JOBS", 250), asked("SAROUTER_ROUNDS", 1));
    let deep = "SchedulerParameters=default_queue_depth=2000,max_sched_time=30,sched_max_job_start=0,batch_sched_delay=1";
    let queue = Queue::new("fattree:56x36,36", &["--cloud", "--slurm-line", deep], jobs);
    let stock = tempfile::tempdir().unwrap();
    let mut plain = Vec::new();
    let mut rows: Vec<(Service, Vec<Cost>)> =
        [Service::Stopped, Service::Hung, Service::Rubbish].map(|s| (s, Vec::new())).into();
    let mut places: Option<Vec<String>> = None;
    let mut same = |who: &str, found: Vec<String>| match &places {
        Some(places) => assert!(*places == found, "{who}: other places than plain cons_tres"),
        None => places = Some(found),
    };
    // The machine's other work comes and goes: each kind is measured in every round.
    for _ in 0..rounds {
        let (found, cost) = queue.schedule(stock.path());
        eprintln!("plain: {cost:.0?} ms");
        same("plain", found);
        plain.push(cost);
        for (service, costs) in &mut rows {
            let _ = fs::remove_file(queue.cluster.socket());
            play(*service, &queue.cluster.socket());
            let log = queue.cluster.slurmctld_log().len();
            let (found, cost) = queue.schedule(plugin());
            same(&format!("{service:?}"), found);
            assert!(queue.cluster.slurmctld_log()[log..].contains("sarouter: no answer"), "{service:?}");
            eprintln!("{service:?}: {cost:.0?} ms");
            costs.push(cost);
        }
    }
    eprintln!("plain cons_tres, {jobs} jobs: {plain:.0?} ms");
    for (service, costs) in &rows {
        let ratio = |of: fn(&Cost) -> f64| -> Vec<f64> {
            costs.iter().zip(&plain).map(|(c, p)| of(c) / of(p)).collect()
        };
        let (cpu, cycles) = (ratio(|c| c.cpu), ratio(|c| c.cycles));
        eprintln!(
            "{service:?}: {costs:.0?} ms; to plain in the same round: processor time {cpu:.3?}, median \
             {:.3}; cycles {cycles:.3?}, median {:.3}",
            median(cpu.clone()),
            median(cycles.clone()),
        );
    }
}
