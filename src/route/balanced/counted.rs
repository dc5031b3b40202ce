//! Most routes on a channel: of given tables, and what no tables of a fabric can go below.

use super::keep::Slots;
use super::net::{NONE, Net};
use super::portfolio::Scene;
use super::traffic::{Class, Traffic};
use crate::model::{Fabric, Shape, Tables, TerminalId};
use crate::route::forest::Forest;
use crate::route::lash;

/// Most routes between hosts on a channel; `None` if one does not arrive. O(hosts × switches).
pub(super) fn fullest(scene: &Scene<'_>, tables: &Tables) -> Option<u32> {
    Some(loads(scene, tables)?.into_iter().max().unwrap_or(0))
}

/// Routes between hosts on each channel. As [`fullest`].
pub(super) fn loads(scene: &Scene<'_>, tables: &Tables) -> Option<Vec<u32>> {
    let Scene { fabric, net, .. } = *scene;
    let (slots, mut loads) = (Slots::new(net), vec![0u32; net.channels()]);
    let mut row = vec![NONE; net.switches()];
    for d in fabric.host_ids().map(|t| fabric.dest_of_terminal(t)) {
        slots.read(fabric, tables, d, &mut row);
        add_tree(net, &row, fabric.home(d).index(), net.hosts.clone(), &mut loads)?;
    }
    Some(loads)
}

/// Most routes of storage on a channel; `u32::MAX` if one does not arrive. O((servers + hosts of jobs) × switches).
pub(super) fn most_stored(scene: &Scene<'_>, storage: &Traffic<'_>, tables: &Tables) -> u32 {
    let Scene { fabric, net, .. } = *scene;
    let (slots, mut loads) = (Slots::new(net), vec![0u32; net.channels()]);
    let mut row = vec![NONE; net.switches()];
    for t in storage.destinations(Class::Job) {
        let d = fabric.dest_of_terminal(TerminalId::at(t));
        slots.read(fabric, tables, d, &mut row);
        let mut flow = vec![0; net.switches()];
        storage.fill(net, t, &mut flow);
        if add_tree(net, &row, fabric.home(d).index(), flow, &mut loads).is_none() {
            return u32::MAX;
        }
    }
    loads.into_iter().max().unwrap_or(0)
}

/// Adds routes by sending switch along a tree; `None` if one does not arrive. O(switches).
fn add_tree(net: &Net, row: &[u8], home: usize, mut flow: Vec<u32>, loads: &mut [u32]) -> Option<()> {
    let mut coming = vec![0u32; net.switches()];
    let channel = |s: usize| (s != home && row[s] != NONE).then(|| net.channel(s, row[s]));
    (0..net.switches()).filter_map(channel).for_each(|c| coming[net.to(c)] += 1);
    let mut ready: Vec<usize> = (0..net.switches()).filter(|s| coming[*s] == 0).collect();
    let mut seen = 0;
    while let Some(s) = ready.pop() {
        seen += 1;
        let Some(c) = channel(s) else {
            if s != home && flow[s] > 0 && net.part[s] == net.part[home] {
                return None;
            }
            continue;
        };
        let to = net.to(c);
        loads[c] += flow[s];
        flow[to] += flow[s];
        coming[to] -= 1;
        if coming[to] == 0 {
            ready.push(to);
        }
    }
    // What is not seen goes round.
    (seen == net.switches()).then_some(())
}

/// Most routes between hosts on a channel if all take the lowest of the ports that lead closer, which is the
/// order of dimensions in a HyperX. O(switches × (switches + channels)).
pub(super) fn fullest_by_port_order(net: &Net) -> u32 {
    let (trees, mut loads) = (lash::port_order_trees(net), vec![0u32; net.channels()]);
    for home in (0..net.switches()).filter(|home| net.hosts[*home] > 0) {
        let row: Vec<u8> =
            trees.tree(home).iter().map(|slot| if *slot < Forest::HOME { *slot } else { NONE }).collect();
        let flow = net.hosts.iter().map(|n| n * net.hosts[home]).collect();
        if add_tree(net, &row, home, flow, &mut loads).is_none() {
            return u32::MAX;
        }
    }
    loads.into_iter().max().unwrap_or(0)
}

/// What the fullest channel of a grid carries at least: dimension by dimension, each route needs as many hops as
/// its ends are apart; where there are no rings all that crosses between two coordinates does so over the cables
/// there. 0 for other fabrics. O(channels + sum of squared sizes).
pub(super) fn least_on_grid(fabric: &Fabric, net: &Net) -> u32 {
    let Shape::Grid { sizes, wrap, coords } = fabric.shape() else { return 0 };
    let dims = sizes.len();
    let least = |d: usize| -> u64 {
        let (at, size) = (|s: usize| usize::from(coords[s * dims + d]), usize::from(sizes[d]));
        let (mut hosts, mut cables) = (vec![0u64; size], vec![0u64; size]);
        (0..net.switches()).for_each(|s| hosts[at(s)] += u64::from(net.hosts[s]));
        for (from, to) in (0..net.channels()).map(|c| (at(net.from(c)), at(net.to(c)))) {
            if from != to {
                // Behind the lower end, or around the ring.
                cables[if from.abs_diff(to) == 1 { from.min(to) } else { size - 1 }] += 1;
            }
        }
        if wrap[d] {
            let apart = |a: usize, b: usize| a.abs_diff(b).min(size - a.abs_diff(b)) as u64;
            let pairs = (0..size).flat_map(|a| (0..size).map(move |b| (a, b)));
            let hops: u64 = pairs.map(|(a, b)| hosts[a] * hosts[b] * apart(a, b)).sum();
            return hops.div_ceil(cables.iter().sum::<u64>().max(1));
        }
        let all: u64 = hosts.iter().sum();
        let mut below = 0;
        let cut = |x: usize| {
            below += hosts[x];
            // Half of the channels lead each way.
            (below * (all - below)).div_ceil((cables[x] / 2).max(1))
        };
        (0..size.saturating_sub(1)).map(cut).max().unwrap_or(0)
    };
    u32::try_from((0..dims).map(least).max().unwrap_or(0)).unwrap_or(u32::MAX)
}

/// What the fullest channel out of a switch with hosts carries at least, where all are connected. O(switches).
pub(super) fn least_at_leaves(net: &Net) -> u32 {
    let all: u32 = net.hosts.iter().sum();
    let least = |s: usize| (net.hosts[s] * (all - net.hosts[s])).div_ceil(net.degree(s).max(1) as u32);
    (0..net.switches()).map(least).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::{Demand, LayerBudget};
    use crate::route::Engine;

    /// Those that `torus` reaches: dimensions of one size, a longer one, and lines.
    #[test]
    fn grids_have_a_least_load() {
        let cases = [
            ("torus:8x8x8,hosts=4", 8192),
            ("torus:8x8x9,hosts=3", 5760),
            ("torus:32x32,hosts=2", 16_384),
            ("mesh:8x8,hosts=4", 2048),
            ("kary:3,2", 0),
        ];
        for (spec, least) in cases {
            let fabric = generate(spec).unwrap();
            assert_eq!(least_on_grid(&fabric, &Net::new(&fabric)), least, "{spec}");
        }
    }

    #[test]
    fn loads_are_those_of_all_routes_and_a_circle_has_none() {
        let fabric = generate("hyperx:3x4,hosts=2").unwrap();
        let (net, demand, budget) = (Net::new(&fabric), Demand::oblivious(), LayerBudget::MOST);
        let scene = Scene { fabric: &fabric, net: &net, demand: &demand, budget, fullest: None };
        let tables = lash::Lash.route(&fabric, &demand, budget).unwrap();
        assert_eq!(fullest(&scene, &tables), Some(16));
        assert_eq!(fullest_by_port_order(&net), 16);
        let looping = tables.edited(|ports, _| {
            // What goes to the first host turns back between two other switches.
            let home = fabric.home(crate::model::DestId::at(0)).index();
            let [a, b] = [(home + 1) % 12, (home + 2) % 12];
            let port = |from: usize, to: usize| net.port(net.out(from).find(|c| net.to(*c) == to).unwrap());
            (ports[a], ports[b]) = (port(a, b), port(b, a));
        });
        assert_eq!(fullest(&scene, &looping), None);
    }
}
