//! Fabric files as sites have them: directors, prompts, marks, missing words.

use std::path::Path;

use sarouter::model::{Fabric, Role};
use sarouter::observe::fabric;
use sarouter::observe::ibnetdiscover::{Discovered, Problem, parse, recognises};

/// One leaf and one spine, three adapters, an aggregation node and a router, as `ibnetdiscover` prints.
const PLAIN: &str = "\
#
# Topology file: generated on Tue Mar  4 10:00:00 2025
#
# Initiated from node 0c42a10300000010 port 0c42a10300000010

vendid=0x2c9
devid=0xd2f0
sysimgguid=0xb8599f0300000100
switchguid=0xb8599f0300000100(b8599f0300000100)
Switch\t41 \"S-b8599f0300000100\"\t\t# \"MF0;leaf1:MQM8700/U1\" enhanced port 0 lid 1 lmc 0
[1]\t\"H-0c42a10300000010\"[1](c42a10300000010) \t\t# \"n1 mlx5_0\" lid 10 4xHDR
[2]\t\"H-0c42a10300000011\"[1](c42a10300000011) \t\t# \"n1 mlx5_1\" lid 11 2xHDR
[3]\t\"H-0c42a10300000020\"[1](c42a10300000021) \t\t# \"n2 \\\"a, b\\\" [é]\" lid 12 4xNDR
[4]\t\"H-0c42a10300000020\"[2](c42a10300000022) \t\t# \"n2 \\\"a, b\\\" [é]\" lid 13 4xNDR
[21]\t\"S-b8599f0300000200\"[1]\t\t# \"MF0;spine1:MQM8700/U1\" lid 2 4xHDR
[22]\t\"S-b8599f0300000200\"[2]\t\t# \"MF0;spine1:MQM8700/U1\" lid 2 4xHDR
[41]\t\"H-b8599f0300000108\"[1](b8599f0300000108) \t\t# \"Mellanox Technologies Aggregation Node\" lid 14 4xHDR

vendid=0x2c9
devid=0xd2f0
sysimgguid=0xb8599f0300000200
switchguid=0xb8599f0300000200(b8599f0300000200)
Switch\t41 \"S-b8599f0300000200\"\t\t# \"MF0;spine1:MQM8700/U1\" enhanced port 0 lid 2 lmc 0
[1]\t\"S-b8599f0300000100\"[21]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 1 4xHDR
[2]\t\"S-b8599f0300000100\"[22]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 1 4xHDR
[40]\t\"R-0c42a10300000030\"[1](c42a10300000031) \t\t# \"MLNX router\" lid 15 4xEDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42a10300000010
caguid=0xc42a10300000010
Ca\t1 \"H-0c42a10300000010\"\t\t# \"n1 mlx5_0\"
[1](c42a10300000010) \t\"S-b8599f0300000100\"[1]\t\t# lid 10 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 1 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42a10300000010
caguid=0xc42a10300000011
Ca\t1 \"H-0c42a10300000011\"\t\t# \"n1 mlx5_1\"
[1](c42a10300000011) \t\"S-b8599f0300000100\"[2]\t\t# lid 11 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 1 2xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42a10300000010
caguid=0xc42a10300000020
Ca\t2 \"H-0c42a10300000020\"\t\t# \"n2 \\\"a, b\\\" [é]\"
[1](c42a10300000021) \t\"S-b8599f0300000100\"[3]\t\t# lid 12 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 1 4xNDR
[2](c42a10300000022) \t\"S-b8599f0300000100\"[4]\t\t# lid 13 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 1 4xNDR

vendid=0x2c9
devid=0xcf09
sysimgguid=0xb8599f0300000100
caguid=0xb8599f0300000108
Ca\t1 \"H-b8599f0300000108\"\t\t# \"Mellanox Technologies Aggregation Node\"
[1](b8599f0300000108) \t\"S-b8599f0300000100\"[41]\t\t# lid 14 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 1 4xHDR

vendid=0x2c9
devid=0x1017
caguid=0xc42a10300000040
Ca\t1 \"H-0c42a10300000040\"\t\t# \"not cabled\"

vendid=0x2c9
devid=0x1017
rtguid=0xc42a10300000030
Rt\t2 \"R-0c42a10300000030\"\t\t# \"MLNX router\"
[1](c42a10300000031) \t\"S-b8599f0300000200\"[40]\t\t# lid 15 lmc 0 \"MF0;spine1:MQM8700/U1\" lid 2 4xEDR
";

fn read(text: &str) -> Discovered {
    parse(Path::new("x"), text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn same(text: &str, why: &str) {
    let (a, b) = (read(PLAIN).fabric, read(text).fabric);
    assert_eq!(a.fingerprint(), b.fingerprint(), "{why}");
    assert_eq!(a.switches(), b.switches(), "{why}");
    assert_eq!(a.terminals(), b.terminals(), "{why}");
}

fn hosts(fabric: &Fabric) -> Vec<u64> {
    fabric.host_ids().map(|t| fabric.terminal(t).port_guid.get() & 0xff).collect()
}

#[test]
fn routers_and_aggregation_nodes_are_reached_but_no_hosts() {
    let found = read(PLAIN);
    assert_eq!(hosts(&found.fabric), [0x10, 0x11, 0x21, 0x22]);
    assert_eq!(found.fabric.terminals().len(), 6);
    assert_eq!(found.unrouted.len(), 1);
    let quoted = found.fabric.terminals().iter().find(|t| t.lid.get() == 12).unwrap();
    assert_eq!(quoted.description, "n2 \\\"a, b\\\" [é]");
    for name in ["Quantum Aggregation Node", "AGGREGATION NODE 3", "rack 7 aggregation node"] {
        let found =
            read(&PLAIN.replace("Mellanox Technologies Aggregation Node", name).replace("0xcf09", "0x1"));
        assert_eq!(hosts(&found.fabric).len(), 4, "{name}");
    }
    let found = read(&PLAIN.replace("Mellanox Technologies Aggregation Node", "sharp01 HCA-1"));
    assert_eq!(found.fabric.terminals().iter().filter(|t| t.role == Role::Host).count(), 4, "device id");
}

#[test]
fn what_stood_on_the_terminal_does_not_matter() {
    same(&format!("\u{feff}{PLAIN}"), "byte-order mark");
    same(&PLAIN.replace('\n', "\r\n"), "CRLF");
    same(PLAIN.trim_end(), "no newline at the end");
    for before in [
        "[root@ufm01 ~]# ibnetdiscover\n",
        "root@ufm01:~$ ibnetdiscover -g\n",
        "Last login: Tue Mar 4 09:59:58 2025 from 10.0.0.1\n[1] 4711\n\n",
        "2025-03-04 10:00:00 INFO start\nsudo: ibnetdiscover\n",
        "-E- some \"tool\" said: [x]\n",
        "ibwarn: [4711] mad_rpc: _do_madrpc failed; dport (DR path slid 0)\n",
        "/build/rdma-core/libibnetdisc/ibnetdisc.c:225; Failed\n",
    ] {
        same(&format!("{before}{PLAIN}"), before);
        assert!(recognises(&format!("{before}{PLAIN}")), "{before}");
    }
    same(&format!("{PLAIN}[root@ufm01 ~]# "), "prompt at the end");
    same(&format!("{PLAIN}\nroot@ufm01:~$ exit\n"), "prompt at the end");
    same(&PLAIN.replace("\nvendid", "\n# Chassis 1\n\nvendid"), "comments in between");
    same(&PLAIN.replace("\n[21]\t", "\nibwarn: [3] x\n# cable 7\n[21]\t"), "messages in between");
}

#[test]
fn a_file_in_utf_16_is_read() {
    let dir = std::env::temp_dir().join(format!("sarouter-utf16-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("f");
    for (mark, word) in
        [([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]), ([0xfe, 0xff], u16::to_be_bytes)]
    {
        let words = PLAIN.encode_utf16().flat_map(word);
        std::fs::write(&path, mark.into_iter().chain(words).collect::<Vec<u8>>()).unwrap();
        let found = fabric::discover(path.to_str().unwrap()).unwrap();
        assert_eq!(found.fabric.terminals(), read(PLAIN).fabric.terminals());
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_lid_that_one_line_lacks_comes_from_another() {
    same(&PLAIN.replace("\" lid 10 4xHDR", "\" lid  4xHDR"), "at the switch");
    same(&PLAIN.replace("# lid 10 lmc 0", "# lid  lmc 0"), "at the adapter");
    same(&PLAIN.replace("port 0 lid 2 lmc 0", "port 0 lid  lmc 0"), "of a switch");
    same(&PLAIN.replace("lid 12 4xNDR", "lid ??NDR"), "width not known");
    // Where no line has it, it is the lowest that is free.
    let none = PLAIN.replace("\" lid 10 4xHDR", "\" lid  4xHDR").replace("# lid 10 lmc", "# lid  lmc");
    let lid = |g: u64, text: &str| {
        read(text).fabric.terminals().iter().find(|t| t.port_guid.get() & 0xff == g).unwrap().lid.get()
    };
    assert_eq!((lid(0x10, &none), lid(0x11, &none)), (3, 11));
}

#[test]
fn a_cable_may_be_listed_at_one_end_only() {
    for missing in [
        "[1]\t\"H-0c42a10300000010\"",
        "[1](c42a10300000010)",
        "[21]\t",
        "[1]\t\"S-b8599f0300000100\"",
        "[2](c42a10300000022)",
        "[41]\t",
        "[40]\t",
        "[1](c42a10300000031)",
    ] {
        assert_eq!(PLAIN.lines().filter(|l| l.starts_with(missing)).count(), 1, "{missing}");
        let text: String =
            PLAIN.lines().filter(|l| !l.starts_with(missing)).map(|l| format!("{l}\n")).collect();
        same(&text, missing);
    }
}

fn refusal(from: &str, to: &str) -> (usize, Problem) {
    assert!(PLAIN.contains(from), "{from}");
    let error = parse(Path::new("x"), &PLAIN.replacen(from, to, 1)).unwrap_err();
    (error.line, error.problem)
}

#[test]
fn damage_is_named_with_its_line() {
    assert_eq!(
        refusal("[2]\t\"H-0c42a10300000011\"", "[2]\t\"H-0c42a10300000010\"").0,
        12,
        "two cables at one port"
    );
    let cut = &PLAIN[..PLAIN.find("vendid=0x2c9\ndevid=0xcf09").unwrap()];
    let error = parse(Path::new("x"), cut).unwrap_err();
    assert_eq!(error.line, 17);
    assert!(error.to_string().starts_with("x:17: leads to \"H-b8599f0300000108\""), "{error}");
    assert!(matches!(refusal("Switch\t41", "Switch\t999"), (10, Problem::Number { .. })), "first record");
    assert!(matches!(refusal("vendid=0x2c9", "vendid=zz"), (6, Problem::Number { .. })), "first record");
    assert!(matches!(refusal("[22]\t\"S", "[22]\tS"), (16, Problem::NotUnderstood)));
    assert!(matches!(
        refusal("\"S-b8599f0300000200\"[1]", "\"S-b8599f0300000200\"[42]"),
        (15, Problem::NoSuchPort { .. })
    ));
    assert!(matches!(refusal("lid 12 4xNDR", "lid 99 4xNDR"), (13, Problem::OtherIdentity { .. })));
    let node = &PLAIN[..PLAIN.find("\n[1](c42a10300000031)").unwrap()];
    assert_eq!(
        parse(Path::new("x"), node).unwrap_err().problem,
        Problem::NoNewline,
        "a record without its ports"
    );
}

/// A director of two lines and a spine: `id` is what cables call them, `node` the GUID of the system.
fn director(id: fn(u64) -> u64) -> String {
    let mut text = String::from(
        "# Initiated from node 00000000000000aa port 00000000000000aa\n\nChassis 1 (guid 0xf000)\n",
    );
    let names = ["spine", "line1", "line2"];
    let cables: [&[(u8, usize, u8)]; 3] =
        [&[(1, 1, 7), (2, 2, 7), (3, 1, 8)], &[(7, 0, 1), (8, 0, 3)], &[(7, 0, 2)]];
    for (s, cables) in cables.iter().enumerate() {
        let (port0, lid) = (0xf100 + s as u64, s + 1);
        text += &format!(
            "\nHostname: dir\n# {}\nvendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0xf000\t\t# Chassis 1\n",
            names[s]
        );
        text += &format!("switchguid=0xf000({port0:x})\t# ISR9288 Line {s} Chip 1\n");
        text += &format!(
            "Switch\t40 \"S-{:016x}\"\t\t# \"MF0;dir:CS8500/L{s}/U1\" enhanced port 0 lid {lid} lmc 0\n",
            id(port0)
        );
        if s > 0 {
            text += &format!(
                "[1][ext {s}]\t\"H-{:016x}\"[1]({:x}) \t\t# \"n{s}\" lid {} 4xHDR\n",
                0xa9 + s,
                0xa9 + s,
                10 + s
            );
        }
        for (port, far, far_port) in *cables {
            let far_id = id(0xf100 + *far as u64);
            text += &format!(
                "[{port}]\t\"S-{far_id:016x}\"[{far_port}]\t\t# \"MF0;dir:CS8500/L{far}/U1\" lid {} 4xHDR\n",
                far + 1
            );
        }
    }
    text += "\nNon-Chassis Nodes\n";
    for s in 1..3 {
        let guid = 0xa9 + s as u64;
        text += &format!("\nvendid=0x2c9\ncaguid=0x{guid:x}\nCa\t1 \"H-{guid:016x}\"\t\t# \"n{s}\"\n");
        let switch = id(0xf100 + s as u64);
        text += &format!(
            "[1]({guid:x}) \t\"S-{switch:016x}\"[1][ext {s}]\t\t# lid {} lmc 0 \"x\" lid {} 4xHDR\n",
            10 + s,
            s + 1
        );
    }
    text
}

#[test]
fn switches_of_a_director_are_told_apart_by_their_port_guids() {
    let mut seen = Vec::new();
    for (why, id) in
        [("cables say the port GUID", (|g| g) as fn(u64) -> u64), ("cables say the node GUID", |_| 0xf000)]
    {
        let fabric = read(&director(id)).fabric;
        let guids: Vec<u64> = fabric.switches().iter().map(|s| s.guid.get()).collect();
        assert_eq!(guids, [0xf100, 0xf101, 0xf102], "{why}");
        assert_eq!((fabric.channels().len(), fabric.terminals().len()), (6, 2), "{why}");
        seen.push(fabric.fingerprint());
    }
    assert_eq!(seen[0], seen[1]);
    // Without LIDs the cables themselves say which: each leads back, but for the parallel ones.
    let no_lids = director(|_| 0xf000)
        .lines()
        .map(|l| l.split(" lid ").next().unwrap().to_string() + "\n")
        .collect::<String>();
    assert_eq!(read(&no_lids).fabric.fingerprint(), seen[0]);
    let started = director(|g| g).replace("from node 00000000000000aa", "from node 000000000000f000");
    assert_eq!(read(&started).fabric.fingerprint(), seen[0], "started from a switch of the system");
    // Two that nothing tells apart are one device described twice.
    let error = parse(Path::new("x"), &director(|_| 0xf000).replace("(f101)", "(f102)")).unwrap_err();
    assert!(matches!(error.problem, Problem::NodeTwice { .. }), "{error}");
}

#[test]
fn neighbouring_guids_without_port_guids_do_not_clash() {
    let net = "Switch 8 \"s\"\n[1] \"a\"[1]\n[2] \"a\"[2]\n[3] \"b\"[1]\n[4] \"b\"[2]\n\n\
               caguid=0x100\nCa 2 \"a\"\n[1] \"s\"[1]\n[2] \"s\"[2]\n\ncaguid=0x101\nCa 2 \"b\"\n[1] \"s\"[3]\n[2] \"s\"[4]\n";
    let guids: Vec<u64> = read(net).fabric.terminals().iter().map(|t| t.port_guid.get()).collect();
    assert_eq!(guids, [0x101, 0x102, 0x103, 0x104]);
}

#[test]
fn a_plug_that_leads_a_port_back_to_itself_is_left_out() {
    let plug = "[30]\t\"S-b8599f0300000100\"[30]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 1 4xHDR\n[41]\t\"H-b8599f0300000108\"";
    let with = PLAIN.replacen("[41]\t\"H-b8599f0300000108\"", plug, 1);
    assert_ne!(with, PLAIN);
    same(&with, "a loopback plug");
}
