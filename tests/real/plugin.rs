//! The OpenSM plugin on a simulated fabric: what it serves, what it refuses, what it holds.

use sarouter::lab::generate::generate;
use sarouter::model::{
    ChannelId, Demand, DestId, Fabric, FabricBuilder, LayerBudget, Lid, NewTerminal, PortNum, PortPeer,
    SwitchId, Tables, TerminalId,
};
use sarouter::observe::ibnetdiscover::to_net;
use sarouter::publish::handoff;
use sarouter::publish::opensm::{PluginStatus, STATUS_FILE};
use sarouter::route;
use std::fs;
use std::os::unix::fs::symlink;
use std::thread::sleep;
use std::time::Duration;

use crate::repair::seen;
use crate::testbed::{
    Testbed, assert_in_force, assert_sls, await_some, dest_guid, expected, pairs, unreached,
};

pub fn routed(fabric: &Fabric, engine: &str) -> Tables {
    let engine = route::engine(engine, &Default::default()).unwrap();
    engine.route(fabric, &Demand::oblivious(), LayerBudget::new(8).unwrap()).unwrap()
}

/// The same ports, all destinations spread over `layers` layers: shows any mix-up of SLs.
pub fn layered(fabric: &Fabric, tables: &Tables, layers: usize) -> Tables {
    let mut values = Vec::new();
    for d in fabric.dest_ids() {
        for s in fabric.switch_ids() {
            values.push(match () {
                () if fabric.attached(s).is_empty() => Tables::NO_LAYER,
                () if fabric.home(d) == s => 0,
                () => ((5 * s.index() + 3 * d.index() + 1) % layers) as u8,
            });
        }
    }
    Tables::new(fabric, "layered", tables.clone().into_raw().0, values).unwrap()
}

fn with_port(fabric: &Fabric, tables: &Tables, s: SwitchId, d: DestId, port: u8) -> Tables {
    let (mut ports, layers) = tables.clone().into_raw();
    ports[d.index() * fabric.switches().len() + s.index()] = port;
    Tables::new(fabric, "broken", ports, layers).unwrap()
}

/// Two leaves of four, two spines, two cables from each leaf to each spine.
fn small() -> Fabric {
    generate("fattree:3x4,2").unwrap()
}

/// Options of a bed whose plugin holds its tables when cables are cut.
const HOLD: [&str; 2] = ["--opensm-line", "event_plugin_options state=@BED@/state,heartbeat=1,on_loss=hold"];

/// The small fabric, and epoch 1 in force on it.
fn with_an_epoch(options: &[&str]) -> (Fabric, Testbed, Tables) {
    let fabric = small();
    let bed = Testbed::fabric(&fabric, options);
    let tables = routed(&fabric, "sssp");
    bed.publish(&fabric, &tables, 1);
    bed.await_epoch(1);
    (fabric, bed, tables)
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn serves_epochs_and_reloads_without_rediscovery() {
    let fabric = small();
    let bed = Testbed::fabric(&fabric, &[]);
    // Nothing is published: OpenSM's own engine routes, and we say so.
    let status = bed.await_status("the first routing", |s| s.routings > 0);
    assert_eq!((status.engine.as_deref(), status.generation), (Some("updn"), None));

    // OpenSM discovers twice when it starts, and then no more.
    await_some("the second discovery", || (bed.logged("HEAVY SWEEP COMPLETE") == 2).then_some(()));

    let first = layered(&fabric, &routed(&fabric, "sssp"), 4);
    bed.publish(&fabric, &first, 7);
    let status = bed.await_epoch(7);
    assert_eq!(status.fingerprint, Some(fabric.fingerprint().to_string()));
    assert_eq!(status.layers, Some(4));
    assert_eq!((status.lost_entries, status.uncovered_lids, status.guest_lids), (0, 0, 0));
    assert_in_force(&bed, &fabric, &first);
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let pairs = pairs(&hosts);
    assert_sls(&bed, &fabric, &first, &pairs);

    let second = routed(&fabric, "nue");
    assert_ne!(second.clone().into_raw().0, first.clone().into_raw().0, "the second epoch shows nothing new");
    bed.publish(&fabric, &second, 8);
    bed.await_epoch(8);
    assert_in_force(&bed, &fabric, &second);
    assert_sls(&bed, &fabric, &second, &pairs[..20]);
    assert_eq!(bed.logged("HEAVY SWEEP COMPLETE"), 2, "OpenSM has discovered the fabric again");

    // Back to an earlier epoch, as `rollback` does.
    bed.publish(&fabric, &first, 7);
    bed.await_epoch(7);
    assert_in_force(&bed, &fabric, &first);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn bad_epochs_leave_the_last_good_one_in_force() {
    let (fabric, bed, good) = with_an_epoch(&[]);

    let refused = |directory: &str, bytes: &[u8], epoch: Option<u64>, reason: &str| {
        bed.publish_bytes(directory, bytes);
        let has = |s: &Option<String>| s.as_deref().is_some_and(|r| r.contains(reason));
        let status = bed.await_status(reason, |s| has(&s.refused_reason));
        assert_eq!((status.generation, status.refused_generation), (Some(1), epoch), "{directory}");
        assert_eq!(status.engine.as_deref(), Some("sarouter"));
        assert_in_force(&bed, &fabric, &good);
    };
    let bytes = handoff::encode(&fabric, &routed(&fabric, "nue"), 2);
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 4;
    refused("damaged", &damaged, None, "checksum");
    refused("short", &bytes[..bytes.len() - 100], None, "bytes and should have");
    refused("empty", b"", None, "magic");

    // A leaf and a spine that send packets for the first host back and forth.
    let d = fabric.dest_of_terminal(fabric.host_ids().next().unwrap());
    let spine = fabric.switch_ids().find(|s| fabric.attached(*s).is_empty()).unwrap();
    let leaf = fabric.switch_ids().find(|s| *s != fabric.home(d) && *s != spine).unwrap();
    let up = fabric.out(leaf).iter().find(|c| fabric.channel(**c).to == spine).unwrap();
    let up = fabric.channel(*up);
    let one = with_port(&fabric, &good, leaf, d, up.from_port.get());
    let looping = with_port(&fabric, &one, spine, d, up.to_port.get());
    refused("loop", &handoff::encode(&fabric, &looping, 3), None, "a loop");
    let hole = with_port(&fabric, &one, spine, d, Tables::UNREACHABLE);
    refused("hole", &handoff::encode(&fabric, &hole, 4), None, "a dead end");

    // Same devices, other cables.
    let other = generate("fattree:3x4,2").unwrap();
    let miswired = recabled(&other);
    refused("miswired", &handoff::encode(&miswired, &routed(&miswired, "sssp"), 5), Some(5), "not there");
    // More layers than the simulator's cables have VLs.
    let many = layered(&fabric, &good, 15);
    refused("layers", &handoff::encode(&fabric, &many, 6), Some(6), "15 layers and a cable has 8 VLs");
    // A part of the fabric only.
    let dead = fabric.home(d);
    let part = fabric.without(|_| false, |s| s == dead).unwrap();
    refused(
        "part",
        &handoff::encode(&part, &routed(&part, "sssp"), 7),
        Some(7),
        "does not know the switches",
    );

    fs::remove_file(bed.state().join("current")).unwrap();
    symlink("epochs/999999", bed.state().join("current")).unwrap();
    bed.await_status("the missing file", |s| {
        s.refused_reason.as_deref().is_some_and(|r| r.contains("No such"))
    });
    assert_in_force(&bed, &fabric, &good);

    // After all that a good one still comes through, and the refusals are forgotten.
    bed.publish(&fabric, &routed(&fabric, "nue"), 9);
    assert_eq!(bed.await_epoch(9).refused_reason, None);
    assert_in_force(&bed, &fabric, &routed(&fabric, "nue"));
}

/// The same switches and hosts; the first two cables of the last switch have changed places.
fn recabled(fabric: &Fabric) -> Fabric {
    let last = fabric.switch_ids().last().unwrap();
    let [one, two] = [0, 1].map(|i| *fabric.channel(fabric.out(last)[i]));
    rebuilt(
        fabric,
        |_| true,
        |port, switch| match switch == last {
            true if port == one.from_port => two.from_port,
            true if port == two.from_port => one.from_port,
            _ => port,
        },
        |lid| lid,
    )
}

/// A copy with some terminals, other port numbers of cables and other LIDs.
fn rebuilt(
    fabric: &Fabric,
    keep: impl Fn(TerminalId) -> bool,
    port: impl Fn(PortNum, SwitchId) -> PortNum,
    lid: impl Fn(Lid) -> Lid,
) -> Fabric {
    let mut builder = FabricBuilder::default();
    let switches: Vec<SwitchId> = (fabric.switches().iter())
        .map(|s| builder.switch(s.guid, s.ports, Some(lid(s.lid)), &s.description).unwrap())
        .collect();
    for t in fabric.terminal_ids().filter(|t| keep(*t)) {
        let t = fabric.terminal(t);
        builder
            .terminal(NewTerminal {
                node_guid: t.node_guid,
                port_guid: t.port_guid,
                adapter_port: t.adapter_port,
                lid: Some(lid(t.lid)),
                description: t.description.clone(),
                role: t.role,
                switch: switches[t.switch.index()],
                port: t.port,
            })
            .unwrap();
    }
    for c in fabric.channels().iter().step_by(2) {
        let (a, b) = (switches[c.from.index()], switches[c.to.index()]);
        builder.cable(a, port(c.from_port, c.from), b, port(c.to_port, c.to)).unwrap();
    }
    builder.build().unwrap()
}

/// The tables without the entries that use a cut cable, and how many those are.
fn held(fabric: &Fabric, tables: &Tables, cut: ChannelId) -> (Tables, u64) {
    let (mut held, mut lost) = (tables.clone(), 0);
    for d in fabric.dest_ids() {
        for c in [cut, cut.reverse()] {
            let c = fabric.channel(c);
            if fabric.home(d) != c.from && tables.port(c.from, d) == Some(c.from_port) {
                held = with_port(fabric, &held, c.from, d, Tables::UNREACHABLE);
                lost += 1;
            }
        }
    }
    (held, lost)
}

/// The same, and without those by which packets arrive at such an entry.
fn held_as_far_as_they_lead(fabric: &Fabric, tables: &Tables, cut: ChannelId) -> Tables {
    let mut held = held(fabric, tables, cut).0;
    for _ in fabric.switches() {
        for (s, d) in fabric.switch_ids().flat_map(|s| fabric.dest_ids().map(move |d| (s, d))) {
            let next = held.port(s, d).and_then(|port| fabric.peer(s, port));
            let Some(PortPeer::Channel(c)) = next.filter(|_| fabric.home(d) != s) else { continue };
            if held.port(fabric.channel(c).to, d).is_none() {
                held = with_port(fabric, &held, s, d, Tables::UNREACHABLE);
            }
        }
    }
    held
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn holds_the_tables_when_a_cable_is_cut() {
    let (fabric, bed, tables) = with_an_epoch(&HOLD);

    let cut = fabric.channel_ids().max_by_key(|c| held(&fabric, &tables, *c).1).unwrap();
    let (rest, lost) = held(&fabric, &tables, cut);
    assert!(lost > 0, "nobody uses the cable");
    let end = fabric.channel(cut);
    let (name, port) = (&fabric.switch(end.from).description, end.from_port.get());
    bed.cut(name, port);
    let status = bed.await_status("the loss", |s| s.lost_entries > 0);
    assert_eq!((status.generation, status.lost_entries), (Some(1), lost));
    assert_in_force(&bed, &fabric, &rest);

    // A new epoch for the old fabric is refused, one for the fabric as it is is taken.
    bed.publish(&fabric, &routed(&fabric, "nue"), 2);
    let status = bed.await_status("the refusal", |s| s.refused_generation == Some(2));
    assert_eq!(status.generation, Some(1));
    let damaged = fabric.without(|c| c == cut || c.reverse() == cut, |_| false).unwrap();
    // So is the first of two steps, which strands nobody who is not stranded already; one that does is refused.
    let (ports, layers) = held_as_far_as_they_lead(&fabric, &tables, cut).into_raw();
    let first = Tables::new(&damaged, "first", ports, layers).unwrap();
    let d = damaged.dest_of_terminal(damaged.host_ids().next().unwrap());
    let stranded =
        |s: &SwitchId| damaged.has_hosts(*s) && *s != damaged.home(d) && first.port(*s, d).is_some();
    let more = damaged.switch_ids().find(stranded).unwrap();
    bed.publish(&damaged, &with_port(&damaged, &first, more, d, Tables::UNREACHABLE), 5);
    bed.await_status("the refusal", |s| s.refused_generation == Some(5));
    bed.publish(&damaged, &first, 6);
    let status = bed.await_epoch(6);
    assert!(status.lost_entries == 0 && status.stranded_pairs > 0, "{status:?}");
    let repaired = routed(&damaged, "sssp");
    bed.publish(&damaged, &repaired, 3);
    let status = bed.await_epoch(3);
    assert_eq!((status.lost_entries, status.stranded_pairs, status.refused_generation), (0, 0, None));
    assert_in_force(&bed, &damaged, &repaired);

    // OpenSM ends and starts: nothing changes.
    bed.script(&["kill", "opensm"]);
    bed.script(&["start", "opensm"]);
    bed.await_epoch(3);
    assert_in_force(&bed, &damaged, &repaired);

    // The epoch of the whole fabric waits until the cable is back.
    bed.publish(&fabric, &tables, 4);
    bed.await_status("the refusal", |s| s.refused_generation == Some(4));
    bed.mend(name, port);
    let status = bed.await_epoch(4);
    assert_eq!((status.lost_entries, status.refused_reason), (0, None));
    assert_in_force(&bed, &fabric, &tables);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn after_a_restart_with_a_cut_cable_the_next_engine_routes_whatever_was_held() {
    let (fabric, bed, tables) = with_an_epoch(&HOLD);
    let cut = fabric.channel_ids().max_by_key(|c| held(&fabric, &tables, *c).1).unwrap();
    let lost = held(&fabric, &tables, cut).1;
    let end = fabric.channel(cut);
    bed.cut(&fabric.switch(end.from).description, end.from_port.get());
    let status = bed.await_status("the loss", |s| s.lost_entries == lost);
    assert!(status.stranded_pairs > 0, "{status:?}");
    let damaged = fabric.without(|c| c == cut || c.reverse() == cut, |_| false).unwrap();
    assert_ne!(unreached(&bed, &damaged), []);
    bed.script(&["kill", "opensm"]);
    bed.script(&["start", "opensm"]);
    let status = bed.await_status("the restart", |s| s.pid != status.pid && s.routings > 0);
    assert_eq!((status.engine.as_deref(), status.refused_generation), (Some("updn"), Some(1)));
    assert_eq!(unreached(&bed, &damaged), []);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn declines_when_a_cable_is_cut_and_comes_back() {
    let (fabric, bed, tables) = with_an_epoch(&[]);
    let cut = fabric.channel_ids().max_by_key(|c| held(&fabric, &tables, *c).1).unwrap();
    let end = fabric.channel(cut);
    let (name, port) = (&fabric.switch(end.from).description, end.from_port.get());
    bed.cut(name, port);
    let status = bed.await_status("the next engine", |s| s.engine.as_deref() == Some("updn"));
    assert_eq!((status.generation, status.refused_generation), (None, Some(1)));
    let damaged = fabric.without(|c| c == cut || c.reverse() == cut, |_| false).unwrap();
    assert_eq!(unreached(&bed, &damaged), []);
    bed.mend(name, port);
    bed.await_epoch(1);
    assert_in_force(&bed, &fabric, &tables);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn restarts_and_other_lids_do_not_matter() {
    let fabric = small();
    let bed = Testbed::fabric(&fabric, &[]);
    let tables = layered(&fabric, &routed(&fabric, "sssp"), 3);
    bed.publish(&fabric, &tables, 5);
    bed.await_epoch(5);
    let (_, before) = bed.read_back();

    bed.script(&["stop", "opensm"]);
    let status = bed.await_status("the end", |s| !s.running);
    assert_eq!(status.generation, Some(5));
    bed.script(&["stop", "ibsim"]);
    let other =
        rebuilt(&fabric, |_| true, |port, _| port, |lid| Lid::new(1000 - 3 * u64::from(lid)).unwrap());
    fs::write(bed.path().join("fabric.net"), to_net(&other)).unwrap();
    fs::remove_file(bed.path().join("opensm/guid2lid")).unwrap();
    bed.script(&["start", "ibsim"]);
    bed.script(&["start", "opensm"]);
    bed.await_status("the restart", |s| s.running && s.in_force(5));
    let (_, after) = bed.read_back();
    assert!(
        after.values().all(|lid| *lid > Lid::new(900).unwrap()),
        "OpenSM did not take the LIDs: {after:?}"
    );
    assert!(before.values().all(|lid| *lid < Lid::new(900).unwrap()));
    assert_in_force(&bed, &fabric, &tables);
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let pairs: Vec<_> = hosts.windows(6).map(|w| (w[0], w[5])).collect();
    assert_sls(&bed, &fabric, &tables, &pairs);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn hosts_the_tables_do_not_know_are_routed_like_their_switch() {
    let fabric = small();
    let bed = Testbed::fabric(&fabric, &[]);
    let guest = fabric.host_ids().nth(5).unwrap();
    let known = rebuilt(&fabric, |t| t != guest, |port, _| port, |lid| lid);
    let tables = routed(&known, "sssp");
    bed.publish(&known, &tables, 1);
    let status = bed.await_epoch(1);
    assert_eq!((status.guest_lids, status.uncovered_lids, status.lost_entries), (1, 0, 0));
    let (found, lids) = bed.read_back();
    let mut wanted = expected(&known, &tables, &lids);
    let terminal = fabric.terminal(guest);
    let home = fabric.dest_of_switch(terminal.switch);
    let home = known.dest_ids().find(|d| dest_guid(&known, *d) == dest_guid(&fabric, home)).unwrap();
    for s in known.switch_ids() {
        let last = s == known.home(home);
        let port = if last { terminal.port } else { tables.port(s, home).unwrap() };
        wanted.get_mut(&known.switch(s).guid).unwrap().insert(lids[&terminal.port_guid], port.get());
    }
    assert_eq!(found, wanted);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn several_layers_need_qos() {
    let fabric = small();
    let bed = Testbed::fabric(&fabric, &["--opensm-line", "qos FALSE"]);
    let one = routed(&fabric, "sssp");
    bed.publish(&fabric, &layered(&fabric, &one, 2), 1);
    let status = bed.await_status("the refusal", |s| s.refused_generation == Some(1));
    assert!(status.refused_reason.unwrap().contains("qos TRUE"));
    bed.publish(&fabric, &layered(&fabric, &one, 1), 2);
    bed.await_epoch(2);
    assert_in_force(&bed, &fabric, &one);
}

/// Each request has OpenSM write all tables of all switches.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn where_other_engines_come_first_opensm_is_asked_ever_less() {
    let bed = Testbed::fabric(&small(), &["--opensm-line", "routing_engine updn,sarouter"]);
    let before = bed.logged("building routing");
    bed.publish(&small(), &routed(&small(), "sssp"), 1);
    // At once, after 5 s, and 10 s later.
    sleep(Duration::from_secs(30));
    let requests = bed.logged("building routing") - before;
    assert!((2..=4).contains(&requests), "{requests} in 30 s");
}

/// Who empties the state directory, or loses the file of the fabric, has it again without a cable being touched.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn the_file_of_the_fabric_is_written_again_when_it_is_removed() {
    let fabric = generate("fattree:4x4,2").unwrap();
    let bed = Testbed::fabric(&fabric, &[]);
    let is_there = || seen(&bed).filter(|found| found.fingerprint() == fabric.fingerprint());
    await_some("the file of the fabric", is_there);
    let status = PluginStatus::read(&bed.state().join(STATUS_FILE)).unwrap();
    fs::remove_file(status.fabric_file(&bed.state()).unwrap()).unwrap();
    await_some("the file once more", is_there);
}
