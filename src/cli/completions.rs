//! `sarouter completions`: what a shell needs to complete commands and options.

use clap::CommandFactory as _;

use super::common::print;
use super::{Answer, Cli, Context, Failure};

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
    clap_complete::generate(args.shell, &mut Cli::command(), "sarouter", &mut script);
    print(String::from_utf8(script)?.trim_end())?;
    Ok(Answer::Yes)
}
