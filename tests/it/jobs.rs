//! Jobs as files and as `squeue` prints them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use proptest::prelude::*;
use sarouter::model::{Component, Job, JobId, JobMap, JobState, NodeName};
use sarouter::observe::jobs::{self, JobsError};
use sarouter::observe::slurm::{Squeue, SqueueFormat};
use sarouter::observe::source::{JobSource, PollError};

fn data(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/slurm").join(name);
    std::fs::read_to_string(path).unwrap()
}

pub fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

pub fn job(id: &str, state: JobState, nodes: &[&str], start: Option<i64>) -> Job {
    let nodes = nodes.iter().map(|n| NodeName::new(*n).unwrap()).collect();
    Job::new(JobId::new(id).unwrap(), state, nodes, start.map(at))
}

const NOW: i64 = 1_795_246_200;

/// What the captured cluster was doing: an array of two tasks and a starting job share n4 and n8.
fn captured() -> JobMap {
    let jobs = vec![
        job("13", JobState::Completing, &["n3", "n7"], Some(1_795_245_963)),
        job("14", JobState::Running, &["n4", "n8"], Some(1_795_246_002)),
        job("15", JobState::Running, &["n4", "n8"], Some(1_795_246_002)),
        job("18", JobState::Configuring, &["n4", "n8"], Some(1_795_246_141)),
        job("7", JobState::Running, &["n1", "n2", "n5", "n6"], Some(1_795_245_938)),
    ];
    JobMap::new(at(NOW), jobs)
}

#[test]
fn a_job_that_is_there_twice_is_named() {
    let snapshot = r#"{"time": "2026-01-01T00:00:00Z", "jobs": [
        {"id": "7_1", "state": "RUNNING", "nodes": ["n1"]}, {"id": "7_1", "state": "RUNNING", "nodes": []}]}"#;
    let slurm = r#"{"jobs": [{"job_id": 7, "job_state": "RUNNING", "nodes": "n1"},
        {"job_id": 8, "job_state": "PENDING", "nodes": ""}, {"job_id": 8, "job_state": "RUNNING", "nodes": "n2"},
        {"job_id": 7, "job_state": ["COMPLETING"], "nodes": "n3"}]}"#;
    for (text, place, id) in
        [("7 n1\n# more\n8 n2\n7 n3\n", "file:4", "7"), (snapshot, "file", "7_1"), (slurm, "file", "7")]
    {
        let error = jobs::parse(text, "file", at(NOW)).unwrap_err().to_string();
        assert_eq!(error, format!("{place}: job {id} is there twice"));
    }
    let error = jobs::squeue_lines("7|RUNNING|n1|N/A\n7|COMPLETING|n2|N/A\n", "squeue", at(NOW));
    assert_eq!(error.unwrap_err().to_string(), "squeue:2: job 7 is there twice");
}

#[test]
fn a_mark_of_the_byte_order_is_no_part_of_a_job() {
    for text in ["17 n[1-2]\n", &data("squeue-22.05.json")] {
        let marked = jobs::parse(&format!("\u{feff}{text}"), "file", at(NOW)).unwrap();
        assert_eq!(marked, jobs::parse(text, "file", at(NOW)).unwrap());
    }
}

#[test]
fn both_forms_of_a_real_squeue_say_the_same() {
    let mut json = jobs::parse(&data("squeue-22.05.json"), "squeue", at(NOW)).unwrap();
    // One job had a time limit: 365 days. The text was captured without ends.
    let lengths: Vec<_> =
        json.jobs.iter().filter_map(|j| Some((j.id.as_str(), j.length()?.num_days()))).collect();
    assert_eq!(lengths, [("18", 365)]);
    json.jobs.iter_mut().for_each(|j| j.end = None);
    let text = jobs::squeue_lines(&data("squeue-22.05.txt"), "squeue", at(NOW)).unwrap();
    assert_eq!(json, captured());
    assert_eq!(text, captured());
}

#[test]
fn components_are_one_job_and_a_suspended_job_keeps_its_nodes() {
    let json = jobs::parse(&data("squeue-22.05-heterogeneous.json"), "squeue", at(NOW)).unwrap();
    let text = jobs::squeue_lines(&data("squeue-22.05-heterogeneous.txt"), "squeue", at(NOW)).unwrap();
    assert_eq!(json, text);
    let part = |offset| Some(Component { of: JobId::new("1").unwrap(), offset });
    let begun = Some(1_795_383_696);
    let wanted = vec![
        job("1", JobState::Running, &["n1", "n2"], begun).part_of(part(0)),
        job("2", JobState::Running, &["n5", "n6"], begun).part_of(part(1)),
        job("3", JobState::Suspended, &["n3", "n7"], begun).ending(Some(at(1_795_387_296))),
    ];
    assert_eq!(json, JobMap::new(at(NOW), wanted));
    assert_eq!(json.whole(), [vec![0, 1], vec![2]]);
    assert_eq!(jobs::parse(&serde_json::to_string(&json).unwrap(), "x", at(NOW)).unwrap(), json);
    let error = jobs::squeue_lines("7|RUNNING|n1|N/A|N/A|6+x\n", "squeue", at(NOW)).unwrap_err();
    assert_eq!(error.to_string(), "squeue:1: \"6+x\" is no component of a heterogeneous job");
}

/// Ids are ordered as words, components by their offsets.
#[test]
fn components_are_in_their_order_whatever_their_ids() {
    let text = "9|RUNNING|n5|N/A|N/A|9+0\n10|RUNNING|n3|N/A|N/A|9+1\n11|RUNNING|n4|N/A|N/A|9+2\n8|RUNNING|n1|N/A|N/A|8_4\n";
    let map = jobs::squeue_lines(text, "squeue", at(NOW)).unwrap();
    let ids = |parts: &Vec<usize>| parts.iter().map(|i| map.jobs[*i].id.to_string()).collect::<Vec<_>>();
    assert_eq!(map.whole().iter().map(ids).collect::<Vec<_>>(), [vec!["9", "10", "11"], vec!["8"]]);
}

#[test]
fn an_unreachable_controller_is_no_empty_cluster() {
    let error = jobs::parse(&data("squeue-22.05-no-controller.json"), "squeue", at(NOW)).unwrap_err();
    assert!(matches!(error, JobsError::Slurm { .. }), "{error}");
    assert_eq!(error.to_string(), "squeue: Slurm reports: Failed while looking for jobs: Unspecified error");
}

#[test]
fn newer_versions_write_states_numbers_and_nodes_differently() {
    let text = r#"{"jobs": [
      {"job_id": 1, "job_state": ["RUNNING"], "nodes": "n[1-2]", "start_time": {"set": true, "infinite": false, "number": 50}},
      {"job_id": 2, "job_state": ["RUNNING", "CONFIGURING"], "nodes": "", "job_resources": {"nodes": {"count": 2, "list": "n[3-4]"}},
       "start_time": {"set": false, "infinite": false, "number": 0}},
      {"job_id": 3, "job_state": ["COMPLETED", "COMPLETING"], "nodes": null, "job_resources": {"nodes": "n5,n6"}, "start_time": 60},
      {"job_id": 4, "job_state": ["PENDING"], "nodes": "", "job_resources": null, "start_time": {"set": true, "number": 70}},
      {"job_id": 5, "job_state": ["COMPLETED"], "nodes": "n7"},
      {"job_id": 6, "job_state": "SUSPENDED", "nodes": "n8"}
    ], "last_update": {"set": true, "number": 80}, "errors": [], "warnings": []}"#;
    let wanted = vec![
        job("1", JobState::Running, &["n1", "n2"], Some(50)),
        job("2", JobState::Configuring, &["n3", "n4"], None),
        job("3", JobState::Completing, &["n5", "n6"], Some(60)),
        job("6", JobState::Suspended, &["n8"], None),
    ];
    assert_eq!(jobs::parse(text, "x", at(NOW)).unwrap(), JobMap::new(at(NOW), wanted));
}

#[test]
fn snapshots_keep_their_own_time() {
    let text = r#"{"time": "2026-01-02T03:04:05Z", "jobs": [{"id": "17", "state": "RUNNING", "nodes": ["n2", "n1", "n2"]}]}"#;
    let map = jobs::parse(text, "x", at(NOW)).unwrap();
    let wanted = JobMap::new(
        "2026-01-02T03:04:05Z".parse().unwrap(),
        vec![job("17", JobState::Running, &["n2", "n1"], None)],
    );
    assert_eq!(map, wanted);
    assert_eq!(jobs::parse(&serde_json::to_string(&map).unwrap(), "x", at(NOW)).unwrap(), map);
}

#[test]
fn lines_are_id_and_hostlist() {
    let map = jobs::parse("# two jobs\n17 n[1-2,9]\n\n18_3 n1 # shared\n", "x", at(NOW)).unwrap();
    let wanted = vec![
        job("17", JobState::Running, &["n1", "n2", "n9"], None),
        job("18_3", JobState::Running, &["n1"], None),
    ];
    assert_eq!(map, JobMap::new(at(NOW), wanted));
}

/// Each bad text with the line that is wrong and a word of the explanation.
#[test]
fn bad_input_is_refused_with_its_line() {
    let cases: &[(&str, usize, &str)] = &[
        ("17 n[1-2]\n18\n", 2, "ID HOSTLIST"),
        ("17 n1 n2\n", 1, "ID HOSTLIST"),
        ("17 n1\n\n18 n[1-\n", 3, "n[1-"),
        ("{\"jobs\": [\n{\"job_id\": 1, \"job_state\":", 2, "too soon"),
        ("{\"jobs\": [\n{\"job_id\": 1,\n\"job_state\": \"RUNNING\", \"nodes\": \"n[3-1]\"}]}", 3, "job 1"),
        ("{\"no\": 1}", 1, "jobs"),
        ("{\"jobs\": [{\"job_id\": 1, \"job_state\": 5}]}", 1, "job_state is neither a word nor"),
        (
            "{\"jobs\": [{\"job_id\": 1, \"job_state\": \"RUNNING\", \"start_time\": \"x\"}]}",
            1,
            "neither a whole number nor {set, infinite, number}",
        ),
        ("{\"time\": \"yesterday\",\n\"jobs\": []}", 1, "input"),
        (
            "{\"time\": \"2026-01-02T03:04:05Z\", \"jobs\": [\n{\"id\": \"\", \"state\": \"RUNNING\", \"nodes\": []}]}",
            2,
            "job id",
        ),
    ];
    for (text, wanted_line, word) in cases {
        match jobs::parse(text, "file", at(NOW)) {
            Err(JobsError::Line { line, message, .. }) => {
                assert_eq!(line, *wanted_line, "{text}: {message}");
                assert!(message.contains(word), "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let error = jobs::squeue_lines("1|RUNNING|n1|5\n2|RUNNING|n2\n", "squeue", at(NOW)).unwrap_err();
    assert!(error.to_string().starts_with("squeue:2: "), "{error}");
    let error = jobs::squeue_lines("1|RUNNING|n1|2026-11-21T07:22:19\n", "squeue", at(NOW)).unwrap_err();
    assert!(error.to_string().contains("seconds"), "{error}");
    assert!(jobs::load("/no/such/jobs").unwrap_err().to_string().starts_with("/no/such/jobs: "));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[{}\\[\\]\",:|0-9a-z\\n -]{0,60}") {
        let _ = jobs::parse(&text, "x", at(NOW));
        let _ = jobs::squeue_lines(&text, "x", at(NOW));
    }
}

/// A `squeue` that runs a script instead.
fn fake_squeue(dir: &std::path::Path, script: &str) -> String {
    let path = dir.join("squeue");
    crate::script::script(&path, &format!("#!/bin/sh\n{script}\n"));
    path.to_str().unwrap().to_string()
}

fn poll(mut squeue: Squeue) -> Result<JobMap, PollError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(squeue.poll(at(NOW)))
}

#[test]
fn a_hanging_squeue_is_killed_at_its_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let program = fake_squeue(dir.path(), "exec sleep 1000");
    let begun = Instant::now();
    let error =
        poll(Squeue::new(&program, SqueueFormat::Json, Duration::from_millis(200), 1000)).unwrap_err();
    assert!(error.to_string().contains("killed after 0.2 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(100));
}

/// Whoever lets jobs wait with long arguments keeps nobody else's from being seen.
#[test]
fn more_than_fits_is_asked_for_without_what_users_write() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"case "$*" in *--json*) exec yes ;; esac; echo '5|RUNNING|n1|100|160'"#;
    let program = fake_squeue(dir.path(), script);
    let map = poll(Squeue::new(&program, SqueueFormat::Json, Duration::from_secs(60), 1000)).unwrap();
    assert_eq!(map.jobs[0].id.as_str(), "5");
}

#[test]
fn an_empty_answer_says_that_there_are_no_jobs_only_where_it_is_no_json() {
    let dir = tempfile::tempdir().unwrap();
    let program = fake_squeue(dir.path(), "true");
    let answer = |format| poll(Squeue::new(&program, format, Duration::from_secs(60), 1000));
    assert_eq!(answer(SqueueFormat::Text).unwrap().jobs, []);
    let error = answer(SqueueFormat::Json).unwrap_err().to_string();
    assert!(error.contains("the text ends too soon"), "{error}");
    let error = jobs::answer("7 n1", "x", at(NOW)).unwrap_err().to_string();
    assert!(error.starts_with("x:1: "), "{error}");
}

#[test]
fn squeue_is_asked_for_jobs_that_own_nodes_with_times_in_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"[ "$*" = "-a --local -h -r -t R,CF,CG,S,ST,SI,RS -o %A|%T|%N|%S|%e|%i|%u|%P" ] || exit 9
        [ "$SLURM_TIME_FORMAT" = %s ] || exit 8
        echo "5|RUNNING|$SLURM_CONF|100|160""#;
    let squeue =
        Squeue::new(&fake_squeue(dir.path(), script), SqueueFormat::Text, Duration::from_secs(60), 1000);
    let map = poll(squeue.with_variable("SLURM_CONF", "n1")).unwrap();
    let wanted = job("5", JobState::Running, &["n1"], Some(100)).ending(Some(at(160)));
    assert_eq!(map, JobMap::new(at(NOW), vec![wanted]));
}

#[test]
fn nodes_stay_in_list_order_which_is_the_order_of_ranks() {
    let names = |map: &JobMap| map.jobs[0].nodes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let now = at(0);
    let want = ["n9", "n10", "n11", "n2"];
    let lines = jobs::parse("7 n[9-11,2,10]", "lines", now).unwrap();
    assert_eq!(names(&lines), want);
    assert_eq!(names(&jobs::squeue_lines("7|RUNNING|n[9-11,2]|N/A\n", "squeue", now).unwrap()), want);
    let snapshot = serde_json::to_string(&lines).unwrap();
    assert_eq!(names(&jobs::parse(&snapshot, "snapshot", now).unwrap()), want);
    let slurm = r#"{"jobs": [{"job_id": 7, "job_state": "RUNNING", "nodes": "n[9-11,2]"}]}"#;
    assert_eq!(names(&jobs::parse(slurm, "slurm", now).unwrap()), want);
}

/// What a job says in its comment arrives in the demand, in every way that Slurm writes comments; what cannot be
/// understood says nothing, and breaks nothing.
#[test]
fn hints_in_comments_arrive_in_the_demand() {
    use sarouter::model::{Mix, Pattern};
    let fabric = sarouter::lab::generate::generate("fattree:2x4,2").unwrap();
    let nodes =
        sarouter::observe::nodes::name_hosts(&fabric, &sarouter::observe::nodes::NodeNames::default());
    let mix = |comment: &str| {
        let text = format!(
            r#"{{"errors": [], "jobs": [{{"job_id": 7, "job_state": "RUNNING", "nodes": "n[1-8]"{comment}}}]}}"#
        );
        let map = jobs::parse(&text, "x", Utc::now()).unwrap();
        // As the service keeps it.
        let kept = serde_json::to_string(&map).unwrap();
        let map = jobs::parse(&kept, "x", Utc::now()).unwrap();
        nodes.place(&map).demand(&fabric, Vec::new()).groups[0].mix.clone()
    };
    let ring = Mix::from(Pattern::Ring);
    assert_eq!(mix(r#", "comment": "sarouter:pattern=ring""#), ring);
    let parts = r#", "comment": {"administrator": "a", "job": "night; sarouter:pattern=ring", "system": ""}"#;
    assert_eq!(mix(parts), ring);
    for nothing in [
        "",
        r#", "comment": """#,
        r#", "comment": null"#,
        r#", "comment": 17"#,
        r#", "comment": {"administrator": "sarouter:pattern=ring"}"#,
        r#", "comment": "sarouter:pattern=rings""#,
        r#", "comment": ["sarouter:pattern=ring"]"#,
    ] {
        assert_eq!(mix(nothing), Mix::default(), "{nothing}");
    }

    // Who submitted it is known where the whole of Slurm's answer is, and is not written.
    let text = r#"{"errors": [], "jobs": [
        {"job_id": 7, "job_state": "RUNNING", "nodes": "n[1-4]", "account": "cfd", "partition": "gpu", "user_name": "ann",
         "name": "run"},
        {"job_id": 8, "job_state": "RUNNING", "nodes": "n[5-6]", "account": "cfd", "comment": "sarouter:pattern=ring"},
        {"job_id": 9, "job_state": "RUNNING", "nodes": "n[7-8]", "account": null, "partition": 7, "command": null},
        {"job_id": 10, "job_state": "RUNNING", "nodes": "n9", "command": "/opt/lmp_mpi -in /home/ann/vasp"},
        {"job_id": 11, "job_state": "RUNNING", "nodes": "n9", "command": "/home/ann/vasp 7"}]}"#;
    let rules = "[traffic]\nrules = [{ account = \"cfd\", pattern = \"shift\" }, { partition = \"gpu\", pattern = \"ring\" }, \
                 { executable = \"lmp*\", pattern = \"halo3d\" }, { executable = \"*\", pattern = \"linear\" }]";
    let rules = sarouter::config::Settings::parse(rules, std::path::Path::new("x")).unwrap().traffic;
    let map = jobs::parse(text, "x", Utc::now()).unwrap().guessing(&rules);
    let found: Vec<_> = map.jobs.iter().map(|j| (j.mix.as_ref().map(Mix::to_string), j.guessed)).collect();
    // By id, as words.
    let guess = |pattern: &str| (Some(pattern.to_string()), true);
    let said = (Some("ring".to_string()), false);
    assert_eq!(found, [guess("halo3d"), guess("linear"), guess("shift"), said, (None, false)]);
    let kept = serde_json::to_string(&map).unwrap() + &format!("{map:?}");
    assert_eq!(map.jobs[2].submitted.said().map(|said| said.user.as_str()), Some("ann"));
    assert!(!kept.contains("ann") && !kept.contains("gpu"), "{kept}");
    let kept = serde_json::to_string(&map).unwrap();
    assert_eq!(jobs::parse(&kept, "x", Utc::now()).unwrap(), map);
    // A line of squeue says too little for rules: the one for all programs would take what is one for accounts.
    let map = jobs::squeue_lines("7|RUNNING|n[1-4]|N/A|N/A|7|ann|gpu\n", "squeue", Utc::now()).unwrap();
    let said = map.jobs[0].submitted.said().unwrap();
    assert_eq!((said.user.as_str(), said.partition.as_str()), ("ann", "gpu"));
    assert_eq!(map.guessing(&rules).jobs[0].mix, None);

    let lines = jobs::parse("7 n[1-4,5] halo:2x2\n8 n[5-8]\n", "x", Utc::now()).unwrap();
    assert_eq!(lines.jobs[0].mix, Some("halo:2x2".parse().unwrap()));
    assert_eq!(lines.jobs[1].mix, None);
    let wrong = jobs::parse("7 n[1-4]\n8 n[5-8] rnig\n", "x", Utc::now()).unwrap_err().to_string();
    assert!(wrong.starts_with("x:2: there is no pattern \"rnig\"; did you mean ring?"), "{wrong}");
}

#[path = "../../plugin/slurm/spank/src/traffic.rs"]
#[allow(dead_code, reason = "the plugin's own tests use the rest")]
mod traffic;

/// What the plugin on submit hosts refuses, and what it says then, is what the service would say.
#[test]
fn the_plugin_refuses_what_the_service_would_not_understand() {
    use sarouter::model::{PATTERNS, pattern_hint};
    let mut known: Vec<&str> =
        PATTERNS.iter().map(|row| row.form).filter(|form| !form.contains(':')).collect();
    known.push("default");
    let mut words = traffic::WORDS.to_vec();
    known.sort_unstable();
    words.sort_unstable();
    assert_eq!(words, known);
    let good = [
        "halo:4x4x2",
        "halo:8x4",
        "halo:0x2x3",
        "groups:8",
        "7*alltoall+3*ring",
        "65535*halo:2x2+ring",
        "ring@same",
        "default@all",
        "rail-alltoall:8",
        "2*hierarchical:4+ring@same",
    ];
    for word in known.iter().chain(&good) {
        assert_eq!(traffic::check(word), Ok(()), "{word}");
        assert!(pattern_hint(word).is_ok(), "{word}");
    }
    let wrong = [
        "",
        "rings",
        "allotall",
        "altoall",
        "lienar",
        "Ring",
        "halo",
        "halo:4",
        "halo:4x",
        "halo:4x4x4x4",
        "halo:65536x2",
        "halo:axb",
        "groups",
        "groups:0",
        "groups:x",
        "hierarchical",
        "rail-alltoall:0",
        "ring@some",
        "ring@",
        "0*ring",
        "70000*ring",
        "-1*ring",
        "ring+",
        "+ring",
        "ring+default",
        "2*default",
        "quantum-entanglement",
        "double_tree",
        "halo2",
        "binomail",
        "permutation",
        "permuations",
        "nieghbor",
    ];
    // Each pattern with a letter too few, and with two swapped.
    let fewer = known.iter().map(|word| word[1..].to_string());
    let swapped =
        known.iter().map(|word| format!("{}{}{}", &word[..1], &word[2..3], &word[1..2]) + &word[3..]);
    let more: Vec<String> = fewer.chain(swapped).filter(|word| !known.contains(&word.as_str())).collect();
    assert!(more.len() > 20);
    for word in wrong.iter().copied().chain(more.iter().map(String::as_str)) {
        let said = pattern_hint(word).expect_err(word).to_string();
        assert_eq!(traffic::check(word).map_err(|why| format!("sarouter: {why}")), Err(said));
    }
    for word in ["ring+".repeat(8) + "ring", "ring+".repeat(40)] {
        assert!(
            traffic::check(&word).is_err() && (pattern_hint(&word).is_err() || word.len() < 60),
            "{word}"
        );
    }
}

/// The rule that refuses wrong hints at submission knows the patterns that there are.
#[test]
fn the_submission_rule_knows_every_pattern() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/job_submit.lua");
    let rule = std::fs::read_to_string(path).unwrap();
    let list = rule.split("local patterns = {").nth(1).unwrap().split('}').next().unwrap();
    let mut known: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let mut wanted: Vec<&str> =
        sarouter::model::PATTERNS.iter().map(|row| row.form).filter(|form| !form.contains(':')).collect();
    wanted.push("default");
    known.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(known, wanted);
}
