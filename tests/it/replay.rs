//! Job history through the engines.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{report, sarouter};

const TREE: &str = "fattree:4x4,2";

fn replay(dir: &Path, words: &[&str]) -> Value {
    report(dir, [&["replay"], words].concat())
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// Means of an engine in the only placement, in the order of the metrics: slow-down of jobs, of 95 % of them, max
/// effective EFI, ….
fn means(answer: &Value, engine: &str) -> Vec<f64> {
    let engines = answer["summaries"][0]["engines"].as_array().unwrap();
    let found = engines.iter().find(|e| e["engine"] == engine).unwrap();
    found["means"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// Files that must not differ from run to run.
fn results(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let name = |p: &Path| p.file_name().unwrap().to_str().unwrap().to_string();
    let files = files.iter().filter(|p| name(p) != "times.csv");
    files.map(|p| (name(p), fs::read(p).unwrap())).collect()
}

#[test]
fn the_example_of_the_thesis_has_its_figures_for_as_long_as_its_jobs_run() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = fs::read_to_string("tests/data/figure-5.2.jobs").unwrap();
    let mut sacct = "JobID|Start|End|NodeList|JobName\n".to_string();
    for line in jobs.lines().filter(|l| !l.starts_with('#')) {
        let (id, nodes) = line.split_once(' ').unwrap();
        writeln!(sacct, "{id}|2015-02-16T00:00:00|2015-02-16T03:00:00|{}|a|b", nodes.trim()).unwrap();
        writeln!(sacct, "{id}.batch|2015-02-16T00:00:00|2015-02-16T03:00:00|n1|batch").unwrap();
    }
    fs::write(dir.path().join("jobs.sacct"), sacct).unwrap();
    let words = [
        "--fabric",
        "fattree:10x18,5",
        "--trace",
        "jobs.sacct",
        "--engines",
        "dfsssp,sar,balanced-efi,balanced",
    ];
    let more = ["--to", "2015-02-16T04:00:00Z", "--every", "30min", "--out", "o"];
    let answer = replay(dir.path(), &[&words[..], &more[..]].concat());
    assert_eq!(answer["summaries"][0]["snapshots"], 8);
    assert_eq!(answer["summaries"][0]["idle"], 2, "the last hour is empty");
    assert_eq!(answer["run"]["trace"]["passed_over"], 3);
    let of = |engine| means(&answer, engine)[2];
    assert_eq!([of("dfsssp"), of("sar"), of("balanced-efi")], [102.0, 60.0, 54.0]);
    // Slow-down leads, and is what `compare` says.
    let jobs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/figure-5.2.jobs");
    let words =
        ["compare", "--format", "json", "--fabric", "fattree:10x18,5", "--jobs", jobs, "--engines", "dfsssp"];
    let compared: Value = serde_json::from_slice(&sarouter(dir.path(), words).stdout).unwrap();
    let time = &compared[0]["time"];
    let close = |a: f64, b: &Value| (a - b.as_f64().unwrap()).abs() < 1e-9;
    let replayed = means(&answer, "dfsssp");
    assert!(close(replayed[0], &time["slowdown_mean"]), "{replayed:?} {time}");
    assert!(close(replayed[1], &time["slowdown_p95"]), "{replayed:?} {time}");
    let verdict = answer["summaries"][0]["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("With balanced jobs' exchanges take ") && verdict.contains("than with dfsssp"),
        "{verdict}"
    );
    let comparison = &answer["summaries"][0]["comparisons"][0];
    assert_eq!((&comparison["engine"], &comparison["beside"]), (&"sar".into(), &"dfsssp".into()));
    let largest = &comparison["improvements"][2];
    assert_eq!((largest["max"].as_f64(), largest["mean"].as_f64()), (Some(42.0), Some(42.0)));
    // One epoch when they start, none when they end.
    assert_eq!(answer["summaries"][0]["engines"][1]["epochs"], 1);
    let series = fs::read_to_string(dir.path().join("o/series.csv")).unwrap();
    let changed: Vec<&str> = series.lines().filter(|l| l.contains(",sar,") && l.contains(",1,0,")).collect();
    assert_eq!(changed.len(), 1, "{series}");
    assert!(changed[0].contains(",1,0,,,"), "nothing was in force before: {}", changed[0]);
}

#[test]
fn shards_joined_give_the_same_bytes_as_one_run_whatever_the_threads() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "--fabric",
        "fattree:6x6,3",
        "--trace",
        "generated:tsubame2,days=1,seed=3",
        "--engines",
        "dfsssp,sar,balanced",
        "--placement",
        "linear,random",
        "--every",
        "30min",
        "--chunk",
        "10",
    ];
    let with = |more: &[&str]| replay(dir.path(), &[&words[..], more].concat());
    with(&["--out", "whole", "--threads", "1"]);
    with(&["--out", "again", "--threads", "3"]);
    let whole = results(&dir.path().join("whole"));
    assert_eq!(whole, results(&dir.path().join("again")));
    for i in 1..=3 {
        with(&["--shard", &format!("{i}/3"), "--out", &format!("part{i}")]);
    }
    let merge =
        |parts: &[&str]| sarouter(dir.path(), [&["replay", "merge", "--out", "merged"], parts].concat());
    assert_eq!(merge(&["part2", "part3", "part1"]).status.code(), Some(0));
    assert_eq!(whole, results(&dir.path().join("merged")));
    let series = text(&whole.iter().find(|(name, _)| name == "series.csv").unwrap().1);
    assert_eq!(series.lines().count(), 1 + 2 * 48 * 3);

    for parts in [&["part1", "part2"][..], &["part1", "part2", "part2"], &["part1", "part1", "part3"]] {
        let output = merge(parts);
        assert_eq!(output.status.code(), Some(2), "{parts:?}");
        assert!(text(&output.stderr).contains("parts 1 to 3 are needed"), "{output:?}");
    }
    let other = [&words[..], &["--shard", "2/3", "--out", "other", "--layers", "7"]].concat();
    replay(dir.path(), &other);
    let output = merge(&["part1", "other", "part3"]);
    assert!(text(&output.stderr).contains("not of one run"), "{output:?}");
}

/// One SWF line: times in minutes.
#[test]
fn snapshots_are_simulated_with_the_tables_of_each_engine() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--fabric fattree:6x6,3 --trace generated:tsubame2,days=1,seed=3 --placement random --every 2h \
        --engines minhop,dfsssp,balanced --simulate 3 --traffic linear,ring --bytes 2KiB --chunk 5";
    let words: Vec<&str> = words.split_whitespace().collect();
    let whole = replay(dir.path(), &[&words[..], &["--out", "whole"]].concat());
    let summary = &whole["summaries"][0];
    assert_eq!(summary["simulated"], 3);
    let us: Vec<f64> = summary["engines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|engine| engine["simulated_us"].as_f64().unwrap())
        .collect();
    assert!(us[2] < us[0] && us[2] < us[1], "{us:?}");
    let verdict = summary["verdict"].as_str().unwrap();
    assert!(verdict.contains("In the packet simulator (3 snapshots) they take"), "{verdict}");
    for part in ["1", "2"] {
        replay(dir.path(), &[&words[..], &["--shard", &format!("{part}/2"), "--out", part]].concat());
    }
    let merged = sarouter(dir.path(), ["replay", "merge", "1", "2", "--out", "merged"]);
    assert_eq!(merged.status.code(), Some(0));
    assert_eq!(results(&dir.path().join("whole")), results(&dir.path().join("merged")));
}

/// A busy tree: a bound on the epochs of a day is kept, what is left out gains little, and the picture says so.
#[test]
fn a_number_of_epochs_a_day_keeps_most_of_what_following_every_difference_gains() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "--fabric",
        "kary:9,2",
        "--trace",
        "generated:tsubame2,days=6,seed=5",
        "--placement",
        "tree",
        "--every",
        "1h",
        "--chunk",
        "144",
        "--engines",
        "balanced:static,balanced,balanced:epochs=6",
        "--out",
        "kept",
    ];
    let answer = replay(dir.path(), &words);
    let engines = answer["summaries"][0]["engines"].as_array().unwrap();
    let of =
        |name: &str, key: &str| engines.iter().find(|e| e["engine"] == name).unwrap()[key].as_f64().unwrap();
    let every = of("balanced", "epochs_per_day");
    let some = of("balanced:epochs=6", "epochs_per_day");
    let lost = |name| of(name, "lost_per_day");
    let none = lost("balanced:static");
    let kept = (none - lost("balanced:epochs=6")) / (none - lost("balanced"));
    assert!(every > 7.0 && some <= 6.0 && kept > 0.85, "{every} {some} {kept}");
    let picture = fs::read_to_string(dir.path().join("kept/kept.svg")).unwrap();
    assert!(picture.contains(&format!("balanced:epochs=6: {some:.1} a day, {:.1} %", 100.0 * kept)));
    let text = fs::read_to_string(dir.path().join("kept/summary.txt")).unwrap();
    assert!(text.contains("epochs a day keep"), "{text}");
}

fn swf(id: &str, submit: &str, run: i64, nodes: &str) -> String {
    format!("{id} {submit} 0 {} 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1 {nodes} queue", run * 60)
}

#[test]
fn each_bad_line_is_reported_counted_and_skipped_unless_none_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let lines = [
        "; UnixStartTime: 1424044800".to_string(),
        swf("1", "0", 60, "{n1,n1,n5}"),
        "2 0 0 3600 4".to_string(),
        swf("3", "soon", 60, "{n2,n6}"),
        swf("4", "0", 60, "{n2,n6"),
        swf("5", "600", -60, "{n2,n6}"),
        swf("6", "0", 60, "{n3,n7,elsewhere}"),
        swf("7", "600", 30, "{n5,n9}"),
        swf("8", "600", 0, "{n4,n8}"),
    ];
    fs::write(dir.path().join("t.swf"), lines.join("\n")).unwrap();
    let words = ["replay", "--fabric", TREE, "--trace", "t.swf", "--engines", "sar", "--out", "o"];
    let output = sarouter(dir.path(), [&words[..], &["--format", "json"]].concat());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let errors = text(&output.stderr);
    for wanted in [
        "t.swf:3: 18 fields expected, 5 found",
        "t.swf:4: field 2 (submit time): \"soon\" is not a number",
        "t.swf:5: the node list has no end",
        "t.swf:6: it waits 0 s and runs -3600 s",
        "t.swf:7: job 6: the fabric has no elsewhere",
    ] {
        assert!(errors.lines().any(|l| l == wanted), "{wanted} is missing in {errors}");
    }
    let trace = &answer["run"]["trace"];
    let faults = serde_json::json!({"malformed": 3, "backwards": 1, "unknown_nodes": 1, "overlap": 1});
    assert_eq!((&trace["faults"], &trace["entries"], &trace["passed_over"]), (&faults, &3.into(), &1.into()));
    // Jobs 1, 6 without its unknown node, and 7 on a node that 1 has too.
    assert_eq!(answer["summaries"][0]["snapshots"], 6);
    let series = fs::read_to_string(dir.path().join("o/series.csv")).unwrap();
    assert!(series.contains("recorded,2015-02-16T00:10:00Z,sar,3,3,"), "{series}");
    let written = fs::read_to_string(dir.path().join("o/bad-lines.txt")).unwrap();
    assert_eq!(written.lines().count(), 6, "{written}");

    let output = sarouter(dir.path(), [&words[..], &["--strict"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("t.swf:3: 18 fields expected"), "{output:?}");
}

#[test]
fn bad_lines_of_sacct_and_snapshots_are_found_too() {
    let dir = tempfile::tempdir().unwrap();
    let sacct = "1|2015-02-16T00:00:00|2015-02-16T01:00:00|n[1-6]\n\
                 2|2015-02-16T00:00:00|2015-02-15T01:00:00|n[7-8]\n\
                 3|2015-02-16T00:00:00|yesterday|n[7-8]\n\
                 4|2015-02-16T00:00:00|Unknown|n[7-9\n\
                 5|2015-02-16T00:00:00\n\
                 6|Unknown|2015-02-16T01:00:00|None assigned\n\
                 7|2015-02-16T00:00:00|Unknown|n[7-9]\n";
    fs::write(dir.path().join("a.sacct"), sacct).unwrap();
    let words =
        ["--fabric", TREE, "--trace", "a.sacct", "--engines", "sar", "--fields", "jobid,start,end,nodelist"];
    let answer = replay(dir.path(), &words);
    let trace = &answer["run"]["trace"];
    assert_eq!(trace["faults"], serde_json::json!({"malformed": 3, "backwards": 1}));
    assert_eq!((&trace["entries"], &trace["passed_over"]), (&2.into(), &1.into()));
    // Without names for its fields it is refused.
    let output = sarouter(dir.path(), [&["replay"], &words[..6]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no header"), "{output:?}");

    let snapshot = |time: &str, nodes: &str| {
        format!(r#"{{"time": "{time}", "jobs": [{{"id": "1", "state": "RUNNING", "nodes": [{nodes}]}}]}}"#)
    };
    let lines = [
        snapshot("2015-02-16T00:00:00Z", r#""n1", "n5""#),
        snapshot("2015-02-16T00:20:00Z", r#""n1", "n2""#),
        "{\"time\": \"2015-02-16T00:21:00Z\", \"jo".to_string(),
        snapshot("2015-02-16T00:10:00Z", r#""n1", "n6""#),
        snapshot("2015-02-16T00:40:00Z", r#""n1", "n6""#),
    ];
    fs::write(dir.path().join("s.jsonl"), lines.join("\n")).unwrap();
    let answer =
        replay(dir.path(), &["--fabric", TREE, "--trace", "s.jsonl", "--engines", "sar", "--out", "s"]);
    let faults = serde_json::json!({"malformed": 1, "backwards": 1});
    assert_eq!(answer["run"]["trace"]["faults"], faults);
    let series = fs::read_to_string(dir.path().join("s/series.csv")).unwrap();
    let multi: Vec<&str> = series.lines().skip(1).map(|l| l.split(',').nth(4).unwrap()).collect();
    assert_eq!(multi, ["1", "1", "0", "0", "1"], "each holds until the next, and the last counts: {series}");
}

#[test]
fn traces_without_nodes_get_them_from_the_model_that_the_results_name() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (1..=3).map(|i| swf(&i.to_string(), "0", 60, "")).collect();
    fs::write(
        dir.path().join("t.swf"),
        lines.join("\n") + "\n9 0 0 60 17 -1 -1 17 -1 -1 1 1 1 1 1 1 -1 -1\n",
    )
    .unwrap();
    let words = ["--fabric", TREE, "--trace", "t.swf", "--engines", "dfsssp,sar", "--placement"];
    let answer = replay(dir.path(), &[&words[..], &["interleaved,tree", "--out", "o"]].concat());
    let summaries = answer["summaries"].as_array().unwrap();
    let named: Vec<(&Value, &Value)> =
        summaries.iter().map(|s| (&s["placement"], &s["multi_switch_mean"])).collect();
    assert_eq!(named, [(&"interleaved".into(), &3.0.into()), (&"tree".into(), &0.0.into())]);
    let verdict = |i: usize| summaries[i]["verdict"].as_str().unwrap();
    assert!(
        verdict(0).starts_with("Not for this place: dfsssp, which knows no jobs, has a slow-down of "),
        "{}",
        verdict(0)
    );
    assert_eq!(verdict(1), "No job is on several switches here: routes for jobs gain nothing.");
    assert_eq!(answer["run"]["trace"]["faults"]["too_large"], 2, "once per placement");
    let series = fs::read_to_string(dir.path().join("o/series.csv")).unwrap();
    assert!(series.lines().skip(1).all(|l| l.starts_with("interleaved,") || l.starts_with("tree,")));
    // Recorded nodes cannot be had.
    let output = sarouter(dir.path(), [&["replay"], &words[..6], &["--nodes-in-order"]].concat());
    assert_eq!(output.status.code(), Some(0), "falls back to tree: {output:?}");
}

/// The trace says which jobs there are, and the seed of the replay where they are.
#[test]
fn the_seed_places_generated_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--fabric", "fattree:6x6,3", "--trace", "generated:tsubame2,days=1,seed=3", "--every", "2h"];
    let of = |seed| {
        let more = ["--engines", "dfsssp", "--placement", "random", "--seed", seed];
        means(&replay(dir.path(), &[&words[..], &more].concat()), "dfsssp")
    };
    assert_eq!(of("1"), of("1"));
    assert_ne!(of("1"), of("2"));
}

#[test]
fn engines_that_cannot_route_the_fabric_are_named_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--fabric", "torus:3x3,hosts=2", "--trace", "generated:taurus,days=1", "--every", "6h"];
    let answer =
        replay(dir.path(), &[&words[..], &["--engines", "fattree,dfsssp,balanced:static,sar"]].concat());
    assert!(answer["run"]["refused"]["fattree"].as_str().unwrap().contains("fattree cannot route"));
    assert_eq!(answer["run"]["engines"], serde_json::json!(["dfsssp", "balanced:static", "sar"]));
    assert_eq!(answer["run"]["job_aware"], serde_json::json!(["sar"]));
    let output = sarouter(dir.path(), [&["replay"], &words[..], &["--engines", "magic"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is no engine \"magic\""), "{output:?}");
}

/// The outlier of day 16 (thesis section 5.3.2.3): one 200-node job on 15 leaf switches, 1,272 routes
/// on one port with fat-tree routing, 376 with job-aware routing. Ours leads around boards with the least load.
#[test]
fn the_job_of_day_16_overloads_one_port_unless_routes_know_it() {
    use sarouter::measure::effective;
    use sarouter::model::{Demand, LayerBudget};
    use sarouter::observe::{jobs, nodes};
    use sarouter::route::{EngineOptions, engine};
    let fabric = sarouter::lab::generate::generate("tsubame2:spread=1").unwrap();
    let map = nodes::name_hosts(&fabric, &nodes::NodeNames::default());
    let placed = map.place(&jobs::load("tests/data/day-16.jobs").unwrap());
    let demand: Demand = placed.demand(&fabric, Vec::new());
    let mut leaves: Vec<_> = demand.groups[0].terminals.iter().map(|t| fabric.terminal(*t).switch).collect();
    leaves.sort_unstable();
    leaves.dedup();
    assert_eq!((demand.groups.len(), demand.groups[0].terminals.len(), leaves.len()), (1, 200, 15));
    let of = |name: &str| {
        let made = engine(name, &EngineOptions::default()).unwrap();
        effective(&fabric, &made.route(&fabric, &demand, LayerBudget::new(8).unwrap()).unwrap(), &demand)
    };
    assert!(of("fattree").max > 600, "{:?}", of("fattree"));
    for engine in ["sar", "balanced"] {
        let ours = of(engine);
        assert!(ours.max < 400, "{engine}: {ours:?}");
        assert!(ours.links_per_job_mean > of("fattree").links_per_job_mean, "{engine}: {ours:?}");
    }
}

#[test]
fn tables_in_force_take_part_as_they_are() {
    const FABRIC: &str = "fattree:6x6,3";
    let dir = tempfile::tempdir().unwrap();
    let dump = ["route", "--fabric", FABRIC, "--engine", "minhop", "--out", "d"];
    assert_eq!(sarouter(dir.path(), dump).status.code(), Some(0));
    let words = ["--fabric", FABRIC, "--trace", "generated:tsubame2,days=1,seed=3", "--every", "2h"];
    let tables = ["--tables", "now=d", "--tables", "dump=d/lft.txt", "--engines", "minhop,sar"];
    let answer = replay(dir.path(), &[&words[..], &tables].concat());
    assert_eq!(answer["run"]["engines"], serde_json::json!(["now", "dump", "minhop", "sar"]));
    assert_eq!(answer["run"]["job_aware"], serde_json::json!(["sar"]));
    assert_ne!(means(&answer, "now"), means(&answer, "sar"));
    assert_eq!(means(&answer, "now"), means(&answer, "minhop"));
    assert_eq!(means(&answer, "dump"), means(&answer, "minhop"));

    let words =
        ["compare", "--format", "json", "--fabric", FABRIC, "--engines", "minhop", "--tables", "now=d"];
    let rows: Value = serde_json::from_slice(&sarouter(dir.path(), words).stdout).unwrap();
    assert_eq!((&rows[0]["engine"], &rows[1]["engine"]), (&"now".into(), &"minhop".into()));
    assert_eq!(rows[0]["load"], rows[1]["load"]);
    for (wrong, says) in [("sar=d", "sar=d: the name is taken"), ("d", "give a name"), ("now=e", "e")] {
        let output = sarouter(dir.path(), [&words[..], &["--tables", wrong]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(text(&output.stderr).contains(says), "{output:?}");
    }
}

/// Two jobs on a ring of four each: 16 hops on 8 channels. One that took no time uses none.
#[test]
fn on_a_direct_torus_each_job_is_routed_when_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let sacct = "JobID|Start|End|NodeList\n\
                 1|2015-02-16T00:00:00|2015-02-16T03:00:00|n[1-4]\n\
                 2|2015-02-16T01:00:00|2015-02-16T02:00:00|n[5-8]\n\
                 3|2015-02-16T00:00:00|2015-02-16T09:00:00|n9\n\
                 5|2015-02-16T00:30:00|2015-02-16T00:30:00|n[1-2,5-6]\n";
    fs::write(dir.path().join("a.sacct"), sacct).unwrap();
    let words = ["--fabric", "angara:4x4", "--trace", "a.sacct"];
    let found = replay(dir.path(), &words);
    let engines: Vec<&str> =
        found.as_array().unwrap().iter().map(|s| s["engine"].as_str().unwrap()).collect();
    assert_eq!(engines, ["angara-balanced", "angara-sar", "angara-sssp", "angara-bfs"]);
    for key in ["max_mean", "max_worst", "own_mean", "busiest_mean"] {
        assert_eq!(found[0][key].as_f64(), Some(2.0), "{key}: {found}");
    }
    let slowdown = |row: usize| found[row]["slowdown_mean"].as_f64().unwrap();
    assert!(slowdown(0) == 1.0 && slowdown(0) <= slowdown(2), "{found}");
    assert_eq!((&found[0]["routed"], found[0]["refused"].to_string()), (&2.into(), "{}".into()));
    // A node that is not there is told, and the others are routed.
    fs::write(
        dir.path().join("a.sacct"),
        format!("{sacct}4|2015-02-16T00:00:00|2015-02-16T03:00:00|n[16-17]\n"),
    )
    .unwrap();
    let output = sarouter(dir.path(), [&["replay"], &words[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("angara-sar") && text(&output.stderr).contains('4'), "{output:?}");
    // Why one gets no tables is told, too.
    let apart = "JobID|Start|End|NodeList\n7|2015-02-16T00:00:00|2015-02-16T03:00:00|n1,n6\n";
    fs::write(dir.path().join("a.sacct"), apart).unwrap();
    let output = sarouter(dir.path(), [&["replay"], &words[..]].concat());
    let why = "job 7 gets no tables: there is no legal route from n1 (0.0) to n6 (1.1)";
    assert!(output.status.code() == Some(0) && text(&output.stdout).contains(why), "{output:?}");
}
