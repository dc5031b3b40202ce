//! A real MPI starts ranks where the order says. Its nodes are processes here, each with a host name of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::script::script;
use crate::testbed::run;

/// Starts Open MPI's daemon of a "node" where it is told to log in to one.
const AGENT: &str = r#"#!/bin/sh
host=$1
shift
exec unshare --uts sh -c 'hostname "$0" && exec sh -c "$*"' "$host" "$@"
"#;

/// The node of each rank, as `sarouter order --out` says it.
fn order(dir: &Path, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    command.current_dir(dir).args(["order", "--fabric", "fattree:2x4,4", "--out", "o"]).args(words);
    run(&mut command);
    let json = fs::read_to_string(dir.join("o/order.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    serde_json::from_value(json["order"].clone()).unwrap()
}

/// The node on which each rank started.
fn started(dir: &Path, words: &[&str]) -> Vec<String> {
    let mut command = Command::new("timeout");
    command.current_dir(dir).args(["300", "mpirun", "--allow-run-as-root", "--oversubscribe"]);
    command.args(["--mca", "plm", "rsh", "--mca", "plm_rsh_agent"]).arg(dir.join("agent"));
    command.args(["--mca", "oob_tcp_if_include", "lo"]).args(words);
    command.args(["sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK $(hostname)"]);
    let text = run(&mut command);
    let ranks: BTreeMap<usize, String> = text
        .lines()
        .filter_map(|line| {
            let (rank, node) = line.strip_prefix("rank ")?.split_once(' ')?;
            Some((rank.parse().unwrap(), node.to_string()))
        })
        .collect();
    assert_eq!(ranks.keys().copied().collect::<Vec<_>>(), (0..ranks.len()).collect::<Vec<_>>(), "{text}");
    ranks.into_values().collect()
}

#[test]
#[ignore = "needs Open MPI and root: scripts/test runs it"]
fn open_mpi_starts_ranks_where_the_order_says() {
    let dir = tempfile::tempdir().unwrap();
    let agent = dir.path().join("agent");
    script(&agent, AGENT);
    // Leaves of four: each next node of the list is on the other one.
    let nodes = ["--nodes", "n1,n5,n2,n6", "--pattern", "ring"];
    let said = order(dir.path(), &nodes);
    assert_ne!(said, ["n1", "n5", "n2", "n6"], "an order of its own");
    // More slots on the first nodes of the list: without the rank file, Open MPI would fill them first.
    fs::write(dir.path().join("slots"), "n1 slots=4\nn5 slots=4\nn2 slots=4\nn6 slots=4\n").unwrap();
    let words = ["--hostfile", "slots", "--rankfile", "o/rankfile"];
    assert_eq!(started(dir.path(), &words), said);

    let said = order(dir.path(), &[&nodes[..], &["--ranks-per-node", "2"]].concat());
    assert_eq!(said.len(), 8);
    let words = ["--bind-to", "none", "--hostfile", "o/hostfile"];
    assert_eq!(started(dir.path(), &words), said);
}
