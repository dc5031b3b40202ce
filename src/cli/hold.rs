//! `sarouter hold` and `sarouter resume`: what is in force stays until an administrator says
//! otherwise.

use schemars::JsonSchema;
use std::time::Duration;

use super::common::print;
use super::state::{StateArgs, print_each};
use super::who::who;
use super::{Answer, Context, Failure, Format};
use crate::publish::{Hold, may_be_reason};
use crate::service::client::Client;

/// Arguments of `hold`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is published and no job waits for routes until `sarouter resume`. `sarouter \
                        rollback EPOCH --hold` puts an earlier epoch in force and holds it.\n\n\
                        Example: sarouter hold --reason 'cable work in row 3'"
)]
pub struct Args {
    /// Why, for `status`
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    state: StateArgs,
}

/// Arguments of `resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit 1 if nothing was held.\n\nExample: sarouter resume")]
pub struct ResumeArgs {
    #[command(flatten)]
    state: StateArgs,
}

/// Holds what is in force: of several fabrics on all, unless one is named.
pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    may_be_reason(&args.reason)?;
    let mut holds = Vec::new();
    for (name, store) in args.state.stores(context)? {
        holds.push((name, store.lock()?.hold_by_hand(args.reason.clone(), who())?));
    }
    tell_service(context);
    print_each(&holds, |i| format!("{} until `sarouter resume`", held(&holds[i].1)), context)?;
    Ok(Answer::Yes)
}

/// Ends a hold.
pub fn resume(args: ResumeArgs, context: &Context) -> Result<Answer, Failure> {
    let mut ended = Vec::new();
    for (name, store) in args.state.stores(context)? {
        let was_held = store.lock()?.resume_by_hand(who())?;
        ended.push((name, WasHeld { was_held }));
    }
    tell_service(context);
    let text = |i: usize| match ended[i].1.was_held {
        true => "resumed: the next pass publishes what is due".to_string(),
        false => "nothing was held".to_string(),
    };
    match context.format {
        Format::Json if ended.len() == 1 && ended[0].0.is_none() => {
            print(&serde_json::to_string(&ended[0].1)?)?;
        }
        _ => print_each(&ended, text, context)?,
    }
    Ok(if ended.iter().any(|(_, one)| one.was_held) { Answer::Yes } else { Answer::No })
}

#[derive(JsonSchema, serde::Serialize)]
pub(super) struct WasHeld {
    was_held: bool,
}

/// A running service looks at once; one that does not notices at its next look.
pub(super) fn tell_service(context: &Context) {
    if let Some(api) = context.site_or_default().ok().and_then(|site| site.api) {
        let client = Client::new(&api.socket, Duration::from_secs(1));
        let _ = client.wait(client.post::<serde_json::Value>("/v1/look", &()));
    }
}

/// For people.
pub(super) fn held(hold: &Hold) -> String {
    let epoch = hold.epoch.map_or("what is in force".to_string(), |e| format!("epoch {e}"));
    let reason = if hold.reason.is_empty() { String::new() } else { format!(" ({})", hold.reason) };
    let by = hold.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    format!("{epoch} is held since {}{by}{reason}", hold.since.format("%Y-%m-%d %H:%M:%S UTC"))
}
