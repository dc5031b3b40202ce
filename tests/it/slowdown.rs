//! Slow-down: what tables without contention get, what contention costs, and the order of simulated times.

use sarouter::lab::board::{Board, mix, order};
use sarouter::lab::generate::generate;
use sarouter::measure::{slowdowns, slowdowns_of};
use sarouter::model::{Demand, Fabric, Group, LayerBudget, Mix, Pattern, Promise, Tables, TerminalId};
use sarouter::route::{EngineOptions, engine};

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
    let fabric = generate("kary:4,2").unwrap();
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
