//! `sarouter serve`: the service.

use std::path::Path;

use super::{Answer, Context, Failure, notes};
use crate::config::{DEFAULT_PATH, Settings};
use crate::service::run;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "SIGTERM and SIGINT stop it, SIGHUP makes it look at once. A changed settings \
                        file is read by itself;\none that cannot be used changes nothing.\n\n\
                        Example: sarouter serve --config /etc/sarouter/sarouter.toml -v")]
pub struct Args {}

pub fn run(_args: Args, context: &Context) -> Result<Answer, Failure> {
    let config = context.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    let settings = Settings::load(Some(config))?;
    run::serve(settings, config, &mut |note| notes::print(note, context.format))?;
    Ok(Answer::Yes)
}
