//! What a change of tables means for the routes.

use crate::model::{DestId, Fabric, Group, Tables};
use crate::verify::trees::{LOST, Tree, Trees};

/// Old and new trees of one destination after the other.
struct Difference<'a> {
    fabric: &'a Fabric,
    before: &'a Tables,
    after: &'a Tables,
    old: Trees<'a>,
    new: Trees<'a>,
    was: Tree,
    is: Tree,
    /// By switch, whether its route to the newest destination is another.
    differs: Vec<bool>,
}

impl<'a> Difference<'a> {
    fn new(fabric: &'a Fabric, before: &'a Tables, after: &'a Tables) -> Self {
        let (old, new) = (Trees::new(fabric, before), Trees::new(fabric, after));
        let (was, is) = (old.room(), new.room());
        let differs = vec![false; fabric.switches().len()];
        Self { fabric, before, after, old, new, was, is, differs }
    }

    /// By switch, whether its route to a destination is another; `None` if all are as before. Routes that do
    /// not arrive before or after count as others. O(switches).
    fn to(&mut self, d: DestId) -> Option<&[bool]> {
        assert_eq!(self.differs.len(), self.fabric.switches().len());
        if self.before.ports_to(d) == self.after.ports_to(d) {
            return None;
        }
        self.old.trace(d, &mut self.was);
        self.new.trace(d, &mut self.is);
        self.differs.fill(true);
        self.differs[self.is.home] = false;
        for s in self.is.order[1..].iter().map(|s| *s as usize) {
            let same = self.was.depth[s] != LOST && self.is.next[s] == self.was.next[s];
            self.differs[s] = !same || self.differs[self.is.parent(&self.new, s)];
        }
        Some(&self.differs)
    }
}

/// Host-to-host routes between different switches whose path is another one. Routes that do not
/// arrive before or after count as changed. O(hosts × switches).
pub fn changed_routes(fabric: &Fabric, before: &Tables, after: &Tables) -> u64 {
    let hosts = super::loads::hosts_per_switch(fabric);
    let mut difference = Difference::new(fabric, before, after);
    let of = |differs: &[bool]| hosts.iter().zip(differs).filter(|(_, d)| **d).map(|(n, _)| n).sum::<u64>();
    fabric.host_ids().map(|t| difference.to(fabric.dest_of_terminal(t)).map_or(0, of)).sum()
}

/// Share of the routes inside groups, between different terminals, whose path is another one; 0 without any.
/// O(terminals of groups × switches).
pub fn moved_share(fabric: &Fabric, before: &Tables, after: &Tables, groups: &[&Group]) -> f64 {
    let mut difference = Difference::new(fabric, before, after);
    let mut sources = vec![0u64; fabric.switches().len()];
    let (mut moved, mut all) = (0u64, 0u64);
    for group in groups {
        let switches = || group.terminals.iter().map(|t| fabric.terminal(*t).switch.index());
        switches().for_each(|s| sources[s] += 1);
        for t in &group.terminals {
            if let Some(differs) = difference.to(fabric.dest_of_terminal(*t)) {
                moved += sources.iter().zip(differs).filter(|(_, d)| **d).map(|(n, _)| n).sum::<u64>();
            }
        }
        all += (group.terminals.len() * group.terminals.len().saturating_sub(1)) as u64;
        switches().for_each(|s| sources[s] = 0);
    }
    if all == 0 { 0.0 } else { moved as f64 / all as f64 }
}
