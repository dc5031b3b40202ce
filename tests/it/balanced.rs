//! The laws of `balanced`: every pair reached, in-trees, no cycle in any layer, the budget kept,
//! the same bytes whatever the thread count.

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use proptest::prelude::*;
use sarouter::generate::generate;
use sarouter::generate::rng::Rng;
use sarouter::model::{Demand, Fabric, Group, LayerBudget, PortPeer, Tables, TerminalId};
use sarouter::route::{EngineOptions, engine};

fn route(fabric: &Fabric, demand: &Demand, layers: u64, options: &EngineOptions) -> Tables {
    let budget = LayerBudget::new(layers).unwrap();
    engine("balanced", options).unwrap().route(fabric, demand, budget).unwrap()
}

/// A share of all cables cut, whether that disconnects the fabric or not.
fn damaged(fabric: &Fabric, share: f64, seed: u64) -> Fabric {
    let mut rng = Rng::new(seed);
    let cut: Vec<bool> = (0..fabric.channels().len() / 2).map(|_| rng.unit() < share).collect();
    fabric.without(|c| cut[c.index() / 2], |_| false).unwrap()
}

/// Panics unless every connected pair has a route in a layer of the budget, and no layer's channel
/// dependency graph has a cycle.
fn check(fabric: &Fabric, tables: &Tables, layers: u8) {
    let mut links = petgraph::unionfind::UnionFind::<usize>::new(fabric.switches().len());
    for c in fabric.channels() {
        links.union(c.from.index(), c.to.index());
    }
    let mut turns: Vec<DiGraphMap<u32, ()>> = vec![DiGraphMap::new(); usize::from(layers)];
    for d in fabric.dest_ids() {
        let home = fabric.home(d);
        assert_eq!(tables.port(home, d), Some(fabric.last_port(d)));
        for s in fabric.switch_ids().filter(|s| *s != home) {
            if !links.equiv(s.index(), home.index()) {
                assert_eq!((tables.port(s, d), tables.layer(s, d)), (None, None));
                continue;
            }
            let mut route = Vec::new();
            let mut at = s;
            while at != home {
                let peer = fabric.peer(at, tables.port(at, d).unwrap());
                let Some(PortPeer::Channel(c)) = peer else { panic!("{at:?} sends to {peer:?}") };
                assert!(route.len() < fabric.switches().len(), "a loop towards {d:?}");
                route.push(c.index() as u32);
                at = fabric.channel(c).to;
            }
            match tables.layer(s, d) {
                Some(layer) => {
                    let graph = &mut turns[usize::from(layer.get())];
                    route.windows(2).for_each(|w| {
                        graph.add_edge(w[0], w[1], ());
                    });
                }
                // Only management ports of switches without terminals may lack a layer.
                None => assert!(
                    fabric.attached(s).is_empty()
                        || (fabric.dest_terminal(d).is_none() && fabric.attached(home).is_empty()),
                    "no layer from {s:?} to {d:?}"
                ),
            }
        }
    }
    for (layer, graph) in turns.iter().enumerate() {
        assert!(tarjan_scc(graph).iter().all(|part| part.len() == 1), "a cycle in layer {layer}");
    }
}

/// Random jobs over a share of the terminals.
fn jobs(fabric: &Fabric, sizes: &[usize], seed: u64) -> Demand {
    let mut free: Vec<TerminalId> = fabric.terminal_ids().collect();
    Rng::new(seed).shuffle(&mut free);
    let groups = sizes.iter().map(|n| Group::new(free.split_off(free.len() - (*n).min(free.len()))));
    Demand::new(groups.collect(), Vec::new())
}

fn spec() -> impl Strategy<Value = String> {
    prop_oneof![
        (2usize..14, 0usize..24, any::<u64>()).prop_map(|(s, more, seed)| format!(
            "random:{s},{},{},seed={seed}",
            2 * s,
            s - 1 + more
        )),
        (3usize..9).prop_map(|n| format!("torus:{n}")),
        (2usize..5, 2usize..6).prop_map(|(x, y)| format!("torus:{x}x{y},hosts=2")),
        (2usize..4, 2usize..4, 2usize..5).prop_map(|(x, y, z)| format!("torus:{x}x{y}x{z}")),
        (2usize..5, 2usize..5).prop_map(|(x, y)| format!("mesh:{x}x{y}")),
        (2usize..4, 2usize..4).prop_map(|(k, n)| format!("kary:{k},{n}")),
        (2usize..6, 1usize..5, 1usize..4).prop_map(|(l, h, s)| format!("fattree:{l}x{h},{s}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_fabric_is_routed_without_deadlock_in_any_number_of_layers(
        spec in spec(),
        layers in 1u8..=8,
        share in prop_oneof![Just(0.0), 0.0..0.3f64],
        seed in any::<u64>(),
        sizes in prop::collection::vec(2usize..8, 0..3),
        layer_per_job in any::<bool>(),
    ) {
        let fabric = damaged(&generate(&spec).unwrap(), share, seed);
        let options = EngineOptions { layer_per_job, ..EngineOptions::default() };
        let tables = route(&fabric, &jobs(&fabric, &sizes, seed), layers.into(), &options);
        check(&fabric, &tables, layers);
    }
}

#[test]
fn two_threads_make_the_same_bytes_as_one() {
    let fabric = damaged(&generate("torus:4x4x3,hosts=2").unwrap(), 0.05, 3);
    let demand = jobs(&fabric, &[20, 12, 9], 1);
    let made = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| route(&fabric, &demand, 4, &EngineOptions::default()))
    };
    let one = made(1);
    assert_eq!(one, made(2));
    assert_eq!(one, made(1));
}
