//! Imports point one way.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the outside in; a room may import from its own and from later levels.
const LEVELS: &[&[&str]] = &[
    &["cli"],
    &["replay"],
    &["service", "peers"],
    &["observe", "publish", "report", "simulate"],
    &["plan", "placement"],
    &["route", "verify", "measure", "generate"],
    &["config", "model"],
];

fn level(room: &str) -> usize {
    LEVELS.iter().position(|l| l.contains(&room)).unwrap_or_else(|| panic!("room {room} has no level"))
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Every `crate::room` in the text.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
    code.flat_map(|l| l.split("crate::").skip(1)).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn arrows_point_inwards_and_route_never_meets_verify() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&src).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_string();
        if room == "lib" || room == "main" {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        // Tests inside a room may check it with anything.
        let text = text.split("#[cfg(test)]").next().unwrap();
        for other in imports(text).filter(|r| !r.is_empty() && *r != room) {
            let strangers = (room == "route" && other == "verify") || (room == "verify" && other == "route");
            if strangers || level(other) < level(&room) {
                wrong.push(format!("{}: {room} -> {other}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "imports point outwards:\n{}", wrong.join("\n"));
}
