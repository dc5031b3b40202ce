//! Certificates: those of accepted tables are accepted, damaged ones are refused.

use std::path::Path;
use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{ChannelId, Demand, DestId, Fabric, LayerBudget, Promise, Sl, Tables, TerminalId, Vl};
use sarouter::publish::dump::{read_certificate, write_certificate};
use sarouter::publish::handoff;
use sarouter::route::lanes::fabric_lanes;
use sarouter::route::{EngineOptions, engine};
use sarouter::verify::{Beside, Certificate, Checks, Finding, certify, judge_certified, judge_with};

use crate::helpers::{altered, budget, random_tables, walk};
use crate::program::sarouter;

/// Tables, with a lane map if they are for any SL, and their certificate.
fn certified(spec: &str, name: &str, promise: Promise) -> (Fabric, Tables, Checks, Certificate) {
    let fabric = generate(spec).unwrap();
    let lanes = (promise.any && name == "balanced").then(|| Arc::new(fabric_lanes(&fabric, budget(4)).lanes));
    let engine = engine(name, &EngineOptions { lanes, ..EngineOptions::default() }).unwrap();
    let tables = engine.route(&fabric, &Demand::oblivious(), budget(4)).unwrap();
    let checks = Checks { promise, hosts_only: false };
    let certificate = certify(&fabric, &tables, budget(4), checks, Beside::default()).unwrap();
    (fabric, tables, checks, certificate)
}

fn cases() -> Vec<(Fabric, Tables, Checks, Certificate)> {
    let any = Promise { any: true, ..Promise::NOTHING };
    vec![
        certified("torus:4x4,hosts=2", "nue", Promise::TOLD),
        certified("random:12,24,30,seed=3", "balanced", Promise::TOLD),
        certified("kary:3,3", "balanced", Promise::TOLD),
        // Any SL, without a lane map: there are no packets on VL 15.
        certified("kary:2,3", "updown", any),
        certified("torus:3x3x3,hosts=1", "balanced", any),
        certified("dragonfly:4,2,2,5,faults=3%,seed=2", "balanced", any),
    ]
}

/// The buffers of a route, as the switches would choose them.
fn buffers(fabric: &Fabric, tables: &Tables, t: TerminalId, d: DestId) -> Vec<(ChannelId, Vl)> {
    let source = fabric.terminal(t);
    let path = walk(fabric, tables, source.switch, d).unwrap();
    let layer = u64::from(tables.layers_to(d)[source.switch.index()]);
    let mut from = source.port;
    let next = |c: ChannelId| {
        let channel = fabric.channel(c);
        let told = Vl::new(layer).unwrap();
        let vl = |map: &Arc<_>| {
            sarouter::model::LaneMap::vl(map, channel.from, from, channel.from_port, Sl::new(0).unwrap())
        };
        let vl = tables.lanes().map_or(told, vl);
        from = channel.to_port;
        (c, vl)
    };
    path.into_iter().map(next).collect()
}

/// A place where some route goes from one buffer to the next.
fn some_hop(fabric: &Fabric, tables: &Tables, rng: &mut Rng) -> [(ChannelId, Vl); 2] {
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    loop {
        let (t, to) = (hosts[rng.below(hosts.len())], hosts[rng.below(hosts.len())]);
        let route = buffers(fabric, tables, t, fabric.dest_of_terminal(to));
        if route.len() > 1 {
            let at = rng.below(route.len() - 1);
            return [route[at], route[at + 1]];
        }
    }
}

#[test]
fn orders_that_a_route_does_not_climb_are_refused() {
    for (fabric, tables, checks, good) in cases() {
        let judged = |c: &Certificate| judge_certified(&fabric, &tables, budget(4), checks, &[], c);
        assert_eq!(judged(&good), judge_with(&fabric, &tables, budget(4), checks));
        let mut rng = Rng::new(1);
        for turn in 0..400 {
            let hop = some_hop(&fabric, &tables, &mut rng);
            let mut order = good.order().to_vec();
            let [first, second] = hop.map(|b| order.iter().position(|o| *o == b).unwrap());
            assert!(first < second, "{hop:?}");
            match turn % 4 {
                0 => order.swap(first, second),
                1 => drop(order.remove(second)),
                2 => drop(order.remove(first)),
                _ => {
                    let moved = order.remove(first);
                    order.insert(second + rng.below(order.len() - second + 1), moved);
                }
            }
            let verdict = judged(&Certificate::new(&fabric, order).unwrap());
            assert!(!verdict.accepted, "{hop:?} {turn}");
            let is_right = |f: &Finding| matches!(f, Finding::NotCertified { .. });
            assert!(verdict.findings.iter().all(is_right), "{:?}", verdict.findings);
        }
    }
}

/// Tables that have a cycle have no certificate, and those of others do not fit them.
#[test]
fn tables_with_a_cycle_fit_no_certificate() {
    let fabric = generate("mesh:3x3,hosts=1").unwrap();
    let checks = Checks::default();
    let (mut refused, mut good) = (0, 0);
    let fitting = engine("nue", &EngineOptions::default()).unwrap();
    let fitting = fitting.route(&fabric, &Demand::oblivious(), budget(4)).unwrap();
    let foreign = certify(&fabric, &fitting, budget(4), checks, Beside::default()).unwrap();
    for seed in 1..200 {
        let tables = random_tables(&fabric, seed, 1 + seed as usize % 4, seed % 2 == 0);
        let is_accepted = judge_with(&fabric, &tables, budget(4), checks).accepted;
        let found = certify(&fabric, &tables, budget(4), checks, Beside::default());
        assert_eq!(found.is_some(), is_accepted, "seed {seed}");
        match found {
            Some(found) => {
                assert!(judge_certified(&fabric, &tables, budget(4), checks, &[], &found).accepted);
                good += 1;
            }
            None => {
                refused += 1;
                assert!(!judge_certified(&fabric, &tables, budget(4), checks, &[], &foreign).accepted);
            }
        }
    }
    assert!(refused > 20 && good > 0, "{refused} {good}");
}

/// What is no matter of order is found as well, and as what it is.
#[test]
fn tables_that_are_wrong_otherwise_are_refused_beside_a_certificate() {
    let (fabric, tables, checks, good) = certified("mesh:3x3,hosts=1", "nue", Promise::TOLD);
    let judged = |tables: &Tables, checks: Checks| {
        judge_certified(&fabric, tables, budget(4), checks, &[], &good).findings
    };
    let hole = altered(&fabric, &tables, |ports, _| ports[1] = Tables::UNREACHABLE);
    assert!(matches!(judged(&hole, checks)[0], Finding::Hole { .. }));
    let late = altered(&fabric, &tables, |_, layers| layers[1] = 9);
    assert!(matches!(judged(&late, checks)[0], Finding::OverBudget { layer: 9, .. }));
    // Packets that go back and forth end nowhere.
    let host = fabric.host_ids().next().unwrap();
    let (d, home) = (fabric.dest_of_terminal(host), fabric.terminal(host).switch);
    let cable = fabric.channels().iter().find(|c| c.from != home && c.to != home).unwrap();
    let at = |s: sarouter::model::SwitchId| d.index() * fabric.switches().len() + s.index();
    let circle = altered(&fabric, &tables, |ports, _| {
        ports[at(cable.from)] = cable.from_port.get();
        ports[at(cable.to)] = cable.to_port.get();
    });
    let ends_nowhere = |f: &Finding| matches!(f, Finding::NotCertified { next: None, .. });
    let found = judged(&circle, checks);
    assert!(found.iter().any(|f| matches!(f, Finding::Loop { .. })), "{found:?}");
    assert!(found.iter().any(ends_nowhere), "{found:?}");
    // Routes to switches count unless only those between hosts are asked for.
    let switch = fabric.dest_ids().find(|d| !fabric.is_host_dest(*d)).unwrap();
    let first = switch.index() * fabric.switches().len();
    let deaf = altered(&fabric, &tables, |ports, _| {
        ports[first..first + 9].fill(Tables::UNREACHABLE);
    });
    assert!(!judged(&deaf, checks).is_empty());
    assert_eq!(judged(&deaf, Checks { hosts_only: true, ..checks }), []);
    let other = generate("torus:4x4,hosts=2").unwrap();
    let verdict = judge_certified(&other, &tables, budget(4), checks, &[], &good);
    assert!(matches!(verdict.findings[..], [Finding::WrongFabric { .. }]), "{verdict:?}");
}

/// A map that wants more VLs than there are is refused beside a certificate, too.
#[test]
fn lanes_over_budget_are_refused_beside_a_certificate() {
    let any = Promise { any: true, ..Promise::NOTHING };
    let (fabric, tables, checks, good) = certified("torus:3x3x3,hosts=1", "balanced", any);
    let one = LayerBudget::new(1).unwrap();
    let verdict = judge_certified(&fabric, &tables, one, checks, &[], &good);
    assert!(verdict.findings.iter().any(|f| matches!(f, Finding::LaneOverBudget { .. })), "{verdict:?}");
}

#[test]
fn text_and_back_is_the_same() {
    for (fabric, _, _, certificate) in cases() {
        let mut text = Vec::new();
        write_certificate(&fabric, &certificate, &mut text).unwrap();
        assert_eq!(read_certificate(&fabric, Path::new("c"), &text[..]).unwrap(), certificate);
        let lines: Vec<&str> = std::str::from_utf8(&text).unwrap().lines().collect();
        let wrong = |lines: &[&str]| {
            let text = lines.join("\n") + "\n";
            read_certificate(&fabric, Path::new("c"), text.as_bytes()).unwrap_err().to_string()
        };
        let twice = wrong(&[&lines[..3], &lines[1..2]].concat());
        assert_eq!(twice, "c:4: the same buffer comes twice");
        assert!(wrong(&lines[1..]).starts_with("c:1: no certificate of this fabric, "));
        assert!(wrong(&[lines[0], "0x1 1 0"]).starts_with("c:2: the fabric has no switch"));
        let nowhere = format!("{} 254 0", lines[1].split(' ').next().unwrap());
        assert!(wrong(&[lines[0], &nowhere]).starts_with("c:2: port 254 of"));
    }
}

#[test]
fn a_hand_off_file_brings_its_certificate() {
    for (fabric, tables, checks, certificate) in cases() {
        let bytes =
            handoff::encode_lids(&fabric, &tables, None, None, Some((&certificate, checks.promise)), 1);
        let found = handoff::decode(&bytes).unwrap();
        assert_eq!(found.certificate(&fabric).as_ref(), Some(&certificate));
        assert_eq!(found.promise, Some(checks.promise));
        let other = generate("kary:2,2").unwrap();
        assert_eq!(found.certificate(&other), None);
        assert!(judge_certified(&fabric, &tables, budget(4), checks, &[], &certificate).accepted);
    }
}

#[test]
fn verify_takes_what_verify_wrote_and_refuses_it_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let spec = ["--fabric", "torus:4x4,hosts=2"];
    let route = [&["route"], &spec[..], &["--engine", "nue", "--out", "t"]].concat();
    assert_eq!(sarouter(dir.path(), &route).status.code(), Some(0));
    let verify = |words: &[&str]| {
        let output = sarouter(dir.path(), [&["verify"], &spec[..], &["--tables", "t"], words].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let full = verify(&["--write-certificate", "c.txt"]);
    assert_eq!(full.0, Some(0), "{full:?}");
    assert_eq!(verify(&["--certificate", "c.txt"]), full);
    let text = std::fs::read_to_string(dir.path().join("c.txt")).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut lines: Vec<&str> = rest.lines().collect();
    lines.reverse();
    std::fs::write(dir.path().join("bad.txt"), format!("{first}\n{}\n", lines.join("\n"))).unwrap();
    let bad = verify(&["--certificate", "bad.txt"]);
    assert_eq!(bad.0, Some(1), "{bad:?}");
    assert!(bad.1.contains("not certified: the route to "), "{bad:?}");
}
