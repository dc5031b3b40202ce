//! Ports with two LIDs (LMC 1): epochs change the routes of one that no running job uses, and both are judged together.

use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::{Demand, Fabric, LayerBudget, LidSet, Promise, Tables};
use sarouter::pass::plan::Reason;
use sarouter::publish::{EpochNumber, Received};
use sarouter::route::{EngineOptions, engine};
use sarouter::verify::{Beside, Checks, certify, judge_all, judge_beside, judge_certified};

use crate::live::{Site, judge};

/// The routes of both LIDs in an epoch, as they are on the disk.
fn both(site: &Site, fabric: &Fabric, epoch: EpochNumber) -> [Tables; 2] {
    let epoch = site.store.epoch(epoch).unwrap();
    LidSet::ALL.map(|set| epoch.tables_of(fabric, set).unwrap())
}

/// Base LIDs are used, then high LIDs.
const IN_USE: [[bool; 2]; 2] = [[true, false], [false, true]];

#[test]
fn an_epoch_leaves_the_lid_in_use_as_it_is() {
    for (seed, spec) in ["torus:4x3x3,hosts=2", "kary:3,3", "random:20,40,60,seed=4"].into_iter().enumerate()
    {
        let fabric = Arc::new(generate(spec).unwrap());
        let mut site = Site::new("balanced", Promise::EVERYTHING, 40 + seed as u64);
        site.policy.lids_in_use = Some([false; 2]);
        site.pass(&fabric).unwrap().epoch.unwrap();
        let (mut number, _, _) = site.in_force(&fabric);
        let mut last = both(&site, &fabric, number);
        assert_eq!(last[0], last[1], "the first routes are those of both LIDs");
        let mut changed = [0; 2];
        for round in 0..6 {
            let in_use = IN_USE[round % 2];
            site.policy.lids_in_use = Some(in_use);
            let passed = site.pass(&fabric).unwrap();
            let line = passed.epoch.unwrap();
            assert_eq!((line.reason, passed.waits_for_lid), (Reason::JobsChanged, false));
            let fresh = passed.lids.unwrap().fresh;
            let before = number;
            (number, _, _) = site.in_force(&fabric);
            let now = both(&site, &fabric, number);
            assert_eq!(site.store.epoch(number).unwrap().plan().fresh_lids, Some(fresh));
            assert_eq!(LidSet::free(in_use), Some(fresh));
            assert_eq!(now[fresh.other().offset()], last[fresh.other().offset()], "{spec}: round {round}");
            let made = passed.tables.as_deref().unwrap();
            assert_eq!(now[fresh.offset()].clone().into_raw(), made.clone().into_raw());
            changed[fresh.offset()] += usize::from(now[fresh.offset()] != last[fresh.offset()]);
            // Both together for every SL; while the one is written, its old routes are there too.
            let beside = Beside {
                mixed: std::slice::from_ref(&last[fresh.offset()]),
                apart: std::slice::from_ref(&now[fresh.other().offset()]),
                ..Beside::default()
            };
            assert!(
                judge(&fabric, &now[fresh.offset()], "any+mixed", beside).accepted,
                "{spec}: round {round}"
            );
            // A standby proves it too: with its certificate, and beside the one before.
            let directory = site.store.epoch_path(number);
            let previous = site.store.epoch(before).unwrap();
            for before in [None, Some(&previous)] {
                Received::read(&directory, number).unwrap().verify(before).unwrap();
            }
            last = now;
        }
        assert!(changed.into_iter().all(|n| n > 1), "{spec}: nothing is shown: {changed:?}");
    }
}

#[test]
fn routes_wait_while_both_lids_are_in_use() {
    let fabric = Arc::new(generate("kary:3,3").unwrap());
    let mut site = Site::new("balanced", Promise::EVERYTHING, 7);
    site.policy.lids_in_use = Some([false; 2]);
    let served = site.pass(&fabric).unwrap().served;
    for (n, in_use) in IN_USE.into_iter().enumerate() {
        // In the end each LID is some job's.
        site.policy.lids_in_use = Some(in_use);
        assert_eq!(site.pass(&fabric).unwrap().epoch.unwrap().epoch, 2 + n as u64);
    }
    site.policy.lids_in_use = Some([true; 2]);
    let passed = site.pass(&fabric).unwrap();
    assert!(passed.epoch.is_none() && passed.waits_for_lid);
    // What is in force serves others, so the next look asks again.
    assert_ne!(passed.demand, served);
    assert_eq!(passed.demand, passed.served);
    assert_eq!(site.in_force(&fabric).0.get(), 3);
    // A cable is gone: its routes are nobody's any more, and both LIDs get new ones.
    let damaged = Arc::new(fabric.without(|c| c.index() < 2, |_| false).unwrap());
    let passed = site.pass(&damaged).unwrap();
    assert_eq!(passed.epoch.unwrap().reason, Reason::FabricChanged);
    let [base, high] = both(&site, &damaged, site.in_force(&damaged).0);
    assert!(passed.lids.is_none() && base == high);
}

#[test]
fn without_the_setting_all_lids_get_one_set_of_routes_again() {
    let fabric = Arc::new(generate("kary:3,3").unwrap());
    let mut site = Site::new("balanced", Promise::EVERYTHING, 9);
    site.policy.lids_in_use = Some([false; 2]);
    site.pass(&fabric).unwrap();
    site.policy.lids_in_use = Some([true, false]);
    assert!(site.pass(&fabric).unwrap().lids.is_some());
    site.policy.lids_in_use = None;
    let passed = site.pass(&fabric).unwrap();
    let line = passed.epoch.unwrap();
    assert!(passed.lids.is_none() && line.mixed);
    let number = site.in_force(&fabric).0;
    let text = std::fs::read_to_string(site.store.epoch_path(number).join("plan.json")).unwrap();
    assert!(!text.contains("fresh_lids"), "{text}");
}

fn routed(fabric: &Fabric, name: &str, layers: u64) -> Tables {
    let options = EngineOptions { promise: Promise::TOLD, ..EngineOptions::default() };
    let engine = engine(name, &options).unwrap();
    engine.route(fabric, &Demand::oblivious(), LayerBudget::new(layers).unwrap()).unwrap()
}

#[test]
fn a_cycle_of_routes_to_both_lids_is_found() {
    let budget = LayerBudget::new(8).unwrap();
    let checks = Checks { promise: Promise::TOLD, hosts_only: false };
    let mut seen = [0; 2];
    for spec in ["torus:4x4,hosts=2", "dragonfly:4,2,2,5", "kary:3,3", "random:12,36,30,seed=1"] {
        let fabric = generate(spec).unwrap();
        let tables: Vec<Tables> =
            ["updown", "dfsssp", "nue", "lash"].map(|name| routed(&fabric, name, 8)).to_vec();
        for one in &tables {
            for other in &tables {
                let beside = Beside { apart: std::slice::from_ref(other), ..Beside::default() };
                let verdict = judge_beside(&fabric, std::slice::from_ref(one), budget, checks, beside);
                let together = judge_all(&fabric, &[one.clone(), other.clone()], budget, checks);
                assert_eq!(
                    verdict.accepted,
                    together.accepted,
                    "{spec}: {} {}",
                    one.engine(),
                    other.engine()
                );
                seen[usize::from(verdict.accepted)] += 1;
                // The order of both together is one for each.
                let certificate = certify(&fabric, one, budget, checks, beside);
                assert_eq!(certificate.is_some(), verdict.accepted);
                if let Some(certificate) = &certificate {
                    for tables in [one, other] {
                        let climbs = judge_certified(&fabric, tables, budget, checks, &[], certificate);
                        assert!(climbs.accepted, "{spec}: {:?}", climbs.findings);
                    }
                }
            }
        }
    }
    assert!(seen.into_iter().all(|n| n > 4), "rejected, accepted: {seen:?}");
}
