//! `sarouter release-held`: no job stays held when the service is away.

use serde_json::json;

use super::common::print;
use super::{Answer, Context, Failure, Format};
use crate::service::placing;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "For cron, beside the service: it does the same itself while it runs.\n\n\
                        Example: sarouter release-held")]
pub struct Args {
    /// Also jobs whose deadline has not passed
    #[arg(long)]
    all: bool,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    // Of several fabrics the first one places jobs.
    let site = context.site()?;
    let released = placing::release(&site.fabrics[0], args.all)?;
    match context.format {
        Format::Text if released == 0 => {}
        Format::Text => print(&format!("{released} released"))?,
        Format::Json => print(&json!({"released": released}).to_string())?,
    }
    Ok(Answer::Yes)
}
