//! Tables of what there is: names are there once, a command lists every row, and who prints figures goes by the rows.

use std::collections::BTreeSet;

use sarouter::measure::MEASURES;
use sarouter::model::PATTERNS;
use sarouter::observe::source::JOB_SOURCES;
use sarouter::route::ENGINES;
use sarouter::route::angara::ENGINES as TORUS_ENGINES;
use sarouter::service::kind::DELIVERIES;
use serde_json::Value;

use crate::program;
use crate::site::{Site, json};

fn sarouter(words: &[&str]) -> String {
    let output = program::sarouter(".", words);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a command lists, each row as one line.
fn lists(command: &str) -> String {
    let text = sarouter(&[command]);
    let long = text.lines().find(|line| line.chars().count() > 80);
    assert!(long.is_none(), "{command}: {long:?}");
    let mut rows: Vec<String> = Vec::new();
    for line in text.lines() {
        match rows.last_mut() {
            Some(row) if line.starts_with(' ') => *row += &format!(" {}", line.trim_start()),
            _ => rows.push(line.to_string()),
        }
    }
    rows.join("\n")
}

#[test]
fn no_list_is_wider_than_a_terminal() {
    for (command, rows) in [("patterns", PATTERNS.len()), ("engines", ENGINES.len() + TORUS_ENGINES.len())] {
        assert_eq!(lists(command).lines().count(), rows, "{command}");
    }
}

#[test]
fn every_row_of_a_table_is_listed_by_its_command() {
    type Rows = Vec<(&'static str, &'static str)>;
    let tables: [(&str, Rows); 3] = [
        ("sources", JOB_SOURCES.iter().map(|row| (row.name, row.what)).collect()),
        ("deliveries", DELIVERIES.iter().map(|row| (row.name, row.what)).collect()),
        ("measures", MEASURES.iter().map(|row| (row.name, row.what)).collect()),
    ];
    for (command, rows) in tables {
        let names: BTreeSet<&str> = rows.iter().map(|row| row.0).collect();
        assert_eq!(names.len(), rows.len(), "{command}: a name is there twice");
        let text = lists(command);
        let listed = json(&sarouter(&[command, "--format", "json"]));
        assert_eq!(text.lines().count(), rows.len(), "{text}");
        for ((line, listed), (name, what)) in text.lines().zip(listed.as_array().unwrap()).zip(rows) {
            assert!(line.starts_with(&format!("{name} ")) && line.contains(what), "{name}: {line}");
            assert_eq!((listed["name"].as_str(), listed["what"].as_str()), (Some(name), Some(what)));
            assert!(!what.is_empty(), "{name}");
        }
    }
}

/// A measure's name is where the figure is in JSON; its head is over a column, its words are in a report.
#[test]
fn measures_are_where_their_rows_say() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    std::fs::write(&jobs, "1 n[1-6]\n2 n[7-13]\n").unwrap();
    let given = ["--fabric", "fattree:4x4,2", "--jobs", jobs.to_str().unwrap(), "--storage", "n[14-16]"];
    let compared = |format: &str| {
        sarouter(&[&["compare", "--engines", "dfsssp", "--format", format], &given[..]].concat())
    };
    let row = json(&compared("json"))[0].take();
    for measure in MEASURES {
        let pointer = format!("/{}", measure.name.replace('.', "/"));
        assert!(row.pointer(&pointer).is_some_and(Value::is_number), "{} is not in {row}", measure.name);
    }
    let columns = || MEASURES.iter().filter(|measure| !measure.head.is_empty());
    let text = compared("text");
    let head: Vec<&str> = text.lines().next().unwrap().split("  ").map(str::trim).collect();
    let head: Vec<&str> = head.into_iter().filter(|word| !word.is_empty()).skip(4).collect();
    assert_eq!(head, columns().map(|measure| measure.head).collect::<Vec<_>>());
    let out = dir.path().join("tables");
    let route = ["route", "--engine", "dfsssp", "--out", out.to_str().unwrap()];
    let text = sarouter(&[&route, &given[..]].concat());
    for measure in MEASURES.iter().filter(|measure| !measure.line.0.is_empty()) {
        let line = text.lines().find(|line| line.starts_with(measure.line.0)).unwrap();
        let (before, after) = measure.line.1.split_once("{}").unwrap();
        assert!(line.contains(before) && line.contains(after), "{}: {line}", measure.name);
    }
}

#[test]
fn doctor_says_who_is_asked_for_jobs_and_what_fetches_routes() {
    let site = Site::new("");
    std::fs::create_dir(site.path("state")).unwrap();
    let check = |name: &str| {
        let checks = json(&site.run(&["doctor"]).1);
        let check = checks.as_array().unwrap().iter().find(|check| check["name"] == name).cloned();
        check.map(|check| (check["good"] == true, check["found"].as_str().unwrap().to_string()))
    };
    let fetches = |what: &str| assert_eq!(check("delivery"), Some((true, what.to_string())));
    fetches("nothing fetches what is published");
    // `squeue` is asked for every site.
    assert_eq!(check("jobs"), None);
    site.alter("watch = false", "watch = false\nlft_file = \"lft.txt\"");
    fetches("lft_file");
    site.alter("watch = false", "watch = true");
    fetches("opensm, lft_file");
    site.alter("[slurm]\n", "[slurm]\nsource = \"spool\"\n");
    site.settings("[spool]\ndirectory = \"spool\"\n");
    assert!(check("jobs").is_some_and(|(good, what)| !good && what.contains("spool/jobs")));
    std::fs::create_dir(site.path("spool")).unwrap();
    std::fs::write(site.path("spool/jobs"), "1 n[1-3]\n").unwrap();
    assert_eq!(check("jobs"), Some((true, "spool: 1 jobs own nodes".to_string())));
    let torus = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    std::fs::create_dir(torus.path("state")).unwrap();
    let checks = json(&torus.run(&["doctor"]).1);
    let delivery = checks.as_array().unwrap().iter().find(|check| check["name"] == "delivery").unwrap();
    assert_eq!(delivery["found"], "nodes", "{checks}");
}
