//! Speed of the packet simulator: `cargo bench --bench simulate [-- CASE]`.
//!
//! Packet-hops are cables taken by packets, those of terminals included.

use std::time::Instant;

use sarouter::generate::generate;
use sarouter::model::{Demand, LayerBudget};
use sarouter::report::cost::{cpu_seconds, peak_rss_bytes};
use sarouter::route::{self, EngineOptions};
use sarouter::simulate::traffic::script::{Exchange, Script};
use sarouter::simulate::{Net, Settings, Simulator, TableRouter};

/// Full shift of 2 KiB between all hosts.
fn shift(name: &str, spec: &str, engine: &str, settings: Settings) {
    let fabric = generate(spec).unwrap();
    let budget = LayerBudget::new(8).unwrap();
    let engine = route::engine(engine, &EngineOptions::default()).unwrap();
    let tables = engine.route(&fabric, &Demand::oblivious(), budget).unwrap();
    let net = Net::of_fabric(&fabric);
    let router = TableRouter::new(&fabric, &net, &tables).unwrap();
    let script = Script::all_to_all(net.hosts(), net.terminals(), Exchange::Shift, 2048);
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let mut simulator = Simulator::new(&net, settings, &router, script, 1).unwrap();
    let ended = simulator.run(u64::MAX);
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let hops = simulator.stats.links as f64;
    println!(
        "{name}: {ended:?} after {:.1} µs, {:.1} M packet-hops, {cpu:.2} s CPU ({wall:.2} s), {:.1} M/s, {} MB",
        settings.nanoseconds(simulator.stats.last_delivery) / 1000.0,
        hops / 1e6,
        hops / cpu / 1e6,
        peak_rss_bytes() >> 20,
    );
}

fn main() {
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let plain = Settings { output_flits: 0, ..Settings::qdr() };
    let cases: [(&str, &str, &str, Settings); 6] = [
        ("648-host tree, no output buffers", "fattree:36x18,18", "fattree", plain),
        ("648-host tree", "fattree:36x18,18", "fattree", Settings::qdr()),
        ("2000-host tree, no output buffers", "kary:10,3,hosts=20", "dfsssp", plain),
        ("2000-host tree", "kary:10,3,hosts=20", "dfsssp", Settings::qdr()),
        ("torus 10x10x10, 2000 hosts", "torus:10x10x10,hosts=2", "torus", Settings::qdr()),
        ("random, 2000 hosts", "random:250,2000,2000,seed=1", "dfsssp", Settings::qdr()),
    ];
    for (name, spec, engine, settings) in cases.into_iter().filter(|c| c.0.contains(&only)) {
        shift(name, spec, engine, settings);
    }
}
