//! An engine of one's own: shortest paths, always by the first port. The checker accepts it on a tree, and on a ring
//! it says which buffers wait for each other in a circle.
//!
//! `cargo run --release --example engine`

use std::collections::VecDeque;
use std::error::Error;

use sarouter::model::{Demand, Fabric, LayerBudget, SwitchId, Tables};
use sarouter::observe::fabric;
use sarouter::route::{Engine, RouteError};
use sarouter::verify;

struct FirstPort;

impl Engine for FirstPort {
    fn name(&self) -> &'static str {
        "first-port"
    }

    fn route(&self, fabric: &Fabric, _demand: &Demand, _budget: LayerBudget) -> Result<Tables, RouteError> {
        let switches = fabric.switches().len();
        let mut ports = Vec::with_capacity(fabric.dest_count() * switches);
        for d in fabric.dest_ids() {
            ports.extend(towards(fabric, fabric.home(d), fabric.last_port(d).get()));
        }
        // All routes on the first layer.
        let layers = vec![0; ports.len()];
        Ok(Tables::new(fabric, self.name(), ports, layers)?)
    }
}

/// The port of each switch on a shortest path to `home`, where `last` leads to the destination.
fn towards(fabric: &Fabric, home: SwitchId, last: u8) -> Vec<u8> {
    let mut ports = vec![Tables::UNREACHABLE; fabric.switches().len()];
    ports[home.index()] = last;
    let mut next = VecDeque::from([home]);
    while let Some(s) = next.pop_front() {
        for c in fabric.out(s) {
            // The other direction of its cable leads back to `s`.
            let channel = fabric.channel(*c);
            if ports[channel.to.index()] == Tables::UNREACHABLE {
                ports[channel.to.index()] = channel.to_port.get();
                next.push_back(channel.to);
            }
        }
    }
    ports
}

fn main() -> Result<(), Box<dyn Error>> {
    let budget = LayerBudget::new(1)?;
    for (source, is_safe) in [("kary:3,3", true), ("torus:6,hosts=1", false)] {
        let fabric = fabric::load(source)?;
        let tables = FirstPort.route(&fabric, &Demand::oblivious(), budget)?;
        let findings = verify::judge(&fabric, &tables, budget).findings;
        println!("{source}: {} findings", findings.len());
        findings.iter().for_each(|finding| println!("  {finding}"));
        assert_eq!(findings.is_empty(), is_safe);
    }
    Ok(())
}
