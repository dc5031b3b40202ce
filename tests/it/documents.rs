//! The papers of the repository: their links lead somewhere, and what they name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sarouter::service::health::Kind;

use crate::program::sarouter;

/// All papers, by their paths from the root.
fn papers() -> Vec<PathBuf> {
    let mut papers = Vec::new();
    for dir in ["", "docs", "docs/results", "plugin"] {
        let Ok(entries) = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)) else { continue };
        let names = entries.map(|e| PathBuf::from(dir).join(e.unwrap().file_name()));
        papers.extend(names.filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    papers.sort();
    papers
}

fn read(paper: &Path) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(paper)).unwrap()
}

/// Where a text's links lead, without those into the web.
fn links(text: &str) -> Vec<String> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    ends.filter(|link| !link.contains("://")).map(str::to_string).collect()
}

/// Headings as a link names them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#').trim());
    let letter = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|h| h.chars().filter_map(letter).collect()).collect()
}

/// Links of a paper that lead nowhere.
fn broken(paper: &Path, text: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let leads_somewhere = |link: &String| {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let beside = root.join(paper.parent().unwrap_or(Path::new("")));
        let target = if file.is_empty() { root.join(paper) } else { beside.join(file) };
        target.exists()
            && (anchor.is_empty()
                || anchors(&fs::read_to_string(target).unwrap_or_default()).contains(anchor))
    };
    links(text).into_iter().filter(|link| !leads_somewhere(link)).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let papers = papers();
    assert!(papers.len() > 8, "{papers:?}");
    for paper in papers {
        assert_eq!(broken(&paper, &read(&paper)), [""; 0], "{}", paper.display());
    }
    let text =
        "[a](src/nothing.rs) [b](README.md#no-such-part) [c](README.md#try-it) [d](https://example.org)";
    assert_eq!(broken(Path::new("x.md"), text), ["src/nothing.rs", "README.md#no-such-part"]);
}

#[test]
fn what_the_map_says_is_decided_in_a_file_is_there() {
    let map = read(Path::new("ARCHITECTURE.md"));
    let rows: Vec<&str> = map.lines().filter(|l| l.contains("](") && l.starts_with("| ")).collect();
    let mut named = 0;
    for row in rows {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap();
        // `name` in [file](file)
        let Some((name, rest)) = cell.trim().trim_start_matches('`').split_once("` ") else { continue };
        let Some(rest) = rest.strip_prefix("in [").or(rest.strip_prefix("of [")) else { continue };
        let file = rest.split("](").nth(1).and_then(|f| f.split(')').next()).unwrap();
        let source = read(Path::new(file));
        let is_there = ["fn ", "const ", "enum ", "struct "]
            .iter()
            .any(|item| source.contains(&format!("{item}{name}")));
        assert!(is_there, "{file} has no {name}");
        named += 1;
    }
    assert!(named > 10, "{named}");
}

#[test]
fn a_reader_is_two_hops_from_what_decides() {
    assert!(links(&read(Path::new("README.md"))).contains(&"ARCHITECTURE.md".to_string()));
    let map = links(&read(Path::new("ARCHITECTURE.md")));
    // Which line decides that an epoch is due; where a service level is chosen; what the plugin checks.
    for file in ["src/pass/plan.rs", "src/route/layers.rs", "plugin/opensm/fit.c"] {
        assert!(map.contains(&file.to_string()), "{file}");
    }
}

#[test]
fn each_command_has_its_row() {
    let help = sarouter(".", ["-h"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.lines().take_while(|line| *line != "Options:").filter(|line| line.starts_with("  "));
    let names: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 35, "{names:?}");
    let paper = read(Path::new("docs/COMMANDS.md"));
    let rows: Vec<&str> = paper.lines().filter(|l| l.starts_with("| `")).collect();
    for name in names.into_iter().filter(|name| *name != "help") {
        let names_it = |row: &&str| {
            let cell = row.split('|').nth(1).unwrap();
            cell.split('`').any(|word| word.split(' ').next() == Some(name))
        };
        assert_eq!(rows.iter().filter(|row| names_it(row)).count(), 1, "{name}");
    }
}

#[test]
fn tables_are_what_their_commands_gave() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/tables");
    let made = Command::new(script).arg("--check").output().expect("Debian's python3");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn each_trouble_of_health_has_its_remedy() {
    let source = read(Path::new("src/service/health.rs"));
    let list = source.split("pub enum Kind {").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap();
    let variants = list.lines().filter_map(|l| l.trim().strip_suffix(','));
    let snake = |name: &str| {
        let letter = |(i, c): (usize, char)| {
            let gap = if i > 0 && c.is_uppercase() { "_" } else { "" };
            format!("{gap}{}", c.to_lowercase())
        };
        name.chars().enumerate().map(letter).collect::<String>()
    };
    let kinds: Vec<String> = variants.map(snake).collect();
    assert!(kinds.len() > 20, "{kinds:?}");
    let operate = read(Path::new("docs/OPERATE.md"));
    for kind in kinds {
        let known: Kind = serde_json::from_value(kind.clone().into()).unwrap();
        let row = operate.lines().find(|line| line.starts_with(&format!("| `{}` |", known.name())));
        let row = row.unwrap_or_else(|| panic!("docs/OPERATE.md has no row for {kind}"));
        // What health tells is what the page of remedies says.
        let command = format!("`{}`", known.remedy().replace('|', "\\|"));
        assert!(row.contains(&command), "docs/OPERATE.md has no {command} for {kind}");
    }
}
