//! Where a node's table goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::job::reap;

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
            Self::File(path) => write_file(&fill(path, job, node)?, table, timeout),
            Self::Device(path) => write_device(&fill(path, job, node)?, table, timeout),
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
            Self::File(path) => within(timeout, &fill(path, job, node)?, move |path| {
                let removed = fs::read_to_string(path).and_then(|table| match table.lines().nth(1) {
                    Some(line) if line == format!("job {job}") => fs::remove_file(path),
                    // A job that began here later has its own table there.
                    _ => Ok(()),
                });
                removed.or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })
            }),
            Self::Device(path) => write_device(&fill(path, job, node)?, CLEAR, timeout),
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

/// Does something to a file, in a thread of its own: a file system or a device that hangs must not hang slurmd. Nothing
/// wakes who hangs there: at the deadline the thread is left to itself.
///
/// # Errors
/// What the system says, or that the time is over.
pub fn within(
    timeout: Duration,
    path: &Path,
    act: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
) -> Result<(), String> {
    let (send, done) = mpsc::channel();
    let own = path.to_path_buf();
    thread::spawn(move || send.send(act(&own)));
    match done.recv_timeout(timeout) {
        Ok(done) => done.map_err(|e| format!("{}: {e}", path.display())),
        Err(_) => Err(format!("{}: not done within {} s", path.display(), timeout.as_secs_f64())),
    }
}

/// Writes beside, syncs, renames.
///
/// # Errors
/// As [`within`].
pub fn write_file(path: &Path, text: &str, timeout: Duration) -> Result<(), String> {
    let text = text.to_string();
    within(timeout, path, move |path| {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })
}

fn write_device(path: &Path, text: &str, timeout: Duration) -> Result<(), String> {
    let text = text.to_string();
    within(timeout, path, move |path| {
        let written = OpenOptions::new().write(true).open(path)?.write(text.as_bytes())?;
        // A device takes a table whole or not at all.
        if written == text.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
    })
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
    // A command that does not read must not block us, nor may what it leaves behind with the pipe.
    let (send, written) = mpsc::channel();
    thread::spawn(move || send.send(pipe.as_mut().is_none_or(|p| p.write_all(&bytes).is_ok())));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|e| failed(e.to_string()))? {
            Some(status) => break status,
            None if begun.elapsed() < timeout => thread::sleep(Duration::from_millis(10)),
            None => {
                let _ = child.kill();
                reap(&mut child);
                return Err(failed(format!("killed after {} s", timeout.as_secs())));
            }
        }
    };
    let whole = written.recv_timeout(timeout.saturating_sub(begun.elapsed())).unwrap_or(false);
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

    /// Whoever opens a pipe that nobody else has open waits for ever.
    #[test]
    fn what_hangs_is_left_to_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
        for name in ["device", "file", "file.new"] {
            assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
        }
        let short = Duration::from_millis(50);
        for sink in [Sink::Device(path("device")), Sink::File(path("file"))] {
            for done in [sink.install("one\n", 17, "n1", short), sink.remove(17, "n1", short)] {
                assert!(done.as_ref().is_err_and(|why| why.contains("not done within 0.05 s")), "{done:?}");
            }
        }
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
        // What stays behind with the pipe is not waited for.
        let begun = Instant::now();
        let leaves = sink("exec 3<&0; sleep 20 <&3 & exit 0");
        let leaves = leaves.install(&table, 17, "n1", Duration::from_secs(1)).unwrap_err();
        assert!(
            leaves.contains("before it had read") && begun.elapsed() < Duration::from_secs(15),
            "{leaves}"
        );
        let hangs = sink("exec sleep 600").install("", 17, "n1", Duration::ZERO).unwrap_err();
        assert!(hangs.contains("killed"), "{hangs}");
    }
}
