//! `sarouter serve`: the service.

use super::{Answer, Context, Failure, notes};
use crate::config::Settings;
use crate::service::run;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "SIGTERM and SIGINT stop it, SIGHUP makes it look at once.\n\n\
                        Example: sarouter serve --config /etc/sarouter/sarouter.toml -v")]
pub struct Args {}

pub fn run(_args: Args, context: &Context) -> Result<Answer, Failure> {
    let settings = Settings::load(context.config.as_deref())?;
    run::serve(settings, &mut |note| notes::print(note, context.format))?;
    Ok(Answer::Yes)
}
