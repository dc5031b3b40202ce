//! `sarouter tick`: one pass.

use super::{Answer, Context, Failure, chain, notes};
use crate::service::run;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "For cron or a systemd timer, instead of `serve`.\n\n\
                        Example: sarouter tick --config /etc/sarouter/sarouter.toml")]
pub struct Args {}

pub fn run(_args: Args, context: &Context) -> Result<Answer, Failure> {
    let site = context.site()?;
    let mut failed = Vec::new();
    for settings in site.among(context.fabric_name.as_deref())? {
        let name = settings.name.clone();
        let ended = match &name {
            None => run::tick(settings, &mut |note| notes::print(note, context.format))?,
            Some(name) => {
                let done = run::tick(settings, &mut |note| notes::print_of(name, note, context.format));
                // The others go on.
                done.unwrap_or_else(|error| {
                    failed.push(format!("{name}: {}", chain(&error)));
                    None
                })
            }
        };
        failed.extend(ended.map(|failure| {
            let of = name.map_or(String::new(), |name| format!("{name}: "));
            format!("{of}{} failed: {}", failure.stage.name(), failure.message)
        }));
    }
    if failed.is_empty() { Ok(Answer::Yes) } else { Err(failed.join("; ").into()) }
}
