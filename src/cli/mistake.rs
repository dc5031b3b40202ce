//! What is said of a mistake: on the command line, or later.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::Cli;
use super::who::account;
use crate::model::plain_chain;
use crate::service::api::answer::ErrorBody;

/// Says what is wrong with the command line, or prints what was asked for (`--help`, `--version`).
pub fn explain(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let text = error.render();
    let text = plain_chain(&if ansi { text.ansi().to_string() } else { text.to_string() });
    // Control characters of a word are clap's to escape; colours are not for `complain`, which takes them out.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    if let Some(tip) = elsewhere(error) {
        eprintln!("\n{tip}");
    }
    if wants_json(std::env::args()) {
        let text = plain_chain(&error.render().to_string());
        print(&first_part(&text));
    }
    // A slip in a prolog's command line must not hold every job.
    if is_hook(std::env::args()) { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

/// Prints an error as the API says it: a JSON object on standard output.
pub fn print(error: &str) {
    if let Ok(text) = serde_json::to_string(&ErrorBody { error: error.to_string() }) {
        println!("{text}");
    }
}

/// The message, and who may do it where the system refused: whoever has the file, or the directory that it would be in.
pub fn with_user(mut text: String) -> String {
    let Some(before) = text.strip_suffix(": Permission denied") else { return text };
    let path = Path::new(before.rsplit(' ').next().unwrap_or(before));
    let owner = path.ancestors().find_map(|above| Some(std::fs::metadata(above).ok()?.uid()));
    if let Some(user) = owner.filter(|owner| *owner != rustix::process::geteuid().as_raw()).and_then(account)
    {
        text += &format!("; as the user who has it: runuser -u {user} -- sarouter …");
    }
    text
}

/// What was said before the usage, without `error:` and line breaks.
fn first_part(text: &str) -> String {
    let text = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<&str> = text.trim_start_matches("error:").split_whitespace().collect();
    words.join(" ")
}

/// Where a subcommand is that was looked for in the wrong place.
fn elsewhere(error: &clap::Error) -> Option<String> {
    if error.kind() == ErrorKind::UnknownArgument
        && std::env::args().nth(1).is_some_and(|word| word == "hold")
    {
        return Some("  tip: say why with --reason \"cable work in row 3\"".to_string());
    }
    let ErrorKind::InvalidSubcommand = error.kind() else { return None };
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let cli = Cli::command();
    let has = |command: &&Command| command.get_subcommands().any(|below| below.get_name() == name);
    let above = cli.get_subcommands().find(has)?;
    Some(format!("  tip: did you mean 'sarouter {} {name}'?", above.get_name()))
}

/// Whether Slurm's controller calls: as prolog or epilog.
fn is_hook(mut arguments: impl Iterator<Item = String>) -> bool {
    arguments.any(|word| word == "prolog" || word == "epilog")
}

/// Whether a command line that was not understood asks for JSON.
fn wants_json(arguments: impl Iterator<Item = String>) -> bool {
    let words: Vec<String> = arguments.collect();
    let pair = |pair: &[String]| pair[0] == "--format" && pair[1] == "json";
    words.iter().any(|word| word == "--format=json") || words.windows(2).any(pair)
}
