//! What is proved: promises, lane maps, and what may be in flight beside the tables in question.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{
    ChannelId, Demand, DestId, Fabric, LaneMap, PortNum, PortPeer, Promise, Sl, SwitchId, Tables, Vl,
};
use sarouter::publish::dump::{read_lanes, write_lanes};
use sarouter::route::{EngineOptions, engine};
use sarouter::verify::{Beside, Checks, Finding, Verdict, judge_beside};

use crate::helpers::{budget, random_tables};

fn promise(text: &str) -> Promise {
    text.parse().unwrap()
}

fn judge(fabric: &Fabric, tables: &Tables, promise: Promise, beside: Beside<'_>) -> Verdict {
    let checks = Checks { promise, hosts_only: false };
    judge_beside(fabric, std::slice::from_ref(tables), budget(15), checks, beside)
}

/// Lanes drawn for each turn, `vls` of them; the same for all SLs, or one of two for each.
fn random_map(fabric: &Fabric, seed: u64, vls: usize, uniform: bool) -> Arc<LaneMap> {
    let mut rng = Rng::new(seed);
    let mut vl = |_| Vl::new(rng.below(vls) as u64).unwrap();
    Arc::new(LaneMap::fill(fabric, |_, _, _| match uniform {
        true => [vl(()); 16],
        false => {
            let pair = [vl(()), vl(())];
            std::array::from_fn(|sl| pair[sl % 2])
        }
    }))
}

/// A VL of a channel.
type Buffer = (ChannelId, u8);

/// Follows every packet of a promise through all that switches may do.
struct Oracle<'a> {
    fabric: &'a Fabric,
    in_force: Vec<&'a Tables>,
    graph: DiGraphMap<Buffer, ()>,
}

impl Oracle<'_> {
    fn lanes(&self, s: SwitchId, from: PortNum, to: PortNum, sl: u8) -> BTreeSet<u8> {
        let lane = |t: &&Tables| match t.lanes() {
            Some(map) => map.vl(s, from, to, Sl::new(sl.into()).unwrap()).get(),
            None => sl,
        };
        self.in_force.iter().map(lane).collect()
    }

    fn follow(
        &mut self,
        (at, from): (SwitchId, PortNum),
        came: Option<Buffer>,
        (d, sl): (DestId, u8),
        seen: &mut BTreeSet<(SwitchId, PortNum, Option<Buffer>)>,
    ) {
        if at == self.fabric.home(d) || !seen.insert((at, from, came)) {
            return;
        }
        for port in self.in_force.iter().filter_map(|t| t.port(at, d)).collect::<BTreeSet<_>>() {
            let Some(PortPeer::Channel(c)) = self.fabric.peer(at, port) else { continue };
            for vl in self.lanes(at, from, port, sl) {
                came.into_iter().for_each(|before| _ = self.graph.add_edge(before, (c, vl), ()));
                let next = self.fabric.channel(c);
                self.follow((next.to, next.to_port), Some((c, vl)), (d, sl), seen);
            }
        }
    }

    /// SLs of packets from terminals of a switch.
    fn sls(&self, told: &[&Tables], promise: Promise, s: SwitchId, d: DestId) -> BTreeSet<u8> {
        if promise.any {
            return (0..16).collect();
        }
        let mut sls: BTreeSet<u8> = promise.untold.then_some(0).into_iter().collect();
        for tables in told {
            sls.extend(tables.layer(s, d).map(|l| l.get()));
            if promise.reply && self.fabric.dest_terminal(d).is_some() {
                let back = self.fabric.attached(s).iter().map(|t| self.fabric.dest_of_terminal(*t));
                sls.extend(back.filter_map(|t| tables.layer(self.fabric.home(d), t)).map(|l| l.get()));
            }
        }
        sls
    }

    fn finds_no_cycle(mut self, told: &[&Tables], promise: Promise) -> bool {
        for d in self.fabric.dest_ids() {
            for s in self.fabric.switch_ids() {
                let own = (promise.any || promise.untold) && self.fabric.dest_terminal(d).is_some();
                if own {
                    let sls = if promise.any { 0..16 } else { 0..1 };
                    sls.for_each(|sl| self.follow((s, PortNum::ZERO), None, (d, sl), &mut BTreeSet::new()));
                }
                for t in self.fabric.attached(s) {
                    for sl in self.sls(told, promise, s, d) {
                        let from = self.fabric.terminal(*t).port;
                        self.follow((s, from), None, (d, sl), &mut BTreeSet::new());
                    }
                }
            }
        }
        tarjan_scc(&self.graph).iter().all(|p| p.len() == 1 && !self.graph.contains_edge(p[0], p[0]))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Tables of this epoch, one before and one that switches may still have, with or without lane
    /// maps, against packets that are followed one by one.
    #[test]
    fn a_verdict_is_what_packets_may_do(
        switches in 3..8usize, extra in 0..4usize, seed in 0..10_000u64, parts in 0..64u8, kind in 0..4u8,
        layers in 1..4usize, vls in 1..5usize, wander: bool,
    ) {
        let spec = format!("random:{switches},{},{},seed={seed}", switches + 2, switches - 1 + extra);
        let fabric = generate(&spec).unwrap();
        let map = random_map(&fabric, seed, vls, kind != 2);
        let of = |n: u64| {
            let lanes = match (kind, n) {
                (0, _) => None,
                // The change to a map: switches that have it not yet stay on VL = SL.
                (3, 2) => None,
                _ => Some(Arc::clone(&map)),
            };
            random_tables(&fabric, seed + n, layers, wander && n == 0).with_lanes(lanes)
        };
        let (now, before, other) = (of(0), of(1), of(2));
        let names = ["told", "untold", "any", "reply", "since", "mixed"];
        let chosen = names.iter().enumerate().filter(|(i, _)| parts >> i & 1 == 1).map(|(_, n)| *n);
        let chosen: Vec<&str> = chosen.collect();
        let promise: Promise = if chosen.is_empty() { Promise::TOLD } else { promise(&chosen.join("+")) };
        let beside = Beside {
            since: if parts & 16 != 0 { std::slice::from_ref(&before) } else { &[] },
            mixed: if parts & 32 != 0 { std::slice::from_ref(&other) } else { &[] },
            ..Beside::default()
        };
        let told: Vec<&Tables> = Some(&now).filter(|_| promise.told).into_iter().chain(beside.since).chain(beside.mixed).collect();
        let in_force = std::iter::once(&now).chain(beside.mixed).collect();
        let oracle = Oracle { fabric: &fabric, in_force, graph: DiGraphMap::new() };
        let acyclic = oracle.finds_no_cycle(&told, promise);
        let verdict = judge(&fabric, &now, promise, beside);
        // Whoever wanders may close a ring by itself in the mixture: all else is in order.
        let others: Vec<_> = verdict.findings.iter().filter(|f| !matches!(f, Finding::Cycle { .. })).collect();
        prop_assert!(others.is_empty(), "{others:?}");
        prop_assert_eq!(verdict.accepted, acyclic, "{} {}", spec, promise);
        for finding in &verdict.findings {
            let Finding::Cycle { channels, .. } = finding else { continue };
            prop_assert!(channels.len() > 1 && channels.iter().all(|s| s.vl < 15 && s.sl < 16));
        }
    }

    #[test]
    fn reading_a_printed_map_gives_the_same(switches in 2..9usize, seed in 0..10_000u64, vls in 1..16usize) {
        let spec = format!("random:{switches},{},{},seed={seed}", switches + 3, switches + 1);
        let fabric = generate(&spec).unwrap();
        let map = random_map(&fabric, seed, vls, false);
        let mut text = Vec::new();
        write_lanes(&fabric, &map, &mut text).unwrap();
        let read = read_lanes(&fabric, Path::new("lanes.txt"), &text[..]).unwrap();
        for s in fabric.switch_ids() {
            for (from, to) in LaneMap::turns(&fabric, s) {
                prop_assert_eq!(read.row(s, from, to), map.row(s, from, to));
            }
        }
    }
}

#[test]
fn a_map_cut_short_or_wrong_is_refused_with_the_line() {
    let fabric = generate("mesh:3,hosts=1").unwrap();
    let mut text = Vec::new();
    write_lanes(&fabric, &random_map(&fabric, 1, 3, false), &mut text).unwrap();
    let read = |text: &[u8]| read_lanes(&fabric, Path::new("lanes.txt"), text).map_err(|e| e.to_string());
    assert!(read(&text).is_ok());
    for short in (0..text.len()).map(|n| &text[..n]) {
        assert!(read(short).is_err(), "accepted {:?}", String::from_utf8_lossy(short));
    }
    let text = String::from_utf8(text).unwrap();
    let guid = fabric.switches()[0].guid;
    for (line, wanted) in [
        (format!("{guid} 0 1 0000000000000000"), "come twice"),
        (format!("{guid} 0 99 0000000000000000"), "\"99\" is not a port"),
        (format!("{guid} 0 1 00000000000000f0"), "is not 16 VLs"),
        (format!("{guid} 0 1 000000000000000"), "is not 16 VLs"),
        ("0x0000000000000001 0 1 0000000000000000".to_string(), "has no switch"),
        ("what".to_string(), "not a GUID"),
    ] {
        let error = read(format!("{text}{line}\n").as_bytes()).unwrap_err();
        let number = text.lines().count() + 1;
        assert!(error.starts_with(&format!("lanes.txt:{number}: ")) && error.contains(wanted), "{error}");
    }
}

fn tables(fabric: &Fabric, name: &str) -> Tables {
    let engine = engine(name, &EngineOptions::default()).unwrap();
    engine.route(fabric, &Demand::oblivious(), budget(8)).unwrap()
}

/// In from a host: VL 0; in from a switch: VL 1.
fn by_distance(fabric: &Fabric) -> Arc<LaneMap> {
    Arc::new(LaneMap::uniform(fabric, |s, from, _| {
        let is_cable = matches!(fabric.peer(s, from), Some(PortPeer::Channel(_)));
        Vl::new(u64::from(is_cable)).unwrap()
    }))
}

/// The table of what live traffic does, on a fabric of diameter 2: two shortest hops fit two lanes.
#[test]
fn two_lanes_make_all_tables_of_two_hops_safe_with_any_program() {
    let fabric = generate("slimfly:5,hosts=2").unwrap();
    let [minhop, sssp] = ["minhop", "sssp"].map(|name| tables(&fabric, name));
    let accepted = |t: &Tables, p: &str, beside| judge(&fabric, t, promise(p), beside).accepted;
    let alone = Beside::default();
    assert!(!accepted(&minhop, "told", alone) && !accepted(&sssp, "told", alone));
    let map = by_distance(&fabric);
    let [minhop, sssp] = [minhop, sssp].map(|t| t.with_lanes(Some(Arc::clone(&map))));
    for text in ["told", "untold", "any", "told+reply"] {
        assert!(accepted(&minhop, text, alone) && accepted(&sssp, text, alone), "{text}");
    }
    let beside = Beside { mixed: std::slice::from_ref(&sssp), ..Beside::default() };
    assert!(accepted(&minhop, "any+mixed", beside));
    // The change to the map itself is not safe: switches without it have one lane only.
    let without = sssp.clone().with_lanes(None);
    let beside = Beside { mixed: std::slice::from_ref(&without), ..Beside::default() };
    assert!(!accepted(&minhop, "any+mixed", beside));
    // Nor is a map of which one lane is missing.
    let verdict = judge_beside(
        &fabric,
        std::slice::from_ref(&minhop),
        budget(1),
        Checks { promise: promise("any"), hosts_only: false },
        alone,
    );
    assert!(matches!(verdict.findings[0], Finding::LaneOverBudget { vl: 1, budget: 1, .. }), "{verdict:?}");
}
