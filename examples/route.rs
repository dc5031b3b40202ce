//! Routes a fabric for two jobs, proves the tables, and says what they are worth.
//!
//! `cargo run --release --example route -- fattree:10x18,5`

use std::error::Error;

use sarouter::measure;
use sarouter::model::{Demand, Group, LayerBudget};
use sarouter::observe::fabric;
use sarouter::route::{EngineOptions, engine};
use sarouter::verify;

fn main() -> Result<(), Box<dyn Error>> {
    let source = std::env::args().nth(1).unwrap_or_else(|| "fattree:4x4,4".to_string());
    let fabric = fabric::load(&source)?;
    let budget = LayerBudget::new(8)?;

    // Two jobs: every second host is the one's, the others are the other's.
    let (even, odd) = fabric.host_ids().partition(|t| t.index() % 2 == 0);
    let demand = Demand::new(vec![Group::new(even), Group::new(odd)], vec![]);

    let tables = engine("balanced", &EngineOptions::default())?.route(&fabric, &demand, budget)?;
    // Only what the checker accepts becomes `Verified`, and only that can be published.
    let verified = verify::accept(&fabric, tables, budget)
        .map_err(|verdict| format!("rejected: {:?}", verdict.findings))?;

    let time = measure::time(&fabric, verified.get(), &demand);
    let figures = measure::measure(&fabric, verified.get(), &demand);
    println!("predicted slow-down of the two jobs: {:.2}", time.slowdown_mean);
    println!("most routes between hosts on a channel: {}", figures.load.max);
    Ok(())
}
