//! `sarouter completions`: what a shell needs to complete commands, options and their values.

use clap::CommandFactory as _;
use clap::builder::PossibleValuesParser;

use super::common::print;
use super::{Answer, Cli, Context, Failure};
use crate::model::PATTERNS;
use crate::route;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "The Debian package brings those of bash, fish and zsh along.\n\n\
                        Example: sarouter completions bash > /etc/bash_completion.d/sarouter")]
pub struct Args {
    /// Which shell
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

pub fn run(args: Args, _context: &Context) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut with_values(Cli::command()), "sarouter", &mut script);
    print(String::from_utf8(script)?.trim_end())?;
    Ok(Answer::Yes)
}

/// The command and all below it, with the names of engines and exchanges where one is wanted. The commands themselves
/// take more: lists, and names with sizes.
fn with_values(command: clap::Command) -> clap::Command {
    let engines = || route::ENGINES.iter().map(|row| row.name).chain(route::angara::ENGINES);
    let patterns = || PATTERNS.iter().map(|row| row.form).filter(|form| !form.contains(':'));
    let one_of = |arg: clap::Arg, names: Vec<&'static str>| {
        arg.value_parser(PossibleValuesParser::new(names))
            .default_value(None::<&str>)
            .hide_possible_values(true)
    };
    let named = command.mut_args(|arg| match arg.get_id().as_str() {
        "engine" | "engines" => one_of(arg, engines().collect()),
        "pattern" | "patterns" | "traffic" => one_of(arg, patterns().collect()),
        _ => arg,
    });
    named.mut_subcommands(with_values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_engines_and_exchanges_are_completed() {
        let mut script = Vec::new();
        clap_complete::generate(
            clap_complete::Shell::Bash,
            &mut with_values(Cli::command()),
            "sarouter",
            &mut script,
        );
        let script = String::from_utf8(script).unwrap();
        let after = |option: &str| {
            let from = script.find(&format!("{option})\n")).unwrap();
            script[from..].lines().nth(1).unwrap().to_string()
        };
        assert!(
            after("--engine").contains("dfsssp") && after("--engine").contains("angara-sar"),
            "{}",
            after("--engine")
        );
        assert!(after("--engines").contains("balanced"), "{}", after("--engines"));
        assert!(after("--pattern").contains("alltoall"), "{}", after("--pattern"));
    }
}
