//! What node selection is worth and costs: `cargo bench --bench placement [-- TRACE…]`.
//!
//! 1. Time of a question: 64 nodes of about 2,000, half of them busy.
//! 2. Selection on and off on a generated month and on job traces: predicted largest effective EFI,
//!    jobs on several switches, and what holding jobs for some seconds adds to their waiting.
//! 3. All jobs of the month at some moments, routed by `balanced`: how long their exchanges take, predicted and in
//!    the packet simulator, with Slurm's choice with and without a topology plugin, and with ours. Once more with
//!    jobs that say what they exchange, by their size: nodes and routes are made for that.
//!
//! Single-node jobs of traces are left out: they share nodes there and use no channel.

use std::time::Instant;

use sarouter::lab::generate::{angara, generate};
use sarouter::lab::replay::history::GENERATED_START;
use sarouter::lab::replay::trace::{self, Content};
use sarouter::lab::workload::mix;
use sarouter::lab::workload::placement::{Placement, Site};
use sarouter::lab::workload::schedule::{Moment, Pick, Request, Started, schedule, schedule_with, used};
use sarouter::measure;
use sarouter::model::rng::Rng;
use sarouter::model::{Demand, Fabric, Group, LayerBudget, Mix, NodeMap, NodeName, Pattern, Transit};
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::placement::usual::usual;
use sarouter::placement::{Board, Direct, Insist, Question, Recommendation, Switched};
use sarouter::route::{EngineOptions, engine};
use sarouter::simulate::{Net, exchange};

/// Of a direct torus, jobs stay on their own nodes where `own` says so.
fn board(spec: &str, own: bool) -> Board {
    if angara::is_angara(spec) {
        let transit = if own { Transit::Job } else { Transit::Any };
        return Board::Direct(Direct::new(angara::torus(spec).unwrap(), transit));
    }
    let fabric = generate(spec).unwrap();
    Board::Switched(Switched::new(&fabric, &name_hosts(&fabric, &NodeNames::default())))
}

/// Milliseconds to answer for 64 nodes, the middle of 21 questions, running jobs prepared.
fn time(spec: &str) -> (usize, f64, f64) {
    let board = board(spec, false);
    let nodes = board.names().len() as u32;
    let mut order: Vec<u32> = (0..nodes).collect();
    Rng::new(7).shuffle(&mut order);
    let (busy, free) = order.split_at(order.len() / 2);
    let jobs: Vec<Vec<u32>> = busy.chunks(32).map(<[u32]>::to_vec).collect();
    let mut free = free.to_vec();
    free.sort_unstable();
    let begun = Instant::now();
    let running = board.running(&jobs);
    let preparing = begun.elapsed().as_secs_f64() * 1000.0;
    let question =
        Question { nodes: 64, candidates: &free, insist: Insist::Prefer, mix: None, isolated: false };
    let mut times: Vec<f64> = (0..21)
        .map(|_| {
            let begun = Instant::now();
            assert!(matches!(board.choose(&running, question), Recommendation::Chosen(_)));
            begun.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (nodes as usize, preparing, times[10])
}

#[derive(Default)]
struct Outcome {
    /// Predicted largest load of a channel of each job with several nodes, when it starts.
    predicted: Vec<u64>,
    /// Jobs on several switches (of a direct torus: with more hops than one).
    multi_switch: usize,
    /// Channels of those jobs that running jobs use as well.
    shared: Vec<u64>,
    /// Jobs that some pair of nodes had no route in.
    unroutable: usize,
    wait: f64,
    /// Share of the nodes' time in which they have a job, up to the last submission.
    used: f64,
    /// By request, in the order in which they were held.
    started: Vec<Option<Started>>,
}

/// Who chooses.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Slurm,
    Ours,
    /// For what a job says it exchanges.
    OursTold,
    /// A job waits until it can be alone on its channels.
    Isolated,
}

/// What jobs of so many nodes exchange.
fn exchanged(size: usize) -> Mix {
    let name = match size {
        ..=3 => "ring",
        4 => "halo2d",
        5..=8 | 33..=64 => "halo3d",
        9..=16 => "doubling",
        17..=32 => "groups:8",
        _ => "double-tree",
    };
    name.parse().unwrap()
}

fn run(board: &Board, requests: &[Request], who: Who, hold: i64) -> Outcome {
    let select = who != Who::Slurm;
    let held: Vec<Request> = requests
        .iter()
        .map(|r| Request { submit: r.submit + if select && r.size > 1 { hold } else { 0 }, ..*r })
        .collect();
    // Sorted again: a held job may come after one that was submitted later.
    let mut order: Vec<usize> = (0..held.len()).collect();
    order.sort_by_key(|i| held[*i].submit);
    let sorted: Vec<Request> = order.iter().map(|i| held[*i]).collect();
    let mut outcome = Outcome::default();
    let mut choose = |moment: &Moment<'_>| {
        let running: Vec<Vec<u32>> = moment.running.iter().map(|job| job.to_vec()).collect();
        let free: Vec<u32> = (0..moment.free.len() as u32).filter(|n| moment.free[*n as usize]).collect();
        if moment.size == 1 && who != Who::Isolated {
            return Pick::Nodes(usual(1, &free));
        }
        let is_empty = running.is_empty();
        let running = board.running(&running);
        let (nodes, isolated) = (moment.size, who == Who::Isolated);
        let told = (who == Who::OursTold).then(|| exchanged(nodes));
        let mix = told.as_ref();
        let question = Question { nodes, candidates: &free, insist: Insist::Prefer, mix, isolated };
        let nodes = match (select, board.choose(&running, question)) {
            (true, Recommendation::Chosen(choice)) => choice.nodes,
            (true, _) if isolated && !is_empty => return Pick::Later,
            _ => usual(moment.size, &free),
        };
        if moment.size == 1 {
            return Pick::Nodes(nodes);
        }
        match board.predict(&running, &nodes, None) {
            Some(predicted) => {
                outcome.predicted.push(predicted.max);
                outcome.multi_switch += usize::from(predicted.extent > 1);
                outcome.shared.push(predicted.shared as u64);
            }
            None => outcome.unroutable += 1,
        }
        Pick::Nodes(nodes)
    };
    let started = schedule_with(board.names().len(), &sorted, &mut choose);
    let waits = started.iter().zip(&order).filter_map(|(s, i)| Some(s.as_ref()?.start - requests[*i].submit));
    let waits: Vec<i64> = waits.collect();
    outcome.wait = waits.iter().sum::<i64>() as f64 / waits.len().max(1) as f64;
    outcome.used = used(board.names().len(), &sorted, &started);
    outcome.started = started;
    outcome
}

/// Moments of the month at which all jobs are routed.
const MOMENTS: i64 = 10;

/// A job that ran: from, to, nodes.
type Ran = (i64, i64, Vec<u32>);

/// Geometric means over the jobs of several nodes that run at the moments: predicted slow-down, and microseconds in
/// the packet simulator. All jobs send at once, 16 KiB to a message: what each job says it exchanges if `told`, else
/// an all-to-all in random order.
fn in_time(fabric: &Fabric, nodes: &NodeMap, names: &[NodeName], ran: &[Ran], told: bool) -> (f64, f64) {
    let engine = engine("balanced", &EngineOptions::default()).unwrap();
    let net = Net::of_fabric(fabric);
    let (mut predicted, mut simulated) = (Vec::new(), Vec::new());
    for moment in 0..MOMENTS {
        let at = GENERATED_START + (moment * 30 + 15) * 86_400 / MOMENTS;
        let running = ran.iter().filter(|(start, end, nodes)| *start <= at && at < *end && nodes.len() > 1);
        let group = |(_, _, job): &Ran| {
            let terminals = job.iter().flat_map(|n| nodes.terminals(&names[*n as usize]));
            let group = Group::new(terminals.copied().collect());
            if told { group.exchanging(exchanged(job.len())) } else { group }
        };
        let groups: Vec<Group> = running.map(group).collect();
        let demand = Demand::new(groups.clone(), Vec::new());
        let tables = engine.route(fabric, &demand, LayerBudget::new(8).unwrap()).unwrap();
        predicted.extend(measure::slowdowns(fabric, &tables, &demand));
        let time = if told {
            exchange::geometric(exchange::runs((fabric, &net), &tables, &groups, 16 << 10))
        } else {
            let time = exchange::with_tables((fabric, &net), &tables, &groups, Pattern::Random, 16 << 10);
            time.unwrap().unwrap()
        };
        simulated.push(time / 1000.0);
    }
    (exchange::geometric(predicted), exchange::geometric(simulated))
}

/// The month in time on a switched fabric. Starts are the same with all, so the same jobs run at each moment.
fn month_in_time(spec: &str, requests: &[Request], told: bool) {
    let fabric = generate(spec).unwrap();
    let nodes = name_hosts(&fabric, &NodeNames::default());
    let (site, board) = (Site::new(&fabric, &nodes), board(spec, false));
    let ran = |started: Vec<Option<Started>>| -> Vec<Ran> {
        let jobs = started.into_iter().zip(requests);
        jobs.filter_map(|(s, r)| s.map(|s| (s.start, s.start + r.run.max(1), s.nodes))).collect()
    };
    let said = if told { ", jobs that say what they exchange" } else { "" };
    println!("\n| `{spec}`, the month in time{said} | predicted | simulated, us |\n|---|---:|---:|");
    for (label, model) in [("Slurm", Placement::Consecutive), ("Slurm, topology/tree", Placement::Tree)] {
        let (predicted, simulated) =
            in_time(&fabric, &nodes, &site.nodes, &ran(schedule(&site, model, requests, 1)), told);
        println!("| {label} | {predicted:.3} | {simulated:.1} |");
    }
    let who = if told { Who::OursTold } else { Who::Ours };
    let started = run(&board, requests, who, 0).started;
    let (predicted, simulated) = in_time(&fabric, &nodes, board.names(), &ran(started), told);
    println!("| ours | {predicted:.3} | {simulated:.1} |");
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}

fn percentile(values: &[u64], share: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn compare(name: &str, fabric: &str, own: bool, requests: &[Request]) {
    let board = board(fabric, own);
    let off = run(&board, requests, Who::Slurm, 0);
    let several = requests.iter().filter(|r| r.size > 1).count();
    let rule = if own { ", routes on the job's own nodes" } else { "" };
    println!("\n{name} on {fabric}{rule}: {} jobs, {several} of several nodes", requests.len());
    println!(
        "| selection | mean predicted max | 95 % | multi-switch jobs | shared channels | not routable | mean wait, s | used, % |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let row = |label: &str, o: &Outcome| {
        println!(
            "| {label} | {:.1} | {} | {} | {:.1} | {} | {:.1} | {:.1} |",
            mean(&o.predicted),
            percentile(&o.predicted, 0.95),
            o.multi_switch,
            mean(&o.shared),
            o.unroutable,
            o.wait,
            100.0 * o.used
        );
    };
    row("off", &off);
    row("on, inside the scheduler", &run(&board, requests, Who::Ours, 0));
    row("on, each job alone on its channels", &run(&board, requests, Who::Isolated, 0));
    for hold in [2, 60] {
        row(&format!("on, held {hold} s"), &run(&board, requests, Who::Ours, hold));
    }
}

fn main() {
    let traces: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    println!("| fabric | nodes | running jobs prepared, ms | 64 nodes chosen, ms |\n|---|---:|---:|---:|");
    for spec in ["fattree:56x36,36", "kary:12,3,hosts=14", "torus:8x8x8,hosts=4", "dragonfly:12,6,6,28"] {
        let (nodes, preparing, asking) = time(spec);
        println!("| `{spec}` | {nodes} | {preparing:.1} | {asking:.2} |");
    }
    let fabrics = [
        ("kary:6,3", false),
        ("fattree:10x18,5", false),
        ("dragonfly:6,3,3,10", false),
        ("torus:6x6,hosts=5", false),
        ("torus:6x6x5,hosts=1", false),
        ("angara:6x6x5", false),
        ("angara:6x6x5", true),
    ];
    for (fabric, own) in fabrics {
        let Ok(trace) = trace::load("generated:tsubame2,days=30,seed=1", None) else { continue };
        let Content::Generated(mix, days, seed) = trace.content else { continue };
        let mix: &mix::Mix = mix;
        let requests = mix.requests(board(fabric, own).names().len(), GENERATED_START, days, seed);
        compare("a generated month", fabric, own, &requests);
        if !angara::is_angara(fabric) {
            month_in_time(fabric, &requests, false);
            month_in_time(fabric, &requests, true);
        }
    }
    for source in traces {
        let trace = trace::load(&source, None).unwrap();
        let Content::Jobs(jobs) = trace.content else { continue };
        let mut requests: Vec<Request> = jobs
            .iter()
            .filter(|j| j.size > 1 && j.size <= 48)
            .map(|j| Request { submit: j.submit, run: j.end.unwrap_or(j.start) - j.start, size: j.size })
            .collect();
        requests.sort_by_key(|r| r.submit);
        compare(&trace.name, "fattree:6x8,4", false, &requests);
    }
}
