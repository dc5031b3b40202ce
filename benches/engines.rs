//! Engines on the fabrics their speed is judged by.

// The macros below make undocumented items.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sarouter::generate::generate;
use sarouter::model::{Demand, Fabric, Group, LayerBudget};
use sarouter::route::{self, EngineOptions};

const FABRICS: &[(&str, &str, &[&str])] = &[
    (
        "three-level tree, 1100 hosts",
        "kary:10,3,hosts=11",
        &["sssp", "dfsssp", "minhop", "updown", "fattree"],
    ),
    ("random, 1000 hosts", "random:125,1000,1000,seed=1", &["dfsssp", "lash", "updown"]),
    ("torus, 2048 hosts", "torus:8x8x8,hosts=4", &["sssp", "dor", "torus", "lash"]),
];

/// Jobs of 64 hosts that interleave over the whole fabric.
fn jobs_of_64(fabric: &Fabric) -> Demand {
    let hosts: Vec<_> = fabric.host_ids().collect();
    let jobs = hosts.len() / 64;
    let members = |j: usize| hosts.iter().skip(j).step_by(jobs).copied().collect();
    Demand::new((0..jobs).map(|j| Group::new(members(j))).collect(), Vec::new())
}

fn engines(criterion: &mut Criterion) {
    let budget = LayerBudget::new(15).unwrap();
    let mut group = criterion.benchmark_group("engines");
    group.sample_size(10);
    for (name, spec, engines) in FABRICS {
        let fabric = generate(spec).unwrap();
        for engine in *engines {
            let made = route::engine(engine, &EngineOptions::default()).unwrap();
            group.bench_function(format!("{name}/{engine}"), |b| {
                b.iter(|| black_box(made.route(&fabric, &Demand::oblivious(), budget)));
            });
        }
    }
    let fabric = generate("kary:10,3,hosts=20").unwrap();
    let demand = jobs_of_64(&fabric);
    let sar = route::engine("sar", &EngineOptions::default()).unwrap();
    group.bench_function("three-level tree, 2000 hosts, 31 jobs/sar", |b| {
        b.iter(|| black_box(sar.route(&fabric, &demand, budget)));
    });
    group.finish();
}

criterion_group!(benches, engines);
criterion_main!(benches);
