//! `angara-sssp`: Algorithms 3 and 4. Unique routes first; the other pairs in groups of one
//! source, by turns, then length, then source; in each round every pair of the group gets its
//! cheapest route, and those that do not cross each other are kept.
//!
//! Algorithm 4 searches the routing graph from the source. Its weights start at |N|², so it picks
//! among the minimal routes the one of least total load; here that minimum is taken over the
//! enumerated routes, which are the same set, so no graph is searched.
//!
//! Where the paper leaves freedom:
//! - Two routes cross if they share a channel.
//! - Sources go by descending coordinates with the last dimension most significant, destinations
//!   by descending index. Of the orders tried these come closest to Table 2.
//! - The number of turns of a pair is the fewest of its minimal routes.
//! - Of equally cheap routes the last enumerated is taken: first and last steps before the
//!   standard form, negative before positive.
//! - Each job is routed as if alone.

use super::choice::{self, Choice, Flexible};
use super::shape::Shape;
use super::{Limits, TorusEngine, TorusRouteError};
use crate::model::{NodeId, Torus, TorusDemand, TorusTables};

/// See the module.
pub struct Sssp;

impl TorusEngine for Sssp {
    fn name(&self) -> &'static str {
        "angara-sssp"
    }

    fn route(
        &self,
        torus: &Torus,
        demand: &TorusDemand,
        _limits: &Limits<'_>,
    ) -> Result<TorusTables, TorusRouteError> {
        let turns = choice::turns(torus, demand)?;
        let mut routes = Vec::with_capacity(demand.jobs.len());
        for job in 0..demand.jobs.len() {
            let mut load = Vec::new();
            let mut choice = Choice::new(torus, demand, job, &turns, &mut load)?;
            balance(&mut choice, &mut load);
            routes.push(choice.into_routes());
        }
        Ok(choice::tables(torus, demand, self.name(), routes))
    }
}

/// The second stage of Algorithm 3: settles all flexible pairs and adds their routes to `load`.
/// O(rounds × alternatives × hops).
pub(super) fn balance(choice: &mut Choice<'_>, load: &mut [u32]) {
    let pairs = std::mem::take(&mut choice.flexible);
    let order = by_turns_and_length(&pairs);
    let mut stamp = vec![0u32; load.len()];
    let mut round = 0;
    let (mut left, mut kept): (Vec<Flexible>, Vec<(NodeId, Shape)>) = Default::default();
    let of = |place: &u32| pairs[*place as usize];
    let one_group = |a: &u32, b: &u32| key(&of(a)) == key(&of(b)) && of(a).source == of(b).source;
    for group in order.chunk_by(one_group) {
        left.clear();
        left.extend(group.iter().map(of));
        while !left.is_empty() {
            round += 1;
            // Directions in which a route kept in this round leaves the source.
            let mut taken = 0u8;
            left.retain(|pair| {
                // Whatever route it takes crosses one at the source: no need to know which.
                if pair.exits & !taken == 0 {
                    return true;
                }
                let shape = cheapest(choice, pair, load);
                let mut crosses = taken & shape.exit().bit() != 0;
                choice.legal.spans(pair.source, &shape, |s| {
                    crosses = crosses || stamp[s.slots()].contains(&round);
                });
                if !crosses {
                    taken |= shape.exit().bit();
                    choice.chosen[pair.pair as usize] = shape;
                    choice.legal.spans(pair.source, &shape, |s| s.each(|c| stamp[c] = round));
                    kept.push((pair.source, shape));
                }
                crosses
            });
            for (source, shape) in kept.drain(..) {
                choice.legal.spans(source, &shape, |s| s.each(|c| load[c] += 1));
            }
        }
    }
    choice.flexible = pairs;
}

fn key(pair: &Flexible) -> (u8, u16) {
    (pair.turns, pair.length)
}

/// Places in the list of pairs.
fn by_turns_and_length(pairs: &[Flexible]) -> Vec<u32> {
    // Pairs come in the order of sources; a stable sort keeps that within a key.
    let mut order: Vec<u32> = (0..pairs.len() as u32).collect();
    order.sort_by_key(|place| key(&pairs[*place as usize]));
    order
}

fn cheapest(choice: &Choice<'_>, pair: &Flexible, load: &[u32]) -> Shape {
    let mut best = (u64::MAX, Shape::default());
    for shape in choice.alternatives(pair) {
        let mut cost = 0;
        choice.legal.spans(pair.source, shape, |s| {
            for l in &load[s.slots()] {
                cost += u64::from(*l);
            }
        });
        if cost <= best.0 {
            best = (cost, *shape);
        }
    }
    best.1
}
