//! `sarouter fabric nodes`: which adapters are which node of the batch system, tried without doing
//! anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::input::none_on_torus;
use super::{Answer, Context, Failure};
use crate::model::{Fabric, Guid, NodeMap, NodeName, TerminalId, Torus, nearest};
use crate::observe::nodes::{NamedBy, NodeNames, name_hosts};
use crate::observe::{fabric, hostlist, jobs, torus_toml};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file or a spec
    fabric: String,
    /// Which adapter is which Slurm node: lines `GUID NAME`, `DESCRIPTION NAME` or `"{node}-ib mlx5_{rail}" {node}`
    #[arg(long, value_name = "FILE")]
    node_map: Option<PathBuf>,
    /// Slurm's node names as a host list; - reads lists from standard input, one a line
    #[arg(long, value_name = "LIST|-")]
    nodes: Option<String>,
    /// The nodes of these jobs
    #[arg(long, value_name = "FILE")]
    jobs: Option<String>,
}

/// What was found.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Answered {
    /// Nodes asked about, or all that the fabric names, with their adapters.
    matched: Vec<Matched>,
    /// Nodes asked about that no adapter belongs to.
    missing: Vec<Missing>,
    /// Nodes of the fabric that nobody asked about.
    others: Vec<NodeName>,
    /// Adapters that no name belongs to.
    unnamed: Vec<Adapter>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Matched {
    node: NodeName,
    adapters: Vec<Adapter>,
    /// Where it is, on a direct torus.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Missing {
    node: NodeName,
    /// A node of the fabric with nearly this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<NodeName>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Adapter {
    port_guid: Guid,
    description: String,
    switch: String,
    /// What gave it its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// Lists matches and misses.
pub fn run(args: &Args, context: &Context) -> Result<Answer, Failure> {
    if torus_toml::is_torus(&args.fabric) {
        return args.on_torus(context);
    }
    let fabric = fabric::load(&args.fabric)?;
    let names = args.node_map.as_deref().map(NodeNames::load).transpose()?.unwrap_or_default();
    let map = name_hosts(&fabric, &names);
    let asked = args.asked()?;
    let answered = answer(&fabric, &names, &map, asked.as_ref());
    context.print(&answered, || answered.text())?;
    Ok(if answered.missing.is_empty() && !answered.matched.is_empty() { Answer::Yes } else { Answer::No })
}

impl Args {
    /// The same of a direct torus, which names its nodes itself.
    fn on_torus(&self, context: &Context) -> Result<Answer, Failure> {
        none_on_torus(&[("--node-map", self.node_map.is_some())])?;
        let torus = torus_toml::load(&self.fabric)?.torus;
        let answered = of_torus(&torus, self.asked()?.as_ref());
        context.print(&answered, || answered.text_of_torus())?;
        Ok(if answered.missing.is_empty() && !answered.matched.is_empty() { Answer::Yes } else { Answer::No })
    }

    fn asked(&self) -> Result<Option<BTreeSet<NodeName>>, Failure> {
        let mut asked = BTreeSet::new();
        if let Some(list) = &self.nodes {
            let mut text = list.clone();
            if list == "-" {
                text.clear();
                std::io::stdin().read_to_string(&mut text)?;
            }
            for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
                asked.extend(hostlist::expand(line)?);
            }
        }
        if let Some(jobs) = &self.jobs {
            asked.extend(jobs::load(jobs)?.jobs.into_iter().flat_map(|job| job.nodes));
        }
        Ok((self.nodes.is_some() || self.jobs.is_some()).then_some(asked))
    }
}

fn answer(fabric: &Fabric, names: &NodeNames, map: &NodeMap, asked: Option<&BTreeSet<NodeName>>) -> Answered {
    let all: BTreeSet<NodeName> = map.names().cloned().collect();
    let asked = asked.unwrap_or(&all);
    let (mut matched, mut missing, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
    for node in asked {
        match map.terminals(node) {
            [] => missing.push(Missing::of(node, &all)),
            found => {
                taken.extend(found.iter().copied());
                let adapters = found.iter().map(|t| adapter(fabric, names, *t)).collect();
                matched.push(Matched { node: node.clone(), adapters, at: None });
            }
        }
    }
    let is_other = |n: &&NodeName| !map.terminals(n).iter().any(|t| taken.contains(t));
    Answered {
        matched,
        missing,
        others: all.iter().filter(is_other).cloned().collect(),
        unnamed: map.unnamed().iter().map(|t| adapter(fabric, names, *t)).collect(),
    }
}

impl Missing {
    fn of(node: &NodeName, all: &BTreeSet<NodeName>) -> Self {
        let near = nearest(node.as_str(), all.iter().map(NodeName::as_str));
        Self { node: node.clone(), nearest: near.and_then(|name| NodeName::new(name).ok()) }
    }
}

fn of_torus(torus: &Torus, asked: Option<&BTreeSet<NodeName>>) -> Answered {
    let all: BTreeSet<NodeName> = torus.nodes().map(|n| torus.name(n).clone()).collect();
    let asked = asked.unwrap_or(&all);
    let at = |node: &NodeName| torus.node_named(node).map(|n| torus.coords(n).to_string());
    let found = |node: &NodeName| Matched { node: node.clone(), adapters: Vec::new(), at: at(node) };
    Answered {
        matched: asked.intersection(&all).map(found).collect(),
        missing: asked.difference(&all).map(|node| Missing::of(node, &all)).collect(),
        others: all.difference(asked).cloned().collect(),
        unnamed: Vec::new(),
    }
}

fn adapter(fabric: &Fabric, names: &NodeNames, t: TerminalId) -> Adapter {
    let terminal = fabric.terminal(t);
    let by = names.name(terminal).map(|named| match named.by {
        NamedBy::Guid => "GUID".to_string(),
        NamedBy::Description => "description".to_string(),
        NamedBy::Pattern { line } => format!("pattern of line {line}"),
        NamedBy::Itself => "first word".to_string(),
    });
    Adapter {
        port_guid: terminal.port_guid,
        description: terminal.description.clone(),
        switch: fabric.switch(terminal.switch).description.clone(),
        by,
    }
}

/// Entries of a list that people are shown; JSON has all.
const LISTED: usize = 20;

impl Answered {
    fn text_of_torus(&self) -> String {
        let asked = self.matched.len() + self.missing.len();
        let mut text = format!("{} of {asked} nodes are in the torus\n", self.matched.len());
        for Matched { node, at, .. } in self.matched.iter().take(LISTED) {
            let _ = writeln!(text, "  {node}: {}", at.as_deref().unwrap_or("-"));
        }
        more(&mut text, self.matched.len());
        let _ = writeln!(text, "{} nodes are not", self.missing.len());
        self.write_missing(&mut text);
        self.write_others(&mut text, "torus");
        text
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let asked = self.matched.len() + self.missing.len();
        let _ = writeln!(text, "{} of {asked} nodes have adapters", self.matched.len());
        for Matched { node, adapters, .. } in self.matched.iter().take(LISTED) {
            let names: Vec<String> = adapters
                .iter()
                .map(|a| format!("{:?} ({})", a.description, a.by.as_deref().unwrap_or("unnamed")))
                .collect();
            let _ = writeln!(text, "  {node}: {}", names.join(", "));
        }
        more(&mut text, self.matched.len());
        let mut by: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.matched.iter().flat_map(|m| &m.adapters).filter_map(|a| a.by.as_deref()) {
            *by.entry(name).or_default() += 1;
        }
        for (rule, adapters) in by {
            let _ = writeln!(text, "{adapters} adapters named by {rule}");
        }
        let _ = writeln!(text, "{} nodes without adapters", self.missing.len());
        self.write_missing(&mut text);
        let _ = writeln!(text, "{} adapters without a node", self.unnamed.len());
        for a in self.unnamed.iter().take(LISTED) {
            let _ = writeln!(text, "  {} {:?} on {}", a.port_guid, a.description, a.switch);
        }
        more(&mut text, self.unnamed.len());
        self.write_others(&mut text, "fabric");
        text
    }

    fn write_missing(&self, text: &mut String) {
        for Missing { node, nearest } in self.missing.iter().take(LISTED) {
            let near = nearest.as_ref().map_or(String::new(), |n| format!(", is it {n}?"));
            let _ = writeln!(text, "  {node}{near}");
        }
        more(text, self.missing.len());
    }

    /// The end of the text.
    fn write_others(&self, text: &mut String, of: &str) {
        let _ = writeln!(text, "{} further nodes in the {of}", self.others.len());
        for node in self.others.iter().take(LISTED) {
            let _ = writeln!(text, "  {node}");
        }
        more(text, self.others.len());
        text.truncate(text.trim_end().len());
    }
}

fn more(text: &mut String, all: usize) {
    if all > LISTED {
        let _ = writeln!(text, "  and {} more", all - LISTED);
    }
}
