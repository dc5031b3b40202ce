//! `sarouter fabric`: write, inspect and damage fabrics.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

use super::common::{print, write_file};
use super::fabric_nodes;
use super::{Answer, Context, Failure};
use crate::lab::generate;
use crate::lab::generate::faults::{Amount, Faults};
use crate::measure;
use crate::model::{ChannelId, Fabric, Guid, PortNum, PortPeer, SwitchId};
use crate::observe::fabric::discover;
use crate::observe::ibnetdiscover::{Discovered, to_ibnetdiscover, to_net};
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::report::inventory::FabricInventory;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check a fabric file and write it anew
    #[command(after_help = "Example: sarouter fabric import site.ibnetdiscover --out site.net")]
    Import {
        /// ibnetdiscover output or an ibsim .net file
        file: String,
        #[command(flatten)]
        output: Output,
    },
    /// Write a synthetic fabric
    #[command(
        after_help = "Example:\n  sarouter fabric generate torus:8x8x8,hosts=4,faults=1%,seed=7 --out torus.net"
    )]
    Generate {
        /// For example fattree:10x18,5
        spec: String,
        #[command(flatten)]
        output: Output,
    },
    /// Print what a fabric consists of
    #[command(after_help = "Example: sarouter fabric show site.ibnetdiscover --node-map site.map")]
    Show {
        /// A file or a spec
        fabric: String,
        /// Which adapter is which Slurm node: lines `GUID NAME` or `DESCRIPTION NAME`
        #[arg(long, value_name = "FILE")]
        node_map: Option<PathBuf>,
        /// How many switches or cables must fail before the switches fall apart; seconds where there are a thousand
        #[arg(long)]
        connectivity: bool,
    },
    /// List which adapters are which Slurm node, and what fits none
    #[command(after_help = "Example:
  sinfo -h -o %N | \\
      sarouter fabric nodes site.ibnetdiscover --node-map site.map --nodes -

The exit status is 1 if a node that is asked about has no adapter.")]
    Nodes(fabric_nodes::Args),
    /// Cut cables and take out switches
    #[command(
        after_help = "Example:\n  sarouter fabric degrade site.net --cut 'S0000[19]' --faults 1% --out worse.net"
    )]
    Degrade {
        /// A file or a spec
        fabric: String,
        #[command(flatten)]
        damage: Damage,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Debug, clap::Args)]
struct Output {
    /// Where to write; - is standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Format
    #[arg(long = "as", value_enum, default_value_t = FileKind::Net, value_name = "KIND")]
    kind: FileKind,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FileKind {
    /// For ibsim
    Net,
    /// Like the output of ibnetdiscover
    Ibnetdiscover,
}

#[derive(Debug, clap::Args)]
struct Damage {
    /// Inter-switch cables to cut at random, without splitting the fabric: a number or a share
    #[arg(long, value_name = "N|P%", default_value = "0")]
    faults: Amount,
    /// Switches to take out at random, without splitting the fabric
    #[arg(long, value_name = "N", default_value_t = 0)]
    dead_switches: usize,
    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cut the inter-switch cable at this port; may be given several times
    #[arg(long, value_name = "SWITCH[PORT]")]
    cut: Vec<String>,
    /// Take out this switch and its hosts; may be given several times
    #[arg(long, value_name = "SWITCH")]
    dead_switch: Vec<String>,
}

/// What a writing command did.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Written {
    path: PathBuf,
    fabric: FabricInventory,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    match args.command {
        Command::Import { file, output } => {
            if generate::spec::is_spec(&file) && !Path::new(&file).exists() {
                return Err(format!("{file:?} is a spec, not a file: use `fabric generate`").into());
            }
            output.write(&discover(&file)?, context)?;
        }
        Command::Generate { spec, output } => {
            let found = Discovered { fabric: generate::generate(&spec)?, unrouted: Vec::new() };
            output.write(&found, context)?;
        }
        Command::Show { fabric, node_map, connectivity } => {
            let names = node_map.map(|path| NodeNames::load(&path)).transpose()?.unwrap_or_default();
            let found = discover(&fabric)?;
            let mut inventory = inventory(&found, &names);
            inventory.connectivity = connectivity.then(|| measure::connectivity(&found.fabric));
            context.print(&inventory, || inventory.text())?;
        }
        Command::Nodes(args) => return fabric_nodes::run(&args, context),
        Command::Degrade { fabric, damage, output } => {
            let Discovered { fabric, unrouted } = discover(&fabric)?;
            output.write(&Discovered { fabric: damage.apply(&fabric)?, unrouted }, context)?;
        }
    }
    Ok(Answer::Yes)
}

fn inventory(found: &Discovered, names: &NodeNames) -> FabricInventory {
    FabricInventory::new(&found.fabric, &name_hosts(&found.fabric, names), &found.unrouted)
}

impl Output {
    fn write(&self, found: &Discovered, context: &Context) -> Result<(), Failure> {
        let text = match self.kind {
            FileKind::Net => to_net(&found.fabric),
            FileKind::Ibnetdiscover => to_ibnetdiscover(&found.fabric),
        };
        if self.out == Path::new("-") {
            context.no_json("--out -")?;
            return print(text.trim_end());
        }
        write_file(&self.out, text.as_bytes())?;
        let written = Written { path: self.out.clone(), fabric: inventory(found, &NodeNames::default()) };
        context.print(&written, || {
            let left_out = match written.fabric.unrouted.len() {
                0 => String::new(),
                n => format!("; left out: {n} adapters that no switch leads to"),
            };
            format!("{}: {}{left_out}", self.out.display(), written.fabric.summary())
        })
    }
}

impl Damage {
    fn apply(&self, fabric: &Fabric) -> Result<Fabric, Failure> {
        let dead: Vec<SwitchId> =
            self.dead_switch.iter().map(|name| find_switch(fabric, name)).collect::<Result<_, _>>()?;
        let cut: Vec<ChannelId> =
            self.cut.iter().map(|place| find_channel(fabric, place)).collect::<Result<_, _>>()?;
        let fabric = fabric.without(|c| cut.contains(&c), |s| dead.contains(&s))?;
        let faults = Faults { cables: self.faults, dead_switches: self.dead_switches, seed: self.seed };
        Ok(faults.apply(&fabric)?)
    }
}

/// A switch by its description, or by its GUID as `0x…` or `S-…`.
fn find_switch(fabric: &Fabric, name: &str) -> Result<SwitchId, Failure> {
    let guid: Option<Guid> = ["0x", "S-"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .and_then(|digits| digits.parse().ok());
    let named = |s: &SwitchId| {
        let switch = fabric.switch(*s);
        switch.description == name || Some(switch.guid) == guid
    };
    let mut found = fabric.switch_ids().filter(named);
    match (found.next(), found.next()) {
        (Some(switch), None) => Ok(switch),
        (None, _) => Err(format!("no switch is called {name:?}").into()),
        (Some(_), Some(_)) => Err(format!("several switches are called {name:?}: give the GUID").into()),
    }
}

/// `SWITCH[PORT]`, where an inter-switch cable is.
fn find_channel(fabric: &Fabric, place: &str) -> Result<ChannelId, Failure> {
    let parts = place.strip_suffix(']').and_then(|p| p.rsplit_once('['));
    let (name, port) = parts.ok_or_else(|| format!("{place:?} is not of the form SWITCH[PORT]"))?;
    let port: PortNum = port.parse()?;
    match fabric.peer(find_switch(fabric, name)?, port) {
        Some(PortPeer::Channel(c)) => Ok(c),
        Some(PortPeer::Terminal(_)) => Err(format!("{place} leads to a host, not to a switch").into()),
        Some(PortPeer::Nothing) | None => Err(format!("{place} leads nowhere").into()),
    }
}
