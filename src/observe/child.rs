//! Commands of the site (`squeue`, `ibnetdiscover`) as child processes: bounded in time and in
//! output, never left behind.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::model::shown_lines;

/// How much of standard error a message quotes.
const STDERR_QUOTED: u64 = 4096;

/// Why a command gave no output.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It could not be started.
    #[error("{program}: cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It was still running at its deadline and was killed.
    #[error("{program}: killed after {} s without an answer", deadline.as_secs_f64())]
    Deadline {
        /// The program.
        program: String,
        /// How long it had.
        deadline: Duration,
    },
    /// It wrote more than allowed and was killed.
    #[error("{program}: killed after more than {limit} bytes of output")]
    TooMuch {
        /// The program.
        program: String,
        /// The bound.
        limit: u64,
    },
    /// It said that it failed.
    #[error("{program}: {status}: {stderr}")]
    Failed {
        /// The program.
        program: String,
        /// Exit code or signal.
        status: std::process::ExitStatus,
        /// The beginning of what it wrote to standard error.
        stderr: String,
    },
    /// Its output could not be read.
    #[error("{program}: reading its output: {source}")]
    Read {
        /// The program.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// A command with its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundedCommand {
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// Variables added to the environment.
    pub environment: Vec<(String, String)>,
    /// It and all it started are killed after this.
    pub deadline: Duration,
    /// It and all it started are killed after so many bytes of output.
    pub output_limit: u64,
}

impl BoundedCommand {
    /// Name for messages.
    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// Runs the command to its end and returns its standard output.
    ///
    /// Takes at most the deadline. When it returns or is dropped, the command's process group is
    /// gone.
    ///
    /// # Errors
    /// [`ChildError`], with the beginning of standard error if the command said that it failed.
    pub async fn output(&self) -> Result<String, ChildError> {
        let program = self.program().to_string();
        let mut command = Command::new(&program);
        command
            .args(self.argv.iter().skip(1))
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child =
            command.spawn().map_err(|source| ChildError::Start { program: program.clone(), source })?;
        // A child that hangs may have started others that hold the pipe: the group is killed on
        // every way out but the good one.
        let mut group = Group::of(child);
        let done = match tokio::time::timeout(self.deadline, self.read(&program, &mut group.child)).await {
            Ok(done) => done?,
            Err(_) => return Err(ChildError::Deadline { program, deadline: self.deadline }),
        };
        group.id = None;
        Ok(done)
    }

    async fn read(&self, program: &str, child: &mut Child) -> Result<String, ChildError> {
        let unreadable = |source| ChildError::Read { program: program.to_string(), source };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let out = async {
            let bytes = read_up_to(stdout, self.output_limit + 1).await.map_err(unreadable)?.0;
            match bytes.len() as u64 > self.output_limit {
                true => Err(ChildError::TooMuch { program: program.to_string(), limit: self.output_limit }),
                false => Ok(bytes),
            }
        };
        let err = async {
            let (bytes, mut rest) = read_up_to(stderr, STDERR_QUOTED).await.map_err(unreadable)?;
            if let Some(rest) = &mut rest {
                // Not quoted, but read, so that the writer never blocks on a full pipe.
                tokio::io::copy(rest, &mut tokio::io::sink()).await.map_err(unreadable)?;
            }
            Ok(bytes)
        };
        let (out, err) = tokio::try_join!(out, err)?;
        let status = child.wait().await.map_err(unreadable)?;
        if !status.success() {
            let stderr = shown_lines(String::from_utf8_lossy(&err).trim()).into_owned();
            return Err(ChildError::Failed { program: program.to_string(), status, stderr });
        }
        // Names of jobs and of adapters are what people say, in any encoding.
        Ok(String::from_utf8(out).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }
}

/// The first bytes of a pipe, and the pipe.
async fn read_up_to<P: AsyncRead + Unpin>(
    pipe: Option<P>,
    limit: u64,
) -> std::io::Result<(Vec<u8>, Option<P>)> {
    let mut bytes = Vec::new();
    let Some(mut pipe) = pipe else { return Ok((bytes, None)) };
    (&mut pipe).take(limit).read_to_end(&mut bytes).await?;
    Ok((bytes, Some(pipe)))
}

/// A child and its process group, killed together when dropped unless `id` was taken out.
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn of(child: Child) -> Self {
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { child, id }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // Failing means that nobody is left.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str, deadline: Duration, output_limit: u64) -> BoundedCommand {
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        BoundedCommand { argv, environment: vec![("WHO".into(), "me".into())], deadline, output_limit }
    }

    fn run(command: &BoundedCommand) -> Result<String, ChildError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(command.output())
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_good_command_gives_its_output_and_sees_its_environment() {
        assert_eq!(run(&shell("echo $WHO; echo noise >&2", LONG, 100)).unwrap(), "me\n");
    }

    #[test]
    fn a_failing_command_is_quoted() {
        let error = run(&shell("echo no controller >&2; exit 3", LONG, 100)).unwrap_err();
        assert!(matches!(error, ChildError::Failed { .. }), "{error}");
        assert_eq!(error.to_string(), "sh: exit status: 3: no controller");
        // More than is quoted and more than a pipe holds.
        let error = run(&shell("head -c 300000 /dev/zero | tr '\\0' e >&2; exit 1", LONG, 100)).unwrap_err();
        assert!(matches!(&error, ChildError::Failed { stderr, .. } if stderr.len() == 4096), "{error}");
    }

    #[test]
    fn a_hanging_command_is_killed_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        // The grandchild keeps the pipe open: killing the shell alone would not be enough.
        let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        let begun = Instant::now();
        let error = run(&shell(&script, Duration::from_millis(300), 100)).unwrap_err();
        assert!(matches!(error, ChildError::Deadline { .. }), "{error}");
        assert!(begun.elapsed() < LONG);
        let pid: u32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        while is_sleeping(pid) {
            assert!(begun.elapsed() < LONG, "process {pid} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the process exists and is not merely waiting to be reaped.
    fn is_sleeping(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(sleep)") && !stat.contains("(sleep) Z")
    }

    #[test]
    fn endless_output_is_cut_short() {
        let error = run(&shell("yes", LONG, 1000)).unwrap_err();
        assert!(matches!(error, ChildError::TooMuch { limit: 1000, .. }), "{error}");
        assert_eq!(run(&shell("printf 12345", LONG, 5)).unwrap(), "12345");
    }

    #[test]
    fn what_cannot_be_started_is_named_and_any_bytes_are_text() {
        let mut command = shell("", LONG, 100);
        command.argv = vec!["/no/such/squeue".into()];
        assert!(run(&command).unwrap_err().to_string().starts_with("/no/such/squeue: cannot be started"));
        assert_eq!(run(&shell("printf 'n\\377'", LONG, 100)).unwrap(), "n\u{fffd}");
    }
}
