//! The adaptive routings: they deliver, on routes of the right form.

use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{Fabric, Pattern};
use sarouter::simulate::adaptive::{AllPaths, Distances, Ksp, Penalties, Polarized};
use sarouter::simulate::run::{self, Load, Windows};
use sarouter::simulate::traffic::open::Destinations;
use sarouter::simulate::traffic::script::Script;
use sarouter::simulate::{ADAPTIVE, AnyRouter, Ended, Net, Settings, Simulator, Stats};

use crate::program::{command, sarouter};

fn exchange(fabric: &Fabric, routing: &str, settings: Settings) -> Stats {
    let net = Net::of_fabric(fabric);
    let far = Distances::new(&net).unwrap();
    let router = AnyRouter::adaptive(routing, &net, &far, 8, 1).unwrap();
    let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, 64, 0);
    let mut simulator = Simulator::new(&net, settings, &router, script, 1).unwrap();
    assert_eq!(simulator.run(u64::MAX), Ended::Finished, "{routing}");
    assert!(simulator.traffic.finished().is_some(), "{routing}");
    assert!(simulator.is_at_rest());
    simulator.stats
}

fn longest(stats: &Stats) -> usize {
    stats.hops.iter().rposition(|n| *n > 0).unwrap()
}

#[test]
fn each_delivers_everything_within_its_length() {
    let fabric = generate("regular:20,6,hosts=2,seed=4").unwrap();
    let far = Distances::new(&Net::of_fabric(&fabric)).unwrap();
    let diameter = usize::from(far.diameter());
    let minimal = exchange(&fabric, "minimal", Settings::phits());
    assert_eq!(longest(&minimal), diameter);
    for routing in ["polarized", "valiant", "ugal", "ksp", "ksp-ugal", "all-paths", "omni-dimensional"] {
        for settings in
            [Settings::phits(), Settings { reconsider_ps: 5000, output_flits: 0, ..Settings::phits() }]
        {
            let stats = exchange(&fabric, routing, settings);
            assert!(longest(&stats) <= 2 * diameter, "{routing}: {:?}", stats.hops);
            assert!(stats.mean_hops() >= minimal.mean_hops(), "{routing}");
        }
    }
    assert_eq!(longest(&exchange(&fabric, "all-paths", Settings::phits())), diameter);
    let valiant = exchange(&fabric, "valiant", Settings::phits());
    assert!(valiant.mean_hops() > 1.5 * minimal.mean_hops(), "{}", valiant.mean_hops());
}

#[test]
fn on_a_torus_rdr_and_dor_are_minimal() {
    let fabric = generate("torus:4x5x3,hosts=1").unwrap();
    let minimal = exchange(&fabric, "minimal", Settings::phits()).mean_hops();
    for routing in ["rdr", "dor-lanes"] {
        let stats = exchange(&fabric, routing, Settings::phits());
        assert!((stats.mean_hops() - minimal).abs() < 1e-9, "{routing}");
    }
    let broken = generate("torus:4x5x3,hosts=1,faults=1").unwrap();
    let net = Net::of_fabric(&broken);
    let far = Distances::new(&net).unwrap();
    for routing in ["rdr", "dor-lanes"] {
        let refused = AnyRouter::adaptive(routing, &net, &far, 8, 1).err().unwrap().to_string();
        assert!(refused.contains("missing"), "{refused}");
    }
    assert!(ADAPTIVE.iter().all(|name| !name.is_empty()));
}

/// All loopless paths of a pair by brute force: how many there are of each length.
fn count_paths(net: &Net, at: u32, to: u32, on: &mut Vec<u32>, most: usize, counts: &mut [usize]) {
    if at == to {
        counts[on.len()] += 1;
        return;
    }
    if on.len() == most {
        return;
    }
    on.push(at);
    for c in net.out(at) {
        if !on.contains(&net.to(c)) {
            count_paths(net, net.to(c), to, on, most, counts);
        }
    }
    on.pop();
}

#[test]
fn ksp_has_the_k_shortest_loopless_paths() {
    let fabric = generate("regular:12,3,hosts=1,seed=2").unwrap();
    let net = Net::of_fabric(&fabric);
    let far = Distances::new(&net).unwrap();
    let ksp = Ksp::new(&net, &far, 8, false, 1).unwrap();
    for from in 0..12 {
        for to in (0..12).filter(|to| *to != from) {
            let paths: Vec<&[u32]> = ksp.paths(from, to).collect();
            assert!(paths.is_sorted_by_key(|p| p.len()));
            for path in &paths {
                let mut switches: Vec<u32> = path.iter().map(|c| net.to(*c)).collect();
                assert_eq!(switches.last(), Some(&to));
                switches.push(from);
                switches.sort_unstable();
                assert!(switches.is_sorted_by(|a, b| a < b), "a loop");
            }
            let mut distinct = paths.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), paths.len());
            let most = usize::from(far.of(from, to)) + 4;
            let mut counts = vec![0; most + 1];
            count_paths(&net, from, to, &mut Vec::new(), most, &mut counts);
            let lengths = counts.iter().enumerate().flat_map(|(l, n)| std::iter::repeat_n(l, *n)).take(8);
            assert_eq!(paths.iter().map(|p| p.len()).collect::<Vec<_>>(), lengths.collect::<Vec<_>>());
        }
    }
}

#[test]
fn all_paths_are_drawn_evenly() {
    let net = Net::of_fabric(&generate("regular:12,3,hosts=1,seed=2").unwrap());
    let far = Distances::new(&net).unwrap();
    let (all, most) = (AllPaths::new(&net, &far).unwrap(), usize::from(far.diameter()));
    let mut rng = Rng::new(5);
    for (from, to) in (0..12).flat_map(|from| (0..12).map(move |to| (from, to))).filter(|(a, b)| a != b) {
        let mut counts = vec![0; most + 1];
        count_paths(&net, from, to, &mut Vec::new(), most, &mut counts);
        let paths: usize = counts.iter().sum();
        let mut drawn = std::collections::BTreeMap::new();
        (0..400 * paths).for_each(|_| *drawn.entry(all.draw(from, to, &mut rng)).or_insert(0) += 1);
        assert_eq!(drawn.len(), paths, "each of them, no other");
        // Six standard deviations.
        assert!(drawn.values().all(|n| (280..520).contains(n)), "{drawn:?}");
    }
    let refused = |spec| {
        let net = Net::of_fabric(&generate(spec).unwrap());
        AllPaths::new(&net, &Distances::new(&net).unwrap()).err().map(|e| e.to_string())
    };
    assert!(refused("torus:8x8,hosts=1").unwrap().contains("paths of 8 channels"));
    assert_eq!(refused("torus:6x6,hosts=1"), None);
}

#[test]
fn polarized_tables_say_how_the_distance_changes() {
    let fabric = generate("torus:6,hosts=1").unwrap();
    let net = Net::of_fabric(&fabric);
    let far = Distances::new(&net).unwrap();
    let polarized = Polarized::new(&net, &far, Penalties::default()).unwrap();
    let from_0_to_1 = net.out(0).find(|c| net.to(*c) == 1).unwrap();
    // Targets 0 to 5 of a ring of six.
    let turns: Vec<i8> = (0..6).map(|t| polarized.turn(from_0_to_1, t)).collect();
    assert_eq!(turns, [1, -1, -1, -1, 1, 1]);
}

/// With all switches sending to one neighbour each, shortest paths have one cable for all hosts of
/// a switch; who may go around gets more through.
#[test]
fn detours_help_where_minimal_paths_are_too_few() {
    let net = Net::of_fabric(&generate("regular:24,7,hosts=4,seed=1").unwrap());
    let accepted = |routing: &str| to_neighbours(&net, routing).0;
    let minimal = accepted("minimal");
    assert!((0.2..=0.2501).contains(&minimal), "one cable for four hosts: {minimal}");
    assert!(accepted("polarized") > 1.5 * minimal);
    assert!(accepted("ugal") > 1.2 * minimal);
}

/// Accepted share at full load and mean number of channels where all hosts of a switch send to one
/// neighbour of it.
fn to_neighbours(net: &Net, routing: &str) -> (f64, f64) {
    let far = Distances::new(net).unwrap();
    let pattern = sarouter::simulate::patterns::Pattern::SwitchPermutation;
    let to = pattern.destinations(net, net.hosts(), 1).unwrap();
    let router = AnyRouter::adaptive(routing, net, &far, 8, 1).unwrap();
    let load = Load {
        members: net.hosts().to_vec(),
        destinations: Destinations::Fixed(to),
        bytes: 16,
        offered: Some(1.0),
        windows: Windows::Given { warm_up_ns: 2000.0, measure_ns: 2000.0 },
        drain: true,
    };
    let outcome = run::load(net, Settings::phits(), &router, &load, 1).unwrap();
    assert_ne!(outcome.ended, Ended::Deadlock);
    (outcome.steady.unwrap().accepted, outcome.mean_hops)
}

/// To a neighbour in a Hamming graph: one channel, or one more in the same dimension for each deroute, of which
/// there are as many as dimensions. Never by way of another dimension.
#[test]
fn omni_dimensional_goes_around_in_dimensions_that_are_left() {
    let row = Net::of_fabric(&generate("hyperx:8,hosts=4").unwrap());
    let ((minimal, one), (omni, hops)) =
        (to_neighbours(&row, "minimal"), to_neighbours(&row, "omni-dimensional"));
    assert!(minimal < 0.2501 && one == 1.0, "one cable for four hosts: {minimal}, {one}");
    assert!(omni > 2.0 * minimal && (1.2..2.0).contains(&hops), "{omni}, {hops}");
    // Two in a dimension have no third switch between them.
    let cube = Net::of_fabric(&generate("hyperx:2x2x2,hosts=4").unwrap());
    let (accepted, hops) = to_neighbours(&cube, "omni-dimensional");
    assert!(accepted < 0.2501 && hops == 1.0, "{accepted}, {hops}");
}

#[test]
fn low_loads_are_accepted_whole() {
    let fabric = generate("regular:20,6,hosts=2,seed=4").unwrap();
    let net = Net::of_fabric(&fabric);
    let far = Distances::new(&net).unwrap();
    let router = AnyRouter::adaptive("minimal", &net, &far, 8, 1).unwrap();
    let load = Load {
        members: net.hosts().to_vec(),
        destinations: Destinations::Uniform,
        bytes: 16,
        offered: Some(0.2),
        windows: Windows::UntilSteady { most_ns: 400_000.0 },
        drain: true,
    };
    let outcome = run::load(&net, Settings::phits(), &router, &load, 1).unwrap();
    let steady = outcome.steady.unwrap();
    assert!(steady.reached && (steady.accepted - 0.2).abs() < 0.01, "{steady:?}");
    // Two terminals' cables, a packet of 16, and on average a little over two channels.
    assert!((20.0..40.0).contains(&outcome.latency_mean_ns), "{}", outcome.latency_mean_ns);
}

/// Accepted share of uniform traffic at full load, with phits and lanes as for Figure 4a.
pub fn at_full_load(net: &Net, routing: &str, settings: Settings, measure_ns: f64) -> f64 {
    let far = Distances::new(net).unwrap();
    let router = AnyRouter::adaptive(routing, net, &far, 8, 1).unwrap();
    let load = Load {
        members: net.hosts().to_vec(),
        destinations: Destinations::Uniform,
        bytes: 16,
        offered: Some(1.0),
        windows: Windows::Given { warm_up_ns: 2000.0, measure_ns },
        drain: false,
    };
    run::load(net, settings, &router, &load, 1).unwrap().steady.unwrap().accepted
}

/// Polarized paper, Figure 4a: almost the throughput of minimal routing.
#[test]
fn polarized_is_near_minimal_under_uniform_traffic() {
    let net = Net::of_fabric(&generate("regular:100,9,hosts=4").unwrap());
    let accepted = |routing| at_full_load(&net, routing, Settings::phits(), 500.0);
    let (minimal, polarized) = (accepted("minimal"), accepted("polarized"));
    assert!(polarized > 0.96 * minimal, "{polarized} against {minimal}");
}

/// Halves of the hosts exchange with each other, a draw for each seed, and the mean is over draws.
#[test]
fn several_seeds_have_a_mean() {
    let run = |more: &[&str]| {
        let words =
            "simulate --fabric fattree:4x4,2 --engine minhop --traffic bisection --format json --load";
        let windows = ["--warm-up", "10000", "--measure", "10000"];
        command(".", words.split(' ')).args(more).args(windows).output().unwrap()
    };
    let output = run(&["1,0.1", "--seeds", "4", "--seed", "7"]);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let accepted: Vec<f64> = printed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["steady"]["accepted"].as_f64().unwrap())
        .collect();
    assert_eq!(accepted.len(), 8);
    assert!((1..4).any(|i| accepted[i] != accepted[0]), "other pairs meet on other cables: {accepted:?}");
    for (load, mean) in printed["means"].as_array().unwrap().iter().enumerate() {
        let own = accepted[4 * load..][..4].iter().sum::<f64>() / 4.0;
        assert_eq!((mean["seeds"].as_u64(), mean["offered"].as_f64()), (Some(4), Some([1.0, 0.1][load])));
        assert!((mean["accepted"].as_f64().unwrap() - own).abs() < 1e-12);
    }
    assert!(accepted[..4].iter().all(|a| *a < 0.95), "two tops for four hosts: {accepted:?}");
    assert!(accepted[4..].iter().all(|a| (0.08..0.12).contains(a)), "a tenth passes: {accepted:?}");
    let refused = sarouter(".", "simulate --fabric fattree:4x4,2 --traffic shift --seeds 2".split(' '));
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("--seeds: what has an end runs once; give --load")
    );
}
