//! `sarouter plan`.

use super::{Answer, Context, Failure};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: Args, _context: &Context) -> Result<Answer, Failure> {
    Err("not there yet".into())
}
