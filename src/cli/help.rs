//! How `--help` is laid out: commands in groups, notes filled to the width of the terminal, examples as they are.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::Styles;

/// All commands, by what they are for.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Try it, nothing touched", &["demo", "compare", "plan", "route", "verify"]),
    ("Run it", &["doctor", "serve", "tick", "follow", "trial"]),
    ("Ask it", &["status", "history", "show", "explain", "job", "node", "path"]),
    ("Steer it", &["hold", "resume", "rollback"]),
    ("Jobs and Slurm", &["place", "order", "prolog", "epilog", "release-held"]),
    ("Study", &["replay", "simulate", "survive", "bench", "angara", "fabric", "replay-events", "capture"]),
    (
        "Lists and documents",
        &[
            "engines",
            "patterns",
            "sources",
            "deliveries",
            "measures",
            "openapi",
            "schema",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// The command with its own commands in groups, and all notes filled.
pub fn laid_out(command: Command) -> Command {
    let mut command = filled(command);
    command.build();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}{{after-help}}",
        groups(&command),
        heading("Options")
    );
    command
        .help_template(template)
        .after_help("Example: sarouter demo\n\nsarouter COMMAND --help: its options, with examples.")
}

/// A heading, as clap writes its own.
fn heading(words: &str) -> String {
    let styles = Styles::styled();
    let style = styles.get_header();
    format!("{style}{words}:{style:#}")
}

/// A list for each group: names, and what they do.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    let styles = Styles::styled();
    let name_style = styles.get_literal();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{}", heading(title));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or(String::new(), |about| about.to_string());
            let _ = writeln!(text, "  {name_style}{name:13}{name_style:#}  {about}");
        }
        text.push('\n');
    }
    text
}

/// The command and all below it, each with its notes as paragraphs: clap breaks them where a terminal ends.
fn filled(command: Command) -> Command {
    let command = match command.get_after_help() {
        Some(words) => {
            let words = paragraphs(&words.to_string());
            command.after_help(words)
        }
        None => command,
    };
    command.mut_subcommands(filled)
}

/// Each paragraph as one line. Indented lines are commands and stay as they are.
fn paragraphs(text: &str) -> String {
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut out = String::new();
    let mut before = "";
    for (n, line) in text.lines().enumerate() {
        if n > 0 {
            out.push(if is_prose(before) && is_prose(line) { ' ' } else { '\n' });
        }
        out.push_str(line);
        before = line;
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
        let mut shown: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
        let help = laid_out(Cli::command()).render_help().to_string();
        assert!(help.contains("\nAsk it:\n  status         Health and the epoch in force\n"), "{help}");
        let mut groups = help.lines().take_while(|line| *line != "Options:");
        assert_eq!(groups.find(|line| line.len() > 80), None);
    }

    /// A command and all below it, with the words that call each.
    fn all(command: &Command, words: &str) -> Vec<(String, Command)> {
        let below = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
        let below = below.flat_map(|c| all(c, format!("{words} {}", c.get_name()).trim_start()));
        std::iter::once((words.to_string(), command.clone())).chain(below).collect()
    }

    /// What a shell runs of a line: words, without redirections, comments and what other programs are called with.
    fn calls(line: &str) -> Vec<Vec<String>> {
        let (mut calls, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
        let (mut quote, mut skips) = (None, false);
        for c in line.chars().chain([';']) {
            match (quote, c) {
                (Some(q), c) if c == q => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (Some(_), c) => word.push(c),
                (None, ' ' | ';' | '|' | '&' | '>') => {
                    if !word.is_empty() && !std::mem::take(&mut skips) {
                        words.push(std::mem::take(&mut word));
                    }
                    word.clear();
                    skips |= c == '>';
                    if matches!(c, ';' | '|' | '&') && !words.is_empty() {
                        calls.push(std::mem::take(&mut words));
                    }
                }
                (None, c) => word.push(c),
            }
        }
        calls
    }

    /// Examples of a command's notes, lines that go on put together.
    fn examples(notes: &str) -> Vec<String> {
        let indented =
            notes.lines().filter_map(|line| line.strip_prefix("  ").or(line.strip_prefix("Example: ")));
        let text = indented.collect::<Vec<_>>().join("\n").replace("\\\n", "");
        // What Slurm says in a job.
        let text = text.replace("$SLURM_JOB_ID", "17").replace("$SLURM_JOB_NODELIST", "n[1-4]");
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn every_example_survives_pasting() {
        for (name, command) in all(&Cli::command(), "") {
            let notes = command.get_after_help().map_or(String::new(), ToString::to_string);
            let notes = if name.is_empty() { "Example: sarouter demo".to_string() } else { notes };
            for line in notes.lines().filter(|line| line.starts_with(' ') || line.starts_with("Example: ")) {
                assert!(line.chars().count() <= 80, "{name}: a terminal breaks {line:?}");
            }
            let found: Vec<Vec<String>> = examples(&notes).iter().flat_map(|line| calls(line)).collect();
            let own = found.iter().filter(|words| words[0] == "sarouter");
            let own: Vec<_> = own
                .inspect(|words| {
                    let parsed = Cli::try_parse_from(words.iter());
                    assert!(parsed.is_ok(), "{name}: {words:?}: {}", parsed.unwrap_err());
                })
                .collect();
            let is_called = own.iter().any(|words| words[1..].join(" ").starts_with(&name));
            assert!(command.has_subcommands() || is_called, "{name} has no example: {notes}");
        }
    }

    #[test]
    fn prose_is_filled_and_commands_are_not() {
        let text = "Example:\n  a b \\\n      c\n\nOne thought\nover two lines.\n  d\nAnother.";
        let filled = "Example:\n  a b \\\n      c\n\nOne thought over two lines.\n  d\nAnother.";
        assert_eq!(paragraphs(text), filled);
    }
}
