//! Every command says its errors as one JSON object where JSON is asked for.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::program::sarouter;

/// All commands, as the program lists them: those below others too.
fn commands(dir: &Path, above: &[String]) -> Vec<String> {
    let mut words: Vec<&str> = above.iter().map(String::as_str).collect();
    words.push("--help");
    let help = String::from_utf8(sarouter(dir, &words).stdout).unwrap();
    // In one list, or in groups.
    let listed = help.lines().take_while(|line| *line != "Options:");
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase()) && *name != "help";
    let names: Vec<&str> = names.filter(is_name).collect();
    // Some are for those below them alone.
    let usage = help.lines().find(|line| line.starts_with("Usage: ")).unwrap();
    let is_one = names.is_empty() || !usage.ends_with(" <COMMAND>");
    let own = (!above.is_empty() && is_one).then(|| above.join(" "));
    let below = names.iter().flat_map(|name| commands(dir, &[above, &[name.to_string()]].concat()));
    own.into_iter().chain(below).collect()
}

/// The one key of the one object.
fn error(output: &Output, typed: &str) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let value: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{typed}: {e}: {said:?}"));
    let object = value.as_object().unwrap_or_else(|| panic!("{typed}: {said}"));
    assert_eq!(object.keys().collect::<Vec<_>>(), ["error"], "{typed}: {said}");
    assert!(!output.stderr.is_empty(), "{typed}: people are told too");
    value["error"].as_str().unwrap().to_string()
}

/// A job starts and ends whatever is wrong with what is told of it.
fn code(command: &str) -> i32 {
    if ["prolog", "epilog"].contains(&command) { 0 } else { 2 }
}

/// What fails once a command has begun, after its name. `none` is nowhere, `file` is a file.
const FAILING: &[(&str, &str)] = &[
    ("angara curve", "--engines none"),
    ("angara sweep", "--out file/below"),
    ("bench adversary", "--out file/below --specs 1"),
    ("bench peers", "--fabric none"),
    ("bench time", "--fabric none"),
    ("capture", "none --out o"),
    ("compare", "--fabric none"),
    ("demo", "--state file/below"),
    ("epilog", "--job 1 --config none"),
    ("explain", "1 --config none"),
    ("fabric degrade", "none --out o"),
    ("fabric generate", "none:3 --out o"),
    ("fabric import", "none --out o"),
    ("fabric nodes", "none"),
    ("fabric show", "none"),
    ("follow", "unix:none --state s --once"),
    ("history", "--config none"),
    ("hold", "--config none"),
    ("job", "1 --config none"),
    ("man", "--out file/below"),
    ("node", "n1 --config none"),
    ("order", "--fabric none --nodes n[1-2]"),
    ("path", "n1 n2 --config none"),
    ("place", "--fabric none --nodes 2"),
    ("plan", "--config none"),
    ("prolog", "--job 1 --nodes n1 --config none"),
    ("release-held", "--config none"),
    ("replay", "--fabric none --trace t"),
    ("replay merge", "none --out o"),
    ("replay-events", "none --out o"),
    ("resume", "--config none"),
    ("rollback", "1 --config none"),
    ("route", "--fabric none --out o"),
    ("serve", "--config none"),
    ("show", "1 --config none"),
    ("simulate", "--fabric none"),
    ("status", "--config none"),
    ("survive lost", "--fabric none"),
    ("survive matrix", "--fabric none"),
    ("survive throughput", "--fabric none --out o"),
    ("tick", "--config none"),
    ("trial", "--config none"),
    ("verify", "--fabric none --tables t"),
];

/// These fail by their command line alone, or (`doctor`) say what is wrong as their answer.
const NEVER: &[&str] = &[
    "completions",
    "deliveries",
    "doctor",
    "engines",
    "measures",
    "openapi",
    "patterns",
    "schema",
    "sources",
];

#[test]
fn every_command_says_its_errors_as_json() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let all = commands(dir.path(), &[]);
    assert!(all.len() > 45, "{all:?}");
    for command in &all {
        let typed = format!("{command} --no-such-option --format json");
        let output = sarouter(dir.path(), typed.split(' '));
        assert_eq!(output.status.code(), Some(code(command)), "{typed}");
        assert!(error(&output, &typed).contains("--no-such-option"), "{typed}");
    }
    let known: BTreeSet<&str> = FAILING.iter().map(|row| row.0).chain(NEVER.iter().copied()).collect();
    assert_eq!(known, all.iter().map(String::as_str).collect(), "a command without a row");
    for (command, words) in FAILING {
        let typed = format!("{command} {words} --format json");
        let output = sarouter(dir.path(), typed.split(' '));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code(command)), "{typed}: {said}");
        let error = error(&output, &typed);
        assert!(!error.contains('\n') && said.contains(&error), "{typed}: {error}: {said}");
    }
}
