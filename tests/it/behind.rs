//! OpenSM has an older epoch in the switches than the newest one: it was not looking, or refused what came after.

use std::path::Path;
use std::sync::Arc;

use rustix::process::Signal;
use sarouter::lab::generate::generate;
use sarouter::model::{ChannelId, Promise};
use sarouter::pass::plan::{InSwitches, Reason};
use sarouter::verify::Beside;

use serde_json::{Value, json};

use crate::live::{Site, judge};
use crate::opensm_status::opensm_status;
use crate::site::{self, Serving};

/// What the plugin in OpenSM says of the epoch that it has in force, and of one that it refused.
fn opensm(site: &site::Site, generation: u64, refused: Option<u64>) {
    let since = ("acknowledged", json!("2026-01-01T00:00:00Z"));
    let refusal =
        [("refused_generation", json!(refused)), ("refused_reason", json!(refused.map(|_| "a test")))];
    site.replace("state/opensm-status.json", &opensm_status(generation, &[&[since], &refusal[..]].concat()));
}

/// What each policy of a recording says of the switches.
fn recorded(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(site::json).filter(|line| line["event"] == "policy");
    lines.map(|mut line| line["in_switches"].take()).collect()
}

/// A service notices that OpenSM has an older epoch, plans from that if the newest was refused, and its recording says so.
#[test]
fn what_opensm_has_is_part_of_a_recording() {
    let site = site::Site::new("interval_seconds = 3600\nbackoff_max_seconds = 3600");
    site.alter("dfsssp", "balanced");
    site.alter("watch = false", "watch = true\nacknowledge_seconds = 1000");
    let serving = Serving::start(&site);
    let next = |serving: &Serving, jobs: &str, number: u64| {
        site.jobs(jobs);
        serving.signal(Signal::HUP);
        assert_eq!(serving.line()["epoch"]["epoch"], number);
    };
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    opensm(&site, 1, None);
    next(&serving, "1|RUNNING|n[1,5,9,14]|100\n", 2);
    next(&serving, "1|RUNNING|n[2,6,10,13]|100\n", 3);
    opensm(&site, 1, Some(3));
    next(&serving, "1|RUNNING|n[3,7,11,16]|100\n2|RUNNING|n[1,8,12]|100\n", 4);
    opensm(&site, 2, Some(3));
    next(&serving, "1|RUNNING|n[1-16]|100\n", 5);
    // A time without a recording: then the older epoch lies beside the file.
    assert_eq!(serving.stop(), 0);
    let file = site.path("state/record/000001.jsonl");
    let said = [Value::Null, json!({"epoch": 1}), json!({"epoch": 1, "refused": true}), json!({"epoch": 2})];
    assert_eq!(recorded(&file), said);
    let replay = |out: &str| {
        let (record, out) = (site.path("state/record"), site.path(out));
        let words = ["replay-events", record.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let (code, text) = site.run(&words);
        (code, site::json(&text)["same"].take())
    };
    assert_eq!(replay("whole"), (0, json!(5)));
    std::fs::remove_dir_all(site.path("state/record")).unwrap();
    opensm(&site, 4, Some(5));
    site.jobs("1|RUNNING|n[3,7,11,15]|100\n2|RUNNING|n[2,6]|100\n");
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 6);
    opensm(&site, 6, None);
    next(&serving, "1|RUNNING|n[1,5,9,14]|100\n", 7);
    assert_eq!(serving.stop(), 0);
    assert_eq!(recorded(&file), [json!({"epoch": 4, "refused": true}), Value::Null]);
    assert_eq!(replay("again"), (0, json!(2)));
    // A recording that says otherwise makes another epoch.
    let text = std::fs::read_to_string(&file).unwrap();
    for other in ["", ",\"in_switches\":{\"epoch\":4}"] {
        let changed = text.replace(",\"in_switches\":{\"epoch\":4,\"refused\":true}", other);
        assert_ne!(changed, text);
        std::fs::write(&file, changed).unwrap();
        assert_eq!(replay(&format!("other{}", other.len())).0, 1, "{other:?}");
    }
}

/// The changes after two losses. Of the first it is known that going straight from before it is not safe, so that the
/// service takes two steps; of the second that it is.
#[test]
fn a_change_is_proved_beside_what_the_switches_have() {
    for (spec, lost, proved) in [("torus:8,hosts=2", 0, false), ("torus:4x3x3,hosts=2", 5, true)] {
        let whole = Arc::new(generate(spec).unwrap());
        let cut = Arc::new(whole.without(|c: ChannelId| c.index() / 2 == lost, |_| false).unwrap());
        for refused in [None, Some(false), Some(true)] {
            let mut site = Site::new("balanced", Promise::EVERYTHING, 1);
            site.pass(&whole).unwrap();
            while site.pass(&cut).unwrap().epoch.unwrap().halfway {}
            let of = |site: &Site, number| site.store.epoch(number).unwrap().published(&cut).unwrap().tables;
            let newest = site.store.current().unwrap().unwrap();
            let before = [of(&site, "1".parse().unwrap()), of(&site, newest)].map(|tables| (*tables).clone());
            // The process remembers what it has proved of the newest one.
            site.policy.in_switches = refused.map(|refused| InSwitches { epoch: 1, refused });
            let passed = site.pass(&cut).unwrap();
            let line = passed.epoch.unwrap();
            assert_eq!((line.reason, passed.warnings), (Reason::JobsChanged, Vec::new()), "{spec}");
            let (_, tables, promise) = site.in_force(&cut);
            assert_eq!(line.mixed, promise.mixed);
            assert_eq!(line.mixed, proved || refused.is_none(), "{spec} {refused:?}");
            for (mixed, safe) in [(&before[..], proved), (&before[1..], true)] {
                let beside = Beside { mixed, ..Beside::default() };
                assert_eq!(judge(&cut, &tables, "any+mixed", beside).accepted, safe, "{spec} {refused:?}");
            }
        }
    }
}
