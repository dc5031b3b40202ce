//! `sarouter simulate --changes`: tables that change while packets fly.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::epochs::Epochs;
use super::{Args, Case, Failure, Kind};
use crate::cli::common::write_file_with;
use crate::cli::input::Input;
use crate::cli::number;
use crate::lab::generate::faults::{Amount, Faults};
use crate::model::{Demand, Fabric, FabricLanes, Layer, LayerBudget, Promise, Tables};
use crate::route::lanes::fabric_lanes;
use crate::route::{EngineOptions, engine, serves_jobs};
use crate::simulate::changes::{self, Changes, Plan};
use crate::simulate::run::Outcome;
use crate::simulate::traffic::open::Destinations;
use crate::simulate::update::{self, How, InPhase};
use crate::simulate::{Ended, Net};

/// Arguments that only changes have.
#[derive(Debug, clap::Args)]
pub struct ChangesArgs {
    /// Change the tables so many times while packets fly: each time for other jobs, switch by switch in random
    /// order; hosts keep their connections, and the SL of each
    #[arg(long, value_name = "N", conflicts_with_all = ["tables", "warm_up", "measure"])]
    changes: Option<u32>,
    /// Nanoseconds from one change to the next; switches change during all of it
    #[arg(long, value_name = "NS", default_value_t = 20_000.0, value_parser = number::above_zero, requires = "changes")]
    every: f64,
    /// Share of hosts whose programs do not ask which SL to use: half of them send on SL 0, half on one that
    /// they drew themselves
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = number::share, requires = "changes")]
    untold: f64,
    /// Share of messages that are answered, on the SL of the caller
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = number::share, requires = "changes")]
    answers: f64,
    /// Cables that die, spread over the changes, none that would split the fabric. As with the service, the tables
    /// around it are proved beside those before, in two or three steps where need be; each is one of the changes
    #[arg(long, value_name = "N", default_value_t = 0, requires = "changes")]
    lose: u32,
    /// What tables are routed for: any+mixed (the default of the service: lanes that no program has to know,
    /// and next hops that may be mixed) or told (free layers, VL = SL: what may deadlock here)
    #[arg(long, value_name = "PROMISE", default_value = "any+mixed", requires = "changes")]
    pub(super) promise: Promise,
    /// Programs take part: property-preserving (the thesis' update: drain, go to the high LID of each port, which
    /// has Up*/Down* routes on a layer of its own, and come back), stop-and-drain, or plain to compare. Free layers,
    /// one fewer than --layers; switches change during --every, and an update is followed by as long a rest
    #[arg(long, value_name = "HOW", requires = "changes")]
    #[arg(conflicts_with_all = ["untold", "answers", "lose", "promise"])]
    update: Option<How>,
    /// With --update, throughput over time is written here, as CSV: offered,time_ns,phase,base,high (Gbyte/s)
    #[arg(long, value_name = "FILE", requires = "update")]
    series: Option<PathBuf>,
}

impl ChangesArgs {
    /// Whether tables are to change.
    pub fn is_asked(&self) -> bool {
        self.changes.is_some()
    }

    fn check(&self) -> Result<(), Failure> {
        if self.changes.is_some_and(|changes| self.lose > 0 && self.lose >= changes) {
            return Err(format!("--lose {}: fewer than changes", self.lose).into());
        }
        Ok(())
    }

    /// Refuses more losses than the fabric bears without falling apart. It does not matter which cables go first.
    fn can_lose(&self, fabric: &Fabric, seed: u64) -> Result<(), Failure> {
        let faults = Faults { cables: Amount::Count(self.lose as usize), dead_switches: 0, seed };
        if !faults.is_none() {
            faults.apply(fabric).map_err(|e| format!("--lose {}: {e}", self.lose))?;
        }
        Ok(())
    }

    /// Whether a cable dies during a change.
    pub(super) fn dies(&self, n: u32) -> bool {
        // The last of `lose + 1` equal parts has none, so that one change at least is left.
        let (all, parts) = (u64::from(self.changes.unwrap_or(0)), u64::from(self.lose) + 1);
        let part = |n: u64| n * parts / all.max(1);
        n > 0 && part(n.into()) > part(u64::from(n) - 1) && u64::from(n) < all
    }
}

/// One run for each load.
pub fn run(args: &Args, case: &Case, input: &Input, net: &Net) -> Result<Vec<Outcome>, Failure> {
    let own = &args.changes;
    own.check()?;
    if !serves_jobs(&args.engine) {
        return Err(format!("--engine {}: its routes are the same for all jobs", args.engine).into());
    }
    if own.update.is_none() && !own.promise.is_told_only() && args.engine != "balanced" {
        return Err(format!("--promise {}: only balanced keeps it", own.promise).into());
    }
    own.can_lose(&input.fabric, args.seed)?;
    let members = super::members(case)?;
    let destinations = match case.default {
        Kind::Uniform => Destinations::Uniform,
        Kind::OneToOne(pattern) => Destinations::Fixed(pattern.destinations(net, members, args.seed)?),
        _ => {
            return Err("an exchange has an end: --changes needs traffic without one, such as uniform".into());
        }
    };
    let plan = |offered| Plan {
        changes: own.changes.unwrap_or(0),
        every_ns: own.every,
        members: members.to_vec(),
        destinations: destinations.clone(),
        bytes: case.bytes.unwrap_or(case.settings.mtu),
        offered,
        untold: if own.update.is_some() { 0.0 } else { own.untold },
        answers: if own.update.is_some() { 0.0 } else { own.answers },
        vls: input.budget,
        seed: args.seed,
    };
    let plans = super::shares(args).into_iter().map(plan);
    if let Some(how) = own.update {
        return update(args, case, (input, net), how, plans);
    }
    let found = args.source.in_pool(|| lanes(own.promise, &input.fabric, input.budget))?;
    let runs = plans.map(|plan| {
        let mut epochs = Epochs::new(args, input, own.promise, found.clone());
        args.source.in_pool(|| changes::run(&input.fabric, net, case.settings, &plan, |n| epochs.next(n)))?
    });
    runs.collect()
}

/// The same with programs that take part: high LIDs on the last layer, and base LIDs on the others.
fn update(
    args: &Args,
    case: &Case,
    (input, net): (&Input, &Net),
    how: How,
    plans: impl Iterator<Item = Plan>,
) -> Result<Vec<Outcome>, Failure> {
    let most = input.budget.get().checked_sub(1).and_then(|k| LayerBudget::new(k.into()).ok());
    let most = most.ok_or("--update: high LIDs have a layer of their own: --layers 2 or more")?;
    let (fabric, settings) = (&input.fabric, case.settings);
    let high = args.source.in_pool(|| high_lids(fabric, most.get()))??;
    let runs = plans.map(|plan| {
        let mut epochs = Epochs::new(args, input, Promise::TOLD, None);
        epochs.limit(most);
        let one = || update::run(fabric, net, settings, (&plan, how, &high), |n| epochs.next(n));
        args.source.in_pool(one)?
    });
    let outcomes: Vec<Outcome> = runs.collect::<Result<_, Failure>>()?;
    if let Some(path) = &args.changes.series {
        write_file_with(path, |to| write_series(&outcomes, to))?;
    }
    Ok(outcomes)
}

/// Routes to high LIDs: Up*/Down*, all on one layer.
fn high_lids(fabric: &Fabric, layer: u8) -> Result<Tables, Failure> {
    let updown = engine("updown", &EngineOptions::default())?;
    let one = LayerBudget::new(1).map_err(|e| e.to_string())?;
    let tables = updown.route(fabric, &Demand::oblivious(), one)?;
    Ok(tables.on_layer(Layer::new(layer.into()).map_err(|e| e.to_string())?))
}

fn write_series(outcomes: &[Outcome], to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "offered,time_ns,phase,base,high")?;
    for outcome in outcomes {
        let offered = outcome.steady.and_then(|s| s.offered).unwrap_or(1.0);
        for s in outcome.update.iter().flat_map(|u| &u.series) {
            writeln!(to, "{offered},{},{},{:.4},{:.4}", s.time_ns, s.phase, s.base, s.high)?;
        }
    }
    Ok(())
}

/// The lanes that a promise needs, if the fabric is no tree.
fn lanes(promise: Promise, fabric: &Fabric, vls: LayerBudget) -> Option<Arc<FabricLanes>> {
    if promise.is_told_only() {
        return None;
    }
    let found = fabric_lanes(fabric, vls);
    tracing::info!("lanes: {}", found.way);
    found.needs_map().then(|| Arc::new(found.lanes))
}

/// Whether a run shows that nothing waits for ever and nothing is lost.
pub fn is_whole(outcome: &Outcome) -> bool {
    outcome.ended != Ended::Deadlock && outcome.changes.as_ref().is_none_or(Changes::is_whole)
}

/// What happened to connections, for people.
pub fn text(outcome: &Outcome) -> String {
    let Some(changes) = &outcome.changes else { return String::new() };
    let c = &changes.counts;
    let mut more = changes.deadlock_in.map_or(String::new(), |n| format!("deadlock during change {n}\n"));
    if changes.cables_lost > 0 {
        more += &format!(
            "{} cables lost, and {} packets with them; {} when all switches led around them, {} on the way to hosts that \
             waited for the second of two steps\n",
            changes.cables_lost, c.lost_on_cable, changes.lost_later, changes.lost_waiting
        );
    }
    if let Some(update) = &outcome.update {
        let phase = |p: &InPhase| {
            format!("  {}: {:.1} µs, {:.1} Gbyte/s\n", p.phase, p.mean_ns / 1000.0, p.throughput)
        };
        more += &format!("{}: mean times of its phases, and what arrives meanwhile\n", update.how);
        more.extend(update.phases.iter().map(phase));
    }
    format!(
        "{} changes, {} forwarding and {} SL2VL entries\n{} connections: {} requests, {} answers; {} not \
         arrived, {} packets without an entry, {} out of order\nmessages: {} on a told SL ({} on one of an earlier epoch), \
         {} on SL 0, {} on an own SL\n{more}",
        changes.made,
        changes.entries,
        changes.sl2vl_entries,
        c.connections,
        c.requests,
        c.answers,
        c.requests + c.answers - c.requests_arrived - c.answers_arrived,
        c.lost,
        c.out_of_order,
        c.told,
        c.on_old_sl,
        c.on_sl_0,
        c.on_own_sl,
    )
}
