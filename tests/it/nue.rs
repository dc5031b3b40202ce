//! Nue: any connected fabric, any number of layers.

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::measure::measure;
use sarouter::model::rng::Rng;
use sarouter::model::{Demand, Fabric, Group, Tables};
use sarouter::route::{EngineOptions, engine};
use sarouter::verify::judge;

use crate::helpers::budget;

fn route(fabric: &Fabric, name: &str, demand: &Demand, layers: u64) -> Tables {
    engine(name, &EngineOptions::default()).unwrap().route(fabric, demand, budget(layers)).unwrap()
}

fn assert_accepted(spec: &str, fabric: &Fabric, tables: &Tables, layers: u64) {
    let verdict = judge(fabric, tables, budget(layers));
    assert!(verdict.accepted, "{spec} with {layers} layers: {:?}", verdict.findings);
    assert_eq!(verdict.unreachable_pairs, 0, "{spec}");
}

/// Two groups of random hosts, so that `sar-nue` has something to balance.
fn some_jobs(fabric: &Fabric, seed: u64) -> Demand {
    let mut hosts: Vec<_> = fabric.host_ids().collect();
    Rng::new(seed).shuffle(&mut hosts);
    let third = hosts.len() / 3;
    Demand::new(
        vec![Group::new(hosts[..third].to_vec()), Group::new(hosts[third..2 * third].to_vec())],
        vec![],
    )
}

/// Lemma 6.4: one layer is enough for any connected fabric.
#[test]
fn one_layer_routes_a_thousand_random_multigraphs() {
    for seed in 0..1000u64 {
        let mut rng = Rng::new(seed);
        let switches = 2 + rng.below(24);
        let cables = switches - 1 + rng.below(2 * switches);
        let spec = format!("random:{switches},{},{cables},seed={seed}", 1 + rng.below(2 * switches));
        let fabric = generate(&spec).unwrap();
        let name = if seed % 2 == 0 { "nue" } else { "sar-nue" };
        let tables = route(&fabric, name, &some_jobs(&fabric, seed), 1);
        assert_accepted(&spec, &fabric, &tables, 1);
        assert!(tables.layers_used() <= 1);
    }
}

#[test]
fn rings_tori_and_trees_are_routed_with_every_budget() {
    for spec in
        ["torus:5", "torus:9", "torus:4x4,hosts=2", "torus:3x3x3", "mesh:6x2", "fattree:4x4,2", "kary:3,3"]
    {
        let fabric = generate(spec).unwrap();
        for layers in 1..=8 {
            for name in ["nue", "sar-nue"] {
                let tables = route(&fabric, name, &some_jobs(&fabric, layers), layers);
                assert_accepted(spec, &fabric, &tables, layers);
            }
        }
    }
}

/// Thesis 6.1: no shortest-path routing of the 5-ring is deadlock-free in one layer, so one layer
/// costs longer paths; two layers do not.
#[test]
fn the_five_ring_needs_detours_in_one_layer_only() {
    let fabric = generate("torus:5").unwrap();
    let hops = |layers| {
        let tables = route(&fabric, "nue", &Demand::oblivious(), layers);
        measure(&fabric, &tables, &Demand::oblivious()).paths.minimal_share
    };
    assert!(hops(1) < 1.0);
    assert!(hops(5) == 1.0);
}

/// On an up/down tree no dependency is ever refused, so all paths are shortest.
#[test]
fn trees_keep_shortest_paths() {
    for spec in ["fattree:10x18,5", "kary:4,3"] {
        let fabric = generate(spec).unwrap();
        let tables = route(&fabric, "nue", &Demand::oblivious(), 1);
        assert_eq!(measure(&fabric, &tables, &Demand::oblivious()).paths.minimal_share, 1.0, "{spec}");
    }
}

/// Counting only routes inside jobs balances them better than counting all.
#[test]
fn job_weights_lower_the_effective_load() {
    let fabric = generate("fattree:10x18,5").unwrap();
    let hosts: Vec<_> = fabric.host_ids().collect();
    let pick = |a: usize, b: usize| [&hosts[a..a + 30], &hosts[b..b + 30]].concat();
    let groups = [pick(0, 90), pick(30, 150), pick(60, 120)].map(Group::new);
    let demand = Demand::new(groups.to_vec(), vec![]);
    let load = |name| measure(&fabric, &route(&fabric, name, &demand, 8), &demand).effective.max;
    assert!(load("sar-nue") < load("nue"), "{} against {}", load("sar-nue"), load("nue"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_grids_are_routed(
        (a, b, seed) in (2usize..6, 2usize..6, 0u64..1000),
        layers in 1u64..=8,
        job_aware: bool,
    ) {
        let whole = generate(&format!("torus:{a}x{b},hosts=2")).unwrap();
        let mut rng = Rng::new(seed);
        let cuts: Vec<bool> = whole.channel_ids().map(|_| rng.below(12) == 0).collect();
        let fabric = whole.without(|c| cuts[c.index() / 2 * 2], |_| false).unwrap();
        let name = if job_aware { "sar-nue" } else { "nue" };
        let tables = route(&fabric, name, &some_jobs(&fabric, seed), layers);
        // Cuts may disconnect: then pairs are listed, and everything else is routed.
        let verdict = judge(&fabric, &tables, budget(layers));
        prop_assert!(verdict.accepted, "{:?}", verdict.findings);
        prop_assert_eq!(&tables, &route(&fabric, name, &some_jobs(&fabric, seed), layers));
    }
}
