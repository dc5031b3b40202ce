//! Scripts that a test writes and has executed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable file, in place of one that is there.
///
/// Another process writes it. Were it open for writing here, a child that another thread forks just then would hold
/// it open too, until it has its own program. Whoever executes the file meanwhile is told "Text file busy".
pub fn script(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    let mut install = Command::new("install");
    let install = install.args(["-m", "755", "-T", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut child = install.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.display());
}
