//! `bench adversary` as people call it.

use std::path::Path;
use std::process::Output;

use crate::program::{command, parsed, report};

fn adversary(dir: &Path, threads: &str, words: &[&str]) -> Output {
    let words = [&["bench", "adversary"], words].concat();
    command(dir, words).env("RAYON_NUM_THREADS", threads).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    let found = parsed(output);
    let is_far_behind = found["far_behind"].as_u64().unwrap_or(0) > 0;
    assert_eq!(output.status.code(), Some(i32::from(is_far_behind)), "{output:?}");
    found
}

#[test]
fn the_same_seed_gives_the_same_rows_on_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--specs", "8", "--seed", "3", "--max-hosts", "24", "--format", "json"];
    let one = json(&adversary(dir.path(), "1", &words));
    assert_eq!(one, json(&adversary(dir.path(), "3", &words)));
    assert_eq!((&one["specs"], &one["seed"]), (&8.into(), &3.into()));
    let rows = one["rows"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|r| r["layers"].as_u64().unwrap()).collect::<Vec<_>>(),
        [1, 1, 2, 2, 4, 4, 8, 8]
    );
    assert!(rows.iter().step_by(2).all(|r| r["mix"].is_null() && r["bound"].is_u64()), "{rows:?}");
    assert!(rows.iter().skip(1).step_by(2).all(|r| r["mix"].is_u64() && r["bound"].is_null()), "{rows:?}");
    let far = one["far_behind"].as_u64().unwrap() + one["behind"].as_u64().unwrap();
    assert_eq!(one["worst"].as_array().unwrap().len() as u64, far);
}

/// Where another engine predicts better, its tables are the answer.
#[test]
fn the_default_engine_is_behind_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--specs", "24", "--seed", "9", "--max-hosts", "40", "--format", "json"];
    let found = json(&adversary(dir.path(), "2", &words));
    assert_eq!((&found["specs"], &found["far_behind"], &found["behind"]), (&24.into(), &0.into(), &0.into()));
}

/// `updown` is behind on a torus: the row names who is better, and its command and its jobs show the same.
#[test]
fn an_engine_that_is_behind_is_named_with_what_shows_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--engine", "updown", "--fabric", "torus:4x4,hosts=2", "--layers", "4", "--mix", "5"];
    let more = ["--jobs-out", "jobs.txt", "--format", "json"];
    let found = json(&adversary(dir.path(), "2", &[&words[..], &more].concat()));
    assert_eq!((&found["specs"], &found["far_behind"]), (&1.into(), &1.into()));
    let row = &found["worst"][0];
    let best = row["best"].as_str().unwrap();
    assert_ne!(best, "updown");
    assert_eq!(
        found["commands"][0],
        "sarouter bench adversary --fabric 'torus:4x4,hosts=2' --layers 4 --mix 5 --engine updown"
    );
    let text = adversary(dir.path(), "2", &words);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.starts_with("1 cases: updown is behind by more than 2 % in 1, by at most that in 0\n"),
        "{text}"
    );
    assert!(text.contains(best) && text.contains("--mix 5 --engine updown"), "{text}");
    let compare = "compare --fabric torus:4x4,hosts=2 --layers 4 --jobs jobs.txt --engines updown";
    let rows = report(dir.path(), compare.split(' '));
    assert_eq!(rows[0]["time"]["slowdown_mean"], row["figure"]);
}

#[test]
fn what_does_not_exist_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for words in [["--engine", "balancde"], ["--fabric", "tours:4x4"], ["--mix", "5"], ["--layers", "0"]] {
        let output = adversary(dir.path(), "1", &words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
    }
}
