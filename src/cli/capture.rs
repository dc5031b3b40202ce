//! `sarouter capture`: a recording without names, for a bug report.

use std::path::PathBuf;

use super::{Answer, Context, Failure};
use crate::publish::EpochStore;
use crate::service::record::capture::capture;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Node names, job ids, GUIDs and descriptions become numbers, the same ones \
                        throughout.\nscripts/capture packs the result.\n\n\
                        Example: sarouter capture /var/lib/sarouter/record --out /tmp/capture")]
pub struct Args {
    /// Directory of a recording, or one file of it
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// State directory to make; must have no recording
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let found = capture(&args.recording, &EpochStore::open(&args.out)?)?;
    context.print(&found, || {
        format!(
            "{} looks, {} nodes and {} jobs renamed, {} epochs",
            found.looks, found.nodes, found.jobs, found.epochs
        )
    })?;
    Ok(Answer::Yes)
}
