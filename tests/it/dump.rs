//! `lft.txt` and `layers.txt`.

use std::path::Path;

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, Tables};
use sarouter::publish::dump::{DumpError, read_layers, read_lft, write_fts, write_layers, write_lft};

use crate::helpers::{altered, random_tables};

fn lft(fabric: &Fabric, tables: &Tables) -> String {
    let mut text = Vec::new();
    write_lft(fabric, tables, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn layers(fabric: &Fabric, tables: &Tables) -> String {
    let mut text = Vec::new();
    write_layers(fabric, tables, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn read(fabric: &Fabric, text: &str) -> Result<Vec<u8>, DumpError> {
    read_lft(fabric, Path::new("lft.txt"), text.as_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn reading_what_was_printed_gives_the_same_tables(
        switches in 2..12usize, extra in 0..9usize, seed in 0..10_000u64, hole: prop::sample::Index,
    ) {
        let spec = format!("random:{switches},{},{},seed={seed}", switches + 3, switches - 1 + extra);
        let fabric = generate(&spec).unwrap();
        let tables = altered(&fabric, &random_tables(&fabric, seed, 15, true), |ports, layers| {
            let at = hole.index(ports.len());
            (ports[at], layers[at]) = (Tables::UNREACHABLE, Tables::NO_LAYER);
        });
        let ports = read(&fabric, &lft(&fabric, &tables)).unwrap();
        let text = layers(&fabric, &tables);
        let layers = read_layers(&fabric, Path::new("layers.txt"), text.as_bytes()).unwrap();
        prop_assert_eq!(Tables::new(&fabric, "test", ports, layers).unwrap(), tables);
    }
}

#[test]
fn a_file_cut_short_anywhere_is_refused() {
    let fabric = generate("fattree:1x2,1").unwrap();
    let tables = random_tables(&fabric, 1, 1, false);
    let (lft, layers) = (lft(&fabric, &tables), layers(&fabric, &tables));
    for short in (0..lft.len()).map(|n| &lft[..n]) {
        assert!(read(&fabric, short).is_err(), "accepted {short:?}");
    }
    for short in (0..layers.len()).map(|n| &layers[..n]) {
        assert!(read_layers(&fabric, Path::new("cut.txt"), short.as_bytes()).is_err(), "accepted {short:?}");
    }
}

#[test]
fn a_switch_looks_as_opensm_prints_it() {
    let fabric = generate("fattree:1x2,1").unwrap();
    let tables = random_tables(&fabric, 1, 1, false);
    let text = lft(&fabric, &tables);
    let lids: Vec<u16> = fabric.dest_ids().map(|d| fabric.lid(d).get()).collect();
    assert_eq!(lids, [3, 4, 1, 2]);
    let up = tables.ports_to(fabric.dest_ids().last().unwrap())[0];
    let first: Vec<&str> = text.lines().take(6).collect();
    assert_eq!(
        first,
        [
            "Unicast lids [0-4] of switch Lid 1 guid 0x0000000000200000 ('S0000'):",
            "0x0001 000 # Switch portguid 0x0000000000200000: 'S0000'",
            &format!("0x0002 00{up} # Switch portguid 0x0000000000200001: 'S0001'"),
            "0x0003 001 # Channel Adapter portguid 0x0000000000100001: 'n1'",
            "0x0004 002 # Channel Adapter portguid 0x0000000000100003: 'n2'",
            "4 lids dumped",
        ]
    );
}

/// A line of ours as `dump_fts` of infiniband-diags 44 prints it.
fn as_dump_fts(line: &str) -> String {
    let line = line.replace("[0-4] of switch Lid", "[0x0-0x4] of switch DR path slid 0; dlid 0; 0,1 Lid");
    let line = line.replace("('", "(").replace("'):", "):");
    let line = line.replace("4 lids dumped", "4 valid lids dumped ").replace("# ", ": (");
    match line.split_at(2).0 {
        "0x" => line + ")\n",
        "Un" => line + "\n  Lid  Out   Destination\n       Port     Info \n",
        _ => line + "\n",
    }
}

#[test]
fn what_infiniband_diags_print_is_read_and_guids_win_over_lids() {
    let fabric = generate("fattree:1x2,1").unwrap();
    let own = lft(&fabric, &random_tables(&fabric, 1, 1, false));
    let mut printed = Vec::new();
    write_fts(&fabric, &random_tables(&fabric, 1, 1, false), &mut printed).unwrap();
    // The subnet manager gave n1 LID 4 and n2 LID 3; ibroute writes ": (" where OpenSM writes "# ".
    let mut text = String::new();
    let mut same_lids = String::new();
    for line in own.lines() {
        same_lids += &as_dump_fts(line).replace("DR path slid 0; dlid 0; 0,1 ", "");
        let line = match line.split_once(' ') {
            Some(("0x0003", rest)) => format!("0x0004 {rest}"),
            Some(("0x0004", rest)) => format!("0x0003 {rest}"),
            _ => line.to_string(),
        };
        text += &as_dump_fts(&line);
    }
    assert_eq!(String::from_utf8(printed).unwrap(), same_lids);
    assert_eq!(read(&fabric, &text).unwrap(), read(&fabric, &own).unwrap());
    let short = text.replacen("4 valid", "5 valid", 1);
    let message = read(&fabric, &short).unwrap_err().to_string();
    assert_eq!(message, "lft.txt:8: 5 entries were dumped, 4 are here");
}

#[test]
fn errors_name_the_line() {
    let fabric = generate("fattree:1x2,1").unwrap();
    let tables = random_tables(&fabric, 1, 1, false);
    let text = lft(&fabric, &tables);
    let fails = |from: &str, to: &str| {
        assert!(text.contains(from));
        read(&fabric, &text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert_eq!(fails("0x0003 001", "0x0003 999"), "lft.txt:4: not a LID and a port");
    assert_eq!(
        fails("0x0003 001 # Channel Adapter port", "0x0009 001 # Channel Adapter "),
        "lft.txt:4: the fabric has no destination of LID 9"
    );
    assert_eq!(
        fails("guid 0x0000000000200000 ('", "guid 0x7 ('"),
        "lft.txt:1: the fabric has no switch 0x0000000000000007"
    );
    let rows = layers(&fabric, &tables);
    let bad = rows.replacen("-00", "-0f", 1);
    let error = read_layers(&fabric, Path::new("layers.txt"), bad.as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("layers.txt:1: 'f' at LID"), "{error}");
}
