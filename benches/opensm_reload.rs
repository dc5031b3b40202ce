//! From the rename of `current` to OpenSM's last answered forwarding table, on a simulated fabric.
//!
//! `cargo bench --bench opensm_reload [SPEC…]`. Needs what `scripts/test` installs and builds.

#[path = "../tests/real/testbed.rs"]
#[allow(dead_code)]
mod testbed;

use std::time::Duration;

use chrono::Utc;
use sarouter::lab::generate::generate;
use sarouter::model::{Demand, Fabric, LayerBudget, Tables};
use sarouter::publish::handoff;
use sarouter::route;

use testbed::Testbed;

const ROUNDS: u64 = 15;

fn routed(fabric: &Fabric, engine: &str) -> Tables {
    let engine = route::engine(engine, &Default::default()).unwrap();
    engine.route(fabric, &Demand::oblivious(), LayerBudget::new(8).unwrap()).unwrap()
}

fn main() {
    let specs: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let defaults = ["fattree:10x18,5", "fattree:56x18,18", "random:125,1000,1000,seed=1"].map(str::to_string);
    for spec in if specs.is_empty() { defaults.to_vec() } else { specs } {
        let fabric = generate(&spec).unwrap();
        let bed = Testbed::fabric(
            &fabric,
            &["--opensm-line", "sweep_interval 0", "--opensm-line", "log_flags 0x03"],
        );
        let tables = [routed(&fabric, "sssp"), routed(&fabric, "nue")];
        let blocks = tables[0].changed_blocks(&fabric, &tables[1]).unwrap_or(0);
        // The first routing after start-up also sends every SL2VL and VL arbitration table.
        bed.publish(&fabric, &tables[1], 1);
        bed.await_epoch(1);
        let mut times = Vec::new();
        for epoch in 2..2 + ROUNDS {
            let bytes = handoff::encode(&fabric, &tables[epoch as usize % 2], epoch);
            let before = Utc::now();
            bed.publish_bytes(&format!("{epoch:06}"), &bytes);
            let acknowledged = bed.await_epoch(epoch).acknowledged.unwrap();
            times.push((acknowledged - before).to_std().unwrap_or(Duration::ZERO));
        }
        times.sort();
        println!(
            "{spec}: {} hosts, {} switches, {blocks} of {} blocks change: median {:?}, longest {:?} of {ROUNDS}",
            fabric.host_ids().count(),
            fabric.switches().len(),
            fabric.switches().len() * (fabric.dest_count() / 64 + 1),
            times[times.len() / 2],
            times[times.len() - 1],
        );
    }
}
