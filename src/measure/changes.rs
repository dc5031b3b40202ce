//! What a change of tables means for the routes.

use crate::model::{Fabric, Tables};
use crate::verify::trees::{LOST, Trees};

/// Host-to-host routes between different switches whose path is another one. Routes that do not
/// arrive before or after count as changed. O(hosts × switches).
pub fn changed_routes(fabric: &Fabric, before: &Tables, after: &Tables) -> u64 {
    let hosts = super::loads::hosts_per_switch(fabric);
    let (old, new) = (Trees::new(fabric, before), Trees::new(fabric, after));
    let (mut was, mut is) = (old.room(), new.room());
    let mut differs = vec![false; hosts.len()];
    let mut changed = 0;
    for t in fabric.host_ids() {
        let d = fabric.dest_of_terminal(t);
        if before.ports_to(d) == after.ports_to(d) {
            continue;
        }
        old.trace(d, &mut was);
        new.trace(d, &mut is);
        differs.fill(true);
        differs[is.home] = false;
        for s in is.order[1..].iter().map(|s| *s as usize) {
            let same = was.depth[s] != LOST && is.next[s] == was.next[s];
            differs[s] = !same || differs[is.parent(&new, s)];
        }
        changed += hosts.iter().zip(&differs).filter(|(_, d)| **d).map(|(n, _)| n).sum::<u64>();
    }
    changed
}
