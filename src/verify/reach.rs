//! Reachability: every switch has a live port towards every destination it is connected to, the
//! routes to a destination form an in-tree, and they end at the destination's own port.

use super::finding::{Finding, Findings, Kind, destination_name, switch_name};
use super::trees::{LOST, NO_CHANNEL, Tree, Trees};
use crate::model::{DestId, Fabric, PortPeer, SwitchId, Tables};

/// Ordered pairs of hosts in different parts.
pub(super) fn unreachable_pairs(fabric: &Fabric, parts: &[u32]) -> u64 {
    let mut hosts = vec![0u64; parts.len()];
    fabric.host_ids().for_each(|t| hosts[parts[fabric.terminal(t).switch.index()] as usize] += 1);
    let all: u64 = hosts.iter().sum();
    hosts.iter().map(|n| n * (all - n)).sum()
}

/// Who may still be without a way: see [`super::Beside`].
#[derive(Clone, Copy, Default)]
pub(super) struct Later<'a> {
    pub(super) answers: bool,
    pub(super) lost: bool,
    /// The same destination in the tables that switches may have instead.
    pub(super) others: &'a [Tree],
}

/// Checks the traced tree of one destination, in these parts. O(switches).
pub(super) fn check(
    trees: &Trees<'_>,
    d: DestId,
    tree: &Tree,
    (parts, later): (&[u32], Later<'_>),
    findings: &mut Findings,
) {
    let ports = trees.tables.ports_to(d);
    let expected = trees.fabric.last_port(d).get();
    if ports[tree.home] != expected {
        findings.add(Kind::WrongHomePort, || Finding::WrongHomePort {
            switch: switch_name(trees.fabric, tree.home),
            destination: destination_name(trees.fabric, d),
            port: ports[tree.home],
            expected,
        });
    }
    if tree.looping.is_none() && tree.order.len() == ports.len() {
        return;
    }
    let has_hosts = |s: usize| trees.fabric.has_hosts(SwitchId::at(s));
    let all_hosts_arrive = hosts_arrive(trees.fabric, tree, parts);
    let is_cut_off = |s: usize| later.lost && later.others.iter().all(|tree| tree.depth[s] == LOST);
    // All hosts but those that a loss cut off.
    let is_missed = |s: usize| has_hosts(s) && is_lost(tree, parts, s) && !is_cut_off(s);
    let rest_arrives = later.lost && !(0..ports.len()).any(is_missed);
    let may_miss = |s: usize| match has_hosts(tree.home) {
        _ if is_cut_off(s) => true,
        true => later.answers && !has_hosts(s) && (all_hosts_arrive || rest_arrives),
        false => later.answers || all_hosts_arrive,
    };
    // A port where the fabric has no way is as wrong as a dead one: only 255 is explicit.
    let is_excused =
        |s: usize| ports[s] == Tables::UNREACHABLE && (parts[s] != parts[tree.home] || may_miss(s));
    for s in (0..ports.len()).filter(|s| *s != tree.home && tree.next[*s] == NO_CHANNEL) {
        if !is_excused(s) {
            dead_end(trees, d, s, ports[s], findings);
        }
    }
    if let Some(start) = tree.looping {
        findings.add(Kind::Loop, || forwarding_loop(trees, d, tree, start as usize));
        return;
    }
    // Who is led to one that may miss may not be missed himself. Elsewhere the end of the way is what is wrong.
    let is_misled = |s: &usize| tree.next[*s] != NO_CHANNEL && is_lost(tree, parts, *s) && !may_miss(*s);
    let ends_excused = ends(trees, tree, is_excused);
    for s in (0..ports.len()).filter(is_misled).filter(|s| ends_excused[*s]) {
        findings.add(Kind::Hole, || Finding::Hole {
            switch: switch_name(trees.fabric, s),
            destination: destination_name(trees.fabric, d),
        });
    }
}

/// What is so of the switch at which each one's route ends, in a tree without loops. O(switches).
fn ends(trees: &Trees<'_>, tree: &Tree, is_so: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut known: Vec<Option<bool>> = vec![None; tree.next.len()];
    let mut way = Vec::new();
    for s in 0..known.len() {
        let mut at = s;
        while known[at].is_none() && tree.next[at] != NO_CHANNEL {
            way.push(at);
            at = tree.parent(trees, at);
        }
        let found = *known[at].get_or_insert_with(|| is_so(at));
        way.drain(..).for_each(|s| known[s] = Some(found));
    }
    known.into_iter().flatten().collect()
}

/// Whether all hosts that the fabric connects to a destination reach it.
fn hosts_arrive(fabric: &Fabric, tree: &Tree, parts: &[u32]) -> bool {
    !(0..parts.len()).any(|s| fabric.has_hosts(SwitchId::at(s)) && is_lost(tree, parts, s))
}

/// Whether a switch does not reach a destination that the fabric connects it to.
fn is_lost(tree: &Tree, parts: &[u32], s: usize) -> bool {
    tree.depth[s] == LOST && parts[s] == parts[tree.home]
}

/// Says why the route to `d` ends at switch `s`.
fn dead_end(trees: &Trees<'_>, d: DestId, s: usize, port: u8, findings: &mut Findings) {
    let fabric = trees.fabric;
    let switch = || switch_name(fabric, s);
    let destination = || destination_name(fabric, d);
    if port == Tables::UNREACHABLE {
        findings.add(Kind::Hole, || Finding::Hole { switch: switch(), destination: destination() });
        return;
    }
    match trees.peer(s, d) {
        None => findings.add(Kind::NoSuchPort, || Finding::NoSuchPort {
            switch: switch(),
            destination: destination(),
            port,
        }),
        Some(PortPeer::Nothing) if port != 0 => findings.add(Kind::DeadPort, || Finding::DeadPort {
            switch: switch(),
            destination: destination(),
            port,
        }),
        Some(other) => findings.add(Kind::WrongTerminal, || Finding::WrongTerminal {
            switch: switch(),
            destination: destination(),
            port,
            leads_to: match other {
                PortPeer::Terminal(t) => fabric.terminal(t).description.clone(),
                _ => switch().description,
            },
        }),
    }
}

fn forwarding_loop(trees: &Trees<'_>, d: DestId, tree: &Tree, start: usize) -> Finding {
    let mut switches = vec![switch_name(trees.fabric, start)];
    let mut at = tree.parent(trees, start);
    while at != start {
        switches.push(switch_name(trees.fabric, at));
        at = tree.parent(trees, at);
    }
    Finding::Loop { destination: destination_name(trees.fabric, d), switches }
}
