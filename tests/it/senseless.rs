//! What makes no sense is refused in words, at once, and never taken for something else.

use std::path::Path;

use sarouter::lab::generate::faults::{Amount, Faults};
use sarouter::lab::generate::generate;
use serde_json::Value;

use crate::program::{report, sarouter};

fn json(dir: &Path, typed: &str) -> Value {
    report(dir, typed.split(' '))
}

/// What is typed, and a part of the answer.
const REFUSED: &[(&str, &str)] = &[
    ("simulate --fabric fattree:4x4,4 --engine ksp --paths 0", "--paths"),
    ("route --fabric angara:4x4 --time-limit nan --out o", "--time-limit"),
    ("simulate --fabric fattree:4x4,4 --warm-up nan --measure nan", "--warm-up"),
    ("survive matrix --fabric fattree:4x4,4 --time nan", "--time"),
    ("compare --fabric fattree:4x4,4 --threads 99999", "at most 512"),
    ("survive throughput --fabric fattree:4x4,4 --packets 0 --out o", "--packets"),
    ("survive lost --fabric fattree:4x4,4 --seeds 0", "--seeds"),
    ("survive lost --fabric kary:4,2 --faults 99", "of 99 cables can go"),
    ("replay --fabric fattree:4x4,4 --trace generated:tsubame2,days=0", "from 1 to 3660"),
    ("replay --fabric torus:2x2,hosts=0 --trace generated:tsubame2,days=1 --every 6h", "no hosts"),
    ("simulate --fabric torus:2x2,hosts=0", "no hosts"),
    ("survive throughput --fabric torus:2x2,hosts=0 --out o", "no hosts"),
    ("bench time --fabric torus:2x2,hosts=0", "no hosts"),
    ("fabric show torus:4x4,hosts=1,dead-switches=16", "only 15 of 16 switches"),
    ("compare --fabric angara:2x2 --engines angara-sar --tables t=/nonexistent", "--tables is for switched"),
    ("compare --fabric angara:2x2 --node-map /nonexistent", "--node-map is for switched"),
    ("route --fabric angara:2x2 --previous /nonexistent --roots x --out o", "--roots, --previous are for"),
    ("verify --fabric angara:2x2 --tables o --layers-file /nonexistent", "--layers-file is for switched"),
    ("replay --fabric angara:2x2 --trace t --out o", "--out is for switched"),
    (
        "replay --fabric angara:2x2 --trace t --from 2026-01-01T00:00:00Z --strict --seed 2 --chunk 9",
        "are for switched",
    ),
    ("replay --fabric angara:2x2 --trace t --every 1h", "--every is for switched"),
    ("replay --fabric angara:2x2 --trace t --to 2026-01-01T00:00:00Z", "--to is for switched"),
    ("replay --fabric angara:2x2 --trace t --layers 4 --layer-per-job", "--layers, --layer-per-job are for"),
    (
        "replay --fabric angara:2x2 --trace t --threads 2 --communication 50",
        "--threads, --communication are for",
    ),
    ("replay --fabric angara:2x2 --trace t --min-pause 5", "--min-pause is for switched"),
    (
        "verify --fabric kary:2,2 --tables o --jobs jobs",
        "--jobs is for a direct torus or for --layer-per-job",
    ),
    ("verify --fabric kary:2,2 --tables o --update-from o --high-lids o --jobs jobs", "cannot be used with"),
    ("verify --fabric kary:2,2 --tables o --update-from o --high-lids o --first-step", "cannot be used with"),
    (
        "verify --fabric kary:2,2 --tables o --update-from o --high-lids o --reverse-on-same-layer",
        "cannot be used with",
    ),
    ("fabric generate fattree:4x4,4 --out - --format json", "no JSON"),
    ("order --fabric fattree:4x4,4 --nodes n[1-8] --as rankfile --format json", "no --format json"),
    ("compare --fabric /dev/zero", "/dev/zero: it has more than 1 MiB"),
    ("compare --fabric fattree:4x4,4 --jobs /dev/zero", "/dev/zero: it has more than 1 MiB"),
    ("status --state . --fabric-name nosuch", "a state directory is of one fabric already"),
    ("history --state . --fabric-name nosuch", "a state directory is of one fabric already"),
    ("route --fabric kary:2,2 --transit any --rounds 3 --out o", "--transit is for a direct torus"),
    ("route --fabric kary:2,2 --rounds 3 --time-limit 1 --out o", "--rounds, --time-limit are for"),
    ("place --fabric angara:2x2 --nodes 2 --engine sar", "--engine is for switched"),
    ("survive lost --fabric angara:3x3 --faults 1000", "1000 links of 18 links and 9 nodes cannot fail"),
    ("simulate --fabric kary:2,2 --traffic uniform --seeds 2 --seed 18446744073709551615", "--seed"),
    ("simulate --fabric kary:2,2 --traffic pingpong --active 1", "two hosts at least"),
    ("simulate --fabric kary:2,2 --traffic shift --active 3", "pingpong and bulk only"),
    ("survive lost --fabric kary:2,2 --years 4294967295", "1..=1000"),
    (
        "survive throughput --fabric kary:2,2 --set mtu=2000000 --set flit_bytes=100000 --packets 10000 --out o",
        "4 GiB",
    ),
    ("simulate --fabric kary:2,2 --set mtu=4294967295 --set flit_bytes=4294967295", "mtu and overhead"),
    ("simulate --fabric kary:2,2 --set link_delay_ps=4294967295", "link_delay_ps and switch_delay_ps"),
    (
        "simulate --fabric torus:3x3,hosts=1 --traffic uniform --changes 20 --lose 15",
        "--lose 15: only 10 of 15 cables can go without splitting the fabric",
    ),
    ("simulate --fabric kary:2,2 --traffic uniform --load 0.3 --active 2", "pingpong and bulk only"),
    ("simulate --fabric kary:2,2 --traffic uniform --changes 5 --active 2", "pingpong and bulk only"),
    (
        "simulate --fabric kary:2,2 --traffic uniform --changes 5 --seeds 2",
        "--seeds: with --changes each load",
    ),
    ("simulate --fabric kary:2,2 --traffic uniform --changes 5 --most 100", "--most: with traffic"),
    ("simulate --fabric kary:2,2 --traffic pingpong --seeds 2", "--seeds: pingpong and bulk run once"),
    ("simulate --fabric kary:2,2 --traffic bulk --load 0.5", "--load: pingpong and bulk wait"),
    ("simulate --fabric kary:2,2 --traffic pingpong --warm-up 1 --measure 1", "--warm-up: with traffic"),
    ("simulate --fabric kary:2,2 --traffic shift --warm-up 1 --measure 1", "--warm-up: with traffic"),
    ("simulate --fabric angara:2x2 --traffic shift --most 100", "--most: with traffic without end only"),
    ("simulate --fabric kary:2,2 --traffic uniform --most 9 --warm-up 1 --measure 1", "cannot be used with"),
    ("simulate --fabric kary:2,2 --traffic shift --paths 4", "--paths: of ksp and ksp-ugal only"),
    ("simulate --fabric kary:2,2 --traffic uniform --storage n1 --reads 1KiB", "--reads: beside exchanges"),
    (
        "simulate --fabric kary:2,2 --traffic pingpong --storage n1 --writes 1KiB",
        "--writes: beside exchanges",
    ),
    (
        "simulate --fabric fattree:4x4,4 --jobs jobs --traffic uniform,1=shift",
        "--traffic JOB=T: beside exchanges",
    ),
    ("simulate --fabric kary:2,2 --jobs none", "no job of --jobs is on several nodes"),
    ("replay --fabric kary:2,2 --trace generated:tsubame2,days=1 --engines sar,sar", "sar is named twice"),
    (
        "replay --fabric kary:2,2 --trace generated:tsubame2,days=1 --placement tree,tree",
        "tree is named twice",
    ),
    ("bench time --fabric kary:2,2 --fabric kary:2,2", "--fabric: kary:2,2 is named twice"),
    ("bench time --fabric kary:2,2 --sizes 1", "must be 2 or more"),
    ("bench time --fabric kary:2,2 --sizes 16,0", "must be 2 or more"),
    ("bench time --fabric kary:2,2 --engines sar,sar", "--engines: sar is named twice"),
    ("bench time --fabric kary:2,2 --patterns ring,shift,ring", "--patterns: ring is named twice"),
    ("bench time --fabric kary:2,2 --seeds 1,2,1", "--seeds: 1 is named twice"),
    ("bench time --fabric kary:2,2 --jobs jobs --jobs jobs", "--jobs: jobs is named twice"),
    ("route --fabric kary:2,2 --engine sssp --roots x --out o", "--roots: for updown and balanced only"),
    ("route --fabric kary:2,2 --engine sar --previous x --out o", "--previous: for balanced and"),
    ("route --fabric kary:2,2 --engine polarized --jobs jobs --out o", "polarized know no jobs"),
    ("plan --fabric angara:2x2 --jobs jobs --layers 2 --state s", "--layers is for switched"),
    ("hold --state s --reason a\nb", "the reason must be a line of at most 1000 bytes"),
    ("trial --days 14 --from 2020-01-01 --state s", "over already"),
    ("plan --fabric torus:5x5,hosts=1 --engine minhop --jobs jobs --state s", "rejected: deadlock: "),
];

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), "1 n[1-9]\n").unwrap();
    std::fs::write(dir.path().join("none"), "1 n1\n").unwrap();
    for (typed, words) in REFUSED {
        let output = sarouter(dir.path(), typed.split(' '));
        assert_eq!(output.status.code(), Some(2), "{typed}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(words) && !said.contains("panicked"), "{typed}: {said}");
    }
}

#[test]
fn nothing_is_held_where_no_service_has_run() {
    let dir = tempfile::tempdir().unwrap();
    let state = Path::new("/var/lib/sarouter");
    if !state.exists() && !Path::new("/etc/sarouter").exists() {
        let output = sarouter(dir.path(), ["hold"]);
        assert_eq!((output.status.code(), state.exists()), (Some(2), false), "{output:?}");
    }
}

#[test]
fn what_cannot_be_done_for_anybody_is_the_answer_no() {
    let dir = tempfile::tempdir().unwrap();
    for (typed, words) in [
        ("route --fabric angara:2,failed=0+X --out d", "refused: "),
        ("fabric nodes fattree:4x4,4 --nodes -", "0 of 0 nodes"),
    ] {
        let output = sarouter(dir.path(), typed.split(' '));
        assert_eq!(output.status.code(), Some(1), "{typed}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(words), "{typed}: {output:?}");
    }
    assert!(!dir.path().join("d").exists());
}

#[test]
fn the_system_of_the_paper_has_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let rows = json(dir.path(), "compare --fabric desmos --engines angara-bfs");
    assert_eq!((&rows[0]["fabric"]["sizes"], &rows[0]["load"]["max"]), (&"4x2x2x2".into(), &48.into()));
}

#[test]
fn tables_of_an_earlier_call_do_not_stay_beside_others() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("d");
    let names = || -> Vec<String> {
        let all = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    };
    let route = |fabric: &str, jobs: &str| {
        std::fs::write(dir.path().join("jobs"), jobs).unwrap();
        let output = sarouter(dir.path(), format!("route --fabric {fabric} --jobs jobs --out d").split(' '));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    route("angara:4x4", "1 n[1-2]\n2 n[5-6]\n");
    std::fs::write(out.join("notes"), "mine").unwrap();
    std::fs::write(out.join("job-2/notes"), "mine").unwrap();
    route("angara:4x4", "3 n[1-2]\n4 n[5-6]\n");
    assert_eq!(names(), ["job-2", "job-3", "job-4", "notes", "report.json"]);
    assert_eq!(std::fs::read_dir(out.join("job-2")).unwrap().count(), 1, "what is not ours stays");
    route("angara:4x4", "5 n[1-4]\n");
    route("angara:2", "5 n[1-2]\n");
    let left = ["job-2", "node-0.table", "node-1.table", "nodes.txt", "notes", "report.json", "routes.txt"];
    assert_eq!(names(), left);
}

#[test]
fn every_number_of_switches_up_to_the_last_can_go() {
    let fabric = generate("torus:4x4,hosts=1").unwrap();
    for dead_switches in 1..=15 {
        for seed in 1..=5 {
            let left = Faults { cables: Amount::Count(0), dead_switches, seed }.apply(&fabric).unwrap();
            assert_eq!(left.switches().len(), 16 - dead_switches);
        }
    }
}

#[test]
fn where_nothing_fails_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let lost = "survive lost --fabric rails:2x2,2,2,apart=1 --engines updown --seeds 1 --faults";
    let rows = json(dir.path(), &format!("{lost} 0"));
    assert_eq!((rows[0]["mean"].as_f64(), rows[0]["expected"].as_f64()), (Some(0.0), Some(0.0)), "{rows}");
    // Of the usual levels those that can be.
    let rows = json(dir.path(), "survive lost --fabric kary:4,2 --engines updown --seeds 1");
    let cables: Vec<u64> = rows.as_array().unwrap().iter().map(|r| r["cables"].as_u64().unwrap()).collect();
    assert_eq!(cables, [1, 2, 5]);
}

#[test]
fn runs_of_another_fabric_with_the_same_name_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let call = "survive throughput --fabric f.net --engines minhop --faults 0 --packets 1 --out o";
    let of = |spec: &str| {
        let made = sarouter(dir.path(), format!("fabric generate {spec} --out f.net").split(' '));
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        json(dir.path(), call)["rows"][0]["mean"].as_f64().unwrap()
    };
    let (full, tapered) = (of("xgft:1;4;4,hosts=4"), of("xgft:1;4;1,hosts=4"));
    assert!(tapered < full, "{tapered} {full}");
    let runs = std::fs::read_to_string(dir.path().join("o/runs.jsonl")).unwrap();
    assert_eq!(runs.lines().count(), 2, "{runs}");
    // Lines of before say no fingerprint.
    let old = runs.lines().map(|line| {
        let mut run: Value = serde_json::from_str(line).unwrap();
        run.as_object_mut().unwrap().remove("fingerprint").unwrap();
        run["throughput"] = 1e6.into();
        format!("{run}\n")
    });
    std::fs::write(dir.path().join("o/runs.jsonl"), old.collect::<String>()).unwrap();
    assert_eq!(of("xgft:1;4;1,hosts=4"), tapered);
}

#[test]
fn a_mean_of_nothing_is_no_minus_zero() {
    let dir = tempfile::tempdir().unwrap();
    let rows = json(dir.path(), "compare --fabric angara:2,failed=0").to_string();
    assert!(!rows.contains("-0.0"), "{rows}");
    // One layer is too few.
    let call = "survive throughput --fabric torus:5x5,hosts=1 --engines dfsssp --layers 1 --faults 0 \
                --packets 1 --out o";
    let row = json(dir.path(), call)["rows"][0].take();
    assert_eq!((&row["failed"], &row["mean"]), (&1.into(), &Value::Null), "{row}");
}

#[test]
fn a_replay_begins_when_its_first_job_does() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "JobID|Start|End|NodeList\n1|2015-02-16T00:03:00|2015-02-16T03:00:00|n[1-8]\n";
    std::fs::write(dir.path().join("t"), trace).unwrap();
    for every in ["99h", "7min", "10min"] {
        let call = format!("replay --fabric fattree:4x4,4 --trace t --engines minhop --every {every}");
        let summary = json(dir.path(), &call)["summaries"][0].take();
        assert_eq!(summary["idle"], 0, "{every}: {summary}");
    }
}

#[test]
fn pictures_of_a_fabric_without_hosts_have_no_load() {
    let dir = tempfile::tempdir().unwrap();
    json(dir.path(), "compare --fabric torus:2x2,hosts=0 --engines updown --svg x.svg --html x.html");
    let drawn = std::fs::read_to_string(dir.path().join("x.svg")).unwrap();
    assert!(drawn.contains("at most 0 routes on a channel"), "{drawn:.300}");
}

#[test]
fn tables_may_have_the_line_ends_of_another_system() {
    let dir = tempfile::tempdir().unwrap();
    json(dir.path(), "route --fabric torus:3x3,hosts=1 --engine dfsssp --out o");
    for name in ["lft.txt", "layers.txt"] {
        let text = std::fs::read_to_string(dir.path().join("o").join(name)).unwrap();
        std::fs::write(dir.path().join("o").join(name), text.replace('\n', "\r\n")).unwrap();
    }
    json(dir.path(), "verify --fabric torus:3x3,hosts=1 --tables o");
}

#[test]
fn a_refused_route_says_whose_tables_lie_there() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |typed: &str| {
        let output = sarouter(dir.path(), typed.split(' '));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).contains("o still has the tables of before")
    };
    assert!(!refused("route --fabric fattree:4x4,4 --engine torus --out o"));
    json(dir.path(), "route --fabric fattree:4x4,4 --engine updown --out o");
    assert!(refused("route --fabric fattree:4x4,4 --engine torus --out o"));
}
