//! Beside caminos 0.6.3: configurations, commands and figures are in `tests/data/caminos/README.md`.

use sarouter::lab::generate::generate;
use sarouter::model::Pattern;
use sarouter::simulate::adaptive::Distances;
use sarouter::simulate::traffic::script::Script;
use sarouter::simulate::{AnyRouter, Ended, Net, Settings, Simulator};

use crate::adaptive::at_full_load;
use crate::often::often;

/// Of a full shift of packets of 16 phits: cycles until finished, and phits consumed per host and
/// cycle from cycle 2,000 to cycle 10,000.
fn full_shift(spec: &str, seed: u64) -> (f64, f64) {
    let net = Net::of_fabric(&generate(spec).unwrap());
    let far = Distances::new(&net).unwrap();
    let router = AnyRouter::adaptive("minimal", &net, &far, 8, 1).unwrap();
    let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, 16, 0);
    let mut simulator = Simulator::new(&net, Settings::caminos(), &router, script, seed).unwrap();
    let mut phits = [0.0; 2];
    for (phits, cycle) in phits.iter_mut().zip([2_000, 10_000]) {
        simulator.run(cycle);
        simulator.audit().unwrap();
        *phits = simulator.traffic.received_bytes() as f64;
    }
    assert_eq!(simulator.run(u64::MAX), Ended::Finished, "{spec}");
    assert!(simulator.is_at_rest());
    let rate = (phits[1] - phits[0]) / 8_000.0 / net.hosts().len() as f64;
    (simulator.traffic.finished().unwrap() as f64, rate)
}

/// Means of so many runs.
fn means(spec: &str, seeds: u64) -> (f64, f64) {
    let runs: Vec<(f64, f64)> = (1..=seeds).map(|seed| full_shift(spec, seed)).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| runs.iter().map(of).sum::<f64>() / seeds as f64;
    (mean(|run| run.0), mean(|run| run.1))
}

#[test]
fn without_competition_a_shift_takes_the_cycles_of_caminos() {
    for (spec, caminos) in [
        ("mesh:2,hosts=1", 19.0),
        ("mesh:2,hosts=2", 67.0),
        ("mesh:3,hosts=1", 36.0),
        ("fattree:64x1,1", 1_012.0),
    ] {
        assert_eq!(full_shift(spec, 1).0, caminos, "{spec}");
    }
}

#[test]
fn with_competition_a_shift_takes_the_cycles_of_caminos() {
    for (spec, seeds, caminos) in [
        ("mesh:6,hosts=4", 20, 2_311.2),
        ("hyperx:9,hosts=4", 40, 977.5),
        ("hyperx:9,hosts=8", 20, 3_320.9),
        ("fattree:6x4,4", 60, 507.9),
        ("fattree:12x6,6", 20, 1_651.4),
    ] {
        let ours = means(spec, seeds).0;
        assert!((ours / caminos - 1.0).abs() < 0.015, "{spec}: {ours}, caminos {caminos}");
    }
}

#[test]
#[ignore = "a minute of CPU"]
fn a_shift_of_648_hosts_takes_the_cycles_of_caminos() {
    let seeds = often(20, 3) as u64;
    let (cycles, rate) = means("fattree:36x18,18", seeds);
    println!("{cycles} {rate}");
    // A mean of fewer runs is less exact by the root of their number.
    let exact = (20.0 / seeds as f64).sqrt();
    assert!((cycles / 15_850.0 - 1.0).abs() < 0.005 * exact, "{cycles} cycles");
    assert!((rate / 0.6678 - 1.0).abs() < 0.001 * exact, "{rate} phits per host and cycle");
}

/// Accepted load of `tests/data/caminos` (commands and figures: README.md there), same graph.
#[test]
fn as_much_is_accepted_as_by_caminos() {
    let fabric = generate("regular:200,11,hosts=5").unwrap();
    let net = Net::of_fabric(&fabric);
    let graph = std::fs::read_to_string("tests/data/caminos/rrg.txt").unwrap();
    let rows = graph.lines().skip(3).step_by(2);
    for (s, row) in rows.enumerate() {
        let mut neighbours: Vec<u32> = row.split(' ').map(|n| n.parse().unwrap()).collect();
        let mut own: Vec<u32> = net.out(s as u32).map(|c| net.to(c)).collect();
        neighbours.sort_unstable();
        own.sort_unstable();
        assert_eq!(neighbours, own, "switch {s}");
    }
    for (routing, caminos) in [("minimal", 0.7512), ("valiant", 0.3857)] {
        let accepted = at_full_load(&net, routing, Settings::caminos(), 1000.0);
        assert!((accepted / caminos - 1.0).abs() < 0.02, "{routing}: {accepted}, caminos {caminos}");
        let accepted = at_full_load(&net, routing, Settings::phits(), 1000.0);
        assert!((accepted / caminos - 1.0).abs() < 0.05, "{routing}: {accepted}, caminos {caminos}");
    }
}
