//! Lane maps on a simulated fabric: what switches have in SL2VL, by in port and out port.

use std::collections::BTreeMap;

use sarouter::lab::generate::generate;
use sarouter::model::lanes::{LaneRow, SLS};
use sarouter::model::{Fabric, Lid, PortNum, PortPeer, SwitchId, Tables, Vl};

use crate::handoff::{laned, lanes_of};
use crate::plugin::routed;
use crate::testbed::{Testbed, assert_in_force, assert_sls, unreached};

/// The rows of one out port by in port, asked of the switch.
fn sl2vl(bed: &Testbed, lid: Lid, out: PortNum) -> BTreeMap<u8, Vec<u8>> {
    let text = bed.script(&["ib", "smpquery", "sl2vl", &lid.to_string(), &out.to_string()]);
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("ports:")) {
        let (ports, vls) = line.split_once(": |").unwrap_or_else(|| panic!("{text}"));
        let mut numbers = ports.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
        let (from, to) = (numbers.next().unwrap(), numbers.next().unwrap());
        assert_eq!(to, out.to_string(), "{text}");
        let row =
            vls.split('|').map(str::trim).filter(|v| !v.is_empty()).map(|v| v.parse().unwrap()).collect();
        rows.insert(from.parse().unwrap(), row);
    }
    assert!(!rows.is_empty(), "{text}");
    rows
}

/// Asserts that each switch has these lanes on each port that leads somewhere. Cables have 8 VLs.
pub fn assert_lanes(bed: &Testbed, fabric: &Fabric, lanes: impl Fn(SwitchId, PortNum, PortNum) -> LaneRow) {
    let (_, lids) = bed.read_back();
    for s in fabric.switch_ids() {
        let switch = fabric.switch(s);
        let ports = || (0..=switch.ports).map(|p| PortNum::new(p.into()).unwrap());
        for to in ports().filter(|p| !matches!(fabric.peer(s, *p), None | Some(PortPeer::Nothing))) {
            let found = sl2vl(bed, lids[&switch.guid], to);
            for from in ports() {
                let wanted: Vec<u8> = lanes(s, from, to).iter().map(|v| v.get() % 8).collect();
                assert_eq!(found[&from.get()], wanted, "{}: in {from}, out {to}", switch.description);
            }
        }
    }
}

/// What OpenSM programs by itself: the VL is the SL, as far as there are VLs.
fn identity(_: SwitchId, _: PortNum, _: PortNum) -> LaneRow {
    std::array::from_fn(|sl| Vl::new(if sl == SLS - 1 { 7 } else { sl as u64 }).unwrap())
}

fn with_lanes(fabric: &Fabric, bed: &Testbed, epoch: u64) -> Tables {
    let tables = laned(fabric, &routed(fabric, "sssp"));
    bed.publish(fabric, &tables, epoch);
    let status = bed.await_epoch(epoch);
    assert_eq!((status.lanes, status.layers), (Some(4), Some(1)));
    tables
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn switches_choose_the_vl_by_in_port_and_out_port() {
    let fabric = generate("fattree:3x2,2").unwrap();
    let bed = Testbed::fabric(&fabric, &[]);
    bed.publish(&fabric, &routed(&fabric, "nue"), 1);
    assert_eq!(bed.await_epoch(1).lanes, None);
    let given = sl2vl_of_the_first(&bed, &fabric);

    let tables = with_lanes(&fabric, &bed, 2);
    assert_in_force(&bed, &fabric, &tables);
    assert_lanes(&bed, &fabric, |s, from, to| lanes_of(&fabric, &tables, s, from, to));
    let hosts: Vec<_> = fabric.host_ids().collect();
    assert_sls(&bed, &fabric, &tables, &[(hosts[0], hosts[5]), (hosts[4], hosts[1])]);

    // Without a map again: as before.
    bed.publish(&fabric, &routed(&fabric, "nue"), 3);
    assert_eq!(bed.await_epoch(3).lanes, None);
    assert_eq!(sl2vl_of_the_first(&bed, &fabric), given);

    // Another engine's tables do not run on our lanes.
    with_lanes(&fabric, &bed, 4);
    let c = fabric.channel(fabric.out(fabric.switch_ids().next().unwrap())[0]);
    let cut = fabric.out(c.from)[0];
    let damaged = fabric.without(|d| d == cut || d.reverse() == cut, |_| false).unwrap();
    bed.cut(&fabric.switch(c.from).description, c.from_port.get());
    bed.await_status("the next engine", |s| s.engine.as_deref() == Some("updn"));
    assert_eq!(unreached(&bed, &damaged), []);
    assert_lanes(&bed, &damaged, identity);
}

/// The rows of the first switch on its last port that leads somewhere.
fn sl2vl_of_the_first(bed: &Testbed, fabric: &Fabric) -> Vec<Vec<u8>> {
    let s = fabric.switch_ids().next().unwrap();
    let (_, lids) = bed.read_back();
    let mut ports = (1..=fabric.switch(s).ports).map(|p| PortNum::new(p.into()).unwrap());
    let out = ports.rfind(|p| !matches!(fabric.peer(s, *p), None | Some(PortPeer::Nothing))).unwrap();
    sl2vl(bed, lids[&fabric.switch(s).guid], out).into_values().collect()
}
