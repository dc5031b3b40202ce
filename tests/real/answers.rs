//! Switches that do not answer: OpenSM calls a routing done when nothing is on its way any more, the plugin when every
//! switch has said that it has the tables.

use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, SwitchId, Tables};

use crate::handoff::laned;
use crate::plugin::routed;
use crate::testbed::{Testbed, assert_in_force, await_some};

/// Attributes of subnet management that a switch is deaf to: one block of forwarding tables, one SL2VL table.
const LFT: u8 = 25;
const SL2VL: u8 = 23;

/// Epoch 2 while a switch that it changes is deaf to an attribute, and once it hears again.
fn hears_late(fabric: &Fabric, [first, second]: [&Tables; 2], (attribute, what): (u8, &str)) {
    let differs = |s: &SwitchId| fabric.dest_ids().any(|d| first.port(*s, d) != second.port(*s, d));
    let s = fabric.switch_ids().find(differs).or(fabric.switch_ids().next()).unwrap();
    let name = &fabric.switch(s).description;
    let bed = Testbed::fabric(fabric, &[]);
    bed.publish(fabric, first, 1);
    bed.await_epoch(1);
    let deaf = |percent: u8| bed.script(&["console", &format!("Error \"{name}\" {percent} {attribute}")]);
    deaf(100);
    bed.publish(fabric, second, 2);
    await_some("what is missing", || (bed.logged(what) > 0).then_some(()));
    let status = bed.await_status("the newest", |s| s.routings > 0);
    assert_eq!(status.generation, Some(1), "not every switch has the second one: {status:?}");
    deaf(0);
    bed.await_epoch(2);
    assert_in_force(&bed, fabric, second);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_epoch_is_acknowledged_when_each_switch_has_its_forwarding_table() {
    let fabric = generate("fattree:3x4,2").unwrap();
    let tables = ["sssp", "nue"].map(|engine| routed(&fabric, engine));
    hears_late(&fabric, [&tables[0], &tables[1]], (LFT, "its forwarding table"));
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_epoch_is_acknowledged_when_each_switch_has_its_lanes() {
    let fabric = generate("fattree:3x2,2").unwrap();
    let tables = routed(&fabric, "sssp");
    hears_late(&fabric, [&tables, &laned(&fabric, &tables)], (SL2VL, "its SL2VL tables"));
}
