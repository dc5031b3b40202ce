//! `sarouter order`: which rank goes to which node.

mod direct;
mod files;
mod site;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use self::files::{Form, Seats};
use self::site::Site;
use super::common::write_json;
use super::{Answer, Context, Failure, Format, input};
use crate::measure::Predictor;
use crate::model::{Demand, Fabric, Group, JobId, LayerBudget, Mix, NodeName, Promise, Tables, TerminalId};
use crate::observe::torus_toml::is_torus;
use crate::placement::order::{self, Movable, Question};
use crate::report::align;
use crate::route::{EngineOptions, engine};
use crate::service::kind;
use crate::verify::{Checks, judge_with};

/// The routes if nothing is said of them.
const USUAL: &str = "balanced";

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "No service, Slurm or OpenSM is needed, and nothing is changed. The order is never worse than the list.

Examples:
  sarouter order --fabric fattree:8x8,8 --nodes 'n[1-64]' --pattern halo:8x8
  sarouter order --fabric angara:4x4x4 --nodes 'n[1-16]' --pattern ring
  sarouter order --fabric site.ibnetdiscover --tables lfts.dump \\
      --nodes \"$SLURM_JOB_NODELIST\" --pattern ring --as rankfile > ranks && \\
      mpirun --rankfile ranks ./program
  sarouter order --job \"$SLURM_JOB_ID\" --as slurm > hosts && \\
      SLURM_HOSTFILE=hosts srun --distribution=arbitrary ./program"
)]
pub struct Args {
    /// Fabric: ibnetdiscover output, ibsim .net file, direct torus, or a spec
    #[arg(long, value_name = "FILE|SPEC", required_unless_present = "job")]
    fabric: Option<String>,
    /// The job's nodes, in the order in which its ranks would go to them
    #[arg(long, value_name = "HOSTLIST", required_unless_present = "job")]
    nodes: Option<String>,
    /// A job that runs, instead of --fabric and --nodes: fabric and routes are those of the settings, and Slurm is
    /// asked for its nodes, its pattern and the jobs beside it
    #[arg(long, value_name = "ID", conflicts_with_all = ["fabric", "nodes", "jobs", "node_map"])]
    job: Option<JobId>,
    /// What the ranks exchange: a pattern (see `patterns`) or a sum such as 3*ring+alltoall [default: what the job
    /// says, else the default mix]
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<Mix>,
    /// The fabric's routes: what `route --out` wrote, or a dump by OpenSM or infiniband-diags [default: what
    /// balanced makes for everybody]
    #[arg(long, value_name = "DIR|FILE")]
    tables: Option<PathBuf>,
    /// Layers of the routes; without it, those of the directory, or layer 0 for every route
    #[arg(long, value_name = "FILE", requires = "tables")]
    layers_file: Option<PathBuf>,
    /// Find new routes together with the order, with this engine; on a direct torus: the engine of the routes
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Virtual layers that new routes may use, 1 to 15
    #[arg(long, value_name = "1..15", default_value = "8")]
    layers: LayerBudget,
    /// Jobs beside it: squeue --json, a snapshot, or lines "ID HOSTLIST [PATTERN]"; - is standard input
    #[arg(long, value_name = "FILE")]
    jobs: Option<String>,
    /// Ranks on each node [default: one per adapter port]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    ranks_per_node: Option<u16>,
    /// Ranks of one node need not follow each other
    #[arg(long)]
    scatter: bool,
    /// Node names of adapters: lines "GUID NAME"
    #[arg(long, value_name = "FILE")]
    node_map: Option<PathBuf>,
    /// Direct torus: nodes that may forward a job's packets [default: what the description says]
    #[arg(long, value_name = "job|any")]
    transit: Option<String>,
    /// Print the order alone, in this form
    #[arg(long = "as", value_name = "FORM", value_enum)]
    form: Option<Form>,
    /// Write order.json, the order in every form, and new routes into a directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What is printed.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Answered {
    nodes: usize,
    ranks_per_node: usize,
    pattern: Mix,
    /// The routes under which the given list is judged.
    routes: String,
    /// The list as given, and what was found, best last.
    choices: Vec<RoutedOrder>,
    /// Orders that were looked at under the routes as they are.
    tried: usize,
    /// The node of each rank.
    order: Vec<NodeName>,
}

/// An order with routes.
#[derive(Debug, Clone, JsonSchema, Serialize)]
struct RoutedOrder {
    what: &'static str,
    routes: String,
    /// Predicted time over what it would take if each rank had a cable of its own and met nobody.
    time: f64,
    /// Most messages of one step on a channel that the job uses.
    contention: u32,
}

/// Order and routes found together.
struct Both {
    row: RoutedOrder,
    /// By rank: the node's place in the list.
    seats: Vec<u32>,
    /// Whether the routes are not those as they are.
    is_new: bool,
    tables: Tables,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    if args.form.is_some() && context.format == Format::Json {
        return Err("--as is text, as launchers read it: no --format json".into());
    }
    if let Some(source) = args.torus(context)? {
        return direct::run(&args, &source, context);
    }
    input::none_on_switches(&[("--transit", args.transit.is_some())])?;
    let mut site = args.site(context)?;
    let (routes, tables) = args.tables(&mut site)?;
    let predictor = Predictor::new(&site.fabric, &tables, &site.groups, 0);
    let mut predictor = predictor.ok_or("a job beside it has a route that does not arrive")?;
    let Group { ranks, mix, .. } = &site.groups[0];
    let Movable { unit, .. } = site.movable;
    let question = Question { fabric: &site.fabric, ranks, unit, mix, work: order::WORK };
    let found = order::order(question, &mut predictor);
    if found.before.is_infinite() {
        return Err(format!(
            "{routes}: no route leads from one of these nodes to another; see `sarouter path`"
        )
        .into());
    }
    let ordered: Vec<TerminalId> = found.places.iter().map(|p| ranks[*p as usize]).collect();
    let mut row = |what, time, ranks: &[TerminalId]| RoutedOrder {
        what,
        routes: routes.clone(),
        time,
        contention: predictor.contention(ranks),
    };
    let mut choices = vec![row("the list", found.before, ranks), row("order alone", found.after, &ordered)];
    let mut seats: Vec<u32> = found.places.iter().map(|p| site.seats[*p as usize]).collect();
    let mut made = None;
    if let Some(name) = &args.engine {
        let (alone, both) = args.with_routes(name, &site, &tables)?;
        choices.push(alone);
        if both.is_new {
            seats = both.seats;
            made = Some(both.tables);
            choices.push(both.row);
        } else {
            // The routes as they are serve the order better than new ones: best last.
            choices.swap(1, 2);
        }
    }
    let answered = Answered {
        nodes: site.nodes.len(),
        ranks_per_node: ranks.len() / site.nodes.len(),
        pattern: mix.clone(),
        routes,
        choices,
        tried: found.tried,
        order: seats.iter().map(|s| site.nodes[*s as usize].clone()).collect(),
    };
    args.show(&answered, &Seats::new(&answered.order, answered.ranks_per_node), context)?;
    if let (Some(out), Some(tables)) = (&args.out, &made) {
        input::write_tables(&site.fabric, tables, out)?;
    }
    Ok(Answer::Yes)
}

impl Args {
    /// The description of a direct torus, if that is where the job is.
    fn torus(&self, context: &Context) -> Result<Option<String>, Failure> {
        match &self.fabric {
            Some(fabric) => Ok(Some(fabric.clone()).filter(|fabric| is_torus(fabric))),
            None => Ok(kind::direct::source(&context.settings()?)),
        }
    }

    /// The routes that are not changed, with their name.
    fn tables(&self, site: &mut Site) -> Result<(String, Tables), Failure> {
        match (&self.tables, site.in_force.take()) {
            (Some(path), _) => {
                let tables = input::read_tables(&site.fabric, path, self.layers_file.as_deref())?;
                Ok((path.display().to_string(), tables))
            }
            (None, Some(in_force)) => Ok(in_force),
            (None, None) => {
                let tables = self.route(USUAL, &site.fabric, &Demand::oblivious())?;
                Ok((format!("{USUAL}, for everybody"), tables))
            }
        }
    }

    /// Routes of an engine that the checker accepts.
    fn route(&self, name: &str, fabric: &Fabric, demand: &Demand) -> Result<Tables, Failure> {
        let tables = engine(name, &EngineOptions::default())?.route(fabric, demand, self.layers)?;
        let verdict =
            judge_with(fabric, &tables, self.layers, Checks { promise: Promise::TOLD, hosts_only: false });
        match verdict.accepted {
            true => Ok(tables),
            false => Err(format!("{name}: the checker rejects its routes for this fabric").into()),
        }
    }

    /// New routes for the list as given; then order and routes together, with the seats and the routes.
    fn with_routes(&self, name: &str, site: &Site, usual: &Tables) -> Result<(RoutedOrder, Both), Failure> {
        let routes = format!("{name}, for the jobs");
        let row = |what, tables: &Tables, groups: &[Group]| {
            let mut predictor = Predictor::new(&site.fabric, tables, groups, 0)?;
            let (time, contention) =
                (predictor.time(&groups[0].ranks), predictor.contention(&groups[0].ranks));
            Some(RoutedOrder { what, routes: routes.clone(), time, contention })
        };
        let lost = "a job beside it has a route that does not arrive";
        let mut first = None;
        let route = |demand: &Demand| -> Result<Tables, Failure> {
            let tables = self.route(name, &site.fabric, demand)?;
            first.get_or_insert_with(|| tables.clone());
            Ok(tables)
        };
        let both = order::together(&site.fabric, &site.groups, &[site.movable], order::WORK, usual, route)?;
        let alone = first.and_then(|tables| row("routes alone", &tables, &site.groups)).ok_or(lost)?;
        let together = row("both", &both.tables, &both.groups).ok_or(lost)?;
        let seats = site.follow(&both.groups[0].ranks);
        Ok((alone, Both { row: together, seats, is_new: both.is_new, tables: both.tables }))
    }

    fn show(&self, answered: &Answered, seats: &Seats<'_>, context: &Context) -> Result<(), Failure> {
        let list = self.form.map(|form| seats.text(form)).transpose()?;
        if let Some(out) = &self.out {
            seats.write(out)?;
            write_json(&out.join("order.json"), answered)?;
        }
        context.print(answered, || list.unwrap_or_else(|| answered.text()))
    }
}

impl Answered {
    fn text(&self) -> String {
        let mut lines = vec![["", "routes", "predicted time", "worst contention"].map(String::from).to_vec()];
        let cells = |r: &RoutedOrder| {
            vec![r.what.to_string(), r.routes.clone(), format!("{:.3}", r.time), r.contention.to_string()]
        };
        lines.extend(self.choices.iter().map(cells));
        let (given, best) = (self.choices[0].time, self.choices.last().map_or(1.0, |r| r.time));
        let gain = 100.0 * (1.0 - best / given);
        let words = match gain >= 0.05 {
            true => format!(
                "The exchange is predicted to take {gain:.1} % less time than with the list as given."
            ),
            false => "No order was found that is better than the list as given.".to_string(),
        };
        let each =
            if self.ranks_per_node == 1 { "1 rank".into() } else { format!("{} ranks", self.ranks_per_node) };
        format!(
            "{} nodes with {each} each, pattern {}\n\n{}\nTime: over what the exchange would take if each rank had a \
             cable of its own and met nobody.\nContention: messages of one step on one channel.\n{words}\n\norder  {}",
            self.nodes,
            self.pattern,
            align(&lines),
            files::nodes_in_order(&self.order).join(",")
        )
    }
}
