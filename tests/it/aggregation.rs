//! Aggregation nodes and routers are reached, and are hosts nowhere.

use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::measure::measure;
use sarouter::model::{
    Demand, DestId, Fabric, FabricBuilder, Group, Guid, LayerBudget, NewTerminal, PortNum, Promise, Role,
    Shape, Tables,
};
use sarouter::report::FabricSummary;
use sarouter::route::{EngineOptions, engine, fattree, names};
use sarouter::verify::{Checks, judge, judge_with};

/// The same with an aggregation node at every switch, their GUIDs below or above all others.
pub fn with_aggregation(fabric: &Fabric, guid: u64) -> Fabric {
    let mut builder = FabricBuilder::default();
    for s in fabric.switches() {
        builder.switch(s.guid, s.ports + 1, Some(s.lid), &s.description).unwrap();
    }
    for t in fabric.terminals() {
        builder.terminal(NewTerminal::like(t, t.switch)).unwrap();
    }
    for (i, s) in fabric.switch_ids().enumerate() {
        let guid = Guid::new(guid + i as u64).unwrap();
        let port = PortNum::new(u64::from(fabric.switch(s).ports) + 1).unwrap();
        let description = "Mellanox Technologies Aggregation Node".to_string();
        let (lid, role, adapter_port) = (None, Role::Aggregation, PortNum::new(1).unwrap());
        let new = NewTerminal {
            node_guid: guid,
            port_guid: guid,
            adapter_port,
            lid,
            description,
            role,
            switch: s,
            port,
        };
        builder.terminal(new).unwrap();
    }
    for c in fabric.channels().iter().step_by(2) {
        builder.cable(c.from, c.from_port, c.to, c.to_port).unwrap();
    }
    if let Shape::Grid { .. } = fabric.shape() {
        builder.shape(fabric.shape().clone());
    }
    builder.build().unwrap()
}

/// Ports and layers of all hosts and switches.
fn routes(fabric: &Fabric, tables: &Tables) -> Vec<(Vec<u8>, Vec<u8>)> {
    let hosts = fabric.host_ids().map(|t| fabric.dest_of_terminal(t));
    let switches = fabric.switch_ids().map(|s| fabric.dest_of_switch(s));
    let row = |d: DestId| (tables.ports_to(d).to_vec(), tables.layers_to(d).to_vec());
    hosts.chain(switches).map(row).collect()
}

#[test]
fn aggregation_nodes_change_no_route_of_any_engine() {
    let budget = LayerBudget::new(4).unwrap();
    for spec in ["kary:3,3", "fattree:6x4,4,faults=2,seed=3", "torus:4x3,hosts=2", "random:10,24,25,seed=2"] {
        let plain = generate(spec).unwrap();
        for guid in [1, 0x7000_0000] {
            let whole = with_aggregation(&plain, guid);
            assert_eq!(FabricSummary::of(&whole).terminals, plain.terminals().len());
            let group = |f: &Fabric| Group::new(f.host_ids().take(7).collect());
            let demands = [
                (Demand::oblivious(), Demand::oblivious()),
                (Demand::new(vec![group(&plain)], Vec::new()), Demand::new(vec![group(&whole)], Vec::new())),
            ];
            for (name, (few, all)) in names().into_iter().flat_map(|e| demands.iter().map(move |d| (e, d))) {
                let engine = engine(name, &EngineOptions::default()).unwrap();
                let without = engine.route(&plain, few, budget);
                let with = engine.route(&whole, all, budget);
                let rows = without.as_ref().ok().map(|t| routes(&plain, t));
                let mut rows_with = with.as_ref().ok().map(|t| routes(&whole, t));
                // To a switch that has such a node and no host all routes have a layer.
                for (of, with) in rows.iter().flatten().zip(rows_with.iter_mut().flatten()) {
                    let pairs = with.1.iter_mut().zip(&of.1);
                    pairs.filter(|(_, l)| **l == Tables::NO_LAYER).for_each(|(w, l)| *w = *l);
                }
                assert_eq!(rows, rows_with, "{name} {spec}");
                let Ok(with) = with else { continue };
                for t in whole.terminal_ids().filter(|t| whole.terminal(*t).role != Role::Host) {
                    let ports = with.ports_to(whole.dest_of_terminal(t));
                    assert_eq!(ports[whole.terminal(t).switch.index()], whole.terminal(t).port.get());
                    assert!(!ports.contains(&Tables::UNREACHABLE), "{name} {spec}");
                }
            }
        }
    }
}

/// Programs send to aggregation nodes and routers, too: at a switch without hosts as at others.
#[test]
fn every_route_from_a_host_to_an_aggregation_node_has_a_layer() {
    let specs = (1..=4)
        .flat_map(|seed| [format!("random:10,8,14,seed={seed}"), format!("random:16,8,28,seed={seed}")]);
    for (spec, layers) in specs.flat_map(|spec| [(spec.clone(), 1), (spec.clone(), 2), (spec, 8)]) {
        let fabric = with_aggregation(&generate(&spec).unwrap(), 1);
        let budget = LayerBudget::new(layers).unwrap();
        for name in ["balanced", "updown", "nue", "dfsssp", "lash", "sar"] {
            let engine = engine(name, &EngineOptions::default()).unwrap();
            let Ok(tables) = engine.route(&fabric, &Demand::oblivious(), budget) else { continue };
            let verdict = judge(&fabric, &tables, budget);
            assert!(verdict.accepted, "{name}, {spec}, {layers} layers: {verdict:?}");
            for t in fabric.terminal_ids().filter(|t| !fabric.is_host(*t)) {
                let d = fabric.dest_of_terminal(t);
                let sources = fabric.switch_ids().filter(|s| fabric.has_hosts(*s) && *s != fabric.home(d));
                sources.for_each(|s| assert!(tables.layer(s, d).is_some(), "{name}, {spec}"));
            }
            // One that is missing is found.
            let d = fabric
                .terminal_ids()
                .find(|t| !fabric.is_host(*t))
                .map(|t| fabric.dest_of_terminal(t))
                .unwrap();
            let n = fabric.switches().len();
            let from = fabric.switch_ids().find(|s| fabric.has_hosts(*s) && *s != fabric.home(d)).unwrap();
            let damaged = tables.edited(|_, layers| layers[d.index() * n + from.index()] = Tables::NO_LAYER);
            assert!(!judge(&fabric, &damaged, budget).accepted, "{name}, {spec}");
        }
    }
}

#[test]
fn tables_in_force_are_kept_beside_aggregation_nodes() {
    let whole = with_aggregation(&generate("fattree:6x4,4").unwrap(), 1);
    let budget = LayerBudget::new(4).unwrap();
    let group = |from: usize| Group::new(whole.host_ids().skip(from).step_by(3).take(6).collect());
    let one = Demand::new(vec![group(0)], Vec::new());
    let two = Demand::new(vec![group(0), group(1)], Vec::new());
    let first = engine("balanced", &EngineOptions::default()).unwrap().route(&whole, &one, budget).unwrap();
    let options = EngineOptions {
        previous: Some(Arc::new(first.clone())),
        served: Some(one.clone()),
        ..EngineOptions::default()
    };
    let again = engine("balanced", &options).unwrap().route(&whole, &one, budget).unwrap();
    assert_eq!(first.changed_blocks(&whole, &again), Some(0), "nothing to do");
    let more = engine("balanced", &options).unwrap().route(&whole, &two, budget).unwrap();
    assert_eq!(more.fabric(), whole.fingerprint());
}

/// On a fat tree every engine has the loads that it has without aggregation nodes, and its tables are
/// accepted: also after a cut, where there is no way up and then down to the node of a spine.
#[test]
fn loads_bounds_and_verdicts_are_those_without_aggregation_nodes() {
    let budget = LayerBudget::new(8).unwrap();
    for spec in ["fattree:12x6,6", "fattree:12x6,6,faults=3,seed=5"] {
        let plain = generate(spec).unwrap();
        let whole = with_aggregation(&plain, 1);
        assert_eq!(fattree::roots(&plain), fattree::roots(&whole), "{spec}");
        for name in ["updown", "minhop", "sssp", "dfsssp", "fattree", "balanced", "nue"] {
            let of = |fabric: &Fabric| {
                let engine = engine(name, &EngineOptions::default()).unwrap();
                let tables = engine.route(fabric, &Demand::oblivious(), budget).unwrap();
                let verdict = judge(fabric, &tables, budget);
                // OpenSM's minhop, and ours, may deadlock where a cable is cut.
                assert!(
                    verdict.accepted || name == "minhop" || name == "sssp",
                    "{name} {spec}: {:?}",
                    verdict.findings
                );
                let figures = measure(fabric, &tables, &Demand::oblivious());
                (figures.load, figures.paths, figures.layers_used)
            };
            assert_eq!(of(&plain), of(&whole), "{name} {spec}");
        }
    }
}

#[test]
fn safe_tables_for_everything_stay_safe_beside_aggregation_nodes() {
    let whole = with_aggregation(&generate("torus:4x3,hosts=2").unwrap(), 1);
    let budget = LayerBudget::new(8).unwrap();
    let promise = Promise::EVERYTHING;
    let options = EngineOptions {
        lanes: Some(Arc::new(sarouter::route::lanes::fabric_lanes(&whole, budget).lanes)),
        promise,
        ..EngineOptions::default()
    };
    let tables = engine("balanced", &options).unwrap().route(&whole, &Demand::oblivious(), budget).unwrap();
    assert!(tables.lanes().is_some_and(|map| map.fabric() == whole.fingerprint()));
    let verdict = judge_with(&whole, &tables, budget, Checks { promise, hosts_only: false });
    assert!(verdict.accepted, "{:?}", verdict.findings);
}

#[test]
fn hosts_only_leaves_aggregation_nodes_out() {
    let whole = with_aggregation(&generate("fattree:4x3,3").unwrap(), 1);
    let budget = LayerBudget::new(2).unwrap();
    let made = engine("updown", &EngineOptions::default())
        .unwrap()
        .route(&whole, &Demand::oblivious(), budget)
        .unwrap();
    let node = whole.terminal_ids().find(|t| !whole.is_host(*t)).unwrap();
    let n = whole.switches().len();
    let broken = made
        .edited(|ports, _| ports[whole.dest_of_terminal(node).index() * n..][..n].fill(Tables::UNREACHABLE));
    let accepted =
        |hosts_only| judge_with(&whole, &broken, budget, Checks { hosts_only, ..Checks::default() }).accepted;
    assert_eq!((accepted(false), accepted(true)), (false, true));
}
