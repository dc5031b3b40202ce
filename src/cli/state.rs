//! `--state`, and what the commands on the epoch store share.

use std::path::PathBuf;

use super::common::print;
use super::{Context, Failure, Format};
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
    /// The epoch store: of one fabric, or of the one of several that was named.
    pub fn store(&self, context: &Context) -> Result<EpochStore, Failure> {
        let directory = match self.named() {
            Some(directory) => directory,
            None => context.settings_or_default()?.state.directory,
        };
        Ok(EpochStore::open(&directory)?)
    }

    /// The epoch stores of all fabrics that are meant; several with the names of these.
    pub fn stores(&self, context: &Context) -> Result<Vec<(Option<String>, EpochStore)>, Failure> {
        if let Some(directory) = self.named() {
            return Ok(vec![(None, EpochStore::open(&directory)?)]);
        }
        let fabrics = context.site_or_default()?.among(context.fabric_name.as_deref())?;
        let stores = fabrics.into_iter().map(|settings| {
            let store = EpochStore::open(&settings.state.directory)?;
            Ok((settings.name, store))
        });
        stores.collect()
    }

    fn named(&self) -> Option<PathBuf> {
        self.directory.clone().or_else(|| std::env::var_os("SAROUTER_STATE").map(PathBuf::from))
    }
}

/// What a command says of each fabric, under its name; of one without a name it alone.
pub fn print_each(
    all: &[(Option<String>, impl serde::Serialize)],
    text: impl Fn(usize) -> String,
    context: &Context,
) -> Result<(), Failure> {
    let answer = match (context.format, all) {
        (Format::Text, [(None, _)]) => text(0),
        (Format::Json, [(None, one)]) => serde_json::to_string_pretty(one)?,
        (Format::Text, _) => {
            let named = all.iter().enumerate();
            let each = named
                .map(|(i, (name, _))| format!("fabric {}\n{}", name.as_deref().unwrap_or_default(), text(i)));
            each.collect::<Vec<_>>().join("\n\n")
        }
        (Format::Json, _) => {
            let each = all
                .iter()
                .map(|(name, said)| Ok((name.clone().unwrap_or_default(), serde_json::to_value(said)?)));
            let each: serde_json::Map<_, _> = each.collect::<Result<_, serde_json::Error>>()?;
            serde_json::to_string_pretty(&serde_json::json!({ "fabrics": each }))?
        }
    };
    print(&answer)
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
