//! The hand-off file: `decode ∘ encode = identity`, and whatever is damaged is refused.

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{Fabric, Tables};
use sarouter::publish::handoff::{HandoffError, decode, encode};

/// Tables of arbitrary bytes: the format must carry whatever an engine can say.
fn any_tables(fabric: &Fabric, engine: &str, seed: u64) -> Tables {
    let mut rng = Rng::new(seed);
    let entries = fabric.dest_count() * fabric.switches().len();
    let mut bytes = |values: &[u8]| (0..entries).map(|_| values[rng.below(values.len())]).collect();
    let ports = bytes(&[0, 1, 2, 17, 254, Tables::UNREACHABLE]);
    let layers = bytes(&[0, 1, 14, Tables::NO_LAYER]);
    Tables::new(fabric, engine, ports, layers).unwrap()
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
    assert_eq!(with(8, 2), HandoffError::Version(2));
    assert_eq!(with(24, 0), HandoffError::Field { field: "epoch number", value: 0 });
    assert_eq!(with(77, 1), HandoffError::Field { field: "reserved", value: 1 });
    assert_eq!(with(64, 4), HandoffError::Length { wanted: good.len() + 32, found: good.len() });
    assert_eq!(with(good.len() - 1, !good[good.len() - 1]), HandoffError::Checksum);
}
