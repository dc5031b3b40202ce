//! `balanced` inside the lanes of a fabric: for time, epoch after epoch, and never outside the closure.

use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::measure::{Time, slowdowns};
use sarouter::model::rng::Rng;
use sarouter::model::{
    Demand, DestId, Fabric, FabricLanes, Group, LayerBudget, PortPeer, Promise, SwitchId, Tables, TerminalId,
};
use sarouter::route::lanes::{fabric_lanes, is_inside};
use sarouter::route::{EngineOptions, engine};
use sarouter::simulate::{Net, exchange};
use sarouter::verify::{Beside, Checks, judge_beside};

use crate::helpers::{budget, safe_tables};

const SPECS: [&str; 5] = [
    "torus:4x4,hosts=3",
    "dragonfly:4,2,2,9",
    "random:16,60,48,seed=3",
    "hyperx:4x4,hosts=3",
    "kautz:3,3,hosts=2",
];

fn lanes(fabric: &Fabric) -> Arc<FabricLanes> {
    Arc::new(fabric_lanes(fabric, budget(8)).lanes)
}

fn route(
    fabric: &Fabric,
    lanes: &Arc<FabricLanes>,
    demand: &Demand,
    before: Option<(&Tables, &Demand)>,
) -> Tables {
    let options = EngineOptions {
        lanes: Some(Arc::clone(lanes)),
        previous: before.map(|(tables, _)| Arc::new(tables.clone())),
        served: before.map(|(_, demand)| demand.clone()),
        ..EngineOptions::default()
    };
    engine("balanced", &options).unwrap().route(fabric, demand, budget(8)).unwrap()
}

/// Jobs on all hosts, of 5 to 14 each.
fn jobs(fabric: &Fabric, seed: u64) -> Vec<Group> {
    let mut rng = Rng::new(seed);
    let mut hosts: Vec<TerminalId> = fabric.host_ids().collect();
    rng.shuffle(&mut hosts);
    let mut groups = Vec::new();
    while hosts.len() > 1 {
        let mut own = hosts.split_off(hosts.len().saturating_sub(5 + rng.below(10)));
        own.sort_unstable();
        groups.extend((own.len() > 1).then(|| Group::new(own)));
    }
    groups
}

fn demand(groups: &[Group]) -> Demand {
    Demand::new(groups.to_vec(), Vec::new())
}

/// Read from the ports, apart from what the engine asks.
fn outside(fabric: &Fabric, lanes: &FabricLanes, tables: &Tables) -> Vec<(SwitchId, DestId)> {
    let mut found = Vec::new();
    for d in fabric.dest_ids() {
        for s in fabric.switch_ids().filter(|s| *s != fabric.home(d)) {
            let Some(PortPeer::Channel(c)) = fabric.peer(s, tables.port(s, d).unwrap()) else {
                panic!("{s:?} leads to no switch")
            };
            let slot = fabric.out(s).iter().position(|own| *own == c).unwrap();
            if !lanes.closure.allows(s, fabric.home(d), slot) {
                found.push((s, d));
            }
        }
    }
    found
}

fn is_safe(fabric: &Fabric, tables: &Tables, before: &[Tables]) -> bool {
    let checks = Checks { promise: Promise::EVERYTHING, hosts_only: false };
    let beside = Beside { since: before, mixed: before, ..Beside::default() };
    judge_beside(fabric, std::slice::from_ref(tables), budget(8), checks, beside).accepted
}

/// Jobs end and start: each epoch is inside the closure, and safe beside the one before.
#[test]
fn every_epoch_is_inside_the_closure() {
    for spec in SPECS {
        let fabric = generate(spec).unwrap();
        let lanes = lanes(&fabric);
        let mut running = jobs(&fabric, 1);
        let mut served = demand(&running);
        let mut tables = route(&fabric, &lanes, &served, None);
        assert_eq!(outside(&fabric, &lanes, &tables), []);
        let mut moved = 0;
        for epoch in 0..6 {
            // Two jobs give their nodes to two others, mixed.
            let mut nodes: Vec<TerminalId> = running.drain(..2).flat_map(|g| g.ranks).collect();
            Rng::new(epoch).shuffle(&mut nodes);
            let half = nodes.len() / 2;
            let new = [&nodes[..half], &nodes[half..]].map(|n| {
                let mut own = n.to_vec();
                own.sort_unstable();
                Group::new(own)
            });
            running.extend(new);
            let next = demand(&running);
            let now = route(&fabric, &lanes, &next, Some((&tables, &served)));
            assert_eq!(outside(&fabric, &lanes, &now), [], "{spec}, epoch {epoch}");
            assert!(is_safe(&fabric, &now, std::slice::from_ref(&tables)), "{spec}, epoch {epoch}");
            moved += usize::from(now != tables);
            (tables, served) = (now, next);
        }
        // A full dragonfly with one cable between any two groups has one way from each switch to each home.
        let switches = fabric.switches().len();
        let has_choice = lanes.closure.len() > switches * (switches - 1);
        assert_eq!(moved > 0, has_choice, "{spec}: new jobs get routes of their own");
    }
}

/// Jobs that go on keep their trees, the end of one moves nothing, and what is served stays as it is.
#[test]
fn running_jobs_keep_their_trees() {
    for spec in SPECS {
        let fabric = generate(spec).unwrap();
        let lanes = lanes(&fabric);
        let all = jobs(&fabric, 2);
        let before = demand(&all[1..]);
        let old = route(&fabric, &lanes, &before, None);
        assert_eq!(route(&fabric, &lanes, &before, Some((&old, &before))), old, "{spec}: nothing is due");
        for fewer in [demand(&all[2..]), Demand::oblivious()] {
            assert_eq!(route(&fabric, &lanes, &fewer, Some((&old, &before))), old, "{spec}: jobs ended");
        }
        let new = route(&fabric, &lanes, &demand(&all), Some((&old, &before)));
        for d in all[1..].iter().flat_map(|g| &g.terminals).map(|t| fabric.dest_of_terminal(*t)) {
            assert_eq!(old.ports_to(d), new.ports_to(d), "{spec}");
        }
    }
}

/// Fresh tables are no worse than those for no jobs, predicted or simulated, and mostly better.
#[test]
fn jobs_are_never_slower_than_without_being_known() {
    let mut gained = 0;
    for spec in SPECS {
        let fabric = generate(spec).unwrap();
        let lanes = lanes(&fabric);
        let wanted = demand(&jobs(&fabric, 3));
        let time = |tables: &Tables| Time::of(&slowdowns(&fabric, tables, &wanted)).slowdown_mean;
        let wires = Net::of_fabric(&fabric);
        let simulated = |tables: &Tables| {
            exchange::geometric(exchange::runs((&fabric, &wires), tables, &wanted.groups, 8192))
        };
        let known = route(&fabric, &lanes, &wanted, None);
        let none = route(&fabric, &lanes, &Demand::oblivious(), None);
        let (told, untold) = (time(&known), time(&none));
        let counts = time(&safe_tables(&fabric, &wanted, &lanes));
        println!("{spec}: {told} {untold} {counts}");
        assert!(told <= untold || simulated(&known) <= simulated(&none), "{spec}: {told}, {untold}");
        gained += usize::from(told < 0.97 * untold.min(counts));
    }
    assert!(gained >= 3, "{gained} of {} gained", SPECS.len());
}

/// Programs are told SLs by which packets to different hosts wait apart, also those that answer to tables in force; SL 0
/// is left to who does not ask.
#[test]
fn programs_are_told_service_levels_that_keep_packets_apart() {
    for spec in SPECS {
        let fabric = generate(spec).unwrap();
        let lanes = lanes(&fabric);
        let all = jobs(&fabric, 5);
        let wanted = demand(&all[1..]);
        let told = route(&fabric, &lanes, &wanted, None);
        let own = |s: SwitchId, d: DestId| fabric.home(d) != s && fabric.is_host_dest(d);
        let levels = |tables: &Tables| {
            let pairs = fabric.dest_ids().flat_map(|d| fabric.switch_ids().map(move |s| (s, d)));
            let mut levels: Vec<u8> =
                pairs.filter(|(s, d)| own(*s, *d)).map(|(s, d)| tables.layers_to(d)[s.index()]).collect();
            levels.sort_unstable();
            levels.dedup();
            levels
        };
        let levels = levels(&told);
        assert!(levels[0] > 0 && levels.len() >= 4, "{spec}: {levels:?}");
        let new = route(&fabric, &lanes, &demand(&all), Some((&told, &wanted)));
        for d in all[1..].iter().flat_map(|g| &g.terminals).map(|t| fabric.dest_of_terminal(*t)) {
            assert_eq!(told.layers_to(d), new.layers_to(d), "{spec}: connections keep their SLs");
        }
        assert!(is_safe(&fabric, &new, std::slice::from_ref(&told)), "{spec}");
    }
}

/// Epochs one after the other with two, four and eight VLs, on fabrics of other kinds and damaged ones: any SL, SLs of
/// both epochs before, and any mixture with the one before.
#[test]
fn epochs_are_safe_with_few_vls_on_damaged_fabrics() {
    let specs = [
        "torus:7x3x2,hosts=2,faults=5%,seed=3",
        "torus:9,hosts=2",
        "mesh:3x3x4,hosts=2,faults=5%,seed=2",
        "dragonfly:4,2,2,7,faults=6%,seed=5",
        "kautz:2,4,hosts=2",
        "regular:24,5,hosts=2",
        "hyperx:7x2,hosts=3,faults=5%,seed=4",
    ];
    for (spec, vls) in specs.iter().flat_map(|spec| [2, 4, 8].map(|vls| (spec, vls))) {
        let fabric = generate(spec).unwrap();
        let budget = LayerBudget::new(vls).unwrap();
        let lanes = Arc::new(fabric_lanes(&fabric, budget).lanes);
        let mut before: Vec<(Tables, Demand)> = Vec::new();
        for epoch in 0..3 {
            let next = demand(&jobs(&fabric, epoch));
            let in_force = before.last();
            let options = EngineOptions {
                lanes: Some(Arc::clone(&lanes)),
                previous: in_force.map(|(tables, _)| Arc::new(tables.clone())),
                served: in_force.map(|(_, demand)| demand.clone()),
                ..EngineOptions::default()
            };
            let tables = engine("balanced", &options).unwrap().route(&fabric, &next, budget).unwrap();
            let since: Vec<Tables> = before.iter().map(|(tables, _)| tables.clone()).collect();
            let mixed = &since[since.len().saturating_sub(1)..];
            let checks = Checks { promise: Promise::EVERYTHING, hosts_only: false };
            let beside = Beside { since: &since, mixed, ..Beside::default() };
            let verdict = judge_beside(&fabric, std::slice::from_ref(&tables), budget, checks, beside);
            assert!(verdict.accepted, "{spec}, {vls} VLs, epoch {epoch}: {:?}", verdict.findings);
            before.push((tables, next));
        }
    }
}

/// A next hop outside the closure in the tables in force: the tree is not kept, though its job goes on.
#[test]
fn a_tree_outside_the_closure_does_not_stay() {
    let fabric = generate("torus:4x4,hosts=3").unwrap();
    let lanes = lanes(&fabric);
    let wanted = demand(&jobs(&fabric, 4));
    let good = route(&fabric, &lanes, &wanted, None);
    let d = fabric.dest_of_terminal(wanted.groups[0].ranks[0]);
    let home = fabric.home(d);
    let (s, port) = fabric
        .switch_ids()
        .filter(|s| *s != home)
        .find_map(|s| {
            let banned = (0..fabric.out(s).len()).find(|slot| !lanes.closure.allows(s, home, *slot))?;
            Some((s, fabric.channel(fabric.out(s)[banned]).from_port))
        })
        .unwrap();
    let at = d.index() * fabric.switches().len() + s.index();
    let bad = good.clone().edited(|ports, _| ports[at] = port.get());
    assert!(is_inside(&fabric, &lanes.closure, &good, d) && !is_inside(&fabric, &lanes.closure, &bad, d));
    assert_eq!(outside(&fabric, &lanes, &bad), [(s, d)]);
    let mended = route(&fabric, &lanes, &wanted, Some((&bad, &wanted)));
    assert_eq!(outside(&fabric, &lanes, &mended), []);
}
