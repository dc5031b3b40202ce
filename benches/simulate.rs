//! Speed of the packet simulator: `cargo bench --bench simulate [-- CASE]`.
//!
//! Packet-hops are cables taken by packets, those of terminals included.

use std::time::Instant;

use sarouter::lab::generate::generate;
use sarouter::model::{Demand, LayerBudget, Pattern};
use sarouter::report::cost::peak_rss_bytes;
use sarouter::route::{self, EngineOptions};
use sarouter::simulate::adaptive::Distances;
use sarouter::simulate::traffic::Traffic;
use sarouter::simulate::traffic::open::{Destinations, Open};
use sarouter::simulate::traffic::script::Script;
use sarouter::simulate::{AnyRouter, Net, Router, Settings, Simulator, TableRouter};

/// Million packet-hops per second that are aimed at, on one quiet core.
const TABLES: Aim = Aim { rate: 10.0, seconds: f64::INFINITY, megabytes: u64::MAX };
const ADAPTIVE: Aim = Aim { rate: 3.0, ..TABLES };

/// What a case should reach.
#[derive(Clone, Copy)]
struct Aim {
    /// Million packet-hops per second, at least.
    rate: f64,
    /// CPU time, at most.
    seconds: f64,
    /// Peak of the process so far, at most.
    megabytes: u64,
}

/// Full shift of 2 KiB between all hosts.
fn shift(name: &str, spec: &str, engine: &str, settings: Settings, aim: Aim) {
    let fabric = generate(spec).unwrap();
    let budget = LayerBudget::new(8).unwrap();
    let engine = route::engine(engine, &EngineOptions::default()).unwrap();
    let tables = engine.route(&fabric, &Demand::oblivious(), budget).unwrap();
    let net = Net::of_fabric(&fabric);
    let router = TableRouter::new(&fabric, &net, &tables).unwrap();
    let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, 2048, 0);
    measure(name, Simulator::new(&net, settings, &router, script, 1).unwrap(), settings, u64::MAX, aim);
}

/// So many cycles of uniform traffic at full load, phits and lanes as for Figure 4a.
fn adaptive(name: &str, spec: &str, routing: &str, cycles: u64, aim: Aim) {
    let fabric = generate(spec).unwrap();
    let net = Net::of_fabric(&fabric);
    let far = Distances::new(&net).unwrap();
    let router = AnyRouter::adaptive(routing, &net, &far, 8, 1).unwrap();
    let traffic = Open::new((net.hosts(), net.terminals()), Destinations::Uniform, 16, 0.0, 10, 1);
    let settings = Settings::phits();
    measure(name, Simulator::new(&net, settings, &router, traffic, 1).unwrap(), settings, cycles, aim);
}

/// CPU seconds of this thread. Not [`sarouter::report::cost::cpu_seconds`]: callgrind, which counts the
/// instructions, cannot run that clock.
fn cpu_seconds() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    times.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

fn measure<R: Router, T: Traffic>(
    name: &str,
    mut simulator: Simulator<'_, R, T>,
    settings: Settings,
    until: u64,
    aim: Aim,
) {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let ended = simulator.run(until);
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let (hops, megabytes) = (simulator.stats.links as f64 * 1e-6, peak_rss_bytes() >> 20);
    let aims = [
        (aim.rate > 0.0, format!("{} M/s", aim.rate)),
        (aim.seconds.is_finite(), format!("{} s", aim.seconds)),
        (aim.megabytes < u64::MAX, format!("{} MB", aim.megabytes)),
    ];
    let aims: Vec<String> = aims.into_iter().filter(|a| a.0).map(|a| a.1).collect();
    let reached = hops / cpu >= aim.rate && cpu <= aim.seconds && megabytes <= aim.megabytes;
    println!(
        "{name}: {ended:?} after {:.1} µs, {hops:.1} M packet-hops, {cpu:.2} s CPU ({wall:.2} s), {:.1} M/s, \
         {megabytes} MB; aim {}: {}",
        settings.nanoseconds(simulator.stats.last_delivery) / 1000.0,
        hops / cpu,
        aims.join(", "),
        if reached { "reached" } else { "not reached" },
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
        let whole = Aim { rate: 0.0, seconds: 2.0, megabytes: 200 };
        shift(name, spec, engine, settings, if name.starts_with("2000-host") { whole } else { TABLES });
    }
    let point = Aim { rate: 0.0, seconds: 15.0, ..ADAPTIVE };
    for (routing, cycles, aim) in
        [("minimal", 2000, ADAPTIVE), ("polarized", 2000, ADAPTIVE), ("polarized", 30_000, point)]
    {
        let name = format!("{routing}, regular, 5040 hosts, {cycles} cycles");
        if name.contains(&only) {
            adaptive(&name, "regular:720,17,hosts=7", routing, cycles, aim);
        }
    }
}
