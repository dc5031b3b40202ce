//! The layers: each is an order of all channels, and a route is allowed in a layer if it only
//! climbs in that order. So no layer's channel dependency graph can ever have a cycle, whatever is
//! routed later. The orders depend on the fabric, the budget and whether there are jobs, never on which.

mod learn;

pub(super) use self::learn::each_tree;
use self::learn::{admit, learn, learn_more};
use super::climb::Climb;
use super::grid;
use super::hot;
use super::hyperx;
use super::net::{NONE, Net};
use super::routing::covers;
use super::search::{Ground, TreeSearch};
use crate::model::Fabric;
use crate::model::rng::Rng;
use crate::route::cdg::AcyclicLayer;
use crate::route::graph::is_indirect;
use crate::route::order::{Labels, Order, Ranks};

/// Price of a channel for which another one stands.
const NEVER: f32 = 1e30;

/// The turns that each layer allows.
pub(super) struct Layers {
    /// Bit mask of layers per turn (see [`Net::turn`]).
    pub(super) fit: Vec<u16>,
    /// All layers.
    pub(super) all: u16,
    /// The layer in which the routes along `refuge` are allowed.
    pub(super) refuge_layer: u16,
    /// Whether a channel belongs to the spanning tree of the last resort.
    refuge: Vec<bool>,
    /// Whether routes start with the channels that limit the fabric.
    pub(super) is_hot_first: bool,
    /// Whether they are those of a fabric without switches that have no hosts, and of no torus or mesh.
    is_flat: bool,
    /// Whether all layers allow any route that climbs and then descends, and no other.
    pub(super) is_climbing: bool,
}

/// How often layers learn from routes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lessons {
    /// Their orders are known.
    None,
    One,
    /// Those that learnt nothing learn other routes.
    Two,
}

impl Layers {
    /// Chooses the orders: known ones for a torus, mesh or HyperX, else learnt from shortest routes, starting with
    /// up*/down* orders: in a tree after some switches were [`raised`], unless there are no jobs and its
    /// cables join neighbouring levels only, so that all shortest routes climb alike.
    pub(super) fn new(fabric: &Fabric, net: &Net, budget: u8, has_jobs: bool) -> Self {
        let known = grid::keys(fabric, net, budget);
        let (is_grid, is_tree) = (known.is_some(), is_indirect(&net.hosts));
        let known = known.or_else(|| hyperx::keys(net, budget));
        let is_known = known.is_some();
        let may_raise = is_tree && (has_jobs || !joins_neighbouring(net, &levels(net)));
        let keys = known.unwrap_or_else(|| climbing_keys(net, budget, may_raise));
        let is_flat = !is_grid && !is_tree;
        let bundles = Bundles::new(net, is_flat && !is_known);
        // A known order is to stay as it is; one that is learnt is found many times as fast by labels.
        let made = match is_known {
            true => Self::with::<Ranks>(net, &bundles, &keys, Lessons::None, None),
            // Without jobs, channels that have to carry the most get more with more ways to choose from.
            false if has_jobs => Self::with::<Labels>(net, &bundles, &keys, Lessons::Two, None),
            false => Self::with::<Labels>(net, &bundles, &keys, Lessons::One, None),
        };
        Self { is_flat, ..made }
    }

    /// Layers that all allow any route that first climbs and then descends, by these levels. O(turns).
    pub(super) fn climbing(net: &Net, levels: &[u32], budget: u8) -> Self {
        let all = (1u16 << budget) - 1;
        let climb = Climb::new(levels);
        let allows = climb.turns(net, all);
        let mut fit = vec![0; net.turns()];
        for u in 0..net.switches() {
            for leaving in 0..net.degree(u) as u8 {
                for (slot, back) in net.out(u).enumerate() {
                    fit[net.turn(u, slot as u8, leaving)] = allows(u, net.reverse(back), leaving);
                }
            }
        }
        let (refuge_layer, refuge) = (1 << (budget - 1), vec![false; net.channels()]);
        let (is_hot_first, is_flat, is_climbing) = (false, false, true);
        Self { fit, all, refuge_layer, refuge, is_hot_first, is_flat, is_climbing }
    }

    /// One layer that allows any turn: something else keeps cycles away. O(turns).
    pub(super) fn any(net: &Net) -> Self {
        let refuge = vec![false; net.channels()];
        let fit = vec![1; net.turns()];
        let (all, is_hot_first, is_flat, is_climbing) = (1, false, false, false);
        Self { fit, all, refuge_layer: 1, refuge, is_hot_first, is_flat, is_climbing }
    }

    /// Others in which routes start with full channels ([`hot`]), if there are any and shortest routes over
    /// them make no channel fuller.
    pub(super) fn hot_first(&self, net: &Net) -> Option<Self> {
        if !self.is_flat {
            return None;
        }
        let bundles = Bundles::new(net, true);
        let turns = hot::turns(net, &bundles, self.all)?;
        let keys = climbing_keys(net, self.all.count_ones() as u8, false);
        let first = Self::with::<Labels>(net, &bundles, &keys, Lessons::One, Some(&turns));
        hot::is_no_worse(net, &bundles, &first, self).then_some(first)
    }

    /// Layers with orders by these keys for each; those that are not known learn more, over the turns `only`.
    fn with<O: Order + Clone>(
        net: &Net,
        bundles: &Bundles,
        keys: &[Vec<u32>],
        lessons: Lessons,
        only: Option<&[u16]>,
    ) -> Self {
        let all = (1u16 << keys.len()) - 1;
        let refuge_layer = 1 << (keys.len() - 1);
        let mut added = vec![0u16; net.turns()];
        let mut orders: Vec<AcyclicLayer<O>> = keys.iter().map(|keys| ordered(net, keys)).collect();
        let refuge = spanning_tree(net, &levels(net));
        if let Some(last) = orders.last_mut() {
            if lessons != Lessons::None || !is_complete(net, last, bundles, refuge_layer) {
                admit(net, last, bundles, refuge_layer, &mut added, &refuge);
            }
        }
        if lessons != Lessons::None {
            let any = vec![u16::MAX; net.turns()];
            let only = only.unwrap_or(&any);
            learn(net, &mut orders, bundles, &mut added, (only, sources(net)));
            if !is_indirect(&net.hosts) {
                learn_more(
                    net,
                    &mut orders,
                    bundles,
                    &added,
                    (only, sources(net).rev()),
                    lessons == Lessons::Two,
                );
            }
        }
        let mut fit = vec![0u16; net.turns()];
        for (l, order) in orders.iter().enumerate() {
            allow(net, order, bundles, 1 << l, &mut fit);
        }
        if let Some(only) = only {
            fit.iter_mut().zip(only).for_each(|(fit, only)| *fit &= only);
        }
        let (is_hot_first, is_flat, is_climbing) = (only.is_some(), false, false);
        Self { fit, all, refuge_layer, refuge, is_hot_first, is_flat, is_climbing }
    }

    /// Fills `row` with the routes along the spanning tree. O(channels).
    pub(super) fn refuge_routes(&self, net: &Net, home: usize, row: &mut [u8]) {
        row.fill(NONE);
        let mut queue = vec![home];
        let mut head = 0;
        while let Some(&u) = queue.get(head) {
            head += 1;
            for c in net.out(u).filter(|c| self.refuge[*c]) {
                let w = net.to(c);
                if w != home && row[w] == NONE {
                    row[w] = net.back_slot[c];
                    queue.push(w);
                }
            }
        }
    }
}

/// Cables between the same two switches are alike: one of them stands for all in the orders, so that what
/// a layer learns of one it allows on all. In trees, which climb over any cable whatever is learnt, and
/// in known orders each stands for itself.
pub(super) struct Bundles {
    /// The channel that stands for a channel.
    first: Vec<u32>,
    /// Number of channels it stands for; 0 for the others.
    width: Vec<u32>,
}

impl Bundles {
    fn new(net: &Net, are_alike: bool) -> Self {
        let first_of = |c: usize| {
            let mut alike = net.out(net.from(c)).filter(|one| are_alike && net.to(*one) == net.to(c));
            alike.next().unwrap_or(c) as u32
        };
        let first: Vec<u32> = (0..net.channels()).map(first_of).collect();
        let mut width = vec![0; net.channels()];
        first.iter().for_each(|one| width[*one as usize] += 1);
        Self { first, width }
    }

    /// The channel that stands for a channel.
    pub(super) fn first(&self, channel: usize) -> usize {
        self.first[channel] as usize
    }

    /// Number of channels alike.
    pub(super) fn width(&self, channel: usize) -> u32 {
        self.width[self.first(channel)]
    }
}

/// An order of the channels by their keys; smaller keys come first.
fn ordered<O: Order>(net: &Net, keys: &[u32]) -> AcyclicLayer<O> {
    let mut by_key: Vec<u32> = (0..keys.len() as u32).collect();
    by_key.sort_by_key(|c| keys[*c as usize]);
    AcyclicLayer::ordered(net, by_key)
}

/// Sets a layer's bit at every turn that leads upwards in its order.
fn allow(net: &Net, order: &AcyclicLayer<impl Order>, bundles: &Bundles, bit: u16, fit: &mut [u16]) {
    let rank = order.rank();
    let place = |channel: usize| rank[bundles.first(channel)];
    for u in 0..net.switches() {
        let mut turn = net.turn_start[u];
        for leaving in net.out(u) {
            for reverse in net.out(u) {
                let coming = net.reverse(reverse);
                if coming != leaving && reverse != leaving && place(coming) < place(leaving) {
                    fit[turn] |= bit;
                }
                turn += 1;
            }
        }
    }
}

/// Whether every switch with terminals reaches every other within this layer alone.
fn is_complete(net: &Net, order: &AcyclicLayer<impl Order>, bundles: &Bundles, bit: u16) -> bool {
    let mut fit = vec![0u16; net.turns()];
    allow(net, order, bundles, bit, &mut fit);
    reaches_all(net, &fit, bit)
}

/// Whether a search finds routes between all switches with terminals in these layers. O(switches × channels).
fn reaches_all(net: &Net, fit: &[u16], layers: u16) -> bool {
    let mut search = TreeSearch::new(net.switches());
    let mut row = vec![NONE; net.switches()];
    let price = vec![0.0; net.channels()];
    sources(net).all(|home| {
        search.run(Ground { net, fit, home, price_back: &price }, layers, &mut row);
        covers(net, &search, home)
    })
}

pub(super) fn sources(net: &Net) -> impl DoubleEndedIterator<Item = usize> + '_ {
    (0..net.switches()).filter(|s| net.is_source[*s])
}

/// How far down a switch is, as in a tree whose leaves have the hosts; if all have hosts, hops from
/// a middle switch. Aggregation nodes, which every switch may have, make no leaf.
fn levels(net: &Net) -> Vec<u32> {
    let height = net.hops_from((0..net.switches()).filter(|s| net.hosts[*s] > 0));
    let top = height.iter().filter(|h| **h != u32::MAX).max().copied().unwrap_or(0);
    if top > 0 {
        return height.iter().map(|h| top - (*h).min(top)).collect();
    }
    let mut levels = vec![0; net.switches()];
    for part in (0..net.switches()).filter(|s| net.part[*s] == *s as u32) {
        let hops = net.hops_from([middle(net, part)]);
        levels.iter_mut().zip(hops).filter(|(_, h)| *h != u32::MAX).for_each(|(l, h)| *l = h);
    }
    levels
}

/// Whether each cable joins switches of neighbouring levels.
fn joins_neighbouring(net: &Net, levels: &[u32]) -> bool {
    (0..net.channels()).all(|c| levels[net.from(c)].abs_diff(levels[net.to(c)]) == 1)
}

/// A switch halfway along a long shortest route of a part.
fn middle(net: &Net, part: usize) -> usize {
    let farthest = |hops: &[u32]| {
        let reached = (0..hops.len()).filter(|s| hops[*s] != u32::MAX);
        reached.max_by_key(|s| (hops[*s], std::cmp::Reverse(*s))).unwrap_or(part)
    };
    let one = net.hops_from([farthest(&net.hops_from([part]))]);
    let other = net.hops_from([farthest(&one)]);
    let reached = (0..net.switches()).filter(|s| one[*s] != u32::MAX);
    reached.min_by_key(|s| (one[*s].max(other[*s]), one[*s] + other[*s])).unwrap_or(part)
}

/// Keys of up*/down* orders for each layer.
fn climbing_keys(net: &Net, budget: u8, may_raise: bool) -> Vec<Vec<u32>> {
    let levels = levels(net);
    let of = |l| if may_raise { raised(&levels, l) } else { levels.clone() };
    (0..budget).map(|l| up_down_keys(net, &of(l))).collect()
}

/// Up*/down*: all channels that lead up, the lowest first, then all that lead down, the highest
/// first. Switches of one level are ordered by id.
fn up_down_keys(net: &Net, levels: &[u32]) -> Vec<u32> {
    let mut by_level: Vec<usize> = (0..net.switches()).collect();
    by_level.sort_by_key(|s| levels[*s]);
    let mut depth = vec![0u32; net.switches()];
    by_level.iter().enumerate().for_each(|(i, s)| depth[*s] = i as u32);
    let switches = net.switches() as u32;
    let key = |from: usize, to: usize| {
        if depth[to] < depth[from] { switches - depth[from] } else { switches + 1 + depth[from] }
    };
    (0..net.channels()).map(|c| key(net.from(c), net.to(c))).collect()
}

/// Levels for a layer's order in a tree, where some switches have no hosts: as they are for the first
/// layer, and with a third of the switches of one level above all others for each other layer.
/// Such a switch may be passed on the way from one it hangs on to another: where jobs leave its
/// channels unused, that is a shortest way too. Leaves are raised in every second layer, the switches
/// above them in every fourth, and so on.
fn raised(levels: &[u32], layer: u8) -> Vec<u32> {
    let deepest = levels.iter().max().copied().unwrap_or(0);
    if layer == 0 || deepest == 0 {
        return levels.to_vec();
    }
    let level = deepest - layer.trailing_zeros().min(deepest - 1);
    let mut rng = Rng::new(u64::from(layer));
    let is_raised = levels.iter().map(|l| rng.below(3) == 0 && *l == level);
    levels.iter().zip(is_raised).map(|(l, raised)| if raised { 0 } else { l + 1 }).collect()
}

/// Channels of a breadth-first spanning tree from the topmost switch of each part, without the
/// branches that lead to no terminal.
fn spanning_tree(net: &Net, levels: &[u32]) -> Vec<bool> {
    let mut is_tree = vec![false; net.channels()];
    let mut roots: Vec<usize> = (0..net.switches()).collect();
    roots.sort_by_key(|s| levels[*s]);
    let mut up = vec![None; net.switches()];
    let mut seen = vec![false; net.switches()];
    let mut queue = Vec::with_capacity(net.switches());
    for root in roots {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        queue.push(root);
        let mut head = queue.len() - 1;
        while let Some(&u) = queue.get(head) {
            head += 1;
            for c in net.out(u) {
                let w = net.to(c);
                if !std::mem::replace(&mut seen[w], true) {
                    up[w] = Some(net.reverse(c));
                    queue.push(w);
                }
            }
        }
    }
    let mut is_needed = net.is_source.clone();
    for w in queue.into_iter().rev() {
        if let (true, Some(c)) = (is_needed[w], up[w]) {
            is_needed[net.to(c)] = true;
            is_tree[c] = true;
            is_tree[net.reverse(c)] = true;
        }
    }
    is_tree
}
