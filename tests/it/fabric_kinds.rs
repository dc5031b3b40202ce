//! The other files that hold a fabric: OpenSM's `opensm-subnet.lst` and ibdiagnet's `db_csv`.

use std::path::Path;

use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, PortPeer};
use sarouter::observe::ibnetdiscover::{Problem, parse, recognises};

fn read(text: &str) -> Result<Fabric, (usize, Problem)> {
    parse(Path::new("x"), text).map(|found| found.fabric).map_err(|e| (e.line, e.problem))
}

fn same(a: &Fabric, b: &Fabric) {
    assert_eq!(a.fingerprint(), b.fingerprint());
    assert_eq!(a.switches(), b.switches());
    assert_eq!(a.terminals(), b.terminals());
}

/// An end of a cable as OpenSM writes it; the far one of a line has its device id in the upper half.
fn end((kind, ports): (&str, u8), guids: (u64, u64), name: &str, lid: u16, port: u8, far: bool) -> String {
    let device = match (kind, far) {
        ("SW", false) => "BD36",
        ("SW", true) => "BD360000",
        (_, false) => "1003",
        (_, true) => "10030000",
    };
    format!(
        "{{ {kind} Ports:{ports:02X} SystemGUID:{0:016X} NodeGUID:{0:016X} PortGUID:{1:016X} VenID:000000 DevID:{device} Rev:000000A1 {{{name}}} LID:{lid:04X} PN:{port:02X} }}",
        guids.0, guids.1
    )
}

/// `opensm-subnet.lst` of a fabric: each cable at both ends.
fn subnet_lst(fabric: &Fabric) -> String {
    let mut text = String::new();
    let switch = |s: sarouter::model::SwitchId, port: u8, far: bool| {
        let sw = fabric.switch(s);
        let guid = sw.guid.get();
        end(("SW", sw.ports), (guid, guid), &sw.description, sw.lid.get(), port, far)
    };
    let adapter = |t: sarouter::model::TerminalId, far: bool| {
        let a = fabric.terminal(t);
        let guids = (a.node_guid.get(), a.port_guid.get());
        let kind = if t.index() == 0 { "CA-SM" } else { "CA" };
        end((kind, 1), guids, &a.description, a.lid.get(), a.adapter_port.get(), far)
    };
    for s in fabric.switch_ids() {
        for port in 1..=fabric.switch(s).ports {
            let far = match fabric.peer(s, sarouter::model::PortNum::new(port.into()).unwrap()) {
                Some(PortPeer::Channel(c)) => {
                    let c = fabric.channel(c);
                    switch(c.to, c.to_port.get(), true)
                }
                Some(PortPeer::Terminal(t)) => adapter(t, true),
                _ => continue,
            };
            text += &format!("{} {far} PHY=4x LOG=ACT SPD=10\n", switch(s, port, false));
        }
    }
    for t in fabric.terminal_ids() {
        let at = fabric.terminal(t);
        text += &format!(
            "{} {} PHY=4x LOG=ACT SPD=10\n",
            adapter(t, false),
            switch(at.switch, at.port.get(), true)
        );
    }
    text
}

#[test]
fn opensms_list_of_cables_is_a_fabric() {
    let fabric = generate("fattree:3x14,4").unwrap();
    let text = subnet_lst(&fabric);
    assert!(recognises(&text));
    same(&fabric, &read(&text).unwrap());
    let lines: Vec<&str> = text.lines().collect();
    for kind in ["{ CA", "{ SW"] {
        let lines = lines.iter().filter(|l| l.starts_with(kind));
        let part: String = lines.map(|l| format!("{l}\n")).collect();
        assert!(matches!(read(&part), Err((_, Problem::OneEnd { .. }))), "{kind}: at one end");
    }
    // Names with braces and quotes; an aggregation node by name or device.
    let odd = text.replace("{n7}", "{a {b}\"c\" PN:1}");
    assert_eq!(read(&odd).unwrap().terminals()[6].description, "a {b}\"c\" PN:1");
    let aggregation = text.replace("{n7}", "{Mellanox Technologies Aggregation Node}");
    assert_eq!(read(&aggregation).unwrap().host_ids().count(), fabric.terminals().len() - 1);
}

#[test]
fn damage_of_opensms_list_is_named_with_its_line() {
    let text = subnet_lst(&generate("fattree:2x2,1").unwrap());
    let wrong = |from: &str, to: &str| read(&text.replacen(from, to, 1)).unwrap_err();
    assert_eq!(wrong("LID:0004", "LID:00x4"), (1, Problem::Number { text: "00x4".to_string() }));
    assert_eq!(wrong(" PN:01 }", "").0, 1);
    assert!(matches!(wrong("PN:02", "PN:01"), (2, Problem::PortTwice { first: 1, .. })));
    assert!(matches!(wrong("PN:02", "PN:7F"), (2, Problem::NoSuchPort { .. })));
    assert!(matches!(wrong("{n1} LID:0004", "{n1} LID:0009"), (1, Problem::OtherIdentity { .. })));
    let lines = text.lines().count();
    for kept in 1..lines {
        let part: String = text.lines().take(kept).map(|l| format!("{l}\n")).collect();
        assert!(read(&part).is_err(), "cut after line {kept}");
    }
    let within = text.trim_end().strip_suffix("PHY=4x LOG=ACT SPD=10").unwrap();
    assert_eq!(read(within).unwrap_err(), (lines, Problem::NotUnderstood));
}

/// `ibdiagnet2.db_csv`, cut down to what is read and one section more.
const DB_CSV: &str = "\
START_NODES
NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID,DeviceID
\"MF0;leaf,1:MQM8700/U1\",41,2,1,1,0x0000000000000100,0x0000000000000100,0x0000000000000100,54000
\"MF0;spine \"\"1\"\":MQM8700/U1\",41,2,1,1,0x0000000000000200,0x0000000000000200,0x0000000000000200,54000
\"n1 mlx5_0\",1,1,1,1,0x0000000000000010,0x0000000000000010,0x0000000000000010,4123
\"n2 mlx5_0\",2,1,1,1,0x0000000000000020,0x0000000000000020,0x0000000000000021,4123
\"Mellanox Technologies Aggregation Node\",1,1,1,1,0x0000000000000108,0x0000000000000108,0x0000000000000108,53001
END_NODES

START_SYSTEM_GENERAL_INFORMATION
NodeGuid,SerialNumber
0x0000000000000100,\"MT1\"
END_SYSTEM_GENERAL_INFORMATION

START_PORTS
NodeGuid,PortGuid,PortNum,MKey,GIDPrfx,MSMLID,LID,CapMsk
0x0000000000000100,0x0000000000000100,0,0x0,0x0,1,7,1
0x0000000000000100,0x0000000000000100,1,0x0,0x0,0,0,0
0x0000000000000200,0x0000000000000200,0,0x0,0x0,1,8,1
0x0000000000000010,0x0000000000000010,1,0x0,0x0,1,11,1
0x0000000000000020,0x0000000000000021,1,0x0,0x0,1,12,1
0x0000000000000020,0x0000000000000022,2,0x0,0x0,1,65535,1
0x0000000000000108,0x0000000000000108,1,0x0,0x0,1,14,1
END_PORTS

START_LINKS
NodeGuid1,PortNum1,NodeGuid2,PortNum2
0x0000000000000100,1,0x0000000000000010,1
0x0000000000000020,1,0x0000000000000100,2
0x0000000000000100,21,0x0000000000000200,3
0x0000000000000108,1,0x0000000000000100,41
END_LINKS
";

#[test]
fn ibdiagnets_tables_are_a_fabric() {
    assert!(recognises(DB_CSV));
    let fabric = read(DB_CSV).unwrap();
    let switches: Vec<_> = fabric
        .switches()
        .iter()
        .map(|s| (s.guid.get(), s.lid.get(), s.ports, s.description.as_str()))
        .collect();
    assert_eq!(
        switches,
        [(0x100, 7, 41, "MF0;leaf,1:MQM8700/U1"), (0x200, 8, 41, "MF0;spine \"\"1\"\":MQM8700/U1")]
    );
    let hosts: Vec<_> = fabric
        .host_ids()
        .map(|t| fabric.terminal(t))
        .map(|t| (t.port_guid.get(), t.lid.get(), t.port.get(), t.description.as_str()))
        .collect();
    assert_eq!(hosts, [(0x10, 11, 1, "n1 mlx5_0"), (0x21, 12, 2, "n2 mlx5_0")]);
    assert_eq!((fabric.terminals().len(), fabric.channels().len()), (3, 2));
    assert!(read(&DB_CSV.replace('\n', "\r\n")).is_ok());
    // Columns by name, in any order.
    let swapped = DB_CSV
        .replace("NodeGuid1,PortNum1,", "PortNum1,NodeGuid1,")
        .replace("0x0000000000000100,21,", "21,0x0000000000000100,")
        .replace("0x0000000000000100,1,0x0000000000000010", "1,0x0000000000000100,0x0000000000000010")
        .replace("0x0000000000000020,1,0x0000000000000100,2", "1,0x0000000000000020,0x0000000000000100,2")
        .replace("0x0000000000000108,1,0x0000000000000100,41", "1,0x0000000000000108,0x0000000000000100,41");
    same(&fabric, &read(&swapped).unwrap());
}

#[test]
fn damage_of_ibdiagnets_tables_is_named_with_its_line() {
    let wrong = |from: &str, to: &str| read(&DB_CSV.replacen(from, to, 1)).unwrap_err();
    let section = |name: &str| Problem::NoSection { name: name.to_string() };
    assert_eq!(wrong("END_LINKS\n", "").1, section("LINKS"));
    assert_eq!(wrong("START_PORTS", "START_POTS").1, section("PORTS"));
    assert_eq!(wrong("NumPorts", "Ports"), (3, Problem::NoColumn { column: "NumPorts".to_string() }));
    assert!(matches!(
        wrong("0x0000000000000200,3", "0x0000000000000300,3"),
        (30, Problem::UnknownPeer { .. })
    ));
    assert!(matches!(
        wrong("0x0000000000000200,3", "0x0000000000000200,99"),
        (30, Problem::NoSuchPort { .. })
    ));
    assert!(matches!(
        wrong("0x0000000000000100,21", "0x0000000000000100,1"),
        (30, Problem::PortTwice { .. })
    ));
    assert!(matches!(wrong(",41,2,", ",x,2,"), (3, Problem::Number { .. })));
    for end in (0..DB_CSV.len() - 1).step_by(7) {
        assert!(read(&DB_CSV[..end]).is_err(), "cut at byte {end}");
    }
}
