//! `sarouter tick`: one pass.

use super::{Answer, Context, Failure, Format, chain, notes};
use crate::service::run::{self, Note};
use crate::service::together::Together;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "For cron or a systemd timer, instead of `serve`.\n\n\
                        Example: sarouter tick --config /etc/sarouter/sarouter.toml")]
pub struct Args {}

pub fn run(_args: Args, context: &Context) -> Result<Answer, Failure> {
    let fabrics = context.site()?.among(context.fabric_name.as_deref())?;
    let together = Together::of_one_pass(fabrics.len());
    let mut failed = Vec::new();
    for (number, settings) in fabrics.into_iter().enumerate() {
        let name = settings.name.clone();
        let mut is_silent = context.format == Format::Json;
        let mut tell = |note: &Note| {
            is_silent = false;
            // A failure is said once: people read it as the error.
            match (note, &name) {
                (Note::Failed(_), _) if context.format == Format::Text => {}
                (note, None) => notes::print(note, context.format),
                (note, Some(name)) => notes::print_of(name, note, context.format),
            }
        };
        let done = run::tick_of(settings, together.place(number), &mut tell);
        let ended = match &name {
            None => done?,
            // The others go on.
            Some(name) => done.unwrap_or_else(|error| {
                failed.push(format!("{name}: {}", chain(&error)));
                None
            }),
        };
        if is_silent && ended.is_none() {
            notes::print_no_epoch(name.as_deref());
        }
        failed.extend(ended.map(|failure| {
            let of = name.as_ref().map_or(String::new(), |name| format!("{name}: "));
            let (stage, message) = (failure.stage.name(), failure.message);
            format!("{of}{stage} failed: {message}; what was in force still is")
        }));
    }
    if failed.is_empty() { Ok(Answer::Yes) } else { Err(failed.join("; ").into()) }
}
