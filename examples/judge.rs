//! Judges tables that somebody else made: a dump of forwarding tables in OpenSM's form.
//!
//! `cargo run --release --example judge -- FABRIC opensm-lfts.dump`

use std::error::Error;
use std::path::Path;

use sarouter::model::LayerBudget;
use sarouter::observe::fabric;
use sarouter::publish::dump::read_tables;
use sarouter::verify;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [source, dump] = words.as_slice() else { return Err("judge FABRIC DUMP".into()) };
    let fabric = fabric::load(source)?;
    // Without a file of layers all routes are on one.
    let tables = read_tables(&fabric, Path::new(dump), None)?;
    let verdict = verify::judge(&fabric, &tables, LayerBudget::new(1)?);
    for finding in &verdict.findings {
        println!("{finding}");
    }
    println!("{}", if verdict.accepted { "accepted" } else { "rejected" });
    Ok(())
}
