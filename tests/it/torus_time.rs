//! Direct tori in time: what is predicted, and routes for what jobs do.

use std::sync::Arc;

use proptest::prelude::*;
use sarouter::measure::Time;
use sarouter::measure::slowdown::of_routes;
use sarouter::model::rng::Rng;
use sarouter::model::*;
use sarouter::pass::torus::{Site, plan};
use sarouter::route::angara::{Limits, engine};
use sarouter::simulate::run::{Load, Windows};
use sarouter::simulate::traffic::jobs::Jobs;
use sarouter::simulate::traffic::open::Destinations;
use sarouter::simulate::traffic::ping::{Ping, Rounds};
use sarouter::simulate::traffic::script::Script;
use sarouter::simulate::{Net, Settings, TorusRouter, run};
use sarouter::verify::angara::judge;

use crate::often::often;
use crate::program::{self, sarouter};

fn torus(sizes: &[usize]) -> Torus {
    TorusBuilder::new(sizes).unwrap().build().unwrap()
}

fn job(id: usize, ranks: &[NodeId], mix: &str) -> TorusJob {
    let id = JobId::new(id.to_string()).unwrap();
    TorusJob::new(Some(id), ranks.to_vec()).exchanging(Some(mix.parse().unwrap()))
}

fn route(torus: &Torus, demand: &TorusDemand, name: &str) -> TorusTables {
    engine(name).unwrap().route(torus, demand, &Limits { rounds: 50, ..Limits::default() }).unwrap()
}

fn slowdowns(torus: &Torus, jobs: &[TorusJob], tables: &TorusTables) -> Vec<f64> {
    of_routes(torus, jobs.iter().zip(&tables.routes))
}

fn mean(torus: &Torus, tables: &TorusTables) -> f64 {
    Time::of(&slowdowns(torus, &tables.demand.jobs, tables)).slowdown_mean
}

/// As many jobs as there are mixes, on random nodes, of equal size.
fn scattered(torus: &Torus, mixes: &[&str], seed: u64) -> Vec<TorusJob> {
    let mut nodes: Vec<NodeId> = torus.nodes().collect();
    Rng::new(seed).shuffle(&mut nodes);
    let parts = nodes.chunks(nodes.len() / mixes.len()).zip(mixes).enumerate();
    parts.map(|(id, (ranks, mix))| job(id, ranks, mix)).collect()
}

/// Neighbours in a row meet nobody, and neither do every second one's: nothing sets their ranks apart. Two rings in one
/// another share each cable. A route that is not there takes forever.
#[test]
fn messages_that_meet_nobody_wait_for_nobody() {
    let torus = torus(&[8]);
    let at = |from: usize, step: usize| -> Vec<NodeId> { torus.nodes().skip(from).step_by(step).collect() };
    let of = |jobs: &[TorusJob]| {
        let demand = TorusDemand { jobs: jobs.to_vec(), transit: Transit::Any };
        slowdowns(&torus, jobs, &route(&torus, &demand, "angara-sssp"))
    };
    let (even, odd) = (job(1, &at(0, 2), "neighbor"), job(2, &at(1, 2), "neighbor"));
    for alone in [job(1, &at(0, 1), "neighbor"), even.clone()] {
        assert_eq!(of(&[alone]), [1.0]);
    }
    let both = of(&[even.clone(), odd]);
    assert!(both[0] > 1.2 && (both[0] - both[1]).abs() < 1e-6, "{both:?}");
    let mut none = Routes::new(even.nodes().to_vec());
    (0..16).for_each(|_| none.push([]));
    assert_eq!(of_routes(&torus, [(&even, &none)]), [f64::INFINITY]);
}

/// The order of ranks counts, not that of nodes: neighbours in rank order far apart in the torus.
#[test]
fn ranks_are_those_of_the_job() {
    let torus = torus(&[8, 8]);
    let row: Vec<NodeId> = torus.nodes().collect();
    let mut shuffled = row.clone();
    Rng::new(7).shuffle(&mut shuffled);
    let of = |ranks: &[NodeId]| {
        let demand = TorusDemand { jobs: vec![job(1, ranks, "ring")], transit: Transit::Any };
        mean(&torus, &route(&torus, &demand, "angara-sssp"))
    };
    assert!(of(&shuffled) > 1.3 * of(&row), "{} {}", of(&shuffled), of(&row));
}

/// Jobs on random nodes of three tori, over three draws: less in the mean than with either engine that counts routes, by
/// half a percent at least, and never more.
#[test]
fn routes_for_time_are_predicted_faster() {
    for sizes in [&[6, 6, 5][..], &[8, 8], &[4, 4, 4, 4]] {
        let torus = torus(sizes);
        let mut gain = [0.0; 2];
        for seed in 1..4 {
            let jobs = scattered(&torus, &["default"; 4], seed);
            let demand = TorusDemand { jobs, transit: Transit::Any };
            let ours = mean(&torus, &route(&torus, &demand, "angara-balanced"));
            for (sum, name) in gain.iter_mut().zip(["angara-sssp", "angara-sar"]) {
                let theirs = mean(&torus, &route(&torus, &demand, name));
                assert!(ours <= theirs, "{sizes:?}: {ours} {name} {theirs}");
                *sum += (theirs / ours).ln() / 3.0;
            }
        }
        println!("{sizes:?}: {gain:?} below angara-sssp and angara-sar");
        assert!(gain.iter().all(|gain| *gain > LEAST_GAIN), "{sizes:?}: {gain:?}");
    }
}

const LEAST_GAIN: f64 = 0.005;

/// A job that says what it does is served better than by routes for the default mix.
#[test]
fn a_hint_is_heeded() {
    let torus = torus(&[6, 6, 5]);
    for mix in ["ring", "halo3d"] {
        let (mut told, mut guessed) = (0.0, 0.0);
        for seed in 1..4 {
            let of =
                |mix: &str| TorusDemand { jobs: scattered(&torus, &[mix; 4], seed), transit: Transit::Any };
            let time =
                |tables: &TorusTables| Time::of(&slowdowns(&torus, &of(mix).jobs, tables)).slowdown_mean;
            told += time(&route(&torus, &of(mix), "angara-balanced")).ln();
            guessed += time(&route(&torus, &of("default"), "angara-balanced")).ln();
        }
        println!("{mix}: {told} told, {guessed} guessed");
        assert!(told < guessed, "{mix}: {told} {guessed}");
    }
}

/// Jobs that start one by one: who runs keeps its routes, and the tables of each pass are predicted no worse than
/// with angara-sssp for whoever starts.
#[test]
fn running_jobs_keep_their_routes_and_none_is_worse_off_than_by_sssp() {
    let torus = torus(&[6, 6, 5]);
    let site = Site { steady: torus.clone(), torus: torus.clone(), transit: Transit::Any };
    let limits = Limits { rounds: 20, ..Limits::default() };
    let mut running: Vec<TorusJob> = Vec::new();
    for starting in scattered(&torus, &["default", "ring", "halo3d", "linear"], 5).chunks(1) {
        let passed = |name: &str| {
            let plan = plan(&site, &running, starting, engine(name).unwrap().as_ref(), &limits).unwrap();
            plan.tables.get().clone()
        };
        let (ours, theirs) = (passed("angara-balanced"), passed("angara-sssp"));
        assert!(mean(&torus, &ours) <= mean(&torus, &theirs));
        assert!(judge(&torus, &ours, false).accepted);
        let kept = running.iter().map(|job| job.kept().unwrap());
        assert!(kept.zip(&ours.routes).all(|(kept, routes)| kept == routes));
        let jobs = ours.demand.jobs.iter().zip(&ours.routes);
        running = jobs.map(|(job, routes)| job.clone().keeping(Arc::new(routes.clone()))).collect();
    }
    assert_eq!(running.len(), 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Damaged tori, one to three jobs of any mix: legal, never predicted worse than by another quick engine,
    /// the same every time.
    #[test]
    fn never_predicted_worse_than_by_counts(
        sizes in prop::collection::vec(2usize..=5, 1..=4).prop_filter("small", |s| s.iter().product::<usize>() <= 60),
        mixes in prop::collection::vec(
            prop::sample::select(vec!["default", "ring", "halo2d", "random", "2*shift+doubling", "bruck"]), 1..=3),
        seed in any::<u64>(),
        failed in 0usize..3,
    ) {
        let mut builder = TorusBuilder::new(&sizes).unwrap();
        let mut cables = builder.links();
        Rng::new(seed).shuffle(&mut cables);
        cables.iter().take(failed).for_each(|(at, d)| builder.fail_link(*at, *d).unwrap());
        let torus = builder.build().unwrap();
        prop_assume!(torus.len() >= mixes.len());
        let demand = TorusDemand { jobs: scattered(&torus, &mixes, seed), transit: Transit::Any };
        let limits = Limits { rounds: 10, ..Limits::default() };
        let of = |name: &str| engine(name).unwrap().route(&torus, &demand, &limits);
        let Ok(ours) = of("angara-balanced") else { return Ok(()) };
        let verdict = judge(&torus, &ours, false);
        prop_assert!(verdict.accepted, "{:?}", verdict.findings);
        for name in ["angara-sssp", "angara-sar", "angara-bfs"] {
            prop_assert!(mean(&torus, &ours) <= mean(&torus, &of(name).unwrap()), "{}", name);
        }
        prop_assert_eq!(&ours, &of("angara-balanced").unwrap());
    }
}

/// Reports say the time of each job and what it was taken to exchange; the simulator runs the jobs.
#[test]
fn commands_tell_and_simulate_the_time_of_jobs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), "1 n[1-8] ring\n2 n[9-16]\n").unwrap();
    let site = ["--fabric", "angara:4x4", "--jobs", "jobs"];
    let report =
        program::report(dir.path(), [&["route", "--engine", "balanced", "--out", "o"], &site[..]].concat());
    let time = &report["time"];
    assert_eq!((&report["engine"], &time["jobs"][0]["pattern"]), (&"angara-balanced".into(), &"ring".into()));
    let of = |job: usize, key: &str| time["jobs"][job][key].as_f64().unwrap();
    assert!(of(0, "slowdown") >= of(0, "alone") && of(1, "slowdown") > 1.0, "{time}");
    assert!(time["slowdown_mean"].as_f64() <= time["slowdown_max"].as_f64(), "{time}");
    let words = ["simulate", "--engine", "angara-balanced", "--hardware", "angara", "--traffic", "ring"];
    let run = program::report(dir.path(), [&words[..], &site].concat());
    assert_eq!((run["jobs"][1]["id"].as_str(), run["jobs"].as_array().unwrap().len()), (Some("2"), 2));
    assert!(run["jobs"][0]["finished_ns"].as_f64().unwrap() > 0.0, "{run}");
}

/// Nodes of different jobs have no routes to each other: pairs are drawn inside jobs, and the simulator refuses others.
#[test]
fn pairs_of_a_torus_are_inside_jobs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), "1 n[1-8]\n2 n[9-16]\n").unwrap();
    for (active, pairs) in [("16", 8), ("6", 3)] {
        for traffic in ["pingpong", "bulk"] {
            let words = ["simulate", "--fabric", "angara:4x4", "--jobs", "jobs", "--hardware", "angara"];
            let run = program::report(
                dir.path(),
                [&words[..], &["--traffic", traffic, "--active", active]].concat(),
            );
            assert_eq!((&run["pairs"], &run["runs"][0]["ended"]), (&pairs.into(), &"finished".into()));
        }
    }
    let torus = torus(&[4, 4]);
    let nodes: Vec<NodeId> = torus.nodes().collect();
    let jobs = vec![job(1, &nodes[..8], "default"), job(2, &nodes[8..], "default")];
    let demand = TorusDemand { jobs, transit: Transit::Any };
    let net = Net::of_torus(&torus);
    let router = TorusRouter::new(&net, &route(&torus, &demand, "angara-sssp")).unwrap();
    let what = Rounds { rounds: 1, messages: 1, bytes: 64, answer: 64 };
    for (to, works) in [(7, true), (8, false)] {
        let ping = Ping::new(&[(0, to)], net.terminals(), what);
        assert_eq!(run::ping(&net, Settings::angara(), &router, ping, 1).is_ok(), works, "to {to}");
        let script = Script::once(&[0, to], net.terminals(), vec![to, 0], 64);
        assert_eq!(run::exchange(&net, Settings::angara(), &router, script, 1).is_ok(), works, "to {to}");
        let load = Load {
            members: vec![0, to],
            destinations: Destinations::Uniform,
            bytes: 64,
            offered: Some(0.1),
            windows: Windows::Given { warm_up_ns: 0.0, measure_ns: 1000.0 },
            drain: true,
        };
        assert_eq!(run::load(&net, Settings::angara(), &router, &load, 1).is_ok(), works, "to {to}");
    }
}

/// What enters a ring leaves room for a packet more: with less it would wait forever, and be called a deadlock.
#[test]
fn buffers_of_a_torus_have_room_for_two_packets() {
    let run = |settings: &[&str]| {
        let words = ["simulate", "--fabric", "angara:4x4", "--hardware", "angara", "--traffic", "ring"];
        let settings = settings.iter().flat_map(|setting| ["--set", *setting]);
        sarouter(".", words.into_iter().chain(settings))
    };
    for (few, enough) in [
        (&["output_flits=9"][..], &["output_flits=10"][..]),
        (&["output_flits=0", "input_flits=9"], &["output_flits=0", "input_flits=10"]),
    ] {
        let output = run(few);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains("at least 10: the bubble rule"),
            "{output:?}"
        );
        assert_eq!(run(enough).status.code(), Some(0), "{enough:?}");
    }
}

/// Simulated time of an exchange of all jobs at once, 2 KiB messages: geometric mean over jobs.
fn simulated(torus: &Torus, tables: &TorusTables, pattern: &str) -> f64 {
    let net = Net::of_torus(torus);
    let router = TorusRouter::new(&net, tables).unwrap();
    let script = |job: &TorusJob| {
        let members: Vec<u32> = job.ranks().iter().map(|node| node.index() as u32).collect();
        Script::exchange(&members, net.terminals(), pattern.parse().unwrap(), 2048, 1)
    };
    let jobs = Jobs::new(tables.demand.jobs.iter().map(script).collect(), net.terminals());
    let (_, finished) = run::jobs(&net, Settings::angara(), &router, jobs, 1).unwrap();
    let times: Vec<f64> = finished.into_iter().map(|time| time.unwrap()).collect();
    (times.iter().map(|time| time.ln()).sum::<f64>() / times.len() as f64).exp()
}

/// Jobs of a quarter of the nodes or less on random nodes, or in blocks from random places, or one on all nodes.
fn draw(torus: &Torus, kind: &str, seed: u64) -> Vec<TorusJob> {
    let mut rng = Rng::new(seed);
    let nodes: Vec<NodeId> = torus.nodes().collect();
    let longest = match kind {
        "all nodes" => return vec![job(1, &nodes, "default")],
        "blocks" => 18,
        _ => 1,
    };
    let (mut blocks, mut rest) = (Vec::new(), &nodes[..]);
    while !rest.is_empty() {
        let (block, others) = rest.split_at((1 + rng.below(longest)).min(rest.len()));
        blocks.push(block);
        rest = others;
    }
    rng.shuffle(&mut blocks);
    let mut order: Vec<NodeId> = blocks.concat();
    let mut jobs = Vec::new();
    while order.len() >= torus.len() / 20 {
        let size = (torus.len() / [4, 8, 16][rng.below(3)]).clamp(2, order.len().max(2));
        if order.len() < size {
            break;
        }
        let mut ranks: Vec<NodeId> = order.drain(..size).collect();
        // A batch system's list is in the order of nodes.
        ranks.sort_unstable();
        jobs.push(job(jobs.len() + 1, &ranks, "default"));
    }
    jobs
}

const BOARD: [&str; 6] = ["linear", "shift", "alltoall", "random", "ring", "halo3d"];

/// Simulated time over that of angara-sssp by engine and pattern, and how often the prediction puts two engines in
/// the right order.
#[test]
#[ignore = "the board of docs/results/angara.md: minutes"]
fn board() {
    let others = ["angara-balanced", "angara-sar", "angara-bfs"];
    let mut all = [[0.0f64; BOARD.len()]; 3];
    let (mut cases, mut right, mut pairs) = (0.0, 0, 0);
    let all_sizes = [&[4, 2, 2, 2][..], &[8, 8], &[6, 6, 5], &[4, 4, 4, 4]];
    for sizes in &all_sizes[..often(4, 2)] {
        let torus = torus(sizes);
        for (kind, seeds) in [("random", 2), ("blocks", 2), ("all nodes", 1)] {
            let mut rows = [[0.0f64; BOARD.len()]; 3];
            for seed in 1..=seeds {
                let demand = TorusDemand { jobs: draw(&torus, kind, seed), transit: Transit::Any };
                let tables: Vec<TorusTables> =
                    ["angara-sssp"].iter().chain(&others).map(|name| route(&torus, &demand, name)).collect();
                for (p, pattern) in BOARD.iter().enumerate() {
                    let times: Vec<f64> = tables.iter().map(|t| simulated(&torus, t, pattern)).collect();
                    rows.iter_mut()
                        .zip(&times[1..])
                        .for_each(|(row, time)| row[p] += (time / times[0]).ln() / seeds as f64);
                    let jobs: Vec<TorusJob> =
                        demand.jobs.iter().map(|job| job.clone().exchanging(pattern.parse().ok())).collect();
                    let predicted: Vec<f64> =
                        tables.iter().map(|t| Time::of(&slowdowns(&torus, &jobs, t)).slowdown_mean).collect();
                    for (a, b) in (0..4).flat_map(|a| (0..a).map(move |b| (a, b))) {
                        if (times[a] / times[b]).ln().abs() > 0.05f64.ln_1p() {
                            pairs += 1;
                            right += usize::from((times[a] > times[b]) == (predicted[a] > predicted[b]));
                        }
                    }
                }
            }
            cases += 1.0;
            for ((row, sum), name) in rows.iter().zip(&mut all).zip(others) {
                sum.iter_mut().zip(row).for_each(|(sum, cell)| *sum += cell);
                println!("{sizes:?} {kind:10} {name:16} {}", cells(row));
            }
        }
    }
    for (sum, name) in all.iter().zip(others) {
        let mean = sum.map(|cell| cell / cases);
        println!("all {name:16} {} mean {:.3}", cells(&mean), (mean.iter().sum::<f64>() / 6.0).exp());
    }
    println!("{right} of {pairs} pairs that differ by more than 5 % are predicted in the right order");
    assert!(all[0].iter().all(|cell| *cell < 0.0), "behind angara-sssp in a pattern");
}

fn cells(row: &[f64]) -> String {
    row.iter().map(|cell| format!("{:.2}", cell.exp())).collect::<Vec<_>>().join(" ")
}
