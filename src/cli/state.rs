//! `--state`, and what the commands on the epoch store share.

use std::io;
use std::path::{Path, PathBuf};

use super::common::print;
use super::{Context, Failure, Format};
use crate::config::{Settings, Site};
use crate::publish::EpochStore;
use crate::service::client::Client;

/// One of these is in every state directory that was used.
const OURS: [&str; 8] =
    ["epochs", "current", "lock", "service.lock", "history.db", "health.json", "jobs", "record"];

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
            None => site(context)?.only(context.fabric_name.as_deref())?.state.directory,
        };
        Ok(EpochStore::open(&directory)?)
    }

    /// The epoch store of a service that has run here: for commands that look, or go back.
    pub fn existing(&self, context: &Context) -> Result<EpochStore, Failure> {
        existing(self.store(context)?.path(), self.directory.is_some())
    }

    /// The epoch stores of all fabrics that are meant; several with the names of these.
    pub fn stores(&self, context: &Context) -> Result<Vec<(Option<String>, EpochStore)>, Failure> {
        self.need_no_name(context)?;
        if let Some(directory) = self.named() {
            return Ok(vec![(None, existing(&directory, self.directory.is_some())?)]);
        }
        let fabrics = site(context)?.among(context.fabric_name.as_deref())?;
        // Without settings no service is to start here later.
        let must_be_there = context.site().is_err();
        let stores = fabrics.into_iter().map(|settings| {
            let store = existing(&settings.state.directory, must_be_there)?;
            Ok((settings.name, store))
        });
        stores.collect()
    }

    /// For commands that ask the settings for nothing but the state directory.
    ///
    /// # Errors
    /// If a directory is given, and a fabric of the settings beside it.
    pub fn need_no_name(&self, context: &Context) -> Result<(), Failure> {
        match (self.named(), &context.fabric_name) {
            (Some(directory), Some(name)) => {
                let directory = directory.display();
                let why = "a state directory is of one fabric already: give one of the two";
                Err(format!("--state (or $SAROUTER_STATE) {directory} and --fabric-name {name}: {why}")
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Whether a directory was typed.
    pub fn is_typed(&self) -> bool {
        self.directory.is_some()
    }

    fn named(&self) -> Option<PathBuf> {
        self.directory.clone().or_else(|| std::env::var_os("SAROUTER_STATE").map(PathBuf::from))
    }
}

/// The settings or the defaults: who looks or goes back must get there past a mistake in them.
fn site(context: &Context) -> Result<Site, Failure> {
    context.site_or_default().or_else(|_| context.site_past_mistakes())
}

/// The running service, and of each fabric that is meant its settings and what its paths begin with.
pub fn service(context: &Context) -> Result<(Client, Vec<(Settings, String)>), Failure> {
    let site = context.site_past_mistakes()?;
    let api = site.api.clone().ok_or("the settings switch the service's socket off")?;
    let fabrics = site.among(context.fabric_name.as_deref())?.into_iter().map(|settings| {
        let place = settings.name.as_ref().map_or(String::new(), |name| format!("/fabrics/{name}"));
        (settings, place)
    });
    Ok((Client::new(&api.socket, api.deadline), fabrics.collect()))
}

/// The store of a directory in which a service has run. Before the first start there is none where the settings say;
/// where somebody says, there must be.
fn existing(directory: &Path, is_named: bool) -> Result<EpochStore, Failure> {
    let (store, path) = (EpochStore::open(directory)?, directory.display());
    let entries = match std::fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && !is_named => return Ok(store),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(format!("there is no state directory {path}: --state says which").into());
        }
        Err(e) => return Err(format!("{path}: {e}").into()),
        Ok(entries) => entries,
    };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if !names.is_empty() && !names.iter().any(|name| OURS.contains(&name.as_str())) {
        let text = format!("{path} is no state directory: there is nothing of sarouter's in it");
        return Err(text.into());
    }
    Ok(store)
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

/// A share as per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
