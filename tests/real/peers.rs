//! The checker on tables of OpenSM's own engines, run on ibsim.

use std::time::Duration;

use sarouter::lab::generate::generate;
use sarouter::lab::peers::{PeerRouting, Routed, run};
use sarouter::model::{Fabric, FabricBuilder, Guid, LayerBudget, NewTerminal, PortNum, Promise, Role};
use sarouter::verify::{Checks, Finding, Verdict, judge_all};

/// OpenSM's engines need less than a second here; this only ends a broken test.
const DEADLINE: Duration = Duration::from_secs(300);

/// OpenSM's nue promises nothing for routes to switches: they are all on layer 0.
const CHECKS: Checks = Checks { promise: Promise::TOLD, hosts_only: true };

fn verdict(spec: &str, engine: &str) -> Verdict {
    let fabric = if spec == NUMBERED { numbered_torus() } else { generate(spec).unwrap() };
    // updn finds roots by itself only in trees.
    let roots: Vec<_> = fabric.switch_ids().take(usize::from(engine == "updn" && !is_tree(spec))).collect();
    let routed: Routed = match run(&fabric, engine, &roots, DEADLINE).unwrap() {
        PeerRouting::Routed(routed) => *routed,
        other => panic!("{engine} on {spec}: {other:?}"),
    };
    judge_all(&fabric, &routed.tables, LayerBudget::new(8).unwrap(), CHECKS)
}

fn is_tree(spec: &str) -> bool {
    spec.starts_with("fattree") || spec.starts_with("kary")
}

const NUMBERED: &str = "torus 4x4x4, equal ports in equal directions";

/// Ports 1, 3, 5 go up in the three dimensions and 2, 4, 6 down. dor breaks ties of both ways
/// round a ring of four by port number; equal numbers close the ring.
fn numbered_torus() -> Fabric {
    let (guid, port) = (|n: usize| Guid::new(n as u64).unwrap(), |n: usize| PortNum::new(n as u64).unwrap());
    let mut builder = FabricBuilder::default();
    let ids: Vec<_> =
        (0..64).map(|s| builder.switch(guid(0x20_0000 + s), 7, None, &format!("S{s:04}")).unwrap()).collect();
    for s in 0..64 {
        for (dimension, stride) in [16, 4, 1].into_iter().enumerate() {
            let at = s / stride % 4;
            let up = s - at * stride + (at + 1) % 4 * stride;
            let (near, far) = (port(2 * dimension + 1), port(2 * dimension + 2));
            builder.cable(ids[s], near, ids[up], far).unwrap();
        }
        let host = NewTerminal {
            node_guid: guid(0x10_0000 + 2 * s),
            port_guid: guid(0x10_0001 + 2 * s),
            adapter_port: port(1),
            lid: None,
            description: format!("n{}", s + 1),
            role: Role::Host,
            switch: ids[s],
            port: port(7),
        };
        builder.terminal(host).unwrap();
    }
    builder.build().unwrap()
}

fn accepted(spec: &str, engine: &str) {
    let verdict = verdict(spec, engine);
    assert!(verdict.accepted, "{engine} on {spec}: {} findings: {}", verdict.findings_total, text(&verdict));
}

fn text(verdict: &Verdict) -> String {
    verdict.findings.iter().map(|f| format!("{f}\n")).collect()
}

/// Rejected for cycles and nothing else, each printed channel by channel with a route.
fn rejected(spec: &str, engine: &str) {
    let verdict = verdict(spec, engine);
    assert!(!verdict.accepted, "{engine} on {spec}");
    for finding in &verdict.findings {
        let Finding::Cycle { channels, .. } = finding else { panic!("{engine} on {spec}: {finding}") };
        assert!(channels.len() > 1, "{finding}");
        let lines = finding.to_string();
        assert_eq!(lines.lines().count(), channels.len() + 1, "{lines}");
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn dfsssp_and_nue_are_accepted_on_four_fabrics() {
    for spec in ["fattree:10x18,5", "kary:4,3", "torus:4x4,hosts=2", "random:20,60,50,seed=1"] {
        accepted(spec, "dfsssp");
        accepted(spec, "nue");
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn updn_is_accepted_on_trees_and_rejected_on_irregular_fabrics() {
    accepted("fattree:10x18,5", "updn");
    accepted("kary:4,3", "updn");
    rejected("random:125,1000,1000,seed=1", "updn");
    rejected("dragonfly:12,6,6,15", "updn");
}

/// OpenSM's lash tells its SLs only while OpenSM notes it as the engine in use.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn lash_is_accepted_with_its_layers() {
    accepted("random:125,1000,1000,seed=1", "lash");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn minimal_hop_engines_are_rejected_on_tori() {
    rejected("torus:5x5,hosts=2", "minhop");
    rejected("torus:5x5,hosts=2", "sssp");
    rejected(NUMBERED, "dor");
}

/// Four leaves and two spines as today's are: an aggregation node at each, and hosts of two adapters whose
/// GUIDs are neighbours and those of their ports.
fn modern_tree() -> Fabric {
    let mut text = String::new();
    let port =
        |far: &str, kind: &str, guid: u64, port: usize| format!("[{port}]\t\"{kind}-{guid:016x}\"{far}\n");
    let mut adapters = String::new();
    for s in 0..6u64 {
        text += &format!("\nswitchguid=0x{0:x}({0:x})\nSwitch\t8 \"S-{0:016x}\" # \"S{s}\"\n", 0x9000 + s);
        let attach = |text: &mut String, adapters: &mut String, guid: u64, at: usize, name: &str| {
            *text += &port(&format!("[1]({guid:x})"), "H", guid, at);
            *adapters += &format!("\ncaguid=0x{guid:x}\nCa\t1 \"H-{guid:016x}\" # \"{name}\"\n");
            *adapters += &format!("[1]({guid:x}) \"S-{:016x}\"[{at}]\n", 0x9000 + s);
        };
        for i in 0..4 * u64::from(s < 4) {
            let name = format!("n{} mlx5_{}", 1 + 2 * s + i / 2, i % 2);
            attach(&mut text, &mut adapters, 0x1000 + 4 * s + i, 1 + i as usize, &name);
        }
        attach(&mut text, &mut adapters, 0x800 + s, 8, "Mellanox Technologies Aggregation Node");
        for far in if s < 4 { 4..6 } else { 0..4 } {
            text += &port(&format!("[{}]", 1 + s), "S", 0x9000 + far, 1 + far as usize);
        }
    }
    let found = sarouter::observe::ibnetdiscover::parse(std::path::Path::new("modern"), &(text + &adapters));
    found.unwrap().fabric
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn neighbouring_guids_and_aggregation_nodes_are_no_obstacle() {
    let fabric = modern_tree();
    assert_eq!((fabric.terminals().len(), fabric.host_ids().count()), (22, 16));
    for engine in ["updn", "minhop"] {
        let answer = run(&fabric, engine, &[], DEADLINE).unwrap();
        let PeerRouting::Routed(routed) = answer else { panic!("{engine}: {answer:?}") };
        let verdict = judge_all(&fabric, &routed.tables, LayerBudget::new(8).unwrap(), CHECKS);
        assert!(verdict.accepted, "{engine}: {}", text(&verdict));
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_engine_that_gives_up_is_an_answer() {
    let fabric = generate("fattree:4x4,2").unwrap();
    let answer = run(&fabric, "torus-2QoS", &[], DEADLINE).unwrap();
    assert!(matches!(answer, PeerRouting::Failed { .. }), "{answer:?}");
}

/// A script in the place of OpenSM starts it and kills it in the middle of its engine.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_opensm_that_dies_in_its_engine_is_an_answer() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("opensm");
    let text = "#!/bin/sh\n\
        PATH=${PATH#*:} opensm \"$@\" &\n\
        while ! [ -e answer.started ]; do sleep 0.01; done\n\
        kill -9 $!\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let mut bench = std::process::Command::new(env!("CARGO_BIN_EXE_sarouter"));
    bench.env("PATH", path).args(["bench", "peers", "--engines", "lash", "--deadline", "60"]);
    let output = bench.args(["--fabric", "random:125,1000,1000,seed=1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("| lash | died /"), "{said}");
}
