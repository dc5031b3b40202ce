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
use super::{Limits, TorusEngine, TorusRouteError};
use crate::model::{Torus, TorusDemand, TorusTables};

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
            let mut load = vec![0; torus.channel_slots()];
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
    let order = by_turns_and_length(&choice.flexible);
    let mut stamp = vec![0u32; load.len()];
    let mut round = 0;
    let mut left: Vec<Flexible> = Vec::new();
    for group in order.chunk_by(|a, b| key(a) == key(b) && a.source == b.source) {
        left.clear();
        left.extend_from_slice(group);
        while !left.is_empty() {
            round += 1;
            for pair in &left {
                choice.chosen[pair.pair as usize] = cheapest(choice, pair, load);
            }
            left.retain(|pair| {
                let shape = &choice.chosen[pair.pair as usize];
                let mut crosses = false;
                choice.legal.channels(pair.source, shape, |c| crosses |= stamp[c] == round);
                if !crosses {
                    choice.legal.channels(pair.source, shape, |c| {
                        stamp[c] = round;
                        load[c] += 1;
                    });
                }
                crosses
            });
        }
    }
}

fn key(pair: &Flexible) -> (u8, u16) {
    (pair.turns, pair.length)
}

fn by_turns_and_length(pairs: &[Flexible]) -> Vec<Flexible> {
    // Pairs come in the order of sources; a stable sort keeps that within a key.
    let mut order = pairs.to_vec();
    order.sort_by_key(key);
    order
}

fn cheapest(choice: &Choice<'_>, pair: &Flexible, load: &[u32]) -> super::minimal::Shape {
    let mut best = (u64::MAX, choice.chosen[pair.pair as usize]);
    for shape in choice.alternatives(pair) {
        let mut cost = 0;
        choice.legal.channels(pair.source, shape, |c| cost += u64::from(load[c]));
        if cost <= best.0 {
            best = (cost, *shape);
        }
    }
    best.1
}
