//! The lane map and the closure of a fabric, as laws: whatever tables are inside the closure may be mixed on any SL, and
//! losses are mended so that it stays so.

use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{
    Demand, DestId, Fabric, FabricLanes, Group, PortNum, PortPeer, Promise, SwitchId, Tables, TerminalId,
};
use sarouter::route::lanes::{Way, fabric_lanes, mend, mended, tree_ways};
use sarouter::route::{EngineOptions, engine};
use sarouter::verify::{Beside, Checks, Verdict, judge_beside};

use crate::helpers::{budget, safe_tables};
use crate::losses::{arriving, without_ways};

/// One job on about half of the hosts.
fn job(fabric: &Fabric, seed: u64) -> Demand {
    let mut rng = Rng::new(seed);
    let members: Vec<TerminalId> = fabric.host_ids().filter(|_| rng.below(2) == 0).collect();
    Demand::new(vec![Group::new(members)], Vec::new())
}

fn judge(fabric: &Fabric, tables: &Tables, others: &[Tables], vls: u64) -> Verdict {
    let checks = Checks { promise: Promise::EVERYTHING, hosts_only: false };
    let beside = Beside { since: others, mixed: others, ..Beside::default() };
    judge_beside(fabric, std::slice::from_ref(tables), budget(vls), checks, beside)
}

/// Everything that is promised holds of tables for three demands, in any mixture.
fn check(fabric: &Fabric, vls: u64) -> Way {
    let found = fabric_lanes(fabric, budget(vls));
    let tables = |demand: &Demand| safe_tables(fabric, demand, &found.lanes);
    let others = [tables(&job(fabric, 1)), tables(&job(fabric, 2))];
    let all = tables(&Demand::oblivious());
    let verdict = judge(fabric, &all, &others, vls);
    assert!(verdict.accepted, "{vls} VLs: {:?}", verdict.findings);
    if !found.needs_map() {
        let plain: Vec<Tables> = others.iter().map(|t| t.clone().with_lanes(None)).collect();
        assert!(judge(fabric, &all.with_lanes(None), &plain, 15).accepted);
    }
    found.way
}

#[test]
fn any_mixture_of_tables_on_any_sl_is_safe() {
    let fabrics = [
        ("kary:3,3", Way::Tree),
        ("fattree:4x6,2", Way::Tree),
        ("slimfly:5,hosts=2", Way::Rule),
        ("hyperx:4x4,hosts=2", Way::Rule),
        ("mesh:4x3x3,hosts=2", Way::Rule),
        ("torus:2x2x2x2,hosts=2", Way::Search { escaped: 0 }),
        ("dragonfly:4,2,2,9", Way::Rule),
        ("torus:4x4x4,hosts=1", Way::Search { escaped: 0 }),
        ("torus:5x5,hosts=2", Way::Search { escaped: 0 }),
        ("random:20,40,60,seed=2", Way::Search { escaped: 0 }),
        ("kautz:3,3,hosts=2", Way::Search { escaped: 0 }),
    ];
    for (spec, way) in fabrics {
        let fabric = generate(spec).unwrap();
        assert_eq!(check(&fabric, 8), way, "{spec}");
        for vls in [1, 3] {
            check(&fabric, vls);
        }
    }
}

/// Cables and switches lost at random: trees with valleys, dragonflies with holes, parts.
#[test]
fn damaged_fabrics_are_as_safe() {
    let mut rng = Rng::new(5);
    for spec in ["kary:3,3", "fattree:4x6,2", "dragonfly:4,2,2,9", "torus:4x4,hosts=1", "mesh:5x4,hosts=1"] {
        let whole = generate(spec).unwrap();
        for cut in [3, 20, 50] {
            let cables: Vec<bool> = whole.channel_ids().map(|_| rng.below(200) < cut).collect();
            let dead: Vec<bool> = whole.switch_ids().map(|_| rng.below(400) < cut).collect();
            let damaged = whole.without(|c| cables[c.index()], |s| dead[s.index()]).unwrap();
            for vls in [1, 8] {
                check(&damaged, vls);
            }
        }
    }
}

#[test]
fn tables_outside_the_closure_or_without_the_map_are_not_safe() {
    let fabric = generate("torus:4x4,hosts=2").unwrap();
    let found = fabric_lanes(&fabric, budget(2));
    let tables = safe_tables(&fabric, &Demand::oblivious(), &found.lanes);
    assert!(judge(&fabric, &tables, &[], 2).accepted);
    assert!(!judge(&fabric, &tables.clone().with_lanes(None), &[], 2).accepted);
    let shortest = engine("minhop", &EngineOptions::default()).unwrap();
    let outside = shortest.route(&fabric, &Demand::oblivious(), budget(2)).unwrap();
    let outside = outside.with_lanes(Some(Arc::clone(&found.lanes.map)));
    assert!(!judge(&fabric, &tables, &[outside], 2).accepted);
}

/// `balanced` chooses inside the lanes that it is given, and no channel is fuller by much than with
/// eight layers that programs must be told.
#[test]
fn safe_tables_are_nearly_as_light_as_eight_free_layers() {
    // Whether the free layers keep the promise by chance: on the torus another engine's tables are taken.
    let fabrics = [
        ("dragonfly:4,2,2,9", false),
        ("torus:4x4x4,hosts=2", true),
        ("hyperx:3x3x3,hosts=3", true),
        ("kautz:3,3,hosts=3", false),
    ];
    for (spec, is_free_safe) in fabrics {
        let fabric = generate(spec).unwrap();
        let lanes = Arc::new(fabric_lanes(&fabric, budget(8)).lanes);
        let fullest = |lanes| {
            let options = EngineOptions { lanes, ..EngineOptions::default() };
            let engine = engine("balanced", &options).unwrap();
            let tables = engine.route(&fabric, &Demand::oblivious(), budget(8)).unwrap();
            let is_safe = judge(&fabric, &tables, &[], 8).accepted;
            (is_safe, sarouter::measure::measure(&fabric, &tables, &Demand::oblivious()).load.max)
        };
        let (safe, free) = (fullest(Some(lanes)), fullest(None));
        assert!(safe.0, "{spec}");
        assert_eq!(free.0, is_free_safe, "{spec}");
        assert!(safe.1 as f64 <= 1.1 * free.1 as f64, "{spec}: {} and {}", safe.1, free.1);
    }
}

/// Same fabric, same lanes, whatever the number of threads.
#[test]
fn lanes_do_not_depend_on_threads() {
    let fabric = generate("random:20,40,60,seed=4").unwrap();
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fabric_lanes(&fabric, budget(8)).lanes)
    };
    assert!(with(1) == with(3));
}

/// What tables of a fabric still lead over what is left of it.
fn left_of(tables: &Tables, before: &Fabric, after: &Fabric) -> Tables {
    let dests: Vec<DestId> = after
        .dest_ids()
        .map(|d| before.dest_ids().find(|old| before.lid(*old) == after.lid(d)).unwrap())
        .collect();
    let (mut ports, mut layers) = (Vec::new(), Vec::new());
    for (d, old) in after.dest_ids().zip(&dests) {
        for s in after.switch_ids() {
            let port = tables.port(before.switch_by_guid(after.switch(s).guid).unwrap(), *old);
            let is_left =
                |p: &PortNum| s == after.home(d) || matches!(after.peer(s, *p), Some(PortPeer::Channel(_)));
            let port = port.filter(is_left);
            ports.push(port.map_or(Tables::UNREACHABLE, |p| p.get()));
            layers.push(if port.is_some() { 0 } else { Tables::NO_LAYER });
        }
    }
    Tables::new(after, "before", ports, layers).unwrap()
}

/// Cables and switches are lost one after the other. Everyone is reached, all traffic on what is left is
/// safe, and so is the change: any switch may still have the tables of before.
#[test]
fn lanes_are_mended_after_each_loss() {
    let mut rng = Rng::new(7);
    let (mut losses, mut replaced, mut new) = (0, 0, 0);
    for (spec, rounds) in [
        ("torus:4x4x2,hosts=1", 5),
        ("dragonfly:4,2,2,9", 4),
        ("random:20,40,60,seed=2", 5),
        ("hyperx:3x3x3,hosts=1", 5),
        ("kary:3,3", 4),
    ] {
        let mut fabric = generate(spec).unwrap();
        let mut lanes = fabric_lanes(&fabric, budget(8)).lanes;
        for round in 0..rounds {
            let cut = fabric.channel_ids().nth(2 * rng.below(fabric.channels().len() / 2)).unwrap();
            let dead = (round % 4 == 3).then(|| rng.below(fabric.switches().len()));
            let after = fabric.without(|c| c == cut, |s| Some(s.index()) == dead).unwrap();
            let mended = mended(&lanes, &fabric, &after, budget(8));
            losses += 1;
            replaced += mended.replaced;
            new += usize::from(mended.is_new);
            let before = [Demand::oblivious(), job(&fabric, 3)].map(|demand| {
                let tables = safe_tables(&fabric, &demand, &lanes);
                left_of(&tables, &fabric, &after).with_lanes(Some(Arc::clone(&mended.lanes.map)))
            });
            let now = safe_tables(&after, &job(&after, 4), &mended.lanes);
            let others: &[Tables] = if mended.replaced == 0 { &before } else { &[] };
            let verdict = judge(&after, &now, others, 8);
            assert!(verdict.accepted, "{spec} {round}: {:?}", verdict.findings);
            (fabric, lanes) = (after, mended.lanes);
        }
    }
    assert!(new * 5 <= losses, "{losses} losses: {replaced} replaced, {new} new");
}

/// Cables are lost one after the other, and all that may not stay makes room: first switches get the new map, while whom
/// the loss cut off waits, and then the new tables. Each of the two steps is safe in any mixture.
#[test]
fn a_loss_is_mended_around_the_tables_in_force() {
    let mut rng = Rng::new(3);
    let (mut losses, mut new) = (0, 0);
    for (spec, seed) in [("torus:4x3x3,hosts=1", 1), ("dragonfly:4,2,2,9", 2), ("hyperx:3x3x2,hosts=1", 3)] {
        let mut fabric = generate(spec).unwrap();
        let mut lanes = fabric_lanes(&fabric, budget(8)).lanes;
        for round in 0..5 {
            let cut = fabric.channel_ids().nth(2 * rng.below(fabric.channels().len() / 2)).unwrap();
            let after = fabric.without(|c| c == cut, |_| false).unwrap();
            let before = safe_tables(&fabric, &job(&fabric, seed + round), &lanes);
            let no_lane = |_, _, _| [sarouter::model::Vl::ZERO; sarouter::model::lanes::SLS];
            let map = Arc::new(lanes.map.on(&fabric, &after, no_lane));
            let before = left_of(&before, &fabric, &after).with_lanes(Some(Arc::clone(&map)));
            let closure = Arc::new(lanes.closure.on(&fabric, &after));
            let mended = mend(&FabricLanes { map, closure }, &after, budget(8), Some(&before));
            losses += 1;
            new += usize::from(mended.is_new);
            let now = safe_tables(&after, &job(&after, 9), &mended.lanes);
            if !mended.is_new {
                let arrives = arriving(&after, &before);
                let lost = |d: DestId, s: SwitchId| !arrives[d.index()][s.index()];
                let first =
                    without_ways(&after, &before, lost).with_lanes(Some(Arc::clone(&mended.lanes.map)));
                let checks = Checks { promise: Promise::EVERYTHING, hosts_only: false };
                let mixed = std::slice::from_ref(&before);
                let beside = Beside { mixed, lost_later: true, ..Beside::default() };
                let verdict = judge_beside(&after, std::slice::from_ref(&first), budget(8), checks, beside);
                assert!(verdict.accepted, "{spec} {round}, first step: {:?}", verdict.findings);
                let verdict = judge(&after, &now, std::slice::from_ref(&first), 8);
                assert!(verdict.accepted, "{spec} {round}, second step: {:?}", verdict.findings);
            }
            (fabric, lanes) = (after, mended.lanes);
        }
    }
    assert!(new * 3 <= losses, "{new} of {losses} maps are new");
}

/// Cables of a tree are lost one after the other and come back: no lane map is due, and tables with and without jobs
/// may be mixed on any SL, with those of before in two steps.
#[test]
fn trees_that_lost_cables_need_no_map() {
    let options = EngineOptions { promise: Promise::EVERYTHING, ..EngineOptions::default() };
    let balanced = engine("balanced", &options).unwrap();
    let route = |fabric: &Fabric, seed: u64| {
        [Demand::oblivious(), job(fabric, seed)].map(|d| balanced.route(fabric, &d, budget(8)).unwrap())
    };
    let mut rng = Rng::new(11);
    for (spec, most) in [("fattree:4x4,4", 4), ("kary:3,3", 4), ("kary:2,4", 3), ("fattree:6x4,3", 4)] {
        let whole = generate(spec).unwrap();
        let lost: Vec<usize> = (0..most).map(|_| rng.below(whole.channels().len() / 2)).collect();
        let (mut fabric, mut before) = (whole.clone(), route(&whole, 1));
        for round in 1..=2 * most {
            let lost = &lost[..round.min(2 * most - round)];
            let what = format!("{spec} without {lost:?}");
            let after = whole.without(|c| lost.contains(&(c.index() / 2)), |_| false).unwrap();
            assert_eq!(fabric_lanes(&after, budget(8)).way, Way::Tree, "{what}");
            let now = route(&after, round as u64);
            for (before, tables) in before.iter().zip(&now) {
                assert!(judge(&after, tables, &now, 8).accepted, "{what}");
                check_two_steps(&after, &left_of(before, &fabric, &after), tables, &what);
            }
            (fabric, before) = (after, now);
        }
    }
}

/// Cables are out in every part of a tree, so no leaf has a way up and then down to all switches and from all.
#[test]
fn trees_with_cables_out_in_every_part_need_no_map() {
    let options = EngineOptions { promise: Promise::EVERYTHING, ..EngineOptions::default() };
    let balanced = engine("balanced", &options).unwrap();
    for spec in ["kary:6,3", "kary:5,3,hosts=2", "xgft:3;4,4,6;1,4,4"] {
        for (percent, seed) in [(5, 6), (10, 3), (10, 4)] {
            let fabric = generate(&format!("{spec},faults={percent}%,seed={seed}")).unwrap();
            assert_eq!(fabric_lanes(&fabric, budget(8)).way, Way::Tree, "{spec} {percent}");
            let route = |demand| balanced.route(&fabric, &demand, budget(8)).unwrap();
            let tables = [Demand::oblivious(), job(&fabric, seed)].map(route);
            assert!(judge(&fabric, &tables[0], &tables[1..], 8).accepted, "{spec} {percent}");
        }
    }
}

/// A change in two steps: switches that lost a cable may answer some hosts in the second only.
fn check_two_steps(fabric: &Fabric, before: &Tables, now: &Tables, what: &str) {
    let first = tree_ways(fabric).unwrap().halfway(fabric, before, now);
    // Who has a way now that the first step lacks, if hosts are at an end.
    let has_hosts = |s: SwitchId| fabric.has_hosts(s);
    let lacks = |d: DestId| {
        let lost = |s: &SwitchId| now.port(*s, d).is_some() && first.port(*s, d).is_none();
        fabric.switch_ids().filter(lost).any(|s| has_hosts(s) || has_hosts(fabric.home(d)))
    };
    assert_eq!(judge(fabric, &first, &[], 8).accepted, !fabric.dest_ids().any(lacks), "{what}");
    let checks = Checks { promise: Promise::EVERYTHING, hosts_only: false };
    let mixed = std::slice::from_ref(before);
    let beside = Beside { mixed, answers_later: true, ..Beside::default() };
    let verdict = judge_beside(fabric, std::slice::from_ref(&first), budget(8), checks, beside);
    assert!(verdict.accepted, "{what}, first step: {:?}", verdict.findings);
    let verdict = judge(fabric, now, std::slice::from_ref(&first), 8);
    assert!(verdict.accepted, "{what}, second step: {:?}", verdict.findings);
}
