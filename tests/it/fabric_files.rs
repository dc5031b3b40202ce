//! Reading and writing fabric files: real ones, damaged ones, random ones.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, FabricBuilder, FabricError, Guid, Lid, NewTerminal, PortNum, Role};
use sarouter::observe::fabric;
use sarouter::observe::ibnetdiscover::{Discovered, Problem, parse, to_ibnetdiscover, to_net};

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/topologies").join(name)
}

fn load(name: &str) -> Discovered {
    fabric::discover(data(name).to_str().unwrap()).unwrap()
}

const DGX: &str = "topograph-dgx-gb200-582ca-40sw.ibnetdiscover";
const ALL: &[&str] = &[
    DGX,
    "psmn-X5.topofile",
    "ibtopotool-1.topo",
    "ibtopotool-2.topo",
    "ibtopotool-3.topo",
    "ibtopotool-4.topo",
];

/// Switches, hosts, aggregation nodes, inter-switch cables, unrouted.
fn counts(found: &Discovered) -> [usize; 5] {
    let f = &found.fabric;
    let hosts = f.host_ids().count();
    let cables = f.channels().len() / 2;
    [f.switches().len(), hosts, f.terminals().len() - hosts, cables, found.unrouted.len()]
}

#[test]
fn real_files_have_the_counts_of_a_hand_count() {
    assert_eq!(counts(&load(DGX)), [40, 542, 40, 532, 0]);
    assert_eq!(counts(&load("psmn-X5.topofile")), [11, 89, 0, 70, 0]);
    assert_eq!(counts(&load("ibtopotool-1.topo")), [2, 5, 0, 2, 0]);
    assert_eq!(counts(&load("ibtopotool-2.topo")), [1, 2, 0, 0, 0]);
    // Its three loop-back cables are no inter-switch cables.
    assert_eq!(counts(&load("ibtopotool-3.topo")), [2, 6, 0, 1, 0]);
    assert_eq!(counts(&load("ibtopotool-4.topo")), [1, 1, 0, 0, 0]);
}

#[test]
fn lids_guids_and_ports_are_those_of_the_file() {
    let f = load("ibtopotool-1.topo").fabric;
    let t = f.terminals().iter().find(|t| t.port_guid.get() == 0x8_f104_0396_055a).unwrap();
    assert_eq!((t.node_guid.get(), t.adapter_port.get(), t.lid.get()), (0x8_f104_0396_0558, 2, 14));
    assert_eq!(t.description, "MT23108 InfiniHost Mellanox Technologies");
    let s = f.switch(t.switch);
    assert_eq!((s.guid.get(), s.lid.get(), s.ports, t.port.get()), (0x0054_42ba_0000_3080, 6, 24, 8));
    assert_eq!(s.description, "ISR9024 Voltaire");
}

#[test]
fn aggregation_nodes_are_not_hosts() {
    let f = load(DGX).fabric;
    for t in f.terminals() {
        assert_eq!(t.role == Role::Aggregation, t.description.ends_with("Aggregation Node"), "{t:?}");
        assert_eq!(t.role == Role::Aggregation, t.port.get() == 65, "{t:?}");
    }
}

/// A prefix of a file is refused or is the same fabric; never a smaller one.
fn cut_short(text: &str, ends: impl Iterator<Item = usize>) {
    let path = Path::new("cut");
    let whole = parse(path, text).unwrap();
    for end in ends.filter(|end| text.is_char_boundary(*end)) {
        if let Ok(part) = parse(path, &text[..end]) {
            assert_eq!(part.fabric.fingerprint(), whole.fabric.fingerprint(), "cut at byte {end}");
            assert_eq!(part.fabric.switches(), whole.fabric.switches(), "cut at byte {end}");
            assert_eq!(part.fabric.terminals(), whole.fabric.terminals(), "cut at byte {end}");
        }
    }
}

#[test]
fn small_real_files_cut_at_any_byte_are_never_smaller_fabrics() {
    for name in ALL.iter().filter(|n| n.starts_with("ibtopotool")) {
        let text = std::fs::read_to_string(data(name)).unwrap();
        cut_short(&text, 0..text.len());
    }
}

#[test]
fn large_real_files_cut_at_lines_and_many_bytes_are_never_smaller_fabrics() {
    let text = std::fs::read_to_string(data("psmn-X5.topofile")).unwrap();
    cut_short(&text, text.match_indices('\n').map(|(at, _)| at + 1));
    cut_short(&text, (0..text.len()).step_by(97));
    let text = std::fs::read_to_string(data(DGX)).unwrap();
    cut_short(&text, text.match_indices('\n').map(|(at, _)| at + 1).step_by(23));
    cut_short(&text, (0..text.len()).step_by(1999));
}

/// A fabric with one of everything, in ibsim's terse form.
const NET: &str = "\
Switch 4 \"a\"
[1] \"b\"[2]
[2] \"h\"[1]
[3] \"a\"[4]
[4] \"a\"[3]

Switch 4 \"b\" # \"spine\" base port 0 lid 7 lmc 0
[2] \"a\"[1]
[3] \"h\"[2]
[1][ext 9](1) \"i\"[1](100009) w=4 # \"x\" lid -1 4xEDR

Hca 2 \"h\"
[1] \"a\"[2]
[2] \"b\" [3]

caguid=0x100008
Ca 1 \"i\"
[1](100009) \"b\"[1][ext 9] # lid lmc 0 \"spine\" lid 7 4xEDR

Ca 2 \"alone\"

Ca 1 \"p\"
[1] \"q\"[1]

Ca 1 \"q\"
[1] \"p\"[1]
";

#[test]
fn a_terse_net_gets_ibsims_guids_and_free_lids() {
    let found = parse(Path::new("x.net"), NET).unwrap();
    assert_eq!(counts(&found), [2, 3, 0, 1, 3]);
    let f = &found.fabric;
    let switches: Vec<_> =
        f.switches().iter().map(|s| (s.guid.get(), s.lid.get(), &*s.description)).collect();
    assert_eq!(switches, [(0x20_0000, 1, "a"), (0x20_0001, 7, "spine")]);
    let terminals: Vec<_> =
        f.terminals().iter().map(|t| (t.port_guid.get(), t.lid.get(), &*t.description)).collect();
    assert_eq!(terminals, [(0x10_0001, 2, "h"), (0x10_0002, 3, "h"), (0x10_0009, 4, "i")]);
    let unrouted: Vec<_> = found.unrouted.iter().map(|u| (&*u.description, u.cabled_to.as_deref())).collect();
    assert_eq!(unrouted, [("alone", None), ("p", Some("q")), ("q", Some("p"))]);
}

/// Replaces text of `NET` and gives the line and problem of the refusal.
fn refusal(from: &str, to: &str) -> (usize, Problem) {
    assert!(NET.contains(from));
    let error = parse(Path::new("x.net"), &NET.replacen(from, to, 1)).unwrap_err();
    assert!(error.to_string().starts_with(&format!("x.net:{}: ", error.line)), "{error}");
    (error.line, error.problem)
}

#[test]
fn contradictions_are_refused_with_their_line() {
    let port = |n| PortNum::new(n).unwrap();
    let text = |s: &str| s.to_string();
    assert_eq!(
        refusal("[2] \"a\"[1]", "[4] \"a\"[1]"),
        (8, Problem::OtherEnd { peer: text("a"), port: port(1), other: 2 }),
        "two cables at one port"
    );
    assert_eq!(
        refusal("[2] \"a\"[1]", "[2] \"a\"[2]"),
        (2, Problem::OtherEnd { peer: text("b"), port: port(2), other: 8 }),
        "ends disagree"
    );
    assert_eq!(refusal("Hca 2 \"h\"", "Hca 2 \"k\""), (3, Problem::UnknownPeer { peer: text("h") }));
    assert_eq!(refusal("Hca 2 \"h\"", "Hca 2 \"a\""), (12, Problem::NodeTwice { id: text("a"), first: 1 }));
    assert_eq!(
        refusal("[3] \"a\"[4]", "[2] \"a\"[4]"),
        (4, Problem::PortTwice { port: port(2), id: text("a"), first: 3 })
    );
    assert_eq!(
        refusal("Hca 2 \"h\"", "Hca 1 \"h\""),
        (14, Problem::NoSuchPort { port: port(2), id: text("h"), ports: 1 })
    );
    assert_eq!(
        refusal("(100009) \"b\"", "(100007) \"b\""),
        (10, Problem::OtherIdentity { what: "the port GUID", peer: text("i"), other: 18 })
    );
    assert_eq!(
        refusal("\"spine\" lid 7 4x", "\"spine\" lid 6 4x"),
        (18, Problem::OtherIdentity { what: "the LID", peer: text("b"), other: 7 })
    );
    let lid = Lid::new(7).unwrap();
    assert_eq!(refusal("# lid lmc", "# lid 7 lmc"), (18, Problem::Fabric(FabricError::DuplicateLid(lid))));
    let guid: Guid = "0x100009".parse().unwrap();
    assert_eq!(
        refusal("Switch 4 \"b\"", "switchguid=0x100009\nSwitch 4 \"b\""),
        (19, Problem::Fabric(FabricError::DuplicateGuid(guid)))
    );
    assert_eq!(refusal("Ca 2 \"alone\"", "Ca 2 \"H-0000000000000000\"").0, 20);
    assert_eq!(refusal("Ca 2", "Cable 2"), (20, Problem::NotUnderstood));
    assert_eq!(refusal("Ca 2", "include \"x\"\nCa 2"), (20, Problem::Unsupported { word: text("include") }));
    assert_eq!(refusal("Ca 2", "[1] \"a\"[1]\nCa 2").0, 20);
    assert_eq!(refusal("Ca 2", "devid=0x1\n[1] \"a\"[1]\nCa 2"), (21, Problem::PortWithoutNode));
    assert_eq!(refusal("lid 7 lmc", "lid 49152 lmc"), (7, Problem::Number { text: text("49152") }));
    assert_eq!(refusal("Ca 2", "Ca 256"), (20, Problem::Number { text: text("256") }));
    assert_eq!(refusal("Ca 2", "vendid=0x2c9x\nCa 2"), (20, Problem::Number { text: text("0x2c9x") }));
    assert_eq!(refusal("\"alone\"", "\"alone"), (20, Problem::Quote));
    assert_eq!(
        refusal("Switch 4 \"a\"", "# Initiated from node 77\nSwitch 4 \"a\""),
        (1, Problem::NoInitiator(0x77))
    );
}

#[test]
fn a_file_that_promises_its_end_needs_it() {
    let text = to_net(&generate("mesh:2,hosts=0").unwrap());
    assert!(parse(Path::new("x"), &text).is_ok());
    let problem = |text: &str| parse(Path::new("x"), text).unwrap_err().problem;
    assert_eq!(problem(text.strip_suffix("# end of fabric\n").unwrap()), Problem::NoEnd);
    assert!(parse(Path::new("x"), text.trim_end()).is_ok(), "an editor may drop the last newline");
    assert_eq!(problem(&format!("{text}Switch 1 \"x\"\n")), Problem::AfterEnd);
    // Without the promise, switches alone look like the beginning of a file.
    let anonymous: String =
        text.lines().filter(|l| !l.starts_with("# W")).map(|l| format!("{l}\n")).collect();
    assert_eq!(problem(&anonymous), Problem::NoTerminal);
}

#[test]
fn what_is_no_fabric_file_is_said_to_be_none() {
    let error = |source: &str| fabric::load(source).unwrap_err().to_string();
    assert!(error("no/such/file").contains("neither a file nor a spec"));
    assert!(error("torsu:4x4").contains("torus"), "{}", error("torsu:4x4"));
    assert!(error(data("psmn-X5.map").to_str().unwrap()).contains("psmn-X5.map: neither ibnetdiscover"));
    assert!(error(data("psmn-X5.topology.conf").to_str().unwrap()).contains("topology.conf: neither"));
    assert!(error(data("").to_str().unwrap()).contains("topologies"));
}

fn same(a: &Fabric, b: &Fabric) {
    assert_eq!(a.fingerprint(), b.fingerprint());
    assert_eq!(a.switches(), b.switches());
    assert_eq!(a.terminals(), b.terminals());
    assert_eq!(a.channels(), b.channels());
}

#[test]
fn real_files_survive_printing_and_reading() {
    for name in ALL {
        let f = load(name).fabric;
        same(&f, &parse(Path::new("p"), &to_ibnetdiscover(&f)).unwrap().fabric);
        let net = parse(Path::new("p"), &to_net(&f)).unwrap().fabric;
        assert_eq!(net.fingerprint(), f.fingerprint(), "{name}");
        assert_eq!(net.switches(), f.switches());
    }
}

#[test]
fn generated_fabrics_keep_their_names_in_a_net() {
    let net = to_net(&generate("fattree:2x2,1").unwrap());
    assert!(net.contains("[1]\t\"n1\"[1](100001)"), "{net}");
    assert!(net.contains("[3]\t\"S0002\"[1]"), "{net}");
    assert!(net.contains("caguid=0x100000\nCa\t1 \"n1\""), "{net}");
}

/// Port GUIDs as ConnectX adapters have them: that of the adapter, and the adapters of a host in a row.
#[test]
fn a_net_keeps_port_guids_that_are_neighbours() {
    let mut text = String::from("switchguid=0x500\nSwitch 8 \"s\"\n");
    for i in 0..6 {
        let guid = 0x100 + i;
        text += &format!("[{}] \"H-{guid:016x}\"[1]({guid:x})\n", i + 1);
    }
    for i in 0..6 {
        let guid = 0x100 + i;
        text += &format!("\ncaguid=0x{guid:x}\nCa 1 \"H-{guid:016x}\" # \"n{} mlx5_{}\"\n", i / 2, i % 2);
        text += &format!("[1]({guid:x}) \"s\"[{}]\n", i + 1);
    }
    let fabric = parse(Path::new("p"), &text).unwrap().fabric;
    let net = to_net(&fabric);
    assert_eq!(parse(Path::new("p"), &net).unwrap().fabric.fingerprint(), fabric.fingerprint());
    // ibsim reads no port GUIDs: it counts from the adapter's.
    let counted = net.lines().filter_map(|l| l.strip_prefix("caguid=0x"));
    let counted: Vec<u64> = counted.map(|g| u64::from_str_radix(g, 16).unwrap() + 1).collect();
    assert_eq!(counted, [0x100, 0x101, 0x102, 0x103, 0x104, 0x105]);
}

prop_compose! {
    /// Random switches, adapters with up to three ports, parallel cables, odd descriptions.
    fn random_fabric()(
        switches in prop::collection::vec((1u64..1 << 48, "[ -~]{0,20}"), 1..8),
        adapters in prop::collection::vec((1u64..1 << 48, 1usize..4, any::<bool>(), any::<u8>(), "[a-z0-9 \"#é-]{0,20}"), 0..12),
        cables in prop::collection::vec((0usize..8, 0usize..8), 0..20),
        lids in any::<bool>(),
        choices in prop::collection::vec(0usize..8, 40),
    ) -> Fabric {
        let mut builder = FabricBuilder::default();
        let mut free: Vec<u64> = vec![1; switches.len()];
        let (mut ids, mut lid) = (Vec::new(), 40_000);
        let mut next_lid = || { lid -= 7; lids.then(|| Lid::new(lid).unwrap()) };
        let mut guids = std::collections::BTreeSet::new();
        for (guid, description) in &switches {
            let mut guid = 8 * guid;
            while !guids.insert(guid) { guid += 8; }
            ids.push(builder.switch(Guid::new(guid).unwrap(), 80, next_lid(), description).unwrap());
        }
        let mut take = |s: usize| { free[s] += 1; PortNum::new(free[s]).unwrap() };
        let mut choices = choices.into_iter();
        for (guid, ports, aggregation, step, description) in &adapters {
            let mut guid = 8 * guid;
            while !guids.insert(guid) { guid += 8; }
            for p in 0..*ports as u64 {
                let s = choices.next().unwrap() % ids.len();
                builder.terminal(NewTerminal {
                    node_guid: Guid::new(guid).unwrap(),
                    port_guid: Guid::new(guid + p + u64::from(step % 3)).unwrap_or(Guid::new(guid).unwrap()),
                    adapter_port: PortNum::new(1 + p + u64::from(step / 100)).unwrap(),
                    lid: next_lid(),
                    description: description.clone(),
                    role: if *aggregation { Role::Aggregation } else { Role::Host },
                    switch: ids[s],
                    port: take(s),
                }).unwrap();
            }
        }
        for (a, b) in cables {
            let (a, b) = (a % ids.len(), b % ids.len());
            let (pa, pb) = (take(a), take(b));
            builder.cable(ids[a], pa, ids[b], pb).unwrap();
        }
        builder.build().unwrap()
    }
}

/// What [`to_net`] keeps: all but the GUIDs of adapters.
fn but_adapter_guids(f: &Fabric) -> Vec<(Guid, Lid, String, Role)> {
    f.terminals().iter().map(|t| (t.port_guid, t.lid, t.description.clone(), t.role)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn reading_undoes_printing(f in random_fabric()) {
        same(&f, &parse(Path::new("p"), &to_ibnetdiscover(&f)).unwrap().fabric);
        let net = parse(Path::new("p"), &to_net(&f)).unwrap().fabric;
        prop_assert_eq!(net.fingerprint(), f.fingerprint());
        prop_assert_eq!(net.switches(), f.switches());
        prop_assert_eq!(but_adapter_guids(&net), but_adapter_guids(&f));
    }

    #[test]
    fn printed_files_cut_short_are_refused(f in random_fabric(), at in any::<prop::sample::Index>()) {
        for text in [to_net(&f), to_ibnetdiscover(&f)] {
            let end = at.index(text.len() - 1);
            prop_assert!(!text.is_char_boundary(end) || parse(Path::new("p"), &text[..end]).is_err());
        }
    }

    #[test]
    fn no_line_makes_the_reader_panic(lines in prop::collection::vec(
        "(Switch|Ca|\\[|devid=|#|Rt)?[ \\[\\]()\"#a-c0-9x=é-]{0,20}(lid|\\[ext )?[ \\[\\]()\"#0-9-]{0,9}", 0..8)
    ) {
        let _ = parse(Path::new("p"), &(lines.join("\n") + "\n"));
    }
}
