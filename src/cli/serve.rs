//! `sarouter serve`: the service.

use std::path::Path;

use super::{Answer, Context, Failure, notes};
use crate::config::{DEFAULT_PATH, Site};
use crate::service::run::{self, several};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "SIGTERM and SIGINT stop it, SIGHUP makes it look at once. A changed settings \
                        file is read by itself;\none that cannot be used changes nothing.\n\n\
                        Example: sarouter serve --config /etc/sarouter/sarouter.toml -v")]
pub struct Args {}

pub fn run(_args: Args, context: &Context) -> Result<Answer, Failure> {
    let config = context.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    let site = Site::load(Some(config))?;
    match site.is_several() {
        true => several::serve(site, config, &mut |name, note| notes::print_of(name, note, context.format))?,
        false => run::serve(site.only(None)?, config, &mut |note| notes::print(note, context.format))?,
    }
    Ok(Answer::Yes)
}
