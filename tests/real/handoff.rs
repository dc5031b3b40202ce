//! The hand-off file across the two languages, and damaged files under the sanitizers.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::lanes::LaneRow;
use sarouter::model::{Fabric, LaneMap, PortNum, PortPeer, SwitchId, Tables, Vl};
use sarouter::publish::handoff::{decode, encode, encode_lids};
use sarouter::publish::opensm::PluginStatus;

use crate::plugin::{layered, routed};
use crate::testbed::{Testbed, assert_in_force, await_some, root, run};

fn tool(name: &str) -> Command {
    Command::new(root().join("plugin/opensm").join(name))
}

fn make(target: &str) {
    run(Command::new("make").args(["--silent", "-C", "plugin/opensm", target]).current_dir(root()));
}

/// Two lanes by in port, told apart by SL at every third turn: no proof of anything, but no two ports
/// can be mixed up unseen.
pub fn laned(fabric: &Fabric, tables: &Tables) -> Tables {
    let map = LaneMap::fill(fabric, |s, from, to| {
        let (from, to) = (u64::from(from.get()), u64::from(to.get()));
        let turn = s.index() as u64 + 5 * from + 3 * to;
        std::array::from_fn(|sl| Vl::new(if turn % 3 == 0 { sl as u64 % 4 } else { turn % 2 }).unwrap())
    });
    tables.clone().with_lanes(Some(Arc::new(map)))
}

/// The VLs of a pair of ports, as a switch is to have them.
pub fn lanes_of(fabric: &Fabric, tables: &Tables, s: SwitchId, from: PortNum, to: PortNum) -> LaneRow {
    let nothing = matches!(fabric.peer(s, from), None | Some(PortPeer::Nothing));
    let from = if nothing { PortNum::ZERO } else { from };
    *tables.lanes().unwrap().row(s, from, to)
}

/// The rows of tables as `handoff_check` prints them, with this before their names.
fn rows(fabric: &Fabric, tables: &Tables, before: &str) -> String {
    let mut text = String::new();
    for (what, by_dest) in
        [("ports", Tables::ports_to as fn(&Tables, _) -> &[u8]), ("layers", Tables::layers_to)]
    {
        for s in fabric.switch_ids() {
            let row: String =
                fabric.dest_ids().map(|d| format!("{:02x}", by_dest(tables, d)[s.index()])).collect();
            let _ = writeln!(text, "{before}{what} {} {row}", s.index());
        }
    }
    text
}

/// What `handoff_check` prints for these tables.
fn printed(fabric: &Fabric, tables: &Tables, epoch: u64) -> String {
    let mut text = format!("epoch {epoch}\nengine {}\nlayers {}\n", tables.engine(), tables.layers_used());
    let _ = writeln!(text, "fingerprint {}", fabric.fingerprint());
    for s in fabric.switches() {
        let _ = writeln!(text, "switch {} {}", s.guid, s.ports);
    }
    for t in fabric.terminals() {
        let _ = writeln!(text, "terminal {} {} {}", t.port_guid, t.switch.index(), t.port);
    }
    for c in fabric.channels().iter().step_by(2) {
        let _ = writeln!(text, "cable {} {} {} {}", c.from.index(), c.from_port, c.to.index(), c.to_port);
    }
    text += &rows(fabric, tables, "");
    for s in fabric.switch_ids().filter(|_| tables.lanes().is_some()) {
        let ports = || (0..=fabric.switch(s).ports).map(|p| PortNum::new(p.into()).unwrap());
        for (from, to) in ports().flat_map(|from| ports().map(move |to| (from, to))) {
            let row = lanes_of(fabric, tables, s, from, to).map(|vl| format!("{:02x}", vl.get())).concat();
            let _ = writeln!(text, "lanes {} {from} {to} {row}", s.index());
        }
    }
    text
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn c_reads_what_rust_writes() {
    make("handoff_check");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lft.bin");
    // Unconnected, without hosts on some switches, with parallel cables, with several layers.
    let broken = generate("fattree:3x2,2").unwrap();
    let spines: Vec<_> = broken.switch_ids().filter(|s| broken.attached(*s).is_empty()).collect();
    let unconnected = broken.without(|_| false, |s| spines.contains(&s)).unwrap();
    let fabrics = ["fattree:3x4,2", "torus:4x3,hosts=2", "kary:3,3", "random:20,50,60,seed=3"];
    let fabrics = fabrics.map(|spec| generate(spec).unwrap()).into_iter().chain([unconnected]);
    for (i, fabric) in fabrics.enumerate() {
        let tables = layered(&fabric, &routed(&fabric, "sssp"), 1 + 3 * i);
        let epoch = u64::MAX - i as u64;
        fs::write(&path, encode(&fabric, &tables, epoch)).unwrap();
        assert_eq!(run(tool("handoff_check").arg(&path)), printed(&fabric, &tables, epoch), "fabric {i}");
        let high = layered(&fabric, &routed(&fabric, "nue"), 1 + i);
        fs::write(&path, encode_lids(&fabric, &tables, Some(&high), None, None, epoch)).unwrap();
        let both = printed(&fabric, &tables, epoch) + &rows(&fabric, &high, "high ");
        assert_eq!(run(tool("handoff_check").arg(&path)), both, "fabric {i}, both LIDs");
        let tables = laned(&fabric, &tables);
        fs::write(&path, encode(&fabric, &tables, epoch)).unwrap();
        assert_eq!(run(tool("handoff_check").arg(&path)), printed(&fabric, &tables, epoch), "fabric {i}");
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn c_reads_the_first_version() {
    make("handoff_check");
    let path = root().join("tests/data/handoff/version-1.bin");
    let fabric = generate("torus:3x3,hosts=1").unwrap();
    let tables = decode(&fs::read(&path).unwrap()).unwrap().into_tables(&fabric).unwrap();
    assert_eq!(run(tool("handoff_check").arg(&path)), printed(&fabric, &tables, 1));
}

/// Runs the fuzzer; returns how many files were refused and accepted.
fn fuzz(file: &Path, more: &[&str]) -> (usize, usize) {
    let text = run(tool("handoff_fuzz").arg(file).args(more));
    let words: Vec<_> = text.split_whitespace().collect();
    (words[1].parse().unwrap(), words[3].parse().unwrap())
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn damaged_files_never_crash_the_parser() {
    make("handoff_fuzz");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lft.bin");
    for (seed, spec) in [("1", "fattree:3x4,2"), ("2", "torus:3x3,hosts=1"), ("3", "random:2,1,3,seed=1")] {
        let fabric = generate(spec).unwrap();
        let tables = layered(&fabric, &routed(&fabric, "sssp"), 3);
        for (tables, both) in [(laned(&fabric, &tables), false), (tables.clone(), true), (tables, false)] {
            fs::write(&path, encode_lids(&fabric, &tables, both.then_some(&tables), None, None, 1)).unwrap();
            let (refused, accepted) = fuzz(&path, &["10000", seed]);
            assert_eq!(refused + accepted, 10_000);
            // Some must pass, or nothing beyond the checksum was tried; damage must mostly be seen.
            assert!(accepted > 50 && refused > 8_000, "{spec}: refused {refused}, accepted {accepted}");
        }
    }
    let first = root().join("tests/data/handoff/version-1.bin");
    let (refused, accepted) = fuzz(&first, &["10000", "4"]);
    assert!(accepted > 50 && refused > 8_000, "version 1: refused {refused}, accepted {accepted}");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn damaged_files_never_crash_opensm_nor_replace_good_tables() {
    make("sanitize");
    let fabric = generate("fattree:3x4,2").unwrap();
    let good = layered(&fabric, &routed(&fabric, "sssp"), 3);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lft.bin");
    fs::write(&path, encode(&fabric, &good, 1)).unwrap();
    let keep = directory.path().to_str().unwrap();
    fuzz(&path, &["2000", "9", keep, "300"]);

    // The simulator's library reads beyond a buffer, and OpenSM sends one that it may have freed.
    let suppressions = directory.path().join("suppressions");
    let libraries = ["libumad2sim", "libibumad", "libosmvendor"];
    let lines: Vec<_> = libraries.iter().map(|l| format!("interceptor_via_lib:{l}\n")).collect();
    fs::write(&suppressions, lines.concat()).unwrap();
    let libasan = run(Command::new("gcc").arg("-print-file-name=libasan.so"));
    let environment = vec![
        ("SAROUTER_PLUGIN_DIR", root().join("plugin/opensm/sanitize").display().to_string()),
        ("SAROUTER_BED_PRELOAD", libasan.trim().to_string()),
        // OpenSM leaks; the parser is checked for leaks by itself.
        ("ASAN_OPTIONS", format!("detect_leaks=0:suppressions={}", suppressions.display())),
    ];
    let bed = Testbed::with(&fabric, &["--no-slurm"], environment);
    bed.publish(&fabric, &good, 1);
    let pid = bed.await_epoch(1).pid;
    let mut published = 0;
    let mut publish = |bytes: &[u8]| {
        let refusals = bed.logged("epoch refused");
        bed.publish_bytes(&format!("damaged{published}"), bytes);
        await_some("the refusal", || (bed.logged("epoch refused") > refusals).then_some(()));
        if published > 0 {
            fs::remove_dir_all(bed.state().join(format!("epochs/damaged{}", published - 1))).unwrap();
        }
        published += 1;
    };
    for i in 0..300 {
        publish(&fs::read(directory.path().join(format!("{i}.bin"))).unwrap());
    }
    // Hours of them where asked for: those that led somewhere new in the readers, each round others.
    let seconds = std::env::var("SAROUTER_DAMAGED").map_or(0, |text| text.parse().unwrap());
    let begun = std::time::Instant::now();
    for seed in (1..).take_while(|_| begun.elapsed().as_secs() < seconds) {
        make("handoff_guided");
        let kept = tempfile::tempdir().unwrap();
        let into = kept.path().to_str().unwrap();
        eprintln!("{}", run(tool("handoff_guided").args(["10", &format!("{seed}"), "-k", into]).arg(&path)));
        for file in fs::read_dir(kept.path()).unwrap() {
            publish(&fs::read(file.unwrap().path()).unwrap());
        }
    }
    eprintln!("{published} damaged files");
    let unharmed = |s: &PluginStatus| s.pid == pid && s.generation == Some(1) && s.refused_reason.is_some();
    bed.await_status("the last refusal", unharmed);
    assert_in_force(&bed, &fabric, &good);
    let next = routed(&fabric, "nue");
    bed.publish(&fabric, &next, 2);
    assert_eq!(bed.await_epoch(2).pid, pid);
    assert_in_force(&bed, &fabric, &next);
    let output = fs::read_to_string(bed.path().join("log/opensm.out")).unwrap();
    assert!(!output.contains("Sanitizer") && !output.contains("runtime error"), "{output}");
}
