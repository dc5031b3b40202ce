//! The packet simulator against what can be calculated by hand.

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::{Demand, Fabric, LayerBudget, Pattern, Tables};
use sarouter::route::{self, EngineOptions};
use sarouter::simulate::run::{self, Load, Outcome, Windows};
use sarouter::simulate::traffic::open::Destinations;
use sarouter::simulate::traffic::script::Script;
use sarouter::simulate::{Ended, Net, Settings, Simulator, TableRouter};

use super::helpers::random_tables;

/// One tick is 1 ns, one flit one byte, 1 byte per ns; nothing in the way.
fn simple() -> Settings {
    Settings {
        tick_ps: 1000,
        flit_bytes: 1,
        mtu: 100,
        overhead: 0,
        link_rate: 1.0,
        terminal_rate: 1.0,
        injection_rate: 1.0,
        consumption_rate: 1.0,
        link_delay_ps: 10_000,
        switch_delay_ps: 5_000,
        input_flits: 400,
        output_flits: 200,
        speed_up: 1.0,
        parallel_fills: 1,
        parallel_reads: 0,
        reconsider_ps: 0,
        random_arbiter: false,
        any_first_lane: false,
        source_queue: 4,
    }
}

fn tables(fabric: &Fabric, engine: &str) -> Tables {
    let engine = route::engine(engine, &EngineOptions::default()).unwrap();
    engine.route(fabric, &Demand::oblivious(), LayerBudget::new(8).unwrap()).unwrap()
}

/// With output buffers, first come first served or drawn, and without.
fn simple_ways() -> [Settings; 3] {
    let (drawn, unbuffered) =
        (Settings { random_arbiter: true, ..simple() }, Settings { output_flits: 0, ..simple() });
    [simple(), drawn, unbuffered]
}

/// Sends one message from each member to `to` at the same place; ticks of the last delivery.
fn once(fabric: &Fabric, settings: Settings, members: &[u32], to: &[u32], bytes: u32) -> u64 {
    let (net, tables) = (Net::of_fabric(fabric), tables(fabric, "minhop"));
    let router = TableRouter::new(fabric, &net, &tables).unwrap();
    let script = Script::once(members, net.terminals(), to.to_vec(), bytes);
    let mut simulator = Simulator::new(&net, settings, &router, script, 1).unwrap();
    assert_eq!(simulator.run(u64::MAX), Ended::Finished);
    simulator.traffic.finished().unwrap()
}

#[test]
fn one_packet_takes_what_its_way_takes() {
    // Two switches in a line, one host each: three cables, two switches, one packet time.
    let fabric = generate("mesh:2,hosts=1").unwrap();
    for settings in simple_ways() {
        assert_eq!(once(&fabric, settings, &[0], &[1], 100), 3 * 10 + 2 * 5 + 100);
    }
}

#[test]
fn one_flow_gets_the_whole_cable() {
    let fabric = generate("mesh:3,hosts=1").unwrap();
    for settings in simple_ways() {
        assert_eq!(once(&fabric, settings, &[0], &[2], 100_000), 4 * 10 + 3 * 5 + 100_000);
    }
    // A sink at half the rate takes twice as long.
    let slow = Settings { consumption_rate: 0.5, ..simple() };
    assert_eq!(once(&fabric, slow, &[0], &[2], 100_000), 4 * 10 + 3 * 5 + 200_000);
    // One packet per round of credits: room for one packet, which travels 100 + 10 + 5 until it is
    // read, for 100, and whose credit takes 10.
    let tight = Settings { input_flits: 100, output_flits: 0, ..simple() };
    let one = once(&fabric, tight, &[0], &[2], 100);
    let many = once(&fabric, tight, &[0], &[2], 10_000);
    assert_eq!((many - one) / 99, 10 + 5 + 100 + 10);
}

#[test]
fn a_fast_terminal_takes_what_several_cables_bring() {
    // Both neighbours of a switch send to its host.
    let fabric = generate("mesh:3,hosts=1").unwrap();
    let direct = Settings { terminal_rate: 4.0, injection_rate: 4.0, consumption_rate: 4.0, ..simple() };
    for (settings, least) in [(simple(), 200_000), (direct, 100_000)] {
        let took = once(&fabric, settings, &[0, 2], &[1, 1], 100_000);
        assert!((least..least + 300).contains(&took), "{took} ticks, at least {least}");
    }
}

#[test]
fn two_flows_share_a_cable_evenly() {
    // Hosts 0 and 1 on one switch, 2 and 3 on the other, one cable.
    let fabric = generate("mesh:2,hosts=2").unwrap();
    for settings in [simple(), Settings { output_flits: 0, ..simple() }] {
        let (net, tables) = (Net::of_fabric(&fabric), tables(&fabric, "minhop"));
        let router = TableRouter::new(&fabric, &net, &tables).unwrap();
        let script = Script::once(&[0, 1], net.terminals(), vec![2, 3], 50_000);
        let mut simulator = Simulator::new(&net, settings, &router, script, 1).unwrap();
        assert_eq!(simulator.run(50_000), Ended::Time);
        let (a, b) = (simulator.stats.consumed_by[2], simulator.stats.consumed_by[3]);
        assert!(a.abs_diff(b) <= 100 && a + b > 49_000, "{a} and {b} bytes in 50,000 ns");
        assert_eq!(simulator.run(u64::MAX), Ended::Finished);
        assert_eq!(simulator.traffic.finished(), Some(3 * 10 + 2 * 5 + 100_000));
    }
}

/// A ring of four whose routes all lead clockwise, on one layer or on one per destination.
fn ring(layers: bool) -> (Fabric, Tables) {
    let fabric = generate("torus:4,hosts=1").unwrap();
    let n = fabric.switches().len();
    let mut ports = vec![Tables::UNREACHABLE; fabric.dest_count() * n];
    let mut layer = vec![Tables::NO_LAYER; fabric.dest_count() * n];
    for d in fabric.dest_ids() {
        let home = fabric.home(d);
        for s in fabric.switch_ids() {
            let up =
                fabric.out(s).iter().find(|c| fabric.channel(**c).to.index() == (s.index() + 1) % n).unwrap();
            let at = d.index() * n + s.index();
            ports[at] =
                if s == home { fabric.last_port(d).get() } else { fabric.channel(*up).from_port.get() };
            // One layer per destination has no circle.
            layer[at] = if layers { home.index() as u8 } else { 0 };
        }
    }
    let tables = Tables::new(&fabric, "test", ports, layer).unwrap();
    (fabric, tables)
}

#[test]
fn a_ring_deadlocks_and_says_where_and_layers_prevent_it() {
    for settings in simple_ways() {
        for layers in [false, true] {
            let (fabric, tables) = ring(layers);
            let net = Net::of_fabric(&fabric);
            let router = TableRouter::new(&fabric, &net, &tables).unwrap();
            let script = Script::once(&[0, 1, 2, 3], net.terminals(), vec![3, 0, 1, 2], 100_000);
            let mut simulator = Simulator::new(&net, settings, &router, script, 1).unwrap();
            let ended = simulator.run(u64::MAX);
            if layers {
                assert_eq!(ended, Ended::Finished);
                assert_eq!(simulator.stats.delivered_bytes, 400_000);
                continue;
            }
            assert_eq!(ended, Ended::Deadlock);
            let circle = simulator.wait_cycle();
            assert_eq!(circle.len(), 4, "{circle:?}");
            for (i, wait) in circle.iter().enumerate() {
                let next = &circle[(i + 1) % 4];
                assert_eq!((wait.wants, wait.wants_lane), (next.link, next.lane));
                assert_eq!(wait.packets, 4, "a buffer of 400 flits is full");
                assert!((wait.link as usize) < net.channels());
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let fabric = generate("random:12,24,24,seed=3").unwrap();
    let (net, tables) = (Net::of_fabric(&fabric), tables(&fabric, "dfsssp"));
    let router = TableRouter::new(&fabric, &net, &tables).unwrap();
    let run = || {
        let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, 5000, 0);
        let mut simulator = Simulator::new(&net, Settings::qdr(), &router, script, 1).unwrap();
        assert_eq!(simulator.run(u64::MAX), Ended::Finished);
        (simulator.stats.last_delivery, simulator.stats.latency, simulator.busy())
    };
    assert_eq!(run(), run());
}

#[test]
fn tables_with_holes_are_refused() {
    let fabric = generate("mesh:3,hosts=1").unwrap();
    let (mut ports, layers) = tables(&fabric, "minhop").into_raw();
    ports[2 * 3 + 1] = Tables::UNREACHABLE;
    let broken = Tables::new(&fabric, "test", ports, layers).unwrap();
    let net = Net::of_fabric(&fabric);
    assert!(TableRouter::new(&fabric, &net, &broken).err().unwrap().to_string().contains("no route"));
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let crossbar = (prop_oneof![Just(0.0), 1.0f64..3.0], 0u8..3, 0u8..4);
    let drawn = any::<bool>();
    (100u32..400, prop_oneof![Just(0u32), 100u32..300], crossbar, 1u32..3, drawn).prop_map(
        |(input_flits, output_flits, (speed_up, parallel_fills, parallel_reads), delay, drawn)| Settings {
            input_flits,
            output_flits,
            speed_up,
            parallel_fills,
            parallel_reads: if drawn { 0 } else { parallel_reads },
            random_arbiter: drawn && output_flits > 0 && speed_up > 0.0,
            link_delay_ps: delay * 7000,
            ..simple()
        },
    )
}

#[test]
fn the_largest_buffers_are_counted_right() {
    let fabric = generate("mesh:3,hosts=3").unwrap();
    let (net, tables) = (Net::of_fabric(&fabric), tables(&fabric, "minhop"));
    let router = TableRouter::new(&fabric, &net, &tables).unwrap();
    let run = |flits: u32| {
        let settings = Settings { input_flits: flits, output_flits: flits, ..simple() };
        let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, 50_000, 0);
        let mut simulator = Simulator::new(&net, settings, &router, script, 1)?;
        let ended = simulator.run(u64::MAX);
        simulator.audit()?;
        Ok((ended, simulator.is_at_rest()))
    };
    assert_eq!(run(65_535), Ok((Ended::Finished, true)));
    assert_eq!(run(65_536), Err("a buffer has more than 65535 flits".to_string()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Nothing is lost or doubled, buffers never hold more than fits, and in the end every credit
    /// is back. Deadlocks may occur: random tables have cycles.
    #[test]
    fn flows_and_credits_are_conserved(
        settings in any_settings(), seed in 0u64..1000, layers in 1usize..4, bytes in 1u32..350, slice in 50u64..400,
    ) {
        let fabric = generate(&format!("random:7,14,12,seed={seed}")).unwrap();
        let tables = random_tables(&fabric, seed, layers, true);
        let net = Net::of_fabric(&fabric);
        let router = TableRouter::new(&fabric, &net, &tables).unwrap();
        let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, bytes, 0);
        let mut simulator = Simulator::new(&net, settings, &router, script, seed).unwrap();
        let (mut until, mut stands) = (0, false);
        let ended = loop {
            until += slice;
            let ended = simulator.run(until);
            prop_assert_eq!(simulator.audit(), Ok(()));
            stands |= !simulator.standing_cycle().is_empty();
            if ended != Ended::Time {
                break ended;
            }
        };
        let total = simulator.traffic.total_bytes();
        let stats = &simulator.stats;
        prop_assert_eq!(stats.injected_packets, stats.delivered_packets + simulator.in_network());
        // A circle that was seen is there to stay. Those that a random arbiter lets wait are not looked at.
        prop_assert_eq!(stands, ended == Ended::Deadlock && !settings.random_arbiter);
        if ended == Ended::Finished {
            prop_assert_eq!(stats.delivered_bytes, total);
            prop_assert_eq!(&stats.sent_by, &stats.consumed_by);
            prop_assert!(simulator.is_at_rest());
        } else {
            prop_assert_eq!(ended, Ended::Deadlock);
            prop_assert!(!simulator.wait_cycle().is_empty());
        }
    }
}

/// Two switches with a host each, and one cable that is busy all the time.
fn one_cable(settings: Settings, bytes: u32, offered: Option<f64>, windows: Windows) -> Outcome {
    let fabric = generate("mesh:2,hosts=1").unwrap();
    let (net, tables) = (Net::of_fabric(&fabric), tables(&fabric, "minhop"));
    let router = TableRouter::new(&fabric, &net, &tables).unwrap();
    let members = vec![0, 1];
    let load = Load { members, destinations: Destinations::Uniform, bytes, offered, windows, drain: false };
    run::load(&net, settings, &router, &load, 1).unwrap()
}

#[test]
fn the_busiest_channel_is_busy_for_its_share_of_the_window() {
    let windows = [
        Windows::Given { warm_up_ns: 30_000.0, measure_ns: 10_000.0 },
        Windows::UntilSteady { most_ns: 100_000.0 },
    ];
    for windows in windows {
        let outcome = one_cable(simple(), 100, None, windows);
        assert!((0.98..=1.0).contains(&outcome.busiest_channel), "{windows:?}: {}", outcome.busiest_channel);
    }
}

/// Messages of a packet and a byte: a cable takes no more than its rate.
#[test]
fn a_cable_accepts_what_it_can_carry_of_messages_of_any_size() {
    let settings = Settings { overhead: 20, input_flits: 480, output_flits: 240, ..simple() };
    let windows = Windows::Given { warm_up_ns: 20_000.0, measure_ns: 50_000.0 };
    for bytes in [1, 100, 101, 250] {
        let accepted = one_cable(settings, bytes, None, windows).steady.unwrap().accepted;
        assert!((0.98..1.01).contains(&accepted), "{bytes} bytes: {accepted}");
    }
}

#[test]
fn hops_of_long_routes_are_counted() {
    let fabric = generate("mesh:300,hosts=1").unwrap();
    let (net, tables) = (Net::of_fabric(&fabric), tables(&fabric, "minhop"));
    let router = TableRouter::new(&fabric, &net, &tables).unwrap();
    let script = Script::once(&[0, 40], net.terminals(), vec![299, 0], 100);
    let outcome = run::exchange(&net, simple(), &router, script, 1).unwrap();
    assert_eq!((outcome.mean_hops, outcome.hops.len()), ((299.0 + 40.0) / 2.0, 300));
    assert_eq!((outcome.hops[40], outcome.hops[299]), (1, 1));
}

/// Until the first packets arrive nothing is known of their rate; hosts that nobody sends to do not keep a run from its end.
#[test]
fn a_light_load_is_not_steady_before_anything_arrives() {
    let windows = Windows::UntilSteady { most_ns: 2_000_000.0 };
    let light = one_cable(simple(), 100, Some(0.001), windows);
    assert!(light.packets > 0 && light.time_ns > 1_000_000.0, "{light:?}");
    assert!(!light.steady.unwrap().reached, "some twenty packets each");
    let fabric = generate("mesh:3,hosts=1").unwrap();
    let (net, tables) = (Net::of_fabric(&fabric), tables(&fabric, "minhop"));
    let router = TableRouter::new(&fabric, &net, &tables).unwrap();
    let (members, destinations) = (vec![0, 1, 2], Destinations::Fixed(vec![1, 0, 2]));
    let load = Load { members, destinations, bytes: 100, offered: None, windows, drain: false };
    assert!(run::load(&net, simple(), &router, &load, 1).unwrap().steady.unwrap().reached);
}
