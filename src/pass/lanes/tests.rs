use super::*;
use crate::lab::generate::generate;
use crate::model::{LaneMap, LidSet, Promise, SplitLids, SwitchId, Tables, Vl};
use crate::pass::tests::{budget, demand, in_force, policy};
use crate::publish::tests::fixture;

/// Lanes in force on the torus, and the settings under which they are.
fn on_torus(vls: u64) -> (Fabric, Published, Policy) {
    let fabric = generate("torus:4x4,hosts=1").unwrap();
    let policy = Policy { promise: Promise::EVERYTHING, budget: budget(vls), ..policy("balanced") };
    let lanes = due(&fabric, None, &policy).unwrap();
    let in_force = Published { lanes: Some(lanes), ..in_force(&fabric, demand(&[])) };
    (fabric, in_force, policy)
}

fn is_same(found: Option<Arc<FabricLanes>>, in_force: &Published) -> bool {
    Arc::ptr_eq(&found.unwrap(), in_force.lanes.as_ref().unwrap())
}

/// Next hops one channel long, over all channels but the first few, on lane 0.
fn knowing_all_but(fabric: &Fabric, unknown: usize) -> FabricLanes {
    let mut closure = Closure::empty(fabric);
    for s in fabric.switch_ids() {
        for (slot, c) in fabric.out(s).iter().enumerate().filter(|(_, c)| c.index() >= unknown) {
            closure.set(s, fabric.channel(*c).to, slot, true);
        }
    }
    one_lane(fabric, closure)
}

fn one_lane(fabric: &Fabric, closure: Closure) -> FabricLanes {
    let map = LaneMap::uniform(fabric, |_, _, _| Vl::new(0).unwrap());
    FabricLanes { map: Arc::new(map), closure: Arc::new(closure) }
}

#[test]
fn lanes_are_for_promises_and_engines_that_need_them() {
    let (fabric, in_force, policy) = on_torus(8);
    let told = Policy { promise: Promise::TOLD, ..policy.clone() };
    let plain = Policy { engine: "dfsssp".into(), ..policy.clone() };
    for in_force in [None, Some(&in_force)] {
        assert!(due(&fabric, in_force, &told).is_none() && due(&fabric, in_force, &plain).is_none());
        assert!(due(&fabric, in_force, &policy).is_some());
    }
}

#[test]
fn lanes_in_force_stay_where_they_fit() {
    let (fabric, in_force, policy) = on_torus(8);
    let vls = u64::from(in_force.lanes.as_ref().unwrap().map.vls());
    assert!(vls > 1);
    let with = |vls| Policy { budget: budget(vls), ..policy.clone() };
    assert!(is_same(due(&fabric, Some(&in_force), &policy), &in_force));
    assert!(is_same(due(&fabric, Some(&in_force), &with(vls)), &in_force));
    let fewer = due(&fabric, Some(&in_force), &with(vls - 1)).unwrap();
    assert!(u64::from(fewer.map.vls()) < vls);
    // However little they know, as long as the fabric is the same.
    let lanes = Some(Arc::new(knowing_all_but(&fabric, 60)));
    let in_force = Published { lanes, ..in_force };
    assert!(is_same(due(&fabric, Some(&in_force), &policy), &in_force));
}

/// Cables that are new: few of them, or more than lanes can be mended for.
#[test]
fn lanes_of_a_fabric_that_grew_are_searched_anew() {
    for (spec, channels, most) in [("torus:4x4,hosts=1", 64, 8), ("torus:6x6,hosts=1", 144, 9)] {
        let fabric = generate(spec).unwrap();
        assert_eq!(fabric.channels().len(), channels);
        let known =
            [0, most, most + 1].map(|unknown| is_mostly_known(&fabric, &knowing_all_but(&fabric, unknown)));
        assert_eq!(known, [true, true, false], "{spec}: one switch's, or a sixteenth");
    }
    let (fabric, in_force, policy) = on_torus(8);
    let lanes = Arc::clone(in_force.lanes.as_ref().unwrap());
    let before = generate("torus:4x4,hosts=2").unwrap().fingerprint();
    let with = |lanes| Published { lanes: Some(lanes), fabric: before, ..in_force.clone() };
    let little = with(Arc::new(knowing_all_but(&fabric, 60)));
    assert_eq!(due(&fabric, Some(&little), &policy).unwrap(), lanes, "as if there were none");
    // A few cables are new to lanes that stay as they are for the others.
    let mut closure = Closure::clone(&lanes.closure);
    for (s, home) in fabric.switch_ids().flat_map(|s| fabric.switch_ids().map(move |home| (s, home))) {
        let new = fabric.out(s).iter().position(|c| c.index() < 2);
        new.into_iter().for_each(|slot| closure.set(s, home, slot, false));
    }
    let with_new = with(Arc::new(FabricLanes { map: Arc::clone(&lanes.map), closure: Arc::new(closure) }));
    let mended = due(&fabric, Some(&with_new), &policy).unwrap();
    assert!(mended != lanes && mended.closure.used(&fabric).iter().all(|used| *used));
}

/// The tree is whole again: its lanes go when nothing leads by other ways than up and down any more.
#[test]
fn a_tree_gives_up_its_lanes_when_all_routes_are_its_ways() {
    let fabric = fixture::small();
    let policy = Policy { promise: Promise::EVERYTHING, budget: budget(8), ..policy("balanced") };
    assert!(due(&fabric, None, &policy).is_none());
    let ways = tree_ways(&fabric).unwrap();
    // A spine leads down, and up again from there, to another spine.
    let d = fabric.dest_of_terminal(fabric.host_ids().next().unwrap());
    let home = fabric.home(d);
    let spine = fabric.switch_ids().find(|s| !fabric.has_hosts(*s)).unwrap();
    let slot =
        |s: SwitchId, to: SwitchId| fabric.out(s).iter().position(|c| fabric.channel(*c).to == to).unwrap();
    let leaf = fabric.switch_ids().find(|s| fabric.has_hosts(*s) && *s != home).unwrap();
    let without = |closure: &mut Closure, s: SwitchId, to: SwitchId| {
        let slots = fabric.out(s).iter().enumerate().filter(|(_, c)| fabric.channel(**c).to == to);
        slots.for_each(|(slot, _)| closure.set(s, home, slot, false));
    };
    let with_detour = |ways: &Closure| {
        let mut closure = ways.clone();
        closure.set(spine, home, slot(spine, leaf), true);
        without(&mut closure, leaf, spine);
        Some(Arc::new(one_lane(&fabric, closure)))
    };
    let lanes = with_detour(&ways.closure);
    let plain = Published { lanes: lanes.clone(), ..in_force(&fabric, demand(&[])) };
    assert!(due(&fabric, Some(&plain), &policy).is_none());
    let at = |s: SwitchId| d.index() * fabric.switches().len() + s.index();
    let port = |s: SwitchId, to| fabric.channel(fabric.out(s)[slot(s, to)]).from_port.get();
    let other = fabric.switch_ids().find(|s| !fabric.has_hosts(*s) && *s != spine).unwrap();
    let detour = Arc::new(Tables::clone(&plain.tables).edited(|ports, _| {
        (ports[at(spine)], ports[at(leaf)]) = (port(spine, leaf), port(leaf, other));
    }));
    let split = |kept: &Arc<Tables>| Some(SplitLids { fresh: LidSet::Base, kept: Arc::clone(kept) });
    let leads = |found: &FabricLanes, to| found.closure.allows(spine, home, slot(spine, to));
    for (tables, lids) in [(&detour, None), (&plain.tables, split(&detour)), (&detour, split(&plain.tables))]
    {
        let in_force = Published { tables: Arc::clone(tables), lids, ..plain.clone() };
        let (found, before) = (due(&fabric, Some(&in_force), &policy).unwrap(), lanes.as_ref().unwrap());
        assert_eq!((&found.map, found.closure.len()), (&before.map, before.closure.len() - 1));
        assert_eq!(
            [leaf, home].map(|to| leads(&found, to)),
            [false, true],
            "what comes next goes by ways of the tree"
        );
    }
    let both_are = Published { lids: split(&plain.tables), ..plain.clone() };
    assert!(due(&fabric, Some(&both_are), &policy).is_none());
    // Where the lanes allow no way of the tree, what they allow stays.
    let mut closure = ways.closure.clone();
    without(&mut closure, spine, home);
    let no_way = Published { lanes: with_detour(&closure), tables: Arc::clone(&detour), ..plain.clone() };
    assert!(leads(&due(&fabric, Some(&no_way), &policy).unwrap(), leaf));
    // Before the tree is known, what is in force must fit what is mended.
    let before = generate("fattree:4x4,3").unwrap().fingerprint();
    let before = Published { fabric: before, tables: detour, ..plain };
    assert!(leads(&due(&fabric, Some(&before), &policy).unwrap(), leaf));
}
