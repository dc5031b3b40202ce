//! Lower bounds on the largest load of a channel, for **any** tables: single-path and
//! destination-based, of any length, deadlock-free or not.
//!
//! A demand is a set of groups; every ordered pair of terminals of one group is a route. The bound
//! is the largest of these, each valid by itself:
//!
//! - **Hops.** A route between switches at distance h loads at least h channels, so the mean load
//!   is at least (sum of distances) / channels, and so is the largest.
//! - **Egress.** At a switch s an LFT has one port per destination: all w(s, y) routes from
//!   terminals of s to a terminal y elsewhere leave s through one of its k channels, whole. Loads
//!   of those channels are therefore at least those of a packing of the items w(s, ·) into k bins.
//!   (Routes in transit only add to it.) See [`packing`] for what any packing needs.
//! - **Ingress.** The routes from s to y stay together to the end, so the same items, those of all
//!   s with y on a switch h, enter h through its k channels, whole.
//! - **Cuts.** Every route from a set X of switches to its complement uses a channel that leaves X:
//!   some channel carries at least routes / channels. Tried: stretches of every dimension of a
//!   torus or mesh, and sets grown from single switches, the closest neighbour first (which finds
//!   the groups of a dragonfly).
//! - **Lengths.** On small fabrics: see [`lengths`].
//!
//! In Figure 5.2 of the thesis each of 18 hosts of a leaf sends to 42 hosts of its job elsewhere:
//! 42 items of 18 routes over 18 uplinks. Some uplink gets three of them: 54.

mod lengths;

use std::collections::{BTreeMap, BinaryHeap};

use rayon::prelude::*;

use super::hops::{Hops, TOGETHER};
use crate::model::{Fabric, Shape, SwitchId, TerminalId};

/// Sets of switches grown for the cut bound.
const GROWN: usize = 16;

/// Terminals that exchange routes, all with all, by switch. All are connected.
struct Party {
    /// Switches with members and how many, ascending.
    at: Vec<(usize, u64)>,
    /// All members.
    members: Vec<TerminalId>,
}

/// Parties of a demand, and who is where.
struct Parties<'a> {
    fabric: &'a Fabric,
    parties: Vec<Party>,
    /// `at[switch]`: parties with members there, and how many.
    at: Vec<Vec<(usize, u64)>>,
}

impl<'a> Parties<'a> {
    /// `parts[switch]`: connected part. Terminals in different parts have no routes.
    fn new(fabric: &'a Fabric, parts: &[u32], groups: &[&[TerminalId]]) -> Self {
        let mut parties = Vec::new();
        let mut at = vec![Vec::new(); fabric.switches().len()];
        for group in groups {
            let mut by_part: BTreeMap<u32, Vec<TerminalId>> = BTreeMap::new();
            for t in *group {
                by_part.entry(parts[fabric.terminal(*t).switch.index()]).or_default().push(*t);
            }
            for members in by_part.into_values() {
                let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
                members
                    .iter()
                    .for_each(|t| *counts.entry(fabric.terminal(*t).switch.index()).or_default() += 1);
                counts.iter().for_each(|(s, n)| at[*s].push((parties.len(), *n)));
                parties.push(Party { at: counts.into_iter().collect(), members });
            }
        }
        Self { fabric, parties, at }
    }

    /// Sum over all routes of the distance they cover at least.
    fn hops(&self) -> u64 {
        let homes: Vec<usize> = (0..self.at.len()).filter(|s| !self.at[*s].is_empty()).collect();
        let partial = homes.par_chunks(TOGETHER).map(|homes| {
            let hops = Hops::to(self.fabric, homes);
            let of_home = |(i, home): (usize, &usize)| {
                let to_party = |(p, here): &(usize, u64)| {
                    let there = self.parties[*p].at.iter();
                    here * there.map(|(s, n)| n * u64::from(hops.of(i)[*s])).sum::<u64>()
                };
                self.at[*home].iter().map(to_party).sum::<u64>()
            };
            homes.iter().enumerate().map(of_home).sum::<u64>()
        });
        partial.sum()
    }

    /// Largest of the egress and ingress bounds of all switches.
    fn switches(&self) -> u64 {
        let busy: Vec<usize> = (0..self.at.len()).filter(|s| !self.at[*s].is_empty()).collect();
        let partial = busy.par_iter().map_init(
            || vec![0u64; self.fabric.terminals().len()],
            |weight, s| {
                let channels = self.fabric.out(SwitchId::at(*s)).len() as u64;
                if channels == 0 {
                    return 0;
                }
                packing(self.egress(*s, weight), channels).max(packing(self.ingress(*s), channels))
            },
        );
        partial.max().unwrap_or(0)
    }

    /// Routes from `s` to each terminal elsewhere; `weight` is scratch, all zero.
    fn egress(&self, s: usize, weight: &mut [u64]) -> Vec<u64> {
        let mut touched = Vec::new();
        for (p, here) in &self.at[s] {
            for t in &self.parties[*p].members {
                if self.fabric.terminal(*t).switch.index() != s {
                    if weight[t.index()] == 0 {
                        touched.push(t.index());
                    }
                    weight[t.index()] += here;
                }
            }
        }
        touched.into_iter().map(|t| std::mem::take(&mut weight[t])).collect()
    }

    /// Routes from each switch elsewhere to each terminal of `s`.
    fn ingress(&self, s: usize) -> Vec<u64> {
        let mut items: BTreeMap<(TerminalId, usize), u64> = BTreeMap::new();
        let mut sizes = Vec::new();
        let overlapping =
            self.at[s].iter().map(|(_, n)| n).sum::<u64>() > self.fabric.host_count(SwitchId::at(s)) as u64;
        for (p, here) in &self.at[s] {
            let party = &self.parties[*p];
            let elsewhere = party.at.iter().filter(|(other, _)| *other != s);
            if overlapping {
                let members = party.members.iter().filter(|t| self.fabric.terminal(**t).switch.index() == s);
                for t in members {
                    elsewhere.clone().for_each(|(other, n)| *items.entry((*t, *other)).or_default() += n);
                }
            } else {
                elsewhere.for_each(|(_, n)| sizes.extend(std::iter::repeat_n(*n, *here as usize)));
            }
        }
        sizes.extend(items.into_values());
        sizes
    }

    /// Routes out of a set of switches, while the set grows.
    fn cut(&self) -> Cut<'_> {
        Cut {
            of: self,
            inside: vec![false; self.at.len()],
            taken: vec![0; self.parties.len()],
            channels: 0,
            routes: 0,
        }
    }

    /// Stretches of each dimension: all switches whose coordinate is in a (cyclic) interval.
    fn stretches(&self) -> u64 {
        let Shape::Grid { sizes, coords, .. } = self.fabric.shape() else { return 0 };
        let mut best = 0;
        for (dimension, size) in sizes.iter().enumerate() {
            let size = usize::from(*size);
            let at = |s: usize| usize::from(coords[s * sizes.len() + dimension]);
            for start in 0..size {
                let mut cut = self.cut();
                for length in 0..size - 1 {
                    let slice = (start + length) % size;
                    (0..self.at.len()).filter(|s| at(*s) == slice).for_each(|s| cut.take(s));
                    best = best.max(cut.bound());
                }
            }
        }
        best
    }

    /// Sets grown from switches with members, spread evenly over the fabric.
    fn grown(&self) -> u64 {
        let busy: Vec<usize> = (0..self.at.len()).filter(|s| !self.at[*s].is_empty()).collect();
        let step = busy.len().div_ceil(GROWN).max(1);
        busy.par_iter().step_by(step).map(|start| self.grow(*start)).max().unwrap_or(0)
    }

    /// Adds, again and again, the switch that leaves the fewest channels out of the set.
    fn grow(&self, start: usize) -> u64 {
        let mut cut = self.cut();
        let mut best = 0;
        let mut shared = vec![0i64; self.at.len()];
        let mut heap = BinaryHeap::from([(0i64, std::cmp::Reverse(start))]);
        while let Some((_, std::cmp::Reverse(s))) = heap.pop() {
            if cut.inside[s] {
                continue;
            }
            cut.take(s);
            best = best.max(cut.bound());
            for c in self.fabric.out(SwitchId::at(s)) {
                let to = self.fabric.channel(*c).to;
                shared[to.index()] += 1;
                if !cut.inside[to.index()] {
                    let gain = 2 * shared[to.index()] - self.fabric.out(to).len() as i64;
                    heap.push((gain, std::cmp::Reverse(to.index())));
                }
            }
        }
        best
    }
}

/// A growing set of switches.
struct Cut<'a> {
    of: &'a Parties<'a>,
    inside: Vec<bool>,
    /// Members of each party inside.
    taken: Vec<u64>,
    /// Channels from inside to outside.
    channels: u64,
    /// Routes from inside to outside.
    routes: u64,
}

impl Cut<'_> {
    fn take(&mut self, s: usize) {
        self.inside[s] = true;
        for c in self.of.fabric.out(SwitchId::at(s)) {
            let to = self.of.fabric.channel(*c).to.index();
            // Its reverse left the set until now.
            if self.inside[to] { self.channels -= 1 } else { self.channels += 1 }
        }
        for (p, n) in &self.of.at[s] {
            let all = self.of.parties[*p].members.len() as u64;
            let routes = |inside: u64| inside * (all - inside);
            self.routes -= routes(self.taken[*p]);
            self.taken[*p] += n;
            self.routes += routes(self.taken[*p]);
        }
    }

    fn bound(&self) -> u64 {
        if self.channels == 0 { 0 } else { self.routes.div_ceil(self.channels) }
    }
}

/// What the fullest of `bins` bins holds at least, however indivisible items are packed.
///
/// With sizes in descending order: of the `j·bins + 1` largest items some bin holds `j + 1`, and
/// these are at least as large as the `j + 1` smallest among them. And some bin holds at least the
/// mean, rounded up to a multiple of the greatest common divisor, as every bin's content is one.
pub(crate) fn packing(mut sizes: Vec<u64>, bins: u64) -> u64 {
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let divisor = sizes.iter().fold(0, |a, b| gcd(a, *b));
    if divisor == 0 {
        return 0;
    }
    let mean = sizes.iter().sum::<u64>().div_ceil(bins * divisor) * divisor;
    let bins = bins as usize;
    let crowded = (0..).map(|j| (j, j * bins)).take_while(|(_, last)| *last < sizes.len());
    let crowded = crowded.map(|(j, last)| sizes[last - j..=last].iter().sum::<u64>()).max();
    mean.max(crowded.unwrap_or(0))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A number that no tables' largest channel load can be below, if all terminals of each group send
/// to all others of it (see the module's text). 0 without inter-switch channels.
/// `parts[switch]` numbers the connected parts of the fabric; `steps` are those of [`lengths`], by the size of
/// the fabric without.
/// O(switches × channels × (1 + steps) + sum over groups of terminals × switches).
pub(super) fn lower_bound(
    fabric: &Fabric,
    parts: &[u32],
    groups: &[&[TerminalId]],
    steps: Option<usize>,
) -> u64 {
    let channels = fabric.channels().len() as u64;
    if channels == 0 {
        return 0;
    }
    let parties = Parties::new(fabric, parts, groups);
    let by_lengths = lengths::bound(&parties, steps.unwrap_or_else(|| lengths::affordable(&parties)));
    let by_hops = parties.hops().div_ceil(channels);
    let bounds = [by_hops, parties.switches(), parties.stretches(), parties.grown(), by_lengths];
    bounds.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FabricBuilder, Guid, NewTerminal, PortNum, Role};

    #[test]
    fn packing_counts_whole_items() {
        assert_eq!(packing(vec![18; 42], 18), 54);
        assert_eq!(packing(vec![], 3), 0);
        assert_eq!(packing(vec![7], 3), 7);
        // Four items of 6, 6, 4, 4 in three bins: two share a bin; by the mean it would be 7.
        assert_eq!(packing(vec![4, 6, 4, 6], 3), 8);
        // The mean of 20 in three bins is 7, which even items cannot make.
        assert_eq!(packing(vec![2; 10], 3), 8);
    }

    /// Two switches and three, every one of the two cabled to every one of the three (K2,3), with two hosts
    /// each; a switch without hosts hangs on six cables. Hosts talk to those on their own side, always
    /// two hops away: 4 pairs of switches, 8 routes each, over 12 channels, of which some carries
    /// 64 / 12, rounded up. No cut and no switch shows more than 4.
    #[test]
    fn lengths_find_what_no_cut_shows() {
        let guid = |n: usize| Guid::new(n as u64 + 1).unwrap();
        let mut builder = FabricBuilder::default();
        let s: Vec<_> = (0..6).map(|i| builder.switch(guid(i), 12, None, "").unwrap()).collect();
        let mut used = [0; 6];
        let mut port = |at: usize| {
            used[at] += 1;
            PortNum::new(used[at]).unwrap()
        };
        for (a, b) in [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)].into_iter().chain([(0, 5); 6]) {
            builder.cable(s[a], port(a), s[b], port(b)).unwrap();
        }
        for (host, at) in [0, 0, 1, 1, 2, 2, 3, 3, 4, 4].into_iter().enumerate() {
            let (switch, port, adapter_port) = (s[at], port(at), PortNum::new(1).unwrap());
            let (node_guid, port_guid) = (guid(10 + host), guid(30 + host));
            let (lid, description, role) = (None, String::new(), Role::Host);
            let new =
                NewTerminal { node_guid, port_guid, adapter_port, lid, description, role, switch, port };
            builder.terminal(new).unwrap();
        }
        let fabric = builder.build().unwrap();
        let hosts: Vec<TerminalId> = fabric.host_ids().collect();
        let bound = |steps| lower_bound(&fabric, &[0; 6], &[&hosts[..4], &hosts[4..]], steps);
        assert_eq!((bound(Some(0)), bound(None)), (4, 6));
    }
}
