//! Nodes that the service recommends for a job, beside what Slurm says of them.

use std::collections::BTreeSet;

use sarouter::model::NodeName;
use sarouter::service::client::Client;
use serde_json::{Value, json};

use crate::placement::{BUSY, Cluster, NODES, names};
use crate::testbed::await_some;

/// What the service says once this many nodes are free, by that witness.
fn place(cluster: &Cluster, nodes: usize, free: usize, from: &str) -> Value {
    let client = Client::new(&cluster.bed.state().join("api.sock"), std::time::Duration::from_secs(60));
    await_some(&format!("{free} free nodes by {from}"), || {
        let asked = client.wait(client.get::<Value>(&format!("/v1/place?nodes={nodes}")));
        asked.ok().filter(|told| told["free"] == free && told["free_from"] == from)
    })
}

fn recommended(placed: &Value) -> BTreeSet<NodeName> {
    names(placed["nodes"].as_str().unwrap_or_else(|| panic!("{placed}")))
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_drained_or_reserved_node_is_neither_counted_nor_recommended() {
    let mut cluster = Cluster::up(NODES, &[], "");
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    cluster.serve();
    let all = recommended(&place(&cluster, 26, 26, "slurm"));
    assert!(all.is_disjoint(&names(BUSY)) && all.contains(&NodeName::new("n2").unwrap()), "{all:?}");

    cluster.slurm("scontrol", &["update", "NodeName=n[2-4]", "State=DRAIN", "Reason=test"]);
    let some = recommended(&place(&cluster, 23, 23, "slurm"));
    assert_eq!(all.difference(&some).cloned().collect::<BTreeSet<_>>(), names("n[2-4]"));
    let why = "only 23 of 24 nodes are free";
    assert_eq!(place(&cluster, 24, 23, "slurm")["why"], json!(why));

    let reservation =
        "create reservation ReservationName=x Users=root StartTime=now Duration=60 Nodes=n[31-32]";
    cluster.slurm("scontrol", &reservation.split(' ').collect::<Vec<_>>());
    let fewer = recommended(&place(&cluster, 21, 21, "slurm"));
    assert_eq!(some.difference(&fewer).cloned().collect::<BTreeSet<_>>(), names("n[31-32]"));

    // Nobody answers: what no job has, and the answer says that it is that.
    cluster.testbed("stop");
    let guessed = recommended(&place(&cluster, 26, 26, "jobs"));
    assert_eq!(guessed, all);
}
