//! Faults for `scripts/mutants`. All are planted in one copy of the sources, each behind a question that is
//! answered when the program runs, so that the copy is compiled once: compiling each fault by itself would take
//! days.
//!
//! `plant TREE LIST PATH…` changes the files below `TREE/PATH…` and writes `ID FILE:LINE FAULT` for each fault.
//! `run TREE LIST BINARY…` runs tests against each fault that they reach, and says which faults none noticed.

mod plant;
mod run;

use std::path::Path;
use std::process::exit;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["plant", tree, list, paths @ ..] if !paths.is_empty() => {
            plant::plant(Path::new(tree), Path::new(list), paths);
        }
        ["run", tree, list, binaries @ ..] if !binaries.is_empty() => {
            run::run(Path::new(tree), Path::new(list), binaries);
        }
        _ => {
            eprintln!("usage: sarouter-mutants plant TREE LIST PATH… | run TREE LIST BINARY…");
            exit(2);
        }
    }
}
