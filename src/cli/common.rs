//! What subcommands share.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;

/// The answer of a command that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Exit 0.
    Yes,
    /// Exit 1: rejected, would change, not healthy.
    No,
}

/// The tool failed: exit 2.
pub type Failure = Box<dyn std::error::Error + Send + Sync + 'static>;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: JSON alone on stdout.
    Json,
}

/// Options every command has.
#[derive(Debug, Clone)]
pub struct Context {
    /// Output format.
    pub format: Format,
    /// Settings file, if given.
    pub config: Option<PathBuf>,
}

/// Prints a text and ends the line. A reader that has seen enough (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{text}") {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}
