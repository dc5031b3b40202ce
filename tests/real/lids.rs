//! Routes by LID on a simulated fabric with LMC 1: what the switches have for each of a port's two LIDs, and what
//! the subnet administrator answers.

use std::collections::BTreeMap;

use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, Guid, Lid, Tables, TerminalId};
use sarouter::publish::handoff::encode_lids;

use crate::plugin::{layered, routed};
use crate::testbed::{Lfts, Testbed, dest_guid};

/// A bed whose OpenSM gives each port of a host this many LIDs, as a power of two.
pub fn bed_with(fabric: &Fabric, lmc: u8) -> Testbed {
    Testbed::fabric(fabric, &["--opensm-line", &format!("lmc {lmc}")])
}

pub fn plus(lid: Lid, offset: u64) -> Lid {
    Lid::new(u64::from(lid.get()) + offset).unwrap()
}

/// The entries of the base LIDs of hosts plus this.
pub fn entries_of(fabric: &Fabric, found: &(Lfts, BTreeMap<Guid, Lid>), offset: u64) -> Lfts {
    let lids: Vec<Lid> = fabric.terminals().iter().map(|t| plus(found.1[&t.port_guid], offset)).collect();
    let of_switch = |entries: &BTreeMap<Lid, u8>| {
        lids.iter().filter_map(|lid| Some((*lid, *entries.get(lid)?))).collect()
    };
    found.0.iter().map(|(switch, entries)| (*switch, of_switch(entries))).collect()
}

/// The entries that these tables are to have there.
pub fn wanted(fabric: &Fabric, tables: &Tables, lids: &BTreeMap<Guid, Lid>, offset: u64) -> Lfts {
    let mut lfts: Lfts = fabric.switches().iter().map(|s| (s.guid, BTreeMap::new())).collect();
    for t in fabric.terminal_ids() {
        let d = fabric.dest_of_terminal(t);
        let lid = plus(lids[&dest_guid(fabric, d)], offset);
        for s in fabric.switch_ids() {
            let port = tables.port(s, d).unwrap().get();
            lfts.entry(fabric.switch(s).guid).or_default().insert(lid, port);
        }
    }
    lfts
}

/// Asserts that the switches have these tables for base LIDs and those for high LIDs. Returns the base LIDs.
pub fn assert_both(bed: &Testbed, fabric: &Fabric, tables: [&Tables; 2]) -> BTreeMap<Guid, Lid> {
    let found = bed.read_back();
    for (offset, tables) in (0..).zip(tables) {
        assert_eq!(
            entries_of(fabric, &found, offset),
            wanted(fabric, tables, &found.1, offset),
            "LIDs plus {offset}"
        );
    }
    found.1
}

/// Asserts that the path between each pair of LIDs of these hosts has the layer that the tables of the destination's
/// LID say.
pub fn assert_path_sls(
    bed: &Testbed,
    fabric: &Fabric,
    tables: [&Tables; 2],
    lids: &BTreeMap<Guid, Lid>,
    pairs: &[(TerminalId, TerminalId)],
) {
    for (a, b) in pairs {
        let (from, to) = (fabric.terminal(*a), fabric.terminal(*b));
        for (of_a, of_b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let layer = tables[of_b as usize].layer(from.switch, fabric.dest_of_terminal(*b)).unwrap();
            let found = bed.path_sl(plus(lids[&from.port_guid], of_a), plus(lids[&to.port_guid], of_b));
            assert_eq!(found, layer.get(), "{} + {of_a} to {} + {of_b}", from.description, to.description);
        }
    }
}

fn both(fabric: &Fabric, tables: [&Tables; 2], epoch: u64) -> Vec<u8> {
    encode_lids(fabric, tables[0], Some(tables[1]), None, None, epoch)
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn each_lid_of_a_port_has_its_routes() {
    let fabric = generate("fattree:3x4,2").unwrap();
    let bed = bed_with(&fabric, 1);
    let [one, two, three] = [("sssp", 3), ("nue", 4), ("minhop", 2)]
        .map(|(engine, layers)| layered(&fabric, &routed(&fabric, engine), layers));
    let differ = |a: &Tables, b: &Tables| fabric.dest_ids().any(|d| a.ports_to(d) != b.ports_to(d));
    assert!(differ(&one, &two) && differ(&two, &three) && differ(&one, &three), "nothing new is shown");

    // A file with one set of routes means what it always did.
    bed.publish(&fabric, &one, 1);
    assert_eq!(bed.await_epoch(1).lid_sets, Some(1));
    assert_both(&bed, &fabric, [&one, &one]);

    bed.publish_bytes("000002", &both(&fabric, [&one, &two], 2));
    let status = bed.await_epoch(2);
    assert_eq!((status.lid_sets, status.layers, status.refused_reason), (Some(2), Some(4), None));
    let lids = assert_both(&bed, &fabric, [&one, &two]);
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let pairs: Vec<_> =
        hosts.iter().flat_map(|a| hosts.iter().map(|b| (*a, *b))).filter(|(a, b)| a != b).collect();
    let pairs: Vec<_> = pairs.into_iter().step_by(3).collect();
    assert_path_sls(&bed, &fabric, [&one, &two], &lids, &pairs);

    // The routes of one LID change, not an entry of the other.
    let before = entries_of(&fabric, &bed.read_back(), 1);
    bed.publish_bytes("000003", &both(&fabric, [&three, &two], 3));
    bed.await_epoch(3);
    assert_both(&bed, &fabric, [&three, &two]);
    assert_eq!(entries_of(&fabric, &bed.read_back(), 1), before);
    assert_path_sls(&bed, &fabric, [&three, &two], &lids, &pairs[..12]);

    // A second set with a loop is refused as a first one is.
    let (mut ports, layers) = two.clone().into_raw();
    let d = fabric.dest_ids().next().unwrap();
    let far = fabric.switch_ids().filter(|s| *s != fabric.home(d)).last().unwrap();
    ports[d.index() * fabric.switches().len() + far.index()] = 250;
    let bad = Tables::new(&fabric, "bad", ports, layers).unwrap();
    bed.publish_bytes("000004", &both(&fabric, [&three, &bad], 4));
    let status = bed.await_status("the refusal", |s| s.refused_reason.is_some());
    assert!(status.refused_reason.unwrap().contains("a dead end"));
    assert_both(&bed, &fabric, [&three, &two]);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn routes_for_two_lids_are_refused_where_ports_have_others() {
    let fabric = generate("fattree:2x2,1").unwrap();
    let [one, two] = ["sssp", "nue"].map(|engine| layered(&fabric, &routed(&fabric, engine), 2));
    for (lmc, lids) in [(0, 1), (2, 4)] {
        let bed = bed_with(&fabric, lmc);
        bed.publish_bytes("000001", &both(&fabric, [&one, &two], 1));
        let status = bed.await_status("the refusal", |s| s.refused_generation == Some(1) && s.routings > 0);
        let reason = format!("routes for 2 LIDs of each port, OpenSM gives them {lids} (lmc {lmc})");
        assert!(status.refused_reason.as_deref().is_some_and(|r| r.contains(&reason)), "{status:?}");
        assert_eq!(status.engine.as_deref(), Some("updn"));
        // One set of routes goes with any number of LIDs.
        bed.publish(&fabric, &one, 2);
        assert_eq!(bed.await_epoch(2).refused_reason, None);
        let found = bed.read_back();
        for offset in 0..lids {
            assert_eq!(
                entries_of(&fabric, &found, offset),
                wanted(&fabric, &one, &found.1, offset),
                "lmc {lmc}, LIDs plus {offset}"
            );
        }
    }
}
