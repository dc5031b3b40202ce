//! Tables that change while packets fly.

use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{Demand, Fabric, FabricLanes, Group, LaneMap, LayerBudget, Tables, TerminalId, Vl};
use sarouter::route::lanes::{fabric_lanes, mended};
use sarouter::route::{EngineOptions, engine};
use sarouter::simulate::changes::{self, Changes, Epoch, Plan};
use sarouter::simulate::run::Outcome;
use sarouter::simulate::traffic::open::Destinations;
use sarouter::simulate::traffic::script::Script;
use sarouter::simulate::{Ended, Net, Settings, Simulator, TableRouter};
use serde_json::Value;

use super::helpers::random_tables;
use super::often::often;
use super::program::sarouter;

/// Room for one packet on each lane: circles close soon.
fn tight() -> Settings {
    Settings { input_flits: 33, output_flits: 33, ..Settings::qdr() }
}

fn plan(net: &Net, changes: u32) -> Plan {
    Plan {
        changes,
        every_ns: 5_000.0,
        members: net.hosts().to_vec(),
        destinations: Destinations::Uniform,
        bytes: 2048,
        offered: Some(0.9),
        untold: 0.3,
        answers: 0.5,
        vls: LayerBudget::new(8).unwrap(),
        seed: 1,
    }
}

/// Lanes that no program has to know, where the fabric needs them.
fn lanes(fabric: &Fabric) -> Option<Arc<FabricLanes>> {
    let found = fabric_lanes(fabric, LayerBudget::new(8).unwrap());
    found.needs_map().then(|| Arc::new(found.lanes))
}

/// Tables of `balanced` for one job on about half of the hosts, others in each epoch.
fn epoch(fabric: &Fabric, lanes: Option<Arc<FabricLanes>>, n: u32) -> Result<Tables, String> {
    let mut rng = Rng::new(n.into());
    let members: Vec<TerminalId> = fabric.host_ids().filter(|_| rng.below(2) == 0).collect();
    let demand = Demand::new(vec![Group::new(members)], Vec::new());
    let engine = engine("balanced", &EngineOptions { lanes, ..EngineOptions::default() }).unwrap();
    engine.route(fabric, &demand, LayerBudget::new(8).unwrap()).map_err(|e| e.to_string())
}

fn run(spec: &str, changes: u32, tables: impl FnMut(&Fabric, u32) -> Result<Tables, String>) -> Outcome {
    let fabric = generate(spec).unwrap();
    let mut tables = tables;
    let net = Net::of_fabric(&fabric);
    let epoch = |tables| Epoch { tables, dies: None, waits: false };
    changes::run(&fabric, &net, tight(), &plan(&net, changes), |n| tables(&fabric, n).map(epoch)).unwrap()
}

fn of(outcome: &Outcome) -> &Changes {
    outcome.changes.as_ref().unwrap()
}

#[test]
fn nothing_waits_for_ever_and_nothing_is_lost_in_the_safe_mode() {
    for spec in
        ["torus:4x4,hosts=2", "dragonfly:4,2,2,5", "random:12,36,30,seed=1", "hyperx:4x4,hosts=2", "kary:3,3"]
    {
        let (mut given, made) = (None, often(40, 16) as u32);
        let outcome = run(spec, made, |fabric, n| {
            let lanes = given.get_or_insert_with(|| lanes(fabric));
            epoch(fabric, lanes.clone(), n)
        });
        let changes = of(&outcome);
        assert_eq!((outcome.ended, changes.deadlock_in), (Ended::Finished, None), "{spec}");
        assert!(changes.is_whole() && changes.made == made, "{spec}: {changes:?}");
        let counts = &changes.counts;
        assert!(changes.entries > 25 * u64::from(made) && changes.sl2vl_entries == 0, "{spec}: {changes:?}");
        assert!(
            counts.requests > 75 * u64::from(made) && 2 * counts.answers > counts.requests * 9 / 10,
            "{spec}: {counts:?}"
        );
        let fixed = counts.on_sl_0.min(counts.on_own_sl) as f64;
        assert!(fixed > 0.04 * counts.told as f64, "{spec}: {counts:?}");
        assert_eq!(counts.told + counts.on_sl_0 + counts.on_own_sl, counts.requests + counts.answers);
    }
}

/// Layers that programs must be told, and VL = SL, as before there were lanes; and lanes in the same run.
#[test]
fn free_layers_deadlock_where_lanes_do_not() {
    let with = |is_safe: bool, changes: u32| {
        let mut epochs: Vec<Tables> = Vec::new();
        run("torus:5x5,hosts=2", changes, |fabric, n| {
            if epochs.is_empty() {
                let lanes = lanes(fabric).filter(|_| is_safe);
                epochs = (0..4).map(|n| epoch(fabric, lanes.clone(), n).unwrap()).collect();
            }
            Ok(epochs[n as usize % 4].clone())
        })
    };
    let outcome = with(false, 1000);
    let (changes, circle) = (of(&outcome), &outcome.deadlock);
    assert_eq!((outcome.ended, changes.deadlock_in), (Ended::Deadlock, Some(changes.made)));
    assert!(changes.counts.on_old_sl > 0 && !changes.is_whole(), "{changes:?}");
    for (here, next) in circle.iter().zip(circle.iter().cycle().skip(1)) {
        assert_eq!((here.wait.wants, here.wait.wants_lane), (next.wait.link, next.wait.lane));
        assert_eq!(here.wanted, next.channel);
        assert!(here.wait.packets > 0);
    }
    assert!(circle.len() > 1);
    let safe = with(true, 2 * changes.made);
    assert!(safe.ended == Ended::Finished && of(&safe).is_whole(), "{:?}", of(&safe));
}

#[test]
fn packets_that_meet_no_entry_are_lost_and_nobody_waits_for_them() {
    let outcome = run("mesh:3,hosts=2", 2, |fabric, n| {
        let tables = random_tables(fabric, 1, 1, false);
        // The middle switch forgets the first host, and learns it again.
        Ok(tables.edited(|ports, _| ports[1] = if n == 1 { Tables::UNREACHABLE } else { ports[1] }))
    });
    let (changes, counts) = (of(&outcome), of(&outcome).counts);
    assert_eq!((outcome.ended, changes.entries), (Ended::Finished, 2));
    assert!(counts.lost > 0 && !changes.is_whole(), "{counts:?}");
    let missing = counts.requests + counts.answers - counts.requests_arrived - counts.answers_arrived;
    assert_eq!(counts.lost, missing, "messages are one packet");
}

#[test]
fn the_order_of_a_connection_is_kept_where_its_route_stays() {
    let same = run("random:12,36,30,seed=1", 10, |fabric, _| epoch(fabric, None, 1));
    assert_eq!((of(&same).counts.out_of_order, of(&same).entries), (0, 0));
    let other = run("random:12,36,30,seed=1", 15, |fabric, n| epoch(fabric, None, n));
    assert!(of(&other).counts.out_of_order > 0);
}

#[test]
fn switches_get_another_lane_map_as_well() {
    let mut map = 0;
    let outcome = run("mesh:3,hosts=2", 2, |fabric, n| {
        let lane = Vl::new(u64::from(n % 2)).unwrap();
        map += 1;
        let of = Arc::new(LaneMap::uniform(fabric, |_, _, _| lane));
        Ok(random_tables(fabric, 1, 1, false).with_lanes(Some(of)))
    });
    // Middle: 4 ports, two cables, and each of these from 4 ports in; ends: 3 ports.
    assert_eq!((of(&outcome).entries, map), (0, 3));
    let turns: u64 = [3, 4, 3].iter().map(|ports| ports * (ports + 1) - ports).sum();
    assert_eq!(of(&outcome).sl2vl_entries, 2 * 16 * turns);
    assert!(of(&outcome).is_whole());
}

/// A cable dies during the third change; the fourth leads around it, or none does.
#[test]
fn a_dead_cable_takes_what_is_on_it_and_no_more() {
    for spec in ["torus:4x4,hosts=2", "kary:3,3"] {
        let fabric = generate(spec).unwrap();
        let (net, vls) = (Net::of_fabric(&fabric), LayerBudget::new(8).unwrap());
        let dies = fabric.channels()[0];
        let left = fabric.without(|c| *fabric.channel(c) == dies, |_| false).unwrap();
        let before = fabric_lanes(&fabric, vls).lanes;
        let after = Arc::new(mended(&before, &fabric, &left, vls).lanes);
        let before = Arc::new(before);
        for leads_around in [true, false] {
            let epochs = |n: u32| {
                let knows = leads_around && n > 3;
                let (fabric, lanes) = if knows { (&left, &after) } else { (&fabric, &before) };
                let dies = (n == 3).then_some((dies.from, dies.from_port));
                epoch(fabric, Some(Arc::clone(lanes)), n).map(|tables| Epoch { tables, dies, waits: false })
            };
            let outcome = changes::run(&fabric, &net, tight(), &plan(&net, 8), epochs).unwrap();
            let (changes, counts) = (of(&outcome), of(&outcome).counts);
            assert_eq!((outcome.ended, changes.cables_lost, counts.lost), (Ended::Finished, 1, 0));
            assert!(counts.lost_on_cable > 0, "{spec}: {counts:?}");
            assert_eq!((changes.is_whole(), changes.lost_later == 0), (leads_around, leads_around), "{spec}");
        }
    }
}

/// A ring that stands still for ever, beside a flow that goes on.
#[test]
fn a_circle_is_found_while_others_move() {
    let fabric = generate("torus:4,hosts=2").unwrap();
    let n = fabric.switches().len();
    let mut ports = vec![Tables::UNREACHABLE; fabric.dest_count() * n];
    for d in fabric.dest_ids() {
        for s in fabric.switch_ids() {
            let next =
                |c: &&sarouter::model::ChannelId| fabric.channel(**c).to.index() == (s.index() + 1) % n;
            let up = fabric.out(s).iter().find(next).unwrap();
            let home = fabric.home(d) == s;
            ports[d.index() * n + s.index()] =
                if home { fabric.last_port(d).get() } else { fabric.channel(*up).from_port.get() };
        }
    }
    let tables = Tables::new(&fabric, "test", ports, vec![0; fabric.dest_count() * n]).unwrap();
    let net = Net::of_fabric(&fabric);
    let router = TableRouter::new(&fabric, &net, &tables).unwrap();
    // Hosts 2s and 2s + 1 are at switch s. Three steps round the ring, and one host to its neighbour.
    let script = Script::once(&[0, 2, 4, 6, 1], net.terminals(), vec![6, 0, 2, 4, 0], 10_000_000);
    for settings in [tight(), Settings { output_flits: 0, ..tight() }] {
        let mut simulator = Simulator::new(&net, settings, &router, script.clone(), 1).unwrap();
        assert!(simulator.standing_cycle().is_empty());
        assert_eq!(simulator.run(100_000), Ended::Time);
        let moved = simulator.stats.delivered_packets;
        let circle = simulator.standing_cycle();
        assert_eq!(simulator.run(200_000), Ended::Time);
        assert!(simulator.stats.delivered_packets > moved, "the neighbour still gets packets");
        assert_eq!(simulator.standing_cycle(), circle, "nothing on it has moved");
        assert_eq!(simulator.run(u64::MAX), Ended::Deadlock);
        assert_eq!((circle.len(), simulator.wait_cycle()), (4, circle));
    }
}

#[test]
fn the_command_says_what_came_of_it() {
    let call = ["simulate", "--fabric", "torus:4x4,hosts=2", "--traffic", "uniform", "--load", "0.9"];
    let json = ["--changes", "5", "--every", "5000", "--format", "json"];
    let out = sarouter(".", [&call[..], &json].concat());
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert_eq!(out.stdout, sarouter(".", [&call[..], &json].concat()).stdout, "the same bytes");
    let value: Value = serde_json::from_slice(&out.stdout).unwrap();
    let changes = &value["runs"][0]["changes"];
    assert_eq!(
        (&changes["made"], &changes["lost"], &changes["deadlock_in"]),
        (&5.into(), &0.into(), &Value::Null)
    );
    assert_eq!(changes["requests"], changes["requests_arrived"]);
    assert!(changes["on_own_sl"].as_u64().unwrap() > 0, "{changes}");
    let losing = ["--changes", "6", "--every", "5000", "--lose", "2", "--format", "json"];
    let out = sarouter(".", [&call[..], &losing].concat());
    let value: Value = serde_json::from_slice(&out.stdout).unwrap();
    let changes = &value["runs"][0]["changes"];
    assert_eq!((&changes["cables_lost"], &changes["lost_later"]), (&2.into(), &0.into()), "{changes}");
    // As by the service: in steps, which are proved, so that nothing waits in a circle.
    let lost = |key: &str| changes[key].as_u64().unwrap();
    assert!(lost("lost_on_cable") + lost("lost_waiting") > 0, "{changes}");
    assert_eq!((lost("lost"), &changes["deadlock_in"]), (lost("lost_waiting"), &Value::Null), "{changes}");
    let text = sarouter(".", [&call[..], &["--changes", "5", "--untold", "0"]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("5 changes, ") && text.contains(" 0 on SL 0, 0 on an own SL"), "{text}");
    for (bad, message) in [
        (&["--changes", "5", "--untold", "1.5"][..], "from 0 to 1"),
        (&["--changes", "5", "--engine", "minhop"], "the same for all jobs"),
        (&["--changes", "5", "--engine", "sar"], "only balanced"),
        (&["--changes", "5", "--every", "0"], "above 0"),
        (&["--changes", "5", "--lose", "5"], "fewer than changes"),
        (&["--changes", "5", "--hardware", "caminos"], "random arbiter"),
        (&["--untold", "0.5"], "--changes"),
        (&["--changes", "5", "--tables", "t"], "cannot be used"),
    ] {
        let out = sarouter(".", [&call[..], bad].concat());
        assert_eq!(out.status.code(), Some(2), "{bad:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains(message), "{bad:?}: {out:?}");
    }
    let exchange =
        sarouter(".", ["simulate", "--fabric", "torus:4x4", "--traffic", "shift", "--changes", "5"]);
    assert!(String::from_utf8_lossy(&exchange.stderr).contains("an exchange has an end"), "{exchange:?}");
}
