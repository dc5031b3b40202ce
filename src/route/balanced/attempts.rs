//! Several searches for the routes of jobs on small fabrics: one beside another gains or loses a twentieth, in trees a
//! hundredth. Predicted time tells which is better where channels are not crowded; else, and in trees, where predictions
//! do not tell, runs of the packet simulator choose (`race`).

use rayon::prelude::*;

use super::graft::Core;
use super::net::Net;
use super::portfolio::{Scene, entries};
use super::timed::is_whole_tree;
use super::{Aim, Balanced, Search, is_narrow, once};
use crate::model::{Demand, Fabric, LayerBudget, Tables};
use crate::route::graph::{Graph, is_indirect};
use crate::simulate::exchange;

/// Destinations × switches up to which there are this many more attempts; one less at twice the size, and so on.
const ENTRIES: usize = 1 << 16;
/// Hops to the farthest switch, up to which a route counts as one: that of all but lines and rings.
const HOPS: usize = 48;
/// See [`ENTRIES`]. Twice as many gain nothing.
const MORE: u32 = 4;
/// Destinations × switches of trees up to which there are more attempts.
const ENTRIES_IN_TREES: usize = 1 << 18;
/// So many in trees, if jobs have no more than [`PAIRS`]; with more of these fewer.
const MORE_IN_TREES: usize = 7;
/// So many orders of destinations on one layer, if jobs have no more than [`PAIRS`].
const ORDERS: usize = 8;
/// Pairs of ranks in all jobs of which coarse runs take less than a tenth of a second.
const PAIRS: usize = 20_000;

impl Balanced {
    /// Other searches for our own tables; none in large fabrics, and none with tables in force.
    pub(super) fn searches(&self, scene: &Scene<'_>) -> Vec<Search> {
        let Scene { fabric, net, demand, budget, .. } = *scene;
        let is_alone = self.aim == Aim::Counts || is_narrow(fabric, budget);
        if demand.is_oblivious() || is_alone || self.in_force(fabric).0.is_some() {
            return Vec::new();
        }
        match is_indirect(&net.hosts) {
            true if entries(fabric) > ENTRIES_IN_TREES => Vec::new(),
            true => more_in_tree((fabric, net), demand, budget).into_iter().map(Search::of).collect(),
            false => {
                let seeds = more(fabric);
                let strict = strict(&seeds);
                seeds.into_iter().map(Search::of).chain(strict).collect()
            }
        }
    }

    /// Our own tables by these searches.
    pub(super) fn attempts(&self, scene: &Scene<'_>, searches: Vec<Search>) -> Vec<Tables> {
        let Scene { fabric, net, demand, budget, .. } = *scene;
        let make = |search| {
            let of = Balanced { options: self.options.clone(), aim: self.aim, search };
            of.own(fabric, net, demand, budget).map(|own| own.tables).ok()
        };
        searches.into_par_iter().filter_map(make).collect()
    }
}

/// Seeds of the attempts after the first.
pub(super) fn more(fabric: &Fabric) -> Vec<u64> {
    (2..2 + u64::from(MORE.saturating_sub(doublings(fabric)))).collect()
}

/// How often a fabric is twice as large as one of [`ENTRIES`]. Routes of very many hops, as in lines and long rings, count
/// for as many entries as they take time.
pub(super) fn doublings(fabric: &Fabric) -> u32 {
    let far = Graph::new(fabric).hops_from([0]).into_iter().filter(|hops| *hops != u32::MAX).max();
    let times = (far.unwrap_or(0) as usize / HOPS).max(1);
    (times * entries(fabric)).div_ceil(ENTRIES).next_power_of_two().trailing_zeros()
}

/// Whether the simulator chooses among tables off trees: where there may be more than ours.
pub(super) fn is_simulated(fabric: &Fabric) -> bool {
    doublings(fabric) <= MORE
}

/// Whether it does so on a fabric with so many hosts at each switch.
pub(super) fn is_raced(fabric: &Fabric, hosts: &[u32]) -> bool {
    is_simulated(fabric) && !is_indirect(hosts)
}

/// Half as many searches whose routes are all as short as possible: longer ones pay where few ways lead past a full
/// channel, and crowd a fabric of many hosts that all send at once. Where no ring of cables has an odd number of them,
/// no way is one hop longer than the shortest, and these are searches like the others.
fn strict(seeds: &[u64]) -> Vec<Search> {
    let after = seeds.last().map_or(0, |last| last + 1);
    (after..after + seeds.len() as u64 / 2).map(|seed| Search { seed, slack: 0 }).collect()
}

/// Seeds of other orders in which [`Nue`](crate::route::nue::Nue) fills one layer, among which the simulator chooses.
pub(super) fn orders(demand: &Demand) -> std::ops::RangeInclusive<u64> {
    let pairs = exchange::pairs(&demand.groups).max(PAIRS);
    1..=(ORDERS * PAIRS / pairs) as u64
}

/// The same in a small tree that is whole: where cables are lost, warm sweeps leave channels less level. A job alone has
/// what is known to meet nowhere, or nearly so; on one layer the simulator would choose what takes longer.
fn more_in_tree((fabric, net): (&Fabric, &Net), demand: &Demand, budget: LayerBudget) -> Vec<u64> {
    let (jobs, pairs) = (demand.groups.len(), exchange::pairs(&demand.groups));
    let core = || once::core(fabric, net).as_ref().as_ref().is_some_and(Core::is_whole);
    let is_whole = || is_whole_tree(net) || core();
    if jobs < 2 || budget.get() == 1 || !exchange::is_short(&demand.groups) || !is_whole() {
        return Vec::new();
    }
    (2..2 + (MORE_IN_TREES * PAIRS / pairs.max(PAIRS)) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn twice_as_large_a_fabric_has_one_attempt_less() {
        let found = |spec: &str| {
            let fabric = generate(spec).unwrap();
            (doublings(&fabric), more(&fabric).len(), strict(&more(&fabric)).len(), is_simulated(&fabric))
        };
        assert_eq!(found("torus:6x6,hosts=4"), (0, 4, 2, true));
        assert_eq!(found("mesh:12x12,hosts=4"), (1, 3, 1, true), "103,680 entries");
        assert_eq!(found("torus:8x8x4,hosts=4"), (3, 1, 0, true), "327,680 entries");
        assert_eq!(found("torus:8x8x8,hosts=4"), (5, 0, 0, false), "1,310,720 entries");
        assert_eq!(found("mesh:300,hosts=1"), (5, 0, 0, false), "180,000 entries of 100 hops");
    }
}
