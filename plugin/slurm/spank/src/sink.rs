//! Where a node's table goes.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is written to a device when the job is over.
const CLEAR: &str = "sarouter-angara-table 1 clear\n";

/// A sink; in paths `%j` stands for the job id, `%n` for the node's name, `%%` for a percent sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// `file:PATH`: written beside and renamed; removed when the job is over, unless another job's table is there.
    File(String),
    /// `device:PATH`: must exist; the table is written in one piece, then a line that clears it.
    Device(String),
    /// `command:PATH`: called as `PATH install JOB NODE` with the table on standard input, and as
    /// `PATH remove JOB NODE`.
    Command(String),
}

impl Sink {
    /// From its text.
    ///
    /// # Errors
    /// Says what is wanted.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", path)) if path.starts_with('/') => Ok(Self::File(path.into())),
            Some(("device", path)) if path.starts_with('/') => Ok(Self::Device(path.into())),
            Some(("command", path)) if path.starts_with('/') => Ok(Self::Command(path.into())),
            _ => Err(format!("sink={text}: wants file:, device: or command: and an absolute path")),
        }
    }

    /// Puts a table in force.
    ///
    /// # Errors
    /// What the system or the command says.
    pub fn install(&self, table: &str, job: u32, node: &str, timeout: Duration) -> Result<(), String> {
        match self {
            Self::File(path) => {
                let path = fill(path, job, node)?;
                write_file(&path, table.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))
            }
            Self::Device(path) => write_device(&fill(path, job, node)?, table),
            Self::Command(path) => {
                call(&fill(path, job, node)?, "install", table, [job.to_string(), node.into()], timeout)
            }
        }
    }

    /// Takes it out of force; nothing to do if there is none.
    ///
    /// # Errors
    /// What the system or the command says.
    pub fn remove(&self, job: u32, node: &str, timeout: Duration) -> Result<(), String> {
        match self {
            Self::File(path) => {
                let path = fill(path, job, node)?;
                let failed = |e: std::io::Error| Err(format!("{}: {e}", path.display()));
                match fs::read_to_string(&path) {
                    // A job that began here later has its own table there.
                    Ok(table) if table.lines().nth(1).is_none_or(|line| line != format!("job {job}")) => {
                        return Ok(());
                    }
                    Err(e) if e.kind() != ErrorKind::NotFound => return failed(e),
                    _ => {}
                }
                match fs::remove_file(&path) {
                    Err(e) if e.kind() != ErrorKind::NotFound => failed(e),
                    _ => Ok(()),
                }
            }
            Self::Device(path) => write_device(&fill(path, job, node)?, CLEAR),
            Self::Command(path) => {
                call(&fill(path, job, node)?, "remove", "", [job.to_string(), node.into()], timeout)
            }
        }
    }
}

/// Replaces `%j`, `%n` and `%%`.
fn fill(pattern: &str, job: u32, node: &str) -> Result<PathBuf, String> {
    if node.contains('/') || node.starts_with('.') {
        return Err(format!("{node}: not the name of a node"));
    }
    let mut path = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        path += before;
        match after.chars().next() {
            Some('j') => path += &job.to_string(),
            Some('n') => path += node,
            Some('%') => path.push('%'),
            _ => return Err(format!("{pattern}: wants %j, %n or %% after a percent sign")),
        }
        rest = &after[1..];
    }
    Ok((path + rest).into())
}

/// Writes beside, syncs, renames.
pub fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

fn write_device(path: &Path, text: &str) -> Result<(), String> {
    let written = OpenOptions::new().write(true).open(path).and_then(|mut device| {
        let written = device.write(text.as_bytes())?;
        // A device takes a table whole or not at all.
        if written == text.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
    });
    written.map_err(|e| format!("{}: {e}", path.display()))
}

fn call(
    program: &Path,
    verb: &str,
    input: &str,
    words: [String; 2],
    timeout: Duration,
) -> Result<(), String> {
    let failed = |reason: String| format!("{} {verb}: {reason}", program.display());
    let mut command = Command::new(program);
    command.arg(verb).args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
    let (mut pipe, bytes) = (child.stdin.take(), input.as_bytes().to_vec());
    // A command that does not read must not block us: the kill below ends the writer too.
    let writer = std::thread::spawn(move || pipe.as_mut().is_none_or(|p| p.write_all(&bytes).is_ok()));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|e| failed(e.to_string()))? {
            Some(status) => break status,
            None if begun.elapsed() < timeout => std::thread::sleep(Duration::from_millis(10)),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("killed after {} s", timeout.as_secs())));
            }
        }
    };
    let whole = writer.join().unwrap_or(false);
    match status.success() {
        false => Err(failed(status.to_string())),
        true if !whole => Err(failed("ended before it had read the table".into())),
        true => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::script;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_file_is_written_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let sink = Sink::parse(&format!("file:{}/%n-%j.%%", dir.path().display())).unwrap();
        sink.install("one\njob 17\n", 17, "n1", LONG).unwrap();
        sink.install("two\njob 17\n", 17, "n1", LONG).unwrap();
        let path = dir.path().join("n1-17.%");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\njob 17\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        sink.remove(17, "n1", LONG).unwrap();
        sink.remove(17, "n1", LONG).unwrap();
        assert!(!path.exists());
        assert!(sink.install("x", 17, "../n1", LONG).is_err());
        for bad in ["file:x", "x:/y", "/y", "file"] {
            assert!(Sink::parse(bad).is_err(), "{bad}");
        }
        assert!(Sink::File("/%x".into()).remove(1, "n", LONG).unwrap_err().contains("%j"));
    }

    #[test]
    fn a_file_of_another_job_stays() {
        let dir = tempfile::tempdir().unwrap();
        let sink = Sink::parse(&format!("file:{}/table", dir.path().display())).unwrap();
        let path = dir.path().join("table");
        sink.install("table\njob 17\n", 17, "n1", LONG).unwrap();
        sink.install("table\njob 18\n", 18, "n1", LONG).unwrap();
        sink.remove(17, "n1", LONG).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "table\njob 18\n");
        sink.remove(18, "n1", LONG).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_device_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("angara0");
        let sink = Sink::Device(path.to_str().unwrap().into());
        assert!(sink.install("one\n", 17, "n1", LONG).is_err());
        fs::write(&path, "").unwrap();
        sink.install("one\n", 17, "n1", LONG).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        fs::write(&path, "").unwrap();
        sink.remove(17, "n1", LONG).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), CLEAR);
    }

    #[test]
    fn a_command_gets_the_table_and_is_held_to_its_time_and_status() {
        let dir = tempfile::tempdir().unwrap();
        let sink = |body: &str| {
            let path = dir.path().join("command");
            script(&path, &format!("#!/bin/sh\n{body}\n"));
            Sink::Command(path.to_str().unwrap().into())
        };
        let out = dir.path().join("out");
        let table = "route\n".repeat(100_000);
        let writes = sink(&format!("{{ echo \"$@\"; cat; }} > {}", out.display()));
        writes.install(&table, 17, "n1", LONG).unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), format!("install 17 n1\n{table}"));
        writes.remove(17, "n1", LONG).unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), "remove 17 n1\n");
        let fails = sink("cat >/dev/null; exit 3").install(&table, 17, "n1", LONG).unwrap_err();
        assert!(fails.contains("exit status: 3"), "{fails}");
        let deaf = sink("exit 0").install(&table, 17, "n1", LONG).unwrap_err();
        assert!(deaf.contains("before it had read"), "{deaf}");
        let hangs = sink("exec sleep 600").install("", 17, "n1", Duration::ZERO).unwrap_err();
        assert!(hangs.contains("killed"), "{hangs}");
    }
}
