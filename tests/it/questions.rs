//! Questions that take a processor: bounded, one of each user, gone with their asker.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::site::{LONG, Serving, Site, refusal};

fn serving(settings: &str) -> (Site, Serving) {
    serving_within(100, settings)
}

fn serving_within(seconds: u64, settings: &str) -> (Site, Serving) {
    let site = Site::new("interval_seconds = 3600");
    site.settings(&format!("[api]\ndeadline_seconds = {seconds}\n{settings}\n"));
    let serving = Serving::routed(&site);
    (site, serving)
}

/// The processes that answer questions of a service.
fn answering(serving: &Serving) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", serving.pid())).unwrap().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let words = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if words.split(|b| *b == 0).nth(1) == Some(b"answer") {
                found.insert(child.parse().unwrap());
            }
        }
    }
    found
}

/// A question on the way.
fn begin(site: &Site, method: &str, path: &str) -> UnixStream {
    let mut stream = UnixStream::connect(site.path("state/api.sock")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    stream.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// Asks until a process that answers is caught at work; it stands still from then on.
fn caught(site: &Site, serving: &Serving) -> (UnixStream, i32) {
    caught_at(serving, || begin(site, "POST", "/v1/plan"))
}

/// The same, asking this.
fn caught_at(serving: &Serving, mut ask: impl FnMut() -> UnixStream) -> (UnixStream, i32) {
    let begun = Instant::now();
    loop {
        let before = answering(serving);
        let mut stream = ask();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        loop {
            assert!(begun.elapsed() < LONG, "no process answers");
            // It may have answered before it was seen.
            if stream.read(&mut [0]).is_ok() {
                break;
            }
            let Some(pid) = answering(serving).difference(&before).next().copied() else { continue };
            // Once it has bounded itself it ends with its parent.
            let confined = || match std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")) {
                Ok(score) => (score.trim() == "1000").then_some(true),
                Err(_) => Some(false),
            };
            while confined().is_none() {
                assert!(begun.elapsed() < LONG, "it does not bound itself");
            }
            // It may be over before the signal takes it.
            let stands = || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(state) if state.contains(") T") => Some(true),
                Ok(state) if !state.contains(") Z") => None,
                _ => Some(false),
            };
            if kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).is_ok() {
                while stands().is_none() {
                    assert!(begun.elapsed() < LONG, "it does not stand still");
                }
                if stands() == Some(true) {
                    stream.set_read_timeout(Some(LONG)).unwrap();
                    return (stream, pid);
                }
            }
            break;
        }
    }
}

fn answer(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_short_question_about_many_nodes_is_refused_and_costs_little() {
    let (site, serving) = serving("");
    let many: String = (1..=10).map(|i| format!("{i} n[1-999999]\n")).collect();
    let multiplied = "1 n[1-999]x[1-9]y[1-99]";
    let each_fits: String = (1..9000).map(|i| format!("{i} n[1-16]\n")).collect();
    let snapshot = format!(
        r#"{{"time": "2026-01-01T00:00:00Z", "jobs": [{{"id": "1", "state": "RUNNING", "nodes": ["n1"{}]}}]}}"#,
        r#", "n2""#.repeat(20)
    );
    let slurm = r#"{"jobs": [{"job_id": 1, "job_state": "RUNNING", "nodes": "n[1-999999]"}]}"#;
    for jobs in [many.as_str(), multiplied, &each_fits, &snapshot, slurm] {
        let (status, words) = refusal(site.post("/v1/plan", &json!({ "jobs": jobs })));
        assert_eq!(status, 400, "{words}");
        assert!(words.contains("that are possible here"), "{words}");
    }
    let peak = serving.peak_kib();
    assert!(peak < 128 << 10, "{peak} KiB");
    // What the machine can have is planned for.
    let fits: String = (1..100).map(|i| format!("{i} n[1-16]\n")).collect();
    assert_eq!(site.post("/v1/plan", &json!({ "jobs": fits })).unwrap()["due"], true);
    let twice = refusal(site.post("/v1/plan", &json!({ "jobs": "7 n1\n8 n2\n7 n3" })));
    assert_eq!(twice, (400, "jobs:3: job 7 is there twice".into()));
}

#[test]
fn a_question_ends_when_its_asker_is_gone() {
    let (site, serving) = serving("");
    let (stream, pid) = caught(&site, &serving);
    drop(stream);
    serving.until(|| !answering(&serving).contains(&pid));
    // And nothing is left of it: the next one is answered.
    assert_eq!(site.post("/v1/plan", &json!({})).unwrap()["due"], false);
    // So does it when the service is killed.
    let (_stream, pid) = caught(&site, &serving);
    serving.signal(Signal::KILL);
    let begun = Instant::now();
    while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z")) {
        assert!(begun.elapsed() < LONG, "it is still there");
    }
}

/// The load of the newest epoch, which nobody asked for before.
fn new_load(site: &Site, serving: &Serving, epoch: &mut u64) -> UnixStream {
    *epoch += 1;
    site.jobs(&format!("2|RUNNING|n[2,{}]|100\n", 5 + *epoch % 2));
    site.look();
    assert_eq!(serving.line()["epoch"]["epoch"], *epoch);
    begin(site, "GET", &format!("/v1/load?epoch={epoch}"))
}

#[test]
fn a_picture_that_is_late_is_there_for_whoever_asks_next() {
    let (site, serving) = serving_within(2, "");
    let mut epoch = 1;
    let (late, pid) = caught_at(&serving, || new_load(&site, &serving, &mut epoch));
    assert!(answer(late).starts_with("HTTP/1.1 504"));
    // Another question waits for it, as always, and is not answered by another process.
    let path = format!("/v1/load?epoch={epoch}");
    assert_eq!(refusal(site.get(&path)).0, 504);
    assert_eq!(answering(&serving), BTreeSet::from([pid]));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::CONT).unwrap();
    serving.until(|| !answering(&serving).contains(&pid));
    assert_eq!(site.get(&path).unwrap()["epoch"].as_u64(), Some(epoch));
}

#[test]
fn a_picture_ends_when_its_asker_leaves_before_the_deadline() {
    let (site, serving) = serving("");
    let mut epoch = 1;
    let (stream, pid) = caught_at(&serving, || new_load(&site, &serving, &mut epoch));
    drop(stream);
    serving.until(|| !answering(&serving).contains(&pid));
}

#[test]
fn a_user_has_one_answer_at_a_time_and_holds_up_nobody() {
    let (site, serving) = serving("");
    let (first, pid) = caught(&site, &serving);
    let waiting: Vec<UnixStream> = (0..8).map(|_| begin(&site, "POST", "/v1/plan")).collect();
    // One by one they are counted; then there are too many.
    serving.until(|| {
        let more = begin(&site, "POST", "/v1/plan");
        more.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut head = [0; 12];
        (&more).read_exact(&mut head).is_ok() && &head == b"HTTP/1.1 429"
    });
    assert_eq!(answering(&serving).len(), 1);
    // Meanwhile the service goes on.
    assert_eq!(site.told_health()["healthy"], true);
    site.jobs("2|RUNNING|n[2,6]|100\n");
    site.look();
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
    kill_process(Pid::from_raw(pid).unwrap(), Signal::CONT).unwrap();
    assert!(answer(first).starts_with("HTTP/1.1 200"));
    for stream in waiting {
        let text = answer(stream);
        assert!(text.starts_with("HTTP/1.1 200") || text.starts_with("HTTP/1.1 429"), "{text}");
    }
}

#[test]
fn an_answer_that_takes_too_much_memory_costs_only_itself() {
    let (site, serving) = serving("question_memory_mib = 1");
    let large = json!({ "jobs": " ".repeat(3 << 20) });
    let (status, words) = refusal(site.post("/v1/plan", &large));
    assert_eq!(status, 503, "{words}");
    assert!(words.contains("more memory"), "{words}");
    assert_eq!(site.told_health()["healthy"], true);
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_text_longer_than_any_name_is_not_sought() {
    let (site, serving) = serving("");
    let find = |length: usize| site.get(&format!("/v1/find?what={}", "n".repeat(length)));
    assert_eq!(find(200).unwrap()["switches"], json!([]));
    let (status, words) = refusal(find(201));
    assert_eq!(status, 400, "{words}");
    assert!(words.contains("more than 200 bytes"), "{words}");
    assert_eq!(serving.stop(), 0);
}
