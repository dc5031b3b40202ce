//! `sarouter verify`: a verdict on any tables.

use std::path::PathBuf;

use super::input;
use super::route_angara::{self, TorusArgs, is_torus};
use super::{Answer, Context, Failure, Format};
use crate::model::LayerBudget;
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::observe::{fabric, jobs};
use crate::verify::{Checks, Verdict, judge_jobs};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter verify --fabric site.ibnetdiscover --tables /var/log/opensm-lfts.dump

The exit status is 1 when the tables are rejected; the findings say why.")]
pub struct Args {
    /// Fabric: ibnetdiscover output, ibsim .net file, or a spec
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: String,
    /// Tables: what `route --out` wrote, or a dump by OpenSM or infiniband-diags
    #[arg(long, value_name = "DIR|FILE")]
    tables: PathBuf,
    /// Layers of the routes; without it, those of the directory, or layer 0 for every route
    #[arg(long, value_name = "FILE")]
    layers_file: Option<PathBuf>,
    /// Virtual layers that may be used, 1 to 15
    #[arg(long, value_name = "K", default_value = "8")]
    layers: LayerBudget,
    /// Connection managers answer on the layer on which they were called: check that too
    #[arg(long)]
    reverse_on_same_layer: bool,
    /// Judge only routes to hosts, not those to the management ports of switches
    #[arg(long)]
    hosts_only: bool,
    /// Also reject tables that have routes inside a job (--jobs) on several layers
    #[arg(long, requires = "jobs")]
    layer_per_job: bool,
    /// Jobs, of a direct torus or for --layer-per-job: squeue --json, a snapshot, or lines "ID HOSTLIST"
    #[arg(long, value_name = "FILE")]
    jobs: Option<String>,
    #[command(flatten)]
    torus: TorusArgs,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    if is_torus(&args.fabric) {
        return route_angara::verify(&args.fabric, args.jobs.as_deref(), &args.tables, &args.torus, context);
    }
    let fabric = fabric::load(&args.fabric)?;
    let tables = input::read_tables(&fabric, &args.tables, args.layers_file.as_deref())?;
    let checks = Checks { reverse_on_same_layer: args.reverse_on_same_layer, hosts_only: args.hosts_only };
    let groups = match (&args.jobs, args.layer_per_job) {
        (Some(jobs), true) => {
            let nodes = name_hosts(&fabric, &NodeNames::default());
            nodes.place(&jobs::load(jobs)?).demand(&fabric, Vec::new()).groups
        }
        _ => Vec::new(),
    };
    let verdict = judge_jobs(&fabric, &tables, args.layers, checks, &groups);
    match context.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&verdict)?),
        Format::Text => print_text(&verdict, tables.layers_used()),
    }
    Ok(if verdict.accepted { Answer::Yes } else { Answer::No })
}

fn print_text(verdict: &Verdict, layers: u8) {
    if verdict.accepted {
        println!("accepted: every pair is reached, {layers} layers, each without a cycle");
    } else {
        println!("rejected: {} findings", verdict.findings_total);
    }
    for finding in &verdict.findings {
        println!("  {finding}");
    }
    let listed = verdict.findings.len() as u64;
    if verdict.findings_total > listed {
        println!("  … and {} more of these kinds", verdict.findings_total - listed);
    }
    if verdict.unreachable_pairs > 0 {
        println!("{} pairs of hosts are in different parts of the fabric", verdict.unreachable_pairs);
    }
}
