//! Turns that layers learn from routes.

use super::super::net::{NONE, Net};
use super::super::search::{Ground, TreeSearch};
use super::{Bundles, NEVER};
use crate::route::cdg::AcyclicLayer;
use crate::route::order::Order;

/// Adds all turns of the spanning tree; a tree has no cycle to close.
pub(super) fn admit(
    net: &Net,
    order: &mut AcyclicLayer<impl Order>,
    bundles: &Bundles,
    bit: u16,
    added: &mut [u16],
    refuge: &[bool],
) {
    for u in 0..net.switches() {
        for reverse in net.out(u).filter(|c| refuge[*c]) {
            let coming = bundles.first(net.reverse(reverse));
            for leaving in net.out(u).filter(|c| refuge[*c] && *c != reverse) {
                let slot = net.slot(bundles.first(leaving));
                if order.admit(net, coming, slot) {
                    added[net.turn(u, net.back_slot[coming], slot)] |= bit;
                }
            }
        }
    }
}

/// Fits balanced shortest routes over the turns `only`, one tree per switch with terminals, into the layers:
/// each route into the first layer that has all its turns, else into one that can take those it misses. What
/// fits nowhere is left to the search that follows.
pub(super) fn learn(
    net: &Net,
    orders: &mut [AcyclicLayer<impl Order>],
    bundles: &Bundles,
    added: &mut [u16],
    (only, homes): (&[u16], impl Iterator<Item = usize>),
) {
    let mut teacher = Teacher { blocked: vec![0u16; net.turns()], tried: Vec::new() };
    let all = (1u16 << orders.len()) - 1;
    each_tree((net, bundles), only, all, homes, |search, row| teacher.fit(net, orders, added, search, row));
}

/// Calls with a tree of shortest routes over the turns `only` to each of these switches, balanced over
/// bundles; returns their load on the channels that stand for one. O(switches × channels).
pub(in crate::route::balanced) fn each_tree(
    (net, bundles): (&Net, &Bundles),
    only: &[u16],
    all: u16,
    homes: impl Iterator<Item = usize>,
    mut call: impl FnMut(&mut TreeSearch, &[u8]),
) -> Vec<u32> {
    let mut search = TreeSearch::new(net.switches());
    let mut row = vec![NONE; net.switches()];
    let mut load = vec![0u32; net.channels()];
    let stands = |back: usize| bundles.width[net.reverse(back)] > 0;
    let mut price_back: Vec<f32> =
        (0..net.channels()).map(|back| if stands(back) { 0.0 } else { NEVER }).collect();
    let mut flow = vec![0u32; net.switches()];
    for home in homes {
        search.run(Ground { net, fit: only, home, price_back: &price_back }, all, &mut row);
        flow.copy_from_slice(&net.hosts);
        for &v in search.reached.iter().skip(1).rev() {
            let c = net.channel(v as usize, row[v as usize]);
            load[c] += flow[v as usize];
            flow[net.to(c)] += flow[v as usize];
            price_back[net.reverse(c)] = (load[c] as f32 / bundles.width[c] as f32).powi(3);
        }
        call(&mut search, &row);
    }
    load
}

/// Layers that learnt nothing learn other trees, to `homes` in another order, if there are as many of them as of those
/// that did and they are to learn `again`: so there are more ways to choose from. Those left after that have the orders of all others, in turn, so that
/// routes have several layers to be spread over. The last one, of the last resort, stays.
pub(super) fn learn_more(
    net: &Net,
    orders: &mut [AcyclicLayer<impl Order + Clone>],
    bundles: &Bundles,
    added: &[u16],
    (only, homes): (&[u16], impl Iterator<Item = usize>),
    again: bool,
) {
    let Some((_, orders)) = orders.split_last_mut() else { return };
    let mut learnt = taught(added).min(orders.len());
    if learnt == 0 {
        return;
    }
    if again && orders.len() >= 2 * learnt {
        let mut more = vec![0u16; net.turns()];
        learn(net, &mut orders[learnt..], bundles, &mut more, (only, homes));
        learnt = (learnt + taught(&more)).min(orders.len());
    }
    for layer in learnt..orders.len() {
        orders[layer] = orders[layer % learnt].clone();
    }
}

/// How many layers learnt something: the first ones do.
fn taught(added: &[u16]) -> usize {
    added.iter().fold(0, |any, a| any | a).trailing_ones() as usize
}

struct Teacher {
    /// Layers that can never take a turn: adding it would have closed a cycle.
    blocked: Vec<u16>,
    /// Turns of the route at hand: number, channel and slot.
    tried: Vec<(usize, usize, u8)>,
}

impl Teacher {
    fn fit(
        &mut self,
        net: &Net,
        orders: &mut [AcyclicLayer<impl Order>],
        added: &mut [u16],
        search: &mut TreeSearch,
        row: &[u8],
    ) {
        for i in 1..search.reached.len() {
            let v = search.reached[i] as usize;
            let c = net.channel(v, row[v]);
            let u = net.to(c);
            let above = search.layers[u];
            let turn = (row[u] != NONE).then(|| net.turn(u, net.back_slot[c], row[u]));
            let has = turn.map_or(above, |t| above & added[t]);
            search.layers[v] = has;
            if has != 0 || !net.is_source[v] {
                continue;
            }
            // First the layers that miss this one turn only.
            let mut candidates: Vec<usize> = (0..orders.len()).collect();
            candidates.sort_by_key(|l| above & (1 << l) == 0);
            if let Some(l) =
                candidates.into_iter().find(|l| self.add((net, &mut orders[*l]), added, v, row, *l))
            {
                search.layers[v] = 1 << l;
            }
        }
    }

    /// Adds all turns of the route from `v` to one layer, or none.
    fn add(
        &mut self,
        (net, order): (&Net, &mut AcyclicLayer<impl Order>),
        added: &mut [u16],
        v: usize,
        row: &[u8],
        layer: usize,
    ) -> bool {
        let bit = 1u16 << layer;
        self.tried.clear();
        let mut coming = net.channel(v, row[v]);
        loop {
            let u = net.to(coming);
            if row[u] == NONE {
                return true;
            }
            let leaving = net.channel(u, row[u]);
            let turn = net.turn(u, net.back_slot[coming], row[u]);
            if added[turn] & bit == 0 {
                let is_free = self.blocked[turn] & bit == 0;
                if !is_free || !order.admit(net, coming, row[u]) {
                    if self.tried.is_empty() {
                        self.blocked[turn] |= bit;
                    }
                    for (turn, coming, slot) in self.tried.drain(..) {
                        added[turn] &= !bit;
                        order.remove(net, coming, slot);
                    }
                    return false;
                }
                added[turn] |= bit;
                self.tried.push((turn, coming, row[u]));
            }
            coming = leaving;
        }
    }
}
