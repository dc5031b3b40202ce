//! The bound that lengths of channels give: the dual of the linear program in which routes may be
//! split at will.
//!
//! Whatever lengths channels are given, a route covers at least the distance between its ends. So the sum of length ×
//! load over channels is at least the sum of distances over routes, and the largest load at least that sum / the sum
//! of lengths. Equal lengths give the mean of shortest routes, 1 on the channels of a cut and 0 elsewhere gives the
//! cut; the best lengths give the optimum of the linear program.
//!
//! They are sought by subgradient steps of Polyak's size (USSR Computational Mathematics and
//! Mathematical Physics 9(3), 1969): what shortest routes load above the mean gets longer. Whatever the
//! steps lead to, lengths are integers and each bound is exact.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::Parties;
use crate::model::{ChannelId, SwitchId};

/// Mean length of a channel.
const UNIT: u64 = 1 << 20;

/// Channels looked at for the bound of a fabric, at most: a millisecond or two.
const WORK: usize = 1 << 17;

/// Steps at most, and steps that are worth to begin with.
const STEPS: std::ops::RangeInclusive<usize> = 8..=32;

/// Steps that [`WORK`] allows; none for larger fabrics.
pub(super) fn affordable(parties: &Parties<'_>) -> usize {
    let sources = parties.at.iter().filter(|p| !p.is_empty()).count();
    let steps = WORK / (sources * parties.fabric.channels().len()).max(1);
    if steps < *STEPS.start() { 0 } else { steps.min(*STEPS.end()) }
}

/// The best bound of so many steps, the first with equal lengths. O(steps × sources × channels × log
/// switches); uses all threads, whose number changes nothing.
pub(super) fn bound(parties: &Parties<'_>, steps: usize) -> u64 {
    let mut lengths = vec![UNIT; parties.fabric.channels().len()];
    let mut best = 0;
    for step in 0..steps {
        let total: u128 = lengths.iter().map(|l| u128::from(*l)).sum();
        if total == 0 {
            break;
        }
        let (distances, loads) = shortest(parties, &lengths);
        best = best.max(distances.div_ceil(total) as u64);
        // Aims above the best known, less far as steps go on.
        let target = best as f64 * (1.0 + 0.1 / (1.0 + step as f64 / 30.0));
        let mean = distances as f64 / total as f64;
        let square: f64 = loads.iter().map(|load| (*load as f64 - mean).powi(2)).sum();
        if square == 0.0 {
            break;
        }
        let unit = lengths.len() as f64 * UNIT as f64;
        let size = (target - mean) * unit / square;
        for (length, load) in lengths.iter_mut().zip(&loads) {
            let scaled = *length as f64 * unit / total as f64;
            // Below 0 it becomes 0.
            *length = (scaled + size * (*load as f64 - mean)) as u64;
        }
    }
    best
}

/// The sum of distances of all routes, and the loads of shortest routes.
fn shortest(parties: &Parties<'_>, lengths: &[u64]) -> (u128, Vec<u64>) {
    let sources: Vec<usize> = (0..parties.at.len()).filter(|s| !parties.at[*s].is_empty()).collect();
    let nothing = || (0, vec![0; lengths.len()]);
    let search = |(mut sum, mut loads): (u128, Vec<u64>), source: &usize| {
        sum += from_source(parties, lengths, *source, &mut loads);
        (sum, loads)
    };
    let add = |(sum, mut loads): (u128, Vec<u64>), (more, other): (u128, Vec<u64>)| {
        loads.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        (sum + more, loads)
    };
    sources.par_iter().fold(nothing, search).reduce(nothing, add)
}

/// [`shortest`] for the routes from one switch (Dijkstra's algorithm).
fn from_source(parties: &Parties<'_>, lengths: &[u64], source: usize, loads: &mut [u64]) -> u128 {
    let (fabric, n) = (parties.fabric, parties.at.len());
    let (mut distance, mut last) = (vec![u64::MAX; n], vec![None::<ChannelId>; n]);
    let (mut order, mut is_done) = (Vec::with_capacity(n), vec![false; n]);
    let mut heap = BinaryHeap::from([Reverse((0, source))]);
    distance[source] = 0;
    while let Some(Reverse((far, s))) = heap.pop() {
        if std::mem::replace(&mut is_done[s], true) {
            continue;
        }
        order.push(s);
        for &c in fabric.out(SwitchId::at(s)) {
            let (to, further) = (fabric.channel(c).to.index(), far + lengths[c.index()]);
            if further < distance[to] {
                (distance[to], last[to]) = (further, Some(c));
                heap.push(Reverse((further, to)));
            }
        }
    }
    let mut routes = vec![0; n];
    for (p, here) in &parties.at[source] {
        parties.parties[*p].at.iter().for_each(|(s, there)| routes[*s] += here * there);
    }
    let sum = order.iter().map(|s| u128::from(routes[*s]) * u128::from(distance[*s])).sum();
    for s in order.into_iter().rev() {
        if let Some(c) = last[s] {
            loads[c.index()] += routes[s];
            routes[fabric.channel(c).from.index()] += routes[s];
        }
    }
    sum
}
