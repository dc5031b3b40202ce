//! Any text for each reader of what others write. The first byte says which reader it is for.
#![no_main]

use std::path::Path;

use chrono::DateTime;
use libfuzzer_sys::fuzz_target;
use sarouter::config::Settings;
use sarouter::model::{Mix, hint, pattern_hint};
use sarouter::observe::nodes::NodeNames;
use sarouter::observe::topology_conf::Topology;
use sarouter::observe::{fabric, hostlist, jobs, pending, torus_toml};
use sarouter::publish::handoff;

/// Nodes of the largest list, so that memory has a bound that no reader sets.
const NODES: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else { return };
    let (text, path) = (String::from_utf8_lossy(bytes), Path::new("file"));
    match which % 12 {
        0 => drop(fabric::parse(path, &text)),
        1 => drop(jobs::parse_within(&text, "jobs", DateTime::UNIX_EPOCH, hostlist::Budget::of_machine(NODES))),
        2 => drop(jobs::squeue_lines(&text, "squeue", DateTime::UNIX_EPOCH)),
        3 => list(&text),
        4 => drop(Settings::parse(&text, path)),
        5 => drop(NodeNames::parse(path, &text)),
        6 => drop(Topology::parse(path, &text)),
        7 => drop(torus_toml::parse(path, &text)),
        8 => drop((hint(&text), pattern_hint(&text))),
        9 => drop(text.parse::<Mix>()),
        10 => drop(pending::jobs(&text, "squeue").map(|_| pending::idle(&text, "sinfo"))),
        _ => drop(handoff::decode(bytes)),
    }
});

/// What was read and written again is the same list.
fn list(text: &str) {
    let mut budget = hostlist::Budget::of_machine(NODES);
    let Ok(nodes) = hostlist::expand_within(text, &mut budget) else { return };
    let folded = hostlist::fold(&nodes);
    let mut again = hostlist::expand(&folded).expect("a folded list can be read");
    let mut nodes = nodes;
    nodes.sort();
    nodes.dedup();
    again.sort();
    assert_eq!(nodes, again, "{folded}");
}
