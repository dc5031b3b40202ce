//! `route`, `verify` and `compare` as people call them.

use std::process::Stdio;

use crate::program::{command, parsed, report, sarouter};
use crate::site::Site;

const TREE: &str = "fattree:4x4,2";

#[test]
fn what_route_writes_verify_accepts_and_damage_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs.txt"), "17 n[1-6]\n18 n[7-16]\n19 n1,elsewhere\n").unwrap();
    let words =
        ["--fabric", TREE, "--jobs", "jobs.txt", "--engine", "dfsssp", "--out", "t", "--format", "json"];
    let output = sarouter(dir.path(), [&["route"], &words[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("elsewhere"), "{output:?}");
    let report = parsed(&output);
    let written = std::fs::read_to_string(dir.path().join("t/report.json")).unwrap();
    assert_eq!(report, serde_json::from_str::<serde_json::Value>(&written).unwrap());
    assert_eq!(report["jobs"], serde_json::json!({"running": 3, "multi_switch": 2}));
    assert_eq!(report["verdict"], serde_json::json!({"accepted": true, "findings": []}));
    assert_eq!(report["layers"], serde_json::json!({"budget": 8, "used": 8}));

    let output = sarouter(dir.path(), ["verify", "--fabric", TREE, "--tables", "t"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lft = std::fs::read_to_string(dir.path().join("t/lft.txt")).unwrap();
    // The first leaf's own host n1 is behind port 1; here it goes to n2.
    let entry = lft.lines().find(|l| l.ends_with(" 001 # Channel Adapter portguid 0x0000000000100001: 'n1'"));
    let damaged = entry.unwrap().replace(" 001 ", " 002 ");
    std::fs::write(dir.path().join("bad.txt"), lft.replacen(entry.unwrap(), &damaged, 1)).unwrap();
    let words = ["--fabric", TREE, "--tables", "bad.txt", "--layers-file", "t/layers.txt"];
    let output = sarouter(dir.path(), [&["verify"], &words[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("wrong port: S0000 (0x0000000000200000) sends n1 (LID "), "{text}");
}

/// Three jobs, all nodes: `compare` ends with what they gain over the best engine that knows none, `bench time`
/// simulates these jobs, and says of others that there is nothing to simulate.
#[test]
fn jobs_of_a_file_are_held_against_the_best_engine_that_knows_none() {
    let dir = tempfile::tempdir().unwrap();
    let (fabric, jobs) =
        ("fattree:10x18,5", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/figure-5.2.jobs"));
    let given = ["--fabric", fabric, "--jobs", jobs];
    let compare = |engines, format| {
        let words = [&["compare", "--format", format, "--engines", engines], &given[..]].concat();
        String::from_utf8(sarouter(dir.path(), &words).stdout).unwrap()
    };
    let rows: serde_json::Value = serde_json::from_str(&compare("dfsssp,balanced", "json")).unwrap();
    let figure = |row: usize, key: &str| rows[row]["time"][key].as_f64().unwrap();
    assert_eq!(figure(0, "oblivious"), figure(1, "oblivious"));
    assert!(figure(1, "slowdown_mean") < figure(1, "oblivious"), "{rows}");
    assert!(figure(0, "slowdown_mean") >= figure(0, "oblivious"), "{rows}");
    let text = compare("dfsssp,balanced", "text");
    assert!(
        text.contains("\nWorth it: with balanced jobs' exchanges take 1.") && text.contains(" % less."),
        "{text}"
    );
    assert!(compare("updown", "text").contains("\nNot worth it: none makes "));

    let bench = ["bench", "time", "--no-adaptive", "--patterns", "ring", "--format", "json"];
    let output = sarouter(dir.path(), [&bench[..], &given].concat());
    let board: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = board["cells"].as_array().unwrap();
    assert!(
        cells.iter().any(|c| c["engine"] == "balanced") && cells.iter().all(|c| c["mix"] == jobs),
        "{board}"
    );
    std::fs::write(dir.path().join("small.txt"), "17 n[1-6]\n").unwrap();
    let output = sarouter(dir.path(), [&bench[..], &["--fabric", fabric, "--jobs", "small.txt"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("small.txt: no job is on several switches"));
}

/// A job on no node of the fabric is no job that was routed for: the exit status says so.
#[test]
fn jobs_on_unknown_nodes_alone_give_exit_1() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("some.txt"), "17 n[1-6]\n18 rack[7-16]\n").unwrap();
    std::fs::write(dir.path().join("spelt.txt"), "17 N[1-6].hpc.example\n18 n[7-16]-ib\n").unwrap();
    std::fs::write(dir.path().join("twice.txt"), "17 n1\n18 n2\n17 n3\n").unwrap();
    let swf = "; UnixStartTime: 1424044800\n1 0 0 3600 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1 {rack1,rack2} q\n\
               2 0 0 3600 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1 {n1,n7} q\n";
    std::fs::write(dir.path().join("t.swf"), swf).unwrap();
    let route = ["route", "--engine", "updown", "--out", "t", "--fabric", TREE, "--jobs"];
    let compare = ["compare", "--engines", "updown", "--fabric", TREE, "--jobs"];
    for words in [&route[..], &compare[..]] {
        let output = sarouter(dir.path(), [words, &["some.txt"]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("none of the nodes of job 18 is in the fabric"), "{errors}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("updown"), "what could be done is done");
        let output = sarouter(dir.path(), [words, &["spelt.txt"]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let output = sarouter(dir.path(), [words, &["twice.txt"]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("twice.txt:3: job 17 is there twice"),
            "{output:?}"
        );
    }
    let replay = ["replay", "--fabric", TREE, "--engines", "updown", "--trace", "t.swf"];
    let output = sarouter(dir.path(), replay);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("none of the nodes of job 1 is in the fabric"), "{errors}");
}

#[test]
fn an_engine_out_of_layers_says_how_many_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--fabric", "torus:5x5", "--layers", "1", "--format", "json"];
    let output = sarouter(dir.path(), [&["route", "--engine", "dfsssp", "--out", "t"], &words[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let refused = &parsed(&output)["refused"];
    assert_eq!(refused["kind"], "out_of_budget");
    assert!(refused["needed"].as_u64().unwrap() > 1, "{refused}");
    assert!(!dir.path().join("t").exists());

    let output = sarouter(dir.path(), [&["compare", "--engines", "dfsssp,sssp,nue"], &words[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows = parsed(&output);
    assert_eq!(rows[0]["refused"], *refused);
    assert_eq!((&rows[1]["engine"], &rows[1]["verdict"]["accepted"]), (&"sssp".into(), &false.into()));
    assert_eq!(rows[1]["verdict"]["findings"][0]["kind"], "cycle");
    assert_eq!((&rows[2]["engine"], &rows[2]["verdict"]["accepted"]), (&"nue".into(), &true.into()));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs.txt"), "17 n[1-6]\n").unwrap();
    assert!(
        sarouter(dir.path(), ["route", "--fabric", TREE, "--engine", "updown", "--out", "t"])
            .status
            .success()
    );
    for words in [
        &["route", "--fabric", TREE, "--engine", "updown", "--out", "t"][..],
        &["route", "--fabric", TREE, "--engine", "updown", "--out", "t", "--format", "json"],
        &["verify", "--fabric", TREE, "--tables", "t"],
        &["compare", "--fabric", TREE, "--engines", "updown,minhop"],
        &["simulate", "--fabric", TREE, "--tables", "t", "--pattern", "shift"],
        &["fabric", "show", TREE],
        &["history", "--state", "t"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(dir.path(), words).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked") && !said.contains("Broken pipe"), "{words:?}: {said}");
        // Whatever the answer is, as without the pipe.
        let whole = sarouter(dir.path(), words);
        assert_eq!(output.status.code(), whole.status.code(), "{words:?}: {said}");
    }
}

#[test]
fn status_is_said_again_and_again_where_that_is_wanted() {
    let site = Site::new("");
    assert_eq!(site.run(&["tick"]).0, 0);
    let mut child = site.command(&["status", "--watch", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let said = serde_json::Deserializer::from_reader(child.stdout.take().unwrap());
    let mut said = said.into_iter::<serde_json::Value>().map(Result::unwrap);
    assert_eq!(said.next().unwrap()["held"], serde_json::Value::Null);
    assert_eq!(site.run(&["hold", "--reason", "cable work"]).0, 0);
    assert!(said.take(60).any(|status| status["held"]["reason"] == "cable work"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(site.command(&["status", "--watch", "0"]).output().unwrap().status.code(), Some(2));
}

/// A variable says which messages are logged, by module; one that is no such thing is as good as none.
#[test]
fn the_log_is_as_wide_as_a_variable_says() {
    let dir = tempfile::tempdir().unwrap();
    let logged = |filter: &str| {
        let words = ["simulate", "--fabric", TREE, "--engine", "minhop", "--traffic", "shift"];
        let output = command(dir.path(), words).env("SAROUTER_LOG", filter).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8_lossy(&output.stderr).contains("million packet-hops")
    };
    assert!(logged("info"));
    assert!(logged("warn,sarouter::cli=debug"));
    assert!(!logged("warn"));
    assert!(!logged("sarouter::publish=debug"));
    assert!(!logged("a=b=c"));
}

/// Routes of before stay unless others are predicted clearly faster; whose they were is not known.
#[test]
fn routes_of_before_are_kept_where_new_ones_do_not_pay() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy("tests/data/figure-5.2.jobs", dir.path().join("jobs")).unwrap();
    let route = |words: &[&str]| {
        let words = [&["route", "--fabric", "fattree:10x18,5"], words].concat();
        report(&dir, words)["time"]["slowdown_mean"].as_f64().unwrap()
    };
    let tables = |name: &str| std::fs::read(dir.path().join(name).join("lft.txt")).unwrap();
    route(&["--out", "none"]);
    let anew = route(&["--jobs", "jobs", "--out", "anew"]);
    let again = route(&["--jobs", "jobs", "--previous", "anew", "--out", "again"]);
    assert_eq!((anew, tables("anew")), (again, tables("again")));
    let after = route(&["--jobs", "jobs", "--previous", "none", "--out", "after"]);
    assert!(after < 1.03 * anew && tables("after") != tables("none"), "{after} {anew}");
}

/// Jobs that share all their nodes are told apart by order and pattern, and what other engines give them is what fits
/// the layers that there are.
#[test]
fn reports_tell_jobs_on_the_same_nodes_apart_and_compare_with_what_fits() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), "a n[1-12] ring\nb n12,n[1-11] alltoall\n").unwrap();
    let report = |words: &[&str]| report(&dir, [words, &["--jobs", "jobs", "--out", "out"]].concat());
    let time = report(&["route", "--fabric", "kary:3,3", "--engine", "dfsssp"])["time"].take();
    let patterns: Vec<&str> =
        time["jobs"].as_array().unwrap().iter().map(|j| j["pattern"].as_str().unwrap()).collect();
    assert_eq!(patterns, ["ring", "alltoall"], "{time}");
    assert_ne!(time["jobs"][0]["slowdown"], time["jobs"][1]["slowdown"], "{time}");
    // dfsssp needs more than one layer: updown is the best that there is.
    let of = |engine: &str| {
        report(&["route", "--fabric", "torus:5x5,hosts=3", "--layers", "1", "--engine", engine])["time"]
            .take()
    };
    let (updown, balanced) = (of("updown"), of("balanced"));
    assert_eq!(updown["oblivious"], updown["slowdown_mean"]);
    assert_eq!(balanced["oblivious"], updown["slowdown_mean"]);
}

/// What an engine without jobs reaches, no engine for jobs has gained.
#[test]
fn compare_holds_jobs_against_all_engines_that_know_none() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), "1 n[1-20]\n2 n[21-50]\n3 n[51-72]\n").unwrap();
    let words = ["compare", "--fabric", "mesh:6x6,hosts=2", "--layers", "1", "--jobs", "jobs", "--engines"];
    let verdict = |engines| {
        let output = sarouter(dir.path(), [&words[..], &[engines]].concat());
        String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_string()
    };
    assert_eq!(
        verdict("nue,updown"),
        "Not worth it: none makes their exchanges faster than torus, which knows no jobs."
    );
    let all = sarouter(dir.path(), [&words[..], &["balanced,nue,minhop", "--format", "json"]].concat());
    let all = parsed(&all);
    let slowdown = |i: usize| all[i]["time"]["slowdown_mean"].as_f64().unwrap();
    assert!(all[0]["time"]["oblivious"].as_f64().unwrap() <= slowdown(1), "{all}");
}

#[test]
fn a_job_whose_nodes_no_cable_joins_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // Two switches of two hosts each.
    let star = |i: u32| {
        let host = |p: u32| {
            format!("[{p}] \"H-000000000000{i}{p}00\"[1](0x{i}{p}01) # \"n{i}{p}\" lid {i}{p} 4xHDR\n")
        };
        let adapter = |p: u32| {
            let head = format!("caguid=0x{i}{p}00\nCa 1 \"H-000000000000{i}{p}00\" # \"n{i}{p}\"\n");
            format!(
                "\n{head}[1](0x{i}{p}01) \"S-000000000020000{i}\"[{p}] # lid {i}{p} lmc 0 \"s{i}\" lid {i} 4xHDR\n"
            )
        };
        let head = format!(
            "switchguid=0x20000{i}(20000{i})\nSwitch 4 \"S-000000000020000{i}\" # \"s{i}\" port 0 lid {i} lmc 0\n"
        );
        format!("{head}{}{}{}{}\n", host(1), host(2), adapter(1), adapter(2))
    };
    std::fs::write(dir.path().join("islands.txt"), star(1) + &star(2)).unwrap();
    std::fs::write(dir.path().join("jobs"), "17 n11,n12,n21\n18 n21,n22\n").unwrap();
    let output = sarouter(dir.path(), ["route", "--fabric", "islands.txt", "--jobs", "jobs", "--out", "t"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("job 17: no cables join n21 with its other nodes"), "{output:?}");
    assert!(!said.contains("job 18"), "{said}");
}
