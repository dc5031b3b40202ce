//! Files that we write, as ibsim reads them and `ibnetdiscover` sees them.

use std::path::Path;

use sarouter::lab::generate::generate;
use sarouter::observe::ibnetdiscover::parse;

use crate::testbed::{Testbed, await_some};

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn ibnetdiscover_on_ibsim_sees_the_fabric_that_was_written() {
    for spec in
        ["fattree:4x3,2", "torus:3x3x2,hosts=2,redundancy=2", "random:12,20,30,seed=4,faults=3", "slimfly:3"]
    {
        let fabric = generate(spec).unwrap();
        let bed = Testbed::fabric(&fabric, &[]);
        let seen = parse(Path::new("ibnetdiscover"), &bed.script(&["ib", "ibnetdiscover"])).unwrap();
        assert_eq!(seen.fabric.fingerprint(), fabric.fingerprint(), "{spec}");
        assert_eq!(seen.unrouted, []);
        let names = |f: &sarouter::model::Fabric| -> Vec<String> {
            f.dest_ids().map(|d| f.description(d).to_string()).collect()
        };
        assert_eq!(names(&seen.fabric), names(&fabric), "{spec}");
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn opensms_list_of_cables_is_the_fabric_that_was_written() {
    let fabric = generate("fattree:3x14,4").unwrap();
    let bed = Testbed::fabric(&fabric, &[]);
    let path = bed.path().join("opensm/opensm-subnet.lst");
    // It is written bit by bit: a part is refused, or may be a smaller fabric.
    await_some("OpenSM's list of cables", || {
        let seen = parse(&path, &std::fs::read_to_string(&path).ok()?).ok()?;
        (seen.fabric.fingerprint() == fabric.fingerprint()).then_some(())
    });
}
