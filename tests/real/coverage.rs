//! No epoch in force that leaves a host without a route, and one status file for each OpenSM.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, FabricBuilder, Guid, NewTerminal, SwitchId};
use sarouter::publish::handoff;
use sarouter::publish::opensm::{PluginStatus, Trouble};

use crate::plugin::routed;
use crate::testbed::{Testbed, assert_in_force, await_some, run, unreached};

/// The same fabric with other devices.
pub fn elsewhere(fabric: &Fabric) -> Fabric {
    let other = |guid: Guid| Guid::new(guid.get() + 0x77_0000_0000).unwrap();
    let mut builder = FabricBuilder::default();
    let switches: Vec<SwitchId> = (fabric.switches().iter())
        .map(|s| builder.switch(other(s.guid), s.ports, Some(s.lid), &s.description).unwrap())
        .collect();
    for t in fabric.terminals() {
        let t = NewTerminal {
            node_guid: other(t.node_guid),
            port_guid: other(t.port_guid),
            ..NewTerminal::like(t, switches[t.switch.index()])
        };
        builder.terminal(t).unwrap();
    }
    for c in fabric.channels().iter().step_by(2) {
        builder.cable(switches[c.from.index()], c.from_port, switches[c.to.index()], c.to_port).unwrap();
    }
    builder.build().unwrap()
}

/// Puts an epoch in force before anybody looks.
fn put(state: &Path, fabric: &Fabric, epoch: u64) {
    let directory = state.join("epochs/000001");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("lft.bin"), handoff::encode(fabric, &routed(fabric, "sssp"), epoch)).unwrap();
    symlink("epochs/000001", state.join("current")).unwrap();
}

fn small() -> Fabric {
    generate("fattree:3x4,2").unwrap()
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_epoch_of_another_fabric_is_not_taken_at_the_first_routing_either() {
    let fabric = small();
    let bed =
        Testbed::start(&fabric, &["--no-slurm"], Vec::new(), |state| put(state, &elsewhere(&small()), 1));
    let status = bed.await_status("the first routing", |s| s.routings > 0);
    assert_eq!((status.engine.as_deref(), status.generation), (Some("updn"), None));
    assert_eq!(status.refused_generation, Some(1));
    let reason = status.refused_reason.unwrap();
    assert!(reason.contains("does not know the switches of 12 LIDs of hosts"), "{reason}");
    assert_eq!(unreached(&bed, &fabric), []);
    bed.publish(&fabric, &routed(&fabric, "nue"), 2);
    assert_eq!(bed.await_epoch(2).refused_reason, None);
    assert_in_force(&bed, &fabric, &routed(&fabric, "nue"));
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_epoch_without_a_way_between_two_hosts_is_not_taken() {
    let fabric = small();
    let spines: Vec<_> = fabric.switch_ids().filter(|s| fabric.attached(*s).is_empty()).collect();
    let apart = fabric.without(|_| false, |s| spines.contains(&s)).unwrap();
    let bed = Testbed::start(&fabric, &["--no-slurm"], Vec::new(), |state| put(state, &apart, 1));
    let status = bed.await_status("the first routing", |s| s.routings > 0);
    assert_eq!((status.engine.as_deref(), status.refused_generation), (Some("updn"), Some(1)));
    assert!(status.refused_reason.unwrap().contains("no way from switch"));
    assert_eq!(unreached(&bed, &fabric), []);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn two_managers_of_two_subnets_do_not_get_in_each_others_way() {
    let (here, there) = (small(), elsewhere(&small()));
    let first = Testbed::fabric(&here, &[]);
    let second = Testbed::fabric(&there, &[]);
    for (bed, fabric, epoch) in [(&first, &here, 7), (&second, &there, 9)] {
        let tables = routed(fabric, "sssp");
        bed.publish(fabric, &tables, epoch);
        let status = bed.await_epoch(epoch);
        assert_eq!(status.troubles(Some(epoch), status.written), []);
        assert_in_force(bed, fabric, &tables);
    }
    drop(second);

    // By mistake with one state directory: each says so in a file of its own, and routes all the same.
    let shared = format!("event_plugin_options state={},heartbeat=1", first.state().display());
    let second = Testbed::fabric(&there, &["--opensm-line", &shared]);
    let status = first.await_status("the rival", |s| !s.rivals.is_empty());
    assert_eq!(status.generation, Some(7));
    let rival = PluginStatus::read(&status.rivals[0]).unwrap();
    assert_eq!((rival.engine.as_deref(), rival.refused_generation), (Some("updn"), Some(7)));
    assert_ne!((rival.pid, rival.port.clone()), (status.pid, status.port.clone()));
    assert_eq!(status.troubles(Some(7), status.written), [Trouble::Rival(rival.file)]);
    assert_eq!(unreached(&second, &there), []);
    assert_in_force(&first, &here, &routed(&here, "sssp"));
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn whatever_lies_where_the_status_file_should_be_does_not_stop_opensm() {
    let fabric = small();
    let line = "event_plugin_options state=@BED@/state,status=@BED@/state/opensm-status.json,heartbeat=1";
    let bed = Testbed::start(&fabric, &["--no-slurm", "--opensm-line", line], Vec::new(), |state| {
        run(Command::new("mkfifo").arg(state.join("opensm-status.json")));
        run(Command::new("mkfifo").arg(state.join("opensm-status.json.new")));
    });
    await_some("the complaint", || (bed.logged("opensm-status.json: not a regular file") > 0).then_some(()));
    assert!(PluginStatus::read(&bed.state().join("opensm-status.json")).is_err());
    let tables = routed(&fabric, "sssp");
    bed.publish(&fabric, &tables, 1);
    await_some("the tables", || (bed.logged("sarouter tables configured") > 0).then_some(()));
    fs::remove_file(bed.state().join("opensm-status.json")).unwrap();
    bed.await_epoch(1);
    assert_in_force(&bed, &fabric, &tables);
    assert_eq!(bed.logged("opensm-status.json: not a regular file"), 1, "the log is flooded");

    // Somebody else's file: both say so.
    let other = bed.state().join("other");
    let file = bed.await_status("the file", |s| s.warning.is_none()).file;
    let inode = || fs::metadata(&file).unwrap().ino();
    let plant = || {
        fs::copy(&file, &other).unwrap();
        fs::rename(&other, &file).unwrap();
        inode()
    };
    let mut planted = plant();
    await_some("the warning", || {
        let is_told = PluginStatus::read(&file).is_ok_and(|s| s.warning.is_some());
        // A write of the plugin's own that had begun before takes its place unseen.
        if !is_told && inode() != planted {
            planted = plant();
        }
        is_told.then_some(())
    });
    assert_eq!(bed.logged("another process writes"), 1);
    bed.await_status("the end of the warning", |s| s.warning.is_none());
}
