//! Slow-down: what tables without contention get, what contention costs, and the order of simulated times.

use sarouter::lab::board::{Board, mix, order};
use sarouter::lab::generate::generate;
use sarouter::measure::{slowdowns, slowdowns_of};
use sarouter::model::rng::Rng;
use sarouter::model::{Demand, Fabric, Group, LayerBudget, Mix, Pattern, Promise, Tables, TerminalId};
use sarouter::route::{EngineOptions, engine};
use sarouter::simulate::Net;
use sarouter::simulate::exchange::coarse_runs;

fn tables(fabric: &Fabric, name: &str) -> Tables {
    let engine = engine(name, &EngineOptions::default()).unwrap();
    engine.route(fabric, &Demand::oblivious(), LayerBudget::new(8).unwrap()).unwrap()
}

/// On one switch nobody meets anybody on a channel.
#[test]
fn one_switch_slows_nobody_down() {
    let fabric = generate("kary:12,1").unwrap();
    let tables = tables(&fabric, "minhop");
    let groups = [Group::new(fabric.host_ids().collect())];
    for pattern in
        [Pattern::Linear, Pattern::Ring, Pattern::Doubling, Pattern::Halo(sarouter::model::Grid::PLANE)]
    {
        assert_eq!(slowdowns_of(&fabric, &tables, &groups, pattern), [1.0], "{pattern}");
    }
}

/// A ring is fast if consecutive ranks share a leaf, and slower if each next one sits on another leaf.
#[test]
fn the_order_of_ranks_counts() {
    let fabric = generate("fattree:4x4,2").unwrap();
    let tables = tables(&fabric, "updown");
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let n = hosts.len();
    let apart: Vec<TerminalId> = (0..n).map(|i| hosts[i / 4 + i % 4 * 4]).collect();
    let ring = |ranks: Vec<TerminalId>| {
        let demand = Demand::new(vec![Group::new(ranks).exchanging(Mix::only(Pattern::Ring))], Vec::new());
        slowdowns(&fabric, &tables, &demand)[0]
    };
    let (near, far) = (ring(hosts), ring(apart));
    assert!(near < far, "{near} {far}");
}

/// A route that does not arrive never ends.
#[test]
fn a_lost_route_takes_for_ever() {
    let fabric = generate("fattree:2x4,2").unwrap();
    let whole = tables(&fabric, "updown");
    let groups = [Group::new(fabric.host_ids().collect())];
    assert!(slowdowns_of(&fabric, &whole, &groups, Pattern::Linear)[0].is_finite());
    let holes = whole.edited(|ports, _| ports[..fabric.switches().len()].fill(Tables::UNREACHABLE));
    assert_eq!(slowdowns_of(&fabric, &holes, &groups, Pattern::Linear), [f64::INFINITY]);
}

/// Jobs slow each other down: none is slower alone, and some is faster.
#[test]
fn jobs_are_faster_alone() {
    let fabric = generate("kary:4,3").unwrap();
    let tables = tables(&fabric, "dfsssp");
    let groups = mix(&fabric, 3, &[16, 24]);
    let together = slowdowns_of(&fabric, &tables, &groups, Pattern::Linear);
    let alone =
        groups.iter().map(|g| slowdowns_of(&fabric, &tables, std::slice::from_ref(g), Pattern::Linear)[0]);
    let gains: Vec<f64> = alone.zip(&together).map(|(alone, together)| together - alone).collect();
    assert!(gains.iter().all(|g| *g >= 0.0) && gains.iter().any(|g| *g > 0.05), "{gains:?}");
}

/// Slow-down puts tables in the order of their simulated times far better than EFI does.
#[test]
fn slow_down_orders_tables_as_the_simulator_does() {
    let board = Board {
        engines: vec!["balanced".to_string(), "sar".to_string()],
        patterns: vec![Pattern::Pairwise, Pattern::Neighbor],
        sizes: vec![16, 32],
        layers: LayerBudget::new(8).unwrap(),
        promise: Promise::TOLD,
        bytes: 8192,
        adaptive: false,
        orders: false,
    };
    let mut cells = Vec::new();
    for spec in ["kary:4,3", "fattree:8x8,8"] {
        let fabric = generate(spec).unwrap();
        cells.extend(board.fabric(spec, &fabric, &[board.drawn(&fabric, 11)], &[]).unwrap());
    }
    let (slowdown, efi) = (order(&cells, |c| c.slowdown), order(&cells, |c| c.efi_max as f64));
    assert!(slowdown.pairs > 20 && slowdown.right > 0.85, "{slowdown:?}");
    assert!(slowdown.right > efi.right && slowdown.regret <= efi.regret, "{slowdown:?} {efi:?}");
}

/// The ranks of a job that is alone stay in step where its messages meet nowhere: it is not slowed down. Where they
/// meet, the simulator's order is found too.
#[test]
fn a_job_alone_is_slowed_by_what_meets() {
    let board = Board {
        engines: vec!["balanced".to_string(), "sar".to_string()],
        patterns: vec![Pattern::Linear, Pattern::Shift, Pattern::Pairwise, Pattern::Doubling],
        sizes: vec![],
        layers: LayerBudget::new(8).unwrap(),
        promise: Promise::TOLD,
        bytes: 8192,
        adaptive: false,
        orders: false,
    };
    let (mut cells, mut reached) = (Vec::new(), 0);
    for (spec, nodes) in [
        ("fattree:4x4,4", vec![1, 6, 9, 11, 12, 13, 15, 16]),
        ("fattree:6x3,3", vec![2, 5, 6, 7, 10, 11, 12, 16, 18]),
        ("kary:4,3", vec![3, 9, 14, 22, 30, 41, 47, 60]),
    ] {
        let fabric = generate(spec).unwrap();
        let hosts: Vec<TerminalId> = fabric.host_ids().collect();
        let job = Group::new(nodes.iter().map(|node| hosts[node - 1]).collect());
        let alone = board.fabric(spec, &fabric, &[(spec.to_string(), vec![job])], &[]).unwrap();
        reached += alone.iter().filter(|c| c.pattern == Pattern::Linear && c.slowdown == 1.0).count();
        cells.extend(alone);
    }
    assert!(reached > 0, "tables whose shifts meet nowhere are as fast as the hosts' cables");
    let found = order(&cells, |c| c.slowdown);
    assert!(found.pairs > 100 && found.right > 0.9 && found.regret < 0.02, "{found:?}");
}

/// Jobs that exchange in other patterns are in the way, too, whether they say it or not.
#[test]
fn jobs_of_other_patterns_slow_each_other_down() {
    let fabric = generate("kary:3,3").unwrap();
    let tables = tables(&fabric, "dfsssp");
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let group = |first: usize, pattern| {
        let members = hosts.iter().skip(first).step_by(2).copied().collect();
        Group::new(members).exchanging(Mix::only(pattern))
    };
    for [one, other] in [[Pattern::Ring, Pattern::Pairwise], [Pattern::Doubling, Pattern::Linear]] {
        let groups = [group(0, one), group(1, other)];
        let of = |groups: &[Group]| {
            slowdowns(&fabric, &tables, &Demand { groups: groups.to_vec(), ..Demand::default() })
        };
        let together = of(&groups);
        for (time, group) in together.iter().zip(&groups) {
            let alone = of(std::slice::from_ref(group))[0];
            assert!(*time > 1.05 * alone, "{one}, {other}: {together:?}, {alone}");
        }
    }
}

/// Where messages of the jobs meet nowhere, nobody waits, be it one job or two.
#[test]
fn few_jobs_that_meet_nowhere_take_no_longer_than_their_cables_need() {
    let fabric = generate("fattree:8x8,8").unwrap();
    let tables = tables(&fabric, "fattree");
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let ring = |range: std::ops::Range<usize>| {
        Group::new(hosts[range].to_vec()).exchanging(Mix::only(Pattern::Ring))
    };
    for groups in [vec![ring(0..64)], vec![ring(0..16), ring(16..32)]] {
        let demand = Demand { groups, ..Demand::default() };
        let found = slowdowns(&fabric, &tables, &demand);
        assert!(found.iter().all(|time| *time == 1.0), "{found:?}");
    }
}

/// Jobs that say different things, on random nodes of a tree, finish sooner than with the best engine that knows no jobs:
/// a tenth at the least, in the simulator.
#[test]
fn jobs_that_exchange_in_different_patterns_finish_sooner_in_a_tree() {
    const PATTERNS: [&str; 6] = ["ring", "alltoall", "shift", "halo3d", "doubling", "bruck"];
    let others = ["dfsssp", "nue", "updown", "fattree"];
    for spec in ["fattree:6x8,5", "kary:4,3"] {
        let fabric = generate(spec).unwrap();
        let net = Net::of_fabric(&fabric);
        let gain = |seed: u64| {
            let mut rng = Rng::new(seed);
            let mut hosts: Vec<TerminalId> = fabric.host_ids().collect();
            rng.shuffle(&mut hosts);
            let group = |members: &[TerminalId]| {
                let pattern = PATTERNS[rng.below(PATTERNS.len())].parse().unwrap();
                Group::new(members.to_vec()).exchanging(Mix::only(pattern))
            };
            let demand = Demand::new(hosts.chunks_exact(8).map(group).collect(), Vec::new());
            let budget = LayerBudget::new(8).unwrap();
            let balanced = engine("balanced", &EngineOptions::default()).unwrap();
            let balanced = balanced.route(&fabric, &demand, budget).unwrap();
            let time = |tables: &Tables| coarse_runs((&fabric, &net), tables, &demand.groups)[0];
            let best = others.iter().map(|name| time(&tables(&fabric, name))).fold(f64::INFINITY, f64::min);
            time(&balanced) / best
        };
        let gains: Vec<f64> = (1..5).map(gain).collect();
        let mean = (gains.iter().map(|gain| gain.ln()).sum::<f64>() / gains.len() as f64).exp();
        println!("{spec}: {mean:.3}, {gains:?}");
        assert!(mean < 0.9, "{spec}: {gains:?}");
    }
}
