//! The program, run to its end by a test.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The program in a directory, with nothing from the environment that it would read.
pub fn command(dir: impl AsRef<Path>, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    for name in ["SAROUTER_STATE", "SAROUTER_LOG", "SLURM_JOB_ID", "SPANK_ROUTING", "COLUMNS"] {
        command.env_remove(name);
    }
    command.current_dir(dir).args(words);
    command
}

/// What it prints, and its exit code.
pub fn sarouter(dir: impl AsRef<Path>, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    command(dir, words).output().unwrap()
}

/// What it prints as JSON, of a command whose answer is yes.
pub fn report(dir: impl AsRef<Path>, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Value {
    let output = command(dir, words).args(["--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    parsed(&output)
}

/// What it printed, which must be JSON.
pub fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}
