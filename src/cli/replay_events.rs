//! `sarouter replay-events`: feeds a recording back.

use std::fmt::Write;
use std::path::PathBuf;

use indicatif::ProgressBar;

use super::{Answer, Context, Failure};
use crate::publish::EpochStore;
use crate::service::record::replay::{Replayed, replay};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit 1 if an epoch differs from the recorded one.\n\n\
                        Example: sarouter replay-events /var/lib/sarouter/record --out again")]
pub struct Args {
    /// Directory of a recording, or one file of it
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// State directory to make the epochs in; must have none
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let store = EpochStore::open(&args.out)?;
    // On standard error, and only on a terminal.
    let bar = ProgressBar::new_spinner();
    let found = replay(&args.recording, &store, &mut |_| bar.inc(1))?;
    bar.finish_and_clear();
    context.print(&found, || text(&found))?;
    Ok(if found.different.is_empty() { Answer::Yes } else { Answer::No })
}

fn text(found: &Replayed) -> String {
    let mut out = format!(
        "{} events, {} looks, {} epochs recorded, {} of them made again byte for byte",
        found.lines, found.looks, found.recorded, found.same
    );
    for difference in &found.different {
        let _ = write!(out, "\n  - {difference}");
    }
    out
}
