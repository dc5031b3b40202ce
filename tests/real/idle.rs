//! Nodes that the service recommends for a job, beside what Slurm says of them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use sarouter::model::NodeName;
use sarouter::service::client::Client;
use serde_json::{Value, json};

use crate::placement::{BUSY, Cluster, NODES, names};
use crate::slurmrestd::slurmrestd;
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

/// Of 26 that are free.
fn loses_drained_and_reserved_nodes(cluster: &Cluster, all: &BTreeSet<NodeName>) {
    cluster.bed.slurm("scontrol", &["update", "NodeName=n[2-4]", "State=DRAIN", "Reason=test"]);
    let some = recommended(&place(cluster, 23, 23, "slurm"));
    assert_eq!(all.difference(&some).cloned().collect::<BTreeSet<_>>(), names("n[2-4]"));
    let why = "only 23 of 24 nodes are free";
    assert_eq!(place(cluster, 24, 23, "slurm")["why"], json!(why));

    let reservation =
        "create reservation ReservationName=x Users=root StartTime=now Duration=60 Nodes=n[31-32]";
    cluster.bed.slurm("scontrol", &reservation.split(' ').collect::<Vec<_>>());
    let fewer = recommended(&place(cluster, 21, 21, "slurm"));
    assert_eq!(some.difference(&fewer).cloned().collect::<BTreeSet<_>>(), names("n[31-32]"));
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_drained_or_reserved_node_is_neither_counted_nor_recommended() {
    let mut cluster = Cluster::up(NODES, &[], "");
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    cluster.serve();
    let all = recommended(&place(&cluster, 26, 26, "slurm"));
    assert!(all.is_disjoint(&names(BUSY)) && all.contains(&NodeName::new("n2").unwrap()), "{all:?}");

    loses_drained_and_reserved_nodes(&cluster, &all);

    // Nobody answers: what no job has, and the answer says that it is that.
    cluster.testbed("stop");
    let guessed = recommended(&place(&cluster, 26, 26, "jobs"));
    assert_eq!(guessed, all);
}

/// A service that hears of jobs from slurmrestd, on a machine without Slurm's commands.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn slurmrestd_says_which_nodes_are_free_where_there_is_no_sinfo() {
    let mut cluster = Cluster::up(NODES, &[], "sinfo = \"./sinfo\"");
    let bed = cluster.bed.path().to_path_buf();
    let settings = fs::read_to_string(bed.join("sarouter.toml")).unwrap();
    let settings = settings.replace("[slurm]", "[slurm]\nsource = \"slurmrestd\"");
    let settings = settings.replace("./sinfo", bed.join("sinfo").to_str().unwrap());
    let address = "[slurmrestd]\nurl = \"unix:restd/socket\"\n";
    fs::write(bed.join("sarouter.toml"), format!("{settings}\n{address}")).unwrap();
    // slurmrestd runs as somebody else.
    fs::create_dir(bed.join("restd")).unwrap();
    for (path, mode) in [(bed.clone(), 0o755), (bed.join("restd"), 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let (conf, log) = (bed.join("slurm/slurm.conf"), bed.join("log/slurmrestd.log"));
    let socket = format!("unix:{}", bed.join("restd/socket").display());
    let mut rest = slurmrestd(&conf, &log, "rest_auth/local").arg(socket).spawn().unwrap();
    cluster.nodes(&cluster.submit(&["-N6", "-w", BUSY], None));
    cluster.serve();
    let all = recommended(&place(&cluster, 26, 26, "slurm"));
    assert!(all.is_disjoint(&names(BUSY)), "{all:?}");
    loses_drained_and_reserved_nodes(&cluster, &all);
    rest.kill().unwrap();
    rest.wait().unwrap();
    place(&cluster, 26, 26, "jobs");
    // The command is asked where the interface does not answer.
    let paths = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    let sinfo = paths.iter().map(|path| path.join("sinfo")).find(|path| path.exists()).unwrap();
    symlink(sinfo, bed.join("sinfo")).unwrap();
    place(&cluster, 21, 21, "slurm");
}
