//! Direct tori: files, and the command line with good and bad input.

use std::fs;
use std::path::Path;
use std::process::Command;

use sarouter::model::*;
use sarouter::publish::angara::{NODES_FILE, ROUTES_FILE, node_table, publish, read_routes};
use sarouter::publish::job::{self, ENVIRONMENT_FILE, JobEnvironment, SUMS_FILE};
use sarouter::route::angara::{Limits, engine};
use sarouter::verify::angara::accept;

use crate::program::sarouter;

fn job(id: &str, nodes: Vec<NodeId>) -> TorusJob {
    TorusJob::new(Some(JobId::new(id).unwrap()), nodes)
}

#[test]
fn a_job_is_published_whole_replaced_whole_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let torus = TorusBuilder::new(&[8, 8]).unwrap().build().unwrap();
    // The files of many nodes are synced together.
    for count in [40, 8, 4, 1] {
        let nodes = torus.nodes().take(count).collect();
        let demand = TorusDemand { jobs: vec![job("17", nodes)], transit: Transit::Job };
        let tables = engine("angara-sar").unwrap().route(&torus, &demand, &Limits::default()).unwrap();
        let tables = accept(&torus, tables, false).unwrap();
        publish(root.path(), &torus, &tables, 0, &|_| true).unwrap();
        let dir = root.path().join("17");
        // A table each, routes.txt, nodes.txt, routing.env, SHA256SUMS.
        assert_eq!(fs::read_dir(&dir).unwrap().count(), count + 4);
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        let lines =
            format!("SAROUTER_FORMAT=1\nSAROUTER_JOB=17\nSAROUTER_ROUTED=yes\nSAROUTER_TABLES={count}\n");
        assert_eq!(read(ENVIRONMENT_FILE), lines);
        let listed = read(NODES_FILE);
        let named: Vec<&str> = listed.lines().take(2).collect();
        assert_eq!(named, ["n1 node-0.0.table", "n2 node-0.1.table"][..count.min(2)]);
        assert_eq!(read(SUMS_FILE).lines().count(), count + 3);
        let check = ["--check", "--strict", "--quiet", SUMS_FILE];
        assert!(Command::new("sha256sum").args(check).current_dir(&dir).status().unwrap().success());
        let read = read_routes(&dir.join(ROUTES_FILE), &torus, demand.jobs[0].nodes()).unwrap();
        assert_eq!(read, tables.get().routes[0]);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing is left beside");
    }
    let id = JobId::new("17").unwrap();
    assert_eq!(job::published(root.path()).unwrap(), std::slice::from_ref(&id));
    job::remove(root.path(), &id).unwrap();
    job::remove(root.path(), &id).unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_job_on_switches_gets_its_service_level_and_a_reason() {
    let root = tempfile::tempdir().unwrap();
    let id = JobId::new("18").unwrap();
    let text = |environment: &JobEnvironment| {
        job::publish(root.path(), &id, environment).unwrap();
        fs::read_to_string(root.path().join("18").join(ENVIRONMENT_FILE)).unwrap()
    };
    let routed = JobEnvironment {
        service_level: Some(Sl::new(3).unwrap()),
        routed: true,
        epoch: Some(12),
        ..Default::default()
    };
    let wanted =
        "SAROUTER_FORMAT=1\nSAROUTER_JOB=18\nSAROUTER_ROUTED=yes\nSAROUTER_SL=3\nSAROUTER_EPOCH=12\n";
    assert_eq!(text(&routed), wanted);
    let late = JobEnvironment { note: "too\nlate".into(), ..JobEnvironment::default() };
    assert!(text(&late).ends_with("SAROUTER_ROUTED=no\nSAROUTER_NOTE=too late\n"));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    // A writer that ends early leaves what was there.
    let mut writer = job::JobWriter::begin(root.path(), &id).unwrap();
    writer.add("half", b"x").unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    assert!(fs::read_to_string(root.path().join("18").join(ENVIRONMENT_FILE)).unwrap().contains("too late"));
}

#[test]
fn a_node_table_reads_as_documented() {
    let torus = TorusBuilder::new(&[2, 2]).unwrap().build().unwrap();
    let demand = TorusDemand::whole(&torus);
    let tables = engine("angara-sssp").unwrap().route(&torus, &demand, &Limits::default()).unwrap();
    let text = node_table(&torus, &tables.routes[0], None, 1);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "sarouter-angara-table 1");
    assert_eq!(lines[1], "job -");
    assert_eq!(lines[2], format!("torus 2x2 {}", torus.fingerprint()));
    assert_eq!(lines[3..8], ["node 0.1 n2", "routes 3", "0.0 n1 -Y", "1.0 n3 +X,-Y", "1.1 n4 +X"]);
    assert!(lines[8].starts_with("end ") && lines[8].len() == 68 && lines.len() == 9);
}

/// No jobs, and jobs that have no pair of nodes.
#[test]
fn jobs_without_a_pair_are_written_and_judged() {
    let dir = tempfile::tempdir().unwrap();
    for (text, bound) in [("", 0), ("1 n1\n", 0), ("1 n1\n2 n[3-4]\n", 1)] {
        fs::write(dir.path().join("jobs"), text).unwrap();
        let common = ["--fabric", "angara:3x2", "--jobs", "jobs", "--transit", "any"];
        let run =
            |command: &str, more: &[&str]| sarouter(dir.path(), [&[command], &common[..], more].concat());
        let out = ["--out", "tables", "--format", "json"];
        let routed = run("route", &out);
        assert_eq!(routed.status.code(), Some(0), "{text}: {routed:?}");
        let report: serde_json::Value = serde_json::from_slice(&routed.stdout).unwrap();
        assert_eq!(report["lower_bound"], bound, "{text}: {report}");
        let judged = run("verify", &["--tables", "tables"]);
        assert_eq!(judged.status.code(), Some(0), "{text}: {judged:?}");
        fs::remove_dir_all(dir.path().join("tables")).unwrap();
    }
}

#[test]
fn routes_are_written_judged_and_rejected_when_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("tables");
    let (jobs, out_text) = (dir.path().join("jobs"), out.to_str().unwrap());
    fs::write(&jobs, "17 n[1-16]\n").unwrap();
    let common = ["--fabric", "angara:4x2x2x2", "--jobs", jobs.to_str().unwrap()];
    let run = |command: &str, more: &[&str]| sarouter(".", [&[command], &common[..], more].concat());
    let routed = run("route", &["--format", "json", "--out", out_text]);
    assert_eq!(routed.status.code(), Some(0), "{routed:?}");
    let report: serde_json::Value = serde_json::from_slice(&routed.stdout).unwrap();
    assert!(report["load"]["max"].as_u64() >= report["lower_bound"].as_u64());
    assert!(report["sigma4"].is_f64() && report["unique_share"].is_f64());
    assert!(out.join("node-0.0.0.0.table").is_file());
    assert_eq!(run("verify", &["--tables", out_text]).status.code(), Some(0));
    let path = out.join(ROUTES_FILE);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.split_once('\n').unwrap().1).unwrap();
    let missing = run("verify", &["--tables", out_text]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stdout).contains("missing"));
    fs::write(&path, &text[..text.len() - 3]).unwrap();
    let cut = run("verify", &["--tables", out_text]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&cut.stderr).contains("routes.txt:240: the file ends"), "{cut:?}");
}

#[test]
fn bad_input_names_the_place_and_publishes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let twice =
        at("twice.toml", "sizes = [2]\nnode = [{name = \"a\", at = [0]},\n{name = \"a\", at = [1]}]\n");
    let truncated = at("cut.toml", "sizes = [4, 2]\nfailed = [\"1.0\",\n");
    let [zero, one, five] = [("zero", "4, 0"), ("one", "4, 1"), ("five", "2, 2, 2, 2, 2")]
        .map(|(name, sizes)| at(&format!("{name}.toml"), &format!("# a torus\nsizes = [{sizes}]\n")));
    let outside = at("outside", "16 n2\n17 n1,n99\n");
    let split = at("split", "17 n1,n6\n");
    let json = at(
        "json",
        "{\"time\": \"2024-01-01T00:00:00Z\",\n\"jobs\": [\n{\"id\": \"17\", \"state\": \"RUNNING\", \"nodes\": [\"n99\"]}]}\n",
    );
    let failing =
        at("failing.toml", "sizes = [4, 4]\nfailed = [\"0.1+X\", \"0.1-X\", \"0.1+Y\", \"0.1-Y\"]\n");
    let cut_off = at("cut_off", "17 n1\n18 n1,n2\n");
    let out = dir.path().join("out");
    for (fabric, jobs, wanted) in [
        ("angara:4x0", None, "angara:4x0"),
        ("angara:4x1", None, "size 1"),
        ("angara:2x2x2x2x2", None, "5 dimensions"),
        (&twice[..], None, "twice.toml:3: two nodes are called a"),
        (&truncated[..], None, "cut.toml:"),
        (&zero, None, "zero.toml:2: dimension 2 has size 0"),
        (&one, None, "one.toml:2: dimension 2 has size 1"),
        (&five, None, "five.toml:2: a torus has 1 to 4 dimensions, not 5"),
        ("angara:4x4", Some(&outside), "outside:2: job 17: the torus has no node n99"),
        ("angara:4x4", Some(&json), "json:3: job 17: the torus has no node n99"),
        ("angara:4x4", Some(&split), "split:1: job 17: there is no legal route from n1 (0.0) to n6 (1.1)"),
        ("angara:4x4,failed=0.0", Some(&split), "split:1: job 17: node n1 has failed"),
        (&failing, Some(&cut_off), "cut_off:2: job 18: there is no legal route from n1 (0.0) to n2 (0.1)"),
    ] {
        let mut args = vec!["route", "--fabric", fabric, "--out", out.to_str().unwrap()];
        jobs.iter().for_each(|j| args.extend(["--jobs", j.as_str()]));
        let answer = sarouter(".", args);
        assert_eq!(answer.status.code(), Some(2), "{fabric}: {answer:?}");
        assert!(String::from_utf8_lossy(&answer.stderr).contains(wanted), "{fabric}: {answer:?}");
        assert!(!Path::new(&out).exists(), "{fabric}");
    }
}

#[test]
fn a_small_sweep_is_accepted_and_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let sweep = ["angara", "sweep", "--samples", "2", "--max-nodes", "60", "--out", out, "--format", "json"];
    let answer = sarouter(".", sweep);
    assert_eq!(answer.status.code(), Some(0), "{answer:?}");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(rows.len(), 3 * (49 + 2 + 2));
    for system in rows.chunks(3) {
        let max: Vec<u64> = system.iter().map(|r| r["max"].as_u64().unwrap()).collect();
        assert!(max[2] <= max[1] && max[2] <= max[0], "{}: {max:?}", system[0]["system"]);
    }
    assert!(fs::read_to_string(dir.path().join("sweep.svg")).unwrap().contains("<circle"));
    assert_eq!(fs::read_to_string(dir.path().join("sweep.csv")).unwrap().lines().count(), rows.len() + 1);
}

#[test]
fn engines_of_a_direct_torus_are_compared() {
    let run = |words: &[&str]| {
        sarouter(".", [&["compare", "--fabric", "angara:4x2x2x2", "--format", "json"], words].concat())
    };
    let output = run(&["--engines", "angara-sssp,sar"]);
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |row: usize, key: &str| rows[row]["load"][key].as_f64().unwrap();
    assert_eq!((output.status.code(), &rows[1]["engine"]), (Some(0), &"angara-sar".into()), "{rows}");
    assert!(of(1, "max") < of(0, "max") && rows[1]["lower_bound"] == 26, "{rows}");
    let slowdown = |row: usize| rows[row]["time"]["slowdown_mean"].as_f64().unwrap();
    assert!(slowdown(0) > 1.0 && slowdown(0) != slowdown(1), "{rows}");
    let output = run(&["--engines", "nonsense"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_torus_has_figures_where_no_job_runs() {
    let dir = tempfile::tempdir().unwrap();
    let [torus, jobs] =
        ["torus.toml", "jobs"].map(|name| dir.path().join(name).to_str().unwrap().to_string());
    fs::write(&torus, "sizes = [3, 3]\ntransit = \"any\"\n").unwrap();
    fs::write(&jobs, "# nobody\n").unwrap();
    let words = ["compare", "--fabric", &torus, "--jobs", &jobs, "--format", "json"];
    let output = sarouter(".", words);
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = (&rows[0]["lower_bound"], &rows[0]["load"]["max"]);
    assert_eq!((output.status.code(), figures), (Some(0), (&0.into(), &0.into())), "{rows}");
}

#[test]
fn a_report_has_the_keys_of_other_fabrics_and_the_same_figures() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    fs::write(&jobs, "7 n[1-4]\n9 n[7-10,12]\n").unwrap();
    let report = |arguments: &[&str]| {
        let out = sarouter(".", [arguments, &["--out", dir.path().join("x").to_str().unwrap()]].concat());
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap()
    };
    let jobs = jobs.to_str().unwrap();
    let direct = ["route", "--fabric", "angara:4x4,failed=3.3", "--transit", "any", "--format", "json"];
    let switched = report(&["route", "--fabric", "torus:4x4,hosts=1", "--format", "json"]);
    for direct in [report(&direct), report(&[&direct[..], &["--jobs", jobs]].concat())] {
        for (key, value) in switched.as_object().unwrap() {
            assert!(!direct[key].is_null(), "{key}");
            for (inner, _) in value.as_object().into_iter().flatten() {
                assert!(!direct[key][inner].is_null(), "{key}.{inner}");
            }
        }
        let fabric = &direct["fabric"];
        assert_eq!((&fabric["switches"], &fabric["terminals"]), (&16.into(), &15.into()));
        // 32 cables of two channels, less the four of the failed node.
        assert_eq!(fabric["inter_switch_channels"], 56);
    }
    let whole = report(&direct);
    assert_eq!((&whole["effective"]["max"], &whole["effective"]["dark_fiber"]), (&0.into(), &1.0.into()));
    let of_jobs = report(&[&direct[..], &["--jobs", jobs]].concat());
    let own = |key: &str| {
        of_jobs["per_job"]
            .as_array()
            .unwrap()
            .iter()
            .map(|j| j["load"][key].clone())
            .max_by_key(|v| v.as_u64())
    };
    assert_eq!(of_jobs["effective"]["max"], of_jobs["load"]["max"]);
    assert!(of_jobs["effective"]["max"].as_u64() >= own("max").unwrap().as_u64());
    let hops = |job: &serde_json::Value| {
        let nodes = job["nodes"].as_f64().unwrap();
        job["mean_hops"].as_f64().unwrap() * nodes * (nodes - 1.0)
    };
    let total: f64 = of_jobs["per_job"].as_array().unwrap().iter().map(hops).sum();
    let mean = of_jobs["effective"]["mean"].as_f64().unwrap();
    assert!((mean - total / 56.0).abs() < 1e-9, "{mean} {total}");
}
