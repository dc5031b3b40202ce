//! Engines on the fabrics their speed is judged by: `cargo bench --bench engines`.
//!
//! `cargo bench --bench engines -- once SPEC ENGINE` routes once and reads no clock, for counting
//! instructions, which do not depend on what else the machine does:
//! `valgrind --tool=callgrind --toggle-collect='*as sarouter_core::route::Engine>::route' BINARY once SPEC ENGINE`.

// The macros below make undocumented items.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group};
use sarouter::lab::generate::generate;
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

/// Routes once, on one thread and 8 layers.
fn once(spec: &str, engine: &str) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (fabric, budget) = (generate(spec).unwrap(), LayerBudget::new(8).unwrap());
    let engine = route::engine(engine, &EngineOptions::default()).unwrap();
    match pool.install(|| engine.route(&fabric, &Demand::oblivious(), budget)) {
        Ok(tables) => println!("{} layers", black_box(tables).layers_used()),
        Err(e) => println!("{e}"),
    }
}

criterion_group!(benches, engines);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [what, spec, engine] = args.as_slice() {
        if what == "once" {
            return once(spec, engine);
        }
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
