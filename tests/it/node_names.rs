//! Which terminals are which Slurm node, and what Slurm's topology.conf says about them.

use std::path::Path;

use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, NodeMap, NodeName};
use sarouter::observe::fabric;
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::observe::topology_conf::{Disagreement, Topology};

use crate::fabric_files::data;

fn load(name: &str) -> Fabric {
    fabric::load(data(name).to_str().unwrap()).unwrap()
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// 582 adapters less 40 aggregation nodes, 69 with a product's name and 3 on `localhost`.
#[test]
fn the_dgx_fabric_has_121_nodes_of_up_to_four_adapters() {
    let f = load("topograph-dgx-gb200-582ca-40sw.ibnetdiscover");
    let map = name_hosts(&f, &NodeNames::default());
    assert_eq!(map.names().count(), 121);
    assert_eq!(map.unnamed().len(), 72);
    let adapters: usize = map.names().map(|n| map.terminals(n).len()).sum();
    assert_eq!(adapters, 582 - 40 - 72);
    let c01 = map.terminals(&node("a08-p1-dgx-04-c01"));
    assert_eq!(c01.len(), 4);
    assert!(c01.iter().all(|t| f.terminal(*t).description.starts_with("a08-p1-dgx-04-c01 mlx5_")));
    let leaves: std::collections::BTreeSet<_> = c01.iter().map(|t| f.terminal(*t).switch).collect();
    assert_eq!(leaves.len(), 4, "one leaf switch per rail");
    assert!(map.terminals(&node("localhost")).is_empty());
}

fn psmn() -> (Fabric, NodeMap) {
    let f = load("psmn-X5.topofile");
    let names = NodeNames::load(&data("psmn-X5.map")).unwrap();
    let map = name_hosts(&f, &names);
    (f, map)
}

#[test]
fn psmn_names_all_adapters_but_the_three_that_its_map_lacks() {
    let f = load("psmn-X5.topofile");
    let without = name_hosts(&f, &NodeNames::default());
    assert_eq!((without.names().count(), without.unnamed().len()), (0, 89));
    let (f, map) = psmn();
    assert_eq!(map.names().count(), 86);
    let unnamed: Vec<u64> = map.unnamed().iter().map(|t| f.terminal(*t).node_guid.get()).collect();
    assert_eq!(unnamed, [0x0030_48c7_4945_0000, 0x0030_48c7_4ae2_0000, 0x78e7_d103_0024_535c]);
}

#[test]
fn psmns_topology_conf_agrees_but_for_what_the_site_had_not_named() {
    let (f, map) = psmn();
    let topology = Topology::load(&data("psmn-X5.topology.conf")).unwrap();
    assert_eq!(topology.switches.len(), 11);
    let found: Vec<String> = topology.disagreements(&f, &map).iter().map(ToString::to_string).collect();
    // The file calls the three by GUID, as the map has no name for them.
    let unknown = |line: usize, node: &str| format!("line {line}: no adapter of the fabric is named {node}");
    assert_eq!(
        found,
        [
            unknown(2, "H-78e7d1030024535c"),
            unknown(8, "H-003048c749450000"),
            unknown(8, "H-003048c74ae20000")
        ]
    );
}

/// Two leaves with nodes n1 n2 and n3 n4.
fn disagreements(conf: &str) -> Vec<Disagreement> {
    let f = generate("fattree:2x2,1").unwrap();
    let map = name_hosts(&f, &NodeNames::default());
    Topology::parse(Path::new("t"), conf).unwrap().disagreements(&f, &map)
}

#[test]
fn disagreements_are_found() {
    let spine = "switchname=root Switches=a,b LinkSpeed=10\n";
    let good = "SwitchName=a Nodes=n[1-2] # left\nSwitchName=b \\\n  Nodes=n3,n4\n";
    assert_eq!(disagreements(&format!("{spine}{good}")), []);
    assert_eq!(
        disagreements("SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n4"),
        [Disagreement::Elsewhere {
            line: 1,
            entry: node("a"),
            node: node("n3"),
            on: vec!["S0001".to_string()],
            most: "S0000".to_string()
        }]
    );
    assert_eq!(
        disagreements("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Nodes=n[3-4]"),
        [Disagreement::SameSwitch { entries: [node("a"), node("b")], line: 2, switch: "S0000".to_string() }]
    );
    let ([n1, n3, n4, n9], on) = (["n1", "n3", "n4", "n9"].map(node), vec!["S0000".to_string()]);
    assert_eq!(
        disagreements("SwitchName=a Nodes=n[1-2],n9\nSwitchName=b Nodes=n3,n1,n3"),
        [
            Disagreement::UnknownNode { line: 1, node: n9 },
            Disagreement::Twice { node: n1.clone(), first: 1, line: 2 },
            Disagreement::Twice { node: n3, first: 2, line: 2 },
            Disagreement::Elsewhere { line: 2, entry: node("b"), node: n1, on, most: "S0001".to_string() },
            Disagreement::Missing { node: n4 },
        ]
    );
}

#[test]
fn a_bad_topology_conf_is_refused_with_its_line() {
    for bad in [
        "SwitchName=b",
        "Nodes=n1",
        "SwitchName=b Nodes=n1 Nodes=n2",
        "SwitchName=a Nodes=n3",
        "SwitchName=b Switches=zz",
        "SwitchName=b Nodes=n[1-",
        "SwitchName=b Nodes=",
        "SwitchName=b,c Nodes=n1",
        "SwitchName=b Node=n1",
        "SwitchName b",
    ] {
        let error =
            Topology::parse(Path::new("t"), &format!("SwitchName=a Nodes=n2\n\n{bad}\n")).unwrap_err();
        assert!(error.to_string().starts_with("t:3: "), "{bad}: {error}");
    }
}
