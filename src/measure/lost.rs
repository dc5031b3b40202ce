//! Connections that faults cut before anything is routed anew (thesis section 4.2.3.1).

use super::loads::hosts_per_switch;
use crate::model::{Fabric, Role, Tables};
use crate::verify::trees::Trees;

/// Ordered pairs of hosts with a route that takes a cut channel or a dead switch, those on a dead switch
/// included. `cut` is by channel, `dead` by switch. O(hosts × switches).
pub fn lost_pairs(fabric: &Fabric, tables: &Tables, cut: &[bool], dead: &[bool]) -> u64 {
    let (trees, hosts) = (Trees::new(fabric, tables), hosts_per_switch(fabric));
    let (mut tree, mut alive) = (trees.room(), vec![false; dead.len()]);
    let mut lost = 0;
    for t in fabric.terminals().iter().enumerate().filter(|(_, t)| t.role == Role::Host).map(|(i, _)| i) {
        trees.trace(fabric.dest_of_terminal(crate::model::TerminalId::at(t)), &mut tree);
        alive.fill(false);
        alive[tree.home] = !dead[tree.home];
        for s in tree.order[1..].iter().map(|s| *s as usize) {
            alive[s] = !dead[s] && !cut[tree.next[s] as usize] && alive[tree.parent(&trees, s)];
        }
        let routed: u64 = tree.order.iter().map(|s| hosts[*s as usize]).sum();
        let reaching: u64 = alive.iter().zip(&hosts).filter(|(alive, _)| **alive).map(|(_, n)| n).sum();
        // The host itself is among those that reach it.
        lost += routed - 1 - (reaching - u64::from(alive[tree.home]));
    }
    lost
}
