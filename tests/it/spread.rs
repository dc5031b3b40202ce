//! Routes are spread over all layers of the budget, and what that is worth.

use std::collections::BTreeSet;
use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::{Demand, Fabric, Group, LayerBudget, Pattern, Tables, TerminalId};
use sarouter::route::{EngineOptions, engine};
use sarouter::simulate::traffic::script::Script;
use sarouter::simulate::{Ended, Net, Settings, Simulator, TableRouter};
use sarouter::verify::judge;

fn route(name: &str, fabric: &Fabric, demand: &Demand, layers: u64, options: &EngineOptions) -> Tables {
    let budget = LayerBudget::new(layers).unwrap();
    let tables = engine(name, options).unwrap().route(fabric, demand, budget).unwrap();
    let verdict = judge(fabric, &tables, budget);
    assert!(verdict.accepted, "{name}: {:?}", verdict.findings);
    tables
}

/// Routes between different switches on each layer.
fn on_layers(fabric: &Fabric, tables: &Tables, layers: usize) -> Vec<usize> {
    let mut count = vec![0; layers];
    for d in fabric.terminal_ids().map(|t| fabric.dest_of_terminal(t)) {
        for s in fabric.switch_ids().filter(|s| *s != fabric.home(d)) {
            tables.layer(s, d).iter().for_each(|l| count[usize::from(l.get())] += 1);
        }
    }
    count
}

/// No layer has twice its share; `dfsssp` only where one layer is enough, as it splits layers but
/// moves no route to where others are.
#[test]
fn no_layer_has_twice_its_share() {
    let cases = [
        ("balanced", "kary:4,3"),
        ("balanced", "dragonfly:4,2,2,9"),
        ("balanced", "random:20,60,60,seed=2"),
        ("balanced", "torus:6x5,hosts=2"),
        ("dfsssp", "kary:4,3"),
        ("sar", "fattree:10x18,5"),
    ];
    for (name, spec) in cases {
        let fabric = generate(spec).unwrap();
        let tables = route(name, &fabric, &Demand::oblivious(), 8, &EngineOptions::default());
        let count = on_layers(&fabric, &tables, 8);
        let share = count.iter().sum::<usize>() / 8;
        assert!(count.iter().all(|n| (1..2 * share).contains(n)), "{name} on {spec}: {count:?}");
    }
}

/// In a tree any layer takes any route: all have as many, and a switch's routes to terminals of another
/// are on several.
#[test]
fn in_trees_layers_are_level() {
    let fabric = generate("kary:6,3,hosts=8").unwrap();
    for name in ["balanced", "dfsssp", "sar"] {
        let tables = route(name, &fabric, &Demand::oblivious(), 8, &EngineOptions::default());
        let count = on_layers(&fabric, &tables, 8);
        let share = count.iter().sum::<usize>() / 8;
        assert!(count.iter().all(|n| n.abs_diff(share) * 10 < share), "{name}: {count:?}");
        let (from, to) = (fabric.terminals()[0].switch, fabric.terminals()[8].switch);
        let layer = |t: &TerminalId| tables.layer(from, fabric.dest_of_terminal(*t));
        let several: BTreeSet<_> = fabric.attached(to).iter().map(layer).collect();
        assert!(from != to && several.len() > 1, "{name}: {several:?}");
    }
}

/// With one layer for each job, jobs are told one service level: nothing is spread.
#[test]
fn layers_of_jobs_are_not_spread() {
    let fabric = generate("fattree:10x18,5").unwrap();
    let job = Group::new(fabric.terminal_ids().step_by(5).collect());
    let demand = Demand::new(vec![job], Vec::new());
    let options = EngineOptions { layer_per_job: true, ..EngineOptions::default() };
    for name in ["balanced", "sar"] {
        let tables = route(name, &fabric, &demand, 8, &options);
        let count = on_layers(&fabric, &tables, 8);
        assert!(count[0] * 10 >= count.iter().sum::<usize>() * 9, "{name}: {count:?}");
    }
}

/// Routes that stay as they are keep their layers.
#[test]
fn unchanged_routes_keep_their_layers() {
    let fabric = generate("dragonfly:4,2,2,9").unwrap();
    let half = |from: usize| Group::new(fabric.terminal_ids().skip(from).step_by(2).collect());
    let before = Demand::new(vec![half(0)], Vec::new());
    let old = route("balanced", &fabric, &before, 8, &EngineOptions::default());
    let options = EngineOptions {
        previous: Some(Arc::new(old.clone())),
        served: Some(before),
        ..EngineOptions::default()
    };
    let after = Demand::new(vec![half(0), half(1)], Vec::new());
    let new = route("balanced", &fabric, &after, 8, &options);
    let mut same = 0;
    for d in fabric.dest_ids().filter(|d| new.ports_to(*d) == old.ports_to(*d)) {
        assert_eq!(new.layers_to(d), old.layers_to(d));
        same += 1;
    }
    assert!(same * 3 >= fabric.dest_count() && old.layers_used() == 8, "{same} trees are the same");
}

/// Ticks of a full exchange.
fn exchange(fabric: &Fabric, tables: &Tables, pattern: Pattern) -> u64 {
    let net = Net::of_fabric(fabric);
    let router = TableRouter::new(fabric, &net, tables).unwrap();
    let script = Script::exchange(net.hosts(), net.terminals(), pattern, 2048, 1);
    let mut simulator = Simulator::new(&net, Settings::qdr(), &router, script, 1).unwrap();
    assert_eq!(simulator.run(u64::MAX), Ended::Finished);
    simulator.traffic.finished().unwrap()
}

/// The same ways take less time on eight layers than on one, on which a tree needs no other.
#[test]
fn a_full_exchange_gains_by_layers() {
    let fabric = generate("kary:6,3").unwrap();
    for name in ["dfsssp", "balanced"] {
        let tables = route(name, &fabric, &Demand::oblivious(), 8, &EngineOptions::default());
        let (ports, mut layers) = tables.clone().into_raw();
        layers.iter_mut().filter(|l| **l != Tables::NO_LAYER).for_each(|l| *l = 0);
        let one = Tables::new(&fabric, name, ports, layers).unwrap();
        for pattern in [Pattern::Shift, Pattern::Random] {
            let (many, few) = (exchange(&fabric, &tables, pattern), exchange(&fabric, &one, pattern));
            assert!(many * 10 < few * 9, "{name}, {pattern}: {many} and {few}");
        }
    }
}

/// Over the pairs of switches with hosts, how often two routes of a pair share a channel.
fn meetings(fabric: &Fabric, tables: &Tables) -> usize {
    let (mut meetings, mut routes) = (0, vec![0; fabric.channels().len()]);
    let ends = || fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty());
    for (source, home) in ends().flat_map(|s| ends().map(move |h| (s, h))) {
        routes.fill(0);
        for d in fabric.attached(home).iter().map(|t| fabric.dest_of_terminal(*t)) {
            let mut at = source;
            while at != home {
                let port = tables.port(at, d).unwrap();
                let out = fabric.out(at).iter().copied();
                let c = out.into_iter().find(|c| fabric.channel(*c).from_port == port).unwrap();
                meetings += routes[c.index()];
                routes[c.index()] += 1;
                at = fabric.channel(c).to;
            }
        }
    }
    meetings
}

/// On a tree with several cables side by side, hosts of one switch have more ways to those of another than
/// with an engine that takes terminals in turn.
#[test]
fn routes_between_two_switches_of_a_tree_are_kept_apart() {
    let fabric = generate("tsubame2:rail=1").unwrap();
    let demand = Demand::oblivious();
    let [balanced, dfsssp] = ["balanced", "dfsssp"]
        .map(|name| meetings(&fabric, &route(name, &fabric, &demand, 8, &EngineOptions::default())));
    assert!(balanced < dfsssp, "{balanced}, {dfsssp}");
}
