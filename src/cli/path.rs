//! `sarouter path FROM TO`: which way an epoch's routes lead, with LID and service level.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use super::show::{self, Which};
use super::state::StateArgs;
use super::{Answer, Context, Failure, history};
use crate::model::{
    Fabric, Lid, NodeMap, NodeName, PortNum, PortPeer, Tables, TerminalId, did_you_mean, nearest,
};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The service level is what a program is told with `promise = \"told\"`; with lanes any will do.\n\n\
                        Examples:\n  sarouter path n1 n17\n  sarouter path n1 n17 --epoch 41"
)]
pub struct Args {
    /// Node where packets start
    #[arg(value_name = "FROM")]
    from: NodeName,
    /// Node where they go
    #[arg(value_name = "TO")]
    to: NodeName,
    /// Number of an epoch, `current`, or a time at which it was in force
    #[arg(long, value_name = "EPOCH", default_value = "current")]
    epoch: Which,
    /// Fabric: a file or a spec [default: that of the settings]
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: Option<String>,
    #[command(flatten)]
    state: StateArgs,
}

/// The way between two adapters.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Way {
    epoch: u64,
    from: String,
    to: String,
    /// Where packets are sent.
    lid: Lid,
    /// On which service level; `None` if there is no route.
    sl: Option<u8>,
    hops: Vec<Hop>,
    /// Whether it arrives.
    arrives: bool,
}

/// A switch on the way.
#[derive(Debug, JsonSchema, Serialize)]
struct Hop {
    switch: String,
    guid: String,
    /// The port that packets leave by; `None`: there the route ends.
    port: Option<PortNum>,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let store = args.state.existing(context)?;
    if history::is_of_a_torus(&store) {
        return Err("on a direct torus each job has tables of its own: see STATE/jobs/JOB".into());
    }
    let named = show::named(args.fabric.as_deref(), context)?;
    let epoch = store.epoch(args.epoch.of(&store)?)?;
    if epoch.plan().fabric != named.fabric.fingerprint() {
        return Err("the epoch was made for another fabric: name that one with --fabric".into());
    }
    let tables = epoch.tables(&named.fabric)?;
    let (from, to) = (adapters(&named.nodes, &args.from)?, adapters(&named.nodes, &args.to)?);
    // Rails: the first adapter of one with the first of the other.
    let pairs = from.iter().zip(to);
    let ways: Vec<Way> =
        pairs.map(|(from, to)| way(&named.fabric, &tables, epoch.number().get(), *from, *to)).collect();
    context.print(&ways, || ways.iter().map(Way::text).collect::<Vec<_>>().join("\n"))?;
    Ok(if ways.iter().all(|way| way.arrives) { Answer::Yes } else { Answer::No })
}

fn adapters<'a>(nodes: &'a NodeMap, name: &NodeName) -> Result<&'a [TerminalId], Failure> {
    let found = nodes.terminals(name);
    if found.is_empty() {
        let near = did_you_mean(nearest(name.as_str(), nodes.names().map(NodeName::as_str)));
        return Err(format!("no host of the fabric is called {name}{near}").into());
    }
    Ok(found)
}

/// Follows the tables from the first switch. O(hops).
fn way(fabric: &Fabric, tables: &Tables, epoch: u64, from: TerminalId, to: TerminalId) -> Way {
    let dest = fabric.dest_of_terminal(to);
    let mut at = fabric.terminal(from).switch;
    let mut way = Way {
        epoch,
        from: fabric.terminal(from).description.clone(),
        to: fabric.terminal(to).description.clone(),
        lid: fabric.lid(dest),
        sl: tables.layer(at, dest).map(|layer| layer.get()),
        hops: Vec::new(),
        arrives: false,
    };
    // Tables that were proved have no cycle; those of a damaged fabric may.
    for _ in 0..=fabric.switches().len() {
        let port = tables.port(at, dest);
        let switch = fabric.switch(at);
        way.hops.push(Hop { switch: switch.description.clone(), guid: switch.guid.to_string(), port });
        match port.map(|port| fabric.peer(at, port)) {
            Some(Some(PortPeer::Channel(channel))) => at = fabric.channel(channel).to,
            Some(Some(PortPeer::Terminal(end))) => {
                way.arrives = end == to;
                break;
            }
            _ => break,
        }
    }
    way
}

impl Way {
    fn text(&self) -> String {
        let sl = self.sl.map_or("none".to_string(), |sl| sl.to_string());
        let mut out =
            format!("{} -> {}: LID {}, SL {sl}, epoch {}", self.from, self.to, self.lid, self.epoch);
        for Hop { switch, guid, port } in &self.hops {
            let port = port.map_or("no route".to_string(), |port| format!("port {port}"));
            let _ = write!(out, "\n  {switch} ({guid}) {port}");
        }
        let end = if self.arrives { &self.to } else { "NOT arrived" };
        let _ = write!(out, "\n  {end}");
        out
    }
}
