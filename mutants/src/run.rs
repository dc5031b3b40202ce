//! Which faults the tests notice.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Seconds of tests, as they take without a fault, that a fault has to survive.
const ENOUGH: f64 = 15.0;
/// Seconds of tests in one process: the quickest first, since most faults are seen at once.
const BATCHES: [f64; 3] = [0.5, 3.0, ENOUGH];
/// Processes side by side.
const WORKERS: usize = 2;

/// A test, and what it does without a fault.
struct Test {
    binary: String,
    name: String,
    seconds: f64,
    /// Numbers of the faults that it reaches.
    reached: Vec<usize>,
}

/// Does all with `WORKERS` threads and keeps the order.
fn each<T: Sync, R: Send>(of: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = of.get(at) else { return };
                let result = work(item);
                done.lock().unwrap().push((at, result));
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Whether tests pass within a time. What they started ends with them.
fn pass(tree: &Path, binary: &str, names: &[&str], variable: (&str, &str), limit: f64) -> bool {
    let mut command = Command::new(binary);
    command.current_dir(tree).arg("--exact").args(names).env(variable.0, variable.1).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (mut child, begun) = (command.spawn().unwrap(), Instant::now());
    let mut ended = None;
    while ended.is_none() && begun.elapsed().as_secs_f64() < limit {
        sleep(Duration::from_millis(5));
        ended = child.try_wait().unwrap();
    }
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    if ended.is_none() {
        let _ = child.wait();
    }
    ended.is_some_and(|status| status.success())
}

/// The tests of a binary that run by themselves.
fn tests(tree: &Path, binary: &str) -> Vec<(String, String)> {
    let list = |more: &[&str]| {
        let mut command = Command::new(binary);
        let output =
            command.current_dir(tree).args(["--list", "--format", "terse"]).args(more).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let ignored = list(&["--ignored"]);
    let left_out = |line: &&str| !ignored.lines().any(|other| other == *line);
    let all = list(&[]);
    let names = all.lines().filter(left_out).filter_map(|line| line.strip_suffix(": test"));
    names.map(|name| (binary.to_string(), name.to_string())).collect()
}

/// Runs a test without a fault. None if it fails, as a few do in a copy of the tree.
fn observe(tree: &Path, directory: &Path, binary: &str, name: &str) -> Option<Test> {
    let file: PathBuf = directory.join(format!("{}.reached", name.replace("::", ".")));
    let _ = fs::remove_file(&file);
    let begun = Instant::now();
    let passed = pass(tree, binary, &[name], ("SAROUTER_REACHED", file.to_str().unwrap()), 600.0);
    let seconds = begun.elapsed().as_secs_f64();
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut reached: Vec<usize> = text.lines().filter_map(|line| line.parse().ok()).collect();
    reached.sort_unstable();
    reached.dedup();
    passed.then(|| Test { binary: binary.into(), name: name.into(), seconds, reached })
}

/// Whether one of the tests that reach a fault fails with it. `None` if none reaches it.
fn noticed(tree: &Path, id: usize, tests: &[Test]) -> Option<bool> {
    let mut reaching: Vec<&Test> = tests.iter().filter(|t| t.reached.binary_search(&id).is_ok()).collect();
    reaching.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    reaching.first()?;
    let (mut at, mut spent, id) = (0, 0.0, id.to_string());
    for until in BATCHES {
        let mut batch: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut seconds = 0.0;
        while at < reaching.len() && (spent + reaching[at].seconds <= until || at == 0) {
            batch.entry(&reaching[at].binary).or_default().push(&reaching[at].name);
            spent += reaching[at].seconds;
            seconds += reaching[at].seconds;
            at += 1;
        }
        let limit = 10.0 + 5.0 * seconds;
        if batch.iter().any(|(binary, names)| !pass(tree, binary, names, ("SAROUTER_MUTANT", &id), limit)) {
            return Some(true);
        }
    }
    Some(false)
}

/// Says of each fault in the list whether a test notices it; the ones that none notices are printed.
pub fn run(tree: &Path, list: &Path, binaries: &[&str]) {
    let directory = list.parent().unwrap();
    let names: Vec<(String, String)> = binaries.iter().flat_map(|binary| tests(tree, binary)).collect();
    let found = each(&names, |(binary, name)| observe(tree, directory, binary, name));
    for (name, _) in names.iter().zip(&found).filter(|(_, test)| test.is_none()) {
        eprintln!("fails without a fault: {}", name.1);
    }
    let tests: Vec<Test> = found.into_iter().flatten().collect();
    eprintln!("{} tests", tests.len());
    let text = fs::read_to_string(list).unwrap();
    let faults: Vec<(usize, &str)> =
        text.lines().map(|line| (line.split(' ').next().unwrap().parse().unwrap(), line)).collect();
    let tried = AtomicUsize::new(0);
    let results = each(&faults, |(id, line)| {
        let seen = noticed(tree, *id, &tests);
        let tried = tried.fetch_add(1, Ordering::Relaxed) + 1;
        match seen {
            Some(true) => {}
            Some(false) => println!("survives {line}"),
            None => println!("unreached {line}"),
        }
        if tried % 50 == 0 {
            eprintln!("{tried} of {}", faults.len());
        }
        seen
    });
    let count = |of: Option<bool>| results.iter().filter(|r| **r == of).count();
    let [killed, survive, unreached] = [Some(true), Some(false), None].map(count);
    println!("{} faults: {killed} noticed, {survive} survive, {unreached} reached by no test", faults.len());
}
