//! Full channels first: where a few channels limit the whole fabric and all routes can start with them, they
//! do.
//!
//! Packets that wait for a full channel fill the buffers of the channels before it. If these also carry
//! packets that have passed a full channel, that one stands still though others wait for it. Routes that
//! take a full channel first queue at their own host and delay no other packets.

use super::layers::{Bundles, Layers, each_tree, sources};
use super::net::Net;

/// How many times the mean the fullest channel must carry: none does in a hyperx of equal sizes.
const TIMES_MEAN: u64 = 2;
/// Share of the pairs of switches, as 1/n, whose routes may get longer: those of a few broken cables. In
/// dragonflies most of the pairs' would.
const EXCEPTIONS: usize = 32;
/// Share, as 1/n, by which routes on a full channel may exceed the mean, and hops those of other layers.
const SLACK: u64 = 64;

/// The turns, as all layers or none, over which routes start with full channels: a full one follows another
/// full one only. `None` if no channels stand out, many routes would be longer, or some full channel had to
/// carry more than they do in the mean. O(switches × channels), twice.
pub(super) fn turns(net: &Net, bundles: &Bundles, all: u16) -> Option<Vec<u16>> {
    let mut turns = vec![u16::MAX; net.turns()];
    let any = Trees::new(net, bundles, &turns, all);
    let is_hot = any.hot()?;
    let full: Vec<u64> = (0..net.channels()).filter(|c| is_hot[*c]).map(|c| any.load[c].into()).collect();
    let level = full.iter().sum::<u64>().div_ceil(full.len().max(1) as u64);
    for u in 0..net.switches() {
        for leaving in net.out(u).filter(|c| is_hot[*c]) {
            for back in net.out(u).filter(|c| !is_hot[net.reverse(*c)]) {
                turns[net.turn(u, net.slot(back), net.slot(leaving))] = 0;
            }
        }
    }
    let trees = Trees::new(net, bundles, &turns, all);
    let is_level = u64::from(trees.most()) <= level + level / SLACK;
    let is_short = trees.longer(net, &any) <= any.hops.len() / EXCEPTIONS;
    (is_level && is_short).then_some(turns)
}

/// Whether trees in some layers put no more on any channel than those in others, and are hardly longer.
/// O(switches × channels).
pub(super) fn is_no_worse(net: &Net, bundles: &Bundles, ours: &Layers, others: &Layers) -> bool {
    let trees = |layers: &Layers| Trees::new(net, bundles, &layers.fit, layers.all);
    let (ours, others) = (trees(ours), trees(others));
    let hops = others.total(net);
    ours.most() <= others.most() && ours.total(net) <= hops + hops / SLACK
}

/// Balanced trees to all switches with terminals.
struct Trees {
    /// Routes on each channel.
    load: Vec<u32>,
    /// Hops to each switch with terminals from each switch.
    hops: Vec<u16>,
}

impl Trees {
    fn new(net: &Net, bundles: &Bundles, fit: &[u16], all: u16) -> Self {
        let mut hops = Vec::new();
        let load = each_tree((net, bundles), fit, all, sources(net), |search, _| {
            hops.extend_from_slice(&search.hops)
        });
        let each = |c: usize| load[bundles.first(c)].div_ceil(bundles.width(c).max(1));
        Self { load: (0..net.channels()).map(each).collect(), hops }
    }

    fn most(&self) -> u32 {
        self.load.iter().max().copied().unwrap_or(0)
    }

    /// The channels with more than half of what the fullest has, if that is far above the mean.
    fn hot(&self) -> Option<Vec<bool>> {
        let (most, total) = (self.most(), self.load.iter().map(|l| u64::from(*l)).sum::<u64>());
        let is_far_above = u64::from(most) * self.load.len() as u64 >= TIMES_MEAN * total.max(1);
        is_far_above.then(|| self.load.iter().map(|l| *l > most / 2).collect())
    }

    /// Pairs of switches with more hops than in other trees.
    fn longer(&self, net: &Net, others: &Self) -> usize {
        let pairs = self.hops.iter().zip(&others.hops).enumerate();
        pairs.filter(|(i, (ours, theirs))| net.is_source[i % net.switches()] && ours > theirs).count()
    }

    /// Hops between all switches with terminals; many for those that are not reached.
    fn total(&self, net: &Net) -> u64 {
        let starts = self.hops.iter().enumerate().filter(|(i, _)| net.is_source[i % net.switches()]);
        starts.map(|(_, h)| u64::from(*h)).sum()
    }
}
