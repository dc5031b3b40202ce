//! `sarouter survive` and `sarouter simulate` as commands.

use std::fs;

use serde_json::Value;

use crate::program::{report, sarouter};

#[test]
fn runs_go_on_where_they_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let call = [
        "survive",
        "throughput",
        "--fabric",
        "random:8,16,20,seed=1",
        "--engines",
        "dfsssp,updown",
        "--faults",
        "0,1,3",
        "--seeds",
        "3",
        "--packets",
        "1",
        "--out",
        out,
    ];
    let first = report(".", call);
    let runs = dir.path().join("runs.jsonl");
    let whole = fs::read_to_string(&runs).unwrap();
    assert_eq!(whole.lines().count(), 2 * (1 + 3 + 3));
    let row = |n: usize| (&first["rows"][n]["runs"], first["rows"][n]["ci95"].as_f64().is_some());
    assert_eq!(
        (row(0), row(1)),
        ((&1.into(), false), (&3.into(), true)),
        "one run says nothing of the spread"
    );
    let updown = &first["regression"][1];
    assert!(updown["intercept"].as_f64().unwrap() > 0.0 && updown["fails_at"].is_null());
    assert_eq!(first["advice"][0]["from"], 0);
    assert!(first["advice"][0]["alike"].is_array(), "{}", first["advice"]);
    // Killed in the middle of a line: the rest is done again, and nothing else.
    let lines: Vec<&str> = whole.lines().collect();
    fs::write(&runs, lines[..9].join("\n") + "\n" + &lines[9][..20]).unwrap();
    assert_eq!(report(".", call), first);
    let again = fs::read_to_string(&runs).unwrap();
    assert!(again.starts_with(&(lines[..9].join("\n") + "\n")));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&again), sorted(&whole));
    // A line that is not a run.
    fs::write(&runs, "{}\n").unwrap();
    let refused = sarouter(".", call);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("runs.jsonl:1"));
}

#[test]
fn shards_in_one_directory_are_found_done_by_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let call = |out: &str, shard: &[&str]| {
        let words = "survive throughput --fabric random:8,16,20,seed=1 --engines dfsssp,updown --faults 0,1";
        let words = words.split(' ').chain(["--seeds", "3", "--packets", "1", "--out", out]);
        let done = sarouter(".", words.chain(shard.iter().copied()).collect::<Vec<_>>());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let whole = call(&at("whole"), &[]);
    for shard in ["1/3", "2/3", "3/3"] {
        assert_eq!(call(&at("parts"), &["--shard", shard]), "");
    }
    let runs = |name: &str| fs::read_to_string(dir.path().join("parts").join(name)).unwrap();
    let own = [runs("runs-1-of-3.jsonl"), runs("runs-2-of-3.jsonl"), runs("runs-3-of-3.jsonl")];
    assert_eq!(own.each_ref().map(|text| text.lines().count()), [3, 3, 2]);
    // Another shard is in the middle of a line, which stays as it is; its run is done here.
    let unfinished = &own[2][..own[2].len() - 9];
    fs::write(dir.path().join("parts/runs-3-of-3.jsonl"), unfinished).unwrap();
    assert_eq!(call(&at("parts"), &[]), whole);
    assert_eq!(runs("runs.jsonl").lines().count(), 1);
    assert_eq!(runs("runs-3-of-3.jsonl"), unfinished);
    // A run that two have done counts once.
    fs::write(dir.path().join("parts/runs-3-of-3.jsonl"), &own[2]).unwrap();
    assert_eq!(call(&at("parts"), &[]), whole);
    let refused =
        sarouter(".", ["survive", "throughput", "--fabric", "kary:2,2", "--shard", "4/3", "--out", &at("x")]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_matrix_tells_deadlocks_from_refusals() {
    let fabric = "torus:5x5,hosts=4";
    let cells = report(
        ".",
        format!("survive matrix --fabric {fabric} --engines dor,torus,fattree,balanced --packets 4")
            .split(' '),
    );
    let results: Vec<&str> =
        cells.as_array().unwrap().iter().map(|c| c["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["d", "o", "r", "o"]);
    assert!(cells[0]["reason"].as_str().unwrap().contains("->"));
}

#[test]
fn lost_connections_follow_the_proposition() {
    let rows = report(
        ".",
        "survive lost --fabric kary:4,2,hosts=4 --engines dfsssp --faults 0,1 --seeds 16".split(' '),
    );
    assert_eq!(rows[0]["mean"], 0.0);
    // One of 16 cables: 2 × 15 × 16 / 4 … of 240 pairs, the same for each in this tree.
    let (mean, expected) = (rows[1]["mean"].as_f64().unwrap(), rows[1]["expected"].as_f64().unwrap());
    assert!((mean / expected - 1.0).abs() < 0.1, "{mean} and {expected}");
    let dead = report(
        ".",
        "survive lost --fabric torus:3,hosts=1 --engines updown --faults 1 --what switches --seeds 1"
            .split(' '),
    );
    assert!(dead[0]["mean"].as_f64().unwrap() >= 4.0 / 6.0);
}

#[test]
fn a_deadlock_is_a_no_with_its_circle() {
    let out = sarouter(
        ".",
        "simulate --fabric torus:5x5,hosts=4 --engine dor --traffic shift --bytes 16KiB --format json"
            .split(' '),
    );
    assert_eq!(out.status.code(), Some(1));
    let value: Value = serde_json::from_slice(&out.stdout).unwrap();
    let circle = value["runs"][0]["deadlock"].as_array().unwrap();
    assert!(circle.len() >= 2);
    assert_eq!(circle[0]["wants"], circle[1]["link"]);
}

#[test]
fn jobs_finish_each_at_its_time_and_bad_arguments_are_refused() {
    let jobs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/figure-5.2.jobs");
    let value = report(
        ".",
        format!(
            "simulate --fabric fattree:10x18,5 --engine fattree --jobs {jobs} --traffic shift,2=neighbor"
        )
        .split(' '),
    );
    let finished: Vec<f64> =
        value["jobs"].as_array().unwrap().iter().map(|j| j["finished_ns"].as_f64().unwrap()).collect();
    // One packet against 59.
    assert!(finished[1] * 10.0 < finished[0] && finished[1] * 10.0 < finished[2], "{finished:?}");
    for (bad, message) in [
        (vec!["--traffic", "nonsense"], "nonsense"),
        (vec!["--jobs", jobs, "--traffic", "9=shift"], "no job 9"),
        (vec!["--set", "input_flits=3"], "smaller than a packet"),
        (vec!["--traffic", "uniform", "--load", "1.5"], "1.5"),
    ] {
        let mut call = vec!["simulate", "--fabric", "fattree:10x18,5"];
        call.extend(bad);
        let out = sarouter(".", &call);
        assert_eq!(out.status.code(), Some(2), "{call:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains(message), "{call:?}");
    }
}

#[test]
fn polarized_tables_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let value = report(".", ["route", "--fabric", "torus:6,hosts=1", "--engine", "polarized", "--out", out]);
    assert_eq!(value["lanes"], 6);
    let text = fs::read_to_string(dir.path().join("polarized.txt")).unwrap();
    assert_eq!(text.lines().filter(|l| l.starts_with("switch 0x")).count(), 6);
    assert!(text.lines().any(|l| l.ends_with(" +---++")), "{text}");
}

#[test]
fn the_tables_of_a_torus_run_like_the_engine_that_made_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let torus = ["--fabric", "angara:4x2x2"];
    let mut times = Vec::new();
    for engine in ["angara-bfs", "angara-sar"] {
        report(".", [&["route", "--engine", engine, "--out", out], &torus[..]].concat());
        let run = |routing: [&str; 2]| {
            let traffic = ["simulate", "--hardware", "angara", "--traffic", "linear", "--bytes", "4KiB"];
            report(".", [&traffic[..], &routing, &torus].concat())["runs"].clone()
        };
        let from_files = run(["--tables", out]);
        assert_eq!(from_files, run(["--engine", engine]));
        times.push(from_files[0]["time_ns"].as_f64().unwrap());
        fs::remove_dir_all(out).unwrap();
    }
    assert_ne!(times[0], times[1]);
}

/// Rows of `survive lost` for two jobs of two and four nodes of a 4x4 torus.
fn lost_on_a_torus(more: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    fs::write(&jobs, "1 n[1,2]\n2 n[5-8]\n").unwrap();
    let call = ["survive", "lost", "--fabric", "angara:4x4", "--jobs", jobs.to_str().unwrap()];
    report(".", [&call, more].concat()).as_array().unwrap().clone()
}

/// Every route counts once for each of its links, so the mean over all links is that of Proposition 4.2.
#[test]
fn each_link_of_a_direct_torus_alone_cuts_as_many_pairs_as_the_proposition_says() {
    for engine in ["angara-balanced", "angara-bfs"] {
        let rows = lost_on_a_torus(&["--engines", engine, "--transit", "any"]);
        let [links, nodes] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((&links["tried"], &nodes["tried"]), (&32.into(), &16.into()));
        for row in &rows {
            let (mean, expected) = (row["mean"].as_f64().unwrap(), row["expected"].as_f64().unwrap());
            assert!(mean > 0.0 && (mean - expected).abs() < 1e-12, "{row}");
        }
        // One link never parts a torus whose nodes may all forward; a job that loses a node is over.
        assert_eq!(links["mended"], 1.0, "{links}");
        assert_eq!(
            (&links["jobs"][0]["over"], &nodes["jobs"][0]["over"]),
            (&0.into(), &2.into()),
            "{rows:?}"
        );
        assert_eq!(nodes["jobs"][1]["over"], 4, "{nodes}");
    }
}

/// Two neighbours that no others may forward for have one link; a ring of four goes the other way round.
#[test]
fn jobs_that_keep_to_their_nodes_are_over_where_no_other_way_is_left() {
    let rows = lost_on_a_torus(&["--engines", "angara-balanced", "--transit", "job"]);
    let jobs = &rows[0]["jobs"];
    assert_eq!((&jobs[0]["mended"], &jobs[0]["over"]), (&0.into(), &1.into()), "{jobs}");
    assert_eq!(jobs[1]["over"], 0, "{jobs}");
    assert!(jobs[1]["mended"].as_u64().unwrap() >= 2, "{jobs}");
    assert_eq!(rows[1]["mended"], 0.0, "{}", rows[1]);
    let by_lot = lost_on_a_torus(&["--engines", "sar", "--faults", "1,4", "--what", "nodes", "--seeds", "3"]);
    let levels: Vec<&Value> = by_lot.iter().map(|row| &row["switches"]).collect();
    assert_eq!((levels, &by_lot[0]["tried"]), (vec![&1.into(), &4.into()], &3.into()));
    assert_eq!(by_lot[1]["worst"].as_array().unwrap().len(), 4);
}
