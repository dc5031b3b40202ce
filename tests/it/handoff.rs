//! The hand-off file: `decode ∘ encode = identity`, and whatever is damaged is refused.

use std::sync::Arc;

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::lanes::SLS;
use sarouter::model::rng::Rng;
use sarouter::model::{Fabric, FabricBuilder, LaneMap, LidSet, NewTerminal, PortNum, Tables, TerminalId, Vl};
use sarouter::publish::handoff::{HandoffError, decode, encode, encode_lids};
use sarouter::verify::Certificate;

/// Tables of arbitrary bytes: the format must carry whatever an engine can say.
fn any_tables(fabric: &Fabric, engine: &str, seed: u64) -> Tables {
    let mut rng = Rng::new(seed);
    let entries = fabric.dest_count() * fabric.switches().len();
    let mut bytes = |values: &[u8]| (0..entries).map(|_| values[rng.below(values.len())]).collect();
    let ports = bytes(&[0, 1, 2, 17, 254, Tables::UNREACHABLE]);
    let layers = bytes(&[0, 1, 14, Tables::NO_LAYER]);
    let tables = Tables::new(fabric, engine, ports, layers).unwrap();
    let lane = |rng: &mut Rng| Vl::new(rng.below(3) as u64).unwrap();
    let lanes = LaneMap::fill(fabric, |_, _, _| {
        std::array::from_fn(|sl| if sl < 2 { lane(&mut rng) } else { Vl::ZERO })
    });
    // Half of them with lanes.
    tables.with_lanes((seed % 2 == 1).then(|| Arc::new(lanes)))
}

/// A sum that is right, whatever was changed.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 8;
    bytes[16..24].copy_from_slice(&(end as u64 + 8).to_le_bytes());
    // The sum of a file whose sum is wrong is not told: CRC-64/XZ, bit by bit.
    let sum = bytes[..end].iter().fold(u64::MAX, |rest, byte| {
        (0..8).fold(
            rest ^ u64::from(*byte),
            |r, _| if r & 1 == 1 { r >> 1 ^ 0xC96C_5795_D787_0F42 } else { r >> 1 },
        )
    });
    bytes[end..].copy_from_slice(&(!sum).to_le_bytes());
    bytes
}

/// The same file with one more section, of this kind and these flags, at its end.
fn with_section(bytes: &[u8], kind: u32, flags: u32) -> Vec<u8> {
    let header = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let mut longer = bytes[..header].to_vec();
    longer[12..16].copy_from_slice(&(header as u32 + 32).to_le_bytes());
    for entry in longer[128..].chunks_exact_mut(32) {
        let at = u64::from_le_bytes(entry[8..16].try_into().unwrap()) + 32;
        entry[8..16].copy_from_slice(&at.to_le_bytes());
    }
    longer.extend([kind.to_le_bytes(), flags.to_le_bytes()].concat());
    for number in [bytes.len() as u64 - 8 + 32, 3, 0] {
        longer.extend(number.to_le_bytes());
    }
    longer.extend(&bytes[header..bytes.len() - 8]);
    longer.extend([7, 7, 7, 0, 0, 0, 0, 0]);
    longer.extend([0; 8]);
    sealed(longer)
}

fn any_fabric() -> impl Strategy<Value = Fabric> {
    (2usize..12, 0usize..30, 0usize..20, any::<u16>()).prop_map(|(switches, hosts, more, seed)| {
        let cables = switches - 1 + more;
        generate(&format!("random:{switches},{},{cables},seed={seed}", hosts.max(1))).unwrap()
    })
}

proptest! {
    #[test]
    fn decode_is_the_inverse_of_encode(fabric in any_fabric(), seed: u64, epoch in 1u64..) {
        let tables = any_tables(&fabric, "sar", seed);
        let bytes = encode(&fabric, &tables, epoch);
        let handoff = decode(&bytes).unwrap();
        prop_assert_eq!(handoff.epoch, epoch);
        prop_assert_eq!(handoff.fabric, fabric.fingerprint());
        prop_assert!(handoff.switches.iter().eq(fabric.switches().iter().map(|s| &s.guid)));
        prop_assert!(handoff.terminals.iter().eq(fabric.terminals().iter().map(|t| &t.port_guid)));
        let back = handoff.into_tables(&fabric).unwrap();
        prop_assert_eq!(&back, &tables);
        prop_assert_eq!(encode(&fabric, &back, epoch), bytes);
    }

    #[test]
    fn high_lids_keep_routes_of_their_own(fabric in any_fabric(), seed: u64) {
        let [base, high] = [seed, seed ^ 1].map(|seed| any_tables(&fabric, "sar", seed).with_lanes(None));
        let bytes = encode_lids(&fabric, &base, Some(&high), None, None, 3);
        let handoff = decode(&bytes).unwrap();
        prop_assert_eq!(bytes[76], base.layers_used().max(high.layers_used()));
        prop_assert_eq!(handoff.high.clone(), Some(high.clone().into_raw()));
        prop_assert_eq!(handoff.into_tables(&fabric).unwrap(), base.clone());
        // Without, not a byte tells of them.
        let plain = encode(&fabric, &base, 3);
        prop_assert_eq!(decode(&plain).unwrap().high, None);
        prop_assert_eq!(encode_lids(&fabric, &base, None, None, None, 3), plain);
    }

    #[test]
    fn no_damaged_file_is_accepted(fabric in any_fabric(), seed: u64, at: usize, flip in 1u8..) {
        let mut bytes = encode(&fabric, &any_tables(&fabric, "sar", seed), 3);
        let at = at % bytes.len();
        prop_assert!(decode(&bytes[..at]).is_err());
        bytes[at] ^= flip;
        prop_assert!(decode(&bytes).is_err());
        bytes[at] ^= flip;
        bytes.push(0);
        prop_assert!(decode(&bytes).is_err());
    }
}

#[test]
fn tables_of_another_fabric_are_refused() {
    let (one, other) = (generate("fattree:2x2,1").unwrap(), generate("fattree:2x2,2").unwrap());
    let handoff = decode(&encode(&one, &any_tables(&one, "sar", 1), 1)).unwrap();
    let wanted = other.fingerprint();
    let found = one.fingerprint();
    assert_eq!(handoff.into_tables(&other), Err(HandoffError::OtherFabric { wanted, found }));
}

#[test]
fn each_reason_to_refuse_has_a_name() {
    let fabric = generate("fattree:2x2,1").unwrap();
    let good = encode(&fabric, &any_tables(&fabric, "sar", 1), 1);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        decode(&bytes).unwrap_err()
    };
    assert_eq!(decode(b"").unwrap_err(), HandoffError::Magic);
    assert_eq!(decode(&good[..100]).unwrap_err(), HandoffError::Length { wanted: 128, found: 100 });
    assert_eq!(with(8, 3), HandoffError::Version(3));
    assert_eq!(with(24, 0), HandoffError::Field { field: "epoch number", value: 0 });
    assert_eq!(with(77, 1), HandoffError::Field { field: "reserved", value: 1 });
    assert_eq!(with(64, 4), HandoffError::Checksum);
    let section = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        match decode(&sealed(bytes)) {
            Err(HandoffError::Section { kind, what }) => (kind, what),
            other => panic!("{other:?}"),
        }
    };
    let wrong_size = "it is longer or shorter than the header says";
    assert_eq!(section(64, 4), (1, wrong_size));
    let entry = |kind: usize| 128 + 32 * (kind - 1);
    let misplaced = "it is not where it should be";
    assert_eq!(section(entry(4) + 8, 1), (4, misplaced));
    assert_eq!(section(entry(4), 3), (3, misplaced));
    assert_eq!(section(entry(7) + 4, 2), (7, "it has flags of another version"));
    assert_eq!(section(entry(6), 99), (99, "this program does not know it"));
    let rows = u64::from_le_bytes(good[entry(6) + 8..][..8].try_into().unwrap()) as usize;
    assert_eq!(section(rows, 15), (6, "a VL is above 14"));
    let index = u64::from_le_bytes(good[entry(7) + 8..][..8].try_into().unwrap()) as usize;
    assert_eq!(section(index + 1, 200), (7, "there is no such row"));
    assert_eq!(with(good.len() - 1, !good[good.len() - 1]), HandoffError::Checksum);
}

#[test]
fn half_of_the_routes_to_high_lids_is_refused() {
    let fabric = generate("fattree:2x2,1").unwrap();
    let tables = any_tables(&fabric, "sar", 2);
    let good = encode_lids(&fabric, &tables, Some(&tables), None, None, 1);
    let plain = encode(&fabric, &tables, 1);
    let wrong = |bytes: &[u8]| match decode(bytes) {
        Err(HandoffError::Section { kind, what }) => (kind, what),
        other => panic!("{other:?}"),
    };
    // Another program that knows nothing of them would give high LIDs the routes of base LIDs.
    let flags = |n: usize| u32::from_le_bytes(good[128 + 32 * n + 4..][..4].try_into().unwrap());
    assert_eq!((flags(5), flags(6)), (0, 0));
    assert_eq!(wrong(&with_section(&plain, 11, 0)), (11, "it is longer or shorter than the header says"));
    let mut renamed = good.clone();
    renamed[128 + 32 * 6] = 99;
    assert_eq!(wrong(&sealed(renamed)), (99, "this program does not know it"));
    let mut renamed = good;
    renamed[128 + 32 * 5] = 10;
    assert_eq!(wrong(&sealed(renamed)), (11, "it is missing"));
}

#[test]
fn later_sections_are_skipped_if_they_may_be() {
    let fabric = generate("torus:3x3,hosts=1").unwrap();
    for seed in [2, 3] {
        let bytes = encode(&fabric, &any_tables(&fabric, "sar", seed), 1);
        assert_eq!(decode(&with_section(&bytes, 900, 1)), decode(&bytes));
        let refused = decode(&with_section(&bytes, 900, 0)).unwrap_err();
        assert_eq!(refused, HandoffError::Section { kind: 900, what: "this program does not know it" });
        assert!(decode(&with_section(&bytes, 3, 1)).is_err(), "out of order");
    }
}

#[test]
fn the_first_version_is_read() {
    let fabric = generate("torus:3x3,hosts=1").unwrap();
    let bytes = include_bytes!("../data/handoff/version-1.bin");
    let handoff = decode(bytes).unwrap();
    assert_eq!((handoff.epoch, handoff.engine.as_str(), handoff.lanes.is_none()), (1, "lash", true));
    let tables = handoff.into_tables(&fabric).unwrap();
    let layers = fabric.dest_ids().flat_map(|d| tables.layers_to(d).to_vec());
    assert!(layers.into_iter().all(|l| l == 0 || l == Tables::NO_LAYER));
    assert_eq!(decode(&encode(&fabric, &tables, 1)).unwrap().into_tables(&fabric).unwrap(), tables);
    for end in 0..bytes.len() {
        assert!(decode(&bytes[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn a_port_without_a_cable_has_the_lanes_of_the_switch_itself() {
    let fabric = generate("torus:3x3,hosts=1").unwrap().without(|c| c.index() < 2, |_| false).unwrap();
    let tables = any_tables(&fabric, "sar", 3);
    let map = tables.lanes().unwrap().clone();
    let bytes = encode(&fabric, &tables, 1);
    let first = |kind: usize| {
        u64::from_le_bytes(bytes[128 + 32 * (kind - 1) + 8..][..8].try_into().unwrap()) as usize
    };
    let cut = generate("torus:3x3,hosts=1").unwrap().channels()[0].from;
    let s = fabric.switch_ids().find(|s| *s == cut).unwrap();
    let ports = usize::from(fabric.switch(s).ports);
    let leads = |p: &PortNum| fabric.peer(s, *p).is_some_and(|p| p != sarouter::model::PortPeer::Nothing);
    let all: Vec<PortNum> = (1..=ports as u64).map(|p| PortNum::new(p).unwrap()).collect();
    let (used, free): (Vec<PortNum>, Vec<PortNum>) = all.into_iter().partition(leads);
    let at = |from: PortNum, to: PortNum| {
        let turn = usize::from(from.get()) * (ports + 1) + usize::from(to.get());
        let row = usize::from(u16::from_le_bytes(bytes[first(7) + 2 * turn..][..2].try_into().unwrap()));
        bytes[first(6) + SLS * row..][..SLS].to_vec()
    };
    assert!(!free.is_empty(), "every port is used");
    for to in &used {
        for from in &free {
            assert_eq!(at(*from, *to), at(PortNum::ZERO, *to));
        }
        let lanes: Vec<u8> = map.row(s, PortNum::ZERO, *to).iter().map(|v| v.get()).collect();
        assert_eq!(at(PortNum::ZERO, *to), lanes);
    }
}

/// The same fabric with two hosts in each other's place.
fn swapped(fabric: &Fabric, one: TerminalId, other: TerminalId) -> Fabric {
    let mut builder = FabricBuilder::default();
    for switch in fabric.switches() {
        builder.switch(switch.guid, switch.ports, Some(switch.lid), &switch.description).unwrap();
    }
    for t in fabric.terminal_ids() {
        let at = if t == one {
            other
        } else if t == other {
            one
        } else {
            t
        };
        let (terminal, at) = (fabric.terminal(t), fabric.terminal(at));
        builder.terminal(NewTerminal { port: at.port, ..NewTerminal::like(terminal, at.switch) }).unwrap();
    }
    for cable in fabric.channels().iter().step_by(2) {
        builder.cable(cable.from, cable.from_port, cable.to, cable.to_port).unwrap();
    }
    builder.build().unwrap()
}

/// As the plugin does it: whom the tables do not know, or know elsewhere, they reach as they reach his switch.
#[test]
fn a_host_that_is_new_or_elsewhere_has_the_routes_of_its_switch() {
    let fabric = generate("torus:3x3,hosts=2").unwrap();
    let named = |name: &str, fabric: &Fabric| {
        fabric.terminal_ids().find(|t| fabric.terminal(*t).description == name).unwrap()
    };
    let before = fabric.without_terminals(|t| t == named("n6", &fabric)).unwrap();
    let after = swapped(&fabric, named("n1", &fabric), named("n17", &fabric));
    let tables = any_tables(&before, "nue", 8);
    let handoff = decode(&encode(&before, &tables, 1)).unwrap();
    let found = handoff.routes_on(&after, "nue", LidSet::Base).unwrap();
    for t in after.terminal_ids() {
        let (d, terminal) = (after.dest_of_terminal(t), after.terminal(t));
        let is_guest = ["n1", "n6", "n17"].contains(&terminal.description.as_str());
        let same = match is_guest {
            true => before.dest_of_switch(terminal.switch),
            false => before.dest_of_terminal(named(&terminal.description, &before)),
        };
        for (s, port) in found.ports_to(d).iter().enumerate() {
            let is_home = is_guest && s == terminal.switch.index();
            let expected = if is_home { terminal.port.get() } else { tables.ports_to(same)[s] };
            assert_eq!(*port, expected, "{} at {s}", terminal.description);
            // Who asks for a route without a layer is told SL 0.
            let layer = tables.layers_to(same)[s];
            let told = if is_guest && !is_home && layer == Tables::NO_LAYER { 0 } else { layer };
            assert_eq!(found.layers_to(d)[s], told, "{} at {s}", terminal.description);
        }
    }
    for s in after.switch_ids().map(|s| after.dest_of_switch(s)) {
        assert_eq!(found.ports_to(s).len(), 9);
    }
}

/// An order that names a channel which the fabric does not have is none.
#[test]
fn an_order_of_more_channels_is_no_certificate() {
    let fabric = generate("torus:3x3,hosts=1").unwrap();
    let larger = generate("torus:4x4,hosts=1").unwrap();
    let order = |n: usize, vl: u64| vec![(larger.channel_ids().nth(n).unwrap(), Vl::new(vl).unwrap())];
    let channels = fabric.channels().len();
    assert!(Certificate::new(&fabric, order(channels - 1, 14)).is_ok());
    for vl in [0, 14] {
        assert_eq!(Certificate::new(&fabric, order(channels, vl)), Err(0));
    }
}
