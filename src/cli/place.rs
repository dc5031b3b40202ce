//! `sarouter place`: which nodes route best for a job.

use std::fmt::Write;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::input::{none_on_switches, none_on_torus};
use super::route_angara::transit;
use super::{Answer, Context, Failure};
use crate::measure;
use crate::model::{Demand, Fabric, Group, LayerBudget, Mix, NodeMap, NodeName, TerminalId};
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::observe::{fabric, hostlist, jobs, torus_toml};
use crate::placement::{self, Board, Choice, Direct, Insist, Predicted, Question, Switched};
use crate::route::{EngineOptions, engine};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit 1 if no set of nodes can be recommended. Nothing is changed.\n\n\
                        Examples:\n\x20 sarouter place --nodes 24 --fabric fattree:10x18,5 --jobs jobs.txt\n\
                        \x20 sarouter place --nodes 6 --fabric torus:6x6,hosts=1 --pattern ring")]
pub struct Args {
    /// Fabric: ibnetdiscover output, ibsim .net file, direct torus, or a spec
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: String,
    /// Running jobs: squeue --json, a snapshot, or lines "ID HOSTLIST"; - is standard input
    #[arg(long, value_name = "FILE")]
    jobs: Option<String>,
    /// How many nodes the job wants
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    nodes: usize,
    /// Nodes it may get, such as `sinfo -h -t idle -o %N` prints [default: all that no running job has, drained ones too]
    #[arg(long, value_name = "HOSTLIST")]
    candidates: Option<String>,
    /// What it will exchange: a pattern (see `patterns`) or a sum such as 3*ring+alltoall, its ranks in the order of
    /// the list [default: everybody with everybody]
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<Mix>,
    /// prefer (any nodes rather than none) or require (wait rather than run on bad ones)
    #[arg(long, default_value = "prefer", value_name = "prefer|require")]
    insist: Insist,
    /// Only nodes between which no running job sends: alone on the channels of all shortest ways
    #[arg(long)]
    isolated: bool,
    /// Node names of adapters: lines "GUID NAME"
    #[arg(long, value_name = "FILE")]
    node_map: Option<PathBuf>,
    /// Also route for both choices with this engine (switched fabrics)
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Layers for --engine
    #[arg(long, value_name = "1..15", default_value = "8")]
    layers: LayerBudget,
    /// Direct torus: nodes that may forward a job's packets [default: what the description says]
    #[arg(long, value_name = "job|any")]
    transit: Option<String>,
}

/// What is printed.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Answered {
    /// The set; null if none is recommended.
    nodes: Option<Vec<NodeName>>,
    /// Why there is none.
    why: Option<String>,
    candidates: usize,
    /// What the job exchanges, as asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<Mix>,
    /// Candidates and nodes of jobs that the fabric does not have.
    unknown_nodes: Vec<NodeName>,
    /// Prediction for the set.
    predicted: Option<Predicted>,
    /// The batch system's own choice.
    usual_nodes: Vec<NodeName>,
    /// Prediction for it.
    usual: Option<Predicted>,
    /// Largest effective EFI after routing with --engine.
    routed: Option<Routed>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Routed {
    engine: String,
    usual: u64,
    chosen: u64,
}

/// What places and, on a switched fabric, what routes.
struct Site {
    board: Board,
    switched: Option<(Fabric, NodeMap)>,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let site = args.site()?;
    let board = &site.board;
    let jobs = args.jobs.as_deref().map(jobs::load).transpose()?.map_or_else(Vec::new, |map| map.jobs);
    let running: Vec<Vec<u32>> = jobs.iter().map(|job| board.numbers(&job.nodes)).collect();
    let asked = args.candidates.as_deref().map(hostlist::expand).transpose()?;
    let mut unknown: Vec<NodeName> =
        jobs.iter().flat_map(|job| &job.nodes).chain(asked.iter().flatten()).cloned().collect();
    unknown.retain(|name| board.numbers([name]).is_empty());
    unknown.sort_by(placement::natural);
    unknown.dedup();
    let candidates = match &asked {
        Some(names) => board.numbers(names),
        None => {
            let busy: std::collections::BTreeSet<u32> = running.iter().flatten().copied().collect();
            (0..board.names().len() as u32).filter(|n| !busy.contains(n)).collect()
        }
    };
    let traffic = board.running(&running);
    let mix = args.pattern.as_ref();
    let question = Question {
        nodes: args.nodes,
        candidates: &candidates,
        insist: args.insist,
        mix,
        isolated: args.isolated,
    };
    let name = |numbers: &[u32]| numbers.iter().map(|n| board.names()[*n as usize].clone()).collect();
    let mut answered = Answered {
        nodes: None,
        why: None,
        candidates: candidates.len(),
        pattern: args.pattern.clone(),
        unknown_nodes: unknown,
        predicted: None,
        usual_nodes: Vec::new(),
        usual: None,
        routed: None,
    };
    match board.choose(&traffic, question) {
        placement::Recommendation::Chosen(Choice { nodes, predicted, usual }) => {
            let usually = placement::usual::usual(args.nodes, &candidates);
            answered.routed = args.route(&site, &running, &usually, &nodes)?;
            answered.nodes = Some(name(&nodes));
            answered.predicted = Some(predicted);
            answered.usual_nodes = name(&usually);
            answered.usual = usual;
        }
        placement::Recommendation::Any(why) | placement::Recommendation::No(why) => {
            answered.why = Some(why.to_string())
        }
    }
    context.print(&answered, || answered.text())?;
    Ok(if answered.nodes.is_some() { Answer::Yes } else { Answer::No })
}

impl Args {
    fn site(&self) -> Result<Site, Failure> {
        if torus_toml::is_torus(&self.fabric) {
            none_on_torus(&[("--engine", self.engine.is_some()), ("--node-map", self.node_map.is_some())])?;
            let source = torus_toml::load(&self.fabric)?;
            let transit = transit(self.transit.as_deref())?.or(source.transit).unwrap_or_default();
            return Ok(Site { board: Board::Direct(Direct::new(source.torus, transit)), switched: None });
        }
        none_on_switches(&[("--transit", self.transit.is_some())])?;
        let fabric = fabric::load(&self.fabric)?;
        let names = self.node_map.as_deref().map(NodeNames::load).transpose()?.unwrap_or_default();
        let nodes = name_hosts(&fabric, &names);
        let board = Board::Switched(Switched::new(&fabric, &nodes));
        Ok(Site { board, switched: Some((fabric, nodes)) })
    }

    fn route(
        &self,
        site: &Site,
        running: &[Vec<u32>],
        usual: &[u32],
        chosen: &[u32],
    ) -> Result<Option<Routed>, Failure> {
        let (Some(name), Some((fabric, nodes))) = (&self.engine, &site.switched) else { return Ok(None) };
        let engine = engine(name, &EngineOptions::default())?;
        let terminals = |job: &[u32]| -> Vec<TerminalId> {
            let names = job.iter().map(|n| &site.board.names()[*n as usize]);
            names.flat_map(|n| nodes.terminals(n)).copied().collect()
        };
        let largest = |set: &[u32]| -> Result<u64, Failure> {
            let mut groups: Vec<Group> = running.iter().map(|job| Group::new(terminals(job))).collect();
            groups.push(Group::new(terminals(set)).exchanging(self.pattern.clone().unwrap_or_default()));
            let demand = Demand::new(groups, Vec::new());
            let tables = engine.route(fabric, &demand, self.layers)?;
            let loads = measure::effective_loads(fabric, &tables, &demand.groups);
            Ok(loads.into_iter().max().unwrap_or(0))
        };
        Ok(Some(Routed { engine: name.clone(), usual: largest(usual)?, chosen: largest(chosen)? }))
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("a job has at least one node".to_string()),
        parsed => parsed.map_err(|e| e.to_string()),
    }
}

fn list(names: &[NodeName]) -> String {
    names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(",")
}

impl Answered {
    fn text(&self) -> String {
        let mut out = match (&self.nodes, &self.why) {
            (Some(nodes), _) => format!("nodes         {}", list(nodes)),
            (None, Some(why)) => format!("no recommendation: {why}"),
            (None, None) => "no recommendation".to_string(),
        };
        let _ = write!(out, "\ncandidates    {}", self.candidates);
        if !self.unknown_nodes.is_empty() {
            let _ = write!(out, "\nunknown nodes {}", hostlist::fold(&self.unknown_nodes));
        }
        let Some(predicted) = &self.predicted else { return out };
        let _ = write!(
            out,
            "\nusual choice  {}\n\npredicted                 usual     chosen",
            list(&self.usual_nodes)
        );
        let mut row = |name: &str, pick: &dyn Fn(&Predicted) -> String| {
            let usual = self.usual.as_ref().map_or("unroutable".to_string(), pick);
            let _ = write!(out, "\n{name:20}{usual:>11}{:>11}", pick(predicted));
        };
        if predicted.slowdown.is_some() {
            row("slow-down", &|p| format!("{:.2}", p.slowdown.unwrap_or(1.0)));
        }
        row("max effective EFI", &|p| p.max.to_string());
        row("channels", &|p| p.channels.to_string());
        row("shared channels", &|p| p.shared.to_string());
        row("extent", &|p| p.extent.to_string());
        if let Some(routed) = &self.routed {
            let _ = write!(out, "\nrouted by {:10}{:>11}{:>11}", routed.engine, routed.usual, routed.chosen);
        }
        out
    }
}
