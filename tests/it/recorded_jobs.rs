//! What real batch systems answered: Slurm 23.02 to 25.11, Flux, OpenPBS.

use std::path::{Path, PathBuf};

use sarouter::model::{Component, JobId, JobMap, JobState};
use sarouter::observe::jobs;

use crate::jobs::{at, job};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn data(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

const NOW: i64 = 1_795_700_000;

fn read(name: &str) -> JobMap {
    jobs::parse(&data(name), "x", at(NOW)).unwrap()
}

fn refused(text: &str) -> String {
    jobs::parse(text, "x", at(NOW)).unwrap_err().to_string()
}

/// A suspended job and the task of an array, whose limit Slurm says is a year. A heterogeneous job without any, and one
/// with a limit of 30 minutes. One more task waits and one job was cancelled.
fn cluster(first: i64, second: i64) -> JobMap {
    let year = Some(at(first + 365 * 86_400));
    let part = |offset| Some(Component { of: JobId::new("5").unwrap(), offset });
    let jobs = vec![
        job("2", JobState::Suspended, &["n3", "n7"], Some(first)).ending(year),
        job("4", JobState::Running, &["n4"], Some(first)).ending(year),
        job("5", JobState::Running, &["n1"], Some(second)).part_of(part(0)),
        job("6", JobState::Running, &["n2", "n5"], Some(second)).part_of(part(1)),
        job("7", JobState::Running, &["n6"], Some(second)).ending(Some(at(second + 1800))),
    ];
    JobMap::new(at(NOW), jobs)
}

/// `squeue --json`, its text and slurmrestd's newest version, of one moment.
#[test]
fn every_slurm_since_23_11_says_the_same_in_each_form() {
    let begun = [
        ("23.11", 1_795_648_337, 1_795_648_341),
        ("24.05", 1_795_648_310, 1_795_648_314),
        ("25.11", 1_795_648_294, 1_795_648_298),
    ];
    for (version, first, second) in begun {
        let wanted = cluster(first, second);
        assert_eq!(read(&format!("slurm/squeue-{version}.json")), wanted, "{version}");
        assert_eq!(read(&format!("slurm/slurmrestd-{version}.json")), wanted, "{version}");
        let text = data(&format!("slurm/squeue-{version}.txt"));
        assert_eq!(jobs::squeue_lines(&text, "squeue", at(NOW)).unwrap(), wanted, "{version}");
    }
}

/// It listed the first of seven jobs, and exited 0.
#[test]
fn half_an_answer_of_slurm_23_02_is_refused_with_what_to_do() {
    let text = data("slurm/squeue-23.02-no-slurmdbd.json");
    assert_eq!(text.matches("\"job_id\"").count(), 1);
    let why = "this version prints jobs as JSON only where it has slurmdbd; use squeue_format = \"text\"";
    assert_eq!(refused(&text), format!("x: Slurm reports: {why}"));
}

#[test]
fn jobs_of_flux_are_read() {
    let wanted = vec![
        job("27346862080", JobState::Running, &["n1", "n2", "n3", "n4"], Some(1_795_647_166))
            .ending(Some(at(1_795_650_766))),
        job("31608274944", JobState::Running, &["n1", "n2"], Some(1_795_647_167)),
        job("34124857344", JobState::Running, &["n3"], Some(1_795_647_167)).ending(Some(at(1_795_648_967))),
    ];
    assert_eq!(read("other/flux-0.74-active.json"), JobMap::new(at(NOW), wanted));
    let wanted = vec![
        job("56304336896", JobState::Running, &["n1", "n2", "n3", "n4"], Some(1_795_647_248))
            .ending(Some(at(1_795_650_848))),
        job("61874372608", JobState::Running, &["n5", "n6"], Some(1_795_647_248)),
        job("65800241152", JobState::Completing, &["n7", "n8"], Some(1_795_647_249)),
    ];
    assert_eq!(read("other/flux-0.74-running.json"), JobMap::new(at(NOW), wanted));
    assert!(jobs::parse("{\"jobs\": []}", "flux", at(NOW)).unwrap().jobs.is_empty());
    let error = refused(&data("other/flux-0.74-running.json").replace("n[5-6]", "n[5-"));
    assert!(error.starts_with("x:1: job 61874372608: "), "{error}");
}

/// With 1,100 jobs waiting, `flux jobs -A --json` printed a thousand of these and none that ran.
#[test]
fn a_full_list_of_flux_is_refused_unless_it_reaches_those_that_are_over() {
    let list = |count: usize, last: &str| {
        let job = |id: usize, state: &str| format!(r#"{{"t_submit": 1.5, "id": {id}, "state": "{state}"}}"#);
        let jobs: Vec<String> =
            (0..count).map(|id| job(id, if id + 1 == count { last } else { "SCHED" })).collect();
        format!("{{\"jobs\": [{}]}}", jobs.join(", "))
    };
    let error = refused(&list(1000, "SCHED"));
    assert!(error.starts_with("x:1: 1000 jobs, which is all") && error.contains("-c 0"), "{error}");
    for good in [list(999, "SCHED"), list(1001, "SCHED"), list(1000, "INACTIVE")] {
        assert!(jobs::parse(&good, "x", at(NOW)).unwrap().jobs.is_empty());
    }
}

#[test]
fn jobs_of_pbs_are_read() {
    let running = |id: &str, nodes: &[&str]| job(id, JobState::Running, nodes, None);
    let wanted = vec![
        running("0.head", &["n1", "n2"]),
        job("1.head", JobState::Suspended, &["n1", "n2"], None),
        running("3[1].head", &["n3"]),
        running("3[2].head", &["n3"]),
        running("3[3].head", &["n4"]),
    ];
    // With the array job itself, one that is held, one that waits, and, in the history, two that are over.
    for (name, time) in [("tasks", 1_795_648_532), ("history", 1_795_648_532)] {
        let found = read(&format!("other/qstat-23.06-{name}.json"));
        assert_eq!(found, JobMap::new(at(time), wanted.clone()), "{name}");
    }
    // Laid out anew by another program, too.
    let value: serde_json::Value = serde_json::from_str(&data("other/qstat-23.06-tasks.json")).unwrap();
    for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
        assert_eq!(jobs::parse(&text, "x", at(NOW)).unwrap().jobs, wanted);
    }
    // No job at all: the key is not there.
    assert!(read("other/qstat-23.06-none.json").jobs.is_empty());
    let text = data("other/qstat-23.06-tasks.json").replace("+n2/0*2", "+n 2/0*2");
    let error = refused(&text);
    assert!(error.starts_with("x:1: job 0.head: "), "{error}");
}

#[test]
fn tasks_of_an_array_that_are_not_there_are_missed() {
    let error = refused(&data("other/qstat-23.06-no-tasks.json"));
    assert_eq!(
        error,
        "x:1: job 3[].head: the tasks of the array are missing; `qstat -t -f -F json` has them"
    );
}

/// `qsub -N nan`, and a backslash in a variable: what qstat prints then is no JSON.
#[test]
fn what_users_of_pbs_say_hides_no_job() {
    for (name, other) in [("nan", "1.head"), ("backslash", "8.head")] {
        let text = data(&format!("other/qstat-23.06-{name}.json"));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_err(), "{name}");
        let found = jobs::parse(&text, "x", at(NOW)).unwrap();
        let wanted = [
            job("0.head", JobState::Running, &["n1", "n2"], None),
            job(other, JobState::Running, &["n1"], None),
        ];
        assert_eq!(found.jobs, wanted, "{name}");
    }
    // Nor does what is no UTF-8, in a file or in the spool.
    let directory = tempfile::tempdir().unwrap();
    let text = data("other/qstat-23.06-nan.json").into_bytes();
    let text: Vec<u8> = text.iter().map(|b| if *b == b'@' { 0xe9 } else { *b }).collect();
    std::fs::write(directory.path().join("jobs"), &text).unwrap();
    let file = directory.path().join("jobs");
    assert_eq!(jobs::load(file.to_str().unwrap()).unwrap().jobs.len(), 2);
    let spooled = sarouter::observe::spool::read(directory.path(), "jobs", 1 << 20).unwrap();
    assert_eq!(jobs::parse(&spooled, "x", at(NOW)).unwrap().jobs.len(), 2);
}

/// Cut short at any line, or with a job twice, it is no answer.
#[test]
fn half_an_answer_of_pbs_is_refused() {
    let text = data("other/qstat-23.06-nan.json");
    let lines: Vec<&str> = text.trim_end().lines().collect();
    for count in 4..lines.len() {
        let error = refused(&lines[..count].join("\n"));
        assert!(error.ends_with("the text ends too soon"), "{count}: {error}");
    }
    let twice = text.replace("\"1.head\":{", "\"0.head\":{");
    assert_eq!(refused(&twice), "x:1: job 0.head: it is there twice");
}
