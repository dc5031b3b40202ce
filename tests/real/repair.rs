//! A cable is cut: OpenSM's next engine routes at once, the service reads what OpenSM sees and publishes
//! routes around it, without a timer, and without Slurm.

use std::fs;

use sarouter::lab::generate::generate;
use sarouter::model::{ChannelId, Fabric};
use sarouter::observe::ibnetdiscover;
use sarouter::publish::Epoch;
use sarouter::publish::opensm::PluginStatus;

use crate::end_to_end::Cluster;
use crate::testbed::{Testbed, assert_in_force, await_some, unreached};

/// The fabric that OpenSM sees.
pub fn seen(bed: &Testbed) -> Option<Fabric> {
    let status = PluginStatus::read(&bed.state().join("opensm-status.json")).ok()?;
    let path = status.fabric_file(&bed.state())?;
    let text = fs::read_to_string(&path).ok()?;
    Some(ibnetdiscover::parse(&path, &text).unwrap().fabric)
}

fn without(fabric: &Fabric, cut: ChannelId) -> Fabric {
    fabric.without(|c| c == cut || c.reverse() == cut, |_| false).unwrap()
}

/// Waits until OpenSM has an epoch of this fabric in force; its number.
fn await_routes(cluster: &Cluster, fabric: &Fabric) -> u64 {
    let status = cluster.bed.await_status("routes for the fabric", |s| {
        s.fingerprint.as_deref() == Some(&fabric.fingerprint().to_string()) && s.refused_reason.is_none()
    });
    let epoch = cluster.current().unwrap();
    assert_eq!(Some(epoch.number().get()), status.generation);
    assert_eq!((status.lost_entries, status.stranded_pairs, status.uncovered_lids), (0, 0, 0));
    assert_in_force(&cluster.bed, fabric, &epoch.tables(fabric).unwrap());
    assert_eq!(unreached(&cluster.bed, fabric), []);
    epoch.number().get()
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_cut_cable_is_routed_around_without_a_timer_and_without_slurm() {
    // Nothing but a change makes the service look: the next look of its own is in an hour.
    let cluster = Cluster::with_settings(|text| {
        let own = text.lines().find(|l| l.starts_with("source =")).unwrap();
        let text = text
            .replace(own, "source = \"opensm\"")
            .replace("interval_seconds = 1", "interval_seconds = 3600");
        text.replace("backoff_max_seconds = 1", "backoff_max_seconds = 3600")
    });
    let fabric = cluster.fabric.clone();
    await_some("the first epoch", || cluster.current());
    assert_eq!(seen(&cluster.bed).unwrap().fingerprint(), fabric.fingerprint());
    let whole = await_routes(&cluster, &fabric);
    let job = cluster.submit("n[1,5,9,13]", 4);
    cluster.await_running(&job);
    cluster.signal("-HUP");
    let first = cluster.await_epoch_for(&[&[1, 5, 9, 13]]);
    assert!(first.number().get() > whole);

    // Each cable of the first leaf in turn, then with Slurm away.
    let leaf = fabric.terminals()[0].switch;
    let ups: Vec<ChannelId> = fabric.out(leaf).to_vec();
    for (i, cut) in ups.iter().take(3).enumerate() {
        if i == 2 {
            cluster.bed.script(&["stop", "slurmctld"]);
        }
        let up = fabric.channel(*cut);
        let (name, port) = (&fabric.switch(up.from).description, up.from_port.get());
        cluster.bed.cut(name, port);
        await_routes(&cluster, &without(&fabric, *cut));
        // The job that runs still has routes of its own.
        let epoch = cluster.await_epoch_for(&[&[1, 5, 9, 13]]);
        assert_eq!(epoch.plan().demand.groups.len(), 1);
        cluster.bed.mend(name, port);
        await_routes(&cluster, &fabric);
    }
    cluster.await_problem("routed for the jobs of before");
    cluster.bed.script(&["start", "slurmctld"]);
    cluster.signal("-HUP");
    cluster.await_healthy();
}

/// OpenSM's plugin repairs in two steps, and the service proves its epoch beside the second.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_epoch_follows_a_repair_in_two_steps() {
    let cluster = Cluster::on(
        generate("torus:4x4,hosts=1").unwrap(),
        |_| {},
        |text| {
            let own = text.lines().find(|l| l.starts_with("source =")).unwrap();
            text.replace(own, "source = \"opensm\"")
                .replace("interval_seconds = 1", "interval_seconds = 3600")
        },
    );
    let fabric = cluster.fabric.clone();
    // The epoch for a fabric, and not one halfway to it, which a cable that is back may take.
    let last_for = |fabric: &Fabric| {
        let epoch = cluster.current().filter(|epoch| !epoch.plan().halfway)?;
        let status = PluginStatus::read(&cluster.bed.state().join("opensm-status.json")).ok()?;
        let is_for = status.fingerprint.as_deref() == Some(&fabric.fingerprint().to_string());
        (is_for && status.in_force(epoch.number().get()) && status.stranded_pairs == 0).then_some(epoch)
    };
    await_some("the first epoch", || last_for(&fabric));
    let cuts = fabric.channel_ids().step_by(2);
    let proved = cuts.filter(|cut| {
        let up = fabric.channel(*cut);
        let (name, port) = (&fabric.switch(up.from).description, up.from_port.get());
        let repairs = || cluster.bed.logged("is repaired in two steps");
        let before = repairs();
        cluster.bed.cut(name, port);
        let left = without(&fabric, *cut);
        let epoch = await_some("the epoch for what is left", || last_for(&left));
        assert_in_force(&cluster.bed, &left, &epoch.tables(&left).unwrap());
        assert_eq!(unreached(&cluster.bed, &left), []);
        let in_two = repairs() > before;
        cluster.bed.mend(name, port);
        await_some("the epoch for all", || last_for(&fabric));
        in_two && epoch.plan().promise.mixed
    });
    assert_eq!(proved.take(1).count(), 1);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_switch_that_goes_and_comes_is_routed_around() {
    let cluster = Cluster::with_settings(|text| {
        let own = text.lines().find(|l| l.starts_with("source =")).unwrap();
        text.replace(own, "source = \"opensm\"").replace("interval_seconds = 1", "interval_seconds = 3600")
    });
    let fabric = cluster.fabric.clone();
    await_some("the first epoch", || cluster.current());
    await_routes(&cluster, &fabric);
    let spine = fabric.switch_ids().find(|s| fabric.attached(*s).is_empty()).unwrap();
    let dead = fabric.without(|_| false, |s| s == spine).unwrap();
    let cables = || fabric.out(spine).iter().map(|c| fabric.channel(*c));
    for c in cables() {
        cluster.bed.cut(&fabric.switch(c.from).description, c.from_port.get());
    }
    await_some("the fabric without the switch", || {
        seen(&cluster.bed).filter(|f| f.fingerprint() == dead.fingerprint())
    });
    await_routes(&cluster, &dead);
    for c in cables() {
        cluster.bed.mend(&fabric.switch(c.from).description, c.from_port.get());
    }
    await_routes(&cluster, &fabric);
    assert_eq!(cluster.bed.logged("cannot write"), 0);
}

/// What each policy of a recording says of the switches.
fn recorded(bed: &Testbed) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(bed.state().join("record/000001.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let policies = lines.filter(|line| line["event"] == "policy");
    policies.map(|mut line| line["in_switches"].take()).collect()
}

/// OpenSM is away while epochs are published: each is proved beside what the switches still have.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_service_knows_which_epoch_the_switches_have() {
    let cluster = Cluster::with_settings(|text| text + "\n[record]\n");
    await_some("the first epoch", || cluster.current());
    let had = await_routes(&cluster, &cluster.fabric);
    cluster.bed.script(&["stop", "opensm"]);
    let served = |jobs: usize| {
        let serves = |epoch: &Epoch| epoch.plan().demand.groups.len() == jobs;
        await_some("an epoch for the jobs", || cluster.current().filter(serves))
    };
    cluster.submit("n[1,5,9,13]", 4);
    served(1);
    cluster.submit("n[2,6,10]", 3);
    let newest = served(2);
    assert!(newest.number().get() > had + 1 && newest.plan().promise.mixed);
    let said = |last: serde_json::Value| {
        await_some("a policy", || (recorded(&cluster.bed).last() == Some(&last)).then_some(()))
    };
    said(serde_json::json!({ "epoch": had }));
    cluster.bed.script(&["start", "opensm"]);
    cluster.bed.await_status("the newest epoch", |s| s.in_force(newest.number().get()));
    said(serde_json::Value::Null);
}
