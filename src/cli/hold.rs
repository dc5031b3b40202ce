//! `sarouter hold` and `sarouter resume`: what is in force stays until an administrator says
//! otherwise.

use std::time::Duration;

use chrono::Utc;

use super::common::print;
use super::state::StateArgs;
use super::{Answer, Context, Failure, Format};
use crate::config::Settings;
use crate::publish::{EpochStore, Hold};
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

/// Holds what is in force.
pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let store = args.state.store(context)?;
    let hold = Hold { since: Utc::now(), epoch: store.current().unwrap_or(None), reason: args.reason };
    store.lock()?.hold(&hold)?;
    tell_service(context);
    match context.format {
        Format::Json => print(&serde_json::to_string_pretty(&hold)?)?,
        Format::Text => print(&format!("{} until `sarouter resume`", held(&hold)))?,
    }
    Ok(Answer::Yes)
}

/// Ends a hold.
pub fn resume(args: ResumeArgs, context: &Context) -> Result<Answer, Failure> {
    let store: EpochStore = args.state.store(context)?;
    let was_held = store.lock()?.resume()?;
    tell_service(context);
    match context.format {
        Format::Json => print(&serde_json::json!({ "was_held": was_held }).to_string())?,
        Format::Text if was_held => print("resumed: the next pass publishes what is due")?,
        Format::Text => print("nothing was held")?,
    }
    Ok(if was_held { Answer::Yes } else { Answer::No })
}

/// A running service looks at once; one that does not notices at its next look.
pub(super) fn tell_service(context: &Context) {
    let settings = Settings::load_or_default(context.config.as_deref());
    if let Some(api) = settings.ok().and_then(|s| s.api) {
        let client = Client::new(&api.socket, Duration::from_secs(1));
        let _ = client.wait(client.post::<serde_json::Value>("/v1/look", &()));
    }
}

/// For people.
pub(super) fn held(hold: &Hold) -> String {
    let epoch = hold.epoch.map_or("no epoch".to_string(), |e| format!("epoch {e}"));
    let reason = if hold.reason.is_empty() { String::new() } else { format!(" ({})", hold.reason) };
    format!("{epoch} is held since {}{reason}", hold.since.format("%Y-%m-%d %H:%M:%S UTC"))
}
