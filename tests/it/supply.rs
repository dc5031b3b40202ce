//! What the program is built from: under which licences, and why.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Licences that may be combined with ours, MIT or Apache-2.0.
const FINE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression can be met by licences that are fine: all that AND joins, one of what OR joins.
fn is_fine(expression: &str) -> bool {
    // Crates of old write a slash for OR.
    let words = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let (fine, rest) = either(&words);
    fine && rest.is_empty()
}

fn either<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut fine, mut rest) = both(words);
    while let Some(("OR", next)) = rest.split_first().map(|(word, next)| (*word, next)) {
        let (other, after) = both(next);
        (fine, rest) = (fine | other, after);
    }
    (fine, rest)
}

fn both<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut fine, mut rest) = one(words);
    while let Some(("AND", next)) = rest.split_first().map(|(word, next)| (*word, next)) {
        let (other, after) = one(next);
        (fine, rest) = (fine & other, after);
    }
    (fine, rest)
}

fn one<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => match either(inner) {
            (fine, [")", rest @ ..]) => (fine, rest),
            (_, rest) => (false, rest),
        },
        [name, "WITH", exception, rest @ ..] => {
            (FINE.contains(&format!("{name} WITH {exception}").as_str()), rest)
        }
        [name, rest @ ..] => (FINE.contains(name), rest),
        // Something is missing.
        [] => (false, &["?"]),
    }
}

#[test]
fn every_licence_fits_ours() {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform"])
        .args([
            "x86_64-unknown-linux-gnu",
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{}", packages.len());
    let licence = |p: &Value| p["license"].as_str().unwrap_or("none").to_string();
    let bad: Vec<String> = packages
        .iter()
        .filter(|p| !is_fine(&licence(p)))
        .map(|p| format!("{}: {}", p["name"], licence(p)))
        .collect();
    assert_eq!(bad, [""; 0]);
}

#[test]
fn licences_are_read_as_they_are_meant() {
    for fine in ["MIT", "GPL-3.0 OR MIT", "(MIT OR GPL-3.0) AND Unicode-3.0", "Apache-2.0/GPL-2.0"] {
        assert!(is_fine(fine), "{fine}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "none", "", "MIT OR", "(MIT"] {
        assert!(!is_fine(bad), "{bad}");
    }
}

/// A library is there for a reason: a comment above it, or above those that stand beside it.
#[test]
fn every_library_has_its_reason() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let mut said = false;
    let mut family = String::new();
    let mut in_list = false;
    let mut libraries = 0;
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_list = matches!(line, "[dependencies]" | "[dev-dependencies]" | "[workspace.dependencies]");
            (said, family) = (false, String::new());
        } else if line.starts_with('#') {
            (said, family) = (true, String::new());
        } else if let Some((name, _)) =
            line.split_once(" = ").filter(|(name, _)| in_list && !name.ends_with(".workspace"))
        {
            let stem = name.split(['-', '_']).next().unwrap_or(name).to_string();
            assert!(said && (family.is_empty() || family == stem || stem == "hyper"), "{name} has no reason");
            family = stem;
            libraries += 1;
        }
    }
    assert!(libraries > 30, "{libraries}");
}
