//! `--html`: what a command found as a page.

use std::path::PathBuf;

use super::Failure;
use super::common::write_file;
use crate::report::sheet::Sheet;

/// Arguments of commands that report something.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Html {
    /// A page with the verdict, a picture and the tables; asks nobody for anything
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Html {
    /// Whether a page is wanted.
    pub fn is_wanted(&self) -> bool {
        self.html.is_some()
    }

    /// Writes the page, if it is wanted, with the command that makes it again.
    ///
    /// # Errors
    /// With the path, if it cannot be written.
    pub fn write(&self, sheet: impl FnOnce() -> Sheet) -> Result<(), Failure> {
        let Some(path) = &self.html else { return Ok(()) };
        write_file(path, Sheet { command: command(), ..sheet() }.html().as_bytes())
    }
}

/// The words of this process, as a shell takes them.
pub fn command() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("sarouter".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_quoted_words_for_what_they_were() {
        assert_eq!(quoted("fattree:10x18,5"), "fattree:10x18,5");
        assert_eq!(quoted("n[1-4]"), "'n[1-4]'");
        assert_eq!(quoted("it's; rm"), "'it'\\''s; rm'");
        assert_eq!(quoted(""), "''");
    }
}
