//! `sarouter tick`: one pass.

use super::{Answer, Context, Failure, notes};
use crate::config::Settings;
use crate::service::run;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "For cron or a systemd timer, instead of `serve`.\n\n\
                        Example: sarouter tick --config /etc/sarouter/sarouter.toml")]
pub struct Args {}

pub fn run(_args: Args, context: &Context) -> Result<Answer, Failure> {
    let settings = Settings::load(context.config.as_deref())?;
    match run::tick(settings, &mut |note| notes::print(note, context.format))? {
        None => Ok(Answer::Yes),
        Some(failure) => Err(format!("{} failed: {}", failure.stage.name(), failure.message).into()),
    }
}
