//! `--state`, and what the commands on the epoch store share.

use std::path::PathBuf;

use super::{Context, Failure};
use crate::config::Settings;
use crate::pass::plan::Reason;
use crate::publish::EpochStore;

/// Where the epochs are.
#[derive(Debug, Clone, clap::Args)]
pub struct StateArgs {
    /// State directory [default: $SAROUTER_STATE, or that of the settings]
    #[arg(long = "state", value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl StateArgs {
    /// The epoch store.
    pub fn store(&self, context: &Context) -> Result<EpochStore, Failure> {
        let named = self.directory.clone().or_else(|| std::env::var_os("SAROUTER_STATE").map(PathBuf::from));
        let directory = match named {
            Some(directory) => directory,
            None => Settings::load_or_default(context.config.as_deref())?.state.directory,
        };
        Ok(EpochStore::open(&directory)?)
    }
}

/// For people.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::First => "first",
        Reason::FabricChanged => "fabric changed",
        Reason::EngineChanged => "engine changed",
        Reason::JobsChanged => "jobs changed",
        Reason::BudgetChanged => "layer budget changed",
        Reason::PromiseChanged => "promise changed",
    }
}

/// A share as per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
